"""What is written, as text or as binary, reads back as the same value."""

from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pgwire_gateway.wire_types.input_text import text_values
from pgwire_gateway.wire_types.parameters import decode
from pgwire_gateway.wire_types.registry import arrow_type
from pgwire_gateway.wire_types.row_encoder import ResultColumn, RowEncoder
from tests.gateway.wire_types.oracle import data_rows, encoded

YEAR = 31_556_952_000_000
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers(-2_440_588, 2_145_031_948)
INSTANTS = st.integers(-6683 * YEAR, 292_000 * YEAR) | st.integers(0, 60 * YEAR)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
INTERVALS = st.fixed_dictionaries(
    {
        "months": st.integers(-(2**31) + 1, 2**31 - 2),
        "days": st.integers(-(2**31) + 1, 2**31 - 2),
        "microseconds": st.integers(-(2**63) + 1, 2**63 - 2),
    }
)
STORED = {
    16: st.booleans(),
    17: st.binary(max_size=20),
    20: INT64,
    21: st.integers(-(2**15), 2**15 - 1),
    23: INT32,
    25: TEXT,
    26: st.integers(0, 2**32 - 1),
    700: st.floats(width=32, allow_nan=False),
    701: st.floats(allow_nan=False),
    1082: DAYS,
    1083: st.integers(0, 86_400_000_000),
    1114: INSTANTS,
    1184: INSTANTS,
    1186: INTERVALS,
    2950: st.uuids().map(str),
}
ARRAYS = {
    1000: 16,
    1001: 17,
    1016: 20,
    1007: 23,
    1009: 25,
    1022: 701,
    1182: 1082,
    1185: 1184,
    1187: 1186,
}


def _array(values: list, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_list(kind):
        items = _array([item for value in values for item in value or ()], kind.value_type)
        lengths = [0, *(len(value or ()) for value in values)]
        offsets = pa.array([sum(lengths[: place + 1]) for place in range(len(lengths))], pa.int32())
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(offsets, items, mask=mask)
    return pa.array(values, kind)


@st.composite
def columns(draw: st.DrawFn) -> tuple[int, pa.Array]:
    """A type and values of it in storage type, NULLs among them."""
    type_oid = draw(st.sampled_from([*STORED, *ARRAYS]))
    if type_oid in ARRAYS:
        element = st.none() | STORED[ARRAYS[type_oid]]
        values = draw(st.lists(st.none() | st.lists(element, max_size=4), max_size=6))
    else:
        values = draw(st.lists(st.none() | STORED[type_oid], max_size=10))
    return type_oid, _array(values, arrow_type(type_oid))


@given(columns())
def test_text_reads_back_as_the_same_values(column):
    type_oid, stored = column
    fields = encoded(stored, type_oid)
    texts = [None if field is None else field.decode() for field in fields]
    assert text_values(texts, type_oid).equals(stored)


@given(columns())
def test_binary_of_many_is_binary_of_each(column):
    type_oid, stored = column
    fields = encoded(stored, type_oid, format_code=1)
    assert fields == [
        field
        for row in range(len(stored))
        for field in encoded(stored.slice(row, 1), type_oid, -1, 1)
    ]


@given(columns())
def test_text_of_many_is_text_of_each(column):
    type_oid, stored = column
    assert encoded(stored, type_oid) == [
        field for row in range(len(stored)) for field in encoded(stored.slice(row, 1), type_oid)
    ]


NUMBERS = st.integers(-(10**26), 10**26).map(lambda unscaled: Decimal(unscaled).scaleb(-6))


@given(st.lists(st.none() | NUMBERS, max_size=10), st.integers(27, 30))
def test_binary_numeric_is_the_same_decimal(values: list[Decimal | None], wider: int):
    stored = pa.array(values, pa.decimal128(38, 6))
    for kind in (stored, stored.cast(pa.decimal128(wider + 8, 6), safe=False)):
        fields = encoded(kind, 1700, format_code=1)
        decoded = [decode(1700, field) for field in fields]
        assert [repr(value) for value in decoded] == [repr(value) for value in values]


@given(st.lists(columns(), min_size=1, max_size=6), st.lists(st.sampled_from([0, 1]), min_size=6))
def test_columns_do_not_disturb_each_other(several, formats):
    rows = min(len(stored) for _, stored in several)
    batch = pa.record_batch(
        {str(place): stored.slice(0, rows) for place, (_, stored) in enumerate(several)}
    )
    encoder = RowEncoder(
        [
            ResultColumn(type_oid, -1, code, str(place))
            for place, ((type_oid, _), code) in enumerate(zip(several, formats, strict=False))
        ]
    )
    expected = [
        encoded(batch.column(place), type_oid, -1, code)
        for place, ((type_oid, _), code) in enumerate(zip(several, formats, strict=False))
    ]
    assert data_rows(encoder.encode(batch)) == [list(row) for row in zip(*expected, strict=True)]
