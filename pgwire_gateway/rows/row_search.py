"""Looking for current rows of a tiered table: by keys, by unique values and by conditions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.journal.layout import column_names
from catalog.model import JournalTable
from pgwire_gateway.rows import source_rows
from pgwire_gateway.rows.needed_rows import NeededRows
from pgwire_gateway.rows.source_rows import SourceRows
from pgwire_gateway.rows.text_rows import key_row, text_rows
from pgwire_gateway.rows.value_search import rows_with
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import input_rows
from pgwire_gateway.wire_types.changed_rows import TextRow
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from rewrite.context import ParameterValue, RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.keys import compile_holders, compile_stored_rows
from rewrite.needs.keys import Key
from rewrite.needs.results import Need, Refusal
from rewrite.needs.search import Condition, search
from rewrite.pipeline import compile_query
from rewrite.results import SparkQuery
from rewrite.tree import Node

_DATA_EXCEPTION: Final = "22"
"""Class of the errors of values, such as a division by zero."""

MOST_BYTES: Final = 64 << 20
"""Values of the rows that a statement makes hot."""


@dataclass(frozen=True, slots=True)
class SingleRows:
    """Rows of a tiered table that are looked up by their keys."""

    present: tuple[TextRow, ...]
    """Those there are: PostgreSQL's texts of all columns, and None."""
    absent: tuple[TextRow, ...]
    """Keys without a row; the other columns are None."""
    sources: SourceRows = source_rows.NO_ROWS
    """What tables that tell keys have held."""


def find(  # noqa: PLR0913 - the condition, and what it is searched in
    call: Invocation,
    needed: NeededRows,
    wanted: Condition,
    observation: Observation,
    bound: tuple[ParameterValue, ...],
    *,
    most: int,
    few: bool,
) -> list[TextRow]:
    """Have Spark find the current rows that a condition asks for.

    What Spark cannot evaluate of a condition PostgreSQL does, when the statement runs: rows that
    satisfy the rest of it may be hot as well, unless it is known how many of them are enough.

    Args:
        call: The statement.
        needed: What it needs.
        wanted: The condition.
        observation: The table as it is.
        bound: Values of the statement's parameters.
        most: How many rows may become hot.
        few: Whether only so many are wanted as are enough.

    Raises:
        Refusal: They are more than may be hot for a statement.
        UnsupportedError: Spark cannot evaluate the condition, and `few` rows are wanted; or it
            cannot read the table.
    """
    if needed.template is None:
        raise TypeError(call.plan.route)
    context = Observer(call.session).context(call.plan, observation, bound)
    template, need = needed.template, wanted.need
    try:
        query = compile_query(search(template, need, few=few), context)
    except UnsupportedError:
        if few or not need.conditions:
            raise
    else:
        return _rows_of(call, query, observation, most)
    try:
        query = compile_query(search(template, _evaluated(template, need, context)), context)
        return _rows_of(call, query, observation, most)
    except GatewayError as error:
        if error.sqlstate[:2] != _DATA_EXCEPTION:
            raise
    # What is left out may be what keeps the rest from failing.
    query = compile_query(search(template, replace(need, conditions=())), context)
    return _rows_of(call, query, observation, most)


def _evaluated(template: Node, need: Need, context: RewriteContext) -> Need:
    """Return a need with those of its conditions that Spark can evaluate."""
    kept = []
    for condition in need.conditions:
        try:
            compile_query(search(template, replace(need, conditions=(condition,))), context)
        except UnsupportedError:
            continue
        kept.append(condition)
    return replace(need, conditions=tuple(kept))


def _rows_of(
    call: Invocation, query: SparkQuery, observation: Observation, most: int
) -> list[TextRow]:
    """Run a search; return what it finds as texts.

    Raises:
        Refusal: There is more of it than may be hot.
    """
    columns = [
        ResultColumn(column.type_oid, column.typmod, 0, column.column, column.scale)
        for column in query.columns
    ]
    found: list[TextRow] = []
    size = 0
    with Observer(call.session).run(query, observation, call.running) as batches:
        for batch in batches:
            size += batch.nbytes
            _require_few_bytes(size)
            if len(found) + batch.num_rows > most:
                raise Refusal(f"a condition that more than {most} rows satisfy is not supported")
            found += ([*row, None] for row in input_rows(batch, columns))
    return found


def holders(
    call: Invocation,
    observation: Observation,
    table: JournalTable,
    columns: tuple[int, ...],
    values: frozenset[Key],
) -> list[TextRow]:
    """Find the current rows that have one of some values of a unique key.

    Raises:
        Refusal: The files can only be read by Spark.
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    rows = rows_with(observation, table.relid, columns, values, call.services.lookups)
    if rows is None:
        raise Refusal("the files of the table are read by Spark only")
    _require_few_bytes(rows.nbytes)
    return text_rows(table, rows)


def held_rows(
    call: Invocation,
    observation: Observation,
    table: JournalTable,
    columns: Sequence[int],
    values: Iterable[Sequence[object]],
) -> pa.Table:
    """Have Spark find the current rows that have one of some values, in storage layout.

    Args:
        call: The statement.
        observation: The table as it is.
        table: The table.
        columns: Attribute numbers of the columns that have the values together.
        values: The values, as those of statement parameters; at least one.

    Raises:
        Refusal: They are more bytes than may be hot for a statement.
    """
    types = [table.column(attnum).type_oid for attnum in columns]
    wanted = [tuple(map(ParameterValue, types, value)) for value in values]
    query = compile_holders(observation.result.snapshots[table.relid], columns, wanted)
    rows = _run(call, query, observation)
    _require_few_bytes(rows.nbytes)
    return rows


class Finder(Protocol):
    """What finds rows by a condition, as `find` does."""

    def __call__(  # noqa: PLR0913 - as there
        self,
        call: Invocation,
        needed: NeededRows,
        wanted: Condition,
        observation: Observation,
        bound: tuple[ParameterValue, ...],
        *,
        most: int,
        few: bool,
    ) -> list[TextRow]:
        """Return the rows."""


def stored_rows(
    call: Invocation, observation: Observation, table: JournalTable, found: Iterable[Key]
) -> SingleRows:
    """Have Spark look rows of a table up by their keys."""
    keys = list(found)
    if not keys:
        return SingleRows((), ())
    types = [table.column(attnum).type_oid for attnum in table.key]
    wanted = [tuple(map(ParameterValue, types, key)) for key in keys]
    query = compile_stored_rows(observation.result.snapshots[table.relid], wanted)
    return _single_rows(table, _run(call, query, observation), keys)


def _run(call: Invocation, query: SparkQuery, observation: Observation) -> pa.Table:
    with Observer(call.session).run(query, observation, call.running) as batches:
        return pa.Table.from_batches(list(batches), schema=batches.schema)


def look_up(
    lookups: Lookups, observation: Observation, relid: int, found: Iterable[Key]
) -> SingleRows:
    """Look rows of a table up in tail and files, without Spark.

    Raises:
        Refusal: The files can only be read by Spark.
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    keys = list(found)
    if not keys:
        return SingleRows((), ())
    rows = observation.current_rows(relid, keys, lookups)
    if rows is None:
        raise Refusal("the files of the table are read by Spark only")
    return _single_rows(observation.result.snapshots[relid].table, rows, keys)


def _require_few_bytes(size: int) -> None:
    """Refuse rows that are too many bytes to be made hot: they travel as one text."""
    if size > MOST_BYTES:
        raise Refusal(f"single rows of more than {MOST_BYTES >> 20} MB are not supported")


def _single_rows(table: JournalTable, rows: pa.Table, keys: Sequence[Key]) -> SingleRows:
    _require_few_bytes(rows.nbytes)
    there = set(plain_keys.tuples(rows, column_names(table.key)))
    return SingleRows(
        tuple(text_rows(table, rows)),
        tuple(key_row(table, key) for key in keys if key not in there),
    )
