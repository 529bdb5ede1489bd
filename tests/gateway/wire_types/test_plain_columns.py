"""Exported columns have types that any reader of Parquet knows."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from pgwire_gateway.wire_types.plain_columns import plain_batch, plain_schema
from rewrite.results import OutputColumn


def plain(values, type_oid, typmod=-1):
    columns = (OutputColumn("v", type_oid, typmod, "o1"),)
    batch = plain_batch(pa.RecordBatch.from_pydict({"o1": values}), columns)
    assert batch.schema == plain_schema(columns)
    return batch.column(0)


def test_times_are_times_of_day():
    values = plain(pa.array([0, None, 86_399_999_999], pa.int64()), 1083)
    assert values.to_pylist() == [dt.time(0), None, dt.time(23, 59, 59, 999_999)]


def test_numerics_are_decimals_where_they_have_a_precision_and_text_elsewhere():
    typmod = ((10 << 16) | 2) + 4
    assert plain(pa.array([Decimal("1.10")], pa.decimal128(10, 2)), 1700, typmod).to_pylist() == [
        Decimal("1.10")
    ]
    assert plain(pa.array(["1.10", "NaN"]), 1700).to_pylist() == ["1.10", "NaN"]


@pytest.mark.parametrize(
    ("values", "type_oid"),
    [
        (pa.array([2**31 - 1], pa.int32()).view(pa.date32()), 1082),
        (pa.array([-(2**63)], pa.int64()).view(pa.timestamp("us")), 1114),
        (pa.array([[2**63 - 1]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("us"))), 1115),
        (pa.array([86_400_000_000], pa.int64()), 1083),
    ],
)
def test_what_only_postgresql_has_is_refused(values, type_oid):
    with pytest.raises(GatewayError) as raised:
        plain(values, type_oid)
    assert raised.value.sqlstate == "22008"
