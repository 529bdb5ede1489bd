"""Files of others that are a segment as they are, and stay theirs.

Such a segment is a directory of ours like any other, but for a list of files in place of data. So
whatever removes segments removes that list, and nothing removes, moves or writes the files. What is
listed is what was looked at when the segment was made: a file that is another now is not read.
"""

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes

LIST: Final = "_borrowed.json"
_FOOTER_END: Final = 8
"""A Parquet file ends with the length of its footer, and with what marks the format."""


@dataclass(frozen=True, slots=True)
class BorrowedFile:
    """A file as it was when it became part of a segment."""

    path: str
    size: int
    modified_ns: int
    footer: str
    """Digest of its footer, which tells where all values lie."""
    rows: int = 0
    identity: int | None = None
    """Identity of its first row, from which the others count; None where rows have a key."""

    @classmethod
    def of(cls, path: Path) -> "BorrowedFile":
        """Return a file as it is now."""
        status = path.lstat()
        return cls(str(path), status.st_size, status.st_mtime_ns, _footer_digest(path))

    def require_unchanged(self) -> None:
        """Refuse a file that is missing (58P01), or another than it was (XX001)."""
        try:
            status = Path(self.path).lstat()
        except FileNotFoundError:
            raise GatewayError(
                f'file "{self.path}", which a table was converted from in place, is missing',
                sqlstate=codes.UNDEFINED_FILE,
                hint=_HINT,
            ) from None
        found = (status.st_size, status.st_mtime_ns)
        if not stat.S_ISREG(status.st_mode) or found != (self.size, self.modified_ns):
            raise self._changed()

    def require_same_footer(self) -> None:
        """Refuse a file whose footer is another than it was (XX001)."""
        if _footer_digest(Path(self.path)) != self.footer:
            raise self._changed()

    def _changed(self) -> GatewayError:
        return GatewayError(
            f'file "{self.path}" has changed since a table was converted from it in place',
            sqlstate=codes.DATA_CORRUPTED,
            hint=_HINT,
        )


_HINT: Final = "Put back the file as it was; VACUUM FULL makes a table independent of such files."


@dataclass(frozen=True, slots=True)
class Borrowed:
    """What a segment of such files is made of."""

    version: int
    """Version number of all rows, in microseconds."""
    ascending: bool
    """Whether each file is sorted by the table's key, a single integer."""
    files: tuple[BorrowedFile, ...]

    def to_json(self) -> str:
        """Return it as it is kept."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Borrowed":
        """Return what was kept."""
        kept = json.loads(text)
        files = tuple(BorrowedFile(**file) for file in kept["files"])
        return cls(kept["version"], kept["ascending"], files)

    def require_unchanged(self) -> None:
        """Refuse files that are missing (58P01) or others than they were (XX001)."""
        for file in self.files:
            file.require_unchanged()

    def require_allowed(self, directories: Sequence[Path]) -> None:
        """Refuse files that may not be read (any more), or are others than they were.

        Raises:
            GatewayError: 42501, 58P01, XX001.
        """
        self.require_unchanged()
        allowed = [directory.resolve() for directory in directories]
        for file in self.files:
            path = Path(file.path).resolve()
            if str(path) != file.path or not any(map(path.is_relative_to, allowed)):
                raise GatewayError(
                    f'file "{file.path}", which a table was converted from in place, is not below'
                    " a directory that is allowed",
                    sqlstate=codes.INSUFFICIENT_PRIVILEGE,
                    hint="The operator of the server allows directories with --allow-path.",
                )
            file.require_same_footer()


def _footer_digest(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _FOOTER_END, 0))
        end = file.read()
        file.seek(max(size - _FOOTER_END - int.from_bytes(end[:4], "little"), 0))
        return hashlib.sha256(file.read()).hexdigest()
