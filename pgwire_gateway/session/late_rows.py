"""Rows that a statement is known to need only when it has run.

    INSERT INTO t VALUES (current_date, 1) ON CONFLICT (at) DO UPDATE SET n = t.n + 1

Those are rows whose keys are the ones it has written, or that have a value of a unique key that it
has written, where nothing told these before. Where the journal has such rows that were not hot, the
statement's changes are undone, they are made hot, and it runs again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from catalog import hot_keys, sqlstate
from catalog.connections import Call
from catalog.errors import CatalogError
from catalog.hot_keys import Unsearched
from catalog.model import JournalTable
from pgwire_gateway.session import computed_keys, value_search
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.needed_rows import NeededRows, WantedRows
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.row_search import look_up, stored_rows
from pgwire_gateway.session.text_rows import key_of, key_texts, key_types, text_rows
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import key_values
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.errors import UnsupportedError
from rewrite.needs.keys import Key, types_of
from rewrite.needs.results import Refusal

_BY_OTHER_ROWS: Final = frozenset({sqlstate.UNIQUE_VIOLATION, sqlstate.FOREIGN_KEY_VIOLATION})
"""Errors of a row that would not have been inserted, had the one in conflict with it been hot."""


Pairs = Sequence[tuple[TextRow, object]]
"""Rows, each with its value of a unique key."""


class LateRows:
    """What has been found of such rows while a statement was tried."""

    def __init__(self, call: Invocation, needed: NeededRows) -> None:
        self._call = call
        self._parts = [part for part in (needed, *needed.further) if part.tells_late]
        self._is_upsert = needed.is_upsert
        self._keys: dict[int, set[Key]] = {part.table.relid: set() for part in self._parts}
        self._has_run = False

    def added(self, part: NeededRows, wanted: WantedRows) -> WantedRows:
        """Return what is wanted of a table with the rows that have been found."""
        found = self._keys.get(part.table.relid)
        if not found:
            return wanted
        return replace(wanted, keys=sorted({*wanted.keys, *found}, key=repr))

    def calls(self, marks: Mapping[int, int]) -> list[Call]:
        """Return the calls that tell afterwards what a statement has written.

        Args:
            marks: By table, what was told when the write was announced.
        """
        return [
            hot_keys.searching(part.table.relid, marks[part.table.relid] if part.draws else None)
            for part in self._parts
        ]

    def learn(self, answers: Sequence[bytes]) -> bool:
        """Look for rows that a statement would have met; tell whether any is new.

        Args:
            answers: What these calls have told.

        Raises:
            Refusal: The files can only be read by Spark.
        """
        self._has_run = True
        news = False
        for part, answer in zip(self._parts, answers, strict=True):
            written = hot_keys.unsearched(answer)
            known = self._keys[part.table.relid]
            found = self._found(part, written) - known
            known |= found
            news |= bool(found)
        return news

    def _found(self, part: NeededRows, written: Unsearched) -> set[Key]:
        if not (part.draws and written.keys) and not any(written.values):
            return set()
        observation = Observer(self._call.session).observe([part.table.relid])
        found: set[Key] = set()
        if part.draws and written.keys:
            found |= self._with_keys(part, written, observation)
        for number, values in enumerate(written.values):
            if values:
                found |= self._with_values(part, number, values, observation)
        return found

    def _with_keys(
        self, part: NeededRows, written: Unsearched, observation: Observation
    ) -> set[Key]:
        """Return the keys among those written that the journal held before."""
        call, table = self._call, part.table
        before = observation.older_than(table.relid, written.mark)
        wanted = [key_values(key_types(table), key) for key in written.keys]
        try:
            rows = look_up(call.services.lookups, before, table.relid, wanted)
        except Refusal:
            rows = stored_rows(call, before, table, wanted)
        return {key_of(table, key_texts(table, row)) for row in rows.present}

    def _with_values(
        self,
        part: NeededRows,
        number: int,
        values: Iterable[Sequence[object]],
        observation: Observation,
    ) -> set[Key]:
        """Return the keys of rows that share a value of a unique key, one of which was written."""
        table = part.table
        key = table.unique_keys[number]
        if key.computed is not None:
            sought = {str(value) for (value,) in values}
            held = computed_keys.rows_with(self._call.session, observation, table, key, sought)
            pairs: Pairs | None = held
        elif key.columns in part.drawn:
            types = [types_of(table)[column][0] for column in key.columns]
            named = frozenset(key_values(types, value) for value in values)
            lookups = self._call.services.lookups
            rows = value_search.rows_with(observation, table.relid, key.columns, named, lookups)
            pairs = None if rows is None else _valued(table, key.columns, rows)
        else:
            return set()
        if pairs is None:
            raise Refusal("the files of the table are read by Spark only")
        counts = Counter(value for _, value in pairs)
        several = [row for row, value in pairs if counts[value] > 1]
        return {key_of(table, key_texts(table, row)) for row in several}

    def may_have_caused(self, error: CatalogError) -> bool:
        """Return whether such a row, had it been hot, could have kept an error from happening."""
        decides = self._parts and self._is_upsert and not self._has_run
        return bool(decides) and error.sqlstate in _BY_OTHER_ROWS

    def unknown(self, error: CatalogError) -> UnsupportedError:
        """Return the error for a conflict that hides whether there is another one (0A000)."""
        return UnsupportedError(
            "ON CONFLICT with a row that is known only when the statement runs is not supported",
            detail=str(error),
            hint="Name the rows by constants for their keys.",
        )

    def give_up(self) -> None:
        """Refuse what finds rows anew each time (0A000).

        Raises:
            Refusal: It has run, and rows were found.
        """
        if any(self._keys.values()):
            raise Refusal("conflicts with other rows each time the statement runs")


def _valued(
    table: JournalTable, columns: Sequence[int], rows: pa.Table
) -> list[tuple[TextRow, Key]]:
    """Return rows, each with what it has in some columns."""
    values = plain_keys.tuples(rows, [f"c{attnum}" for attnum in columns])
    return list(zip(text_rows(table, rows), values, strict=True))
