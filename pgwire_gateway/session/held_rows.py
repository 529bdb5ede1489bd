"""Rows of PostgreSQL that wait for a client to ask for them, while the connection is in use.

Few are held in memory, the others in a file without a name.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from tempfile import TemporaryFile
from typing import IO, Final

from catalog.results import Row
from pgwire_gateway.spark.errors import storage_failures

MOST_BYTES: Final = 16 << 20
"""How much is held in memory."""

_VALUE_BYTES: Final = 60
"""What a value takes up besides its bytes."""

_LENGTH: Final = struct.Struct("!i")
"""Before each value; -1 for NULL."""


def held(rows: Iterable[Row]) -> Iterator[Row]:
    """Take all rows now; return them one after the other.

    Raises:
        GatewayError: 53100 when the disk is full, 58030 for other failures of storage, also while
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
    with storage_failures():
        file = TemporaryFile()  # noqa: SIM115 - closed when the rows have been read
    for row in rows:
        count += 1
        with storage_failures():
            for value in row:
                file.write(_LENGTH.pack(-1 if value is None else len(value)))
                file.write(value or b"")
    with storage_failures():
        file.seek(0)
    return _read(file, count, width)


def _read(file: IO[bytes], count: int, width: int) -> Iterator[Row]:
    with file:
        for _ in range(count):
            with storage_failures():
                row = [_value(file) for _ in range(width)]
            yield row


def _value(file: IO[bytes]) -> bytes | None:
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    return None if length < 0 else file.read(length)
