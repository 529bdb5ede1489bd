"""Types of keys whose rows can be hot: equal values have one form, which no setting changes.

A value in that form is a plain Python value: it is equal where PostgreSQL holds values for equal,
wherever it comes from.
"""

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from rewrite.dialect import oids
from rewrite.dialect.literals import (
    DATE_END,
    DATE_MIN,
    DAY,
    POSTGRES_EPOCH_DAYS,
    TIMESTAMP_END,
    TIMESTAMP_MIN,
)
from rewrite.dialect.type_mapping import MAX_PRECISION, character_length, numeric_shape

COMPARED: Final[dict[int, type]] = {
    **dict.fromkeys(oids.INTEGERS, int),
    **dict.fromkeys((oids.TEXT, oids.VARCHAR, oids.UUID), str),
    **dict.fromkeys((oids.DATE, oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ), int),
    oids.BOOL: bool,
    oids.NUMERIC: Decimal,
    oids.BPCHAR: str,
    oids.BYTEA: bytes,
    oids.OID: int,
}
"""What values of these types are in Python.

Those of uuid are text here, dates are days and timestamps microseconds since 1970, times
microseconds since midnight. The catalog has the same list (``pg_journal.is_compared_type``).
"""

ValueType = tuple[int, int]
"""OID and modifier of a type."""

_HELD: Final = {
    oids.INT2: range(-(2**15), 2**15),
    oids.INT4: range(-(2**31), 2**31),
    oids.INT8: range(-(2**63), 2**63),
    oids.DATE: range(DATE_MIN, DATE_END),
    oids.TIME: range(DAY + 1),
    oids.TIMESTAMP: range(TIMESTAMP_MIN, TIMESTAMP_END),
    oids.TIMESTAMPTZ: range(TIMESTAMP_MIN, TIMESTAMP_END),
}
_OIDS: Final = range(-(2**31), 2**32)
_EXACT: Final = Context(prec=2 * MAX_PRECISION)
"""Digits of a number on both sides of the point."""


def has_one_form(type_oid: int, typmod: int) -> bool:
    """Return whether a column of a key or a unique constraint can be compared by plain values.

    Numbers without scale and characters without length are equal where they look different.

    >>> has_one_form(1700, ((10 << 16) | 2) + 4), has_one_form(1700, -1), has_one_form(1042, -1)
    (True, False, False)
    """
    if type_oid == oids.NUMERIC:
        return numeric_shape(typmod) is not None
    if type_oid == oids.BPCHAR:
        return character_length(typmod) is not None
    return type_oid in COMPARED


def one_form(value: Any, type_oid: int, typmod: int) -> Any:
    """Return a value as a column has it that is equal to it; None where none can have it.

    Args:
        value: What the column is compared with by its own operator, or None.
        type_oid: The column's type, which `has_one_form`.
        typmod: Its modifier.

    >>> one_form(Decimal("1.5"), 1700, ((10 << 16) | 2) + 4), one_form("a", 1042, 4 + 3)
    (Decimal('1.50'), 'a  ')
    """
    if value is None:
        return None
    if type_oid == oids.NUMERIC:
        return _number(value, typmod)
    if type_oid == oids.BPCHAR:
        return _padded(value, typmod)
    if type_oid == oids.OID:
        # Those that were integers are negative.
        return value % 2**32 if value in _OIDS else None
    held = _HELD.get(type_oid)
    return value if held is None or value in held else None


def rounded(value: Decimal, typmod: int) -> Decimal | None:
    """Return a number as PostgreSQL rounds it to a type modifier; None for one that has no place.

    >>> rounded(Decimal("-1.55"), ((10 << 16) | 1) + 4), rounded(Decimal(100), ((2 << 16) | 0) + 4)
    (Decimal('-1.6'), None)
    """
    shape = numeric_shape(typmod)
    if shape is None or not value.is_finite():
        return None
    if not value:
        return Decimal((0, (0,), -shape.scale))
    if value.adjusted() >= shape.precision:
        return None
    unit = Decimal((0, (1,), -shape.scale))
    found = value.quantize(unit, ROUND_HALF_UP, _EXACT)
    return found if found.adjusted() < shape.precision - shape.scale else None


def rounded_time(value: int, type_oid: int, digits: int) -> int | None:
    """Return a time as PostgreSQL rounds it to digits of seconds; None for one that has no place.

    Halves go away from midnight, those of timestamps from the beginning of 2000.

    >>> rounded_time(1_500, oids.TIME, 3), rounded_time(1_500, oids.TIMESTAMP, 3)
    (2000, 1000)
    """
    held = _HELD[type_oid]
    if value not in held:
        return None
    start = 0 if type_oid == oids.TIME else POSTGRES_EPOCH_DAYS * DAY
    unit = 10 ** max(6 - digits, 0)
    units = (abs(value - start) + unit // 2) // unit
    found = start + (units if value >= start else -units) * unit
    return found if found in held else None


def _number(value: Decimal | int, typmod: int) -> Decimal | None:
    number = Decimal(value)
    found = rounded(number, typmod)
    return found if found == number else None


def _padded(value: str, typmod: int) -> str | None:
    text, length = value.rstrip(" "), character_length(typmod)
    return None if length is None or len(text) > length else text.ljust(length)
