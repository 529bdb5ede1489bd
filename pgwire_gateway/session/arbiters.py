"""Rows that decide what INSERT ... ON CONFLICT does, where nothing tells them before it has run.

Those are rows with a value of a unique key that is computed. When the statement has run, those that
have a value it has written, and that were not hot, are known: its changes are undone, they are made
hot, and it runs again.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from catalog import hot_keys, sqlstate
from catalog.errors import CatalogError
from pgwire_gateway.session import computed_keys
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.needed_rows import NeededRows, WantedRows
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.text_rows import key_of, key_texts
from rewrite.errors import UnsupportedError
from rewrite.needs.keys import Key
from rewrite.needs.results import Refusal

_BY_OTHER_ROWS: Final = frozenset({sqlstate.UNIQUE_VIOLATION, sqlstate.FOREIGN_KEY_VIOLATION})
"""Errors of a row that would not have been inserted, had the one in conflict with it been hot."""


class Arbiters:
    """What has been found of such rows while a statement was tried."""

    def __init__(self, call: Invocation, needed: NeededRows) -> None:
        self._call = call
        self._needed = needed
        self._keys: set[Key] = set()
        self._has_run = False

    def added(self, wanted: WantedRows) -> WantedRows:
        """Return what is wanted with the rows that have been found."""
        if not self._keys:
            return wanted
        return replace(wanted, keys=sorted({*wanted.keys, *self._keys}, key=repr))

    def learn(self, answers: Sequence[bytes]) -> bool:
        """Look for rows that have values a statement has written; tell whether any is new.

        Args:
            answers: What the catalog has told of the values.

        Raises:
            Refusal: The files can only be read by Spark.
        """
        if not self._needed.needs.arbitrates or not answers:
            return False
        self._has_run = True
        session, table = self._call.session, self._needed.table
        written = hot_keys.unsearched(answers[0]).values
        observation = Observer(session).observe([table.relid])
        found: set[Key] = set()
        for key, values in zip(table.unique_keys, written, strict=True):
            if key.computed is None or not values:
                continue
            sought = {str(value) for (value,) in values}
            held = computed_keys.rows_with(session, observation, table, key, sought)
            if held is None:
                raise Refusal("the files of the table are read by Spark only")
            counts = Counter(value for _, value in held)
            several = [row for row, value in held if counts[value] > 1]
            found.update(key_of(table, key_texts(table, row)) for row in several)
        news = found - self._keys
        self._keys |= news
        return bool(news)

    def may_have_caused(self, error: CatalogError) -> bool:
        """Return whether such a row, had it been hot, could have kept an error from happening."""
        decides = self._needed.needs.arbitrates and not self._has_run
        return decides and error.sqlstate in _BY_OTHER_ROWS

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
        if self._keys:
            raise Refusal("ON CONFLICT with values that others write meanwhile")
