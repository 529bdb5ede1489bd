"""Implicit casts PostgreSQL's planner adds between set operation branches, after analysis."""

from typing_extensions import override

from rewrite.errors import UnsupportedError
from rewrite.expressions import compile_expression
from rewrite.query.compilation import Compilation
from rewrite.query.scopes import QueryScope
from rewrite.tree import Item, Node
from rewrite.values import Value

_NO_QUERY = Node("QUERY")

# pg_cast, castcontext = 'i': (source, target) → function, 0 for binary coercible types.
_CASTS = {
    (20, 700): 652,
    (20, 701): 482,
    (20, 1700): 1781,
    (21, 20): 754,
    (21, 23): 313,
    (21, 700): 236,
    (21, 701): 235,
    (21, 1700): 1782,
    (23, 20): 481,
    (23, 26): 0,
    (23, 700): 318,
    (23, 701): 316,
    (23, 1700): 1740,
    (25, 1042): 0,
    (25, 1043): 0,
    (700, 701): 311,
    (1042, 25): 401,
    (1042, 1043): 401,
    (1043, 25): 0,
    (1043, 1042): 0,
    (18, 25): 946,
    (19, 25): 406,
    (1082, 1114): 2024,
    (1082, 1184): 1174,
    (1114, 1184): 2028,
    (1083, 1186): 1370,
    (1700, 700): 1745,
    (1700, 701): 1746,
}


class ValueScope(QueryScope):
    """A scope whose only column is a given value."""

    def __init__(self, compilation: Compilation, value: Value) -> None:
        super().__init__(compilation, _NO_QUERY, None)
        self._value = value

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return the value."""
        del varno, attno
        return self._value


def coerced(compilation: Compilation, value: Value, type_oid: int) -> Value:
    """Return a value as another type to which it has an implicit cast."""
    if value.type_oid == type_oid:
        return value
    function = _CASTS.get((value.type_oid, type_oid))
    if function is None:
        raise UnsupportedError("set operation over columns of these types is not supported")
    variable = Node(
        "VAR",
        {"varno": 1, "varattno": 1, "vartype": value.type_oid, "vartypmod": -1, "varlevelsup": 0},
    )
    fields: dict[str, Item] = {"resulttype": type_oid, "resulttypmod": -1, "arg": variable}
    node = Node("RELABELTYPE", fields)
    if function:
        fields = {"funcid": function, "funcresulttype": type_oid, "funcretset": False}
        fields |= {"funcvariadic": False, "funcformat": 2, "inputcollid": 0, "args": [variable]}
        node = Node("FUNCEXPR", fields)
    return compile_expression(node, ValueScope(compilation, value))
