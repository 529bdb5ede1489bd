"""Current rows and journals: base, deltas and tail in every combination give the table's rows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rewrite.results import SourcePart
from tests.support.rewrite_oracle import Oracle, assert_rows

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

TABLES = """
create table t (k int primary key, x int, s text, n numeric(8,2));
insert into t values (1, 10, 'a', 1.5), (2, 20, 'b', null), (3, 30, null, 3), (5, 50, 'e', 5);
create table free (x int, s text);
insert into free values (1, 'p'), (1, 'p'), (2, 'q');
create table pair (a int, b text, v int, primary key (a, b));
insert into pair values (1, 'x', 1), (1, 'y', 2), (2, 'x', 3);
create table empty (k int primary key, x numeric, c char(3), d date, i interval);
create table t_journal (k int, x int, s text, n numeric(8,2), version_number timestamptz,
  subsequent_version_number timestamptz);
"""

_AT = "timestamptz '2024-01-01' + interval '{} hours'"
_NONE = "null::timestamptz"


def versions(sql: str, hour: int, gone: str = _NONE, columns: str = "k, x, s, n") -> str:
    """Return rows as row versions of one moment."""
    at = _AT.format(hour)
    return (
        f"select q.*, {at} as version_number, {gone} as subsequent_version_number "
        f"from ({sql}) q ({columns})"
    )


def union(*parts: str) -> str:
    return " union all ".join(f"({part})" for part in parts)


# Row versions whose latest are the rows of t: 2 changed twice, 5 is new, 9 came and went, 4 went.
OLD = versions("select * from t where k in (1, 3)", 0)
STALE = versions("select 2, -1, 'old', -1.00::numeric(8,2) union all select 4, 4, 'd', 4", 0)
CHANGES = (
    versions("select 2, -2, 'older', 0.00::numeric(8,2)", 1),
    versions("select * from t where k in (2, 5)", 2),
    versions("select 4, 4, 'd', 4.00::numeric(8,2)", 3, _AT.format(3)),
    versions("select 9, 9, 'z', 9.00::numeric(8,2)", 3),
    versions("select 9, 9, 'z', 9.00::numeric(8,2)", 4, _AT.format(4)),
)
IDENTIFIED = "select row_number() over () as row_identity, f.* from free f"

LAYOUTS = {
    "base": {"t": {SourcePart.BASE: versions("table t", 0)}},
    "recent": {"t": {SourcePart.RECENT: union(OLD, STALE, *CHANGES)}},
    "both": {"t": {SourcePart.BASE: union(OLD, STALE), SourcePart.RECENT: union(*CHANGES)}},
}

QUERIES = (
    "select * from t",
    "select count(*) from t",
    "select x from t where k = 2",
    "select k from t where k in (2, 4, 5, 9)",
    "select s, sum(n) from t group by s",
    "select t1.k, t2.x from t t1 join t t2 on t1.k = t2.k - 1",
    "select k from t where exists (select 1 from t t2 where t2.k = t.k + 1)",
)


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


@pytest.fixture
def layout(oracle: Oracle, request: pytest.FixtureRequest) -> None:
    oracle.execute("select 1")
    oracle.parts = {oracle.relid(name): parts for name, parts in LAYOUTS[request.param].items()}
    yield
    oracle.parts = {}
    oracle.execute("select 1")


@pytest.mark.parametrize("layout", LAYOUTS, indirect=True)
@pytest.mark.parametrize("sql", QUERIES)
def test_any_layout_has_the_current_rows(oracle: Oracle, layout: None, sql: str) -> None:
    oracle.check(sql)


@pytest.mark.parametrize("layout", LAYOUTS, indirect=True)
@pytest.mark.parametrize(
    "sql",
    ["update t set x = x + 1 where k > 1 returning k, x", "delete from t where k in (2, 4)"],
)
def test_changes_see_the_current_rows(oracle: Oracle, layout: None, sql: str) -> None:
    oracle.check_change(sql)


@pytest.mark.parametrize("layout", ["recent", "both"], indirect=True)
def test_conditions_on_the_key_reach_all_row_versions(oracle: Oracle, layout: None) -> None:
    query = oracle.compile("select x from t where k between 2 and 4")
    for source in query.sources:
        oracle.register(source)
    plan = oracle.spark.sql(query.sql)._jdf.queryExecution().optimizedPlan().toString()
    window = plan[plan.index("Window ") :]
    assert "<= 4" in window
    assert "<= 4" not in plan[: plan.index("Window ")].rpartition("Filter")[2]


@pytest.mark.parametrize(
    ("condition", "is_shielded"),
    [
        ("x % 7 = 3", False),
        ("mod(x, -1) = 0", False),
        ("k::bigint % 3 = 0", False),
        ("x % 0 = 3", True),
        ("7 % x = 3", True),
        ("x % k = 0", True),
        ("(x + 1) % 7 = 3", True),
        ("x % null = 3", True),
    ],
)
@pytest.mark.parametrize("layout", ["both"], indirect=True)
def test_remainders_fail_for_no_row_where_the_divisor_is_some_number(
    oracle: Oracle, layout: None, condition: str, is_shielded: bool
) -> None:
    query = oracle.compile(f"select k from t where {condition}")
    assert ("LEFT JOIN" in query.sql) is is_shielded
    if "% 0" not in condition:
        oracle.check(f"select k from t where {condition}")


def test_table_without_key_is_told_apart_by_its_row_identity(oracle: Oracle) -> None:
    oracle.execute("select 1")
    at, gone = _AT.format(1), _AT.format(2)
    stamps = f"{at} as version_number, {_NONE} as subsequent_version_number"
    base = f"select f.*, {stamps} from ({IDENTIFIED}) f"
    recent = (
        f"select 7::bigint as row_identity, 7, 'new', {stamps}"
        f" union all select 7, 7, 'new', {gone}, {gone}"
    )
    columns = "x, s, version_number, subsequent_version_number, row_identity"
    oracle.parts = {
        oracle.relid("free"): {
            SourcePart.BASE: f"select {columns} from ({base}) q",
            SourcePart.RECENT: f"select {columns} from ({recent}) q "
            "(row_identity, x, s, version_number, subsequent_version_number)",
        }
    }
    try:
        oracle.check("select * from free")
        oracle.check("select x, count(*) from free group by x")
        oracle.check_change("update free set s = s || x where x = 1 returning *")
        oracle.check_change("delete from free where x = 2")
    finally:
        oracle.parts = {}
        oracle.execute("select 1")


def test_table_never_written_reads_nothing(oracle: Oracle) -> None:
    query = oracle.check("select k, x, c, d, i from empty")
    assert query.sources == ()
    assert query.row_bound == query.input_rows == 0
    oracle.check("select count(*), max(x) from empty")
    oracle.check("select t.k, empty.c from t left join empty using (k)")


def test_key_of_several_columns(oracle: Oracle) -> None:
    oracle.execute("select 1")
    oracle.parts = {
        oracle.relid("pair"): {
            SourcePart.BASE: versions("select * from pair where b = 'x'", 0, columns="a, b, v"),
            SourcePart.RECENT: versions("select * from pair where a = 1", 1, columns="a, b, v"),
        }
    }
    try:
        oracle.check("select * from pair")
        assert oracle.check("select v from pair where a = 1 and b = 'x'").row_bound == 1
        assert oracle.check("select v from pair where a = 1").row_bound != 1
    finally:
        oracle.parts = {}
        oracle.execute("select 1")


def test_journal_shows_every_row_version(oracle: Oracle) -> None:
    oracle.execute("truncate t_journal")
    everything = union(OLD, STALE, *CHANGES)
    oracle.execute(f"insert into t_journal {everything}")
    oracle.parts = {oracle.relid("t"): {SourcePart.JOURNAL: everything}}
    oracle.journals = {oracle.relid("t_journal"): oracle.relid("t")}
    try:
        query = oracle.check("select * from t_journal")
        assert [source.part for source in query.sources] == [SourcePart.JOURNAL]
        oracle.check(
            "select count(*) from t_journal j where j.subsequent_version_number is not null"
        )
        oracle.check("select k, max(version_number) from t_journal group by k")
        oracle.check(
            "select a.k from t_journal a where version_number = (select max(version_number) "
            "from t_journal b where a.k = b.k) and subsequent_version_number is null"
        )
    finally:
        oracle.parts, oracle.journals = {}, {}
        oracle.execute("select 1")


def test_view_of_the_base_survives_a_write_to_the_tail(oracle: Oracle) -> None:
    oracle.execute("select 1")
    oracle.parts = {oracle.relid("t"): LAYOUTS["base"]["t"]}
    first = oracle.compile("table t").sources[0]
    oracle.execute("select 1")
    oracle.parts = {oracle.relid("t"): LAYOUTS["both"]["t"]}
    sources = {source.part: source for source in oracle.compile("table t").sources}
    oracle.parts = {}
    oracle.execute("select 1")
    assert sources[SourcePart.BASE] == first


@pytest.mark.parametrize(
    ("condition", "filters"),
    [
        ("k = $1", ["EqualTo(c1,5)"]),
        ("k = $1 and 100 / (k - 4) > 1", ["EqualTo(c1,5)"]),
        ("k in ($1, 17) and 100 / (x - 20) > 1", ["In(c1, ["]),
        (
            "k between $1 and 7 and 100 / (k - 4) > 1",
            ["GreaterThanOrEqual(c1,5)", "LessThanOrEqual(c1,7)"],
        ),
        ("k >= $1 and 100 / (x - 20) > 1", ["GreaterThanOrEqual(c1,5)"]),
        ("k < 9 and k > 4 and (k, x) > ($1, 3) and 100 / (x - 20) > 1", ["LessThan(c1,9)"]),
    ],
)
def test_key_filters_reach_the_files_of_base_and_deltas(
    oracle: Oracle,
    spark_session: SparkSession,
    tmp_path: Path,
    condition: str,
    filters: list[str],
) -> None:
    oracle.execute("select 1")
    oracle.parts = {oracle.relid("t"): LAYOUTS["both"]["t"]}
    try:
        query = oracle.compile(f"select x from t where {condition}", [5])
        for source in query.sources:
            oracle.register(source)
            files = str(tmp_path / source.part.value)
            spark_session.table(source.view).write.parquet(files)
            name = source.view.removeprefix("global_temp.")
            spark_session.read.parquet(files).createOrReplaceGlobalTempView(name)
        frame = spark_session.sql(query.sql)
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert [tuple(row) for row in frame.collect()] == [(50,)]
    finally:
        oracle.parts = {}
        oracle.execute("select 1")
    # Base, what is joined to it, and the latest versions: three scans, each by key.
    pushed = [line for line in plan.splitlines() if "FileScan parquet" in line]
    assert len(pushed) == 3
    assert all(text in line for text in filters for line in pushed), plan


def test_dropped_and_added_columns_keep_their_numbers(oracle: Oracle) -> None:
    oracle.execute(
        "create table d (k int primary key, gone int, s text); insert into d values (1, 2, 'x')"
    )
    oracle.execute("alter table d drop column gone; alter table d add column late int default 7")
    query = oracle.check("select * from d")
    assert "c3" in query.sql
    assert "c4" in query.sql
    assert "c2" not in query.sql
    oracle.check_change("update d set late = late + 1 returning *")
    rows = oracle.run(oracle.compile("select late from d")).rows
    assert_rows(rows, [("7",)])
