"""``extract`` and ``date_part``: the fields of dates, times and intervals, and their scales."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.literals import DAY
from rewrite.dialect.numerics import WHOLE, fixed
from rewrite.dialect.time_zones import Zone, local_time, micros_of_timestamp, session_zone
from rewrite.dialect.timestamp_range import midnight
from rewrite.values import Value

# Other spellings of units (datetktbl and deltatktbl of datetime.c).
_ALIASES: Final[dict[str, str]] = {
    "c": "century",
    "cent": "century",
    "centuries": "century",
    "d": "day",
    "days": "day",
    "dec": "decade",
    "decades": "decade",
    "decs": "decade",
    "h": "hour",
    "hours": "hour",
    "hr": "hour",
    "hrs": "hour",
    "m": "minute",
    "microsecon": "microsecond",
    "microseconds": "microsecond",
    "us": "microsecond",
    "usec": "microsecond",
    "usecs": "microsecond",
    "useconds": "microsecond",
    "usecond": "microsecond",
    "mil": "millennium",
    "millennia": "millennium",
    "mils": "millennium",
    "min": "minute",
    "mins": "minute",
    "minutes": "minute",
    "mon": "month",
    "mons": "month",
    "months": "month",
    "ms": "millisecond",
    "msec": "millisecond",
    "mseconds": "millisecond",
    "msecs": "millisecond",
    "milliseconds": "millisecond",
    "msecond": "millisecond",
    "qtr": "quarter",
    "s": "second",
    "sec": "second",
    "seconds": "second",
    "secs": "second",
    "w": "week",
    "weeks": "week",
    "y": "year",
    "years": "year",
    "yr": "year",
    "yrs": "year",
}

_SECOND: Final = 1_000_000
_INTERVAL_DIGITS: Final = 22
"""Digits of the microseconds of the longest interval."""


def unit_name(text: str) -> str:
    """Return the unit a text names.

    >>> unit_name("Mons")
    'month'
    """
    lowered = text.lower()
    return _ALIASES.get(lowered, lowered)


_WORDS: Final = frozenset(
    {
        *("@", "ago", "c", "cent", "centuries", "century", "d", "day", "days", "dec", "decade"),
        *("decades", "decs", "h", "hour", "hours", "hr", "hrs", "m", "microsecon", "mil"),
        *("millennia", "millennium", "mils", "min", "mins", "minute", "minutes", "mon", "mons"),
        *("month", "months", "ms", "msec", "millisecon", "mseconds", "msecs", "qtr", "quarter"),
        *("s", "sec", "second", "seconds", "secs", "timezone", "timezone_h", "timezone_m", "us"),
        *("usec", "useconds", "usecs", "w", "week", "weeks", "y", "year", "years", "yr", "yrs"),
        *("-infinity", "ad", "allballs", "am", "apr", "april", "at", "aug", "august", "bc"),
        *("december", "dow", "doy", "dst", "epoch", "feb", "february", "fri", "friday", "inf"),
        *("infinity", "isodow", "isoyear", "j", "jan", "january", "jd", "jul", "julian", "july"),
        *("jun", "june", "mar", "march", "may", "mm", "monday", "nov", "november", "now", "oct"),
        *("october", "on", "pm", "sat", "saturday", "sep", "sept", "september", "sun", "sunday"),
        *("t", "thu", "thur", "thurs", "thursday", "today", "tomorrow", "tue", "tues"),
        *("tuesday", "undefined", "wed", "wednesday", "weds", "yesterday"),
    }
)
"""Words of datetktbl and deltatktbl in datetime.c."""
_WORD_LENGTH: Final = 10
"""``TOKMAXLEN``: more letters are not compared."""
_MAX_UNIT: Final = 62
"""Longer units are cut."""


def unknown_unit(call: Call, value: Value) -> b.Tree | None:
    """Return the error for a unit that is none, where the value is not NULL; None if it is one."""
    unit = call.text_constant(0).lower()
    if unit[:_WORD_LENGTH] in _WORDS or not unit.isascii() or len(unit) > _MAX_UNIT:
        return None
    name = oids.type_name(value.type_oid)
    error = b.raise_error(
        sqlstate.INVALID_PARAMETER_VALUE, f'unit "{unit}" not recognized for type {name}'
    )
    return b.case((b.is_not_null(value.sql), error))


@dataclass(frozen=True, slots=True)
class Field:
    """A field: an integer counting units of ``10 ** -scale``, and the scale extract() shows."""

    units: b.Tree
    scale: int = 0
    digits: int = 20
    """How many the units have at most."""


def _divided(value: b.Tree, divisor: int) -> b.Tree:
    return b.infix(exp.IntDiv, value, b.bigint(divisor))


def _plus(value: b.Tree, summand: int) -> b.Tree:
    return b.infix(exp.Add, value, b.integer(summand))


def _year_groups(year: b.Tree, size: int) -> b.Tree:
    """Return the century or millennium of an astronomical year (0 is 1 BC); none is number 0."""
    after = _divided(_plus(year, size - 1), size)
    before = b.negate(_divided(b.infix(exp.Sub, b.integer(size), year), size))
    return b.case((b.infix(exp.GT, year, b.integer(0)), after), otherwise=before)


def _decade(year: b.Tree) -> b.Tree:
    before = b.negate(_divided(b.infix(exp.Sub, b.integer(9), year), 10))
    return b.case((b.infix(exp.GTE, year, b.integer(0)), _divided(year, 10)), otherwise=before)


def _without_year_zero(year: b.Tree) -> b.Tree:
    return b.case((b.infix(exp.GT, year, b.integer(0)), year), otherwise=_plus(year, -1))


def _spark(name: str) -> Callable[[b.Tree], b.Tree]:
    return lambda day: b.call(name, day)


def _of_year(function: Callable[[b.Tree], b.Tree]) -> Callable[[b.Tree], b.Tree]:
    return lambda day: function(b.call("year", day))


_DATE_FIELDS: Final[dict[str, Callable[[b.Tree], b.Tree]]] = {
    "year": _of_year(_without_year_zero),
    "month": _spark("month"),
    "day": _spark("day"),
    "quarter": _spark("quarter"),
    "week": _spark("weekofyear"),
    "dow": lambda day: _plus(b.call("dayofweek", day), -1),
    "isodow": lambda day: _plus(b.call("weekday", day), 1),
    "doy": _spark("dayofyear"),
    "isoyear": lambda day: _without_year_zero(b.call("date_part", b.string("YEAROFWEEK"), day)),
    "decade": _of_year(_decade),
    "century": _of_year(lambda year: _year_groups(year, 100)),
    "millennium": _of_year(lambda year: _year_groups(year, 1000)),
}


def _clock_fields(unit: str, micros: b.Tree) -> Field | None:
    """Return a field of microseconds since midnight, or of an interval's, maybe negative."""
    of_minute = b.infix(exp.Mod, micros, b.bigint(60 * _SECOND))
    fields = {
        "hour": Field(_divided(micros, 3600 * _SECOND)),
        "minute": Field(b.infix(exp.Mod, _divided(micros, 60 * _SECOND), b.bigint(60))),
        "second": Field(of_minute, 6),
        "millisecond": Field(of_minute, 3),
        "microsecond": Field(of_minute),
    }
    return fields.get(unit)


def _date(unit: str, day: b.Tree) -> Field | None:
    if unit == "epoch":
        days = b.cast(b.call("unix_date", day), "BIGINT")
        return Field(b.infix(exp.Mul, days, b.bigint(86_400)))
    field = _DATE_FIELDS.get(unit)
    return Field(field(day)) if field else None


def _timestamp(unit: str, timestamp: b.Tree) -> Field | None:
    if unit == "epoch":
        return Field(micros_of_timestamp(timestamp), 6)
    field = _DATE_FIELDS.get(unit)
    if field:
        return Field(field(b.cast(timestamp, "DATE")))
    return _clock_fields(unit, b.call("pmod", micros_of_timestamp(timestamp), b.bigint(DAY)))


def _long_seconds(value: b.Tree) -> tuple[b.Tree, b.Tree, b.Tree]:
    """Return the seconds of an interval's years of 365.25 days, months of 30, and days."""
    months, days = b.field(value, "months"), b.field(value, "days")
    parts = (
        (_divided(months, 12), 31_557_600),
        (b.infix(exp.Mod, months, b.integer(12)), 30 * 86_400),
        (days, 86_400),
    )
    years, rest, whole_days = (
        b.infix(exp.Mul, b.cast(part, "BIGINT"), b.bigint(seconds)) for part, seconds in parts
    )
    return years, rest, whole_days


def _interval(unit: str, value: b.Tree) -> Field | None:
    months, days, micros = (b.field(value, name) for name in ("months", "days", "microseconds"))
    if unit == "epoch":
        years, rest, whole_days = _long_seconds(value)
        seconds = b.infix(exp.Add, b.infix(exp.Add, years, rest), whole_days)
        units = b.infix(exp.Mul, b.cast(seconds, WHOLE), b.bigint(_SECOND))
        return Field(b.infix(exp.Add, units, micros), 6, _INTERVAL_DIGITS)
    fields = {
        "year": Field(_divided(months, 12)),
        "month": Field(b.infix(exp.Mod, months, b.integer(12))),
        "day": Field(days),
        "decade": Field(_divided(months, 120)),
        "century": Field(_divided(months, 1200)),
        "millennium": Field(_divided(months, 12_000)),
    }
    return fields.get(unit) or _clock_fields(unit, micros)


def _field(call: Call) -> Field:
    unit = unit_name(call.text_constant(0))
    value = call.args[1]
    field: Field | None = None
    if value.type_oid == oids.DATE:
        field = _date(unit, value.sql)
    elif value.type_oid == oids.TIMESTAMP:
        field = _timestamp(unit, value.sql)
    elif value.type_oid == oids.TIMESTAMPTZ:
        field = _timestamptz(unit, value.sql, session_zone(call.constants))
    elif value.type_oid == oids.TIME:
        field = Field(value.sql, 6) if unit == "epoch" else _clock_fields(unit, value.sql)
    elif value.type_oid == oids.INTERVAL:
        field = _interval(unit, value.sql)
    if field is None:
        raise call.refuse(f'with field "{unit}"')
    return field


def _timestamptz(unit: str, moment: b.Tree, zone: Zone) -> Field | None:
    if unit == "epoch":
        return Field(b.call("unix_micros", moment), 6)
    return _timestamp(unit, local_time(moment, zone))


def _extract(call: Call) -> Value:
    # An operand that occurs several times in a field's expression is evaluated once.
    value = call.args[1]
    unknown = unknown_unit(call, value)
    if unknown is not None:
        return fixed(b.cast(unknown, "DECIMAL(20, 0)"), 20, 0)
    result: list[Field] = []

    def body(operand: b.Tree) -> b.Tree:
        argument = Value(operand, value.type_oid, value.typmod)
        field = _field(_replaced(call, argument))
        result.append(field)
        units = b.cast(field.units, b.decimal_type(field.digits, 0))
        if field.scale == 0:
            return units
        scaled = b.infix(
            exp.Mul,
            units,
            b.cast(
                b.string(f"{10**-field.scale:.{field.scale}f}"),
                f"DECIMAL({field.scale + 1}, {field.scale})",
            ),
        )
        return b.cast(scaled, b.decimal_type(field.digits, field.scale))

    sql = b.let([value.sql], body)
    return fixed(sql, result[0].digits, result[0].scale)


def _replaced(call: Call, argument: Value) -> Call:
    return Call(
        key=call.key,
        signature=call.signature,
        args=(call.args[0], argument),
        result_oid=call.result_oid,
        result_typmod=call.result_typmod,
        collation=call.collation,
        constants=call.constants,
    )


def _date_part(call: Call) -> Value:
    """Map ``date_part``, which computes in double precision as timestamp.c does."""
    value = call.args[1]
    if value.type_oid == oids.DATE:
        value = Value(midnight(value.sql), oids.TIMESTAMP)
    unknown = unknown_unit(call, value)
    if unknown is not None:
        return call.result(b.cast(unknown, "DOUBLE"))

    def body(operand: b.Tree) -> b.Tree:
        unit = unit_name(call.text_constant(0))
        if unit == "epoch" and value.type_oid == oids.INTERVAL:
            return _interval_epoch(operand)
        field = _field(_replaced(call, Value(operand, value.type_oid, value.typmod)))
        if field.scale == 0:
            return b.cast(field.units, "DOUBLE")
        divisor = b.cast(b.bigint(10**field.scale), "DOUBLE")
        if unit == "epoch":
            return b.divide(b.cast(field.units, "DOUBLE"), divisor)
        # Whole seconds and their fraction are converted apart, then added.
        second = b.bigint(_SECOND)
        whole = b.cast(_divided(field.units, _SECOND), "DOUBLE")
        fraction = b.cast(b.infix(exp.Mod, field.units, second), "DOUBLE")
        if unit == "millisecond":
            whole = b.infix(exp.Mul, whole, b.cast(b.integer(1000), "DOUBLE"))
        return b.infix(exp.Add, whole, b.divide(fraction, divisor))

    return call.result(b.let([value.sql], body))


def _interval_epoch(value: b.Tree) -> b.Tree:
    """Return an interval's seconds, summed up as PostgreSQL does."""
    micros = b.cast(b.field(value, "microseconds"), "DOUBLE")
    seconds = b.divide(micros, b.cast(b.bigint(_SECOND), "DOUBLE"))
    for part in _long_seconds(value):
        seconds = b.infix(exp.Add, seconds, b.cast(part, "DOUBLE"))
    return seconds


FUNCTIONS: Final[dict[str, Handler]] = {
    "extract_date": _extract,
    "extract_timestamp": _extract,
    "extract_timestamptz": _extract,
    "extract_time": _extract,
    "extract_interval": _extract,
    "date_part(text,date)": _date_part,
    "timestamp_part": _date_part,
    "timestamptz_part": _date_part,
    "time_part": _date_part,
    "interval_part": _date_part,
}
