"""The source of a MERGE as a query of its own, whose rows are given to the rest of it.

Before: ``MERGE INTO t USING (SELECT …) s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.a)``.
After: ``SELECT s.x1 AS c1 FROM (SELECT …) AS s``; ``t`` is joined to the rows of that, and only
those of its rows are read that can match: ``t LEFT SEMI JOIN source ON t.a = source.c1``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp
from typing_extensions import override

from catalog.journal.layout import column_name
from catalog.model import Column
from rewrite.context import GivenSource
from rewrite.dialect import oids
from rewrite.dialect.type_mapping import is_stored_as_it_is, numeric_shape
from rewrite.expressions import read_stored, to_stored
from rewrite.journal.current_rows import CurrentRows, source
from rewrite.query.compilation import Compilation
from rewrite.query.failing import can_fail
from rewrite.query.from_clause import from_clause
from rewrite.query.merge_clauses import Join, Merge
from rewrite.query.predicates import conjuncts
from rewrite.query.row_bounds import column_of, is_equality
from rewrite.query.scopes import FromScope, QueryScope
from rewrite.query.spark_text import output, spark_query
from rewrite.query.sql import aliased, column, conjunction, disjunction, literal, named, select
from rewrite.results import MergeSource, SourcePart
from rewrite.tree import Node, walk
from rewrite.values import Value

_INTEGERS = frozenset({20, 21, 23})
"""OIDs of the types whose values Spark compares as files are sorted by them."""


class _GivenScope(QueryScope):
    """The rows of a source that have been computed before."""

    def __init__(self, compilation: Compilation, query: Node, given: GivenSource) -> None:
        super().__init__(compilation, query, None)
        self._given = given
        self.alias = compilation.name("g")

    def item(self) -> exp.Expression:
        """Return them as a FROM item."""
        snapshot = self._given.snapshot
        rows = source(snapshot, SourcePart.RECENT)
        number = snapshot.tail_rows + snapshot.stored_rows
        return self.compilation.read(rows, number, self.alias)

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of them."""
        number = self._given.columns.index((varno, attno))
        definition = self._given.snapshot.table.columns[number]
        stored = column(column_name(definition.attnum), self.alias)
        return read_stored(stored, definition.type_oid, definition.typmod)


def source_scope(merge: Merge) -> tuple[QueryScope, exp.Select]:
    """Return the rows of the source, given ones if there are any, as a SELECT without columns."""
    query, given = merge.query, merge.compilation.context.given
    if given is not None:
        scope = _GivenScope(merge.compilation, query, given)
        rows = select([], scope.item())
        scope.rows = rows
        return scope, rows
    jointree = query.node("jointree").replace(quals=None)
    reading = query.replace(jointree=jointree, targetList=None)
    inner, rows, _ = from_clause(FromScope(merge.compilation, reading, None), [])
    return inner, rows


def compile_source(merge: Merge) -> MergeSource | None:
    """Compile the source alone; None where it is better read with the rest."""
    if merge.join not in {Join.INNER, Join.SOURCE} or not list(_comparisons(merge)):
        return None
    scope, rows = source_scope(merge)
    places = sorted(_named(merge))
    definitions = []
    for number, (varno, attno) in enumerate(places, 1):
        value = scope.local(varno, attno)
        if not is_stored_as_it_is(value.type_oid):
            return None
        stored, typmod = _of_table(scope, varno, attno) or _of_value(value)
        rows.append("expressions", named(stored, column_name(number)))
        definitions.append(
            Column(number, column_name(number), value.type_oid, typmod, False, column_name(number))
        )
    table = replace(
        merge.table,
        relid=0,
        columns=tuple(definitions),
        key=(),
        checks=(),
        unique_keys=(),
        referencing=(),
        division=None,
    )
    columns = [
        output(one.name, read_stored(column(one.name), one.type_oid, one.typmod))
        for one in definitions
    ]
    query = spark_query(merge.compilation, rows, columns, None)
    ranged = {
        places.index(place)
        for place, _, _ in _comparisons(merge)
        if definitions[places.index(place)].type_oid in _INTEGERS
    }
    return MergeSource(query, table, tuple(places), frozenset(ranged))


def _of_table(scope: QueryScope, varno: int, attno: int) -> tuple[exp.Expression, int] | None:
    """Return a column of a table as it is in files, and its type modifier; None for other values.

    A source of such columns alone can be read without Spark.
    """
    relation = scope.relations.get(varno) if isinstance(scope, FromScope) else None
    if not isinstance(relation, CurrentRows):
        return None
    return relation.stored(attno), relation.definition(attno).typmod


def _of_value(value: Value) -> tuple[exp.Expression, int]:
    """Return a value as it is stored without loss, and the type modifier of such a column."""
    is_kept = value.type_oid != oids.NUMERIC or value.decimal == numeric_shape(value.typmod)
    typmod = value.typmod if is_kept else -1
    return to_stored(value, value.type_oid, typmod), typmod


def _named(merge: Merge) -> set[tuple[int, int]]:
    """Return the columns of the source that the rest of the statement names."""
    query = merge.query
    items = [query["mergeJoinCondition"], query["returningList"], query["mergeActionList"]]
    return {
        (node.integer("varno"), node.integer("varattno"))
        for item in items
        for node, depth in walk(item)
        if node.tag == "VAR" and node["varlevelsup"] == depth and node["varno"] != merge.varno
    }


def _comparisons(merge: Merge) -> Iterator[tuple[tuple[int, int], int, Node]]:
    """Yield what ON compares of the source with a column of the target, that column, and how."""
    for qual in conjuncts(merge.query["mergeJoinCondition"]):
        if not is_equality(qual):
            continue
        left, right = (column_of(side) for side in qual.nodes("args"))
        for one, other in ((left, right), (right, left)):
            if one and other and one[0] == merge.varno and other[0] != merge.varno:
                yield other, one[1], qual


def reduced(merge: Merge, item: exp.Expression, pairs: QueryScope) -> exp.Expression:
    """Return the target as a FROM item with no more rows than a given source can match.

    Args:
        merge: The statement.
        item: The target.
        pairs: Where its columns are found.
    """
    given, compilation = merge.compilation.context.given, merge.compilation
    if given is None:
        return item
    scope = _GivenScope(compilation, merge.query, given)
    found = _MatchScope(scope, pairs, merge)
    conditions = []
    for place, attno, qual in _comparisons(merge):
        condition = found.compile(qual).sql
        conditions.append(condition if can_fail(qual) else compilation.bare(condition))
        ranges = given.ranges.get(given.columns.index(place))
        if ranges and merge.table.column(attno).type_oid in _INTEGERS:
            stored = pairs.local(merge.varno, attno).sql
            conditions.append(compilation.bare(_within(stored, ranges)))
    # Columns that the rest asks for are added to what `item` selects.
    join = exp.Join(this=scope.item(), side="LEFT", kind="SEMI", on=conjunction(conditions))
    rows = select([exp.Star()], item)
    rows.append("joins", join)
    return aliased(rows, merge.rows.alias)


def _within(value: exp.Expression, ranges: Sequence[tuple[int, int]]) -> exp.Expression:
    found = [
        exp.And(
            this=exp.GTE(this=value.copy(), expression=literal(first)),
            expression=exp.LTE(this=value.copy(), expression=literal(last)),
        )
        for first, last in ranges
    ]
    return disjunction(found) or exp.true()


def matches_once(merge: Merge) -> bool:
    """Return whether no row of the target can have a match with two rows of a given source.

    It cannot where ON compares its key with a column that has no value twice.
    """
    given = merge.compilation.context.given
    return given is not None and any(
        merge.key == (attno,) and given.columns.index(place) in given.distinct
        for place, attno, _ in _comparisons(merge)
    )


def matches_little(merge: Merge) -> bool:
    """Return whether all rows of the target that a given source matches are little in memory."""
    given = merge.compilation.context.given
    compared = {attno for _, attno, _ in _comparisons(merge)}
    return given is not None and given.is_little and compared >= set(merge.key) != set()


class _MatchScope(QueryScope):
    """A row of the target, and one of the source that may match it."""

    def __init__(self, given: _GivenScope, pairs: QueryScope, merge: Merge) -> None:
        super().__init__(merge.compilation, merge.query, None)
        self._given = given
        self._pairs = pairs
        self._varno = merge.varno

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of one of them."""
        scope = self._pairs if varno == self._varno else self._given
        return scope.local(varno, attno)
