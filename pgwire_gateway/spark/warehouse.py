"""The directory tree of data files: where segments are moved into place and described.

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
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from catalog.errors import GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.model import BORROWED, JournalTable, Segment, SegmentKind
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark.borrowed_files import LIST, Borrowed, BorrowedFile
from pgwire_gateway.spark.staging import StagedSegment, Staging

logger = logging.getLogger(__name__)

STAGING: Final = "_staging"
"""Where writes go on; readers ignore names with a leading underscore."""
NO_DATABASE: Final = 0
"""Whose OID none has: segments that only one statement reads are beside those of databases."""
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


class Warehouse:
    """The data files of all journals, on a file system of this machine."""

    def __init__(self, root: str, lenders: Sequence[Path] = ()) -> None:
        """Take the place of the tree, and the directories whose files segments may borrow."""
        self._root = Path(root.removeprefix("file://"))
        self._lenders = lenders
        self.staging = Staging(self._root / STAGING)
        """What this process and others write here."""
        self._lock = threading.Lock()
        self._lists: OrderedDict[str, Borrowed] = OrderedDict()

    @property
    def root(self) -> str:
        """The directory that all is in."""
        return str(self._root)

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
        self.staging.claim(table.relid, [f"{table.location}/{name}"])
        _move(staged.files, location / name)
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
        paths = [f"{table.location}/{name}" for name in names]
        reach(Failpoint.STAGED)
        self.staging.claim(table.relid, paths)
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
        return paths

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
        self.staging.settle([path])
        if path.count("/") == 1:
            self.staging.settle_below(path)
        for parent in Path(path).parents[:-1]:
            # The partition, or the table, may have no segment any more.
            with suppress(OSError):
                (self._root / parent).rmdir()

    def remove_database(self, database: int) -> None:
        """Remove the directories of all tables of a database that is gone."""
        shutil.rmtree(self._root / str(database), ignore_errors=True)
        self.staging.settle_below(str(database))

    def unclaimed(self, database: int) -> dict[str, int]:
        """Return segments of a database that nobody claims, or is writing: their tables by path.

        They are published, or have been, or are left of processes that have told nobody.

        Args:
            database: Its OID.
        """
        # In this order: what is moved into place has been claimed before.
        found = {
            str(directory.relative_to(self._root)): int(table.name)
            for table in self._tables(database)
            for directory in (*_entries(table / STAGING, "*"), *_segments(table))
        }
        claimed = self.staging.claimed()
        return {path: relid for path, relid in found.items() if path not in claimed}

    def remove_empty(self, database: int) -> None:
        """Remove the directories of tables of a database that have nothing in them."""
        for table in self._tables(database):
            with suppress(OSError):
                (table / STAGING).rmdir()
            with suppress(OSError):
                table.rmdir()

    def _tables(self, database: int) -> list[Path]:
        found = _entries(self._root / str(database), "*")
        return sorted(table for table in found if table.name.isdecimal())

    def files(self, directory: Path) -> list[Path]:
        """Return the data files of a directory in the order of their names."""
        return sorted(file for file in directory.iterdir() if file.suffix == _SUFFIX)

    def own_files(self, segment: Segment) -> list[Path]:
        """Return the files of a segment that is not made of files of others, as they were written.

        Raises:
            GatewayError: XX001 where one is missing, or its size is another.
            OSError: Storage failed.
        """
        directory = self.absolute(segment.path)
        with os.scandir(directory) as entries:
            found = [entry for entry in entries if entry.name.endswith(_SUFFIX)]
        size = sum(entry.stat().st_size for entry in found)
        if size != segment.size_bytes:
            raise GatewayError(
                f'data files of "{segment.path}" are missing, or not what was written',
                sqlstate=codes.DATA_CORRUPTED,
                detail=f"They are {size} bytes, of {segment.size_bytes}.",
                hint="Restore the directory from a backup.",
            )
        return sorted(Path(entry.path) for entry in found)

    def data_files(self, segment: Segment) -> list[DataFile]:
        """Return the files with a segment's rows; those of others are what they were.

        Raises:
            GatewayError: 58P01, XX001 and 42501 for files of others that are missing, have changed
                or may not be read any more; XX001 as of :meth:`own_files`.
            OSError: Storage failed.
        """
        directory = self.absolute(segment.path)
        borrowed = self.borrowed(segment)
        if borrowed is None:
            return [DataFile(file, directory) for file in self.own_files(segment)]
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
        # `mkdir` raises the other where the directory goes while it looks what it is.
        with suppress(FileNotFoundError, FileExistsError):
            place.parent.mkdir(parents=True, exist_ok=True)
            directory.rename(place)
            return
    directory.rename(place)


def _segments(table: Path) -> Iterator[Path]:
    """Yield the directories of segments of a table, those in partitions included."""
    for directory in _entries(table, "*-*"):
        if "=" not in directory.name:
            yield directory
    for partition in _entries(table, "*=*"):
        yield from _segments(partition)


def _entries(directory: Path, pattern: str) -> list[Path]:
    """Return what matches in a directory; nothing where others have removed it."""
    # In Python 3.11, `glob` raises where a directory goes after it was found to be one.
    with suppress(FileNotFoundError):
        return list(directory.glob(pattern))
    return []


def synchronise(path: Path) -> None:
    """Make a file, or the entries of a directory, survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
