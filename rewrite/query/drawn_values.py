"""Values that rows of a MERGE draw, from sequences or at random: PostgreSQL does it afterwards.

Before: ``WHEN NOT MATCHED THEN INSERT (id, v) VALUES (nextval('s'), q.v)``, the second clause.
After: ``… AS n1 …, v.place AS place``, where ``n1`` is NULL in rows whose ``place`` is 2: a
`DrawnColumn` says what is to be put there. An UPDATE draws alike.

Not handled: values that are computed from what is drawn, in the row or in what is returned of it;
keys that an UPDATE draws, and what is returned of rows that draw and get other keys.
"""

from collections.abc import Iterator
from typing import Final

from catalog.model import JournalTable
from rewrite.command import Command, MergeAction
from rewrite.dialect import oids
from rewrite.errors import UnsupportedError
from rewrite.query.compilation import Compilation
from rewrite.results import Drawn, DrawnColumn
from rewrite.tree import Node, parse_item, walk

_NEXTVAL: Final = 1574
_FUNCTIONS: Final = {1598: ("random", oids.FLOAT8), 3432: ("gen_random_uuid", oids.UUID)}
"""Functions without arguments, by their OIDs, with the types that they yield."""
_INTEGER_CASTS: Final = frozenset({480, 714})
"""OIDs of the casts of bigint to integer and to smallint."""
_INTEGERS: Final = frozenset({oids.INT2, oids.INT4, oids.INT8})
_OLD: Final = 1


def drawn(table: JournalTable, attno: int, node: Node) -> Drawn | None:
    """Return what an expression draws for a column; None where it is another one."""
    type_oid = table.column(attno).type_oid
    if node.tag == "NEXTVALUEEXPR" and type_oid in _INTEGERS:
        return Drawn("nextval", node.integer("seqid"), owned=True)
    if node.tag == "FUNCEXPR" and node["funcid"] in _INTEGER_CASTS:
        node = node.nodes("args")[0]
    if node.tag != "FUNCEXPR":
        return None
    if node["funcid"] == _NEXTVAL and type_oid in _INTEGERS:
        sequence = node.nodes("args")[0]
        datum = sequence["constvalue"] if sequence.tag == "CONST" else None
        if isinstance(datum, bytes):
            return Drawn("nextval", int.from_bytes(datum[:4], "little"))
    function, yields = _FUNCTIONS.get(node.integer("funcid"), ("", 0))
    return Drawn(function, None) if function and yields == type_oid else None


def drawn_columns(
    compilation: Compilation,
    query: Node,
    table: JournalTable,
    actions: tuple[MergeAction, ...],
) -> tuple[DrawnColumn, ...]:
    """Return the columns of written rows whose values are drawn.

    Raises:
        UnsupportedError: Others are computed from them, or a key is drawn for a row that has one.
    """
    found = tuple(
        DrawnColumn(attno, place, what, _returned(query, attno))
        for place, action in enumerate(actions, 1)
        if action.command in {Command.INSERT, Command.UPDATE}
        for attno, node in sorted(action.assigned.items())
        if (what := drawn(table, attno, node)) is not None
    )
    for one in found:
        _require_known_key(compilation, table, actions[one.place - 1], one)
    attnos = {column.attnum for column in found}
    context = compilation.context
    rules = [
        *context.generated.get(table.relid, {}).values(),
        *(check.expression for check in context.checks.get(table.relid, ())),
    ]
    if attnos and any(attnos & set(_columns(rule)) for rule in rules):
        raise UnsupportedError(
            "generated columns and CHECK constraints of what a large MERGE draws are not supported"
        )
    return found


def _require_known_key(
    compilation: Compilation, table: JournalTable, action: MergeAction, column: DrawnColumn
) -> None:
    if action.command is not Command.UPDATE:
        return
    if column.attnum in table.key:
        raise UnsupportedError("keys that a large MERGE draws in UPDATE are not supported")
    generated = compilation.context.generated.get(table.relid, {})
    if column.returned and not {*action.assigned, *generated}.isdisjoint(table.key):
        raise UnsupportedError(
            "RETURNING of a value that a large MERGE draws for a row that it gives another key is"
            " not supported"
        )


def _columns(rule: str) -> Iterator[int]:
    node = parse_item(rule)
    if isinstance(node, Node):
        for one, _ in walk(node):
            if one.tag == "VAR":
                yield one.integer("varattno")


def _returned(query: Node, attno: int) -> tuple[str, ...]:
    """Return the columns of RETURNING that are a column of new rows."""
    names, varno = [], query.integer("resultRelation")
    for number, entry in enumerate(query.nodes("returningList"), 1):
        node = entry.node("expr")
        if _is_new(node, 0, varno, attno):
            names.append(f"r{number}")
        elif any(_is_new(one, depth, varno, attno) for one, depth in walk(node)):
            raise UnsupportedError(
                "RETURNING of what is computed from a value that a large MERGE draws is not"
                " supported"
            )
    return tuple(names)


def _is_new(node: Node, depth: int, varno: int, attno: int) -> bool:
    return (
        node.tag == "VAR"
        and node["varlevelsup"] == depth
        and node["varno"] == varno
        and node["varattno"] in {attno, 0}
        and node.get("varreturningtype", 0) != _OLD
    )
