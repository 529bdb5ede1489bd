"""How large rows of batches are taken to be, and that segments of too large ones are refused."""

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import Column, JournalTable
from pgwire_gateway.spark.row_sizes import bytes_at_least, require_sizes
from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.registry import arrow_type
from pgwire_gateway.wire_types.versions import VERSION_TYPE

MOST = 100_000

WORDS = re.compile(r"row is too big for a journaled table: size (\d+), maximum size 100000")


def table(*types: int) -> JournalTable:
    columns = tuple(
        Column(number, f"c{number}", oid, -1, False, f"c{number}")
        for number, oid in enumerate(types, 1)
    )
    return JournalTable(1, "", "t", columns, (1,), "t_pkey", 1, "5/1", row_bytes=MOST)


def batch(of: JournalTable, *rows: tuple[object, ...], tombstone: bool = False) -> pa.RecordBatch:
    data = {
        f"c{column.attnum}": pa.array(
            [row[place] for row in rows], arrow_type(column.type_oid, column.typmod)
        )
        for place, column in enumerate(of.columns)
    }
    data["version_number"] = pa.array([1] * len(rows), VERSION_TYPE)
    ends = 2 if tombstone else None
    data["subsequent_version_number"] = pa.array([ends] * len(rows), VERSION_TYPE)
    return pa.record_batch(data)


def refused(of: JournalTable, given: pa.RecordBatch) -> int | None:
    """Return the size that is told of a row that is refused."""
    try:
        require_sizes(of, given)
    except GatewayError as error:
        caught = error
    else:
        return None
    assert caught.sqlstate == "54000"
    told = WORDS.fullmatch(caught.message)
    assert told is not None
    return int(told[1])


@pytest.mark.parametrize(
    ("type_oid", "value", "size"),
    [
        (type_oids.TEXT, "x" * 101_000, 101_000),
        (type_oids.TEXT, "é" * 51_000, 102_000),
        (type_oids.BYTEA, b"x" * 51_000, 102_000),
        (type_oids.JSONB, '"' + "x" * 101_000 + '"', 101_002),
        (type_oids.NUMERIC, "1" * 101_000, 101_000),
        (1009, ["x" * 60_000, None, "y" * 50_000], 110_004),
        (1007, [1000] * 25_000, 125_001),
        (1000, [True] * 60_000, 120_001),
    ],
)
def test_values_count_as_text(type_oid: int, value: object, size: int) -> None:
    of = table(type_oids.INT4, type_oid)
    given = batch(of, (1, None), (2, value), (3, None))
    assert refused(of, given) == size + bytes_at_least(2)
    assert refused(of, given.slice(0, 1)) is None
    assert refused(of, given.slice(2)) is None
    assert refused(of, given.slice(1, 1)) == size + bytes_at_least(2)


def test_the_values_of_a_row_add_up() -> None:
    of = table(type_oids.TEXT, type_oids.BYTEA, type_oids.TEXT)
    fits = (MOST - bytes_at_least(3)) // 4
    row = ("x" * fits, b"x" * fits, "x" * fits)
    assert refused(of, batch(of, row, row, row)) is None
    longer = ("x" * (fits + 4), *row[1:])
    assert refused(of, batch(of, row, longer, row)) == bytes_at_least(3) + 4 * fits + 4


def test_tombstones_may_be_of_any_size() -> None:
    of = table(type_oids.TEXT)
    row = ("x" * 2 * MOST,)
    assert refused(of, batch(of, row)) is not None
    assert refused(of, batch(of, row, tombstone=True)) is None


def test_without_bound_rows_may_be_of_any_size() -> None:
    of = table(type_oids.TEXT)
    assert refused(replace(of, row_bytes=None), batch(of, ("x" * 2 * MOST,))) is None


def test_no_row_is_not_too_large() -> None:
    of = table(type_oids.TEXT)
    assert refused(of, batch(of)) is None
