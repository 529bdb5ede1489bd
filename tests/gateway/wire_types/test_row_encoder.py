"""Runs of DataRow messages: framing, NULLs, slices, limits and refusals."""

from decimal import Decimal

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from pgwire_gateway.wire_types import buffers, row_encoder, row_framing
from pgwire_gateway.wire_types.row_encoder import ResultColumn, RowEncoder
from tests.gateway.wire_types.oracle import data_rows, encoded

INT4, INT8, TEXT, NUMERIC, INET, BOOL, DATE, TIMESTAMPTZ = 23, 20, 25, 1700, 869, 16, 1082, 1184


def _column(type_oid: int, name: str, format_code: int = 0, scale: int | str | None = None):
    return ResultColumn(type_oid, -1, format_code, name, scale)


def test_a_row_is_length_field_count_and_fields():
    encoder = RowEncoder([_column(INT4, "a"), _column(TEXT, "b"), _column(INT4, "c", 1)])
    batch = pa.record_batch(
        {
            "a": pa.array([7], pa.int32()),
            "b": pa.array([None], "str"),
            "c": pa.array([1], pa.int32()),
        }
    )
    assert bytes(encoder.encode(batch)) == (
        b"D\0\0\0\x17\0\3" + b"\0\0\0\1" + b"7" + b"\xff\xff\xff\xff" + b"\0\0\0\4" + b"\0\0\0\1"
    )


def test_a_batch_without_rows_is_no_message():
    encoder = RowEncoder([_column(INT4, "a")])
    assert bytes(encoder.encode(pa.record_batch({"a": pa.array([], pa.int32())}))) == b""


def test_a_result_without_columns_has_empty_rows():
    batch = pa.record_batch({"a": pa.array([1, 2], pa.int32())})
    assert bytes(RowEncoder([]).encode(batch)) == b"D\0\0\0\6\0\0" * 2


@pytest.mark.parametrize("format_code", [0, 1])
def test_columns_are_found_by_name_and_slices_encode_their_own_rows(format_code):
    batch = pa.record_batch(
        {
            "t": pa.array(["a", None, "ccc", "dd", ""]),
            "i": pa.array([1, 2, None, 4, 5], pa.int32()),
            "b": pa.array([True, None, False, True, False]),
            "d": pa.array([1, None, 3, 4, 5], pa.int32()).cast(pa.date32()),
            "n": pa.array([Decimal("1.5"), None, Decimal(3), Decimal("-4.1"), Decimal(5)]),
            "l": pa.array([[1], None, [], [None, 4], [5, 5]], pa.list_(pa.int32())),
        }
    )
    oids = {"i": INT4, "t": TEXT, "d": DATE, "b": BOOL, "n": NUMERIC, "l": 1007}
    encoder = RowEncoder([_column(oid, name, format_code) for name, oid in oids.items()])
    rows = data_rows(encoder.encode(batch))
    assert [row[1] for row in rows] == [b"a", None, b"ccc", b"dd", b""]
    for start in range(5):
        for stop in range(start, 6):
            part = batch.slice(start, stop - start)
            assert data_rows(encoder.encode(part)) == rows[start:stop]


@pytest.mark.parametrize("format_code", [0, 1])
def test_pieces_of_bounded_size_hold_the_same_messages(monkeypatch, format_code):
    batch = pa.record_batch(
        {"t": ["x" * (i % 50) for i in range(1000)], "i": pa.array(range(1000), pa.int32())}
    )
    columns = [_column(TEXT, "t", format_code), _column(INT4, "i", format_code)]
    whole = bytes(RowEncoder(columns).encode(batch))
    monkeypatch.setattr(row_encoder, "_SLICE_ROWS", 100)
    monkeypatch.setattr(row_framing, "_MAX_RUN", 500)
    chunks = list(RowEncoder(columns).chunks(batch))
    assert len(chunks) > 60
    assert all(data_rows(chunk) for chunk in chunks)
    assert max(map(len, chunks)) <= 500
    assert b"".join(chunks) == whole
    assert bytes(RowEncoder(columns).encode(batch)) == whole


def test_wide_rows_are_cut_by_bytes(monkeypatch):
    monkeypatch.setattr(row_encoder, "_SLICE_BYTES", 5000)
    batch = pa.record_batch({"t": ["x" * 1000] * 64})
    encoder = RowEncoder([_column(TEXT, "t")])
    chunks = list(encoder.chunks(batch))
    assert len(chunks) == 16
    assert len(data_rows(b"".join(chunks))) == 64


def test_a_row_longer_than_postgresql_allows_is_refused(monkeypatch):
    monkeypatch.setattr(row_framing, "_MAX_MESSAGE", 100)
    batch = pa.record_batch({"t": ["x" * 80, "x" * 91]})
    with pytest.raises(GatewayError) as caught:
        RowEncoder([_column(TEXT, "t")]).encode(batch)
    assert caught.value.sqlstate == "54000"


def test_a_value_too_long_for_a_message_is_refused(monkeypatch):
    monkeypatch.setattr(buffers, "_MAX_BYTES", 100)
    with pytest.raises(GatewayError) as caught:
        encoded(pa.array([b"x" * 51]), 17)
    assert caught.value.sqlstate == "54000"


def test_numbers_come_out_as_announced_whatever_width_they_have():
    assert encoded(pa.array([1, None], pa.int64()), INT4, format_code=1) == [b"\0\0\0\1", None]
    assert encoded(pa.array([1], pa.int32()), INT8, format_code=1) == [b"\0" * 7 + b"\1"]
    assert encoded(pa.array([5], pa.int64()), NUMERIC) == [b"5"]
    with pytest.raises(GatewayError) as caught:
        encoded(pa.array([2**40]), INT4)
    assert caught.value.sqlstate == "22003"


@pytest.mark.parametrize("type_oid", [INT4, TEXT, NUMERIC, DATE, TIMESTAMPTZ, 1007, 17, 1186, 2950])
@pytest.mark.parametrize("format_code", [0, 1])
def test_a_column_of_nothing_but_null_fits_every_type(type_oid, format_code):
    assert encoded(pa.nulls(3), type_oid, format_code=format_code) == [None] * 3


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), "str")]
)
def test_text_may_come_in_any_layout(kind):
    assert encoded(pa.array(["a", None, "b"]).cast(kind), TEXT) == [b"a", None, b"b"]


def test_a_column_of_another_kind_is_refused():
    with pytest.raises(GatewayError) as caught:
        encoded(pa.array([1.5]), TEXT)
    assert caught.value.sqlstate == "XX000"


def test_types_carried_as_text_have_no_binary_form():
    assert encoded(pa.array(["10.0.0.1"]), INET) == [b"10.0.0.1"]
    with pytest.raises(GatewayError) as caught:
        RowEncoder([_column(INET, "a", 1)])
    assert caught.value.sqlstate == "0A000"


def test_names_of_object_identifiers_are_refused():
    with pytest.raises(GatewayError) as caught:
        encoded(pa.array([1259]), 2205)
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize("format_code", [0, 1])
def test_a_declared_scale_counts_where_none_is_given(format_code):
    values = pa.array([Decimal("1.500000")])
    typmod = ((10 << 16) | 2) + 4
    expected = encoded(pa.array([Decimal("1.50")]), NUMERIC, -1, format_code)
    assert encoded(values, NUMERIC, typmod, format_code) == expected


@pytest.mark.parametrize("format_code", [0, 1])
def test_significant_decimals_beyond_the_scale_are_an_error(format_code):
    batch = pa.record_batch({"n": [Decimal("1.25")], "s": pa.array([1], pa.int32())})
    for scale in (1, "s"):
        with pytest.raises(GatewayError) as caught:
            RowEncoder([_column(NUMERIC, "n", format_code, scale)]).encode(batch)
        assert caught.value.sqlstate == "XX000"
