"""Typed Spark literals of known values: constants of the statement and bound parameters."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.type_mapping import (
    INTERVAL_TYPE,
    MAX_PRECISION,
    character_length,
    storage_type,
)
from rewrite.errors import UnsupportedError
from rewrite.values import Constant, DecimalShape, Value

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - arithmetic on timestamps without time zone
_FIRST_DAY: Final = date(1, 1, 1).toordinal() - EPOCH.toordinal()
_LAST_DAY: Final = date(9999, 12, 31).toordinal() - EPOCH.toordinal()
DAY: Final = 86_400_000_000
"""Microseconds of a day."""
POSTGRES_EPOCH_DAYS: Final = 10_957
"""Days from 1970-01-01 to 2000-01-01, from which PostgreSQL counts."""
# PostgreSQL's own limits: 4714-11-24 BC to 5874897-12-31 for dates, to 294276-12-31 for timestamps.
DATE_MIN: Final = -2_440_588
DATE_END: Final = 2_145_042_906
TIMESTAMP_MIN: Final = DATE_MIN * DAY
LAST_TIMESTAMP_DAY: Final = 106_751_991
"""Days from 1970-01-01 to 294247-01-10, in the midst of which Spark's timestamps end."""
DATE_TIMESTAMP_END: Final = 106_762_940
"""Days from 1970-01-01 to 294277-01-01, before which PostgreSQL's timestamps end."""
# PostgreSQL goes 30 years further than microseconds from 1970 can.
TIMESTAMP_END: Final = 2**63 - 1


def typed_null(type_oid: int, typmod: int = -1) -> Value:
    """Return NULL of a type."""
    if type_oid == oids.NUMERIC:
        sql = b.null_of("DECIMAL(1, 0)")
        return Value(sql, type_oid, typmod, 0, DecimalShape(1, 0), Constant(None))
    return Value(
        b.null_of(storage_type(type_oid, typmod)), type_oid, typmod, constant=Constant(None)
    )


def numeric_literal(number: Decimal, typmod: int = -1) -> Value:
    """Return a numeric literal that keeps its display scale."""
    if not number.is_finite():
        raise UnsupportedError(f"numeric value {number} is not supported")
    # Decimal's own arithmetic would round to 28 digits.
    exponent = int(number.as_tuple().exponent)
    scale = max(-exponent, 0)
    precision = max(len(number.as_tuple().digits) + max(exponent, 0), scale, 1)
    if precision > MAX_PRECISION:
        raise UnsupportedError(
            f"numeric values of more than {MAX_PRECISION} digits are not supported"
        )
    shape = DecimalShape(precision, scale)
    sql = b.cast(b.string(f"{number:f}"), b.decimal_type(*shape))
    return Value(sql, oids.NUMERIC, typmod, scale, shape, Constant(number))


def _boolean(value: object) -> b.Tree:
    return b.TRUE if value else b.FALSE


def _integer(value: object) -> b.Tree:
    return b.integer(_int(value))


def _smallint(value: object) -> b.Tree:
    return b.cast(b.integer(_int(value)), "SMALLINT")


def _bigint(value: object) -> b.Tree:
    return b.bigint(_int(value))


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"not an integer: {value!r}")
    return value


def float_literal(value: float, spark_type: str = "DOUBLE") -> b.Tree:
    """Return a DOUBLE or FLOAT literal, exact to the last bit."""
    if math.isnan(value):
        return b.cast(b.string("NaN"), spark_type)
    if math.isinf(value):
        return b.cast(b.string("Infinity" if value > 0 else "-Infinity"), spark_type)
    return b.cast(b.string(repr(float(value))), spark_type)


def _double(value: object) -> b.Tree:
    return float_literal(float(value))  # type: ignore[arg-type]


def _float(value: object) -> b.Tree:
    return float_literal(float(value), "FLOAT")  # type: ignore[arg-type]


def _text(value: object) -> b.Tree:
    return b.string(str(value))


def _bytes(value: object) -> b.Tree:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"not bytes: {value!r}")
    return b.call("unhex", b.string(bytes(value).hex()))


def date_literal(days: int) -> b.Tree:
    """Return a DATE literal of a day counted from 1970-01-01."""
    if _FIRST_DAY <= days <= _LAST_DAY:
        return b.cast(b.string((EPOCH + timedelta(days=days)).date().isoformat()), "DATE")
    if not DATE_MIN <= days < DATE_END:
        raise UnsupportedError("infinite dates are not supported")
    return b.call("date_from_unix_date", b.integer(days))


def timestamp_literal(micros: int) -> b.Tree:
    """Return a TIMESTAMP_NTZ literal of microseconds from 1970-01-01."""
    _refuse_infinite(micros)
    if _FIRST_DAY * DAY <= micros < (_LAST_DAY + 1) * DAY:
        text = (EPOCH + timedelta(microseconds=micros)).isoformat(sep=" ")
        return b.cast(b.string(text), "TIMESTAMP_NTZ")
    origin = b.cast(b.string("1970-01-01 00:00:00"), "TIMESTAMP_NTZ")
    return b.call("timestampadd", b.keyword("MICROSECOND"), b.bigint(micros), origin)


def timestamptz_literal(micros: int) -> b.Tree:
    """Return a TIMESTAMP literal of microseconds from 1970-01-01 UTC."""
    _refuse_infinite(micros)
    return b.call("timestamp_micros", b.bigint(micros))


def _refuse_infinite(micros: int) -> None:
    if not TIMESTAMP_MIN <= micros < TIMESTAMP_END:
        raise UnsupportedError("infinite timestamps are not supported")


def interval_literal(months: int, days: int, microseconds: int) -> b.Tree:
    """Return the struct that holds an interval."""
    fields = b.struct(
        months=b.integer(months), days=b.integer(days), microseconds=b.bigint(microseconds)
    )
    return b.cast(fields, INTERVAL_TYPE)


def _interval(value: object) -> b.Tree:
    if not isinstance(value, Sequence) or len(value) != 3:
        raise TypeError(f"not an interval: {value!r}")
    return interval_literal(*value)


_LITERALS: Final[dict[int, Callable[[object], b.Tree]]] = {
    oids.BOOL: _boolean,
    oids.INT2: _smallint,
    oids.INT4: _integer,
    oids.INT8: _bigint,
    oids.FLOAT4: _float,
    oids.FLOAT8: _double,
    oids.TEXT: _text,
    oids.VARCHAR: _text,
    oids.BPCHAR: _text,
    oids.NAME: _text,
    oids.CHAR: _text,
    oids.UNKNOWN: _text,
    oids.JSON: _text,
    oids.JSONB: _text,
    oids.BYTEA: _bytes,
    oids.DATE: lambda value: date_literal(_int(value)),
    oids.TIME: _bigint,
    oids.TIMESTAMP: lambda value: timestamp_literal(_int(value)),
    oids.TIMESTAMPTZ: lambda value: timestamptz_literal(_int(value)),
    oids.INTERVAL: _interval,
    oids.UUID: _text,
    **dict.fromkeys(oids.OBJECT_IDS, _bigint),
}


def normalised(value: object) -> object:
    """Return a parameter's Python value as constants keep it: dates, times and UUIDs plainly.

    >>> normalised(date(1970, 1, 2)), normalised(time(0, 0, 1)), normalised(datetime(1970, 1, 2))
    (1, 1000000, 86400000000)
    """
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return (value - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.toordinal() - EPOCH.toordinal()
    if isinstance(value, time):
        return (
            (value.hour * 60 + value.minute) * 60 + value.second
        ) * 1_000_000 + value.microsecond
    if isinstance(value, UUID):
        return str(value)
    return value


def literal(value: object, type_oid: int, typmod: int = -1) -> Value:
    """Return the literal of a known value; UnsupportedError for types without one."""
    if value is None:
        return typed_null(type_oid, typmod)
    value = normalised(value)
    if type_oid in oids.ELEMENTS:
        return _array(value, type_oid, typmod)
    if type_oid == oids.NUMERIC:
        if not isinstance(value, Decimal | int):
            raise TypeError(f"not a numeric: {value!r}")
        return numeric_literal(Decimal(value), typmod)
    make = _LITERALS.get(type_oid)
    if make is None:
        raise UnsupportedError(f"constants of {oids.type_name(type_oid)} are not supported")
    if type_oid == oids.BPCHAR and (length := character_length(typmod)) is not None:
        value = str(value).ljust(length)
    return Value(make(value), type_oid, typmod, constant=Constant(value))


def _array(value: object, type_oid: int, typmod: int) -> Value:
    if not isinstance(value, list | tuple):
        raise TypeError(f"not an array: {value!r}")
    element = oids.ELEMENTS[type_oid]
    if any(isinstance(item, list) for item in value):
        raise UnsupportedError("arrays of more than one dimension are not supported")
    if element == oids.NUMERIC:
        raise UnsupportedError("constants of numeric[] are not supported")
    items = [literal(item, element, typmod) for item in value]
    spark_type = storage_type(type_oid, typmod)
    sql = b.cast(b.array(*(item.sql for item in items)), spark_type)
    return Value(sql, type_oid, typmod, constant=Constant([normalised(item) for item in value]))
