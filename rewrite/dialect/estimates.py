"""Dates and moments that are known when a statement is compiled, at least between which others.

Clocks of time zones are Spark's to read. What is computed by them is known within a blur, which is
enough to leave rows out that are far away: ``at >= now() - interval '7 days'``.

Not handled: other functions (None).
"""

from typing import Final, NamedTuple

from rewrite.dialect import calendar, oids
from rewrite.dialect.calls import known_integer, known_text
from rewrite.dialect.compiler import Compiler
from rewrite.dialect.date_fields import unit_name
from rewrite.dialect.datetimes import transaction_timestamp
from rewrite.dialect.functions import procedure
from rewrite.dialect.images import BLUR
from rewrite.dialect.intervals import known_parts
from rewrite.dialect.literals import DAY
from rewrite.tree import Node

_TEMPORAL: Final = frozenset({oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ})
_CASTS: Final = frozenset(
    {
        "date_timestamp",
        "date_timestamptz",
        "timestamp_date",
        "timestamp_timestamptz",
        "timestamptz_date",
        "timestamptz_timestamp",
    }
)
_TRUNCATIONS: Final = frozenset({"timestamp_trunc", "timestamptz_trunc"})
_MOVES: Final[dict[str, int]] = {
    "date_pli": 1,
    "date_mii": -1,
    "date_pl_interval": 1,
    "date_mi_interval": -1,
    "timestamp_pl_interval": 1,
    "timestamp_mi_interval": -1,
    "timestamptz_pl_interval": 1,
    "timestamptz_mi_interval": -1,
}
_CURRENT_DATE: Final = 0
_EXTERNAL: Final = 0
_CALLS: Final = frozenset({"FUNCEXPR", "OPEXPR"})


class Estimate(NamedTuple):
    """What a date or a moment is: days or microseconds from 1970-01-01."""

    type_oid: int
    first: int
    """The smallest that it can be."""
    last: int
    """The largest that it can be."""

    @property
    def is_exact(self) -> bool:
        """Tell whether it is known."""
        return self.first == self.last

    def blurred(self, type_oid: int, blur: int = BLUR) -> "Estimate":
        """Return what it may be on other clocks."""
        return Estimate(type_oid, self.first - blur, self.last + blur)

    def as_moment(self) -> "Estimate":
        """Return the moment at which a day begins, by the same clocks; moments stay as they are."""
        if self.type_oid != oids.DATE:
            return self
        return Estimate(oids.TIMESTAMP, self.first * DAY, self.last * DAY)

    def as_type(self, type_oid: int) -> "Estimate":
        """Return it as another type, where clocks of a time zone are between the two."""
        moment = self.as_moment()
        if (moment.type_oid == oids.TIMESTAMPTZ) != (type_oid == oids.TIMESTAMPTZ):
            moment = moment.blurred(type_oid)
        if type_oid == oids.DATE:
            return Estimate(type_oid, moment.first // DAY, moment.last // DAY)
        return moment


def estimate(compiler: Compiler, node: Node) -> Estimate | None:
    """Return between which dates or moments a value is, or None.

    Clocks that show UTC need no estimates, as all is known then.
    """
    if node.tag == "SQLVALUEFUNCTION" and node.integer("op") == _CURRENT_DATE:
        now = known_integer(transaction_timestamp(compiler.scope.constants))
        return None if now is None else Estimate(oids.TIMESTAMPTZ, now, now).as_type(oids.DATE)
    if not is_without_rows(node):
        return None
    value = compiler.compile(node)
    known = known_integer(value)
    if value.type_oid not in _TEMPORAL:
        return None
    if known is not None:
        return Estimate(value.type_oid, known, known)
    if node.tag not in _CALLS:
        return None
    key, _ = procedure(node.integer("funcid" if node.tag == "FUNCEXPR" else "opfuncid"))
    return _computed(compiler, key, node.nodes("args"), value.type_oid)


def is_without_rows(node: Node) -> bool:
    """Tell whether an expression is computed of constants, parameters and the time alone."""
    if node.tag == "PARAM":
        return node["paramkind"] == _EXTERNAL
    if node.tag in _CALLS:
        return all(is_without_rows(argument) for argument in node.nodes("args"))
    if node.tag == "RELABELTYPE":
        return is_without_rows(node.node("arg"))
    return node.tag in {"CONST", "SQLVALUEFUNCTION"}


def _computed(compiler: Compiler, key: str, args: list[Node], type_oid: int) -> Estimate | None:
    if key in _TRUNCATIONS:
        unit, moment = known_text(compiler.compile(args[0])), estimate(compiler, args[1])
        return None if unit is None or moment is None else _truncated(moment, unit_name(unit))
    start = estimate(compiler, args[0]) if key in _CASTS or key in _MOVES else None
    if start is None or key in _CASTS:
        return None if start is None else start.as_type(type_oid)
    distance = compiler.compile(args[1])
    days, parts = known_integer(distance), known_parts(distance)
    if days is not None:
        moved = _MOVES[key] * days
        return Estimate(oids.DATE, start.first + moved, start.last + moved)
    if parts is None:
        return None
    months, days, rest = (_MOVES[key] * part for part in parts)
    return _shifted(start.as_moment(), months, days, rest)


def _shifted(start: Estimate, months: int, days: int, rest: int) -> Estimate | None:
    """Return a moment moved by an interval, which is done on the clocks of its zone."""
    blur = BLUR if start.type_oid == oids.TIMESTAMPTZ and (months or days) else 0
    # Of two times on days that become the last one of a month the later one may be earlier then.
    disorder = DAY if months else 0
    first = calendar.shifted(start.first - blur, months, days, rest)
    last = calendar.shifted(start.last + blur, months, days, rest)
    if first is None or last is None:
        return None
    return Estimate(start.type_oid, first - blur - disorder, last + blur + disorder)


def _truncated(moment: Estimate, unit: str) -> Estimate | None:
    local = moment.as_moment()
    blur = BLUR if local.type_oid == oids.TIMESTAMPTZ else 0
    first = calendar.unit_start(unit, local.first - blur)
    last = calendar.unit_start(unit, local.last + blur)
    if first is None or last is None:
        return None
    return Estimate(local.type_oid, first - blur, last + blur)
