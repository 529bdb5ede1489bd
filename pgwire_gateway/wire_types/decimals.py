"""numeric, held as DECIMAL with its display scale beside it or as PostgreSQL's own text."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog import sqlstate as codes
from catalog.errors import GatewayError
from pgwire_gateway.wire_types.buffers import (
    Flags,
    Numbers,
    as_binary,
    as_text,
    join,
    lengths_of,
    numbers,
    octets_of,
    offsets_of,
    ragged,
    validity,
    with_nulls,
)
from pgwire_gateway.wire_types.settings import EncodingSettings

_POSITIVE, _NEGATIVE = 0x0000, 0x4000
_SPECIAL = {"NaN": (0xC000, 0), "Infinity": (0xD000, 32), "-Infinity": (0xF000, 32)}
"""Sign word and display scale that numeric_send writes; the latter are bits of the header."""
_GROUP = 4
"""Decimal digits of one base-10000 digit."""
_WIDEST_MATRIX = 512
"""Values with more characters are encoded one by one, so that one does not widen all rows."""


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


def _unscaled_text(values: pa.Array) -> pa.Array:
    """Write the integers behind the decimals."""
    kind = values.type
    if kind.byte_width == 16:
        words = numbers(values, np.dtype(("<i8", 2))) if len(values) else np.zeros((0, 2), "<i8")
        low, high = words[:, 0], words[:, 1]
        fits = high == low >> 63
        valid = validity(values)
        if (fits if valid is None else fits | ~valid).all():
            return with_nulls(pa.array(np.ascontiguousarray(low)), valid).cast(pa.string())
        whole: pa.DataType = pa.decimal128(38, 0)
    elif kind.byte_width == 32:
        whole = pa.decimal256(76, 0)
    else:
        return _unscaled_text(values.cast(pa.decimal128(38, kind.scale)))
    same = pa.Array.from_buffers(whole, len(values), values.buffers(), offset=values.offset)
    return same.cast(pa.string())


def _point_text(values: pa.Array) -> pa.Array:
    scale = values.type.scale
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


def binary(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Write base-10000 digits behind digit count, weight, sign and display scale."""
    written = as_text(text(values, settings))
    wide = pc.greater(pc.binary_length(written), _WIDEST_MATRIX)
    if pc.any(wide).as_py():
        sent = [None if value is None else _binary_value(value) for value in written.to_pylist()]
        return pa.array(sent, pa.binary())
    return _binary_matrix(written)


def _binary_matrix(written: pa.Array) -> pa.Array:
    """Encode all values at once as one matrix of 16-bit words."""
    special = pc.is_in(written, value_set=pa.array(list(_SPECIAL)))
    plain = pc.if_else(special, "0", written).fill_null("0")
    negative: Flags = pc.starts_with(plain, "-").to_numpy(zero_copy_only=False)
    plain = pc.ascii_ltrim(plain, "-")
    points = numbers(pc.find_substring(plain, "."), np.int32)
    lengths = lengths_of(plain)
    scales = np.where(points < 0, 0, lengths - points - 1)
    digits = _digit_matrix(plain, np.where(points < 0, lengths, points), scales)
    whole_groups = _groups(int((lengths - scales - (points >= 0)).max(initial=1)))
    groups = digits @ np.array([1000, 100, 10, 1])

    used = groups != 0
    zero = ~used.any(axis=1)
    first = np.where(zero, 0, used.argmax(axis=1))
    last = np.where(zero, -1, groups.shape[1] - 1 - used[:, ::-1].argmax(axis=1))
    words = np.empty((len(written), 4 + groups.shape[1]), ">u2")
    words[:, 0] = last - first + 1
    words[:, 1] = np.where(zero, 0, whole_groups - 1 - first).astype(np.int16).view(np.uint16)
    words[:, 2] = np.where(negative & ~zero, _NEGATIVE, _POSITIVE)
    words[:, 3] = scales
    words[:, 4:] = groups
    if pc.any(special).as_py():
        for name, (sign, scale) in _SPECIAL.items():
            rows = pc.equal(written, name).fill_null(False).to_numpy(zero_copy_only=False)
            words[rows, 2], words[rows, 3] = sign, scale
    column = np.arange(groups.shape[1])
    taken = np.ones(words.shape, np.bool_)
    taken[:, 4:] = (column >= first[:, np.newaxis]) & (column <= last[:, np.newaxis])
    octets = words.view(np.uint8).reshape(len(written), -1)
    return ragged(octets, np.repeat(taken, 2, axis=1), validity(written))


def _digit_matrix(plain: pa.Array, whole: Numbers, scales: Numbers) -> Numbers:
    """Lay the digits out around a common point, in groups of four: rows × groups × 4."""
    before = _groups(int(whole.max(initial=1))) * _GROUP
    after = _groups(int(scales.max(initial=0))) * _GROUP
    matrix = np.zeros((len(plain), before + after), np.uint8)
    letters = octets_of(plain)
    lengths = lengths_of(plain)
    starts = offsets_of(plain)[:-1].astype(np.int64) - int(offsets_of(plain)[0])
    places = np.arange(len(letters)) - np.repeat(starts, lengths)
    wholes = np.repeat(whole, lengths)
    columns = before - wholes + places - (places > wholes)
    digit = letters != ord(".")
    flat = np.repeat(np.arange(len(plain)) * (before + after), lengths) + columns
    matrix.reshape(-1)[flat[digit]] = letters[digit] - ord("0")
    return matrix.reshape(len(plain), -1, _GROUP).astype(np.int64)


def _groups(digits: int) -> int:
    return math.ceil(digits / _GROUP)


def _binary_value(value: str) -> bytes:
    encoded: bytes = _binary_matrix(pa.array([value])).cast(pa.binary())[0].as_py()
    return encoded
