"""Comparisons of what is computed of a column with what is known, as conditions on the column.

Before: ``date_trunc('month', at) = '2024-02-01'``, ``at::date <= '2024-02-29'``, ``id = 5.0``.
After: ``at >= '2024-02-01' AND at < '2024-03-01'``, ``at < '2024-03-01'``, ``id = 5``.

Files and row groups are left out by such conditions. Where they hold for more rows than the
comparison (see `rewrite.dialect.images`), it stays, behind them. So it does for rows of which what
is computed may fail: these satisfy the conditions, and fail as ever.

Not handled (the comparison alone remains): values that are not known when the statement is
compiled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, floor
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import known_integer
from rewrite.dialect.comparisons import FLIPPED
from rewrite.dialect.compiler import Compiler
from rewrite.dialect.estimates import Estimate, estimate, is_without_rows
from rewrite.dialect.images import DAY_TO_MOMENT, Image, image_of
from rewrite.dialect.literals import literal
from rewrite.dialect.time_zones import session_zone
from rewrite.tree import Node
from rewrite.values import Value

_MOST_ELEMENTS: Final = 20
_MOMENTS: Final = frozenset({oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ})


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Where in the order of what is computed a known value stands."""

    least: tuple[int, int]
    """The smallest integer that is at least the value: not below the first, nor above the second.
    """
    after: tuple[int, int]
    """The smallest one above it, likewise."""


def condition_on_column(
    compiler: Compiler, operator: type[exp.Binary], pair: tuple[Node, Node], comparison: b.Tree
) -> b.Tree | None:
    """Return what stands for a comparison of an image of a column, or None.

    Args:
        compiler: Compiles nodes.
        operator: Of the comparison.
        pair: The nodes that are compared.
        comparison: The comparison as it is.
    """
    left, right = pair
    image = image_of(compiler, left)
    if image is None:
        image, left, right, operator = image_of(compiler, right), right, left, FLIPPED[operator]
    if image is None or not is_without_rows(right):
        return None
    if image.type_oid in _MOMENTS:
        found = estimate(compiler, right)
        column = None if found is None else _moments(compiler, image, found)
    else:
        column = _numbers(image, compiler.compile(right)) if image.steps else None
    return None if column is None else column.condition(operator, comparison)


def condition_of_any(compiler: Compiler, node: Node, elements: Sequence[Value]) -> b.Tree | None:
    """Return what stands for ``image IN (elements)``, or None."""
    image = image_of(compiler, node)
    if image is None or not image.steps or len(elements) > _MOST_ELEMENTS:
        return None
    conditions = []
    for element in elements:
        known = known_integer(element)
        if image.type_oid not in _MOMENTS:
            column = _numbers(image, element)
        elif known is not None:
            column = _moments(compiler, image, Estimate(element.type_oid, known, known))
        else:
            return None
        if column is None or not column.is_equivalent:
            return None
        conditions.append(column.condition(exp.EQ, b.NULL))
    found = [condition for condition in conditions if condition is not None]
    return b.either(*found) if len(found) == len(elements) > 0 else None


def _numbers(image: Image, value: Value) -> "_Column | None":
    number = None if value.constant is None else value.constant.value
    if isinstance(number, Decimal) and image.type_oid == oids.NUMERIC:
        least, after = ceil(number), floor(number) + 1
    elif isinstance(number, float) and image.type_oid == oids.FLOAT8:
        least = _first(image.range, lambda value: float(value) >= number)
        after = _first(image.range, lambda value: float(value) > number)
    else:
        return None
    return _Column(image, _Bounds((least, least), (after, after)))


def _first(between: tuple[int, int], holds: Callable[[int], bool]) -> int:
    """Return the first integer for which a condition holds, as it does from there on."""
    low, high = between
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _moments(compiler: Compiler, image: Image, found: Estimate) -> "_Column | None":
    if image.type_oid == oids.DATE and found.type_oid != oids.DATE:
        image = image.then(oids.TIMESTAMP, DAY_TO_MOMENT)
    if image.type_oid != oids.DATE:
        found = _as_compared(found, image, is_utc=session_zone(compiler.scope.constants).is_utc)
    if not image.steps and found.is_exact:
        return None  # Spark sees through the comparison.
    bounds = _Bounds((found.first, found.last), (found.first + 1, found.last + 1))
    return _Column(image, bounds)


def _as_compared(found: Estimate, image: Image, *, is_utc: bool) -> Estimate:
    """Return a moment by the clocks that an image is told by."""
    return found.as_moment() if is_utc else found.as_type(image.type_oid)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of which an image is compared with a known value."""

    image: Image
    bounds: _Bounds

    @property
    def is_equivalent(self) -> bool:
        """Tell whether conditions on the column say all that a comparison says."""
        return self._is_exact and self._never_fails

    @property
    def _is_exact(self) -> bool:
        bounds = (self.bounds.least, self.bounds.after)
        return not self.image.is_blurred and all(first == last for first, last in bounds)

    def condition(self, operator: type[exp.Binary], comparison: b.Tree) -> b.Tree | None:
        """Return a condition for a comparison by an operator, or None."""
        if operator is exp.NEQ:
            return self._different()
        conditions: list[b.Tree | None] = []
        first = {exp.EQ: self.bounds.least, exp.GTE: self.bounds.least, exp.GT: self.bounds.after}
        end = {exp.EQ: self.bounds.after, exp.LTE: self.bounds.after, exp.LT: self.bounds.least}
        low = self.image.below(first[operator][0]) if operator in first else None
        high = self.image.from_on(end[operator][1]) if operator in end else None
        if low is not None and high is not None and self.is_equivalent:
            return self._equal(low, high)
        if low is not None:
            conditions.append(self._from_on(low))
        if high is not None:
            conditions.append(self._up_to(high))
        if None in conditions:
            return None
        certain = [b.certain(one) for one in conditions if one is not None]
        return b.both(*certain, *self._rest(comparison))

    def _different(self) -> b.Tree | None:
        if not self.is_equivalent:
            return None
        low, high = self.image.below(self.bounds.least[0]), self.image.below(self.bounds.after[0])
        if high <= low:
            return self._whether(outcome=True)
        if high == low + 1 and self._is_inside(low):
            return self._compared(exp.NEQ, low)
        return b.either(self._below(low), self._at_least(high))

    def _equal(self, low: int, high: int) -> b.Tree:
        if high <= low:
            return self._whether(outcome=False)
        if high == low + 1 and self._is_inside(low):
            return self._compared(exp.EQ, low)
        return b.both(b.certain(self._at_least(low)), b.certain(self._below(high)))

    @property
    def _never_fails(self) -> bool:
        return (self.image.low, self.image.high) == self.image.range

    def _rest(self, comparison: b.Tree) -> list[b.Tree]:
        """Return the comparison, as far as the conditions do not stand for it."""
        if not self._is_exact:
            return [comparison]
        if self._never_fails:
            return []
        return [b.case((b.either(*self._failing()), comparison), otherwise=b.TRUE)]

    def _failing(self) -> list[b.Tree]:
        """Return conditions for the rows of which what is computed may fail."""
        start, end = self.image.range
        found = [self._below(self.image.low)] if self.image.low > start else []
        return [*found, *([self._at_least(self.image.high)] if self.image.high < end else [])]

    def _from_on(self, low: int) -> b.Tree | None:
        """Return the condition for all from an integer on, and those that may fail."""
        if self._never_fails:
            return self._at_least(low)
        if not self.image.low <= low <= self.image.high:
            return None
        failing = [self._below(self.image.low)] if self.image.low > self.image.range[0] else []
        return b.either(self._at_least(low), *failing)

    def _up_to(self, high: int) -> b.Tree | None:
        if self._never_fails:
            return self._below(high)
        if not self.image.low <= high <= self.image.high:
            return None
        late = self.image.high < self.image.range[1]
        return b.either(self._below(high), *([self._at_least(self.image.high)] if late else []))

    def _at_least(self, value: int) -> b.Tree:
        start, end = self.image.range
        if start < value < end:
            return self._compared(exp.GTE, value)
        return self._whether(outcome=value <= start)

    def _below(self, value: int) -> b.Tree:
        start, end = self.image.range
        if start < value < end:
            return self._compared(exp.LT, value)
        return self._whether(outcome=value >= end)

    def _is_inside(self, value: int) -> bool:
        start, end = self.image.range
        return start <= value < end

    def _compared(self, operator: type[exp.Binary], value: int) -> b.Tree:
        column = self.image.column
        return b.infix(operator, column.sql, literal(value, column.type_oid).sql)

    def _whether(self, *, outcome: bool) -> b.Tree:
        """Return what is true or false for all values but NULL."""
        return b.case((b.is_not_null(self.image.column.sql), exp.Boolean(this=outcome)))
