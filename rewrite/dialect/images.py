"""What is computed of a column and never falls while the column grows: how, step by step.

``date_trunc('month', at)``, ``at::date``, ``id::numeric``. A step turns an integer (a number, a
day, microseconds from 1970) into another one; asked is which of the column's integers give at
least some value. Where clocks of a time zone are read, which may go back, that is known within a
*blur* only. A step may fail for the first or the last integers.

Not handled: images of expressions (None).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from rewrite.dialect import calendar, oids
from rewrite.dialect.calls import known_text
from rewrite.dialect.compiler import Compiler
from rewrite.dialect.date_fields import unit_name
from rewrite.dialect.functions import procedure
from rewrite.dialect.literals import (
    DATE_END,
    DATE_MIN,
    DAY,
    LAST_TIMESTAMP_DAY,
    TIMESTAMP_END,
    TIMESTAMP_MIN,
)
from rewrite.dialect.time_zones import session_zone
from rewrite.tree import Node
from rewrite.values import Value

BLUR: Final = 18 * 3_600_000_000
"""Microseconds by which clocks anywhere differ from UTC at most, as Java has it, too."""
_NEAR_THE_ENDS: Final = 4 * DAY
"""Moments so near to the first or last one may have no counterpart on other clocks."""

_RANGES: Final[dict[int, tuple[int, int]]] = {
    oids.INT2: (-(2**15), 2**15),
    oids.INT4: (-(2**31), 2**31),
    oids.INT8: (-(2**63), 2**63),
    oids.DATE: (DATE_MIN, DATE_END),
    oids.TIMESTAMP: (TIMESTAMP_MIN, TIMESTAMP_END),
    oids.TIMESTAMPTZ: (TIMESTAMP_MIN, TIMESTAMP_END),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step from an integer to another."""

    least: Callable[[int], int]
    """Returns the smallest integer of which the step makes at least a given one."""
    blur: int = 0
    """By how much that may be wrong."""


@dataclass(frozen=True, slots=True)
class Image:
    """What is computed of a column."""

    column: Value
    type_oid: int
    """PostgreSQL's type of what is computed."""
    low: int
    """Of integers of the column below this one, a step may fail."""
    high: int
    """Of this one and those above, a step may fail."""
    steps: tuple[Step, ...] = ()
    """In the order in which they are taken."""

    @property
    def range(self) -> tuple[int, int]:
        """Return the first integer a value of the column can be, and the one after the last."""
        return _RANGES[self.column.type_oid]

    @property
    def is_blurred(self) -> bool:
        """Tell whether what the column has to be is not known exactly."""
        return any(step.blur for step in self.steps)

    def below(self, value: int) -> int:
        """Return an integer of the column below which what is computed is surely smaller."""
        for step in reversed(self.steps):
            value = step.least(value) - step.blur
        return value

    def from_on(self, value: int) -> int:
        """Return an integer of the column from which on what is computed is surely not smaller."""
        for step in reversed(self.steps):
            value = step.least(value) + step.blur
        return value

    def then(self, type_oid: int, *steps: Step) -> "Image":
        """Return the image with further steps."""
        return replace(self, type_oid=type_oid, steps=(*self.steps, *steps))

    def within(self, low: int, high: int) -> "Image":
        """Return the image, which fails where it would be below or above some integers."""
        low, high = max(self.low, self.from_on(low)), min(self.high, self.below(high))
        return replace(self, low=low, high=high)


def _same(value: int) -> int:
    return value


def _beginning_day(micros: int) -> int:
    """Return the first day that begins at a moment or later."""
    return -(-micros // DAY)


DAY_TO_MOMENT: Final = Step(_beginning_day)
_MOMENT_TO_DAY: Final = Step(lambda day: day * DAY)
_BLURRED: Final = Step(_same, BLUR)


def _to_unit(unit: str) -> Step:
    def least(micros: int) -> int:
        start = calendar.unit_start(unit, micros)
        if start is None:
            raise ValueError(unit)
        return start if start == micros else calendar.next_unit(unit, start)

    return Step(least)


def image_of(compiler: Compiler, node: Node) -> Image | None:
    """Return what an expression computes of a column, maybe the column itself."""
    if node.tag == "VAR":
        return _column(compiler.compile(node))
    if node.tag != "FUNCEXPR":
        return None
    key, _ = procedure(node.integer("funcid"))
    args = node.nodes("args")
    zones = [] if session_zone(compiler.scope.constants).is_utc else [_BLURRED]
    if key in _TRUNCATIONS:
        unit, inner = _unit(compiler, args[0]), image_of(compiler, args[1])
        if inner is None or unit is None:
            return None
        return _truncated(inner, unit, [_BLURRED] if len(args) > 2 else zones)
    extend = _FUNCTIONS.get(key)
    inner = image_of(compiler, args[0]) if extend is not None else None
    return extend(inner, zones) if extend is not None and inner is not None else None


def _unit(compiler: Compiler, node: Node) -> str | None:
    """Return the unit that a known text names, or None."""
    text = known_text(compiler.compile(node)) if node.tag in {"CONST", "PARAM"} else None
    unit = None if text is None else unit_name(text)
    return None if unit is None or calendar.unit_start(unit, 0) is None else unit


def _column(value: Value) -> Image | None:
    if not isinstance(value.sql, exp.Column) or value.type_oid not in _RANGES:
        return None
    return Image(value, value.type_oid, *_RANGES[value.type_oid])


def _truncated(inner: Image, unit: str, zones: list[Step]) -> Image:
    if inner.type_oid != oids.TIMESTAMPTZ:
        zones = []
    local = _away_from_the_ends(inner, zones).then(oids.TIMESTAMP, *zones, _to_unit(unit))
    return local.within(TIMESTAMP_MIN, TIMESTAMP_END).then(inner.type_oid, *zones)


def _away_from_the_ends(image: Image, zones: list[Step]) -> Image:
    if not zones:
        return image
    return image.within(TIMESTAMP_MIN + _NEAR_THE_ENDS, TIMESTAMP_END - _NEAR_THE_ENDS)


def _day(inner: Image, zones: list[Step]) -> Image:
    zones = zones if inner.type_oid == oids.TIMESTAMPTZ else []
    return _away_from_the_ends(inner, zones).then(oids.DATE, *zones, _MOMENT_TO_DAY)


def _moment(inner: Image) -> Image:
    if inner.type_oid == oids.DATE:
        inner = inner.within(DATE_MIN, LAST_TIMESTAMP_DAY + 1)
        return inner.then(oids.TIMESTAMP, DAY_TO_MOMENT)
    return inner


def _local(inner: Image, zones: list[Step]) -> Image:
    if inner.type_oid == oids.TIMESTAMPTZ:
        return _away_from_the_ends(inner, zones).then(oids.TIMESTAMP, *zones)
    return _moment(inner)


def _instant(inner: Image, zones: list[Step]) -> Image:
    return _away_from_the_ends(_moment(inner), zones).then(oids.TIMESTAMPTZ, *zones)


def _number(type_oid: int) -> Callable[[Image, list[Step]], Image]:
    return lambda inner, _zones: inner.then(type_oid, Step(_same))


_FUNCTIONS: Final[dict[str, Callable[[Image, list[Step]], Image]]] = {
    "timestamp_date": _day,
    "timestamptz_date": _day,
    "date_timestamp": _local,
    "timestamptz_timestamp": _local,
    "date_timestamptz": _instant,
    "timestamp_timestamptz": _instant,
    **dict.fromkeys(("int2_numeric", "int4_numeric", "int8_numeric"), _number(oids.NUMERIC)),
    **dict.fromkeys(("i2tod", "i4tod", "i8tod"), _number(oids.FLOAT8)),
}
_TRUNCATIONS: Final = frozenset({"timestamp_trunc", "timestamptz_trunc", "timestamptz_trunc_zone"})
