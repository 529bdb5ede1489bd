"""Rows that a statement is known to need only when it has run.

    INSERT INTO t VALUES (current_date, 1) ON CONFLICT (at) DO UPDATE SET n = t.n + 1

Those are rows whose keys are the ones it has written, or that have a value of a unique key that it
has written, where nothing told these before. Where the journal has such rows that were not hot, the
statement's changes are undone, they are made hot, and it runs again.

A statement that fails has written nothing. Had such a row been hot, it might not have: a row that
is in conflict with it is not inserted. So it runs again while the rows that it proposes are told
(``catalog/sql``, hot keys), and has failed when all rows are hot that those could have met.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final

import pyarrow as pa

from catalog.bookkeeping.calls import Call
from catalog.errors import CatalogError
from catalog.hot import hot_keys
from catalog.hot.hot_keys import Proposed, Unsearched
from catalog.model import Column, JournalTable, UniqueKey
from catalog.pg import sqlstate
from pgwire_gateway.rows import computed_keys, value_search
from pgwire_gateway.rows.needed_rows import NeededRows, WantedRows
from pgwire_gateway.rows.row_search import held_rows, look_up, stored_rows
from pgwire_gateway.rows.text_rows import key_of, key_texts, key_types, text_rows
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import key_values
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.dialect import oids
from rewrite.key_types import has_one_form
from rewrite.needs.keys import Key, types_of
from rewrite.needs.results import Refusal

ATTEMPTS: Final = 50
"""How often a statement is run that finds such rows; one that fails tells them one by one."""

FOLLOWING: Final = 10
"""How many numbers that follow one that was drawn are taken for drawn the next times."""

MOST_FOLLOWING: Final = 1_000

_HIGHEST: Final = {oids.INT2: (1 << 15) - 1, oids.INT4: (1 << 31) - 1, oids.INT8: (1 << 63) - 1}
"""The highest numbers of the types that sequences draw."""

_BY_OTHER_ROWS: Final = frozenset(
    {sqlstate.UNIQUE_VIOLATION, sqlstate.FOREIGN_KEY_VIOLATION, sqlstate.CARDINALITY_VIOLATION}
)
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
        self._tells = False
        self._learned = False
        self._runs = 0

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
        news = False
        for part, answer in zip(self._parts, answers, strict=True):
            news |= self._add(part, self._found(part, hot_keys.unsearched(answer)))
        return news

    def learn_of_failure(self, told: Sequence[str]) -> bool:
        """Look for rows that a statement would have met which has failed; tell whether any is new.

        Args:
            told: What was told of rows that it has proposed.

        Returns:
            Whether it is to run again: also where nothing has been told, as it was not asked for.

        Raises:
            Refusal: The files can only be read by Spark.
        """
        if not self._tells:
            self._tells = self._learned = True
            return True
        news = False
        for part in self._parts:
            relid = part.table.relid
            rows = [row for row in map(hot_keys.proposed, told) if row and row.relid == relid]
            news |= self._add(part, self._met(part, rows))
        return news

    def _add(self, part: NeededRows, found: set[Key]) -> bool:
        known = self._keys[part.table.relid]
        new = found - known
        known |= found
        known |= _following(part.table, new)
        self._learned |= bool(new)
        return bool(new)

    def _met(self, part: NeededRows, rows: Sequence[Proposed]) -> set[Key]:
        """Return the keys of rows that have the key, or a unique value, of one of some rows."""
        if not rows:
            return set()
        observation = Observer(self._call.session).observe([part.table.relid])
        found = self._stored(part, observation, {row.key for row in rows if None not in row.key})
        for number, values in enumerate(zip(*(row.values for row in rows), strict=True)):
            held = [value for value in values if value is not None]
            pairs = self._holders(part, number, held, observation) if held else []
            found |= {key_of(part.table, key_texts(part.table, row)) for row, _ in pairs}
        return found

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
        before = observation.older_than(part.table.relid, written.mark)
        return self._stored(part, before, set(written.keys))

    def _stored(
        self, part: NeededRows, observation: Observation, keys: Collection[Sequence[object]]
    ) -> set[Key]:
        """Return those of some keys, in transfer forms, of which the journal has a row."""
        call, table = self._call, part.table
        wanted = [key_values(key_types(table), key) for key in keys]
        try:
            rows = look_up(call.services.lookups, observation, table.relid, wanted)
        except Refusal:
            rows = stored_rows(call, observation, table, wanted)
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
        if key.computed is None and key.columns not in part.drawn:
            return set()
        pairs = self._holders(part, number, values, observation)
        counts = Counter(value for _, value in pairs)
        several = [row for row, value in pairs if counts[value] > 1]
        return {key_of(table, key_texts(table, row)) for row in several}

    def _holders(
        self,
        part: NeededRows,
        number: int,
        values: Iterable[Sequence[object]],
        observation: Observation,
    ) -> Pairs:
        """Return the current rows that have one of some values, in transfer forms, of a unique key.

        Raises:
            Refusal: The files can only be read by Spark.
        """
        table = part.table
        key = table.unique_keys[number]
        pairs: Pairs | None
        if key.computed is not None:
            sought = {str(value) for (value,) in values}
            pairs = computed_keys.rows_with(self._call.session, observation, table, key, sought)
        else:
            types = [types_of(table)[column][0] for column in key.columns]
            named = [key_values(types, value) for value in values]
            pairs = self._with_plain(part, key, named, observation)
        if pairs is None:
            raise Refusal("the files of the table are read by Spark only")
        return pairs

    def _with_plain(
        self, part: NeededRows, key: UniqueKey, values: Sequence[Key], observation: Observation
    ) -> Pairs | None:
        table = part.table
        if plain_keys.has_one_form(table, key.columns):
            lookups = self._call.services.lookups
            named = frozenset(values)
            rows = value_search.rows_with(observation, table.relid, key.columns, named, lookups)
            return None if rows is None else _valued(table, key.columns, rows)
        if not all(map(_has_one_text, map(table.column, key.columns))):
            return None
        # Arrays are no values that files are looked up by.
        held = held_rows(self._call, observation, table, key.columns, values)
        return _valued(table, key.columns, held)

    def has_learned(self) -> bool:
        """Return whether the last run has told more, and one more of that kind may follow."""
        learned, self._learned = self._learned, False
        self._runs += learned
        return learned and self._runs <= ATTEMPTS

    def before(self) -> list[Call]:
        """Return the calls that come before the statement."""
        return [hot_keys.telling(is_on=True)] if self._tells else []

    def after(self) -> list[Call]:
        """Return the calls that come after it, and tell nothing."""
        return [hot_keys.telling(is_on=False)] if self._tells else []

    def may_have_caused(self, error: CatalogError) -> bool:
        """Return whether such a row, had it been hot, could have kept an error from happening."""
        return bool(self._parts) and self._is_upsert and error.sqlstate in _BY_OTHER_ROWS

    def give_up(self) -> None:
        """Refuse what finds rows anew each time (0A000).

        Raises:
            Refusal: It has run, and rows were found.
        """
        if any(self._keys.values()):
            raise Refusal("conflicts with other rows each time the statement runs")


def _following(table: JournalTable, keys: Collection[Key]) -> set[Key]:
    """Return keys that a sequence may draw when a statement runs again that has drawn some.

    A sequence that is behind the rows there are would draw one after the other that is taken.
    """
    found: set[Key] = set()
    for place, column in enumerate(table.key):
        highest = _HIGHEST.get(types_of(table)[column][0], 0)
        drawn = [(number, key) for key in keys if isinstance(number := key[place], int)]
        if not highest or not drawn:
            continue
        last, key = max(drawn, key=itemgetter(0))
        most = min(last + FOLLOWING * len(drawn), last + MOST_FOLLOWING, highest)
        found |= {(*key[:place], n, *key[place + 1 :]) for n in range(last + 1, most + 1)}
    return found


def _has_one_text(column: Column) -> bool:
    """Return whether values of a column are equal where their texts are, and not elsewhere."""
    element = oids.ELEMENTS.get(column.type_oid, column.type_oid)
    return has_one_form(element, column.typmod)


def _valued(
    table: JournalTable, columns: Sequence[int], rows: pa.Table
) -> list[tuple[TextRow, Key]]:
    """Return rows, each with what it has in some columns, as texts."""
    places = [table.columns.index(table.column(attnum)) for attnum in columns]
    return [(row, tuple(row[place] for place in places)) for row in text_rows(table, rows)]
