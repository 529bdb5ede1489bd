"""Rows of PostgreSQL that wait until they are asked for, while the connection is in use."""

import errno
import os
import struct
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, Final

from catalog.errors import CatalogError
from catalog.pg import sqlstate
from catalog.results import Row

MOST_BYTES: Final = 16 << 20
"""How much is held in memory."""

_VALUE_BYTES: Final = 60
"""What a value takes up besides its bytes."""

_LENGTH: Final = struct.Struct("!i")
"""Before each value; -1 for NULL."""


class TupleStore:
    """Rows in the order in which they came: few in memory, the others in a file without a name.

    All are taken when it is made. The file is closed when the last of them has been read, or nobody
    holds the store any more.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        """Take all rows.

        Raises:
            CatalogError: 53100 when the disk is full, 58030 for other failures of storage, also
                while they are read.
        """
        self._kept: list[Row] = []
        self._file: IO[bytes] | None = None
        self._filed = 0
        self._width = 0
        self._first: Iterator[Row] = iter(self._kept)
        try:
            self._take(rows)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = next(self._first, None)
        if row is not None:
            return row
        if not self._filed or self._file is None:
            self.close()
            raise StopIteration
        self._filed -= 1
        with _failures():
            return [_read(self._file) for _ in range(self._width)]

    def close(self) -> None:
        """Forget the rows that have not been read."""
        self._first, self._filed = iter(()), 0
        if self._file is not None:
            self._file.close()

    def _take(self, rows: Iterable[Row]) -> None:
        size = 0
        for row in rows:
            if size <= MOST_BYTES:
                self._kept.append(row)
                size += sum(_VALUE_BYTES + len(value or b"") for value in row)
            else:
                self._put(row)
        if self._file is not None:
            with _failures():
                self._file.seek(0)

    def _put(self, row: Row) -> None:
        with _failures():
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115 - closed when it has been read
                self._width = len(row)
                weakref.finalize(self, self._file.close)
            for value in row:
                self._file.write(_LENGTH.pack(-1 if value is None else len(value)))
                self._file.write(value or b"")
        self._filed += 1


def _read(file: IO[bytes]) -> bytes | None:
    (length,) = _LENGTH.unpack(_exactly(file, _LENGTH.size))
    return None if length < 0 else _exactly(file, length)


def _exactly(file: IO[bytes], count: int) -> bytes:
    found = file.read(count)
    if len(found) < count:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return found


@contextmanager
def _failures() -> Iterator[None]:
    """Turn a failure of the file into an error of the statement."""
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        told = os.strerror(error.errno) if error.errno else str(error)
        raise CatalogError(
            f"could not {'write to' if full else 'use'} a temporary file: {told}",
            sqlstate=sqlstate.DISK_FULL if full else sqlstate.IO_ERROR,
        ) from error
