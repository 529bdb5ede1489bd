"""Dates, times and timestamps: arithmetic, truncation, conversion in the session's time zone."""

from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from catalog.pg.nodes import SQLValueFunctionOp
from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import calendar, oids
from rewrite.dialect.calls import Call, Handler, known_integer
from rewrite.dialect.date_fields import unit_name, unknown_unit
from rewrite.dialect.intervals import add_microseconds, of_microseconds
from rewrite.dialect.literals import DATE_END, DATE_MIN, DAY, float_literal, literal
from rewrite.dialect.time_zones import Zone, instant, local_time, micros_of_timestamp, session_zone
from rewrite.dialect.timestamp_range import (
    INTERVAL_OUT_OF_RANGE,
    midnight,
    start_not_before_all_time,
)
from rewrite.errors import UnsupportedError
from rewrite.values import Value

_OUT_OF_RANGE: Final = b.raise_error(sqlstate.DATETIME_FIELD_OVERFLOW, "date out of range")


def _shift_date(sign: int) -> Handler:
    def handle(call: Call) -> Value:
        first, second = call.args if call.args[0].type_oid == oids.DATE else call.args[::-1]
        start, distance = known_integer(first), known_integer(second)
        if start is not None and distance is not None:
            known = start + sign * distance
            if DATE_MIN <= known < DATE_END:
                return literal(known, oids.DATE)

        def body(day: b.Tree, count: b.Tree) -> b.Tree:
            operator = exp.Add if sign > 0 else exp.Sub
            number = b.infix(operator, b.cast(b.call("unix_date", day), "BIGINT"), count)
            # Spark lets days overflow silently.
            inside = exp.Between(
                this=b.group(number), low=b.bigint(DATE_MIN), high=b.bigint(DATE_END - 1)
            )
            moved = b.call("date_add" if sign > 0 else "date_sub", day, count)
            return b.checked(moved, (b.negation(inside), _OUT_OF_RANGE))

        return call.result(b.let((first.sql, second.sql), body))

    return handle


def _date_difference(call: Call) -> Value:
    return call.result(b.call("datediff", *call.trees))


def _timestamp_difference(call: Call) -> Value:
    micros = [
        b.call("unix_micros", value.sql)
        if value.type_oid == oids.TIMESTAMPTZ
        else micros_of_timestamp(value.sql)
        for value in call.args
    ]

    def body(later: b.Tree, earlier: b.Tree) -> b.Tree:
        difference = b.call("try_subtract", later, earlier)
        known = b.both(b.is_not_null(later), b.is_not_null(earlier))
        overflow = b.both(known, b.is_null(difference))
        return b.checked(of_microseconds(difference), (overflow, INTERVAL_OUT_OF_RANGE))

    return call.result(b.let(micros, body))


_DATE_UNITS: Final[dict[str, str]] = {
    "week": "WEEK",
    "month": "MONTH",
    "quarter": "QUARTER",
    "year": "YEAR",
}

_YEAR_UNITS: Final[dict[str, tuple[int, int]]] = {
    "decade": (10, 0),
    "century": (100, 1),
    "millennium": (1000, 1),
}
"""Unit → years in it, and the year of its first one."""


def _start_of_years(day: b.Tree, size: int, first: int) -> b.Tree:
    years = b.infix(exp.Sub, b.call("year", day), b.integer(first))
    start = b.infix(exp.Sub, b.call("year", day), b.call("pmod", years, b.integer(size)))
    return b.call("make_date", start, b.integer(1), b.integer(1))


def _start_of_day_unit(unit: str, timestamp: b.Tree) -> b.Tree | None:
    """Return the DATE with which the unit of a TIMESTAMP_NTZ began."""
    day = b.cast(timestamp, "DATE")
    if unit == "day":
        return day
    if unit in _DATE_UNITS:
        return b.call("trunc", day, b.string(_DATE_UNITS[unit]))
    if unit in _YEAR_UNITS:
        return _start_of_years(day, *_YEAR_UNITS[unit])
    return None


def _truncate(call: Call) -> Value:
    unit = unit_name(call.text_constant(0))
    value = call.args[1]
    zone = _zone(call, 2 if len(call.args) == 3 else None)
    aware = value.type_oid == oids.TIMESTAMPTZ
    unknown = unknown_unit(call, value)
    if unknown is not None and not zone.is_missing:
        return call.result(b.cast(unknown, "TIMESTAMP" if aware else "TIMESTAMP_NTZ"))
    moment = known_integer(value)
    if moment is not None and (zone.is_utc or not aware):
        first = calendar.unit_start(unit, moment)
        if first is not None and calendar.is_moment(first):
            return literal(first, call.result_oid)

    def body(moment: b.Tree) -> b.Tree:
        if zone.is_missing:
            return _missing_zone(zone, value)
        local = local_time(moment, zone) if aware else moment
        if unit in calendar.CLOCK_UNITS:
            length = b.bigint(calendar.CLOCK_UNITS[unit])
            surplus = b.call("pmod", micros_of_timestamp(local), length)
            return add_microseconds(moment, b.negate(surplus))
        start = _start_of_day_unit(unit, local)
        if start is None:
            raise call.refuse(f'with unit "{unit}"')
        first = b.cast(start_not_before_all_time(start), "TIMESTAMP_NTZ")
        return instant(first, zone) if aware else first

    return call.result(b.let([value.sql], body))


def _make_date(call: Call) -> Value:
    def body(year: b.Tree, month: b.Tree, day: b.Tree) -> b.Tree:
        known = b.both(*(b.is_not_null(part) for part in (year, month, day)))
        fields = b.call(
            "format_string",
            b.string("date field value out of range: %d-%02d-%02d"),
            *(year, month, day),
        )
        invalid = b.raise_error(sqlstate.DATETIME_FIELD_OVERFLOW, fields)
        ancient = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED, "make_date() before year 1 is not supported"
        )
        first = b.call("make_date", year, month, b.integer(1))
        return b.case(
            (b.negation(known), b.null_of("DATE")),
            (b.infix(exp.LT, year, b.integer(0)), ancient),
            (b.infix(exp.EQ, year, b.integer(0)), invalid),
            (b.negation(exp.Between(this=month, low=b.integer(1), high=b.integer(12))), invalid),
            (b.infix(exp.LT, day, b.integer(1)), invalid),
            (b.infix(exp.GT, day, b.call("day", b.call("last_day", first))), invalid),
            otherwise=b.call("make_date", year, month, day),
        )

    return call.result(b.let(call.trees, body))


def _known_unless_null(call: Call) -> Value:
    # Infinite values are refused where they would enter.
    return call.result(b.case((b.is_not_null(call.trees[0]), b.TRUE)))


def _date_plus_time(call: Call) -> Value:
    trees = call.trees if call.args[0].type_oid == oids.DATE else call.trees[::-1]
    return call.result(add_microseconds(midnight(trees[0]), trees[1]))


def _zone(call: Call, index: int | None) -> Zone:
    """Return the zone an argument names, or the session's."""
    if index is None:
        return session_zone(call.constants)
    return Zone(call.text_constant(index), call.constants)


def _missing_zone(zone: Zone, value: Value) -> b.Tree:
    """Return the error for a zone that does not exist; a NULL in it is NULL."""
    return b.case((b.is_not_null(value.sql), zone.missing()))


def _at_time_zone(call: Call) -> Value:
    local = len(call.args) == 1
    zone = _zone(call, None if local else 0)
    value = call.args[-1]
    if zone.is_missing:
        return call.result(_missing_zone(zone, value))
    if value.type_oid == oids.TIMESTAMPTZ:
        return call.result(local_time(value.sql, zone))
    return call.result(instant(value.sql, zone))


def transaction_timestamp(constants: SessionConstants) -> Value:
    """Return the start of the transaction, ``now()``."""
    return literal(constants.transaction_timestamp, oids.TIMESTAMPTZ)


def _now(call: Call) -> Value:
    return transaction_timestamp(call.constants)


def rounded_micros(micros: b.Tree, digits: int) -> b.Tree:
    """Return microseconds rounded to digits of a second, half away from zero."""
    if digits >= 6:
        return micros
    return b.call("round", micros, b.integer(digits - 6))


# PostgreSQL rounds microseconds from 2000-01-01, away from zero.
_ORIGIN: Final = 10_957 * DAY


def round_timestamp(value: Value, digits: int) -> b.Tree:
    """Return a timestamp, with or without time zone, rounded to digits of a second."""
    if digits < 0 or digits >= 6:
        return value.sql
    aware = value.type_oid == oids.TIMESTAMPTZ
    return b.let(
        [value.sql],
        lambda moment: add_microseconds(moment, _rounding(moment, digits, aware=aware)),
    )


def _rounding(moment: b.Tree, digits: int, *, aware: bool) -> b.Tree:
    micros = b.call("unix_micros", moment) if aware else micros_of_timestamp(moment)
    since_origin = b.infix(exp.Sub, micros, b.bigint(_ORIGIN))
    return b.infix(exp.Sub, rounded_micros(since_origin, digits), since_origin)


def _timestamp_scale(call: Call) -> Value:
    return call.result(round_timestamp(call.args[0], call.integer_constant(1)))


def _time_scale(call: Call) -> Value:
    digits = call.integer_constant(1)
    return call.result(rounded_micros(call.trees[0], digits) if digits >= 0 else call.trees[0])


def known_as(value: Value, type_oid: int, constants: SessionConstants) -> Value | None:
    """Return a known date or timestamp as another of these types, where no zone takes part."""
    known = known_integer(value)
    aware = oids.TIMESTAMPTZ in (value.type_oid, type_oid)
    if known is None or (aware and not session_zone(constants).is_utc):
        return None
    if value.type_oid == oids.DATE:
        moment = calendar.midnight(known)
        return None if moment is None else literal(moment, type_oid)
    return literal(known // DAY if type_oid == oids.DATE else known, type_oid)


def to_date(value: Value, constants: SessionConstants) -> b.Tree:
    """Return the day of a timestamp, in the session's time zone if it has one."""
    if value.type_oid == oids.TIMESTAMPTZ:
        return b.cast(local_time(value.sql, session_zone(constants)), "DATE")
    return b.cast(value.sql, "DATE")


def to_timestamp(value: Value, constants: SessionConstants) -> b.Tree:
    """Return a date or timestamp as timestamp without time zone."""
    if value.type_oid == oids.TIMESTAMPTZ:
        return local_time(value.sql, session_zone(constants))
    return midnight(value.sql) if value.type_oid == oids.DATE else value.sql


def to_timestamptz(value: Value, constants: SessionConstants) -> b.Tree:
    """Return a date or timestamp without time zone as the instant the session's clocks show it."""
    local = midnight(value.sql) if value.type_oid == oids.DATE else value.sql
    return instant(local, session_zone(constants))


def to_time(value: Value, constants: SessionConstants) -> b.Tree:
    """Return microseconds since midnight of a timestamp."""
    return b.call("pmod", micros_of_timestamp(to_timestamp(value, constants)), b.bigint(DAY))


_VALUE_FUNCTIONS: Final[dict[int, str]] = {
    SQLValueFunctionOp.CURRENT_DATE: "current_date",
    SQLValueFunctionOp.CURRENT_TIMESTAMP: "current_timestamp",
    SQLValueFunctionOp.CURRENT_TIMESTAMP_N: "current_timestamp",
    SQLValueFunctionOp.LOCALTIME: "localtime",
    SQLValueFunctionOp.LOCALTIME_N: "localtime",
    SQLValueFunctionOp.LOCALTIMESTAMP: "localtimestamp",
    SQLValueFunctionOp.LOCALTIMESTAMP_N: "localtimestamp",
    SQLValueFunctionOp.CURRENT_ROLE: "current_user",
    SQLValueFunctionOp.CURRENT_USER: "current_user",
    SQLValueFunctionOp.USER: "current_user",
    SQLValueFunctionOp.SESSION_USER: "session_user",
    SQLValueFunctionOp.CURRENT_CATALOG: "current_catalog",
    SQLValueFunctionOp.CURRENT_SCHEMA: "current_schema",
}


def sql_value_function(operation: int, typmod: int, constants: SessionConstants) -> Value:
    """Return CURRENT_DATE and its relatives."""
    name = _VALUE_FUNCTIONS.get(operation)
    texts = {
        "current_user": constants.current_user,
        "session_user": constants.session_user,
        "current_catalog": constants.current_database,
        "current_schema": constants.current_schema,
    }
    if name in texts:
        return literal(texts[name], oids.NAME)
    now = transaction_timestamp(constants)
    if name == "current_timestamp":
        return Value(round_timestamp(now, typmod), oids.TIMESTAMPTZ, typmod)
    local = Value(to_timestamp(now, constants), oids.TIMESTAMP)
    if name == "current_date":
        known = known_as(now, oids.DATE, constants)
        return known or Value(b.cast(local.sql, "DATE"), oids.DATE)
    if name == "localtimestamp":
        return Value(round_timestamp(local, typmod), oids.TIMESTAMP, typmod)
    if name == "localtime":
        micros = to_time(local, constants)
        return Value(rounded_micros(micros, typmod) if typmod >= 0 else micros, oids.TIME, typmod)
    raise UnsupportedError("CURRENT_TIME is not supported")


def _from_epoch(call: Call) -> Value:
    """Map ``to_timestamp``: PostgreSQL rounds microseconds counted from 2000-01-01."""

    def body(seconds: b.Tree) -> b.Tree:
        origin = b.cast(b.integer(946_684_800), "DOUBLE")
        million = b.cast(b.integer(1_000_000), "DOUBLE")
        since = b.infix(exp.Mul, b.infix(exp.Sub, seconds, origin), million)
        micros = b.infix(exp.Add, b.cast(b.call("rint", since), "BIGINT"), b.bigint(_ORIGIN))
        # Far beyond, and infinities and NaN: PostgreSQL fails or gives infinite timestamps.
        usual = exp.Between(this=seconds, low=float_literal(-6e10), high=float_literal(2.5e11))
        unfit = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED,
            "to_timestamp() beyond years 68 to 9891 is not supported",
        )
        return b.checked(b.call("timestamp_micros", micros), (b.negation(usual), unfit))

    return call.result(b.let(call.trees, body))


FUNCTIONS: Final[dict[str, Handler]] = {
    "float8_timestamptz": _from_epoch,
    "date_pli": _shift_date(1),
    "date_mii": _shift_date(-1),
    "integer_pl_date(int4,date)": _shift_date(1),
    "date_mi": _date_difference,
    "timestamp_mi": _timestamp_difference,
    "timestamp_trunc": _truncate,
    "timestamptz_trunc": _truncate,
    "timestamptz_trunc_zone": _truncate,
    "make_date": _make_date,
    "date_finite": _known_unless_null,
    "timestamp_finite": _known_unless_null,
    "interval_finite": _known_unless_null,
    "datetime_timestamp": _date_plus_time,
    "timedate_pl(time,date)": _date_plus_time,
    "timestamp_zone": _at_time_zone,
    "timestamptz_zone": _at_time_zone,
    "timestamp_at_local": _at_time_zone,
    "timestamptz_at_local": _at_time_zone,
    "now": _now,
    "timestamp_scale": _timestamp_scale,
    "timestamptz_scale": _timestamp_scale,
    "time_scale": _time_scale,
}
