"""SELECT over journaled tables: snapshot → compiled query → Spark → encoded rows."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from catalog.bookkeeping.moments import Moment
from catalog.journal.layout import column_names
from catalog.results import RelationKind
from catalog.session.names import quoted
from pgwire_gateway.dml import temporary_rows, thawed_reads, thawed_writes
from pgwire_gateway.hot import announcements, hot_rows
from pgwire_gateway.hot.announcements import NotHotError
from pgwire_gateway.planning.plans import ASKED_FOR
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult, format_codes
from pgwire_gateway.session.results import SparkRows, field_descriptions
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.batches import Batches
from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.row_encoder import EncodingSettings, ResultColumn, RowEncoder
from rewrite import pipeline
from rewrite.context import RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal
from rewrite.pinned_keys import plain_columns
from rewrite.results import OutputColumn, SparkQuery
from rewrite.row_locks import RowLocks

ISO_SETTINGS = EncodingSettings()
"""Styles any session of PostgreSQL reads, whatever its own are."""

UNREPORTED_SETTINGS = (
    "SELECT current_setting('bytea_output'), current_setting('extra_float_digits')"
)

STYLED_OIDS = frozenset({17, 700, 701, 1001, 1021, 1022}) | type_oids.GEOMETRIC
"""Types written by settings PostgreSQL does not report: bytea, floats, what has floats in its text,
and their arrays."""

_MOST_TOLD = 3
"""Tables that a hint names."""


def read(call: Invocation) -> StatementResult:
    """Run a SELECT; its rows are computed while they are taken, unless they are locked.

    Raises:
        UnsupportedError: Spark has no counterpart of something in it, and the rows that it can see
            are not few; or rows are to be locked without waiting, or of resident tables as well,
            and cannot be locked one by one.
    """
    try:
        return _read(call)
    except UnsupportedError as error:
        refused = error
    try:
        if call.plan.locks is None:
            return thawed_reads.read(call, refused)
    except UnsupportedError as error:
        refused = error
    refused.hint = refused.hint or _hint(call, "up to --extract-rows and --extract-bytes")
    raise refused


@dataclass(frozen=True, slots=True)
class CompiledRead:
    """A SELECT that is compiled against what it sees."""

    query: SparkQuery
    ends: ExitStack
    """Removes what was written for it."""
    run: Callable[[], Batches]

    def start(self) -> Batches:
        """Have its rows computed, once.

        Raises:
            GatewayError: What goes wrong on Spark before the first row.
        """
        with self.ends:
            batches = self.run()
            self.ends.callback(batches.close)
            return Batches(batches.schema, batches, self.ends.pop_all().close)

    def close(self) -> None:
        """Leave it, where it has not been started."""
        self.ends.close()


def prepare(call: Invocation) -> CompiledRead:
    """Compile a SELECT that locks nothing against what it sees now.

    Raises:
        UnsupportedError: Spark has no counterpart of something in it.
    """
    try:
        return compiled(call, Observer(call.session).observe(call.plan.tables, call.plan))
    except UnsupportedError as error:
        error.hint = error.hint or _hint(call, "up to --thaw-rows of each")
        raise


def _hint(call: Invocation, most_rows: str) -> str | None:
    """Tell what has PostgreSQL compute a query instead of Spark, and of how many rows it can."""
    relations = call.session.catalog.observations.relations(sorted(call.plan.tables)).values()
    tiered = [
        quoted(relation.schema, relation.name)
        for relation in relations
        if relation.kind is RelationKind.JOURNALED and not relation.is_external
    ]
    if not tiered:
        return "RESET gateway.executor first." if call.plan.reason == ASKED_FOR else None
    commands = [f"ALTER TABLE {name} SET (gateway.residency = always)" for name in tiered]
    told = "; ".join(commands[:_MOST_TOLD]) + (" …" if len(commands) > _MOST_TOLD else "")
    return (
        f"PostgreSQL computes what needs few rows of tiered tables, {most_rows}, or reads resident"
        f" tables alone: {told}."
    )


def _read(call: Invocation) -> StatementResult:
    if call.plan.locks:
        try:
            return hot_rows.run(call)
        except NotHotError as reason:
            if not _may_lock_all(call, call.plan.locks, reason):
                name = next(iter(call.statement.relations)).name
                raise reason.unwaited(name) from reason
        except Refusal as reason:
            if not _may_lock_all(call, call.plan.locks, reason):
                relid = min(call.plan.locks.relids)
                name = call.session.catalog.observations.relations([relid])[relid].name
                raise UnsupportedError(
                    "NOWAIT and SKIP LOCKED are not supported here on the tiered table"
                    f' "{name}": {reason}',
                    hint=thawed_writes.HINT,
                ) from reason
    observation = Observer(call.session).observe_at_once(call) if call.plan.only_reads else None
    query, batches = start(call, observation)
    moment = observation.moment if observation is not None else None
    rows = SparkRows(batches, encoder(call.session, query.columns, call.result_formats, moment))
    columns = field_descriptions(call.columns or (), call.result_formats)
    return StatementResult(columns, rows, "SELECT {}".format)


def _may_lock_all(call: Invocation, locks: RowLocks, reason: Exception) -> bool:
    """Return whether the tables may be locked as a whole: it waits, or the transaction has.

    Raises:
        UnsupportedError: Rows of resident tables are to be locked as well, which only PostgreSQL
            can, for this reason not together.
    """
    if locks.resident:
        raise UnsupportedError(
            f"{locks.strength} of resident and tiered tables together is not supported here:"
            f" {reason}",
            hint="Name the tables whose rows are to be locked: FOR UPDATE OF ...",
        ) from reason
    return locks.waits or announcements.has_locked(call, locks.relids)


def start(call: Invocation, observation: Observation | None = None) -> tuple[SparkQuery, Batches]:
    """Compile a SELECT against what it sees, now if that is not known yet, and start it."""
    read = compiled(call, observed(call) if observation is None else observation)
    return read.query, read.start()


def observed(call: Invocation) -> Observation:
    """Return what a SELECT sees now, once it has locked what it locks.

    Raises:
        OutdatedPlanError: Definitions have changed since it was planned.
    """
    observer, plan = Observer(call.session), call.plan
    return observer.observe_locked(plan) if plan.locks else observer.observe(plan.tables, plan)


def compiled(call: Invocation, observation: Observation) -> CompiledRead:
    """Compile a SELECT against what it sees.

    Raises:
        UnsupportedError: Spark has no counterpart of something in it.
    """
    bound = binding.bind(call)
    observer = Observer(call.session)
    observation = observer.narrowed(call.plan, observation, bound)
    context = partial(observer.context, call.plan, observation, bound)
    found = _row_by_key(call, observation, context)
    if found is not None:
        return CompiledRead(found[0], ExitStack(), lambda: found[1])
    with ExitStack() as ends:
        observation, against = temporary_rows.brought(call, observation, context(), ends)
        query = pipeline.compile_query(call.query, against)
        run = partial(observer.run, query, observation, call.running)
        return CompiledRead(query, ends.pop_all(), run)


def _row_by_key(
    call: Invocation, observation: Observation, context: Callable[[], RewriteContext]
) -> tuple[SparkQuery, Batches] | None:
    """Return the row of a SELECT by key, which takes no Spark, and of what it consists; else None.

    That is the same for each execution of a plan, as long as the table's definition is.
    """
    if _single(call, observation) is None:
        return None
    (relid,) = observation.single_rows
    definition = observation.result.snapshots[relid].table.definition_version
    known = call.session.row_queries.get(id(call.plan))
    if known is not None and known[0] is call.plan and known[1] == definition:
        query = known[2]
    else:
        query = pipeline.compile_query(call.query, context(), with_text=False)
        if call.plan.prepared:
            call.session.row_queries.keep(id(call.plan), (call.plan, definition, query))
    batches = single_row(call, query, observation)
    return None if batches is None else (query, batches)


def _single(call: Invocation, observation: Observation) -> list[str] | None:
    """Return the columns, as they are stored, that a SELECT by key consists of; else None."""
    if len(observation.single_rows) != 1:
        return None
    (relid,) = observation.single_rows
    selected = plain_columns(call.query, observation.result.snapshots[relid].table)
    return column_names(selected or ()) or None


def single_row(call: Invocation, query: SparkQuery, observation: Observation) -> Batches | None:
    """Return the row that a SELECT of columns by key asks for, which takes no Spark; else None."""
    names = _single(call, observation)
    if names is None or list(query.selected) != names:
        return None
    (relid,) = observation.single_rows
    row = observation.current_row(relid)
    arrays = [row.column(name) for name in names]
    table = pa.Table.from_arrays(arrays, [column.column for column in query.columns])
    return Batches(table.schema, iter(table.to_batches()))


def encoder(
    session: ClientSession,
    columns: Sequence[OutputColumn],
    result_formats: Sequence[int],
    moment: Moment | None = None,
) -> RowEncoder:
    """Return the encoder of a result, in the session's styles."""
    codes = format_codes(result_formats, len(columns))
    return RowEncoder(wire_columns(columns, codes), encoding_settings(session, columns, moment))


def wire_columns(columns: Sequence[OutputColumn], codes: Sequence[int]) -> tuple[ResultColumn, ...]:
    """Tell the encoder where the values of each column are."""
    return tuple(
        ResultColumn(column.type_oid, column.typmod, code, column.column, column.scale)
        for column, code in zip(columns, codes, strict=True)
    )


def encoding_settings(
    session: ClientSession, columns: Sequence[OutputColumn], moment: Moment | None = None
) -> EncodingSettings:
    """Return the settings that decide how values are written, those of a moment that is known."""
    bytea_output, digits = "hex", 1
    if moment is not None:
        bytea_output, digits = moment.bytea_output, moment.extra_float_digits
    elif any(column.type_oid in STYLED_OIDS for column in columns):
        row = next(iter(list(session.catalog.execute(UNREPORTED_SETTINGS).rows)))
        bytea_output, digits = (row[0] or b"hex").decode(), int(row[1] or b"1")
    reported = session.settings
    return EncodingSettings(
        reported.get("TimeZone", "UTC"),
        reported.get("DateStyle", "ISO, MDY"),
        reported.get("IntervalStyle", "postgres"),
        bytea_output,
        digits,
        session.encoding,
        session.services.time_zones,
    )
