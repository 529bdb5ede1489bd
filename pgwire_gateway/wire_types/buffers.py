"""Arrow arrays seen as numpy arrays and the other way round, without copies where possible."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes

Octets: TypeAlias = npt.NDArray[np.uint8]
"""Matrix of bytes, one row per value."""
_MAX_BYTES: Final = 0x7FFF_FFFF
Flags: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[Any]


def bytes_of(value: pa.Scalar) -> bytes | None:
    """Return the bytes of one value of a Binary, String or FixedSizeBinary array."""
    found = value.as_buffer() if value.is_valid else None
    return None if found is None else found.to_pybytes()


def too_long() -> GatewayError:
    """Return the error for a value whose encoded form is too long for any message."""
    return GatewayError(
        "a value of the result is too long to be sent", sqlstate=codes.PROGRAM_LIMIT_EXCEEDED
    )


def numbers(array: pa.Array, dtype: npt.DTypeLike) -> Numbers:
    """View the values of a fixed-width array; what is under NULLs is arbitrary."""
    width = np.dtype(dtype).itemsize
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, count=len(array), offset=array.offset * width)


def validity(array: pa.Array) -> Flags | None:
    """Return which values are not NULL; None when all are."""
    if array.null_count == 0:
        return None
    flags: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return flags


def validity_buffer(valid: Flags | None) -> pa.Buffer | None:
    """Return Arrow's bitmap of the flags."""
    if valid is None:
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def fixed(matrix: Octets, valid: Flags | None) -> pa.Array:
    """Return values of equal width as FixedSizeBinary, or as Binary when there are NULLs."""
    rows, width = matrix.shape
    if valid is None:
        data = pa.py_buffer(np.ascontiguousarray(matrix))
        return pa.Array.from_buffers(pa.binary(width), rows, [None, data])
    return variable(matrix[valid], np.where(valid, width, 0), valid)


def ragged(matrix: Numbers, taken: Flags, valid: Flags | None) -> pa.Array:
    """Return the numbers of each row that are marked as taken, as bytes."""
    if valid is not None:
        taken = taken & valid[:, np.newaxis]
    return variable(matrix[taken], taken.sum(axis=1) * matrix.itemsize, valid)


def variable(data: Numbers, lengths: Numbers, valid: Flags | None) -> pa.Array:
    """Return a Binary array from concatenated values and their lengths.

    Raises:
        GatewayError: 54000 when Arrow cannot count the bytes in 32 bits, as a value is too long.
    """
    if int(lengths.sum()) > _MAX_BYTES:
        raise too_long()
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(),
        len(lengths),
        [validity_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))],
    )


def big_endian(values: Numbers, dtype: str) -> Octets:
    """Return integers or floats as a matrix of big-endian bytes."""
    converted = np.ascontiguousarray(values).astype(dtype)
    return converted.view(np.uint8).reshape(len(values), converted.itemsize)


def as_binary(array: pa.Array) -> pa.Array:
    """Return text or fixed-width values as a Binary array, sharing the data."""
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        first = array.offset * width
        stop = first + len(array) * width
        offsets = np.arange(first, stop + 1, width, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), array.buffers()[1]]
        return pa.Array.from_buffers(pa.binary(), len(array), buffers)
    return array if pa.types.is_binary(kind) else array.cast(pa.binary())


def as_text(array: pa.Array) -> pa.Array:
    """Return a Binary array known to hold UTF-8 as String, sharing the data."""
    if pa.types.is_string(array.type):
        return array
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers(), offset=array.offset)


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """View the offsets of a Binary, String or List array."""
    data = array.buffers()[1]
    if data is None or data.size == 0:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(data, np.int32, count=len(array) + 1, offset=array.offset * 4)


def lengths_of(array: pa.Array) -> Numbers:
    """Return the length of each value in bytes, 0 for NULL."""
    if pa.types.is_fixed_size_binary(array.type):
        return np.full(len(array), array.type.byte_width, np.int64)
    lengths = np.diff(offsets_of(array)).astype(np.int64)
    valid = validity(array)
    return lengths if valid is None else np.where(valid, lengths, 0)


def evenly_long(array: pa.Array) -> pa.Array:
    """Return values that all have one length, and no NULL among them, as FixedSizeBinary.

    The data is shared. Any other values are returned as they are.
    """
    if pa.types.is_fixed_size_binary(array.type) or array.null_count or not len(array):
        return array
    offsets = offsets_of(array)
    width, odd = divmod(int(offsets[-1] - offsets[0]), len(array))
    if odd or not width or (np.diff(offsets) != width).any():
        return array
    data = array.buffers()[2].slice(int(offsets[0]))
    return pa.Array.from_buffers(pa.binary(width), len(array), [None, data])


def octets_of(array: pa.Array) -> Octets:
    """View the bytes of a Binary or String array, those of NULL values left out."""
    offsets = offsets_of(array)
    data = array.buffers()[2]
    if data is None:
        return np.zeros(0, np.uint8)
    if array.null_count and int(lengths_of(array).sum()) != offsets[-1] - offsets[0]:
        # NULL values may cover bytes; an array made anew has none there.
        return octets_of(array.drop_null())
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def join(*parts: pa.Array | bytes) -> pa.Array:
    """Concatenate values row by row as Binary; a NULL in any part makes the row NULL."""
    return pc.binary_join_element_wise(*map(_part, parts), b"")


def join_filled(parts: Sequence[pa.Array | bytes]) -> pa.Array:
    """Concatenate values row by row as Binary; NULL counts as empty."""
    return pc.binary_join_element_wise(
        *map(_part, parts), b"", null_handling="replace", null_replacement=""
    )


def _part(part: pa.Array | bytes) -> pa.Array | bytes:
    return part if isinstance(part, bytes) else as_binary(part)


def with_nulls(array: pa.Array, valid: Flags | None) -> pa.Array:
    """Return the array with NULL where the flag is not set."""
    if valid is None:
        return array
    return pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))


def patch(array: pa.Array, rows: Flags, source: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    """Replace some rows of a text array by what a function writes for the source's values."""
    mask = pa.array(rows)
    written = pa.array([write(value) for value in source.filter(mask).to_pylist()], array.type)
    return pc.replace_with_mask(array, mask, written)
