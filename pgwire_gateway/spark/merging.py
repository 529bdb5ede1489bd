"""The queries of a compaction: what becomes the new base, and what goes to the archive."""

# ruff: noqa: S608 - the names put into these queries are our own

from collections.abc import Callable, Mapping
from typing import Final

from catalog.model import SegmentKind, TableSnapshot
from pgwire_gateway.spark.keys import key_expressions
from pgwire_gateway.spark.layouts import SUBSEQUENT, VERSION, Layout

_BROADCAST_ROWS: Final = 2_000_000


Queries = Callable[[str, str], dict[SegmentKind, str]]
"""Takes the names of the views of the base and of all that is newer, returns what is written."""


class Merge:
    """The queries of a compaction over the views of the base and of all that is newer.

    Of each key the newest row version survives, unless it is a tombstone. Where a statement moved
    a row away from a key and another one to it, both versions bear the same number: the living one
    is newer.
    """

    def __init__(self, snapshot: TableSnapshot) -> None:
        recent_rows = _recent_rows(snapshot)
        self._has_base = bool(snapshot.of_kind(SegmentKind.BASE))
        self._has_recent = recent_rows > 0
        self._base = self._recent = ""
        self._columns = Layout.of(snapshot.table).names
        self._key = key_expressions(snapshot.table)
        self._hint = "/*+ BROADCAST(k) */ " if recent_rows <= _BROADCAST_ROWS else ""

    def queries(self, base_view: str, recent_view: str) -> dict[SegmentKind, str]:
        """Return what becomes the base, and what goes to the archive."""
        self._base, self._recent = base_view, recent_view
        base, archive = [], []
        if self._has_base:
            base.append(self._untouched() if self._has_recent else self._all())
        if self._has_recent:
            base.append(self._ranked(f"age = 1 AND {SUBSEQUENT} IS NULL", SUBSEQUENT))
            successor = f"COALESCE({SUBSEQUENT}, successor)"
            archive.append(self._ranked(f"NOT (age = 1 AND {SUBSEQUENT} IS NULL)", successor))
            if self._has_base:
                archive.append(self._superseded())
        found = {SegmentKind.BASE: base, SegmentKind.ARCHIVE: archive}
        return {kind: " UNION ALL ".join(texts) for kind, texts in found.items() if texts}

    def tombstones(self, version: int) -> Queries:
        """Return what gives the tombstones that end all rows, with this version number."""
        moment = f"timestamp_micros({version})"
        columns = ", ".join(
            f"{moment} AS {name}" if name in {VERSION, SUBSEQUENT} else name
            for name in self._columns
        )

        def queries(base_view: str, recent_view: str) -> dict[SegmentKind, str]:
            current = self.queries(base_view, recent_view)[SegmentKind.BASE]
            return {SegmentKind.ARCHIVE: f"SELECT {columns} FROM ({current}) AS t"}

        return queries

    def partitions(self, columns: Mapping[str, str]) -> Queries:
        """Return what gives the partitions of rows that are newer, and of base rows they concern.

        A row that has moved leaves a version in the partition where it was.

        Args:
            columns: Names and expressions of what tells the partition of a row.
        """
        told = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())

        def queries(base_view: str, recent_view: str) -> dict[SegmentKind, str]:
            self._base, self._recent = base_view, recent_view
            found = [f"SELECT {told} FROM {self._recent}"]
            if self._has_base:
                concerned = (
                    f"SELECT {self._hint}b.* FROM {self._base} AS b "
                    f"LEFT SEMI JOIN ({self._newer()}) AS k ON {self._same_key()}"
                )
                found.append(f"SELECT {told} FROM ({concerned}) AS c")
            return {SegmentKind.BASE: f"SELECT DISTINCT * FROM ({' UNION ALL '.join(found)}) AS p"}

        return queries

    def _select(self, alias: str, subsequent: str | None = None) -> str:
        return ", ".join(
            f"{subsequent} AS {name}" if subsequent and name == SUBSEQUENT else f"{alias}.{name}"
            for name in self._columns
        )

    def _keys(self, alias: str) -> list[str]:
        return [expression(alias) for expression in self._key]

    def _all(self) -> str:
        return f"SELECT {self._select('b')} FROM {self._base} AS b"

    def _newer(self) -> str:
        """Return each key of the recent part with its first version there."""
        keys = self._keys("r")
        named = ", ".join(f"{key} AS k{index}" for index, key in enumerate(keys))
        return (
            f"SELECT {named}, MIN(r.{VERSION}) AS first_version FROM {self._recent} AS r "
            f"GROUP BY {', '.join(keys)}"
        )

    def _same_key(self) -> str:
        keys = enumerate(self._keys("b"))
        return " AND ".join(f"{key} = k.k{index}" for index, key in keys)

    def _untouched(self) -> str:
        return (
            f"SELECT {self._hint}{self._select('b')} FROM {self._base} AS b "
            f"LEFT ANTI JOIN ({self._newer()}) AS k ON {self._same_key()}"
        )

    def _superseded(self) -> str:
        return (
            f"SELECT {self._hint}{self._select('b', 'k.first_version')} FROM {self._base} AS b "
            f"JOIN ({self._newer()}) AS k ON {self._same_key()}"
        )

    def _ranked(self, condition: str, subsequent: str) -> str:
        window = (
            f"PARTITION BY {', '.join(self._keys('r'))} "
            f"ORDER BY r.{VERSION} DESC, r.{SUBSEQUENT} ASC NULLS FIRST"
        )
        return (
            f"SELECT {self._select('v', subsequent)} FROM (SELECT r.*, "
            f"ROW_NUMBER() OVER ({window}) AS age, LAG(r.{VERSION}) OVER ({window}) AS successor "
            f"FROM {self._recent} AS r) AS v WHERE {condition}"
        )


def _recent_rows(snapshot: TableSnapshot) -> int:
    deltas = snapshot.of_kind(SegmentKind.DELTA)
    return sum(segment.rows for segment in deltas) + snapshot.tail_rows
