"""INSERT with ON CONFLICT into tiered tables: PostgreSQL's on few rows, else a MERGE of Spark's."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from catalog.errors import GatewayError
from catalog.model import Column, JournalTable
from catalog.pg import sqlstate as codes
from catalog.pg import types
from catalog.results import ResultColumn
from catalog.session import names, upserts
from catalog.session.connections import CatalogSession
from catalog.session.proposed_rows import RowRules, UnknownRuleError
from catalog.session.upserts import Cast, Upsert
from catalog.statements.splitting import StatementKind, split
from pgwire_gateway.dml import changes, thawed_writes
from pgwire_gateway.hot import announcements
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.rows.merge_conflicts import ChangedTwiceError
from pgwire_gateway.session import replanning
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal

_CHARACTERS: Final = frozenset({types.BPCHAR, types.VARCHAR})
_CUT_OFF: Final = frozenset({1014, 1015, 1560, 1561, 1562, 1563})
"""OIDs of arrays of char(n) and varchar(n), bit(n), bit varying(n), and arrays of these: what is
too long is cut off by a cast."""
_LENGTH_BYTES: Final = 4
"""How much longer a type modifier is than the length that it tells."""


def run(call: Invocation) -> StatementResult:
    """Run a statement that only PostgreSQL can run, or an INSERT that is a MERGE as well.

    Raises:
        GatewayError: PostgreSQL's own errors; 0A000 for what neither does.
    """
    began = not call.session.transaction.open
    try:
        return thawed_writes.run(call)
    except UnsupportedError as error:
        refusal = error.__cause__
        if not isinstance(refusal, Refusal):
            raise
        found = merged(call)
        if found is None:
            with changes.told(refusal):
                _require_primary_key(call, error.hint)
            raise
    if began:
        announcements.undo(call)
    return _result(call, found)


def merged(call: Invocation) -> Invocation | None:
    """Return the MERGE that does what an INSERT does; None where there is none."""
    upsert = _upsert(call)
    if upsert is None:
        return None
    table = _table(call)
    (named,) = names.relation_oids(call.session.catalog, [upsert.target])
    if named != call.target or not _arbitrates(upsert, table):
        return None
    try:
        plan = _plan(call, upsert, table)
    except GatewayError:
        # What is proposed has to become of other types first, or there are columns of no row here.
        return None
    if plan is None or plan.route is not Route.MERGE or plan.target != call.target:
        return None
    same = replanning.row_type(plan) == replanning.row_type(call.plan)
    return replace(call, plan=plan) if same else None


def _require_primary_key(call: Invocation, hint: str | None) -> None:
    """Refuse rows that are in conflict by other keys, which PostgreSQL cannot have all hot."""
    upsert = _upsert(call)
    if upsert is None:
        return
    table = _table(call)
    by = "by other keys than the primary one" if table.key else "without primary key"
    if not _arbitrates(upsert, table):
        raise UnsupportedError(
            f"ON CONFLICT {by}, of more rows than may be hot, is not supported", hint=hint
        )


def _upsert(call: Invocation) -> Upsert | None:
    is_named = call.plan.named is not None
    if is_named or call.statement.kind is not StatementKind.INSERT:
        return None
    return upserts.parse(call.statement.text)


def _table(call: Invocation) -> JournalTable:
    observation = Observer(call.session).observe([call.target], call.plan)
    return observation.result.snapshots[call.target].table


def _plan(call: Invocation, upsert: Upsert, table: JournalTable) -> Plan | None:
    """Plan the MERGE; None where that could do something else."""
    catalog = call.session.catalog
    proposed = catalog.analyse(upsert.source, call.parameter_oids).columns or ()
    columns = _columns(catalog, upsert, table, proposed)
    if columns is None or not _is_complete(call, table, columns):
        return None
    keyed = [table.column(n).name for n in table.key]
    try:
        rules = RowRules.of(catalog, table.relid)
        refused = rules.refused(list(columns), keyed, upserts.too_long(columns))
        defaults = rules.unproposed(upsert.named, columns)
    except UnknownRuleError:
        return None
    text = upsert.merge(columns, keyed, refused, defaults)
    if text is None:
        return None
    plan = router.plan(catalog, split(text)[0], call.parameter_oids, "")
    # The rights that are asked for are those that the INSERT needs.
    return replace(plan, checked=True, proposes=True)


def _arbitrates(upsert: Upsert, table: JournalTable) -> bool:
    """Return whether rows are in conflict where they have one primary key, and only there."""
    key = {table.column(attnum).name for attnum in table.key}
    if not key:
        return False
    if upsert.constraint is not None:
        return upsert.constraint == table.key_name
    if upsert.arbiter:
        return set(upsert.arbiter) == key
    return not table.unique_keys


def _columns(
    catalog: CatalogSession,
    upsert: Upsert,
    table: JournalTable,
    proposed: tuple[ResultColumn, ...],
) -> dict[str, Cast] | None:
    """Return the columns that rows are proposed for, with what these are cast to.

    None where a cast would cut off what PostgreSQL refuses as too long.
    """
    listed = upsert.columns or tuple(column.name for column in table.columns)
    if len(listed) < len(proposed) or (upsert.columns and len(listed) != len(proposed)):
        return None
    known = {column.name: column for column in table.columns}
    columns = [known.get(name) for name in listed[: len(proposed)]]
    if not {table.column(n) for n in table.key} <= set(columns):
        return None
    casts = {}
    for column, value in zip(columns, proposed, strict=True):
        if column is None or column.generated:
            return None
        is_same = column.type_oid == value.type_oid and column.typmod in {-1, value.typmod}
        if not is_same and column.type_oid in _CUT_OFF:
            return None
        casts[column.name] = Cast() if is_same else _cast(catalog, column)
    return casts


def _cast(catalog: CatalogSession, column: Column) -> Cast:
    kind = names.type_name(catalog, column.type_oid, column.typmod)
    if column.type_oid not in _CHARACTERS or column.typmod < 0:
        return Cast(kind)
    unlimited = names.type_name(catalog, column.type_oid, -1)
    return Cast(kind, unlimited, column.typmod - _LENGTH_BYTES)


def _is_complete(call: Invocation, table: JournalTable, columns: Collection[str]) -> bool:
    """Return whether rows have a value for whatever is not to be NULL, NULL or not."""
    missing = {c.attnum for c in table.columns if c.not_null and c.name not in columns}
    if not missing:
        return True
    return missing <= names.columns_with_defaults(call.session.catalog, table.relid)


def _result(call: Invocation, merge: Invocation) -> StatementResult:
    try:
        result = changes.by_spark(merge)
    except ChangedTwiceError as error:
        raise GatewayError(
            "ON CONFLICT DO UPDATE command cannot affect row a second time",
            sqlstate=codes.CARDINALITY_VIOLATION,
            hint="Ensure that no rows proposed for insertion within the same command have"
            " duplicate constrained values.",
        ) from error
    call.session.last_decision = merge.plan.decision
    return replace(result, tag=lambda taken: f"INSERT 0 {result.tag(taken).rpartition(' ')[2]}")
