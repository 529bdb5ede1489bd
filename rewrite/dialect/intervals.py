"""Intervals: months, days and microseconds kept apart; adding them to dates and timestamps."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import calendar, oids
from rewrite.dialect.calls import Call, Handler, known_integer
from rewrite.dialect.floats import is_infinite
from rewrite.dialect.literals import DAY, float_literal, literal
from rewrite.dialect.time_zones import Zone, instant, local_time, session_zone
from rewrite.dialect.timestamp_range import (
    INTERVAL_OUT_OF_RANGE,
    OUT_OF_RANGE,
    midnight,
    within_all_time,
)
from rewrite.dialect.type_mapping import INTERVAL_TYPE
from rewrite.errors import UnsupportedError
from rewrite.values import Value

_NULL: Final = b.null_of(INTERVAL_TYPE)
_LEAST: Final = (-(2**31), -(2**31), -(2**63))
_LARGEST: Final = (2**31 - 1, 2**31 - 1, 2**63 - 1)
_DAY_SECONDS: Final = 86_400.0


def interval(months: b.Tree, days: b.Tree, microseconds: b.Tree) -> b.Tree:
    """Return the struct of an interval; the cast lets its fields be NULL, as stored ones may."""
    return b.cast(b.struct(months=months, days=days, microseconds=microseconds), INTERVAL_TYPE)


def of_microseconds(difference: b.Tree) -> b.Tree:
    """Return the interval of microseconds: whole days, and the rest of the same sign."""

    def body(micros: b.Tree) -> b.Tree:
        days = b.cast(b.infix(exp.IntDiv, micros, b.bigint(DAY)), "INT")
        parts = interval(b.integer(0), days, b.infix(exp.Mod, micros, b.bigint(DAY)))
        return b.case((b.is_not_null(micros), parts))

    return b.let([difference], body)


def _fields(value: b.Tree) -> tuple[b.Tree, b.Tree, b.Tree]:
    return b.field(value, "months"), b.field(value, "days"), b.field(value, "microseconds")


def _has_parts(value: b.Tree, parts: tuple[int, int, int]) -> b.Tree:
    """Return whether an interval has these parts."""
    makers = (b.bigint, b.integer, b.integer)
    pairs = zip(_fields(value)[::-1], makers, parts[::-1], strict=True)
    # The microseconds come first: they are hardly ever so many.
    return b.both(*(b.infix(exp.EQ, field, make(part)) for field, make, part in pairs))


def within_range(months: b.Tree, days: b.Tree, micros: b.Tree) -> b.Tree:
    """Return an interval of fields that are NULL where they overflow, which is an error.

    So it is where all of them come to the numbers that stand for infinity.
    """

    def body(value: b.Tree) -> b.Tree:
        overflow = b.either(*(b.is_null(part) for part in _fields(value)))
        infinite = b.either(_has_parts(value, _LEAST), _has_parts(value, _LARGEST))
        return b.checked(
            value, (overflow, INTERVAL_OUT_OF_RANGE), (infinite, INTERVAL_OUT_OF_RANGE)
        )

    return b.let([interval(months, days, micros)], body)


def _combine(function: str) -> Handler:
    def handle(call: Call) -> Value:
        def body(left: b.Tree, right: b.Tree) -> b.Tree:
            pairs = zip(_fields(left), _fields(right), strict=True)
            months, days, micros = (b.call(function, one, other) for one, other in pairs)
            known = b.both(b.is_not_null(left), b.is_not_null(right))
            return b.case((known, within_range(months, days, micros)))

        return call.result(b.let(call.trees, body))

    return handle


def _negated(value: b.Tree) -> b.Tree:
    months, days, micros = _fields(value)
    negated = (
        b.call("try_subtract", b.integer(0), months),
        b.call("try_subtract", b.integer(0), days),
        b.call("try_subtract", b.bigint(0), micros),
    )
    return b.case((b.is_not_null(value), within_range(*negated)))


def _minus(call: Call) -> Value:
    return call.result(b.let(call.trees, _negated))


def _multiply(call: Call) -> Value:
    """Map ``interval * n``; an infinite interval, which infinity would make, is no value here."""
    trees = call.trees if call.args[0].type_oid == oids.INTERVAL else call.trees[::-1]

    def body(value: b.Tree, factor: b.Tree) -> b.Tree:
        unfit = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED, "intervals times infinity are not supported"
        )
        product = _of_parts(value, lambda part: b.infix(exp.Mul, part, factor))
        known = b.both(b.is_not_null(value), b.is_not_null(factor))
        return b.case((b.negation(known), _NULL), (is_infinite(factor), unfit), otherwise=product)

    return call.result(b.let(trees, body))


def _divide(call: Call) -> Value:
    return call.result(b.let(call.trees, quotient))


def quotient(value: b.Tree, divisor: b.Tree) -> b.Tree:
    """Return an interval divided by a double; fails for zero."""
    known = b.both(b.is_not_null(value), b.is_not_null(divisor))
    zero = b.infix(exp.EQ, divisor, float_literal(0.0))
    found = _of_parts(value, lambda part: b.divide(part, divisor))
    failure = b.raise_error(sqlstate.DIVISION_BY_ZERO, "division by zero")
    return b.case((b.negation(known), _NULL), (zero, failure), otherwise=found)


def _of_parts(value: b.Tree, scaled: Callable[[b.Tree], b.Tree]) -> b.Tree:
    """Return an interval of which each part is scaled in double precision.

    Fractions of months become days, and those of days microseconds (``interval_mul`` of
    timestamp.c).
    """
    months, days, micros = (scaled(b.cast(part, "DOUBLE")) for part in _fields(value))

    def of_months(months: b.Tree, days: b.Tree, micros: b.Tree) -> b.Tree:
        parts = [_fitting(months, "INT"), _fitting(days, "INT")]
        return b.let(parts, lambda *whole: of_fractions((months, days), whole, micros))

    def of_fractions(
        exact: tuple[b.Tree, b.Tree], whole: tuple[b.Tree, ...], micros: b.Tree
    ) -> b.Tree:
        months, days = (
            b.infix(exp.Sub, one, b.cast(other, "DOUBLE"))
            for one, other in zip(exact, whole, strict=True)
        )
        spilt = _to_microseconds(b.infix(exp.Mul, months, b.double(30.0)))

        def of_days(spilt: b.Tree) -> b.Tree:
            added = b.cast(spilt, "INT")
            rest = b.infix(exp.Sub, b.infix(exp.Add, days, spilt), b.cast(added, "DOUBLE"))
            seconds = _to_microseconds(b.infix(exp.Mul, rest, b.double(_DAY_SECONDS)))
            return b.let([seconds], lambda seconds: of_seconds(added, seconds))

        def of_seconds(added: b.Tree, seconds: b.Tree) -> b.Tree:
            more = b.cast(b.divide(seconds, b.double(_DAY_SECONDS)), "INT")
            within = b.infix(
                exp.Sub, seconds, b.infix(exp.Mul, b.cast(more, "DOUBLE"), b.double(_DAY_SECONDS))
            )
            time = b.infix(exp.Add, micros, b.infix(exp.Mul, within, b.double(1e6)))
            total = b.call("try_add", b.call("try_add", whole[1], more), added)
            return within_range(whole[0], total, _fitting(b.call("rint", time), "BIGINT"))

        return b.let([spilt], of_days)

    return b.let([months, days, micros], of_months)


def _to_microseconds(number: b.Tree) -> b.Tree:
    """Return a number rounded to six decimal places, which makes whole numbers of nearly such."""
    return b.divide(b.call("rint", b.infix(exp.Mul, number, b.double(1e6))), b.double(1e6))


def _fitting(number: b.Tree, spark_type: str) -> b.Tree:
    """Return a DOUBLE without its fraction as an integer, NULL beyond the type."""
    limit = 2.0**31 if spark_type == "INT" else 2.0**63

    def body(bound: b.Tree) -> b.Tree:
        inside = b.both(
            b.infix(exp.GTE, bound, float_literal(-limit)),
            b.infix(exp.LT, bound, float_literal(limit)),
        )
        return b.case((inside, b.cast(bound, spark_type)))

    return b.let([number], body)


def known_parts(value: Value, sign: int = 1) -> tuple[int, int, int] | None:
    """Return months, days and microseconds of an interval that is known, times a sign.

    None, too, where PostgreSQL finds that the interval cannot have the other sign.
    """
    constant = value.constant
    if constant is None or not isinstance(constant.value, tuple | list):
        return None
    months, days, micros = constant.value
    if sign < 0 and any(part == least for part, least in zip(constant.value, _LEAST, strict=True)):
        return None
    return sign * months, sign * days, sign * micros


Step = Callable[[b.Tree, b.Tree], b.Tree]


def add_months(timestamp: b.Tree, months: b.Tree) -> b.Tree:
    """Return a TIMESTAMP_NTZ some months later, if need be on the last day of the month."""
    return b.infix(exp.Add, timestamp, b.call("make_ym_interval", b.integer(0), months))


_MOST_DAYS: Final = 106_000_000
"""As many days have microseconds of 64 bits; not twice as many are between any two timestamps."""


def _add_few_days(timestamp: b.Tree, days: b.Tree) -> b.Tree:
    micros = b.infix(exp.Mul, b.cast(days, "BIGINT"), b.bigint(DAY))
    return add_microseconds(timestamp, micros)


def add_days(timestamp: b.Tree, days: b.Tree) -> b.Tree:
    """Return a TIMESTAMP_NTZ some days later."""

    def few(count: b.Tree) -> b.Tree:
        return exp.Between(this=count, low=b.integer(-_MOST_DAYS), high=b.integer(_MOST_DAYS))

    def body(moment: b.Tree, count: b.Tree) -> b.Tree:
        half = b.infix(exp.IntDiv, count, b.integer(2))
        rest = b.infix(exp.Sub, count, half)
        return b.case(
            (few(count), _add_few_days(moment, count)),
            (few(half), _add_few_days(_add_few_days(moment, half), rest)),
            (b.is_not_null(count), OUT_OF_RANGE),
        )

    return b.let([timestamp, days], body)


def add_microseconds(timestamp: b.Tree, micros: b.Tree) -> b.Tree:
    """Return a timestamp, with or without time zone, some microseconds later."""
    return b.call("timestampadd", b.keyword("MICROSECOND"), micros, timestamp)


def _in_zone(step: Step, zone: Zone) -> Step:
    """Make a step on local time one on instants: clocks are read before, and set after it."""

    def apply(moment: b.Tree, amount: b.Tree) -> b.Tree:
        return instant(step(local_time(moment, zone), amount), zone)

    return apply


def shift(moment: b.Tree, value: Value, sign: int, zone: Zone | None) -> b.Tree:
    """Return a timestamp moved by an interval: months, then days, then time, each only if not zero.

    Args:
        moment: TIMESTAMP_NTZ, or TIMESTAMP when ``zone`` is given.
        value: The interval.
        sign: 1 or -1.
        zone: Time zone in which months and days are counted.
    """
    known = known_parts(value, sign)
    is_few = known is not None and abs(known[1]) <= _MOST_DAYS
    calendar: tuple[Step, Step] = (add_months, _add_few_days if is_few else add_days)
    if zone is not None:
        calendar = (_in_zone(calendar[0], zone), _in_zone(calendar[1], zone))
    steps: tuple[Step, ...] = (*calendar, add_microseconds)
    if known is not None:
        makers = (b.integer, b.integer, b.bigint)
        for step, make, amount in zip(steps, makers, known, strict=True):
            if amount:
                moment = step(moment, make(amount))
        backwards = any(amount < 0 for amount in known)
        return within_all_time(moment, aware=zone is not None) if backwards else moment

    def body(start: b.Tree, span: b.Tree) -> b.Tree:
        result = start
        for step, amount in zip(steps, _fields(span), strict=True):
            result = _step_unless_zero(step, result, amount, always=zone is None or zone.is_utc)
        moved = within_all_time(result, aware=zone is not None)
        return b.case((b.is_not_null(span), moved))

    span = value.sql if sign > 0 else b.let([value.sql], _negated)
    return b.let([moment, span], body)


def _step_unless_zero(step: Step, moment: b.Tree, amount: b.Tree, *, always: bool) -> b.Tree:
    if always:
        return step(moment, amount)
    zero = b.integer(0)
    return b.let(
        [moment],
        lambda start: b.case((b.infix(exp.EQ, amount, zero), start), otherwise=step(start, amount)),
    )


def _known_moment(start: Value, span: Value, sign: int, zone: Zone) -> int | None:
    """Return a known date or timestamp moved by a known interval, unless that fails."""
    moment, parts = known_integer(start), known_parts(span, sign)
    if moment is None or parts is None:
        return None
    months, days, rest = parts
    if start.type_oid == oids.TIMESTAMPTZ and (months or days) and not zone.is_utc:
        return None
    midnight_or_moment = calendar.midnight(moment) if start.type_oid == oids.DATE else moment
    if midnight_or_moment is None:
        return None
    return calendar.shifted(midnight_or_moment, months, days, rest)


def _shift(sign: int) -> Handler:
    def handle(call: Call) -> Value:
        first, second = call.args
        if first.type_oid == oids.INTERVAL:
            first, second = second, first
        known = _known_moment(first, second, sign, session_zone(call.constants))
        if known is not None:
            return literal(known, call.result_oid)
        if first.type_oid == oids.TIMESTAMPTZ:
            return call.result(shift(first.sql, second, sign, session_zone(call.constants)))
        moment = midnight(first.sql) if first.type_oid == oids.DATE else first.sql
        return call.result(shift(moment, second, sign, None))

    return handle


def _shift_time(sign: int) -> Handler:
    def handle(call: Call) -> Value:
        time, span = call.trees if call.args[0].type_oid == oids.TIME else call.trees[::-1]
        micros = b.field(span, "microseconds")
        moved = b.infix(
            exp.Add if sign > 0 else exp.Sub, time, b.infix(exp.Mod, micros, b.bigint(DAY))
        )
        return call.result(b.call("pmod", moved, b.bigint(DAY)))

    return handle


def _time_difference(call: Call) -> Value:
    def body(later: b.Tree, earlier: b.Tree) -> b.Tree:
        micros = b.infix(exp.Sub, later, earlier)
        return b.case((b.is_not_null(micros), interval(b.integer(0), b.integer(0), micros)))

    return call.result(b.let(call.trees, body))


def _from_time(call: Call) -> Value:
    def body(micros: b.Tree) -> b.Tree:
        return b.case((b.is_not_null(micros), interval(b.integer(0), b.integer(0), micros)))

    return call.result(b.let(call.trees, body))


def _to_time(call: Call) -> Value:
    return call.result(b.call("pmod", b.field(call.trees[0], "microseconds"), b.bigint(DAY)))


def _scale(call: Call) -> Value:
    """Map the length coercion of intervals, which only matters with fields or a precision."""
    typmod = call.integer_constant(1)
    full_range, precisions = 0x7FFF, (6, 0xFFFF)
    if typmod != -1 and (
        (typmod >> 16) & 0x7FFF != full_range or typmod & 0xFFFF not in precisions
    ):
        raise UnsupportedError("intervals restricted to fields or a precision are not supported")
    return call.result(call.trees[0])


FUNCTIONS: Final[dict[str, Handler]] = {
    "interval_pl": _combine("try_add"),
    "interval_mi": _combine("try_subtract"),
    "interval_um": _minus,
    "interval_mul": _multiply,
    "mul_d_interval": _multiply,
    "interval_div": _divide,
    "date_pl_interval": _shift(1),
    "date_mi_interval": _shift(-1),
    "timestamp_pl_interval": _shift(1),
    "timestamp_mi_interval": _shift(-1),
    "timestamptz_pl_interval": _shift(1),
    "timestamptz_mi_interval": _shift(-1),
    "interval_pl_timestamp(interval,timestamp)": _shift(1),
    "interval_pl_timestamptz(interval,timestamptz)": _shift(1),
    "interval_pl_date(interval,date)": _shift(1),
    "time_pl_interval": _shift_time(1),
    "interval_pl_time(interval,time)": _shift_time(1),
    "time_mi_interval": _shift_time(-1),
    "time_mi_time": _time_difference,
    "time_interval": _from_time,
    "interval_time": _to_time,
    "interval_scale": _scale,
}
