"""Values of many rows to a run of messages: letter, length, payload.

A payload is a sequence of pieces: constant bytes, or one value per row. Pieces of constant width
are laid into one matrix, the others joined to it row by row; the data buffer of the result is the
finished run.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.buffers import (
    Octets,
    as_binary,
    big_endian,
    evenly_long,
    fixed,
    join_filled,
    lengths_of,
    numbers,
    offsets_of,
    validity,
)

Piece: TypeAlias = bytes | pa.Array
"""The same bytes in each row, or a value per row; NULL adds nothing."""

_MAX_RUN: Final = 1 << 30
"""Arrow counts the bytes of a joined array in 32 bits, so longer runs are made in parts."""
_MAX_MESSAGE: Final = 0x3FFF_FFFF
"""MaxAllocSize: no row PostgreSQL sends is longer."""
_NUMBER_WIDTHS: Final = frozenset({1, 2, 4, 8})
_LENGTH: Final = 4
"""Bytes of a length, which counts itself."""


def field_pieces(columns: Sequence[pa.Array]) -> list[Piece]:
    """Return the payload of DataRow and of a binary COPY row: field count, lengths, values."""
    pieces: list[Piece] = [len(columns).to_bytes(2, "big")]
    for values in columns:
        column = evenly_long(values)
        if pa.types.is_fixed_size_binary(column.type):
            pieces.append(column.type.byte_width.to_bytes(_LENGTH, "big"))
        else:
            lengths, valid = lengths_of(column), validity(column)
            if valid is not None:
                lengths = np.where(valid, lengths, -1)
            pieces.append(fixed(big_endian(lengths, ">i4"), None))
        pieces.append(column)
    return pieces


def messages(letter: bytes, pieces: Sequence[Piece], rows: int) -> Iterator[memoryview]:
    """Yield the messages of all rows, usually as one run.

    Raises:
        GatewayError: 54000 when a row is longer than PostgreSQL allows.
    """
    lengths = np.full(rows, _LENGTH + sum(map(_width, pieces)), np.int64)
    for piece in pieces:
        if not _width(piece):
            lengths += 0 if isinstance(piece, bytes) else lengths_of(piece)
    if rows and int(lengths.max()) > _MAX_MESSAGE:
        raise GatewayError(
            f"string buffer exceeds maximum allowed length ({_MAX_MESSAGE} bytes)",
            sqlstate=codes.PROGRAM_LIMIT_EXCEEDED,
            detail=f"A row of the result takes {int(lengths.max())} bytes.",
        )
    ends = np.cumsum(lengths + 1)
    start = 0
    while start < rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _MAX_RUN, side="right")))
        whole = stop - start == rows
        part = pieces if whole else [_sliced(piece, start, stop) for piece in pieces]
        head: list[bytes | Octets] = [letter, big_endian(lengths[start:stop], ">i4")]
        yield _run(head, part, stop - start)
        start = stop


def _width(piece: Piece) -> int:
    """Return the bytes a piece takes in each row; 0 where that differs."""
    if isinstance(piece, bytes):
        return len(piece)
    return piece.type.byte_width if pa.types.is_fixed_size_binary(piece.type) else 0


def payloads(pieces: Sequence[Piece], rows: int) -> memoryview:
    """Return the payloads of all rows one after the other, without messages around them."""
    return _run([], pieces, rows)


def _sliced(piece: Piece, start: int, stop: int) -> Piece:
    return piece if isinstance(piece, bytes) else piece.slice(start, stop - start)


def _run(head: Sequence[bytes | Octets], pieces: Sequence[Piece], rows: int) -> memoryview:
    parts: list[pa.Array] = []
    pending = list(head)
    for piece in pieces:
        if isinstance(piece, bytes):
            pending.append(piece)
        elif pa.types.is_fixed_size_binary(piece.type):
            width = piece.type.byte_width
            pending.append(numbers(piece, np.dtype((np.uint8, width))).reshape(rows, width))
        else:
            if pending:
                parts.append(_fused(pending, rows))
                pending = []
            parts.append(piece)
    if pending:
        parts.append(_fused(pending, rows))
    if len(parts) == 1:
        return memoryview(parts[0].buffers()[1])
    joined = join_filled([as_binary(part) for part in parts])
    offsets = offsets_of(joined)
    return memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])]


def _fused(pieces: Sequence[bytes | Octets], rows: int) -> pa.Array:
    """Lay pieces of constant width side by side.

    The bytes all rows share are copied at once, the others over them as numbers or records: numpy
    moves these several times as fast as short rows of bytes.
    """
    widths = [len(piece) if isinstance(piece, bytes) else piece.shape[1] for piece in pieces]
    total = sum(widths)
    template = b"".join(
        piece if isinstance(piece, bytes) else bytes(width)
        for piece, width in zip(pieces, widths, strict=True)
    )
    matrix = np.empty(rows, f"V{total}")
    matrix[:] = np.frombuffer(template, matrix.dtype)[0]
    start = 0
    for piece, width in zip(pieces, widths, strict=True):
        if not isinstance(piece, bytes):
            form = f"u{width}" if width in _NUMBER_WIDTHS else f"V{width}"
            place = np.dtype(
                {"names": ["piece"], "formats": [form], "offsets": [start], "itemsize": total}
            )
            matrix.view(place)["piece"] = np.ascontiguousarray(piece).reshape(-1).view(form)
        start += width
    return fixed(matrix.view(np.uint8).reshape(rows, total), None)
