"""Which expressions have the same value when rows are searched and when the statement runs.

The search happens before the statement, in the same transaction. Immutable functions count, and
those stable ones that depend on nothing but the transaction's time and the session's settings: the
search has to be evaluated with both (``transaction_timestamp()``, not the clock; TimeZone, the role
and the other settings of the session). Volatile functions never count, ``clock_timestamp()`` among
them, nor do stable ones that look at the statement's time or at tables.
"""

from collections.abc import Callable

from catalog.pg.nodes import ParamKind
from rewrite.dialect.oids import FIRST_USER_OID
from rewrite.tree import Node, walk

_PLAIN = frozenset(
    {
        "ARRAYCOERCEEXPR",
        "ARRAYEXPR",
        "BOOLEANTEST",
        "BOOLEXPR",
        "CASEEXPR",
        "CASETESTEXPR",
        "CASEWHEN",
        "COALESCEEXPR",
        "COLLATEEXPR",
        "CONST",
        "NULLTEST",
        "RELABELTYPE",
        "SQLVALUEFUNCTION",
        "VAR",
    }
)
"""Nodes that call no function. Whatever is not named here does not count."""
_CALLS = {
    "DISTINCTEXPR": "opfuncid",
    "FUNCEXPR": "funcid",
    "NULLIFEXPR": "opfuncid",
    "OPEXPR": "opfuncid",
    "SCALARARRAYOPEXPR": "opfuncid",
}
_EXTERNAL = ParamKind.EXTERN
_OF_TRANSACTION = frozenset(
    {
        *(1171, 1174, 1176, 1178, 1189, 1190, 1217, 1299, 1386, 1388, 1768, 1770, 1778, 1780, 2019),
        *(2027, 2028, 2037, 2047, 2049, 2059, *range(2351, 2358), *range(2377, 2384)),
        *(*range(2520, 2534), 2549, 2647, 3462, 3463, 6203, 6221, 6223, 6334, 6335, 6336),
    }
)
"""Stable functions (pg_proc) of dates and times; statement_timestamp() is not among them."""


def is_steady(node: Node, volatility: Callable[[int], str]) -> bool:
    """Return whether an expression has one value for a row throughout a transaction."""
    return all(_is_steady(part, volatility) for part, _ in walk(node))


def is_constant(node: Node, volatility: Callable[[int], str]) -> bool:
    """Return whether an expression has one value throughout a transaction, whatever the row."""
    if node.tag == "CONST":
        return True
    return all(part.tag != "VAR" and _is_steady(part, volatility) for part, _ in walk(node))


def _is_steady(node: Node, volatility: Callable[[int], str]) -> bool:
    if node.tag == "PARAM":
        return node["paramkind"] == _EXTERNAL
    if node.tag not in _CALLS:
        return node.tag in _PLAIN
    function = node.integer(_CALLS[node.tag])
    if node.get("funcretset") or not 0 < function < FIRST_USER_OID:
        return False
    return function in _OF_TRANSACTION or volatility(function) == "i"
