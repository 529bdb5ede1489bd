"""The directory tree of data files: where segments are staged, moved into place and described.

A segment is a directory of Parquet files, or of a list of files of others
(:mod:`.borrowed_files`). Beside them lies a small description of what the catalog does not know:
how large the rows are once decoded, which bounds the memory of their readers.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from catalog.failpoints import Failpoint, reach
from catalog.model import BORROWED, JournalTable, Segment, SegmentKind
from pgwire_gateway.spark.borrowed_files import LIST, Borrowed, BorrowedFile

logger = logging.getLogger(__name__)

STAGING: Final = "_staging"
"""Readers ignore names with a leading underscore."""
_DESCRIPTION: Final = "_description.json"
_SUFFIX: Final = ".parquet"
_DECODED_RATIO: Final = 8
"""How much rows grow when they are decoded, where nothing is known about them."""
_KEPT_LISTS: Final = 2_000
_ATTEMPTS: Final = 100

_PARTITION: Final = r"[0-9A-Za-z_%-]+=[0-9A-Za-z_%-]+"
_PLAIN: Final = re.compile(rf"[0-9A-Za-z_-]+(/[0-9A-Za-z_-]+|/{_PARTITION})*")
"""Paths that lead nowhere else: names without dots."""
_REMOVABLE: Final = re.compile(rf"\d+/\d+((/{STAGING}|(/{_PARTITION})*)/[0-9a-z-]+)?")
"""The directory of a table, by the OIDs of its database and its own, and what is in there."""
_MANY: Final = 64
"""More directories than these are made to survive a crash of the machine by one call for all."""


ORPHAN_AGE_S: Final = 24 * 3600.0
"""Age at which files that nobody has kept are taken for abandoned, where nothing else tells."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with rows of a segment."""

    path: Path
    beside: Path
    """Directory of the segment, where what is derived from the file may lie."""
    borrowed: BorrowedFile | None = None
    """Set for a file of others, which has the table's own columns alone."""
    version: int = 0
    """Version number of the rows of such a file, in microseconds."""
    ascending: bool = True
    """Whether its rows are sorted by key."""

    @property
    def name(self) -> str:
        """What tells it from the segment's other files; those of others may have equal names."""
        if self.borrowed is None:
            return self.path.name
        return f"{hashlib.sha256(bytes(self.path)).hexdigest()}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class StagedSegment:
    """A segment being written, in a directory readers ignore."""

    root: Path
    """Directory of everything the write needs."""

    @property
    def incoming(self) -> Path:
        """Directory for row versions in the order they arrive."""
        return self.root / "incoming"

    @property
    def files(self) -> Path:
        """Directory that becomes the segment."""
        return self.root / "segment"

    def discard(self) -> None:
        """Remove whatever was written; harmless a second time."""
        shutil.rmtree(self.root, ignore_errors=True)


class Warehouse:
    """The data files of all journals, on a file system of this machine."""

    def __init__(self, root: str, lenders: Sequence[Path] = ()) -> None:
        """Take the place of the tree, and the directories whose files segments may borrow."""
        self._root = Path(root.removeprefix("file://"))
        self._lenders = lenders
        self._opened = time.time()
        self._lock = threading.Lock()
        self._lists: OrderedDict[str, Borrowed] = OrderedDict()

    @property
    def root(self) -> str:
        """The directory that all is in."""
        return str(self._root)

    def stage(self, table: JournalTable) -> StagedSegment:
        """Create a directory for a new segment of a table."""
        staged = StagedSegment(self._root / table.location / STAGING / uuid.uuid4().hex)
        staged.incoming.mkdir(parents=True)
        return staged

    def install(
        self,
        staged: StagedSegment,
        table: JournalTable,
        kind: SegmentKind,
        value_bytes: int,
        borrowed: Borrowed | None = None,
    ) -> str:
        """Make a staged segment durable, move it into place and return its path.

        Args:
            staged: The segment.
            table: Whose it is.
            kind: The part of the journal it belongs to.
            value_bytes: How large its rows are in memory.
            borrowed: The files of others that it is made of, if it is.
        """
        for leftover in staged.files.iterdir():
            if leftover.suffix != _SUFFIX or leftover.name.startswith("."):
                leftover.unlink()
        self.describe(staged.files, value_bytes)
        if borrowed is not None:
            (staged.files / LIST).write_text(borrowed.to_json(), encoding="utf-8")
        for file in staged.files.iterdir():
            synchronise(file)
        synchronise(staged.files)
        name = f"{kind.value}-{uuid.uuid4().hex}{BORROWED if borrowed else ''}"
        location = self._root / table.location
        reach(Failpoint.STAGED)
        staged.files.rename(location / name)
        reach(Failpoint.RENAMED)
        for directory in (location, *location.parents):
            synchronise(directory)
            if directory == self._root:
                break
        return f"{table.location}/{name}"

    def install_partitions(
        self, table: JournalTable, staged: Sequence[tuple[Path, str]]
    ) -> list[str]:
        """Make staged directories of files durable, move them into place and return their paths.

        Args:
            table: Whose base they are.
            staged: Directories, and where each belongs below the table's.
        """
        location = self._root / table.location
        for directory, _ in staged:
            for leftover in directory.iterdir():
                if leftover.suffix != _SUFFIX or leftover.name.startswith("."):
                    leftover.unlink()
            if len(staged) <= _MANY:
                for file in directory.iterdir():
                    synchronise(file)
                synchronise(directory)
        names = [f"{below}/{SegmentKind.BASE.value}-{uuid.uuid4().hex}" for _, below in staged]
        reach(Failpoint.STAGED)
        for (directory, _), name in zip(staged, names, strict=True):
            _move(directory, location / name)
        reach(Failpoint.RENAMED)
        if len(staged) > _MANY:
            os.sync()
        else:
            entries = {parent for name in names for parent in (location / name).parents}
            for entry in entries:
                if entry == self._root or self._root in entry.parents:
                    synchronise(entry)
        return [f"{table.location}/{name}" for name in names]

    def describe(self, directory: Path, value_bytes: int) -> None:
        """Note beside the files of a segment how large its rows are in memory."""
        text = json.dumps({"value_bytes": value_bytes})
        (directory / _DESCRIPTION).write_text(text, encoding="utf-8")

    def path(self, segment: Segment) -> str:
        """Return the directory of a segment as Spark reads it."""
        return str(self.absolute(segment.path))

    def absolute(self, path: str) -> Path:
        """Return where a path relative to the warehouse is.

        Raises:
            ValueError: It is not in the form that paths of segments have.
        """
        if _PLAIN.fullmatch(path) is None:
            raise ValueError(f"no path of the warehouse: {path!r}")
        return self._root / path

    def remove(self, path: str) -> None:
        """Remove a segment, or the directory of a table; harmless when it is gone already.

        Nothing else is removed, whatever the catalog says.
        """
        if _REMOVABLE.fullmatch(path) is None:
            logger.error("not removed, as it is no path of the warehouse: %r", path)
            return
        shutil.rmtree(self._root / path, ignore_errors=True)
        for parent in Path(path).parents:
            if "=" in parent.name:
                # The partition may have no segment any more.
                with suppress(OSError):
                    (self._root / parent).rmdir()

    def remove_database(self, database: int) -> None:
        """Remove the directories of all tables of a database that is gone."""
        shutil.rmtree(self._root / str(database), ignore_errors=True)

    def abandoned(self, known: Set[str], open_s: float, *, shared: bool) -> list[str]:
        """Return directories of segments that were staged or moved but not kept.

        What was there when this process began is nobody's, unless a transaction is as old. Younger
        ones are taken for that after a day, as all are where others write here too.

        Only tables with a known segment are looked at: others may belong to other databases.

        Args:
            known: The paths of segments that are kept.
            open_s: For how long the oldest transaction has been open, in seconds.
            shared: Whether other gateways write here.
        """
        latest = self._latest(open_s, shared=shared)
        found = []
        for location in sorted({"/".join(path.split("/")[:2]) for path in known}):
            table = self._root / location
            for directory in (*_segments(table), *(table / STAGING).glob("*")):
                path = str(directory.relative_to(self._root))
                if path not in known and _is_older(directory, latest):
                    found.append(path)
        return found

    def unknown_tables(
        self, database: int, known: Set[str], open_s: float, *, shared: bool
    ) -> list[str]:
        """Return directories of tables of a database that are not known, by the same rule.

        Args:
            database: Its OID.
            known: The directories of tables that there are.
            open_s: For how long the oldest transaction has been open, in seconds.
            shared: Whether other gateways write here.
        """
        latest = self._latest(open_s, shared=shared)
        found = []
        for directory in sorted((self._root / str(database)).glob("*")):
            path = str(directory.relative_to(self._root))
            if path not in known and _is_older(directory, latest):
                found.append(path)
        return found

    def _latest(self, open_s: float, *, shared: bool) -> float:
        """Return before when what nobody knows is nobody's, in seconds since 1970."""
        now = time.time()
        ended = now - ORPHAN_AGE_S
        return min(now - open_s, ended if shared else max(ended, self._opened))

    def files(self, directory: Path) -> list[Path]:
        """Return the data files of a directory in the order of their names."""
        return sorted(file for file in directory.iterdir() if file.suffix == _SUFFIX)

    def data_files(self, segment: Segment) -> list[DataFile]:
        """Return the files with a segment's rows; those of others are what they were.

        Raises:
            GatewayError: 58P01, XX001 and 42501 for files of others that are missing, have changed
                or may not be read any more.
            OSError: Storage failed.
        """
        directory = self.absolute(segment.path)
        borrowed = self.borrowed(segment)
        if borrowed is None:
            return [DataFile(file, directory) for file in self.files(directory)]
        return [
            DataFile(Path(file.path), directory, file, borrowed.version, borrowed.ascending)
            for file in borrowed.files
        ]

    def borrowed(self, segment: Segment) -> Borrowed | None:
        """Return which files of others a segment is made of; None for one with files of ours.

        Raises:
            GatewayError, OSError: As :meth:`data_files`.
        """
        if not segment.is_borrowed:
            return None
        with self._lock:
            known = self._lists.get(segment.path)
        if known is not None:
            known.require_unchanged()
            return known
        text = (self.absolute(segment.path) / LIST).read_text(encoding="utf-8")
        found = Borrowed.from_json(text)
        found.require_allowed(self._lenders)
        with self._lock:
            self._lists[segment.path] = found
            while len(self._lists) > _KEPT_LISTS:
                self._lists.popitem(last=False)
        return found

    def require_unchanged(self, segments: Iterable[Segment]) -> None:
        """Refuse segments with files of others that are not what they were.

        Raises:
            GatewayError, OSError: As :meth:`data_files`.
        """
        for segment in segments:
            self.borrowed(segment)

    def value_bytes(self, segment: Segment) -> int:
        """Return how large the rows of a segment are in memory."""
        if segment.partition is not None:
            return segment.partition.value_bytes
        with suppress(OSError, ValueError, KeyError):
            text = (self._root / segment.path / _DESCRIPTION).read_text(encoding="utf-8")
            return int(json.loads(text)["value_bytes"])
        return segment.size_bytes * _DECODED_RATIO


def _move(directory: Path, place: Path) -> None:
    """Move a directory to a place whose parents others may be removing, as they are empty."""
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            place.parent.mkdir(parents=True, exist_ok=True)
            directory.rename(place)
            return
    directory.rename(place)


def _is_older(directory: Path, moment: float) -> bool:
    """Tell whether a directory is there and was last changed before; others may be removing it."""
    try:
        return directory.stat().st_mtime < moment
    except FileNotFoundError:
        return False


def _segments(table: Path) -> Iterator[Path]:
    """Yield the directories of segments of a table, those in partitions included."""
    for directory in table.glob("*-*"):
        if "=" not in directory.name:
            yield directory
    for partition in table.glob("*=*"):
        yield from _segments(partition)


def synchronise(path: Path) -> None:
    """Make a file, or the entries of a directory, survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
