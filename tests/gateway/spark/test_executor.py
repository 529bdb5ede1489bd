"""Queries on Spark: small ones collected, large ones streamed, all of them cancellable."""

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import SegmentKind
from pgwire_gateway.spark.engine import SessionKind
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.spark.result_plans import plan_result, session_kind
from rewrite.results import Cut, SourcePart, SparkQuery
from tests.support.fix_spark import Journal
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.spark

LARGE = {"input_rows": 10_000_000}
SLOW = "SELECT SUM(a.id * b.id) AS o1 FROM range(1000000) AS a CROSS JOIN range(1000000) AS b"
"""Takes hours."""


@pytest.fixture
def many(journal: Journal) -> Journal:
    """A journal with a base of 300,000 rows in several parts."""
    ids = pa.array(range(300_000), pa.int32())
    names = pa.array([f"name {number % 1000}" for number in range(300_000)])
    rows = pa.record_batch(
        {
            "c1": ids,
            "c2": names,
            "version_number": pa.array([1] * len(ids), pa.timestamp("us", tz="UTC")),
            "subsequent_version_number": pa.nulls(len(ids), pa.timestamp("us", tz="UTC")),
        }
    )
    journal.write(rows, kind=SegmentKind.BASE)
    return journal


def test_a_point_read_returns_its_row(many: Journal) -> None:
    found = many.fetch(
        "SELECT t.c1 AS o1, t.c2 AS o2 FROM $ AS t WHERE t.c1 = 123456",
        SourcePart.BASE,
        row_bound=1,
        input_rows=300_000,
    )
    assert found == [(123456, "name 456")]


def test_an_empty_result_has_its_schema(many: Journal) -> None:
    result = many.run("SELECT t.c1 AS o1 FROM $ AS t WHERE t.c1 < 0", SourcePart.BASE).read_all()
    assert result.schema == pa.schema([pa.field("o1", pa.int32())])
    assert result.num_rows == 0


def test_a_streamed_result_is_complete_and_in_order(many: Journal) -> None:
    batches = many.run(
        "SELECT t.c1 AS o1, t.c2 AS o2 FROM $ AS t ORDER BY t.c1 DESC", SourcePart.BASE, **LARGE
    )
    ids = [value for batch in batches for value in batch.column(0).to_pylist()]
    assert ids == list(range(299_999, -1, -1))


def test_batches_of_a_stream_are_bounded(many: Journal) -> None:
    batches = list(many.run("SELECT t.c1 AS o1 FROM $ AS t", SourcePart.BASE, **LARGE))
    assert len(batches) > 3
    assert max(batch.num_rows for batch in batches) <= 50_000


def test_the_parts_of_a_stream_are_bounded(many: Journal) -> None:
    with many.run(
        "SELECT spark_partition_id() AS o1 FROM $ AS t", SourcePart.BASE, **LARGE
    ) as rows:
        parts = pa.Table.from_batches(list(rows)).column(0).unique()
    assert len(parts) > 1


PARTS = "FROM range(0, 1200000, 1, 40) AS r WHERE"
"""Rows in forty parts."""


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("r.id % 100000 = 7", list(range(7, 1_200_000, 100_000))),
        ("r.id = 1199999", [1_199_999]),
        ("r.id < 0", []),
        # Nothing in the first parts, much in later ones; then much in all.
        ("r.id >= 900000", list(range(900_000, 1_200_000))),
        ("r.id % 3 > 0", [number for number in range(1_200_000) if number % 3]),
    ],
)
def test_what_conditions_leave_comes_in_order(
    many: Journal, condition: str, expected: list[int]
) -> None:
    sql = f"SELECT r.id AS o1 {PARTS} {condition}"
    found = many.run(sql, filters=True, **LARGE).read_all()
    assert found.column("o1").to_pylist() == expected


def test_few_rows_of_many_parts_take_few_jobs(many: Journal) -> None:
    jobs = []
    for filters in (True, False):
        before = _last_job(many)
        many.run(f"SELECT r.id AS o1 {PARTS} r.id = 1199999", filters=filters, **LARGE).read_all()
        jobs.append(_last_job(many) - before)
    assert jobs[0] < 6
    assert jobs[1] >= 40


def test_jobs_of_later_parts_belong_to_their_statement(many: Journal) -> None:
    statement = RunningStatement()
    slow = "SHA2(REPEAT(CAST(r.id AS STRING), 3000000), 256) > ''"
    batches = many.run(
        f"SELECT r.id AS o1 {PARTS} r.id % 100 = 0 AND (r.id < 600000 OR {slow})",
        filters=True,
        statement=statement,
        **LARGE,
    )
    rest = iter(batches)
    next(rest)
    many.fetch("SELECT COUNT(*) AS o1 FROM $", SourcePart.BASE)
    threading.Timer(0.3, statement.cancel).start()
    began = time.monotonic()
    with pytest.raises(QueryCanceledError):
        list(rest)
    # What is left would take minutes.
    assert time.monotonic() - began < PATIENCE_S


def test_a_large_limit_is_streamed_in_parts(many: Journal) -> None:
    result = many.run(
        "SELECT t.c1 AS o1 FROM $ AS t ORDER BY t.c2, t.c1",
        SourcePart.BASE,
        works_on_all=True,
        sorts=True,
        limit=(250_000, 0),
        row_bound=250_000,
        input_rows=10_000_000,
    ).read_all()
    expected = sorted(range(300_000), key=lambda number: (f"name {number % 1000}", number))
    assert result.column(0).to_pylist() == expected[:250_000]


def test_a_limit_without_order_reads_no_more_than_it_needs(many: Journal) -> None:
    options = {"limit": (5000, 100), "row_bound": 5000, "input_rows": 10_000_000}
    found = many.run("SELECT t.c1 AS o1 FROM $ AS t", SourcePart.BASE, **options).read_all()
    assert found.num_rows == 5000
    assert len(found.column(0).unique()) == 5000
    assert wait_until(lambda: not _active_jobs(many))


def test_an_offset_beyond_the_result_leaves_nothing(many: Journal) -> None:
    options = {"limit": (5000, 400_000), "row_bound": 5000, "input_rows": 10_000_000}
    assert many.fetch("SELECT t.c1 AS o1 FROM $ AS t", SourcePart.BASE, **options) == []


def test_a_large_result_of_one_part_comes_in_its_order(many: Journal) -> None:
    sql = "SELECT ROW_NUMBER() OVER (ORDER BY t.c2, t.c1) AS o1, t.c1 AS o2 FROM $ AS t"
    found = many.run(sql, SourcePart.BASE, **LARGE).read_all()
    assert found.schema.names == ["o1", "o2"]
    assert found.column(0).to_pylist() == list(range(1, 300_001))


PRODUCT = "FROM range(0, 3, 1, 3) AS r LATERAL VIEW EXPLODE(SEQUENCE(1, {})) e AS n"
"""Rows of three parts, each multiplied."""

MANY_ROWS = 1_100_000
"""More than a part may have in memory, whatever its width."""


@pytest.mark.parametrize("filters", [False, True])
@pytest.mark.parametrize("others", [MANY_ROWS, 2])
def test_parts_with_many_rows_are_read_from_files(
    journal: Journal, others: int, *, filters: bool
) -> None:
    sql = f"SELECT r.id AS o1, e.n AS o2 {PRODUCT.format(f'IF(r.id = 1, {MANY_ROWS}, {others})')}"
    stored, found = set(), []
    with journal.run(sql, row_bound=None, input_rows=3_000_000, filters=filters) as batches:
        for batch in batches:
            stored |= {path.name for path in _stored(journal)}
            found.append(batch)
    table = pa.Table.from_batches(found).combine_chunks()
    sizes = [others, MANY_ROWS, others]
    parts = pa.concat_arrays([pa.repeat(part, size) for part, size in enumerate(sizes)])
    assert table.column("o1").combine_chunks().equals(parts)
    numbers = pa.concat_arrays([pa.array(range(1, size + 1), pa.int32()) for size in sizes])
    assert table.column("o2").combine_chunks().equals(numbers)
    assert stored
    assert not _stored(journal)


def test_a_part_with_many_rows_may_be_left_early(journal: Journal) -> None:
    sql = f"SELECT e.n AS o1 {PRODUCT.format(MANY_ROWS)}"
    batches = journal.run(sql, row_bound=None, input_rows=3_000_000)
    next(batches)
    assert _stored(journal)
    batches.close()
    assert not _stored(journal)


def test_a_limit_of_a_part_with_many_rows_needs_no_files(journal: Journal) -> None:
    sql = "SELECT e.id AS o1 FROM range(0, 3, 1, 3) AS r CROSS JOIN range(2000000000) AS e"
    options = {"limit": (5000, 100), "row_bound": 5000, "input_rows": 1000}
    found = []
    for batch in journal.run(sql, **options):
        assert not _stored(journal)
        found += batch.column(0).to_pylist()
    assert found == list(range(100, 5100))


def test_few_rows_of_a_bound_far_off_are_limited(journal: Journal) -> None:
    sql = "SELECT id AS o1 FROM range(0, 1000, 1, 1)"
    limit = (1_000_000, 7)
    found = journal.run(sql, row_bound=1_000_000, limit=limit, **LARGE).read_all()
    assert found.column(0).to_pylist() == list(range(7, 1000))


def test_a_bound_far_off_takes_no_more_jobs(many: Journal) -> None:
    scheduler = many.engine.driver.machine.context.dagScheduler()
    before = scheduler.numTotalJobs()
    found = many.run(
        "SELECT t.c2 AS o1, COUNT(1) AS o2 FROM $ AS t GROUP BY t.c2 ORDER BY t.c2",
        SourcePart.BASE,
        row_bound=10**10,
        input_rows=10_000_000,
    ).read_all()
    assert found.column(1).to_pylist() == [300] * 1000
    assert scheduler.numTotalJobs() - before < 10


def _stored(journal: Journal) -> list[Path]:
    return list(journal.engine.driver.machine.scratch.glob("parts-*"))


def test_a_stream_may_be_left_early(many: Journal) -> None:
    batches = many.run("SELECT t.c1 AS o1 FROM $ AS t", SourcePart.BASE, **LARGE)
    next(batches)
    batches.close()
    assert list(batches) == []
    assert wait_until(lambda: not _active_jobs(many))


def test_a_running_statement_is_cancelled(journal: Journal) -> None:
    statement = RunningStatement()
    timer = threading.Timer(1.0, statement.cancel)
    timer.start()
    start = time.monotonic()
    with pytest.raises(QueryCanceledError) as caught:
        journal.run(SLOW, statement=statement, row_bound=1, input_rows=10_000_000)
    assert time.monotonic() - start < PATIENCE_S
    assert caught.value.sqlstate == "57014"
    assert caught.value.message == "canceling statement due to user request"
    assert wait_until(lambda: not _active_jobs(journal))


def test_a_stream_is_cancelled_between_batches(many: Journal) -> None:
    statement = RunningStatement()
    batches = many.run(
        "SELECT t.c1 AS o1 FROM $ AS t", SourcePart.BASE, statement=statement, **LARGE
    )
    next(batches)
    statement.cancel("canceling statement due to statement timeout")
    with pytest.raises(QueryCanceledError, match="statement timeout"):
        list(batches)


def test_a_statement_cancelled_before_it_starts_does_not_start(journal: Journal) -> None:
    statement = RunningStatement()
    statement.cancel()
    with pytest.raises(QueryCanceledError):
        journal.run("SELECT 1 AS o1", statement=statement)


def test_cancelling_a_finished_statement_does_nothing(journal: Journal) -> None:
    statement = RunningStatement()
    assert journal.fetch("SELECT 1 AS o1", statement=statement) == [(1,)]
    statement.cancel()
    assert journal.fetch("SELECT 2 AS o1") == [(2,)]


@pytest.mark.parametrize("input_rows", [1, 10_000_000])
def test_an_error_of_an_expression_keeps_its_meaning(journal: Journal, input_rows: int) -> None:
    with pytest.raises(GatewayError) as caught:
        journal.run("SELECT 1 / (id - 5) AS o1 FROM range(10)", input_rows=input_rows).read_all()
    assert (caught.value.sqlstate, caught.value.message) == ("22012", "division by zero")


def test_sessions_keep_to_utc(journal: Journal) -> None:
    sql = "SELECT CAST(TIMESTAMP '2024-07-01 12:00:00+00:00' AS STRING) AS o1"
    assert journal.fetch(sql) == [("2024-07-01 12:00:00",)]


def test_tasks_obey_the_sessions_settings(journal: Journal) -> None:
    sql = "SELECT CAST(concat('2024-07-0', id, ' 12:00') AS TIMESTAMP) AS o1 FROM range(1, 2)"
    for input_rows in (1, 10_000_000):
        (row,) = journal.fetch(sql, input_rows=input_rows)
        assert row[0].isoformat() == "2024-07-01T12:00:00+00:00"


def _query(row_bound: int | None, input_rows: int, **traits) -> SparkQuery:
    return SparkQuery("SELECT", (), (), row_bound, input_rows, **traits)


@pytest.mark.parametrize(
    ("works_on_all", "row_bound", "input_rows", "kind"),
    [
        (True, 1, 1000, SessionKind.SMALL),
        (True, 1, 1_000_000, SessionKind.LARGE),
        (False, 1, 1_000_000, SessionKind.SMALL),
        (False, None, 1_000_000, SessionKind.LARGE),
    ],
)
def test_what_reads_little_is_small(
    works_on_all: bool, row_bound: int | None, input_rows: int, kind: SessionKind
) -> None:
    query = _query(row_bound, input_rows, works_on_all=works_on_all)
    assert session_kind(query, 100) is kind


def test_the_outermost_limit_is_the_readers() -> None:
    cut = Cut("SELECT c1 FROM t", 30_000, 7)
    plan = plan_result(_query(30_000, 1_000_000, cut=cut), 10)
    assert (plan.sql, plan.limit, plan.offset) == ("SELECT c1 FROM t", 30_000, 7)
    assert plan.delivery.most_rows == 30_007
    sorted_by_spark = _query(30_000, 1_000_000, cut=cut, sorts=True, works_on_all=True)
    assert plan_result(sorted_by_spark, 10).limit is None
    assert plan_result(_query(None, 1_000_000), 10).limit is None


def test_a_result_may_be_few_where_nothing_works_on_all_rows() -> None:
    def may_be_few(**traits) -> bool:
        return plan_result(_query(None, 10_000_000, **traits), 10).delivery.may_be_few

    assert may_be_few(filters=True)
    assert not may_be_few()
    assert not may_be_few(filters=True, works_on_all=True)


def _last_job(journal: Journal) -> int:
    """Return the number of a job that is begun now."""
    context = journal.engine.driver.machine.context
    return int(context.dagScheduler().nextJobId())


def _active_jobs(journal: Journal) -> list[int]:
    return list(journal.engine.driver.machine.context.statusTracker().getActiveJobIds())
