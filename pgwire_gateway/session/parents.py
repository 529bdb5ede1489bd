"""Rows that a statement has written, and that reference rows of tiered tables.

Triggers lock what is hot of these, and note values of which the catalog table has no row
(``catalog/sql``, parents). These are looked up in the journal: few are made hot, so that PostgreSQL
locks them and others go on; for many the referenced table is locked.
"""

import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog import bookkeeping
from catalog import sqlstate as codes
from catalog.errors import GatewayError, OutdatedPlanError
from catalog.hot_keys import Reading, Thawed, Writing
from catalog.model import JournalTable
from pgwire_gateway.session import announcements, referencing_rows
from pgwire_gateway.session.announcements import NotHotError
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.needed_rows import look_up
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.text_rows import key_of, key_row, key_texts
from pgwire_gateway.wire_types import plain_keys
from rewrite import keys
from rewrite.needs.keys import Key
from rewrite.needs.results import Refusal

Texts = tuple[str, ...]
"""A key as PostgreSQL's texts."""

Referencing = tuple[int, tuple[int, ...]]
"""A table that references, and its columns in the order of the key."""

MOST_LOOKED_UP: Final = 10_000
"""Of more keys all that the table has are read."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Values by which rows reference a tiered table that has no hot rows of them."""

    relid: int
    """The referenced table."""
    held: tuple[tuple[int, Texts], ...]
    """Foreign keys (OIDs of pg_constraint), and what is looked for by them: keys of the table."""
    is_tiered: bool = True
    """Whether the table is; of a resident one PostgreSQL finds all rows."""

    @property
    def texts(self) -> tuple[Texts, ...]:
        """The keys, each once."""
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
            if not one.is_tiered or make_hot(call, one.relid, one.texts):
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
    """Return what is to be looked for, by referenced tables, and who references."""
    found: dict[int, list[tuple[int, Texts]]] = defaultdict(list)
    tiered: dict[int, bool] = {}
    referencing: dict[int, Referencing] = {}
    told = json.loads(call.session.catalog.call(bookkeeping.SOUGHT_VALUES))
    for fk, relid, is_tiered, child, columns, held in told:
        found[relid] += [(fk, tuple(texts)) for texts in held]
        tiered[relid], referencing[fk] = is_tiered, (child, tuple(columns))
    ordered = sorted(found.items())
    return [Sought(relid, tuple(held), tiered[relid]) for relid, held in ordered], referencing


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


def make_hot(call: Invocation, relid: int, texts: Collection[Texts]) -> bool:
    """Make rows of a table hot that are few, and can be, by their keys; False where not."""
    texts = tuple(dict.fromkeys(texts))
    if len(texts) > call.services.config.thaw_rows:
        return False
    with suppress(NotHotError, Refusal):
        for attempt in range(1, announcements.ATTEMPTS + 1):
            call.running.check()
            writing = Writing(relid, texts, locks_rows=True)
            announced = announcements.announce(call, writing, began=False)
            if announced is None:
                continue
            if announced.is_complete:
                return True
            observation = Observer(call.session).observe([relid])
            snapshot = observation.result.snapshots[relid]
            table = snapshot.table
            cold = [key_of(table, one) for one in sorted(announced.cold)]
            if any(None in key for key in cold):
                return False
            rows = look_up(call.services.lookups, observation, relid, cold)
            taken = [key_row(table, key_of(table, one)) for one in sorted(announced.held)]
            thawed = announcements.thawing_of(call).thaw(
                relid,
                Reading.of(announced.heats, snapshot),
                rows.present,
                [*rows.absent, *taken],
            )
            if thawed is Thawed.DONE:
                return True
            if thawed is Thawed.UNFIT:
                return False
            time.sleep(announcements.PAUSE_S * attempt)
    return False


def _held(call: Invocation, sought: Sought) -> list[tuple[int, Texts]]:
    """Keep others from writing the table, and look for all values: nothing is left to be confirmed.

    Returns:
        What is not there and may be referenced by rows of a tiered table.

    Raises:
        GatewayError: 23503 where one is not there.
    """
    catalog, relid = call.session.catalog, sought.relid
    catalog.call(bookkeeping.HOLD_PARENT, _number(relid))
    observation = Observer(call.session).observe([relid])
    table = observation.result.snapshots[relid].table
    absent = _absent(call, observation, table, sought.texts)
    unknown: list[tuple[int, Texts]] = []
    for fk in dict(sought.held):
        missing = [texts for one, texts in sought.held if one == fk and texts in absent]
        held = json.dumps(missing).encode()
        answer = catalog.call(bookkeeping.RELEASE_SOUGHT, _number(fk), held)
        unknown += [(fk, tuple(texts)) for texts in json.loads(answer)]
    return unknown


def is_any_there(call: Invocation, relid: int, texts: Collection[Texts]) -> bool:
    """Return whether a table has a row of one of some keys."""
    observation = Observer(call.session).observe([relid])
    table = observation.result.snapshots[relid].table
    return len(_absent(call, observation, table, texts)) < len(set(texts))


def _absent(
    call: Invocation, observation: Observation, table: JournalTable, texts: Collection[Texts]
) -> Collection[Texts]:
    """Return those keys of which the table has no row."""
    read = {one: key_of(table, one) for one in texts}
    never = {one for one, key in read.items() if None in key}
    wanted = {key: one for one, key in read.items() if one not in never}
    if len(wanted) <= MOST_LOOKED_UP:
        with suppress(Refusal):
            rows = look_up(call.services.lookups, observation, table.relid, wanted)
            return never | {wanted[key_of(table, key_texts(table, row))] for row in rows.absent}
    for key in _keys_among(call, observation, table, wanted):
        wanted.pop(key, None)
    return never.union(wanted.values())


def _keys_among(
    call: Invocation, observation: Observation, table: JournalTable, wanted: Collection[Key]
) -> Iterator[Key]:
    """Read all keys of a table; return at least those that are wanted."""
    query = keys.compile_keys(observation.result.snapshots[table.relid])
    firsts = [key[0] for key in wanted]
    with Observer(call.session).run(query, observation, call.running) as batches:
        for batch in batches:
            call.running.check()
            first = plain_keys.plain(batch.column(0))
            among = batch.filter(pc.is_in(first, value_set=pa.array(firsts, first.type)))
            yield from plain_keys.tuples(among, among.schema.names)


def _number(number: int) -> bytes:
    return str(number).encode()
