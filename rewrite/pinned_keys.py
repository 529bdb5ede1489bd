"""Which single row of a table a statement can concern: the key its WHERE clause fixes.

Whoever holds the newest row versions in memory can look the row up there, and spare Spark either
them or everything else.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from catalog.model import JournalTable
from catalog.pg.nodes import CmdType, RTEKind
from rewrite.context import ParameterValue
from rewrite.key_constants import UnknownValueError, constant
from rewrite.key_types import has_one_form, one_form
from rewrite.query.predicates import conjuncts
from rewrite.query.row_bounds import column_of
from rewrite.tree import Node, walk

_RELATION = RTEKind.RELATION
_EQUALITIES = frozenset(
    {
        *(15, 91, 94, 96, 98, 410, 416, 532, 533, 607, 1054, 1093, 1108, 1320, 1752, 1862, 1868),
        *(1955, 2060, 2972),
    }
)
"""Operators "=" (pg_operator) of types of keys. Those of other types compare converted columns."""


def pinned_keys(
    query: Node,
    tables: Mapping[int, JournalTable],
    parameters: tuple[ParameterValue, ...],
) -> dict[int, tuple[object, ...]]:
    """Return the key, in key order, of each table of which the statement reads one row at most.

    That holds for a table the whole statement names once, with a condition ``column = constant``
    for each column of its key that every row of the result satisfies.

    Args:
        query: An analysed SELECT, UPDATE or DELETE.
        tables: Journaled tables by OID; those whose journals are read, too, are to be left out.
        parameters: Values of the statement's parameters.
    """
    if query["commandType"] == _MERGE:
        return {}  # New rows have other keys.
    named = Counter(
        node["relid"]
        for node, _ in walk(query)
        if node.tag == "RANGETBLENTRY" and node["rtekind"] == _RELATION
    )
    fixed = _fixed_columns(query, parameters)
    found = {}
    for varno, entry in enumerate(query.nodes("rtable"), 1):
        table = tables.get(entry.integer("relid")) if entry["rtekind"] == _RELATION else None
        if table is None or not table.key or named[table.relid] != 1:
            continue
        columns = [table.column(attnum) for attnum in table.key]
        values = tuple(
            one_form(fixed.get((varno, column.attnum)), column.type_oid, column.typmod)
            for column in columns
            if has_one_form(column.type_oid, column.typmod)
        )
        if len(values) == len(columns) and None not in values:
            found[table.relid] = values
    return found


def plain_columns(query: Node, table: JournalTable) -> list[int] | None:
    """Return the columns that a SELECT of one row, fixed by its key, consists of, in order.

    None for whatever asks for more than columns as they are: then the row of the table is not yet
    the row of the result.
    """
    if query.tag != "QUERY" or any(
        value for name, value in query.fields.items() if name not in _PLAIN_CLAUSES
    ):
        return None
    entries, tree = query.nodes("rtable"), query.node("jointree")
    if query["commandType"] != _SELECT or len(entries) != 1 or len(tree.items("fromlist")) != 1:
        return None
    (entry,) = entries
    if entry["relid"] != table.relid or entry.get("tablesample") or entry.get("securityQuals"):
        return None
    if len(conjuncts(tree["quals"])) != len(table.key):
        return None
    columns = [_column_of_row(target) for target in query.nodes("targetList")]
    return [attnum for attnum in columns if attnum] if all(columns) else None


def _column_of_row(target: Node) -> int | None:
    """Return the attribute number of the column that an entry of a target list is; else None."""
    value = target.node("expr")
    plain = value.tag == "VAR" and value["varlevelsup"] == 0 and not target["resjunk"]
    return value.integer("varattno") if plain and value.integer("varattno") > 0 else None


_SELECT, _MERGE = CmdType.SELECT, CmdType.MERGE
_PLAIN_CLAUSES = frozenset(
    {
        "commandType",
        "querySource",
        "queryId",
        "canSetTag",
        "rtable",
        "rteperminfos",
        "jointree",
        "targetList",
        "override",
        "stmt_location",
        "stmt_len",
    }
)
"""Fields of a query that any SELECT fills."""


def _fixed_columns(
    query: Node, parameters: tuple[ParameterValue, ...]
) -> dict[tuple[int, int], object]:
    """Return the columns WHERE compares with a constant, by (varno, attnum), with its value."""
    found: dict[tuple[int, int], object] = {}
    for qual in conjuncts(query.node("jointree")["quals"]):
        if qual.tag != "OPEXPR" or qual["opno"] not in _EQUALITIES:
            continue
        left, right = qual.nodes("args")
        for one, other in ((left, right), (right, left)):
            column = column_of(one)
            if column is None:
                continue
            with suppress(UnknownValueError):
                value = constant(other, parameters)
                if value is not None:
                    found[column] = value
    return found
