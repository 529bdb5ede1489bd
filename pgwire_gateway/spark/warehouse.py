"""The directory tree of data files: where segments are staged, moved into place and described.

A segment is a directory of Parquet files. Beside them lies a small description of what the catalog
does not know: how large the rows are once decoded, which bounds the memory of their readers.
"""

import json
import os
import shutil
import time
import uuid
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from catalog.model import JournalTable, Segment, SegmentKind

STAGING: Final = "_staging"
"""Readers ignore names with a leading underscore."""
_DESCRIPTION: Final = "_description.json"
_SUFFIX: Final = ".parquet"
_DECODED_RATIO: Final = 8
"""How much rows grow when they are decoded, where nothing is known about them."""


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

    def __init__(self, root: str) -> None:
        self._root = Path(root.removeprefix("file://"))
        self._opened = time.time()

    def stage(self, table: JournalTable) -> StagedSegment:
        """Create a directory for a new segment of a table."""
        staged = StagedSegment(self._root / table.location / STAGING / uuid.uuid4().hex)
        staged.incoming.mkdir(parents=True)
        return staged

    def install(
        self, staged: StagedSegment, table: JournalTable, kind: SegmentKind, value_bytes: int
    ) -> str:
        """Make a staged segment durable, move it into place and return its path."""
        for leftover in staged.files.iterdir():
            if leftover.suffix != _SUFFIX or leftover.name.startswith("."):
                leftover.unlink()
        description = staged.files / _DESCRIPTION
        description.write_text(json.dumps({"value_bytes": value_bytes}), encoding="utf-8")
        for file in staged.files.iterdir():
            synchronise(file)
        synchronise(staged.files)
        name = f"{kind.value}-{uuid.uuid4().hex}"
        location = self._root / table.location
        staged.files.rename(location / name)
        for directory in (location, *location.parents):
            synchronise(directory)
            if directory == self._root:
                break
        return f"{table.location}/{name}"

    def path(self, segment: Segment) -> str:
        """Return the directory of a segment as Spark reads it."""
        return str(self.absolute(segment.path))

    def absolute(self, path: str) -> Path:
        """Return where a path relative to the warehouse is."""
        return self._root / path

    def remove(self, path: str) -> None:
        """Remove a segment, or the directory of a table; harmless when it is gone already."""
        shutil.rmtree(self._root / path, ignore_errors=True)

    def abandoned(self, known: Set[str], age_s: float) -> list[str]:
        """Return directories, older than that, of segments that were staged or moved but not kept.

        Only tables with a known segment are looked at: others may belong to other databases.
        """
        latest = time.time() - age_s
        found = []
        for location in sorted({path.rpartition("/")[0] for path in known}):
            table = self._root / location
            for directory in (*table.glob("*-*"), *(table / STAGING).glob("*")):
                path = str(directory.relative_to(self._root))
                if path not in known and directory.stat().st_mtime < latest:
                    found.append(path)
        return found

    def unknown_tables(self, database: int, known: Set[str]) -> list[str]:
        """Return directories of tables of a database that are not known.

        Only those that were there when this process began: younger ones may belong to transactions
        that have not committed.
        """
        found = []
        for directory in sorted((self._root / str(database)).glob("*")):
            path = str(directory.relative_to(self._root))
            if path not in known and directory.stat().st_mtime < self._opened:
                found.append(path)
        return found

    def files(self, directory: Path) -> list[Path]:
        """Return the data files of a directory in the order of their names."""
        return sorted(file for file in directory.iterdir() if file.suffix == _SUFFIX)

    def value_bytes(self, segment: Segment) -> int:
        """Return how large the rows of a segment are in memory."""
        with suppress(OSError, ValueError, KeyError):
            text = (self._root / segment.path / _DESCRIPTION).read_text(encoding="utf-8")
            return int(json.loads(text)["value_bytes"])
        return segment.size_bytes * _DECODED_RATIO


def synchronise(path: Path) -> None:
    """Make a file, or the entries of a directory, survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
