"""MERGE: what becomes of each row of the target and of the source, in one query.

Before: ``MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b
WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)``.
After: ``SELECT v.command AS action, v.w1 AS n1, v.w2 AS n2, CASE … END AS conflict FROM
(SELECT CASE m.action WHEN 1 THEN 2 ELSE 3 END AS command, … FROM (SELECT CASE WHEN t.a IS NOT NULL
THEN 1 ELSE 2 END AS action, … FROM (…) AS s LEFT JOIN t ON t.a = s.a) AS m WHERE m.action > 0)
AS v``.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp
from typing_extensions import override

from catalog.journal.layout import IDENTITY
from catalog.pg import types
from rewrite.command import Command, Matching
from rewrite.errors import UnsupportedError
from rewrite.expressions import to_stored
from rewrite.journal.current_rows import CurrentRows, typed_null
from rewrite.query.changed_rows import (
    ChangedScope,
    Target,
    check_conditions,
    generated_values,
    returning_columns,
    stored_output,
)
from rewrite.query.compilation import Compilation
from rewrite.query.drawn_values import drawn_columns
from rewrite.query.merge_clauses import Join, Merge, case, is_command, understood
from rewrite.query.merge_conflicts import conflict
from rewrite.query.merge_moves import MovedRows
from rewrite.query.merge_sources import (
    compile_source,
    matches_little,
    reduced,
    source_scope,
)
from rewrite.query.predicates import compile_filter, conjuncts
from rewrite.query.scopes import LayerScope, QueryScope, over_sublinks
from rewrite.query.spark_text import spark_query
from rewrite.query.sql import (
    aliased,
    broadcast,
    column,
    disjunction,
    is_null,
    literal,
    named,
    negation,
    select,
)
from rewrite.query.sublinks import holds_sublink
from rewrite.query.subquery_rows import multiple_sublinks
from rewrite.results import ACTION, CONFLICT, MOVED, PLACE, MergeSource, OutputColumn, RowChange
from rewrite.tree import Item, Node, transform
from rewrite.values import Value

# Numbers no range table has.
_IDENTITY = -203
_SOURCE = -204
_ACTION = -205
_COMMAND = -206

_BOOLEAN, _INT4, _INT8, _TEXT = types.BOOL, types.INT4, types.INT8, types.TEXT

_NAMES = {Command.UPDATE: "UPDATE", Command.DELETE: "DELETE", Command.INSERT: "INSERT"}
"""What merge_action() answers."""


class _PairScope(QueryScope):
    """Pairs of a row of the source and a row of the target, each of which may be missing."""

    def __init__(self, source: LayerScope, query: Node, target: CurrentRows) -> None:
        super().__init__(source.compilation, query, None)
        self._source = source
        self._target = target
        self._varno = query.integer("resultRelation")

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of one of them."""
        if varno == _SOURCE:
            return Value(column("present", self._source.alias), _BOOLEAN)
        if varno == _IDENTITY:
            return self._target.row_identity()
        if varno == self._varno:
            return self._target.column(attno)
        return self._source.local(varno, attno)


class _DecidedScope(LayerScope):
    """Pairs for which it is decided what is done."""

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the pair, or the number of the action."""
        if varno == _ACTION:
            return Value(column(ACTION, self.alias), _INT4)
        return super().local(varno, attno)


class _MergedScope(ChangedScope):
    """Changed rows: the target's Vars are what is written, of deleted rows what was there."""

    def __init__(self, inner: QueryScope, matched: exp.Select, alias: str, target: Target) -> None:
        super().__init__(inner, matched, alias, target)
        self.became: dict[int, exp.Expression] = {}

    @override
    def new_value(self, attno: int) -> Value:
        """Return a column of what the row has become; NULL for a deleted one."""
        return self.row.value(self.became, attno)

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the row, or what merge_action() answers."""
        if varno != _COMMAND:
            return super().local(varno, attno)
        command = column(ACTION, self.alias)
        cases = [
            (exp.EQ(this=command.copy(), expression=literal(kind)), exp.Literal.string(name))
            for kind, name in _NAMES.items()
        ]
        return Value(case(cases), _TEXT)

    @override
    def prepare(self, node: Node) -> Node:
        """Give merge_action(), too, a number of its own."""
        prepared = transform(super().prepare(node), _merge_action)
        return prepared if isinstance(prepared, Node) else node


def _merge_action(node: Node, depth: int) -> Item | None:
    if node.tag != "MERGESUPPORTFUNC":
        return None
    fields: dict[str, Item] = {"varno": _COMMAND, "varattno": 1}
    return Node("VAR", {**fields, "varlevelsup": depth})


def merged_rows(compilation: Compilation, query: Node) -> RowChange:
    """Compile a MERGE into the rows it writes, with what is done to each of them.

    The rows have the columns ``action`` and ``conflict``; a row in conflict is not to be written.
    One that gets another key is two where that may be: ``moved`` is true of both, and what is
    returned is that of the one that goes.
    """
    merge = understood(compilation, query)
    merge.drawn = drawn_columns(compilation, query, merge.table, merge.actions)
    pairs, joined = _joined(merge)
    decided, values = _decided(merge, pairs, joined)
    assigned = [node for action in merge.actions for node in action.assigned.values()]
    scope: QueryScope = decided
    if query["hasSubLinks"] and holds_sublink(list(assigned)):
        entries = [entry for action in merge.actions for entry in action.entries]
        multiple = multiple_sublinks(entries)
        scope, values = over_sublinks(decided, values, multiple=multiple)
    alias = compilation.name("v")
    target = Target(merge.rows)
    changed = _MergedScope(scope, values, alias, target)
    _compute(merge, (decided, scope), values, target, alias)
    moves = MovedRows(merge, alias, target) if MovedRows.applies(merge) else None
    result = select([], aliased(values if moves is None else moves.parted(values), alias))
    columns = _outputs(merge, changed, result, moves)
    returning = returning_columns(changed, result)
    columns += returning
    for told, condition in check_conditions(compilation, query, target):
        result.append("expressions", named(condition, told.column))
        columns.append(told)
    return RowChange(
        kind="merge",
        relid=merge.table.relid,
        query=spark_query(compilation, result, columns, None),
        changes_key=False,
        returning=tuple(returning),
        row_bound=None,
        drawn=merge.drawn,
        numbers_rows=not merge.table.key and merge.has(Command.INSERT),
    )


def merge_source(compilation: Compilation, query: Node) -> MergeSource | None:
    """Compile the source of a MERGE alone; None where it is better read with the rest."""
    merge = understood(compilation, query)
    # The target is not read for it.
    alone = Compilation(compilation.context, compilation.compile_block, statement=query)
    return compile_source(replace(merge, compilation=alone))


def _joined(merge: Merge) -> tuple[_PairScope, exp.Select]:
    """Join the source, which is read here alone, to the target."""
    query, compilation = merge.query, merge.compilation
    jointree = query.node("jointree")
    inner, read = source_scope(merge)
    alias = compilation.name("u")
    read.append("expressions", named(exp.true(), "present"))
    scope = _PairScope(LayerScope(inner, read, alias), query, merge.rows)
    source, target, kind = aliased(read, alias), merge.rows.item(), merge.join
    if kind in {Join.INNER, Join.SOURCE}:
        target = reduced(merge, target, scope)
    quals, shown = conjuncts(query["mergeJoinCondition"]), conjuncts(jointree["quals"])
    if kind is Join.FULL and shown:
        raise UnsupportedError(
            "MERGE into a view with a condition, with WHEN NOT MATCHED BY SOURCE and BY TARGET,"
            " is not supported"
        )
    # What a view leaves out is no row of the target.
    later = shown if kind is Join.TARGET else []
    quals += [] if later else shown
    if kind is Join.INNER:
        later = [qual for qual in quals if holds_sublink(qual)]
        quals = [qual for qual in quals if qual not in later]
    rows = select([], source if kind in {Join.INNER, Join.SOURCE} else target)
    scope.rows = rows
    if kind is Join.SOURCE and matches_little(merge):
        broadcast(rows, merge.rows.alias)
    condition = compile_filter(list(quals), scope) or exp.true()
    join = exp.Join(this=target if kind in {Join.INNER, Join.SOURCE} else source, on=condition)
    if kind is not Join.INNER:
        join.set("side", "FULL" if kind is Join.FULL else "LEFT")
    rows.append("joins", join)
    where = compile_filter(list(later), scope)
    if where is not None:
        rows.set("where", exp.Where(this=where))
    return scope, rows


def _decided(merge: Merge, pairs: _PairScope, rows: exp.Select) -> tuple[_DecidedScope, exp.Select]:
    """Add which action is the first whose condition holds; leave out pairs without any."""
    scope: QueryScope = pairs
    if merge.query["hasSubLinks"] and holds_sublink([action.qual for action in merge.actions]):
        scope, rows = over_sublinks(pairs, rows, multiple={})
        scope.rows = rows
    missing = []
    if merge.join in {Join.SOURCE, Join.FULL}:
        missing.append((_without_target, Matching.NOT_BY_TARGET))
    if merge.join in {Join.TARGET, Join.FULL}:
        missing.append((_without_source, Matching.NOT_BY_SOURCE))
    cases = []
    for is_missing, matching in missing:
        with scope.asked_where(is_missing(merge, pairs)):
            cases.append((is_missing(merge, scope), _chosen(merge, scope, matching)))
    matched = negation(disjunction([one(merge, pairs) for one, _ in missing]) or exp.false())
    with scope.asked_where(matched):
        chosen = case(cases, _chosen(merge, scope, Matching.MATCHED))
    alias = merge.compilation.name("m")
    decided = _DecidedScope(scope, rows, alias)
    rows.append("expressions", named(chosen, ACTION))
    something = exp.GT(this=column(ACTION, alias), expression=literal(0))
    values = select([], aliased(rows, alias), something)
    decided.rows = values
    return decided, values


def _without_target(merge: Merge, scope: QueryScope) -> exp.Expression:
    """Return whether there is no row of the target."""
    key = merge.table.key
    return is_null(scope.local(merge.varno, key[0]).sql if key else scope.local(_IDENTITY, 1).sql)


def _without_source(merge: Merge, scope: QueryScope) -> exp.Expression:
    """Return whether there is no row of the source."""
    del merge
    return is_null(scope.local(_SOURCE, 1).sql)


def _chosen(merge: Merge, scope: QueryScope, matching: Matching) -> exp.Expression:
    """Return the number of the first action for a kind of rows; 0 for none, and for DO NOTHING."""
    cases: list[tuple[exp.Expression, exp.Expression]] = []
    for number, action in enumerate(merge.actions, 1):
        if action.matching is not matching:
            continue
        chosen = literal(0 if action.command is None else number)
        if action.qual is None:
            return case(cases, chosen) if cases else chosen
        cases.append((scope.compile(action.qual).sql, chosen))
    return case(cases, literal(0)) if cases else literal(0)


def _compute(
    merge: Merge,
    layers: tuple[QueryScope, QueryScope],
    values: exp.Select,
    target: Target,
    alias: str,
) -> None:
    """Select what is done to each row, what it was and what is written.

    Args:
        merge: The statement.
        layers: The rows, for which it is decided what is done, and the same, or what stands over
            the subqueries of what is assigned.
        values: What is selected from the latter.
        target: Where old and new values are found, which is noted.
        alias: Under which these are.
    """
    decided, scope = layers
    number = scope.local(_ACTION, 1).sql
    commands = [
        (_is(number, places), literal(command))
        for command in _NAMES
        if (places := _places(merge, command))
    ]
    values.append("expressions", named(case(commands, literal(0)), ACTION))
    for definition in merge.table.columns:
        attno = definition.attnum
        old = scope.local(merge.varno, attno).sql
        values.append("expressions", named(old.copy(), f"b{attno}"))
        target.old[attno] = column(f"b{attno}", alias)
        cases = []
        for place, action in enumerate(merge.actions, 1):
            if action.command is None or attno not in action.assigned:
                continue
            if merge.draws(attno, place):
                cases.append((_is(number, [place]), typed_null(definition)))
                continue
            with scope.asked_where(_is(decided.local(_ACTION, 1).sql, [place])):
                value = scope.compile(action.assigned[attno])
            stored = to_stored(value, definition.type_oid, definition.typmod)
            cases.append((_is(number, [place]), stored))
        target.new[attno] = target.old[attno]
        if cases:
            # Of what is not assigned a new row has NULL, as the row that is not there.
            values.append("expressions", named(case(cases, old), f"w{attno}"))
            target.new[attno] = column(f"w{attno}", alias)
    if merge.drawn:
        values.append("expressions", named(number.copy(), PLACE))
    if not merge.table.key:
        identity = scope.local(_IDENTITY, 1).sql
        values.append("expressions", named(identity, IDENTITY))
    deleted = is_command(alias, Command.DELETE)
    for attno, computed in generated_values(merge.compilation, merge.query, target).items():
        target.new[attno] = case([(deleted.copy(), target.old[attno].copy())], computed)


def _places(merge: Merge, command: Command) -> list[int]:
    return [n for n, action in enumerate(merge.actions, 1) if action.command is command]


def _outputs(
    merge: Merge, changed: _MergedScope, result: exp.Select, moves: MovedRows | None
) -> list[OutputColumn]:
    """Select what is written of each row, and whether it may be."""
    target, alias = changed.row, changed.alias
    columns = []
    deleted = is_command(alias, Command.DELETE)
    for definition in merge.table.columns:
        name, written = f"n{definition.attnum}", target.new[definition.attnum]
        stored = written.copy() if moves is None else moves.written(definition.attnum)
        result.append("expressions", named(stored, name))
        columns.append(stored_output(definition, name))
        gone = [(deleted.copy(), typed_null(definition))]
        changed.became[definition.attnum] = case(gone, written.copy())
    if not merge.table.key:
        result.append("expressions", named(column(IDENTITY, alias), IDENTITY))
        columns.append(OutputColumn(IDENTITY, _INT8, -1, IDENTITY))
    action = column(ACTION, alias) if moves is None else moves.action()
    result.append("expressions", named(action, ACTION))
    columns.append(OutputColumn(ACTION, _INT4, -1, ACTION))
    found = conflict(merge, changed, result) if moves is None else moves.conflict(result)
    result.append("expressions", named(found, CONFLICT))
    columns.append(OutputColumn(CONFLICT, _INT4, -1, CONFLICT))
    if merge.drawn:
        result.append("expressions", named(column(PLACE, alias), PLACE))
        columns.append(OutputColumn(PLACE, _INT4, -1, PLACE))
    if moves is not None:
        result.append("expressions", named(moves.moved(), MOVED))
        columns.append(OutputColumn(MOVED, _BOOLEAN, -1, MOVED))
    return columns


def _is(number: exp.Expression, places: Sequence[int]) -> exp.Expression:
    return exp.In(this=number.copy(), expressions=[literal(place) for place in places])
