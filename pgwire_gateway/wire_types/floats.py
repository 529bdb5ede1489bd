"""float4 and float8, also in the text of geometric types.

Arrow writes the shortest digits that read back as the same number. PostgreSQL does so too, but
switches to exponents at other magnitudes and does not accept the exact midpoint between two numbers
as a short form (``STRICTLY_SHORTEST`` is off in its d2s.c). Values of those magnitudes are
written one by one.
"""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from pgwire_gateway.wire_types.buffers import big_endian, fixed, numbers, patch, validity
from pgwire_gateway.wire_types.settings import EncodingSettings

_SMALLEST_PLAIN = 1e-4
_LARGEST_PLAIN = {"f4": 1e6, "f8": 1e10}
"""Arrow writes exponents from 1e10 on, PostgreSQL for float4 from 1e6 on."""
_LARGEST_SIMPLE = 1e15
"""Below it Python and PostgreSQL write a float8 alike, but for a final ``.0``."""
_EXACT_INTEGERS = {"f4": 2**24, "f8": 2**53}
"""Below it no short decimal can be the midpoint between two neighbours."""
_PLAIN_EXPONENT = {"f4": 6, "f8": 15}
"""Decimal exponent from which PostgreSQL writes an exponent."""
_DIGITS = {"f4": 6, "f8": 15}
"""FLT_DIG and DBL_DIG."""
_NUMBER = re.compile(r"[-+.\w]+")
"""A number in the text of a geometric type; an array has NULL besides."""


def text(kind: str) -> Callable[[pa.Array, EncodingSettings], pa.Array]:
    """Return the text encoder of ``f4`` or ``f8``."""

    def encode(values: pa.Array, settings: EncodingSettings) -> pa.Array:
        if settings.extra_float_digits <= 0:
            digits = _significant(kind, settings)
            return pa.array(
                [
                    None if value is None else _rounded(value, digits)
                    for value in values.to_pylist()
                ],
                pa.string(),
            )
        with np.errstate(invalid="ignore"):
            size = np.abs(numbers(values, kind))
            plain = (size >= _SMALLEST_PLAIN) & (size < _LARGEST_PLAIN[kind]) | (size == 0)
        unusual = ~plain
        valid = validity(values)
        if valid is not None:
            unusual &= valid
        written = values.cast(pa.string())
        if not unusual.any():
            return written
        return patch(written, unusual, values, lambda value: shortest(value, kind))

    return encode


def geometric_text(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Return texts in which float8 numbers are written, with as many digits as are asked for."""
    if settings.extra_float_digits > 0:
        return values
    digits = _significant("f8", settings)

    def written(number: re.Match[str]) -> str:
        return number[0] if number[0] == "NULL" else _rounded(float(number[0]), digits)

    return pa.array(
        [None if text is None else _NUMBER.sub(written, text) for text in values.to_pylist()],
        values.type,
    )


def _significant(kind: str, settings: EncodingSettings) -> int:
    return max(1, _DIGITS[kind] + settings.extra_float_digits)


def binary(kind: str) -> Callable[[pa.Array, EncodingSettings], pa.Array]:
    """Return the binary encoder of ``f4`` or ``f8``."""

    def encode(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
        return fixed(big_endian(numbers(values, kind), f">{kind}"), validity(values))

    return encode


def shortest(value: float, kind: str) -> str:
    """Write one number as float8out or float4out do with extra_float_digits above zero."""
    if not math.isfinite(value):
        return _special(value)
    if kind == "f8" and abs(value) < _LARGEST_SIMPLE:
        return repr(value).removesuffix(".0")
    number = np.float32(value) if kind == "f4" else np.float64(value)
    if abs(value) >= _EXACT_INTEGERS[kind]:
        digits = _inside_neighbours(number)
    else:
        digits = Decimal(np.format_float_scientific(number))
    power = digits.adjusted() if digits else 0
    if -4 <= power < _PLAIN_EXPONENT[kind]:
        plain = f"{digits:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    sign, figures, _ = digits.as_tuple()
    mantissa = "".join(map(str, figures)).rstrip("0")
    point = "." if len(mantissa) > 1 else ""
    return f"{'-' * sign}{mantissa[0]}{point}{mantissa[1:]}e{power:+03d}"


def _inside_neighbours(number: np.floating[Any]) -> Decimal:
    """Return the shortest decimal strictly between the midpoints to the neighbours."""
    exact = Fraction(float(number))
    down, up = sorted((_midpoint(number, -np.inf), _midpoint(number, np.inf)))
    for places in range(17):
        near = Decimal(f"{float(number):.{places}e}")
        step = Decimal(1).scaleb(near.adjusted() - places)
        inside = [
            candidate
            for candidate in (near, near - step, near + step)
            if down < Fraction(candidate) < up
        ]
        if inside:
            return min(inside, key=lambda candidate: abs(Fraction(candidate) - exact))
    return Decimal(np.format_float_scientific(number))


def _midpoint(number: np.floating[Any], direction: float) -> Fraction:
    exact = Fraction(float(number))
    with np.errstate(over="ignore"):
        neighbour = np.nextafter(number, type(number)(direction))
    if np.isfinite(neighbour):
        return (exact + Fraction(float(neighbour))) / 2
    opposite = np.nextafter(number, type(number)(-direction))
    return exact + (exact - Fraction(float(opposite))) / 2


def _rounded(value: float, digits: int) -> str:
    return format(value, f".{digits}g") if math.isfinite(value) else _special(value)


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
