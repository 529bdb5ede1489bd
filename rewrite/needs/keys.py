"""The keys of the rows that have to be hot, where constants and parameters name them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice, product, zip_longest
from types import MappingProxyType
from typing import Final

from catalog.model import JournalTable
from rewrite.context import ParameterValue
from rewrite.dialect import oids
from rewrite.errors import UnsupportedError
from rewrite.key_constants import UnknownValueError, constant, elements, fitted, limited
from rewrite.key_types import COMPARED, ValueType, has_one_form, one_form
from rewrite.needs.results import Fixed, Image, Need, Needs, Refusal
from rewrite.needs.sources import DRAWN, Row, Source, places
from rewrite.tree import Node

Key = tuple[object, ...]
"""Values in their one form, in key order."""

Contents = Mapping[Source, Sequence[Sequence[object]]]
"""What sources hold: values of the columns asked for, in transfer forms."""

NO_CONTENTS: Final[Contents] = MappingProxyType({})


def keys(
    found: Needs,
    table: JournalTable,
    parameters: tuple[ParameterValue, ...],
    *,
    most: int,
    contents: Contents = NO_CONTENTS,
) -> frozenset[Key]:
    """Return the keys of all rows of a table that a statement needs, and of no others.

    Args:
        found: What the statement needs.
        table: The one table of which it may need rows.
        parameters: Values of the statement's parameters.
        most: How many keys there may be.
        contents: What the statement's sources hold.

    Raises:
        Refusal: Rows are needed that are not named by their keys, or are those of other tables, or
            are more; 0A000 with the reason.
    """
    values = _Values(types_of(table), parameters, contents, most)
    return _named(found, table, values, None)


def named_and_others(  # noqa: PLR0913 - what is known of the values, by name
    found: Needs,
    table: JournalTable,
    parameters: tuple[ParameterValue, ...],
    *,
    most: int,
    contents: Contents = NO_CONTENTS,
    drawn: bool = False,
) -> tuple[frozenset[Key], tuple[Need, ...]]:
    """Return the keys of rows that a statement names, and the needs that conditions tell.

    Arguments and errors are those of `keys`. Keys that are `drawn` when the statement runs are not
    among them.
    """
    others: list[Need] = []
    values = _Values(types_of(table), parameters, contents, most)
    values.are_drawn = drawn
    return _named(found, table, values, others), tuple(others)


def types_of(table: JournalTable) -> Mapping[int, ValueType]:
    """Return the types of the columns of a table, by attribute number."""
    return {column.attnum: (column.type_oid, column.typmod) for column in table.columns}


def draws(found: Needs, table: JournalTable) -> bool:
    """Return whether a statement writes unique keys that are known when it has run, and only so.

    An UPDATE of a primary key is asked whether it is known by whoever captures it.
    """
    unique = {table.key, *(key.columns for key in table.unique_keys if key.computed is None)}
    return bool(found.recorded) and all(
        recorded.written == recorded.searched == table.relid
        and recorded.image is Image.NEW
        and recorded.columns == recorded.keys
        and recorded.columns in unique
        for recorded in found.recorded
    )


def _named(
    found: Needs, table: JournalTable, values: "_Values", others: list[Need] | None
) -> frozenset[Key]:
    """Return the keys, and add other needs to these, where they are wanted."""
    if any(occurrence.relid != table.relid for occurrence in found.occurrences):
        raise Refusal("reading other tiered tables in a statement on single rows is not supported")
    if found.recorded and not values.are_drawn:
        raise Refusal("writing keys that are known only when the statement runs is not supported")
    if not table.key:
        raise Refusal(f'single rows of "{table.name}", which has no primary key, are not supported')
    if not all(has_one_form(*values.types[attnum]) for attnum in table.key):
        raise Refusal(
            f'single rows of "{table.name}", which has a key of such a type, are not supported'
        )
    wanted: set[Key] = set()
    for occurrence in found.occurrences:
        for need in occurrence.needs:
            try:
                wanted |= _keys(need, table.key, values)
            except Refusal:
                if others is None:
                    raise
                others.append(need)
    if len(wanted) > values.most:
        raise _too_many(values.most)
    return frozenset(wanted)


def named(  # noqa: PLR0913 - what is known of the values, by name
    need: Need,
    columns: tuple[int, ...],
    types: Mapping[int, ValueType],
    parameters: tuple[ParameterValue, ...],
    *,
    most: int,
    contents: Contents = NO_CONTENTS,
) -> frozenset[Key] | None:
    """Return values that some columns have together in all rows of a need; None if it tells none.

    Args:
        need: What a statement needs.
        columns: The columns of a unique key, or of the primary one.
        types: The types of columns, by attribute number.
        parameters: Values of the statement's parameters.
        most: How many values there may be.
        contents: What the statement's sources hold.
    """
    try:
        return frozenset(_keys(need, columns, _Values(types, parameters, contents, most)))
    except Refusal:
        return None


def _too_many(most: int) -> Refusal:
    return Refusal(f"a statement on more than {most} single rows is not supported")


def _keys(need: Need, key: tuple[int, ...], values: "_Values") -> set[Key]:
    rows: list[dict[int, object]] = [{}]
    for fixed in (one.among(key) for one in need.fixed):
        if fixed.columns:
            joined = _joined(rows, fixed.columns, values.of(fixed))
            rows = list(islice(joined, values.most + 1))
            if len(rows) > values.most:
                raise _too_many(values.most)
    if any(set(row) != set(key) for row in rows):
        raise Refusal("rows that are not named by constants for their keys are not supported")
    return {tuple(row[column] for column in key) for row in rows}


def _joined(
    rows: list[dict[int, object]], columns: tuple[int, ...], values: Iterable[Key]
) -> Iterable[dict[int, object]]:
    """Return the rows that say the same of the columns that both tell."""
    found = {row: dict(zip(columns, row, strict=True)) for row in values if None not in row}
    if all(row.keys() >= set(columns) for row in rows):
        return (row for row in rows if tuple(row[column] for column in columns) in found)
    return (
        row | other
        for row in rows
        for other in found.values()
        if all(row.get(column, value) == value for column, value in other.items())
    )


class _Values:
    """The values that columns of a table are compared with."""

    def __init__(
        self,
        types: Mapping[int, ValueType],
        parameters: tuple[ParameterValue, ...],
        contents: Contents,
        most: int,
    ) -> None:
        self.types = types
        self._parameters = parameters
        self._contents = contents
        self.most = most
        self.are_drawn = False
        """Whether the statement may write keys that are searched afterwards."""

    def of(self, fixed: Fixed) -> Iterator[Key]:
        """Yield the rows of values in their forms, None for one that no row of the table has.

        Raises:
            Refusal: They are not known as Python's.
        """
        try:
            for row in self._rows(fixed):
                yield tuple(map(self._formed, fixed.columns, row))
        except (UnknownValueError, UnsupportedError):
            raise Refusal("keys that are not plain constants are not supported") from None

    def _formed(self, column: int, value: object) -> object:
        type_oid, typmod = self.types[column]
        if not has_one_form(type_oid, typmod):
            raise UnknownValueError
        return one_form(value, type_oid, typmod)

    def _rows(self, fixed: Fixed) -> Iterator[Key]:
        if fixed.arrays:
            for (one,) in fixed.rows:
                yield from ((value,) for value in elements(one, self._parameters))
            return
        for row in fixed.rows:
            yield from self._of_row(fixed.columns, row)

    def _of_row(self, columns: tuple[int, ...], row: Row) -> Iterator[Key]:
        drawn = places(row)
        if not drawn:
            yield tuple(constant(value, self._parameters) for value in row if value is not None)
            return
        held = [[(place, one) for one in self._held(row, place, drawn[place])] for place in drawn]
        for chosen in product(*held):
            rows = dict(chosen)
            yield tuple(
                self._value(cell, self.types[column][0], drawn, rows)
                for column, cell in zip(columns, row, strict=True)
                if cell is not None
            )

    def _held(self, row: Row, place: str, source: Source) -> Sequence[Sequence[object]]:
        """Return the rows of a source."""
        if source.relid:
            return self._contents[source]
        arrays = {
            cell.integer("attno"): elements(cell.node("array"), self._parameters)
            for cell in row
            if cell is not None and cell.tag == DRAWN and cell["place"] == place
        }
        return list(zip_longest(*(arrays[column] for column in source.columns)))

    def _value(
        self,
        cell: Node,
        type_oid: int,
        drawn: Mapping[str, Source],
        rows: Mapping[str, Sequence[object]],
    ) -> object:
        if cell.tag != DRAWN:
            return constant(cell, self._parameters)
        place = str(cell["place"])
        value = rows[place][drawn[place].columns.index(cell.integer("attno"))]
        if value is None:
            return None
        if isinstance(value, str) and type_oid in _TRANSFERRED:
            value = _TRANSFERRED[type_oid](value)
        if not isinstance(value, COMPARED.get(type_oid, ())):
            # Integers are taken as numeric without a change.
            if type_oid != oids.NUMERIC or not isinstance(value, int):
                raise UnknownValueError
            value = Decimal(value)
        return _limited(cell, value, type_oid)


def _limited(cell: Node, value: object, type_oid: int) -> object:
    """Return what the casts of a value leave of it."""
    most, modifier = cell.get("most"), cell.get("rounds")
    if isinstance(most, int) and isinstance(value, str):
        return limited(value, most, padded=type_oid == oids.BPCHAR)
    return value if modifier is None else fitted(value, type_oid, modifier)


_TRANSFERRED: Final[dict[int, Callable[[str], object]]] = {
    oids.NUMERIC: Decimal,
    oids.BYTEA: bytes.fromhex,
}
"""Readers of transfer forms that are not values yet."""
