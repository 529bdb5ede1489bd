"""The keys of the rows that have to be hot, where constants and parameters name them."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from catalog.model import JournalTable
from rewrite.context import ParameterValue
from rewrite.dialect import oids
from rewrite.errors import UnsupportedError
from rewrite.key_constants import COMPARED, UnknownValueError, constant, elements
from rewrite.needs.results import Fixed, Need, Needs, Refusal

Key = tuple[object, ...]
"""Integers and text, in key order."""

_RANGES: Final = {
    oids.INT2: range(-(2**15), 2**15),
    oids.INT4: range(-(2**31), 2**31),
    oids.INT8: range(-(2**63), 2**63),
}


def keys(
    found: Needs, table: JournalTable, parameters: tuple[ParameterValue, ...], *, most: int
) -> frozenset[Key]:
    """Return the keys of all rows of a table that a statement needs, and of no others.

    Args:
        found: What the statement needs.
        table: The one table of which it may need rows.
        parameters: Values of the statement's parameters.
        most: How many keys there may be.

    Raises:
        Refusal: Rows are needed that are not named by their keys, or are those of other tables, or
            are more; 0A000 with the reason.
    """
    return _named(found, table, parameters, most, None)


def named_and_others(
    found: Needs, table: JournalTable, parameters: tuple[ParameterValue, ...], *, most: int
) -> tuple[frozenset[Key], tuple[Need, ...]]:
    """Return the keys of rows that a statement names, and the needs that other things tell.

    Arguments and errors are those of `keys`; a need of all rows is refused, too.
    """
    others: list[Need] = []
    return _named(found, table, parameters, most, others), tuple(others)


def _named(
    found: Needs,
    table: JournalTable,
    parameters: tuple[ParameterValue, ...],
    most: int,
    others: list[Need] | None,
) -> frozenset[Key]:
    """Return the keys, and add other needs to these, where they are wanted."""
    if any(occurrence.relid != table.relid for occurrence in found.occurrences):
        raise Refusal("reading other tiered tables in a statement on single rows is not supported")
    if found.recorded:
        raise Refusal("writing keys that are known only when the statement runs is not supported")
    types = [table.column(attnum).type_oid for attnum in table.key]
    if not types or not all(type_oid in COMPARED for type_oid in types):
        raise Refusal("single rows of a table whose key is not integers or text are not supported")
    wanted: set[Key] = set()
    for occurrence in found.occurrences:
        for need in occurrence.needs:
            try:
                wanted |= named(need, table.key, parameters, most=most)
            except Refusal:
                if others is None or need.all_rows:
                    raise
                others.append(need)
    if len(wanted) > most:
        raise _too_many(most)
    ranges = [_RANGES.get(type_oid) for type_oid in types]
    return frozenset(key for key in wanted if all(map(_fits, key, ranges)))


def named_by(
    need: Need, columns: tuple[int, ...], parameters: tuple[ParameterValue, ...], *, most: int
) -> frozenset[Key] | None:
    """Return values some columns have in all rows of a need; None where it does not tell.

    Args:
        need: What a statement needs.
        columns: Columns of a unique key.
        parameters: Values of the statement's parameters.
        most: How many values there may be.
    """
    try:
        return frozenset(named(need, columns, parameters, most=most))
    except Refusal:
        return None


def _fits(value: object, values: range | None) -> bool:
    """Return whether a column can hold a value it is compared with."""
    return values is None or value in values


def _too_many(most: int) -> Refusal:
    return Refusal(f"a statement on more than {most} single rows is not supported")


def named(
    need: Need, key: tuple[int, ...], parameters: tuple[ParameterValue, ...], *, most: int
) -> set[Key]:
    """Return the keys of the rows of a need.

    Raises:
        Refusal: They are not named, or are more; 0A000 with the reason.
    """
    rows: list[dict[int, object]] = [{}]
    for fixed in need.fixed:
        if set(fixed.columns) <= set(key):
            joined = _joined(rows, fixed.columns, _values(fixed, parameters))
            rows = list(islice(joined, most + 1))
            if len(rows) > most:
                raise _too_many(most)
    if any(set(row) != set(key) for row in rows):
        raise Refusal("rows that are not named by constants for their keys are not supported")
    return {tuple(row[column] for column in key) for row in rows}


def _joined(
    rows: Iterable[dict[int, object]], columns: tuple[int, ...], values: Iterable[Key]
) -> Iterable[dict[int, object]]:
    """Return the rows that say the same of the columns that both tell."""
    found = [dict(zip(columns, row, strict=True)) for row in values if None not in row]
    return (
        row | other
        for row in rows
        for other in found
        if all(row.get(column, value) == value for column, value in other.items())
    )


def _values(fixed: Fixed, parameters: tuple[ParameterValue, ...]) -> list[Key]:
    try:
        if fixed.arrays:
            return [(value,) for (one,) in fixed.rows for value in elements(one, parameters)]
        return [tuple(constant(value, parameters) for value in row) for row in fixed.rows]
    except (UnknownValueError, UnsupportedError):
        raise Refusal("keys that are not plain constants are not supported") from None
