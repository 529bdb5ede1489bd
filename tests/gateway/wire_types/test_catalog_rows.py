"""Rows in transfer forms, as JSON and as CSV, become the values PostgreSQL holds."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import GatewayError
from catalog.model import Column, JournalTable
from pgwire_gateway.wire_types import catalog_csv
from pgwire_gateway.wire_types.catalog_rows import (
    csv_batches,
    input_columns,
    input_rows_json,
    key_texts,
    key_values,
    row_versions,
    storage_schema,
    tail_table,
)
from pgwire_gateway.wire_types.parameters import decode
from rewrite.dialect.literals import normalised
from tests.gateway.wire_types.oracle import Oracle
from tests.gateway.wire_types.samples import SAMPLES

_EPOCH = "(extract(epoch FROM {0}) * 1000000)::bigint"
_INTERVAL = (
    "((extract(year FROM {0}) * 12 + extract(month FROM {0}))::int || ' '"
    " || extract(day FROM {0})::int || ' ' || (extract(hour FROM {0}) * 3600000000"
    " + extract(minute FROM {0}) * 60000000"
    " + extract(microseconds FROM {0}))::bigint)"
)
TRANSFER = {
    "bool": "{0}",
    "int2": "{0}",
    "int4": "{0}",
    "int8": "{0}",
    "oid": "{0}",
    "text": "{0}",
    "varchar(10)": "{0}",
    "bpchar(5)": "{0}",
    "bytea": "encode({0}, 'hex')",
    "date": "({0} - date '1970-01-01')",
    "time": _EPOCH,
    "timestamp": _EPOCH,
    "timestamptz": _EPOCH,
    "interval": _INTERVAL,
    "date[]": "ARRAY(SELECT e - date '1970-01-01' FROM unnest({0}) e)::text",
    "timestamp[]": "ARRAY(SELECT " + _EPOCH.format("e") + " FROM unnest({0}) e)::text",
    "bytea[]": "ARRAY(SELECT encode(e, 'hex') FROM unnest({0}) e)::text",
    "interval[]": "ARRAY(SELECT " + _INTERVAL.format("e") + " FROM unnest({0}) e)::text",
}
"""How the catalog writes a value; types left out travel as PostgreSQL's text."""


def _finite(kind: str) -> list[str | None]:
    """Samples whose transfer form is a number that exists and that 64-bit time can hold."""
    texts = SAMPLES[kind]
    if kind.startswith(("date", "time", "interval")):
        texts = tuple(t for t in texts if t is None or ("infinity" not in t and "294247" not in t))
    if kind in {"date[]", "timestamp[]"}:
        texts = ("{2024-02-29,NULL,1969-12-31}", "{}", None)
    return list(texts)


def _query(kind: str, texts: list[str | None], form: str) -> str:
    rows = ", ".join(f"({place}, ${place + 1}::{kind})" for place in range(len(texts)))
    value = f"CASE WHEN v IS NOT NULL THEN {TRANSFER.get(kind, '{0}::text').format('v')} END"
    return f"SELECT {form.format(value)} FROM (VALUES {rows}) AS t (n, v)"


@pytest.mark.catalog
@pytest.mark.parametrize("kind", SAMPLES)
def test_json_rows_hold_the_stored_values(oracle: Oracle, kind: str):
    texts = _finite(kind)
    expected = oracle.stored(kind, texts)
    ((rows,),) = oracle.fetch(
        _query(kind, texts, "json_agg(json_build_array({0}, 7, NULL, n) ORDER BY n)"), texts
    )
    table = _table([Column(3, "v", *oracle.type_of(kind), False, "v")], key=())
    tail = tail_table(table, json.loads(rows))
    assert tail.schema == storage_schema(table)
    assert _comparable(tail.column("c3").combine_chunks()).equals(_comparable(expected))
    assert tail.column("row_identity").to_pylist() == list(range(len(texts)))
    assert tail.column("version_number").cast("int64").to_pylist() == [7] * len(texts)
    assert tail.column("subsequent_version_number").null_count == len(texts)


@pytest.mark.catalog
@pytest.mark.parametrize("kind", SAMPLES)
def test_csv_rows_hold_the_stored_values(oracle: Oracle, kind: str):
    texts = _finite(kind)
    expected = oracle.stored(kind, texts)
    bound = oracle.inlined(_query(kind, texts, "{0}, n") + " ORDER BY n", texts)
    with oracle.connection.cursor().copy(f"COPY ({bound}) TO STDOUT (FORMAT csv)") as copy:
        chunks = [bytes(chunk) for chunk in copy]
    columns = [Column(3, "v", *oracle.type_of(kind), False, "v")]
    (batch,) = csv_batches(columns, chunks, trailing=("row_identity",))
    assert batch.schema.names == ["c3", "row_identity"]
    assert _comparable(batch.column(0)).equals(_comparable(expected))
    assert batch.column(1).to_pylist() == list(range(len(texts)))


def _comparable(values: pa.Array) -> pa.Array:
    """NaN is not equal to itself, its text is."""
    if pa.types.is_list(values.type) and pa.types.is_floating(values.type.value_type):
        return values.cast(pa.list_(pa.string()))
    return values.cast(pa.string()) if pa.types.is_floating(values.type) else values


def _table(columns: list[Column], key: tuple[int, ...]) -> JournalTable:
    return JournalTable(1, "public", "t", tuple(columns), key, "t_pkey" if key else None, 1, "1")


TEXT_COLUMN, INT_COLUMN = Column(1, "a", 25, -1, False, "a"), Column(4, "b", 23, -1, True, "b")


def test_floats_may_be_json_numbers():
    table = _table([Column(1, "f", 701, -1, False, "f")], key=())
    tail = tail_table(table, [[1, 7, None, 1], [0.5, 7, None, 2], ["-0", 7, None, 3]])
    assert list(map(str, tail.column("c1").to_pylist())) == ["1.0", "0.5", "-0.0"]


def test_tables_with_a_key_have_no_row_identity():
    keyed = _table([TEXT_COLUMN, INT_COLUMN], key=(4,))
    tail = tail_table(keyed, [["x", 1, 5, None, None], [None, 2, 6, 6, None]])
    assert tail.schema.names == ["c1", "c4", "version_number", "subsequent_version_number"]
    assert tail.column("c1").to_pylist() == ["x", None]
    assert tail.column("subsequent_version_number").cast("int64").to_pylist() == [None, 6]
    assert tail_table(keyed, []).schema == tail.schema


def test_new_rows_become_versions_of_one_number():
    keyless = _table([TEXT_COLUMN, INT_COLUMN], key=())
    batch = pa.record_batch({"row_identity": [5, 6], "c4": pa.array([1, 2], pa.int32())})
    versions = row_versions(batch, keyless, 42)
    assert versions.schema == storage_schema(keyless)
    assert versions.column("version_number").cast("int64").to_pylist() == [42, 42]
    assert versions.column("subsequent_version_number").null_count == 2
    assert versions.column("c1").to_pylist() == [None, None]
    assert versions.column("row_identity").to_pylist() == [5, 6]


def test_unquoted_empty_is_null_and_quoted_empty_is_empty():
    (batch,) = csv_batches([TEXT_COLUMN, INT_COLUMN], [b'"",1\n,2\n"a""b\n,c",3\n'])
    assert batch.column("c1").to_pylist() == ["", None, 'a"b\n,c']
    assert batch.column("c4").to_pylist() == [1, 2, 3]


def test_a_lone_null_is_an_empty_line():
    (batch,) = csv_batches([TEXT_COLUMN], [b'\n"\n"\n\nx\n'])
    assert batch.column("c1").to_pylist() == [None, "\n", None, "x"]


def test_no_rows_are_no_batches():
    assert list(csv_batches([TEXT_COLUMN], [])) == []


@given(
    st.lists(st.none() | st.text(alphabet='ab",\n\r é', max_size=8), max_size=30),
    st.integers(1, 20),
    st.integers(1, 64),
)
def test_chunks_may_end_anywhere(values: list[str | None], chunk: int, block: int):
    lines = "".join(
        f"{number}," + ("" if value is None else '"' + value.replace('"', '""') + '"') + "\n"
        for number, value in enumerate(values)
    ).encode()
    chunks = [lines[start : start + chunk] for start in range(0, len(lines), chunk)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog_csv, "_BLOCK_BYTES", block)
        batches = list(csv_batches([INT_COLUMN, TEXT_COLUMN], chunks))
    read = [value for batch in batches for value in batch.column("c1").to_pylist()]
    assert read == values
    numbers = [value for batch in batches for value in batch.column("c4").to_pylist()]
    assert numbers == list(range(len(values)))


def test_nan_does_not_fit_a_decimal():
    column = Column(1, "a", 1700, ((5 << 16) | 2) + 4, False, "a")
    with pytest.raises(GatewayError) as caught:
        list(csv_batches([column], [b"NaN\n"]))
    assert caught.value.sqlstate == "0A000"
    with pytest.raises(GatewayError) as caught:
        tail_table(_table([column], key=()), [["NaN", 1, None, 1]])
    assert caught.value.sqlstate == "0A000"


@pytest.mark.catalog
@pytest.mark.parametrize("kind", SAMPLES)
def test_postgresql_reads_input_text_as_the_same_value(oracle: Oracle, kind: str):
    texts = list(SAMPLES[kind])
    stored = oracle.stored(kind, texts)
    type_oid, _ = oracle.type_of(kind)
    ((written,),) = [input_columns(pa.record_batch({"v": stored}), [("v", type_oid)])]
    assert oracle.values(kind, written, 1) == oracle.values(kind, texts, 1)


def test_input_rows_are_json_arrays():
    batch = pa.record_batch(
        {
            "a": ['é"', None],
            "n": pa.array([Decimal("1.50"), None]),
            "row_identity": pa.array([1, 2], pa.int64()),
        }
    )
    columns = [("row_identity", 20), ("a", 25), ("n", 1700)]
    expected = '[["1","é\\"","1.50"],["2",null,null]]'
    assert input_rows_json(batch, columns) == expected
    assert input_rows_json(pa.Table.from_batches([batch]), columns) == expected


def test_key_texts_are_those_of_an_error_detail():
    batch = pa.record_batch({"x": pa.array([3], pa.int32()), "y": ["abc"]})
    assert key_texts(batch, [23, 25]) == [["3", "abc"]]


@pytest.mark.catalog
@pytest.mark.parametrize(
    "kind",
    [
        *(
            "bool",
            "int2",
            "int8",
            "float8",
            "numeric",
            "text",
            "bpchar(5)",
            "bytea",
            "date",
            "time",
        ),
        *("timestamp", "timestamptz", "interval", "uuid", "varchar(10)"),
        *("int4[]", "text[]", "bool[]", "bytea[]", "date[]", "timestamptz[]", "uuid[]"),
    ],
)
def test_key_values_are_those_of_parameters(oracle: Oracle, kind: str):
    oracle.apply(oracle.settings())
    type_oid, _ = oracle.type_of(kind)
    outside = ("BC", "10000", "12345", "24:00", "178000000", "NaN", "5874897")
    texts = [text for text in _finite(kind) if text and not any(part in text for part in outside)]
    ((rows,),) = oracle.fetch(_query(kind, texts, "json_agg({0} ORDER BY n)"), texts)
    sent = [field for (field,) in oracle.values(kind, texts, 1)]
    keys = [key_values([type_oid], [value])[0] for value in json.loads(rows)]
    assert [_plain(key) for key in keys] == [_plain(decode(type_oid, field)) for field in sent]


def _plain(value: object) -> object:
    return [normalised(item) for item in value] if isinstance(value, list) else normalised(value)
