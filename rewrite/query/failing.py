"""Which conditions can fail with an error for some value of a column.

Spark moves conditions down to where rows are read, even below what tells which row versions are
current. A condition that cannot fail does no harm there, and spares reading files. One that can
must not see the values of rows that are there no more, nor may one that is computed from them.
"""

import re
from typing import Final

from catalog.pg.functions import PROCEDURES
from catalog.pg.nodes import ParamKind
from rewrite.tree import Item, Node, walk

_CALLS: Final = {
    "DISTINCTEXPR": "opfuncid",
    "FUNCEXPR": "funcid",
    "NULLIFEXPR": "opfuncid",
    "OPEXPR": "opfuncid",
    "SCALARARRAYOPEXPR": "opfuncid",
}
_CONVERSIONS: Final = frozenset({"ARRAYCOERCEEXPR", "COERCEVIAIO"})
_COMPARISON: Final = re.compile(
    r"(bool|bpchar|bytea|char|name|oid|text|int[248]{1,2}|float[48]{1,2})"
    r"(eq|ne|lt|le|gt|ge)(name|text)?"
    r"|(bpchar|date|interval|numeric|text|time|timestamp|timestamptz|uuid)"
    r"_(eq|ne|lt|le|gt|ge)(_date|_timestamp|_timestamptz)?"
)
_WIDENING: Final = frozenset(
    {
        *("int4(int2)", "int8(int2)", "int8(int4)", "numeric(int2)", "numeric(int4)"),
        *("numeric(int8)", "float4(int2)", "float4(int4)", "float4(int8)", "float8(int2)"),
        *("float8(int4)", "float8(int8)", "float8(float4)", "text(bpchar)", "text(name)"),
    }
)
_LIKE: Final = frozenset({"bpcharlike", "bpcharnlike", "textlike", "textnlike"})
"""Only patterns fail."""

_TOTAL: Final = frozenset(
    oid
    for oid, (name, signature) in PROCEDURES.items()
    if _COMPARISON.fullmatch(name) or signature in _WIDENING
)
_REMAINDER: Final = re.compile(r"int[248]mod")
_REMAINDERS: Final = frozenset(
    oid for oid, (name, _) in PROCEDURES.items() if _REMAINDER.fullmatch(name)
)
"""Only 0 as divisor fails."""

_MATCHES: Final = frozenset(oid for oid, (name, _) in PROCEDURES.items() if name in _LIKE)

_COLUMNS: Final = frozenset({"CASETESTEXPR", "VAR"})
_PARAM_SUBLINK: Final = ParamKind.SUBLINK
"""Of the parameters those that stand for a column of a subquery."""

_ENDS: Final = ("targetList", "returningList")
"""Fields of what is selected, assigned or returned."""


def can_fail(item: Item) -> bool:
    """Return whether an expression fails for some values of columns, for all that is known."""
    if isinstance(item, list):
        return any(can_fail(part) for part in item)
    if not isinstance(item, Node):
        return False
    if item.tag == "AGGREF":
        # What is computed of groups stays above them.
        return _can_subquery_fail(item)
    if item.tag == "MERGEACTION":
        return _can_fail_before_its_end(item)
    return _fails(item) or any(can_fail(value) for value in item.fields.values())


def _can_fail_before_its_end(node: Node) -> bool:
    """Return the same of a statement, or an action, without what is computed of the rows left."""
    return _can_subquery_fail([node.get(name) for name in _ENDS]) or can_fail(
        [value for name, value in node.fields.items() if name not in _ENDS]
    )


def _can_subquery_fail(item: Item) -> bool:
    return any(can_fail(part) for part, _ in walk(item) if part.tag == "SUBLINK")


def _fails(node: Node) -> bool:
    if node.tag in _CONVERSIONS:
        return _has_columns(node)
    if node.tag not in _CALLS:
        return False
    function = node.integer(_CALLS[node.tag])
    if function in _MATCHES:
        return _has_columns(node.nodes("args")[1])
    if function in _REMAINDERS and _is_some_number(node.nodes("args")[1]):
        return False
    return function not in _TOTAL and _has_columns(node)


def _is_some_number(node: Node) -> bool:
    """Return whether a node is a constant integer other than 0."""
    while node.tag == "FUNCEXPR" and node.integer("funcid") in _TOTAL:
        (node,) = node.nodes("args")
    datum = node["constvalue"] if node.tag == "CONST" else None
    return isinstance(datum, bytes) and any(datum)


def _has_columns(node: Node) -> bool:
    return any(map(_is_column, (part for part, _ in walk(node))))


def _is_column(node: Node) -> bool:
    """Return whether a node may stand for the value of a column."""
    if node.tag == "PARAM":
        return node["paramkind"] == _PARAM_SUBLINK
    return node.tag in _COLUMNS


def filters_by_what_can_fail(statement: Node) -> bool:
    """Return whether a condition of a statement, or what one may be about, can fail."""
    if not any(_leaves_rows_out(node) for node, _ in walk(statement)):
        return False
    return _can_fail_before_its_end(statement)


def _leaves_rows_out(node: Node) -> bool:
    if node.tag in {"SETOPERATIONSTMT", "SUBLINK"}:
        return True
    return any(node.get(name) for name in ("quals", "havingQual", "mergeJoinCondition"))


def is_total(node: Node) -> bool:
    """Return whether a node is a call that has a value for whatever its arguments are."""
    return node.tag in _CALLS and node.integer(_CALLS[node.tag]) in _TOTAL
