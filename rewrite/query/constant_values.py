"""Values known when a statement is compiled: counts, frame offsets, what a key must equal."""

from catalog.pg.nodes import ParamKind
from rewrite.context import RewriteContext
from rewrite.dialect.constants import decode
from rewrite.dialect.oids import TEXT
from rewrite.errors import UnsupportedError
from rewrite.tree import Node

_INTEGERS = frozenset({20, 21, 23})
# Casts among integers (pg_cast): their value is that of the argument, if it fits.
_INTEGER_CASTS = frozenset({313, 314, 480, 481, 714, 754})
_EXTERNAL = ParamKind.EXTERN


def constant_integer(node: Node, context: RewriteContext) -> int | None:
    """Return the integer an expression has without looking at rows; None for NULL.

    Raises:
        UnsupportedError: 0A000 for more than constants, parameters and casts among integers.
    """
    if node.tag == "CONST" and node["consttype"] in _INTEGERS:
        return _integer(node)
    if node.tag == "PARAM" and node["paramkind"] == _EXTERNAL and node["paramtype"] in _INTEGERS:
        value = context.parameters[node.integer("paramid") - 1].value
        return None if value is None else int(str(value))
    if node.tag == "FUNCEXPR" and node["funcid"] in _INTEGER_CASTS:
        return constant_integer(node.nodes("args")[0], context)
    raise UnsupportedError(
        "expression instead of a constant in LIMIT, OFFSET or a window frame is not supported"
    )


def _integer(node: Node) -> int | None:
    datum = node["constvalue"]
    if not isinstance(datum, bytes):
        return None
    return int.from_bytes(datum[: node.integer("constlen")], "little", signed=True)


def text_columns(query: Node) -> dict[int, str | None]:
    """Return the columns of a SELECT that are constants of type text, counted from 0."""
    columns = [entry.node("expr") for entry in query.nodes("targetList") if not entry["resjunk"]]
    return {
        number: str(decode(TEXT, column["constvalue"]))
        if isinstance(column["constvalue"], bytes)
        else None
        for number, column in enumerate(columns)
        if column.tag == "CONST" and column["consttype"] == TEXT
    }


def is_constant(node: Node) -> bool:
    """Whether an expression is a constant or parameter, perhaps cast: one value per statement."""
    while True:
        if node.tag == "CONST":
            return True
        if node.tag == "PARAM":
            return node["paramkind"] == _EXTERNAL
        if node.tag in {"RELABELTYPE", "COERCEVIAIO"}:
            node = node.node("arg")
        elif node.tag == "FUNCEXPR" and node["funcformat"] in {1, 2}:
            # A cast: its further arguments are a type modifier and a flag.
            first, *rest = node.nodes("args")
            if any(argument.tag != "CONST" for argument in rest):
                return False
            node = first
        else:
            return False
