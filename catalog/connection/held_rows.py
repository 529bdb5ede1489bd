"""Rows of PostgreSQL that wait until they are asked for, while the connection is in use.

Few are held in memory, the others in a file without a name.
"""

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
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


def held(rows: Iterable[Row]) -> Iterator[Row]:
    """Take all rows now; return them one after the other.

    Raises:
        CatalogError: 53100 when the disk is full, 58030 for other failures of storage, also while
            rows are taken.
    """
    remaining = iter(rows)
    kept: list[Row] = []
    size = 0
    for row in remaining:
        kept.append(row)
        size += sum(_VALUE_BYTES + len(value or b"") for value in row)
        if size > MOST_BYTES:
            return chain(kept, _filed(remaining, len(row)))
    return iter(kept)


def _filed(rows: Iterator[Row], width: int) -> Iterator[Row]:
    count = 0
    with _failures():
        file = TemporaryFile()  # noqa: SIM115 - closed when the rows have been read
    for row in rows:
        count += 1
        with _failures():
            for value in row:
                file.write(_LENGTH.pack(-1 if value is None else len(value)))
                file.write(value or b"")
    with _failures():
        file.seek(0)
    return _read(file, count, width)


def _read(file: IO[bytes], count: int, width: int) -> Iterator[Row]:
    with file:
        for _ in range(count):
            with _failures():
                row = [_value(file) for _ in range(width)]
            yield row


def _value(file: IO[bytes]) -> bytes | None:
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    return None if length < 0 else file.read(length)


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
