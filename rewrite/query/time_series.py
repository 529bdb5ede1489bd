"""generate_series over timestamps, with or without time zone, in FROM.

PostgreSQL adds the step to each timestamp to get the next one. Here each is computed from the first
one, so what differs is refused (0A000): steps of months from a day that some months do not have,
steps that clocks are put forward over, and steps of several units that do not add up to one length.
Steps are constants or parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.intervals import add_months, known_parts
from rewrite.dialect.literals import DAY
from rewrite.dialect.time_zones import (
    Zone,
    instant,
    local_time,
    micros_of_timestamp,
    session_zone,
    timestamp_of_micros,
)
from rewrite.errors import UnsupportedError
from rewrite.query.number_series import numbers
from rewrite.query.scopes import FromScope
from rewrite.tree import Node
from rewrite.values import Value

TIME_SERIES: Final = {938: oids.TIMESTAMP, 939: oids.TIMESTAMPTZ, 6274: oids.TIMESTAMPTZ}
"""pg_proc: generate_series(timestamp, timestamp, interval), (timestamptz, timestamptz, interval)
and (timestamptz, timestamptz, interval, text)."""

_LONGEST_STEP: Final = 2**62
"""Microseconds, so that 64 bits hold them."""
_LAST_DAY: Final = 28
"""The last day that all months have."""


@dataclass(frozen=True, slots=True)
class _Clocks:
    """How timestamps of a type are read and set."""

    zone: Zone | None
    """None for timestamps without time zone."""

    @property
    def are_even(self) -> bool:
        """Whether all days are of one length."""
        return self.zone is None or self.zone.is_utc

    def micros(self, moment: b.Tree) -> b.Tree:
        """Return the microseconds that pass between 1970 and a timestamp."""
        return micros_of_timestamp(moment) if self.zone is None else b.call("unix_micros", moment)

    def of_micros(self, micros: b.Tree) -> b.Tree:
        """Return the timestamp so many microseconds from 1970."""
        if self.zone is None:
            return timestamp_of_micros(micros)
        return b.call("timestamp_micros", micros)

    def shown(self, moment: b.Tree) -> b.Tree:
        """Return what clocks show then, a TIMESTAMP_NTZ."""
        return moment if self.zone is None else local_time(moment, self.zone)

    def moment(self, shown: b.Tree) -> b.Tree:
        """Return when clocks show a time; where they never do, they are read as before."""
        return shown if self.zone is None else instant(shown, self.zone)

    def require_shown(self, shown: b.Tree) -> b.Tree:
        """Return when clocks show a time; an error where they never do."""
        zone = self.zone
        if zone is None or zone.is_utc:
            return self.moment(shown)
        skipped = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED,
            "generate_series() over times that clocks are put forward over is not supported",
        )

        def checked(local: b.Tree, moment: b.Tree) -> b.Tree:
            return b.checked(moment, (b.infix(exp.NEQ, local_time(moment, zone), local), skipped))

        return b.let(
            [shown], lambda local: b.let([instant(local, zone)], lambda at: checked(local, at))
        )


def time_series(scope: FromScope, function: Node) -> b.Tree:
    """Return the array of the timestamps that a call of generate_series yields.

    Raises:
        UnsupportedError: 0A000 for another step than one that is known and of one length.
    """
    start, stop, step, *zones = (scope.compile(argument) for argument in function.nodes("args"))
    clocks = _Clocks(_zone(scope, function, zones))
    none = b.null_of(f"ARRAY<{'TIMESTAMP_NTZ' if clocks.zone is None else 'TIMESTAMP'}>")
    if step.constant is not None and step.constant.value is None:
        return none
    if clocks.zone is not None and clocks.zone.is_missing:
        known = b.both(b.is_not_null(start.sql), b.is_not_null(stop.sql))
        return b.case((known, clocks.zone.missing()), otherwise=none)
    parts = known_parts(step)
    if parts is None:
        raise UnsupportedError(
            "generate_series() over timestamps with a step that is not a constant is not supported"
        )
    months, days, micros = parts
    if abs(days * DAY + micros) >= _LONGEST_STEP:
        raise UnsupportedError("generate_series() with a step of millennia is not supported")
    if not months and (clocks.are_even or not days):
        return _of_length(clocks, start, stop, days * DAY + micros)
    if bool(months) + bool(days) + bool(micros) > 1:
        raise UnsupportedError(
            "generate_series() over timestamps with a step of several units is not supported"
        )
    series = _of_months if months else _of_days
    return b.let(
        (start.sql, stop.sql),
        lambda first, last: series(clocks, first, last, months or days),
    )


def _zone(scope: FromScope, function: Node, given: list[Value]) -> Zone | None:
    if TIME_SERIES[function.integer("funcid")] == oids.TIMESTAMP:
        return None
    if not given:
        return session_zone(scope.constants)
    constant = given[0].constant
    if constant is None or not isinstance(constant.value, str):
        raise UnsupportedError(
            "generate_series() in a time zone that is not a constant is not supported"
        )
    return Zone(constant.value, scope.constants)


def _of_length(clocks: _Clocks, start: Value, stop: Value, length: int) -> b.Tree:
    """Return timestamps so many microseconds apart."""
    found = numbers(clocks.micros(start.sql), clocks.micros(stop.sql), b.bigint(length))

    def build(name: str) -> b.Tree:
        moment = clocks.of_micros(b.variable(name))
        return b.call("transform", found, b.lambda_function(moment, name))

    return b.fresh_variable(build)


def _of_days(clocks: _Clocks, start: b.Tree, stop: b.Tree, days: int) -> b.Tree:
    """Return timestamps at which clocks show the same time of day."""
    # When it is over, clocks may show an earlier time.
    slack = b.bigint(DAY if days > 0 else -DAY)
    last = b.infix(exp.Add, micros_of_timestamp(clocks.shown(stop)), slack)
    found = numbers(micros_of_timestamp(clocks.shown(start)), last, b.bigint(days * DAY))
    return _until(clocks, found, timestamp_of_micros, (start, stop), upwards=days > 0)


def _of_months(clocks: _Clocks, start: b.Tree, stop: b.Tree, months: int) -> b.Tree:
    """Return timestamps at which clocks show the same day of the month, and the same time."""

    def body(first: b.Tree) -> b.Tree:
        distance = b.infix(exp.Sub, _months(clocks.shown(stop)), _months(first))
        found = numbers(b.bigint(0), distance, b.bigint(months))
        moments = _until(
            clocks,
            found,
            lambda count: add_months(first, b.cast(count, "INT")),
            (start, stop),
            upwards=months > 0,
        )
        uneven = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED,
            "generate_series() by months from a day that not all of them have is not supported",
        )
        is_late = b.infix(exp.GT, b.call("day", first), b.integer(_LAST_DAY))
        return b.checked(moments, (is_late, uneven))

    return b.let([clocks.shown(start)], body)


def _months(shown: b.Tree) -> b.Tree:
    """Return the number of the month that clocks show."""
    years = b.infix(exp.Mul, b.cast(b.call("year", shown), "BIGINT"), b.bigint(12))
    return b.infix(exp.Add, years, b.call("month", shown))


def _until(
    clocks: _Clocks,
    found: b.Tree,
    shown: Callable[[b.Tree], b.Tree],
    bounds: tuple[b.Tree, b.Tree],
    *,
    upwards: bool,
) -> b.Tree:
    """Return what clocks show by each number, as far as a bound.

    The first is the other bound itself, as clocks may show the same once more.
    """
    start, stop = bounds
    operator = exp.LTE if upwards else exp.GTE

    def each(function: str, values: b.Tree, body: Callable[[b.Tree, b.Tree], b.Tree]) -> b.Tree:
        def build(name: str) -> b.Tree:
            place = f"{name}i"
            parameters = b.lambda_function(body(b.variable(name), b.variable(place)), name, place)
            return b.call(function, values, parameters)

        return b.fresh_variable(build)

    def at(place: b.Tree, moment: b.Tree) -> b.Tree:
        return b.case((b.infix(exp.EQ, place, b.integer(0)), start), otherwise=moment)

    within = each(
        "filter",
        found,
        lambda number, place: b.infix(operator, at(place, clocks.moment(shown(number))), stop),
    )
    return each(
        "transform", within, lambda number, place: at(place, clocks.require_shown(shown(number)))
    )
