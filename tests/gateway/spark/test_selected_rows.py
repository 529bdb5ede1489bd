"""Selections answered from files: the rows Spark would give, whatever is newer, and its errors."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import GatewayError
from catalog.model import SegmentKind
from pgwire_gateway.spark import selected_rows
from pgwire_gateway.spark.executor import Batches, Executor, RunningStatement
from rewrite.results import Selection, Source, SourcePart, SparkQuery
from rewrite.row_expressions import Constant, Expression, Operation, Operator, Stored
from tests.support.fix_spark import NAME, Journal

pytestmark = pytest.mark.spark

BASE = [(number, f"row {number}") for number in range(1, 4001)]
ID, TEXT = Stored("c1"), Stored("c2")
WHOLE = {"o1": ID, "o2": TEXT}


def number(value: int) -> Constant:
    return Constant(value, "INT")


def comparing(operator: Operator, value: int) -> Operation:
    return Operation(operator, (ID, number(value)))


def run(
    journal: Journal,
    condition: Expression | None = None,
    columns: Mapping[str, Expression] = WHOLE,
    *,
    sql: str = "SELECT 'spark' AS o1",
    statement: RunningStatement | None = None,
    executor: Executor | None = None,
    **options: Any,
) -> Batches:
    """Run a selection; where Spark runs it, the rows are those of another query."""
    snapshot = journal.snapshot()
    base = Source(journal.relid, SourcePart.BASE, f"global_temp.b{snapshot.state}")
    recent = Source(journal.relid, SourcePart.RECENT, f"global_temp.r{snapshot.state}")
    sources = [base] if snapshot.segments else []
    sources += [recent] if snapshot.tail_rows else []
    selection = Selection(
        base if snapshot.segments else None,
        recent if snapshot.tail_rows else None,
        ("c1",) if journal.key else ("row_identity",),
        columns,
        condition,
        **options,
    )
    query = SparkQuery(sql, (), tuple(sources), None, len(BASE), selection=selection)
    return (executor or Executor(journal.relations)).run(
        query,
        relations=[journal.relation(source, snapshot) for source in sources],
        sessions=journal.engine.sessions(),
        statement=statement or RunningStatement(),
    )


def fetch(*arguments: Any, **options: Any) -> list[tuple[Any, ...]]:
    batches = run(*arguments, **options)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


BY_SPARK = [("spark",)]


def test_rows_of_all_segments_that_satisfy_the_condition(journal: Journal) -> None:
    journal.write(journal.rows(*BASE[:2500]), kind=SegmentKind.BASE)
    journal.write(journal.rows(*BASE[2500:]), kind=SegmentKind.BASE)
    journal.write(journal.rows((9000, "archived")), kind=SegmentKind.ARCHIVE)
    rest = Operation(Operator.REMAINDER, (ID, number(1000)))
    found = fetch(journal, Operation(Operator.EQUAL, (rest, number(7))))
    assert found == [row for row in BASE if row[0] % 1000 == 7]
    assert fetch(journal) == BASE


def test_newer_versions_replace_rows_and_tombstones_remove_them(journal: Journal) -> None:
    journal.write(journal.rows(*BASE), kind=SegmentKind.BASE)
    journal.append(journal.rows((2, "new"), (3, None, 5), (5000, "added"), version=5))
    assert fetch(journal, comparing(Operator.LESS, 5)) == [(1, "row 1"), (4, "row 4"), (2, "new")]
    assert fetch(journal, comparing(Operator.GREATER, 4000)) == [(5000, "added")]


def test_rows_without_key_are_told_apart_by_their_identity(journal: Journal) -> None:
    journal.key = ()
    journal.write(journal.rows((1, "a", 10), (1, "a", 11)), kind=SegmentKind.BASE)
    journal.append(journal.rows((1, "b", 11), version=5))
    assert fetch(journal, comparing(Operator.EQUAL, 1)) == [(1, "a"), (1, "b")]


def test_limit_and_offset(journal: Journal) -> None:
    journal.write(journal.rows(*BASE), kind=SegmentKind.BASE)
    found = fetch(journal, comparing(Operator.GREATER, 10), limit=3, offset=2)
    assert found == BASE[12:15]


def test_a_row_that_is_an_error_sends_the_query_to_spark(journal: Journal) -> None:
    journal.write(journal.rows(*BASE, (2**31 - 1, "last")), kind=SegmentKind.BASE)
    more = {"o1": Operation(Operator.ADD, (ID, number(1)))}
    assert fetch(journal, columns=more) == BY_SPARK
    few = fetch(journal, comparing(Operator.LESS, 3), columns=more)
    assert few == [(2,), (3,)]
    failing = Operation(
        Operator.CASE, (comparing(Operator.GREATER, 3), Operation(Operator.FAIL, ()), ID)
    )
    assert fetch(journal, comparing(Operator.LESS, 3), columns={"o1": failing}) == [(1,), (2,)]
    assert fetch(journal, comparing(Operator.LESS, 5), columns={"o1": failing}) == BY_SPARK


def test_results_that_can_fail_are_held_up_to_a_size(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.write(journal.rows(*BASE), kind=SegmentKind.BASE)
    monkeypatch.setattr(selected_rows, "HELD_BYTES", 100)
    more = {"o1": Operation(Operator.ADD, (ID, number(1)))}
    assert fetch(journal, columns=more) == BY_SPARK
    assert fetch(journal) == BASE


@pytest.mark.parametrize("limit", ["MOST_ROWS", "MOST_SEGMENTS", "MOST_ROW_BYTES"])
def test_many_rows_segments_and_large_rows_are_read_by_spark(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    journal.write(journal.rows(*BASE[:5]), kind=SegmentKind.BASE)
    journal.write(journal.rows(*BASE[5:9]), kind=SegmentKind.BASE)
    assert fetch(journal) == BASE[:9]
    monkeypatch.setattr(selected_rows, limit, 1)
    assert fetch(journal) == BY_SPARK


def test_a_column_that_is_not_in_the_files_is_left_to_spark(journal: Journal) -> None:
    journal.columns = journal.columns[:1]
    journal.write(journal.rows((1,)), kind=SegmentKind.BASE)
    journal.columns = (*journal.columns, NAME)
    assert fetch(journal) == BY_SPARK


def test_a_column_of_another_type_now_is_left_to_spark(journal: Journal) -> None:
    journal.write(journal.rows(*BASE[:2]), kind=SegmentKind.BASE)
    journal.columns = (journal.columns[0], replace(NAME, storage_name="name_2"))
    assert fetch(journal) == BY_SPARK
    assert fetch(journal, columns={"o1": ID}) == [(1,), (2,)]


def test_a_cancelled_statement_ends(journal: Journal) -> None:
    journal.write(journal.rows(*BASE), kind=SegmentKind.BASE)
    statement = RunningStatement()
    batches = run(journal, statement=statement)
    statement.cancel()
    with pytest.raises(GatewayError) as caught:
        list(batches)
    assert caught.value.sqlstate == "57014"


@pytest.mark.parametrize("is_known", [False, True])
def test_a_missing_file_is_an_error(journal: Journal, is_known: bool) -> None:
    segment = journal.write(journal.rows(*BASE), kind=SegmentKind.BASE)
    assert segment is not None
    executor = Executor(journal.relations)
    if is_known:
        fetch(journal, executor=executor)
    journal.relations.warehouse.remove(segment.path)
    with pytest.raises(GatewayError) as caught:
        fetch(journal, executor=executor)
    assert caught.value.sqlstate == "58P01"


def test_a_damaged_file_is_an_error(journal: Journal) -> None:
    segment = journal.write(journal.rows(*BASE), kind=SegmentKind.BASE)
    assert segment is not None
    (file,) = journal.relations.warehouse.files(journal.relations.warehouse.absolute(segment.path))
    data = bytearray(file.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    file.write_bytes(data)
    with pytest.raises(GatewayError) as caught:
        fetch(journal)
    assert caught.value.sqlstate == "58030"


def test_the_result_has_its_types_without_a_row(journal: Journal) -> None:
    journal.write(journal.rows(*BASE), kind=SegmentKind.BASE)
    batches = run(journal, comparing(Operator.LESS, 0))
    assert [str(kind) for kind in batches.schema.types] == ["int32", "string"]
    assert list(batches) == []


def test_snapshots_with_deltas_are_left_to_spark(journal: Journal) -> None:
    journal.write(journal.rows(*BASE[:9]), kind=SegmentKind.BASE)
    journal.write(journal.rows((1, "newer"), version=7), kind=SegmentKind.DELTA)
    journal.append(journal.rows((2, "newest"), version=9))
    assert fetch(journal) == BY_SPARK
