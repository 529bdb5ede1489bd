"""Which partitions of a divided base a statement has to read, by its conditions on columns.

    SELECT … FROM t WHERE country = 'DE' AND created_at >= '2024-03-01'

reads those of ``country = 'DE'`` and of months from March 2024 on. Rows of the base are left out
before newer versions are looked for, and that is right: a row of the base for which a condition of
its own query level is not true is none of the result, whether there is a newer version or not. The
newer ones are all read.

Where a table stands in several places, a partition is left out that no place has a use for.

Not handled, and then all partitions are read: conditions on expressions (``date_trunc(…) = …``),
comparisons with anything but constants and parameters, MERGE, whose new rows have other keys.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias

from sqlglot import exp

from catalog.divisions import MICROS_PER_DAY, DivisionField, PartitionValue
from catalog.model import JournalTable, Segment
from catalog.pg.functions import PROCEDURES
from catalog.pg.nodes import NullTestType
from rewrite.command import Command, command
from rewrite.context import ParameterValue
from rewrite.dialect import oids
from rewrite.dialect.comparisons import COMPARISONS
from rewrite.key_constants import UnknownValueError, constant, elements
from rewrite.needs.columns import compared_column
from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level, levels
from rewrite.needs.reads import counting
from rewrite.node_types import type_of
from rewrite.query.predicates import conjuncts
from rewrite.query.range_table import RELATION
from rewrite.tree import Node

Values: TypeAlias = tuple[PartitionValue, ...]
Test: TypeAlias = Callable[[Values], bool]
"""Tells whether rows of a partition can satisfy a condition."""

_IS_NULL: Final = NullTestType.NULL
_BOUNDS: Final[Mapping[type[exp.Binary], Callable[[int, int], bool]]] = {
    exp.LT: operator.le,
    exp.LTE: operator.le,
    exp.GT: operator.ge,
    exp.GTE: operator.ge,
}
"""How the partition of a row compares with that of a bound, which rows of both may be in."""
_STEPS: Final = {exp.LT: -1, exp.GT: 1}
"""From a bound to the first value on the right side of it: all that are ordered are numbers."""
_TURNED: Final = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_TEXTS: Final = frozenset({oids.TEXT, oids.VARCHAR})


def unread(
    query: Node,
    tables: Mapping[int, JournalTable],
    parameters: tuple[ParameterValue, ...],
    volatility: Callable[[int], str],
) -> dict[int, Callable[[Segment], bool]]:
    """Return, for tables of which partitions can be left out, what tells those of the base.

    Args:
        query: An analysed statement.
        tables: Divided tables by OID, without those whose journals are read too.
        parameters: Values of the statement's parameters.
        volatility: ``pg_proc.provolatile`` of a function.
    """
    places: dict[int, list[Test | None]] = {}
    definitions = Definitions(frozenset(tables), volatility)
    for level in levels(query):
        if command(level.query) is Command.MERGE:
            return {}
        for varno, conditions in counting(level, definitions).items():
            entry = level.entry(varno)
            table = tables.get(entry.integer("relid")) if entry["rtekind"] == RELATION else None
            if table is not None:
                told = _Conditions(table, level, varno, parameters).all_of(conditions)
                places.setdefault(table.relid, []).append(told)
    return {
        relid: _left_out(tables[relid], tuple(tests))
        for relid, found in places.items()
        if len(tests := [test for test in found if test is not None]) == len(found)
    }


def _left_out(table: JournalTable, tests: tuple[Test, ...]) -> Callable[[Segment], bool]:
    number = table.division.number if table.division else None

    def is_left_out(segment: Segment) -> bool:
        partition = segment.partition
        if partition is None or partition.division != number:
            return False
        return not any(test(partition.values) for test in tests)

    return is_left_out


class _Conditions:
    """Conditions on a divided table in one place, as tests of the values of partitions."""

    def __init__(
        self, table: JournalTable, level: Level, varno: int, parameters: tuple[ParameterValue, ...]
    ) -> None:
        self._level = level
        self._varno = varno
        self._parameters = parameters
        self._fields: dict[int, list[tuple[int, DivisionField]]] = {}
        for place, field in enumerate(table.division.fields if table.division else ()):
            self._fields.setdefault(field.attnum, []).append((place, field))

    def all_of(self, conditions: Iterable[Node]) -> Test | None:
        """Return the test of conditions that are all true; None where none of them tells."""
        found = [test for condition in conditions if (test := self._of(condition)) is not None]
        if not found:
            return None
        return lambda values: all(test(values) for test in found)

    def _any_of(self, conditions: Iterable[Node]) -> Test | None:
        found = [self.all_of(conjuncts(condition)) for condition in conditions]
        tests = [test for test in found if test is not None]
        if len(tests) < len(found):
            return None
        return lambda values: any(test(values) for test in tests)

    def _of(self, condition: Node) -> Test | None:
        with suppress(UnknownValueError):
            if condition.tag == "BOOLEXPR" and condition["boolop"] == "or":
                return self._any_of(condition.nodes("args"))
            if condition.tag == "OPEXPR":
                return self._compared(condition)
            if condition.tag == "SCALARARRAYOPEXPR" and condition["useOr"]:
                return self._in_list(condition)
            if condition.tag == "NULLTEST":
                return self._null(condition)
        return None

    def _compared(self, condition: Node) -> Test | None:
        comparison = _comparison(condition)
        if comparison is None or len(condition.nodes("args")) != 2:
            return None
        left, right = condition.nodes("args")
        found = self._against(condition, comparison, left, right)
        turned = _TURNED.get(comparison, comparison)
        return found or self._against(condition, turned, right, left)

    def _against(
        self, condition: Node, comparison: type[exp.Binary], one: Node, other: Node
    ) -> Test | None:
        fields = self._fields.get(compared_column(one, self._varno, condition), [])
        tests = []
        for place, field in fields:
            value = constant(other, self._parameters)
            step = _STEPS.get(comparison, 0) if isinstance(value, int) else 0
            nearest = _converted(value, type_of(other), field.type_oid, step)
            test = _test(place, field, comparison, nearest)
            tests += [test] if test is not None else []
        return _both(tests)

    def _in_list(self, condition: Node) -> Test | None:
        if _comparison(condition) is not exp.EQ:
            return None
        one, array = condition.nodes("args")
        fields = self._fields.get(compared_column(one, self._varno, condition), [])
        if not fields:
            return None
        element = oids.ELEMENTS.get(type_of(array), 0)
        listed = [value for value in elements(array, self._parameters) if value is not None]
        tests = []
        for place, field in fields:
            known = [_converted(value, element, field.type_oid) for value in listed]
            tests.append(_among(place, {field.value(value) for value in known}))
        return _both(tests)

    def _null(self, condition: Node) -> Test | None:
        if condition["argisrow"]:
            return None
        argument = condition.node("arg")
        if argument.tag != "VAR" or argument["varlevelsup"] != 0:
            return None
        if argument["varno"] != self._varno:
            return None
        wanted = condition["nulltesttype"] == _IS_NULL
        places = [place for place, _ in self._fields.get(argument.integer("varattno"), [])]
        if not places:
            return None
        return lambda values: all((values[place] is None) is wanted for place in places)


def _test(
    place: int, field: DivisionField, comparison: type[exp.Binary], value: object
) -> Test | None:
    """Return the test of a comparison with a value, which is true of no NULL."""
    if value is None:
        return lambda _: False
    bound = field.value(value)
    if comparison is exp.EQ:
        return _among(place, {bound})
    compare = _BOUNDS.get(comparison)
    if compare is None or not field.ascends or not isinstance(bound, int):
        return None
    number = bound

    def is_within(values: Values) -> bool:
        found = values[place]
        return isinstance(found, int) and compare(found, number)

    return is_within


def _among(place: int, wanted: set[PartitionValue]) -> Test:
    return lambda values: values[place] in wanted


def _both(tests: list[Test]) -> Test | None:
    return (lambda values: all(test(values) for test in tests)) if tests else None


def _comparison(condition: Node) -> type[exp.Binary] | None:
    """Return the comparison of values of types that are plain; None for another operator."""
    if condition["inputcollid"] not in oids.BYTEWISE_COLLATIONS:
        return None
    key, _ = PROCEDURES.get(condition.integer("opfuncid"), ("", ""))
    return COMPARISONS.get(key)


def _converted(value: object, given: int, wanted: int, step: int = 0) -> object:
    """Return a value so many steps further in the form of those of a column; None for NULL.

    Steps are of the finer one of two types, and what has no such form is rounded down.

    Raises:
        UnknownValueError: How they compare depends on more than the values.
    """
    if value is None:
        return None
    if isinstance(value, str) and (given == wanted or {given, wanted} <= _TEXTS):
        return value
    if not isinstance(value, int):
        raise UnknownValueError
    if given == wanted or {given, wanted} <= oids.INTEGERS:
        return value + step
    if (given, wanted) == (oids.DATE, oids.TIMESTAMP):
        return value * MICROS_PER_DAY + step
    if (given, wanted) == (oids.TIMESTAMP, oids.DATE):
        return (value + step) // MICROS_PER_DAY
    raise UnknownValueError
