"""Rows that a statement has written, and that reference rows of tiered tables.

Triggers lock what is hot of these, and note values of which the catalog table has no row
(``catalog/sql``, parents). These are looked up in the journal: few are made hot, so that PostgreSQL
locks them and others go on; for many the referenced table is locked.
"""

import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.bookkeeping import calls as bookkeeping
from catalog.errors import GatewayError, OutdatedPlanError
from catalog.hot.hot_keys import Announcement, Reading, Thawed, Writing
from catalog.journal.layout import column_names
from catalog.model import JournalTable
from catalog.pg import sqlstate as codes
from catalog.session import session_state
from pgwire_gateway.hot import announcements, own_hot_rows
from pgwire_gateway.hot.announcements import NotHotError
from pgwire_gateway.references import referencing_rows
from pgwire_gateway.rows.row_search import SingleRows, look_up
from pgwire_gateway.rows.text_rows import key_of, key_row, key_texts, text_rows
from pgwire_gateway.rows.value_search import rows_with
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.wire_types import plain_keys
from rewrite import keys
from rewrite.needs.keys import Key
from rewrite.needs.results import Refusal

Texts = tuple[str, ...]
"""Values of columns as PostgreSQL's texts."""

Columns = tuple[int, ...]
"""By which rows of a referenced table are looked up: attribute numbers, in the order of a unique
index; none for the primary key."""

Referencing = tuple[int, tuple[int, ...]]
"""A table that references, and its columns in the order of the unique index."""

MOST_LOOKED_UP: Final = 10_000
"""Of more values all that the table has are read."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Values by which rows reference a tiered table that has no hot rows of them."""

    relid: int
    """The referenced table."""
    columns: Columns
    held: tuple[tuple[int, Texts], ...]
    """Foreign keys (OIDs of pg_constraint), and what is looked for by them."""
    is_tiered: bool = True
    """Whether the table is; of a resident one PostgreSQL finds all rows."""

    @property
    def texts(self) -> tuple[Texts, ...]:
        """The values, each once."""
        return tuple(dict.fromkeys(texts for _, texts in self.held))


def confirm(call: Invocation) -> None:
    """See to it that all exists that rows reference which a statement has written.

    Raises:
        GatewayError: 23503 for a row that references what there is not; 40001 when definitions have
            changed meanwhile.
    """
    catalog = call.session.catalog
    try:
        sought, referencing = _sought(call)
        absent, hot = [], False
        for one in sought:
            if not one.is_tiered or make_hot(call, one.relid, one.columns, one.texts):
                hot = True
            else:
                absent += _held(call, one)
        if hot:
            absent += _told(catalog.call(bookkeeping.CONFIRM_REFERENCES))
        _require_gone(call, referencing, absent)
    except OutdatedPlanError as error:
        raise GatewayError(
            "could not serialize access due to concurrent changes of definitions",
            sqlstate=codes.SERIALIZATION_FAILURE,
        ) from error


def confirm_held(call: Invocation) -> None:
    """Do so where the tables are locked already: nothing is made hot.

    Raises:
        GatewayError: As of `confirm`.
    """
    sought, referencing = _sought(call)
    for one in sought:
        _require_gone(call, referencing, _held(call, one))


def _sought(call: Invocation) -> tuple[list[Sought], dict[int, Referencing]]:
    """Return what is to be looked for, by referenced tables and columns, and who references."""
    found: dict[tuple[int, Columns], list[tuple[int, Texts]]] = defaultdict(list)
    tiered: dict[int, bool] = {}
    referencing: dict[int, Referencing] = {}
    told = json.loads(call.session.catalog.call(bookkeeping.SOUGHT_VALUES))
    for fk, relid, by, is_tiered, child, columns, held in told:
        found[relid, tuple(by)] += [(fk, tuple(texts)) for texts in held]
        tiered[relid], referencing[fk] = is_tiered, (child, tuple(columns))
    sought = [
        Sought(relid, by, tuple(held), tiered[relid]) for (relid, by), held in sorted(found.items())
    ]
    return sought, referencing


def _told(answer: bytes) -> list[tuple[int, Texts]]:
    return [(fk, tuple(texts)) for fk, texts in json.loads(answer)]


def _require_gone(
    call: Invocation,
    referencing: Mapping[int, Referencing],
    absent: Collection[tuple[int, Texts]],
) -> None:
    """Refuse values that there are not, and by which rows of tiered tables reference (23503)."""
    for fk in dict(absent):
        wanted = {texts for one, texts in absent if one == fk}
        found = referencing_rows.first_with(call, *referencing[fk], wanted)
        if found is not None:
            held = json.dumps(found).encode()
            call.session.catalog.call(bookkeeping.REFUSE_ABSENT, _number(fk), held)


def make_hot(call: Invocation, relid: int, columns: Columns, texts: Collection[Texts]) -> bool:
    """Make rows of a table hot that are few, and can be, by their values; False where not."""
    texts = tuple(dict.fromkeys(texts))
    if len(texts) > call.services.config.thaw_rows:
        return False
    with suppress(NotHotError, Refusal):
        for attempt in range(1, announcements.ATTEMPTS + 1):
            call.running.check()
            thaw = _thaw_holders if columns else _thaw_keys
            thawed = thaw(call, relid, columns, texts)
            if thawed is Thawed.DONE:
                return True
            if thawed is Thawed.UNFIT:
                return False
            if thawed is not None:
                time.sleep(announcements.PAUSE_S * attempt)
    return False


def _thaw_keys(call: Invocation, relid: int, _: Columns, texts: tuple[Texts, ...]) -> Thawed | None:
    """Make rows hot by their primary keys; None where the table has just come to have hot rows.

    Raises:
        NotHotError: It cannot have any.
        Refusal: The files can only be read by Spark, or no row has a key.
    """
    writing = Writing(relid, texts, locks_rows=True, own=True)
    announced = announcements.announce(call, writing, began=False)
    if announced is None:
        return None
    if announced.is_complete:
        return Thawed.DONE
    observation = Observer(call.session).observe([relid])
    table = observation.result.snapshots[relid].table
    cold = [key_of(table, one) for one in sorted(announced.cold)]
    if any(None in key for key in cold):
        raise Refusal("values that no row has")
    rows = look_up(call.services.lookups, observation, relid, cold)
    return _thawed(call, observation, announced, relid, rows)


def _thaw_holders(
    call: Invocation, relid: int, columns: Columns, texts: tuple[Texts, ...]
) -> Thawed | None:
    """Make rows hot that have some values of a unique key, as `_thaw_keys` does.

    Who has passed the gate sees them: from then on others give such values to hot rows alone.
    """
    writing = Writing(relid, (), locks_rows=True, own=True)
    if announcements.announce(call, writing, began=False, searched=True) is None:
        return None
    observation = Observer(call.session).observe([relid])
    table = observation.result.snapshots[relid].table
    found = _rows(call, observation, relid, columns, _read(table, columns, texts).values())
    if found is None:
        raise Refusal("the files of the table are read by Spark only")
    rows = {key_texts(table, row): row for row in text_rows(table, found)}
    writing = Writing(relid, tuple(rows), locks_rows=True, own=True)
    announced = announcements.announce(call, writing, began=False)
    if announced is None:
        return None
    if announced.is_complete:
        return Thawed.DONE
    cold = SingleRows(tuple(row for key, row in rows.items() if key in announced.cold), ())
    return _thawed(call, observation, announced, relid, cold)


def _thawed(
    call: Invocation,
    observation: Observation,
    announced: Announcement,
    relid: int,
    rows: SingleRows,
) -> Thawed:
    """Make rows hot that were cold when they were announced, and keys of those that are there."""
    if announced.own:
        # Locked rows stay, and what there is not is not there for the transaction's snapshot.
        return own_hot_rows.heat(call, relid, rows.present, ())
    snapshot = observation.result.snapshots[relid]
    table = snapshot.table
    taken = [key_row(table, key_of(table, one)) for one in sorted(announced.held)]
    reading = Reading.of(announced.heats, snapshot)
    absent = [*rows.absent, *taken]
    return announcements.thawing_of(call).thaw(relid, reading, rows.present, absent)


def _held(call: Invocation, sought: Sought) -> list[tuple[int, Texts]]:
    """Keep others from writing the table, and look for all values: nothing is left to be confirmed.

    Returns:
        What is not there and may be referenced by rows of a tiered table.

    Raises:
        GatewayError: 23503 where one is not there; 40001 where others have written the table since
            the snapshot of a REPEATABLE READ transaction.
    """
    catalog, relid = call.session.catalog, sought.relid
    if session_state.keeps_snapshot(catalog):
        # What others have changed since is not to be seen.
        catalog.writes.hold([relid])
        call.session.transaction.written.add(relid)
    else:
        catalog.call(bookkeeping.HOLD_PARENT, _number(relid))
    observation = Observer(call.session).observe([relid])
    absent = _absent(call, observation, relid, sought.columns, sought.texts)
    unknown: list[tuple[int, Texts]] = []
    for fk in dict(sought.held):
        missing = [texts for one, texts in sought.held if one == fk and texts in absent]
        held = json.dumps(missing).encode()
        answer = catalog.call(bookkeeping.RELEASE_SOUGHT, _number(fk), held)
        unknown += [(fk, tuple(texts)) for texts in json.loads(answer)]
    return unknown


def is_any_there(call: Invocation, relid: int, columns: Columns, texts: Collection[Texts]) -> bool:
    """Return whether a table has a row of one of some values."""
    observation = Observer(call.session).observe([relid])
    return len(_absent(call, observation, relid, columns, texts)) < len(set(texts))


def _absent(
    call: Invocation,
    observation: Observation,
    relid: int,
    columns: Columns,
    texts: Collection[Texts],
) -> Collection[Texts]:
    """Return those values of which the table has no row."""
    table = observation.result.snapshots[relid].table
    wanted = {key: one for one, key in _read(table, columns, texts).items()}
    never = set(texts).difference(wanted.values())
    rows = None
    if len(wanted) <= MOST_LOOKED_UP:
        rows = _rows(call, observation, relid, columns, wanted)
    found: Iterable[Key] = (
        _values_among(call, observation, relid, columns, wanted)
        if rows is None
        else plain_keys.tuples(rows, column_names(columns or table.key))
    )
    for key in found:
        wanted.pop(key, None)
    return never.union(wanted.values())


def _read(table: JournalTable, columns: Columns, texts: Collection[Texts]) -> dict[Texts, Key]:
    """Return values as plain ones, but for those that no row can have."""
    typed = [table.column(attnum) for attnum in columns or table.key]
    read = {one: plain_keys.read(typed, one) for one in texts}
    return {one: key for one, key in read.items() if None not in key}


def _rows(
    call: Invocation,
    observation: Observation,
    relid: int,
    columns: Columns,
    values: Collection[Key],
) -> pa.Table | None:
    """Return the current rows that have some values; None where these are Spark's to find."""
    lookups = call.services.lookups
    if columns:
        return rows_with(observation, relid, columns, values, lookups)
    return observation.current_rows(relid, list(values), lookups)


def _values_among(
    call: Invocation,
    observation: Observation,
    relid: int,
    columns: Columns,
    wanted: Collection[Key],
) -> Iterator[Key]:
    """Read all values that rows of a table have; return at least those that are wanted."""
    snapshot = observation.result.snapshots[relid]
    query = keys.compile_values(snapshot, columns) if columns else keys.compile_keys(snapshot)
    firsts = [key[0] for key in wanted]
    with Observer(call.session).run(query, observation, call.running) as batches:
        for batch in batches:
            call.running.check()
            first = plain_keys.plain(batch.column(0))
            among = batch.filter(pc.is_in(first, value_set=pa.array(firsts, first.type)))
            yield from plain_keys.tuples(among, among.schema.names)


def _number(number: int) -> bytes:
    return str(number).encode()
