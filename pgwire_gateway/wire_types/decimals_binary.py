"""numeric in binary format: base-10000 digits behind digit count, weight, sign and display scale.

All rows are laid out as one matrix of 16-bit words, from which leading and trailing zeros are then
left out.
"""

import math
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.buffers import (
    Flags,
    Numbers,
    as_binary,
    as_text,
    lengths_of,
    numbers,
    octets_of,
    offsets_of,
    ragged,
    validity,
)
from pgwire_gateway.wire_types.decimals import display, small_integers
from pgwire_gateway.wire_types.settings import EncodingSettings

_NEGATIVE: Final = 0x4000
_SPECIAL: Final = {"NaN": (0xC000, 0), "Infinity": (0xD000, 32), "-Infinity": (0xF000, 32)}
"""Sign word and display scale that numeric_send writes; the latter are bits of the header."""
_GROUP: Final = 4
"""Decimal digits of one base-10000 digit."""
_BASE: Final = 10_000
_WIDEST_MATRIX: Final = 512
"""Values with more characters are encoded one by one, so that one does not widen all rows."""
_LARGEST_SMALL_SCALE: Final = 16
"""Decimals that, filled up to whole groups, are below 2**63."""


def binary(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Encode decimals with the scale of their Arrow type, or texts with that of each."""
    return binary_display(values, None)


def binary_display(values: pa.Array, scale: int | pa.Array | None) -> pa.Array:
    """Encode decimals with a display scale, one for all or one per value.

    Raises:
        GatewayError: XX000 when a value has significant digits beyond its scale.
    """
    if pa.types.is_decimal(values.type) and 0 <= values.type.scale <= _LARGEST_SMALL_SCALE:
        small = small_integers(values)
        if small is not None:
            return _from_integers(small, values.type.scale, scale, validity(values))
    if pa.types.is_decimal(values.type) and scale is None:
        scale = values.type.scale
    written = as_text(as_binary(display(values, scale)))
    wide = pc.greater(pc.binary_length(written), _WIDEST_MATRIX)
    if pc.any(wide).as_py():
        parts = [_from_text(written.slice(row, 1)) for row in range(len(written))]
        return pa.concat_arrays([as_binary(part) for part in parts])
    return _from_text(written)


def _from_integers(
    unscaled: Numbers, decimals: int, scale: int | pa.Array | None, valid: Flags | None
) -> pa.Array:
    """Encode integers that count units of ``10 ** -decimals``."""
    negative = unscaled < 0
    whole, fraction = np.divmod(np.abs(unscaled), 10**decimals)
    if scale is None:
        scales: Numbers | int = decimals
    elif isinstance(scale, int):
        scales = scale
    else:
        scales = numbers(scale.cast(pa.int32()).fill_null(decimals), np.int32)
    _require_no_more_decimals(fraction, decimals, scales)
    whole_groups = _groups(len(str(int(whole.max(initial=0)))))
    fraction_groups = _groups(decimals)
    fraction = fraction * 10 ** (fraction_groups * _GROUP - decimals)
    groups = np.empty((len(unscaled), whole_groups + fraction_groups), np.uint16)
    for column in range(whole_groups + fraction_groups - 1, whole_groups, -1):
        fraction, groups[:, column] = np.divmod(fraction, _BASE)
    if fraction_groups:
        groups[:, whole_groups] = fraction
    for column in range(whole_groups - 1, 0, -1):
        whole, groups[:, column] = np.divmod(whole, _BASE)
    groups[:, 0] = whole
    return _packed(groups, whole_groups, negative, scales, valid)


def _require_no_more_decimals(fraction: Numbers, decimals: int, scales: Numbers | int) -> None:
    dropped = np.maximum(decimals - scales, 0)
    if np.any(dropped) and np.any(fraction % 10**dropped):
        raise GatewayError(
            "numeric result has more significant decimals than its scale",
            sqlstate=codes.INTERNAL_ERROR,
        )


def _from_text(written: pa.Array) -> pa.Array:
    special = pc.is_in(written, value_set=pa.array(list(_SPECIAL)))
    plain = pc.if_else(special, "0", written).fill_null("0")
    negative: Flags = pc.starts_with(plain, "-").to_numpy(zero_copy_only=False)
    plain = pc.ascii_ltrim(plain, "-")
    points = numbers(pc.find_substring(plain, "."), np.int32)
    lengths = lengths_of(plain)
    scales = np.where(points < 0, 0, lengths - points - 1)
    whole = np.where(points < 0, lengths, points)
    groups = _digit_groups(plain, whole, scales)
    header = None
    if pc.any(special).as_py():
        header = np.full((len(written), 2), -1)
        for name, words in _SPECIAL.items():
            rows = pc.equal(written, name).fill_null(False).to_numpy(zero_copy_only=False)
            header[rows] = words
    whole_groups = _groups(int(whole.max(initial=1)))
    return _packed(groups, whole_groups, negative, scales, validity(written), header)


def _packed(  # noqa: PLR0913, PLR0917
    groups: Numbers,
    whole_groups: int,
    negative: Flags,
    scales: Numbers | int,
    valid: Flags | None,
    special: Numbers | None = None,
) -> pa.Array:
    """Put headers before base-10000 digits; ``special`` holds sign and scale where not -1."""
    rows, count = groups.shape
    used = groups != 0
    first = used.argmax(axis=1)
    last = count - 1 - used[:, ::-1].argmax(axis=1)
    zero = ~used[np.arange(rows), first]
    first[zero], last[zero] = 0, -1
    words = np.empty((rows, 4 + count), ">u2")
    words[:, 0] = last - first + 1
    words[:, 1] = np.where(zero, 0, whole_groups - 1 - first).astype(np.int16).view(np.uint16)
    words[:, 2] = np.where(negative & ~zero, _NEGATIVE, 0)
    words[:, 3] = scales
    words[:, 4:] = groups
    if special is not None:
        words[:, 2:4] = np.where(special < 0, words[:, 2:4], special)
    column = np.arange(count)
    taken = np.ones(words.shape, np.bool_)
    taken[:, 4:] = (column >= first[:, np.newaxis]) & (column <= last[:, np.newaxis])
    return ragged(words, taken, valid)


def _digit_groups(plain: pa.Array, whole: Numbers, scales: Numbers) -> Numbers:
    """Lay the digits of unsigned texts out around a common point, in groups of four."""
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
    digits = matrix.reshape(len(plain), (before + after) // _GROUP, _GROUP).astype(np.uint16)
    return digits @ np.array([1000, 100, 10, 1], np.uint16)


def _groups(digits: int) -> int:
    return math.ceil(digits / _GROUP)
