"""Statements that may take away what rows of tiered tables reference.

PostgreSQL runs them as they came, and its triggers keep the foreign keys of hot rows. Those of the
bookkeeping (``catalog/sql``, references) tell where cold rows may reference what was taken away.
Then these rows are looked for and made hot, and the statement runs again.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from catalog.bookkeeping import calls as bookkeeping
from catalog.connection import contexts
from catalog.errors import DATA_TYPE_NAME, CatalogError, GatewayError
from catalog.hot.hot_keys import Announcement, Reading, Thawed, Writing
from catalog.model import TableSnapshot
from catalog.pg import sqlstate as codes
from catalog.session import session_state
from pgwire_gateway.hot import announcements, hot_runs, own_hot_rows
from pgwire_gateway.hot.announcements import NotHotError
from pgwire_gateway.planning import answerable, router
from pgwire_gateway.rows.row_search import look_up
from pgwire_gateway.rows.text_rows import key_of, key_row, key_texts, key_types, text_rows, texts_of
from pgwire_gateway.rows.value_search import rows_with
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import key_values
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal

ATTEMPTS: Final = 1_000
"""How often a statement is run; of rows that are given other keys one is found each time."""

SAVEPOINT: Final = "pgwire_references"

FAILURES: Final = 10
"""How often rows may fail to become hot, as others have their table, or change them."""

UNCERTAIN: Final = 3
"""How often before whoever else writes the table is waited for, where PostgreSQL sees it."""

_REFUSING: Final = frozenset("ar")
"""Actions (pg_constraint) that refuse to take away what is referenced."""


@dataclass(frozen=True, slots=True)
class Referenced:
    """Values that a statement took away by which cold rows may reference."""

    error: CatalogError
    """What says so; a refusal for whoever cannot help it."""
    relid: int
    """The referencing table, which is tiered."""
    columns: tuple[int, ...]
    """Its columns."""
    values: tuple[tuple[str, ...], ...]
    """Values that they have together, as PostgreSQL's texts; none where the table is written by an
    action of the foreign key, and that has not been announced."""
    refuses: bool
    """Whether the foreign key refuses that."""
    told: str
    """All of that in the form in which the bookkeeping knows it again."""
    keys: tuple[tuple[object, ...], ...] = ()
    """Keys, in transfer forms, that an action of a foreign key gives to rows of the table, where
    it does; nothing else is told then."""

    @classmethod
    def of(cls, error: CatalogError) -> "Referenced | None":
        """Return what an error tells; None where it is another one."""
        told = error.fields.get(DATA_TYPE_NAME, "")
        if error.sqlstate != codes.FEATURE_NOT_SUPPORTED or not contexts.is_sealed(told):
            return None
        return cls.told_by(told, error)

    @classmethod
    def told_by(cls, told: str, error: CatalogError) -> "Referenced | None":
        """Return what the bookkeeping tells in this form; None where it is something else."""
        try:
            found: dict[str, Any] = json.loads(told.partition(" ")[2])
            columns, values = tuple(found["columns"]), tuple(map(tuple, found["values"]))
            relid, refuses = int(found["relid"]), found["action"] in _REFUSING
            keys = tuple(map(tuple, found.get("keys", ())))
        except (ValueError, KeyError, TypeError):
            # Code of users can raise what looks like it.
            return None
        return cls(error, relid, columns, values, refuses, told, keys)


def run(call: Invocation) -> StatementResult:
    """Run a statement over resident tables alone; nothing is committed.

    Raises:
        GatewayError: PostgreSQL's own errors; 0A000 where rows that reference what it takes away
            are more than may be hot, or cannot be.
    """
    session, named = call.session, router.named(call.statement)
    began = not session.transaction.open
    session.transaction.expect_implicit()
    if not call.plan.takes:
        result, _ = session.catalog.writes.run_between(
            hot_runs.step(call), named, call.plan.basis, began=began
        )
        if result is None:
            raise TypeError(call.plan.route)
        answerable.prove(session.catalog, call.plan.answerable)
        return hot_runs.result_of(call, result)
    session.catalog.writes.run_between(None, named, call.plan.basis, began=began)

    def attempt() -> StatementResult:
        result, _ = session.catalog.writes.run_between(
            hot_runs.step(call), named, None, began=False
        )
        if result is None:
            raise TypeError(call.plan.route)
        return hot_runs.result_of(call, result)

    done = _repeated(call, attempt)
    answerable.prove(session.catalog, call.plan.answerable)
    return done


def run_tiered(
    call: Invocation, execute: Callable[[Invocation], StatementResult]
) -> StatementResult:
    """Run a statement that writes a tiered table, as `run` does.

    Args:
        call: The statement.
        execute: What runs it where no row references what it takes away.

    Raises:
        GatewayError: As of `run`.
    """
    if not call.session.transaction.open:
        try:
            return execute(call)
        except CatalogError as error:
            if Referenced.of(error) is None:
                raise
            announcements.undo(call)
        call.session.transaction.begin_implicit()
    return _repeated(call, lambda: execute(call))


def _repeated(call: Invocation, attempt: Callable[[], StatementResult]) -> StatementResult:
    """Run a statement until all rows are hot that reference what it takes away."""
    session = call.session
    session.catalog.transaction.savepoint(SAVEPOINT)
    certain, failures = True, 0
    for _ in range(ATTEMPTS):
        call.running.check()
        try:
            done = attempt()
        except CatalogError as error:
            referenced = Referenced.of(error)
            if referenced is None:
                raise
            session.catalog.transaction.roll_back_to(SAVEPOINT)
            released = release(call, referenced)
            failures += released is None
            if failures > FAILURES:
                raise referenced.error from error
            if released is None:
                _wait(call, referenced.relid, failures)
            certain = certain and released is not False
            # What has been made hot is to stay so if the statement fails once more.
            session.catalog.transaction.release(SAVEPOINT)
            session.catalog.transaction.savepoint(SAVEPOINT)
            continue
        if not certain:
            raise UnsupportedError(_too_many(call.services.config.thaw_rows))
        session.catalog.transaction.release(SAVEPOINT)
        return done
    raise GatewayError(
        "could not serialize access due to rows that others reference by",
        sqlstate=codes.SERIALIZATION_FAILURE,
    )


def _wait(call: Invocation, relid: int, failures: int) -> None:
    """Let others go first who keep rows of a table from becoming hot."""
    by_snapshot = session_state.keeps_snapshot(call.session.catalog)
    if failures < UNCERTAIN or by_snapshot:
        time.sleep(announcements.PAUSE_S * failures)
        return
    # A transaction that reads by one snapshot may have made them hot itself, until it ends.
    call.session.catalog.writes.hold([relid])
    call.session.catalog.transaction.roll_back_to(SAVEPOINT)


def release(call: Invocation, referenced: Referenced) -> bool | None:
    """Make the rows hot that reference by some values, so that PostgreSQL's triggers find them.

    Returns:
        Whether all are; of very many by a key that refuses to let go of a value, some are. None
        where it is to be tried again.

    Raises:
        GatewayError: 0A000 where they cannot be hot, or are too many.
    """
    relid = referenced.relid
    if referenced.keys:
        return _release_keys(call, referenced)
    announced = _announced(call, referenced)
    if not isinstance(announced, Announcement):
        return announced or None
    if not referenced.values:
        return True
    observation = Observer(call.session).observe([relid])
    snapshot = observation.result.snapshots[relid]
    table = snapshot.table
    rows = _rows(call, observation, referenced)
    asked = announced.thaw_rows
    most = call.services.config.thaw_rows if asked is None else asked
    if rows is None:
        raise referenced.error
    complete = bool(rows.num_rows <= most)
    if not complete and not referenced.refuses:
        raise UnsupportedError(_too_many(most))
    keys = {key_texts(table, row): row for row in text_rows(table, rows.slice(0, most))}
    announced = announcements.announce(call, Writing(relid, tuple(keys), own=True), began=False)
    if announced is None:
        return None
    present = [row for key, row in keys.items() if key in announced.cold]
    absent = [key_row(table, key_of(table, key)) for key in announced.held]
    thawed = _thawed(call, snapshot, announced, present, absent)
    if thawed is Thawed.UNFIT:
        raise referenced.error
    if thawed is not Thawed.DONE:
        return None
    call.session.catalog.call(bookkeeping.RELEASE_REFERENCES, referenced.told.encode())
    return complete


def _release_keys(call: Invocation, referenced: Referenced) -> bool | None:
    """Make keys hot that an action of a foreign key gives to rows, whether there are rows or not.

    Returns:
        Whether they are; None where it is to be tried again.

    Raises:
        GatewayError: 0A000 where they cannot be.
    """
    relid = referenced.relid
    observation = Observer(call.session).observe([relid])
    snapshot = observation.result.snapshots[relid]
    table = snapshot.table
    keys = [key_values(key_types(table), key) for key in referenced.keys]
    writing = Writing(relid, tuple(texts_of(table, key) for key in keys), own=True)
    try:
        announced = announcements.announce(call, writing, began=False)
        if announced is None:
            return None
        # What was seen before may have gone cold, and changed, until the write was announced.
        observation = Observer(call.session).observe([relid])
        snapshot = observation.result.snapshots[relid]
        cold = [key_of(table, one) for one in sorted(announced.cold)]
        rows = look_up(call.services.lookups, observation, relid, cold)
    except (NotHotError, Refusal) as reason:
        raise referenced.error from reason
    held = [key_row(table, key_of(table, one)) for one in sorted(announced.held)]
    thawed = _thawed(call, snapshot, announced, rows.present, [*rows.absent, *held])
    if thawed is Thawed.UNFIT:
        raise referenced.error
    return True if thawed is Thawed.DONE else None


def _announced(call: Invocation, referenced: Referenced) -> Announcement | bool | None:
    """Announce that rows which reference are to be hot; True where none is left to be.

    None where it is to be tried again, also (False) when those have ended who kept them from it.
    """
    relid = referenced.relid
    try:
        return announcements.announce(call, Writing(relid, (), own=True), began=False)
    except NotHotError as reason:
        if relid in call.session.transaction.written and _is_unreferenced(call, referenced):
            return True
        if not reason.for_now:
            raise referenced.error from reason
    # Whoever has the table as a whole is waited for, where PostgreSQL sees it.
    call.session.catalog.writes.hold([relid])
    call.session.catalog.transaction.roll_back_to(SAVEPOINT)
    return False


def _thawed(
    call: Invocation,
    snapshot: TableSnapshot,
    announced: Announcement,
    present: Sequence[TextRow],
    absent: Sequence[TextRow],
) -> Thawed:
    """Make rows hot, in the transaction itself where it reads by one snapshot."""
    relid = snapshot.table.relid
    if announced.own:
        return own_hot_rows.heat(call, relid, present, absent)
    reading = Reading.of(announced.heats, snapshot)
    return announcements.thawing_of(call).thaw(relid, reading, present, absent)


def _is_unreferenced(call: Invocation, referenced: Referenced) -> bool:
    """Let go of values by which no row references of a table that this transaction has locked."""
    observation = Observer(call.session).observe([referenced.relid])
    rows = _rows(call, observation, referenced)
    if rows is None or rows.num_rows:
        return False
    call.session.catalog.call(bookkeeping.RELEASE_REFERENCES, referenced.told.encode())
    return True


def _rows(call: Invocation, observation: Observation, referenced: Referenced) -> pa.Table | None:
    """Return the current rows that reference by some values; None where Spark alone finds them."""
    table = observation.result.snapshots[referenced.relid].table
    if not referenced.values or not plain_keys.has_one_form(table, referenced.columns):
        return None
    columns = [table.column(attnum) for attnum in referenced.columns]
    read = (plain_keys.read(columns, value) for value in referenced.values)
    values = {value for value in read if None not in value}
    lookups = call.services.lookups
    return rows_with(observation, referenced.relid, referenced.columns, values, lookups)


def _too_many(most: int) -> str:
    return f"changing rows that more than {most} rows of a tiered table reference is not supported"
