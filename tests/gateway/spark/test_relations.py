"""Views over the parts of a journal, whatever wrote them and however old they are."""

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import Column, SegmentKind
from pgwire_gateway.spark import frames
from pgwire_gateway.spark.api import Delivery
from pgwire_gateway.spark.engine import SessionKind
from pgwire_gateway.spark.internals import session as sessions
from pgwire_gateway.spark.relations import MAX_STATES, Relation, substitute
from rewrite.results import Source, SourcePart
from tests.support.fix_spark import Journal

ROWS = "SELECT t.c1, t.c2 FROM $ AS t ORDER BY 1, 2"


@pytest.mark.spark
def test_each_part_shows_its_own_rows(journal: Journal) -> None:
    journal.write(journal.rows((1, "base")), kind=SegmentKind.BASE)
    journal.write(journal.rows((2, "delta")))
    journal.write(journal.rows((3, "archive")), kind=SegmentKind.ARCHIVE)
    journal.append(journal.rows((4, "tail")))
    assert journal.fetch(ROWS, SourcePart.BASE) == [(1, "base")]
    assert journal.fetch(ROWS, SourcePart.RECENT) == [(2, "delta"), (4, "tail")]
    everything = [(1, "base"), (2, "delta"), (3, "archive"), (4, "tail")]
    assert journal.fetch(ROWS, SourcePart.JOURNAL) == everything


@pytest.mark.spark
def test_a_journal_without_rows_is_empty(journal: Journal) -> None:
    assert journal.fetch(ROWS, SourcePart.JOURNAL) == []


@pytest.mark.spark
def test_large_and_small_statements_see_the_same(journal: Journal) -> None:
    journal.write(journal.rows((1, "a"), (2, "b")))
    journal.append(journal.rows((3, None)))
    small = journal.fetch(ROWS)
    assert journal.fetch(ROWS, input_rows=10_000_000) == small == [(1, "a"), (2, "b"), (3, None)]


@pytest.mark.spark
def test_a_new_state_of_the_tail_is_seen_and_an_old_one_remains(journal: Journal) -> None:
    journal.append(journal.rows((1, "a")))
    before = journal.snapshot()
    assert journal.fetch(ROWS, snapshot=before) == [(1, "a")]
    journal.append(journal.rows((2, "b")))
    assert journal.fetch(ROWS) == [(1, "a"), (2, "b")]
    assert journal.fetch(ROWS, snapshot=before) == [(1, "a")]


@pytest.mark.spark
def test_a_long_tail_grows(journal: Journal) -> None:
    journal.append(journal.rows(*((number, "x") for number in range(3000))))
    count = "SELECT COUNT(*) AS n, SUM(t.c1) AS s FROM $ AS t"
    assert journal.fetch(count) == [(3000, sum(range(3000)))]
    journal.append(journal.rows((10_000, "y")))
    assert journal.fetch(count) == [(3001, sum(range(3000)) + 10_000)]


@pytest.mark.spark
def test_many_states_leave_few_views(journal: Journal) -> None:
    before = _views(journal)
    for number in range(20):
        journal.append(journal.rows((number, "x")))
        journal.fetch(ROWS)
    assert 0 < len(_views(journal) - before) <= MAX_STATES + 1


def _views(journal: Journal) -> set[str]:
    session = journal.engine.sessions().small
    rows = session.query("SHOW VIEWS IN global_temp").rows(Delivery(100))
    return {name for batch in rows for name in batch.column(1).to_pylist()}


@pytest.mark.spark
def test_columns_added_later_have_their_missing_value(journal: Journal) -> None:
    journal.write(journal.rows((1, "a")))
    added = {
        Column(3, "flag", 16, -1, False, "flag", "t"): True,
        Column(4, "big", 20, -1, False, "big", "-5"): -5,
        Column(5, "nothing", 25, -1, False, "nothing"): None,
        Column(6, "quoted", 25, -1, False, "quoted", "it's \\ so"): "it's \\ so",
        Column(7, "price", 1700, ((10 << 16) | 2) + 4, False, "price", "1.50"): "1.50",
        Column(8, "exact", 1700, -1, False, "exact", "1.500"): "1.500",
        Column(9, "day", 1082, -1, False, "day", "2024-02-29"): "2024-02-29",
        Column(10, "at", 1184, -1, False, "at", "2024-02-29 12:00:00.5+00"): (
            "2024-02-29 12:00:00.5"
        ),
        Column(11, "clock", 1083, -1, False, "clock", "01:02:03.000004"): "3723000004",
        Column(12, "span", 1186, -1, False, "span", "1 year 2 mons -3 days 00:00:01"): (
            "{14, -3, 1000000}"
        ),
        Column(13, "raw", 17, -1, False, "raw", "\\x00ff"): "00FF",
        Column(14, "list", 1007, -1, False, "list", "{1,NULL,3}"): "[1, null, 3]",
    }
    journal.columns = (*journal.columns, *added)
    texts = {13: "hex(t.c13)"}
    select = ", ".join(
        texts.get(column.attnum, f"CAST(t.c{column.attnum} AS STRING)") for column in added
    )
    (row,) = journal.fetch(f"SELECT {select} FROM $ AS t")
    expected = [None if v is None else {True: "true"}.get(v, str(v)) for v in added.values()]
    assert list(row) == expected


@pytest.mark.spark
def test_a_renamed_and_a_dropped_column_stay_readable(journal: Journal) -> None:
    journal.write(journal.rows((1, "a")))
    (identity, name) = journal.columns
    journal.columns = (replace(identity, name="other"),)
    assert journal.fetch("SELECT * FROM $ AS t")[0][0] == 1
    journal.columns = (identity, name)
    assert journal.fetch(ROWS) == [(1, "a")]


@pytest.mark.spark
def test_names_that_differ_in_case_or_need_quotes(journal: Journal) -> None:
    journal.columns = (
        Column(1, "id", 23, -1, True, "id"),
        Column(2, "a.b `c` ü", 25, -1, False, "a.b `c` ü"),
    )
    journal.write(journal.rows((1, "x")))
    journal.append(journal.rows((2, "y")))
    assert journal.fetch(ROWS) == [(1, "x"), (2, "y")]


@pytest.mark.spark
def test_rows_without_key_have_their_identity(journal: Journal) -> None:
    journal.key = ()
    journal.write(journal.rows((1, "a", 10), (1, "a", 11)))
    journal.append(journal.rows((1, "a", -1)))
    found = journal.fetch("SELECT t.row_identity FROM $ AS t ORDER BY 1")
    assert found == [(-1,), (10,), (11,)]


@pytest.mark.spark
def test_a_long_tail_of_another_state_is_not_taken_for_its_prefix(journal: Journal) -> None:
    journal.append(journal.rows(*((number, "x") for number in range(2500))))
    journal.fetch(ROWS)
    journal.tail = pa.concat_tables([journal.tail.slice(1), journal.tail.slice(0, 1)])
    journal.append(journal.rows((9999, "new")))
    found = journal.fetch("SELECT COUNT(*), COUNT(DISTINCT t.c1) FROM $ AS t")
    assert found == [(2501, 2501)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM g.v1 AS t", "SELECT * FROM g.r AS t"),
        ("SELECT 'g.v1' FROM g.v1", "SELECT 'g.v1' FROM g.r"),
        ("SELECT 'it''s g.v1 \\' g.v1', \"g.v1\" FROM g.v1", None),
        ("SELECT * FROM g.v11, g.v1", "SELECT * FROM g.v11, g.r"),
    ],
)
def test_only_names_of_views_are_substituted(sql: str, expected: str | None) -> None:
    wanted = expected or "SELECT 'it''s g.v1 \\' g.v1', \"g.v1\" FROM g.r"
    assert substitute(sql, {"g.v1": "g.r"}) == wanted


def test_small_statements_join_without_broadcast() -> None:
    sql = "SELECT /*+ BROADCAST(k) */ '/*+ BROADCAST' FROM g.v1 AS b LEFT ANTI JOIN g.v2 AS k"
    assert substitute(sql, {}, SessionKind.LARGE) == sql
    assert substitute(sql, {}, SessionKind.SMALL) == sql.replace("BROADCAST(", "SHUFFLE_HASH(")


@pytest.mark.spark
def test_a_point_read_of_current_rows_is_one_task(journal: Journal) -> None:
    journal.write(journal.rows((1, "old"), (2, "b")), kind=SegmentKind.BASE)
    journal.append(journal.rows((1, "new"), version=2))
    snapshot = journal.snapshot()
    views = {
        part: Source(journal.relid, part, f"global_temp.{part.value}_{snapshot.state}")
        for part in (SourcePart.BASE, SourcePart.RECENT)
    }
    base, recent = (source.view for source in views.values())
    sql = f"""
        SELECT t.c2 AS o1 FROM (
          SELECT /*+ BROADCAST(k) */ b.c1, b.c2 FROM {base} AS b
          LEFT ANTI JOIN {recent} AS k ON b.c1 = k.c1
          UNION ALL
          SELECT v.c1, v.c2 FROM (
            SELECT r.c1, r.c2, r.subsequent_version_number, ROW_NUMBER() OVER (
              PARTITION BY r.c1 ORDER BY r.version_number DESC NULLS LAST) AS age
            FROM {recent} AS r) AS v
          WHERE v.age = 1 AND v.subsequent_version_number IS NULL) AS t
        WHERE t.c1 = 1"""
    engine = journal.engine
    relations = [Relation(source, snapshot, lambda: journal.tail) for source in views.values()]
    session = engine.sessions().small
    with journal.relations.lease(relations, session, SessionKind.SMALL) as names:
        text = substitute(sql, names, SessionKind.SMALL)
        frame = session.query(text)
        plan = session.explain(text).physical
    assert "Exchange" not in plan
    assert re.search(r"Filter.*\nInput.*\nCondition : \(isnotnull\(id", plan)
    assert frame.first() == ("new",)
    assert frame.count() == 1


@pytest.mark.spark
def test_rows_in_memory_are_passed_to_the_driver_in_parts(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(journal.rows(*((number, "x" * number) for number in range(100))))
    expected = journal.fetch(ROWS)
    monkeypatch.setattr(sessions, "_PASSED_BYTES", 100)
    journal.append(journal.rows((100, "y")))
    assert journal.fetch(ROWS) == [*expected, (100, "y")]


@pytest.mark.spark
def test_more_rows_in_memory_than_the_driver_can_hold_are_refused(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(journal.rows((1, "a")))
    monkeypatch.setattr(frames, "MOST_LOCAL_BYTES", 8)
    with pytest.raises(GatewayError, match="too many bytes for Spark") as caught:
        journal.fetch(ROWS)
    assert caught.value.sqlstate == "54000"
