"""INSERT with ON CONFLICT into tiered tables: PostgreSQL's on few rows, else a MERGE of Spark's."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from catalog.errors import GatewayError
from catalog.model import Column, JournalTable, UniqueKey
from catalog.pg import sqlstate as codes
from catalog.pg import types
from catalog.results import ResultColumn
from catalog.session import names, upserts
from catalog.session.connections import CatalogSession
from catalog.session.proposed_rows import RowRules, UnknownRuleError
from catalog.session.upserts import ArbiterKeys, Cast, Upsert
from catalog.statements.splitting import RelationName, StatementKind, split
from pgwire_gateway.dml import changes, thawed_writes
from pgwire_gateway.hot import announcements
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.rows import unique_keys
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
        upsert = parsed(call)
        if upsert is None:
            raise
        with changes.told(call, refusal):
            table = _table(call)
            # Before it is planned: what the catalog refuses then fails an open transaction.
            _require_arbiter(upsert, table, error.hint)
        found = _merged(call, upsert, table)
        if found is None:
            raise
    if began:
        announcements.undo(call)
    return result(call, found, changes.by_spark)


def merged(call: Invocation) -> Invocation | None:
    """Return the MERGE that does what an INSERT does; None where there is none."""
    upsert = parsed(call)
    return None if upsert is None else _merged(call, upsert, _table(call))


def _merged(call: Invocation, upsert: Upsert, table: JournalTable) -> Invocation | None:
    (named,) = names.relation_oids(call.session.catalog, [upsert.target])
    return merged_into(call, upsert, table) if named == call.target else None


def merged_into(call: Invocation, upsert: Upsert, table: JournalTable) -> Invocation | None:
    """Return the MERGE into a table that an INSERT names; None where there is none."""
    arbiter = _arbiter(upsert, table)
    if arbiter is None:
        return None
    try:
        plan = _plan(call, upsert, table, arbiter)
    except GatewayError:
        # What is proposed has to become of other types first, or there are columns of no row here.
        return None
    if plan is None or plan.route is not Route.MERGE or plan.target != table.relid:
        return None
    same = replanning.row_type(plan) == replanning.row_type(call.plan)
    return replace(call, plan=plan) if same else None


def _require_arbiter(upsert: Upsert, table: JournalTable, hint: str | None) -> None:
    """Refuse rows that are in conflict by other keys, which PostgreSQL cannot have all hot."""
    if _arbiter(upsert, table) is None:
        raise UnsupportedError(
            "ON CONFLICT by indexes with WHERE, expressions or NULLS NOT DISTINCT, or without any,"
            " of more rows than may be hot, is not supported",
            hint=hint,
        )


def parsed(call: Invocation) -> Upsert | None:
    """Return an INSERT with ON CONFLICT that may be a MERGE as well; None for any other."""
    is_named = call.plan.named is not None
    if is_named or call.statement.kind is not StatementKind.INSERT:
        return None
    return upserts.parse(call.statement.text)


def _table(call: Invocation) -> JournalTable:
    observation = Observer(call.session).observe([call.target], call.plan)
    return observation.result.snapshots[call.target].table


def _plan(
    call: Invocation, upsert: Upsert, table: JournalTable, arbiter: tuple[int, ...]
) -> Plan | None:
    """Plan the MERGE; None where that could do something else."""
    catalog = call.session.catalog
    proposed = catalog.analyses.analyse(upsert.source, call.parameter_oids).columns or ()
    columns = _columns(catalog, upsert, table, proposed)
    if columns is None or not _is_complete(call, table, columns):
        return None
    keys = _keys(table, arbiter, columns)
    if keys is None or (upsert.moves(keys.first) and not keys.is_primary):
        return None
    try:
        rules = RowRules.of(catalog, table.relid)
        given = keys.first if keys.is_primary else ()
        refused = rules.refused(list(columns), given, upserts.too_long(columns))
        defaults = rules.unproposed(upsert.named, columns)
    except UnknownRuleError:
        return None
    text = upsert.merge(columns, keys, refused, defaults)
    if text is None:
        return None
    plan = router.plan(catalog, split(text)[0], call.parameter_oids, "")
    # The rights that are asked for are those that the INSERT needs.
    return replace(plan, checked=True, arbiter=arbiter)


def _arbiter(upsert: Upsert, table: JournalTable) -> tuple[int, ...] | None:
    """Return the columns of the key by which rows are in conflict; nothing where it is any key.

    None where it is none of columns alone whose values are compared unless one is NULL; nor are
    journals of others looked through for other values than those of the primary key.
    """
    found = _arbiter_named(upsert, table)
    is_other = table.external is not None and table.unique_keys and found != table.key
    return None if is_other else found


def _arbiter_named(upsert: Upsert, table: JournalTable) -> tuple[int, ...] | None:
    keys = [*([unique_keys.primary(table)] if table.key else []), *table.unique_keys]
    plain = [key for key in keys if key.computed is None]
    if upsert.constraint is not None:
        return next((key.columns for key in plain if key.name == upsert.constraint), None)
    if upsert.arbiter:
        named = {column.attnum for column in table.columns if column.name in upsert.arbiter}
        found = [key for key in keys if set(key.columns) == named and not _is_partial(key)]
        is_plain = bool(found) and all(key.computed is None for key in found)
        return found[0].columns if is_plain else None
    if len(plain) < len(keys) or not plain:
        return None
    return plain[0].columns if len(plain) == 1 else ()


def _is_partial(key: UniqueKey) -> bool:
    """Return whether a key is of some rows, or of what is computed of columns."""
    computed = key.computed
    return computed is not None and (computed.predicate or computed.expressions) is not None


def _keys(
    table: JournalTable, arbiter: tuple[int, ...], proposed: Collection[str]
) -> ArbiterKeys | None:
    """Return the keys by which rows are in conflict; None where rows are not proposed with them.

    Of several, those do not count of which rows have a default: what is in conflict by them is not
    inserted, and fails.
    """
    keys = [arbiter]
    if not arbiter:
        keys = [*([table.key] if table.key else []), *(key.columns for key in table.unique_keys)]
    named = [tuple(table.column(attnum).name for attnum in key) for key in keys]
    known = tuple(key for key in named if set(key) <= set(proposed))
    if not known:
        return None
    is_primary = bool(table.key) and set(arbiter) == set(table.key)
    return ArbiterKeys(known, is_primary, RelationName(table.schema, table.name))


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


def result(
    call: Invocation, merge: Invocation, run: Callable[[Invocation], StatementResult]
) -> StatementResult:
    """Run the MERGE that does what an INSERT does; tell its result as that of the latter.

    Raises:
        GatewayError: As `run` does, 21000 as of the INSERT; 0A000 where by any key rows are in a
            conflict that is not told.
    """
    try:
        done = run(merge)
    except ChangedTwiceError as error:
        raise GatewayError(
            "ON CONFLICT DO UPDATE command cannot affect row a second time",
            sqlstate=codes.CARDINALITY_VIOLATION,
            hint="Ensure that no rows proposed for insertion within the same command have"
            " duplicate constrained values.",
        ) from error
    except GatewayError as error:
        if merge.plan.arbiter != () or error.sqlstate != codes.UNIQUE_VIOLATION:
            raise
        raise UnsupportedError(
            "ON CONFLICT DO NOTHING without a key, of rows of which some are in conflict by a"
            " default, or with such as are not inserted themselves, is not supported",
            hint="Name the key after ON CONFLICT.",
        ) from error
    call.session.last_decision = merge.plan.decision
    return replace(done, tag=lambda taken: f"INSERT 0 {done.tag(taken).rpartition(' ')[2]}")
