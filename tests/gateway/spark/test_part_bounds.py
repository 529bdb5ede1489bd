"""Results of rows far larger than those that are read: however large, few of them are in memory."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pgwire_gateway.spark.api import Delivery
from pgwire_gateway.spark.arrow_schemas import arrow_schema
from pgwire_gateway.spark.engine import SessionKind, SparkEngine
from pgwire_gateway.spark.internals.large_parts import SLICE_BYTES, StoredParts
from pgwire_gateway.spark.internals.part_bounds import PartBound, PlannedRows, row_bytes
from pgwire_gateway.spark.internals.streams import begin

pytestmark = pytest.mark.spark

LONG = 30_000
"""Bytes of a value."""
ROWS = 25_000
"""More of these than the JVM of the tests has memory for, in two parts."""

WIDE = f"SELECT id AS o1, repeat('x', {LONG}) AS o2, NULL AS o3 FROM range(0, {ROWS}, 1, 2)"
SKEWED = (
    f"SELECT id AS o1, repeat('x', IF(id < 20000, 1, {4 * LONG})) AS o2 FROM range(0, {ROWS}, 1, 1)"
)
"""The long rows come after many that are short."""


@pytest.mark.parametrize("sql", [WIDE, SKEWED], ids=["wide", "skewed"])
@pytest.mark.parametrize(
    "delivery",
    [
        Delivery(50_000, collected=False, part_rows=100_000),
        Delivery(50_000, collected=False, part_rows=100_000, may_be_few=True),
        Delivery(50_000, collected=False, part_rows=100_000, may_multiply=True),
        Delivery(50_000, collected=False, part_rows=10, may_exceed_part=True),
    ],
    ids=["stream", "few", "multiplied", "exceeding"],
)
def test_batches_are_of_bounded_size_however_long_rows_are(
    spark_engine: SparkEngine, sql: str, delivery: Delivery
) -> None:
    session = spark_engine.sessions().of_kind(SessionKind.LARGE)
    session.enter("test")
    rows = session.query(sql).rows(delivery, enter=lambda: session.enter("test"))
    numbers: list[int] = []
    for batch in rows:
        assert batch.nbytes <= 2 * SLICE_BYTES or batch.num_rows == 1
        assert batch.schema == rows.schema
        assert set(batch.column(1).slice(0, 1).to_pylist()[0]) == {"x"}
        numbers += batch.column(0).to_pylist()
    assert numbers == list(range(ROWS))


@pytest.mark.parametrize(("largest", "computed_again"), [(200_000, None), (4_000_000, 30)])
def test_parts_that_have_much_together_are_computed_again_only_where_one_has(
    spark_engine: SparkEngine,
    monkeypatch: pytest.MonkeyPatch,
    largest: int,
    computed_again: int | None,
) -> None:
    stored: list[int] = []
    after = StoredParts.after

    def noted(parts: StoredParts, first: int) -> Iterator[pa.RecordBatch]:
        stored.append(first)
        return after(parts, first)

    monkeypatch.setattr(StoredParts, "after", noted)
    session = spark_engine.sessions().of_kind(SessionKind.LARGE)
    session.enter("test")
    # Parts have ten rows; the first two have little, and so those after them are read together.
    length = f"CASE WHEN id < 20 THEN 1 WHEN id DIV 10 = 30 THEN {largest} ELSE 200000 END"
    query = f"SELECT id AS o1, repeat('x', CAST({length} AS INT)) AS o2 FROM range(0, 400, 1, 40)"
    delivery = Delivery(50_000, collected=False, part_rows=100_000, may_be_few=True)
    rows = session.query(query).rows(delivery, enter=lambda: session.enter("test"))
    numbers = [number for batch in rows for number in batch.column(0).to_pylist()]
    assert numbers == list(range(400))
    assert stored == ([] if computed_again is None else [computed_again])


VALUES = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "s": pa.array(["é" * 70, None, ""]),
        "b": pa.array([b"x" * 99, b"", None]),
        "a": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "t": pa.array([["x" * 50, None], [], None], pa.list_(pa.string())),
        "r": pa.array([{"x": 1, "y": "z" * 40}, None, {"x": None, "y": None}]),
    }
)
DDL = "i INT, s STRING, b BINARY, a ARRAY<BIGINT>, t ARRAY<STRING>, r STRUCT<x: BIGINT, y: STRING>"


@pytest.mark.parametrize("kind", list(SessionKind))
@pytest.mark.parametrize(("most", "expected"), [(0, 1), (356, 1), (357, 2), (368, 2), (369, 3)])
def test_a_part_is_computed_as_far_as_the_row_that_exceeds_a_bound(
    spark_engine: SparkEngine, kind: SessionKind, most: int, expected: int
) -> None:
    session = spark_engine.sessions().of_kind(kind)
    session.enter("test")
    frame = session.local(VALUES, DDL).coalesce(1)
    java, schema = frame._java, arrow_schema(frame.schema())
    rows = PlannedRows.of(spark_engine.driver.machine, java, schema)
    (part,) = begin(rows.bounded(PartBound(most)).batches(), schema, 9)
    assert part.num_rows == expected


def test_what_rows_are_said_to_have_is_no_more_than_arrow_has(spark_engine: SparkEngine) -> None:
    session = spark_engine.sessions().small
    session.enter("test")
    frame = session.local(VALUES, DDL).coalesce(1)
    size = row_bytes(arrow_schema(frame.schema()))
    (total,) = frame.select([f"sum({size}) AS o1"]).first()
    (batch,) = frame.rows(Delivery(100))
    assert batch.nbytes // 2 < total <= batch.nbytes
