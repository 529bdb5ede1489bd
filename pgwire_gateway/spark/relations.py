"""Global temp views over base, deltas, tail and archive, one for each state of a table.

A view lives as long as a query is being analysed against it, and a while longer, since the next
statement usually reads the same state.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

import pyarrow as pa

from catalog.journal.key_bitmap import WORDS
from catalog.model import Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.api import Driver, Frame, Session
from pgwire_gateway.spark.engine import SessionKind, SparkEngine
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.external_frames import frame_of, newest_of
from pgwire_gateway.spark.frames import MAX_SPLIT, Frames
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.warehouse import Warehouse
from rewrite.results import Source, SourcePart

MAX_STATES: Final = 3
"""Unused states of one part of a table that are kept."""
MAX_VIEWS: Final = 512
_WHOLE_TAIL_ROWS: Final = 2000
"""Tails up to this size are converted anew for each state."""

_KINDS: Final = {
    SourcePart.BASE: (SegmentKind.BASE,),
    SourcePart.RECENT: (SegmentKind.DELTA,),
    SourcePart.RECENT_KEYS: (),
    SourcePart.JOURNAL: (SegmentKind.BASE, SegmentKind.DELTA, SegmentKind.ARCHIVE),
}
_BROADCAST: Final = "/*+ BROADCAST"
_HASH: Final = "/*+ SHUFFLE_HASH"
_STRING: Final = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""


@dataclass(frozen=True, slots=True)
class Relation:
    """A view compiled SQL needs, and the state of the table it shows."""

    source: Source
    snapshot: TableSnapshot
    tail: Callable[[], pa.Table | None]
    """Yields the tail in storage types, or the bitmap of keys where the view shows that; called
    only when the view does not exist yet."""

    def segments(self) -> tuple[Segment, ...]:
        """Return the segments the view shows."""
        kinds = _KINDS[self.source.part]
        return tuple(s for s in self.snapshot.segments if s.kind in kinds)

    @property
    def shows_tail(self) -> bool:
        """Tell whether the view shows the tail, too."""
        return self.source.part is not SourcePart.BASE and self.snapshot.tail_rows > 0


_Key = tuple[object, ...]


@dataclass(slots=True)
class _View:
    """A registered view, or one about to be."""

    part: _Key
    """What it is a state of."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    name: str | None = None
    users: int = 0


class _Registry:
    """The views of one driver."""

    def __init__(self, driver: Driver, warehouse: Warehouse) -> None:
        self.driver = driver
        self.frames = Frames(driver, warehouse)
        self.lock = threading.Lock()
        self.views: OrderedDict[_Key, _View] = OrderedDict()
        self.tails: OrderedDict[_Key, tuple[pa.Table, Frame]] = OrderedDict()
        self.free: list[str] = []
        self._numbers = count(1)

    def view_name(self) -> str:
        """Return a name for a view; what it showed before is forgotten with its registration."""
        with self.lock:
            return self.free.pop() if self.free else f"relation_{next(self._numbers)}"

    def acquire(self, key: _Key, part: _Key) -> _View:
        with self.lock:
            view = self.views.get(key)
            if view is None:
                view = self.views[key] = _View(part)
            self.views.move_to_end(key)
            view.users += 1
            return view

    def release(self, views: Iterable[_View]) -> None:
        """Give views back; the names of those nobody will read again are used for others."""
        with self.lock:
            for view in views:
                view.users -= 1
            self.free += [view.name for view in self._superseded() if view.name is not None]

    def _superseded(self) -> list[_View]:
        seen: dict[_Key, int] = {}
        dropped = []
        for position, (key, view) in enumerate(reversed(list(self.views.items()))):
            seen[view.part] = seen.get(view.part, 0) + 1
            if view.users == 0 and (seen[view.part] > MAX_STATES or position >= MAX_VIEWS):
                dropped.append(self.views.pop(key))
        return dropped


class Relations:
    """Registers views, once per state of a table, and drops superseded ones."""

    def __init__(self, engine: SparkEngine) -> None:
        self.engine = engine
        self.warehouse = engine.warehouse
        self._lock = threading.Lock()
        self._registry: _Registry | None = None

    @contextmanager
    def lease(
        self, relations: Iterable[Relation], session: Session, kind: SessionKind
    ) -> Iterator[Mapping[str, str]]:
        """Make views exist while the context lasts, which analysis of a query must not outlive.

        Yields:
            The name of the view of each source by the name compiled SQL has for it.
        """
        registry = self._of(session.driver)
        taken: list[_View] = []
        names: dict[str, str] = {}
        try:
            for relation in relations:
                self._require_unchanged(relation)
                key, part = _identity(relation, kind)
                view = registry.acquire(key, part)
                taken.append(view)
                with view.lock:
                    if view.name is None:
                        view.name = self._register(registry, relation, kind)
                names[relation.source.view] = f"global_temp.{view.name}"
            yield names
        finally:
            registry.release(taken)

    def frame(self, relation: Relation, driver: Driver, kind: SessionKind) -> Frame:
        """Return the rows of a relation as a DataFrame that is not registered."""
        self._require_unchanged(relation)
        return self._build(self._of(driver), relation, kind)

    def _require_unchanged(self, relation: Relation) -> None:
        """Refuse files of others that are not what they were; views outlive the last look."""
        with storage_failures():
            self.warehouse.require_unchanged(relation.segments())

    def row_bytes(self, snapshot: TableSnapshot, driver: Driver) -> int:
        """Return how large a row version is in memory on average."""
        return self._of(driver).frames.row_bytes(snapshot)

    def _of(self, driver: Driver) -> _Registry:
        with self._lock:
            if self._registry is None or self._registry.driver is not driver:
                self._registry = _Registry(driver, self.warehouse)
            return self._registry

    def _register(self, registry: _Registry, relation: Relation, kind: SessionKind) -> str:
        frame = self._build(registry, relation, kind)
        name = registry.view_name()
        frame.register(name)
        return name

    def _build(self, registry: _Registry, relation: Relation, kind: SessionKind) -> Frame:
        frames = registry.frames
        if relation.source.part is SourcePart.RECENT_KEYS:
            return frames.reader(kind, MAX_SPLIT).local(relation.tail(), f"{WORDS} ARRAY<BIGINT>")
        if relation.snapshot.outside is not None:
            whole = self._external(registry, relation, kind)
            return whole.coalesce(1) if kind is SessionKind.SMALL else whole
        layout = Layout.of(relation.snapshot.table)
        parts = frames.segments(layout, relation.segments(), kind)
        tail = relation.tail() if relation.shows_tail else None
        if tail is not None and tail.num_rows:
            parts += self._tail(registry, relation, layout, tail, kind)
        if not parts:
            empty = pa.table({name: pa.nulls(0) for name in layout.names})
            parts = [frames.local(layout, empty, kind)]
        whole = frames.union(parts)
        # Where Spark knows that there is one task, it plans no exchange of rows between tasks.
        return whole.coalesce(1) if kind is SessionKind.SMALL else whole

    def _external(self, registry: _Registry, relation: Relation, kind: SessionKind) -> Frame:
        """Return the row versions in a journal of others.

        What a statement has written and not yet appended there is newer than all of them.
        """
        snapshot, session = relation.snapshot, registry.frames.reader(kind, MAX_SPLIT)
        if snapshot.outside is None:
            raise TypeError(relation)
        frame = frame_of(session, snapshot.table, snapshot.outside)
        written = replace(relation, snapshot=replace(snapshot, outside=None))
        if not relation.segments() and not relation.shows_tail:
            return frame
        own = self._build(registry, written, kind)
        return frame.union(own.select(newest_of(snapshot.table)))

    def _tail(
        self,
        registry: _Registry,
        relation: Relation,
        layout: Layout,
        tail: pa.Table,
        kind: SessionKind,
    ) -> Sequence[Frame]:
        """Return frames of a tail; of a long one only the rows it has grown by are converted."""
        frames = registry.frames
        if tail.num_rows <= _WHOLE_TAIL_ROWS:
            return [frames.local(layout, tail, kind)]
        key = (relation.snapshot.table.location, layout, kind)
        known = registry.tails.get(key)
        if known is not None:
            rows, frame = known
            grown = tail.num_rows - rows.num_rows
            if 0 <= grown <= _WHOLE_TAIL_ROWS and tail.slice(0, rows.num_rows).equals(rows):
                rest = tail.slice(rows.num_rows)
                return [frame, frames.local(layout, rest, kind)] if grown else [frame]
        frame = frames.local(layout, tail, kind)
        with registry.lock:
            registry.tails[key] = (tail, frame)
            while len(registry.tails) > MAX_VIEWS:
                registry.tails.popitem(last=False)
        return [frame]


def _identity(relation: Relation, kind: SessionKind) -> tuple[_Key, _Key]:
    """Return what tells a view from all others, and what it is a state of."""
    table = relation.snapshot.table
    source = relation.source
    part = (table.relid, table.location, source.part, kind)
    paths = tuple(segment.path for segment in relation.segments())
    return (*part, source.view, paths), part


def substitute(sql: str, names: Mapping[str, str], kind: SessionKind = SessionKind.LARGE) -> str:
    """Replace the names of views in a query, outside of string literals.

    In small statements all rows are in one task, where a hash join needs no broadcast, which would
    be a job of its own.

    >>> substitute("SELECT 'a.b' FROM a.b AS t", {"a.b": "global_temp.r1"})
    "SELECT 'a.b' FROM global_temp.r1 AS t"
    """
    replaced = dict(names)
    if kind is SessionKind.SMALL:
        replaced[_BROADCAST] = _HASH
    if not replaced:
        return sql
    texts = "|".join(re.escape(text) for text in sorted(replaced, key=len, reverse=True))
    pattern = re.compile(rf"{_STRING}|(?<!\w)(?:{texts})(?!\w)")
    return pattern.sub(lambda found: replaced.get(found[0], found[0]), sql)
