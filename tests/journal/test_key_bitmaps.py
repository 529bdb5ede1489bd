"""Bitmaps have a bit for each key, and conditions on them hold for all other integers."""

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.journal.key_bitmap import MOST_WORDS, ORIGIN_STEP, WORD_BITS, WORDS, KeyRange
from pgwire_gateway.spark.api import Delivery
from pgwire_gateway.spark.settings import SessionKind
from pgwire_gateway.wire_types.key_bitmaps import KeyBitmap, key_bitmap
from rewrite.journal.versions import has_no_bit
from rewrite.query.sql import column, named, select, view
from tests.support.fix_spark import Journal

LOWEST, GREATEST = -(1 << 63), (1 << 63) - 1
BITS = MOST_WORDS * WORD_BITS

close = st.integers(LOWEST, GREATEST).flatmap(
    lambda first: st.sets(st.integers(first, min(first + 3000, GREATEST)), min_size=1)
)


def of(keys: Iterable[int], kind: pa.DataType | None = None) -> KeyBitmap | None:
    return key_bitmap(pa.table({"c1": pa.array(list(keys), kind or pa.int64())}), ["c1"])


def members(bitmap: KeyBitmap) -> set[int]:
    (words,) = bitmap.relation.column(WORDS).to_pylist()
    return {
        bitmap.range.origin + place * WORD_BITS + bit
        for place, word in enumerate(words)
        if word
        for bit in range(WORD_BITS)
        if word >> bit & 1
    }


@given(keys=close)
def test_bits_are_set_for_the_keys_and_no_others(keys: set[int]) -> None:
    bitmap = of(keys)
    assert bitmap is not None
    assert members(bitmap) == keys


@given(lowest=st.integers(LOWEST, GREATEST), length=st.integers(0, 2 * BITS))
def test_a_range_has_all_keys_or_there_is_none(lowest: int, length: int) -> None:
    span = KeyRange.of(lowest, lowest + length)
    if span is not None:
        assert span.origin <= lowest <= lowest + length <= span.last
        assert span.origin % ORIGIN_STEP == 0
    else:
        assert length >= BITS - ORIGIN_STEP


def test_equal_keys_have_one_bit() -> None:
    bitmap = of([7, 7, 70, 7])
    assert bitmap is not None
    assert members(bitmap) == {7, 70}


@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.int64()])
def test_integers_of_all_sizes_have_bitmaps(kind: pa.DataType) -> None:
    bitmap = of([-32_768, -1, 0, 32_767], kind)
    assert bitmap is not None
    assert members(bitmap) == {-32_768, -1, 0, 32_767}


def test_other_keys_have_none() -> None:
    rows = pa.table({"a": [1], "b": [2], "c": ["1"], "d": [1.0]})
    for names in (["a", "b"], ["c"], ["d"]):
        assert key_bitmap(rows, names) is None
    assert of([LOWEST, GREATEST]) is None


EDGES = sorted(
    {
        one + step
        for one in (LOWEST, -ORIGIN_STEP, -64, 0, 64, 4096, ORIGIN_STEP, BITS, GREATEST)
        for step in (-65, -64, -63, -1, 0, 1, 63, 64, 65)
        if LOWEST <= one + step <= GREATEST
    }
)


@pytest.mark.spark
@pytest.mark.parametrize("kind", SessionKind)
@pytest.mark.parametrize(
    "keys",
    [
        [0, 63, 64, 4096],
        [-65, -64, -1, 0, 1],
        [GREATEST, GREATEST - 64],
        [LOWEST, LOWEST + 63],
        [BITS - 1, ORIGIN_STEP - 1],
    ],
    ids=str,
)
def test_spark_finds_what_has_no_bit(journal: Journal, kind: SessionKind, keys: list[int]) -> None:
    bitmap = of(keys)
    assert bitmap is not None
    session = journal.engine.sessions().of_kind(kind)
    session.local(pa.table({"k": EDGES}), "k BIGINT").register("edges")
    session.local(bitmap.relation, f"{WORDS} ARRAY<BIGINT>").register("bits")
    words = select([column(WORDS)], view("global_temp.bits", "b"))
    condition = has_no_bit(column("k", "e"), words, bitmap.range)
    query = select([named(condition, "free"), column("k", "e")], view("global_temp.edges", "e"))
    rows = session.query(query.sql("spark")).rows(Delivery(1000))
    found = {row["k"] for batch in rows for row in batch.to_pylist() if not row["free"]}
    assert found == set(keys)
