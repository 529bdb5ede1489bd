"""Unique keys whose values are computed: on expressions, of some rows, with NULLs that are equal.

PostgreSQL computes them, for rows that are brought to it: a text for each row, NULL for those that
are not compared. Spark does where all rows are looked at, and what it computes is the same.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.call_codes import array_text
from catalog.journal.layout import column_name
from catalog.model import ComputedKey, JournalTable, UniqueKey
from pgwire_gateway.rows.text_rows import text_rows
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.value_indexes import Computed
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import (
    input_columns,
    input_rows,
    key_texts,
    key_values,
)
from pgwire_gateway.wire_types.changed_rows import TextRow
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from rewrite import computed_keys
from rewrite.errors import UnsupportedError
from rewrite.needs.keys import Key


def rows_with(
    session: ClientSession,
    observation: Observation,
    table: JournalTable,
    key: UniqueKey,
    values: Collection[str],
) -> list[tuple[TextRow, str]] | None:
    """Return the current rows that have one of some values of a unique key, with the value.

    None where the table is to be read by Spark.

    Raises:
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    types = [table.column(attnum).type_oid for attnum in table.key]
    if not types or not plain_keys.has_one_form(table, table.key):
        return None
    relid, computed = table.relid, _computed(key)
    lookups = session.services.lookups
    snapshot = observation.result.snapshots[relid]
    # Whoever has had the value at some time may have it now.
    stored = lookups.values.keys(
        snapshot, key.columns, [(value,) for value in values], _source(session, table, key)
    )
    sought = array_text([value.encode() for value in values])
    answer = session.catalog.call(
        bookkeeping.COMPUTED_HOLDERS, _number(relid), _number(computed.index_oid), sought
    )
    recent = json.loads(answer)
    if stored is None or recent is None:
        return None
    candidates: set[Key] = stored | {key_values(types, one) for one in recent}
    if not candidates:
        return []
    rows = observation.current_rows(relid, sorted(candidates, key=repr), lookups)
    found = None if rows is None else _values(session, table, key, rows, tolerant=True)
    if rows is None or found is None:
        return None
    pairs = zip(text_rows(table, rows), found.to_pylist(), strict=True)
    return [(row, value) for row, value in pairs if value in values]


def shared(
    session: ClientSession,
    observation: Observation,
    table: JournalTable,
    key: UniqueKey,
    running: RunningStatement,
) -> list[str] | None:
    """Return one value that several current rows have, as texts; None where there is none.

    Raises:
        GatewayError: PostgreSQL's, or Spark's, where a value cannot be computed.
    """
    observer, snapshot = Observer(session), observation.result.snapshots[table.relid]
    try:
        query = computed_keys.compile_shared_values(snapshot, _computed(key))
    except UnsupportedError:
        return _shared_for_postgresql(session, observation, table, key, running)
    with observer.run(query, observation, running) as batches:
        found = next((batch for batch in batches if batch.num_rows), None)
    return None if found is None else key_texts(found, [c.type_oid for c in query.columns])[0]


def parts(value: str) -> list[str]:
    """Return the parts of a value as errors list them."""
    return ["null" if part is None else part for part in json.loads(value)]


def _shared_for_postgresql(
    session: ClientSession,
    observation: Observation,
    table: JournalTable,
    key: UniqueKey,
    running: RunningStatement,
) -> list[str] | None:
    """Have PostgreSQL compute the values of all current rows."""
    query = computed_keys.compile_columns(observation.result.snapshots[table.relid], key.columns)
    columns = [
        ResultColumn(column.type_oid, column.typmod, 0, column.column, column.scale)
        for column in query.columns
    ]
    found = [pa.array([], pa.string())]
    with Observer(session).run(query, observation, running) as batches:
        for batch in batches:
            values = _evaluated(session, key, input_rows(batch, columns), tolerant=False)
            if values is not None:
                found.append(values.drop_null())
    counts = pc.value_counts(pa.chunked_array(found))
    several = counts.filter(pc.greater(counts.field("counts"), 1))
    return parts(several.field("values")[0].as_py()) if len(several) else None


def _source(session: ClientSession, table: JournalTable, key: UniqueKey) -> Computed:
    computed = _computed(key)
    told = repr((computed.parts, computed.expressions, computed.predicate, computed.nulls_distinct))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]

    def compute(rows: pa.Table) -> pa.Array | None:
        return _values(session, table, key, rows, tolerant=True)

    return Computed(f"{computed.index_oid}_{digest}", key.columns, compute)


def _values(
    session: ClientSession,
    table: JournalTable,
    key: UniqueKey,
    rows: pa.Table,
    *,
    tolerant: bool,
) -> pa.Array | None:
    """Return the values of rows in storage layout."""
    columns = [(column_name(attnum), table.column(attnum).type_oid) for attnum in key.columns]
    texts: Iterator[Sequence[str | None]] = zip(*input_columns(rows, columns), strict=True)
    return _evaluated(session, key, texts, tolerant=tolerant)


def _evaluated(
    session: ClientSession,
    key: UniqueKey,
    rows: Iterator[Sequence[str | None]] | list[tuple[str | None, ...]],
    *,
    tolerant: bool,
) -> pa.Array | None:
    """Return the values of rows: PostgreSQL's texts of the columns that the key looks at."""
    brought = list(rows)
    if not brought:
        return pa.array([], pa.string())
    answer = session.catalog.call(
        bookkeeping.COMPUTED_VALUES,
        _number(_computed(key).index_oid),
        json.dumps(brought, ensure_ascii=False, separators=(",", ":")).encode(),
        b"t" if tolerant else b"f",
    )
    found = json.loads(answer)
    return None if found is None else pa.array(found, pa.string())


def _computed(key: UniqueKey) -> ComputedKey:
    if key.computed is None:
        raise TypeError(key.name)
    return key.computed


def _number(value: int) -> bytes:
    return str(value).encode()
