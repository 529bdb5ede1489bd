"""The queries of a compaction: what becomes the new base, and what goes to the archive."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from catalog.journal.layout import (
    SUBSEQUENT,
    VERSION,
    VERSION_COLUMNS,
    column_name,
    column_names,
    hidden_names,
)
from catalog.model import SegmentKind, TableSnapshot
from rewrite.journal.versions import (
    identity,
    is_living,
    newest_first,
    same_row,
    version_order,
)
from rewrite.query.spark_text import text_of
from rewrite.query.sql import (
    aliased,
    broadcast,
    call,
    column,
    conjunction,
    literal,
    named,
    negation,
    row_number,
    select,
    union_all,
    view,
    windowed,
)

_BROADCAST_ROWS: Final = 2_000_000
_AGE, _SUCCESSOR, _FIRST = "age", "successor", "first_version"
_BASE, _RECENT, _RANKED, _KEYS = "b", "r", "v", "k"


Queries = Callable[[str, str], dict[SegmentKind, str]]
"""Takes the names of the views of the base and of all that is newer, returns what is written."""


class Merge:
    """The queries of a compaction over the views of the base and of all that is newer.

    Of each row the newest version survives, unless it is a tombstone.
    """

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._table = snapshot.table
        self._recent_rows = _recent_rows(snapshot)
        self._has_base = bool(snapshot.of_kind(SegmentKind.BASE))
        self._base = self._recent = ""
        attnums = [one.attnum for one in snapshot.table.columns]
        self._columns = [*column_names(attnums), *hidden_names(keyed=bool(snapshot.table.key))]

    def queries(self, base_view: str, recent_view: str) -> dict[SegmentKind, str]:
        """Return what becomes the base, and what goes to the archive."""
        return _texts(self._written(base_view, recent_view))

    def tombstones(self, version: int) -> Queries:
        """Return what gives the tombstones that end all rows, with this version number."""
        moment = call("timestamp_micros", literal(version))
        ended = {one.name: moment for one in VERSION_COLUMNS}

        def queries(base_view: str, recent_view: str) -> dict[SegmentKind, str]:
            current = self._written(base_view, recent_view)[SegmentKind.BASE]
            ends = select(self._items("t", ended), aliased(union_all(current), "t"))
            return _texts({SegmentKind.ARCHIVE: [ends]})

        return queries

    def concerned(self, attnums: Iterable[int]) -> Queries:
        """Return what gives some columns of rows that are newer, and of base rows they concern.

        A row that has moved leaves a version in the partition where it was.
        """
        names = [column_name(attnum) for attnum in attnums]

        def queries(base_view: str, recent_view: str) -> dict[SegmentKind, str]:
            self._base, self._recent = base_view, recent_view
            found = [select([column(name, _RECENT) for name in names], view(recent_view, _RECENT))]
            if self._has_base:
                found.append(self._joined("SEMI", [column(name, _BASE) for name in names]))
            return _texts({SegmentKind.BASE: found})

        return queries

    def _written(self, base_view: str, recent_view: str) -> dict[SegmentKind, list[exp.Select]]:
        self._base, self._recent = base_view, recent_view
        base, archive = [], []
        if self._has_base:
            base.append(self._joined("ANTI") if self._recent_rows else self._whole_base())
        if self._recent_rows:
            base.append(self._ranked(_is_current(), {}))
            successor = exp.Coalesce(
                this=column(SUBSEQUENT, _RANKED), expressions=[column(_SUCCESSOR, _RANKED)]
            )
            archive.append(self._ranked(negation(_is_current()), {SUBSEQUENT: successor}))
            if self._has_base:
                archive.append(self._superseded())
        found = {SegmentKind.BASE: base, SegmentKind.ARCHIVE: archive}
        return {kind: queries for kind, queries in found.items() if queries}

    def _items(self, alias: str, others: Mapping[str, exp.Expression]) -> list[exp.Expression]:
        """Return the columns of row versions, some of them as something else."""
        return [
            named(others[name].copy(), name) if name in others else column(name, alias)
            for name in self._columns
        ]

    def _whole_base(self) -> exp.Select:
        return select(self._items(_BASE, {}), view(self._base, _BASE))

    def _superseded(self) -> exp.Select:
        """Return the rows of the base that have newer versions, with the first of these."""
        first = column(_FIRST, _KEYS)
        return self._joined("", self._items(_BASE, {SUBSEQUENT: first}))

    def _joined(self, kind: str, items: Sequence[exp.Expression] = ()) -> exp.Select:
        """Return the rows of the base joined with what is newer, by a join of this kind."""
        query = select(items or self._items(_BASE, {}), view(self._base, _BASE))
        keys = identity(self._table, _BASE)
        newer = [column(f"k{number}", _KEYS) for number in range(len(keys))]
        join = exp.Join(
            this=aliased(self._newer(), _KEYS), on=conjunction(same_row(keys, newer)), kind=kind
        )
        if kind:
            join.set("side", "LEFT")
        query.append("joins", join)
        if self._recent_rows <= _BROADCAST_ROWS:
            broadcast(query, _KEYS)
        return query

    def _newer(self) -> exp.Select:
        """Return each key of the recent part with its first version there."""
        keys = identity(self._table, _RECENT)
        items = [named(key, f"k{number}") for number, key in enumerate(keys)]
        first = named(exp.Min(this=column(VERSION, _RECENT)), _FIRST)
        query = select([*items, first], view(self._recent, _RECENT))
        query.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return query

    def _ranked(
        self, condition: exp.Expression, others: Mapping[str, exp.Expression]
    ) -> exp.Select:
        """Return the versions of the recent part, numbered from the newest, that satisfy this."""
        rows = identity(self._table, _RECENT)
        order = newest_first(version_order(self._table), _RECENT)
        successor = exp.Lag(this=column(VERSION, _RECENT))
        ranked = select(
            [
                *self._items(_RECENT, {}),
                named(row_number(rows, order), _AGE),
                named(windowed(successor, _copies(rows), _copies(order)), _SUCCESSOR),
            ],
            view(self._recent, _RECENT),
        )
        return select(self._items(_RANKED, others), aliased(ranked, _RANKED), condition)


def _is_current() -> exp.Expression:
    newest = exp.EQ(this=column(_AGE, _RANKED), expression=literal(1))
    return exp.And(this=newest, expression=is_living(_RANKED))


def _copies(expressions: Iterable[exp.Expression]) -> list[exp.Expression]:
    return [expression.copy() for expression in expressions]


def _texts(queries: Mapping[SegmentKind, Sequence[exp.Select]]) -> dict[SegmentKind, str]:
    return {kind: text_of(union_all(found)) for kind, found in queries.items()}


def _recent_rows(snapshot: TableSnapshot) -> int:
    deltas = snapshot.of_kind(SegmentKind.DELTA)
    return sum(segment.rows for segment in deltas) + snapshot.tail_rows
