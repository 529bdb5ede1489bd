"""numeric, held as DECIMAL with its display scale beside it or as PostgreSQL's own text."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.buffers import (
    Numbers,
    as_binary,
    as_text,
    join,
    numbers,
    validity,
    with_nulls,
)
from pgwire_gateway.wire_types.settings import EncodingSettings


def text(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write a numeric with the decimals of its Arrow type; text is passed on."""
    if not pa.types.is_decimal(values.type):
        return values
    return _point_text(values)


def display(values: pa.Array, scale: int | pa.Array | None) -> pa.Array:
    """Write numerics with a given number of decimals, one for all or one per value.

    Raises:
        GatewayError: XX000 when a value has significant digits beyond its scale.
    """
    if not pa.types.is_decimal(values.type) or scale is None:
        return values
    if isinstance(scale, int):
        return _with_decimals(_point_text(values), values.type.scale, scale)
    return _with_varying_decimals(_point_text(values), values.type.scale, scale)


def small_integers(values: pa.Array) -> Numbers | None:
    """Return the integers behind the decimals, 0 for NULL; None when 64 bits do not hold them."""
    if values.type.byte_width != 16:
        return None
    words = numbers(values, np.dtype(("<i8", 2))).reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    valid = validity(values)
    if valid is not None:
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    # The smallest 64-bit number has no absolute value of 64 bits.
    small = (high == low >> 63) & (low != np.iinfo(np.int64).min)
    return np.ascontiguousarray(low) if small.all() else None


def _unscaled_text(values: pa.Array) -> pa.Array:
    """Write the integers behind the decimals."""
    kind = values.type
    if kind.byte_width == 16:
        small = small_integers(values)
        if small is not None:
            return with_nulls(pa.array(small), validity(values)).cast(pa.string())
        whole: pa.DataType = pa.decimal128(38, 0)
    elif kind.byte_width == 32:
        whole = pa.decimal256(76, 0)
    else:
        return _unscaled_text(values.cast(pa.decimal128(38, kind.scale)))
    same = pa.Array.from_buffers(whole, len(values), values.buffers(), offset=values.offset)
    return same.cast(pa.string())


def _point_text(values: pa.Array) -> pa.Array:
    scale = values.type.scale
    if len(values) == 1 and scale > 0:
        (value,) = values.to_pylist()
        return pa.array([None if value is None else f"{value:f}"], pa.string())
    digits = _unscaled_text(values)
    if scale <= 0:
        return digits
    negative = pc.starts_with(digits, "-")
    signed = pc.any(negative).as_py()
    if signed:
        digits = pc.ascii_ltrim(digits, "-")
    padded = as_binary(pc.ascii_lpad(digits, scale + 1, "0"))
    pointed = pc.binary_replace_slice(padded, -scale, -scale, b".")
    if signed:
        pointed = join(pc.if_else(negative, b"-", b""), pointed)
    return as_text(pointed)


def _with_decimals(written: pa.Array, decimals: int, scale: int) -> pa.Array:
    """Change the number of decimals of texts that all have the same number of them."""
    if scale > decimals:
        zeros = "." * (decimals == 0) + "0" * (scale - decimals)
        return as_text(join(written, zeros.encode()))
    if scale == decimals:
        return written
    dropped = decimals - scale
    tail = pc.utf8_slice_codeunits(written, -dropped, None)
    if not pc.all(pc.equal(tail, "0" * dropped), skip_nulls=True, min_count=0).as_py():
        raise GatewayError(
            f"numeric result has more than {scale} significant decimals",
            sqlstate=codes.INTERNAL_ERROR,
        )
    return pc.utf8_slice_codeunits(written, 0, -dropped - (scale == 0))


def _with_varying_decimals(written: pa.Array, decimals: int, scales: pa.Array) -> pa.Array:
    wanted = numbers(scales.cast(pa.int32()).fill_null(decimals), np.int32)
    order = np.argsort(wanted, kind="stable")
    firsts = np.flatnonzero(np.diff(wanted[order], prepend=-1))
    if len(firsts) <= 1:
        return _with_decimals(written, decimals, int(wanted[0])) if len(wanted) else written
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    parts = [
        _with_decimals(written.take(pa.array(rows)), decimals, int(wanted[rows[0]]))
        for rows in np.split(order, firsts[1:])
    ]
    return pa.concat_arrays(parts).take(pa.array(places))
