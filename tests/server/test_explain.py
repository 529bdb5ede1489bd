"""EXPLAIN of statements that Spark has a part in: what it tells, and what it does."""

import json
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import psycopg
import pytest

from tests.support.servers import Address

pytestmark = pytest.mark.server

JSON_OID = 114
TEXT_OID = 25
XML_OID = 142


@pytest.fixture
def connection(gateway: Address, database: str) -> Iterator[psycopg.Connection]:
    """A connection to a database with one tiered table."""
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as opened:
        opened.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
        opened.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        yield opened


def explain(connection: psycopg.Connection, statement: str, *values: object) -> list[str]:
    """Return the lines of an explanation."""
    cursor = connection.execute(statement, values or None)  # type: ignore[call-overload]
    assert cursor.statusmessage == "EXPLAIN"
    return [row[0] for row in cursor]


def test_first_line_is_the_decision(connection):
    lines = explain(connection, "EXPLAIN SELECT v FROM t WHERE id = 2")
    assert connection.execute("SHOW gateway.last_decision").fetchone() == (lines[0],)
    assert lines[0] == "spark: tiered tables"


def test_spark_sql_and_the_physical_plan_follow(connection):
    lines = explain(connection, "EXPLAIN SELECT upper(v) FROM t WHERE id > 2")
    at = lines.index("  Spark Plan:")
    sql = " ".join(line.strip() for line in lines[2:at])
    assert lines[1] == "  Spark SQL:"
    assert sql.startswith("SELECT ")
    assert "public.t_recent" in sql
    assert lines[at + 1] == "    == Physical Plan =="
    assert not any("Logical Plan" in line for line in lines)


def test_verbose_adds_the_logical_plans(connection):
    lines = explain(connection, "EXPLAIN VERBOSE SELECT v FROM t WHERE id = 2")
    assert "  Spark Logical Plans:" in lines
    assert "    == Optimized Logical Plan ==" in lines


def test_no_line_tells_where_the_files_are(connection, gateway_process):
    connection.execute("VACUUM t")
    lines = explain(connection, "EXPLAIN VERBOSE SELECT upper(v) FROM t WHERE id > 1")
    assert any("Scan parquet" in line for line in lines)
    assert not any(str(gateway_process.data_dir) in line for line in lines)


def test_rows_read_from_files_need_no_plan_of_spark(connection):
    connection.execute("VACUUM t")
    lines = explain(connection, "EXPLAIN SELECT v FROM t")
    assert lines[-1] == "    none: the gateway reads the rows from data files itself (1)"
    connection.execute("INSERT INTO t VALUES (4, 'd')")
    for statement in ("SELECT v FROM t WHERE id > 2", "UPDATE t SET v = 'x' WHERE id % 2 = 1"):
        lines = explain(connection, f"EXPLAIN {statement}")
        assert lines[-1] == "    none: the gateway reads the rows from data files itself (1)"
    connection.execute("SET gateway.executor = spark")
    lines = explain(connection, "EXPLAIN SELECT v FROM t WHERE id > 2")
    assert any("Scan parquet" in line for line in lines)


def test_a_row_read_by_its_key_needs_no_plan_of_spark(connection):
    for _ in range(2):
        lines = explain(connection, "EXPLAIN SELECT v FROM t WHERE id = 2")
        assert lines[-1] == "    none: the gateway reads the row by its key itself"
        connection.execute("VACUUM t")
    lines = explain(connection, "EXPLAIN SELECT upper(v) FROM t WHERE id = 2")
    assert any("Scan parquet" in line for line in lines)


def test_a_write_is_explained_and_not_done(connection):
    explain(connection, "EXPLAIN UPDATE t SET v = 'x'")
    explain(connection, "EXPLAIN DELETE FROM t")
    lines = explain(connection, "EXPLAIN INSERT INTO t VALUES (4, 'd')")
    assert lines == [
        "postgres, then the journal: tiered tables",
        "  PostgreSQL Plan:",
        "    Insert on t",
        "      ->  Result",
    ]
    explain(connection, "EXPLAIN INSERT INTO t SELECT id + 10, v FROM t")
    rows = connection.execute("SELECT id, v FROM t ORDER BY id").fetchall()
    assert rows == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("INSERT INTO t VALUES (4, 'd')", 4),
        ("INSERT INTO t SELECT id + 10, v FROM t", 6),
        ("DELETE FROM t WHERE id > 1 RETURNING v", 1),
        ("UPDATE t SET v = v", 3),
    ],
)
def test_analyze_runs_the_statement(connection, statement, left):
    lines = explain(connection, f"EXPLAIN (ANALYZE, TIMING OFF) {statement}")
    ((count,),) = connection.execute("SELECT count(*) FROM t").fetchall()
    written = abs(left - 3) or 3
    assert count == left
    assert lines[0].endswith(f" (actual rows={written}.00 loops=1)")
    assert [line.partition(":")[0] for line in lines[-2:]] == ["Planning Time", "Execution Time"]


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("MERGE INTO t USING s ON t.id = s.id + 1 WHEN MATCHED THEN DELETE", 1),
        ("UPDATE t SET v = s.w FROM s WHERE t.id = s.id + 1", 1),
    ],
)
def test_what_spark_merges_is_explained_as_it_is_run(connection, statement, written):
    connection.execute("CREATE TEMPORARY TABLE s AS SELECT 1 AS id, 'w' AS w")
    for options in ("", "(ANALYZE, TIMING OFF) "):
        lines = explain(connection, f"EXPLAIN {options}{statement}")
        assert lines[0].startswith("spark: tiered tables")
        assert "  Spark SQL:" in lines
    assert lines[0].endswith(f" (actual rows={written}.00 loops=1)")


UPSERT = "INSERT INTO t SELECT id + 1, v FROM t ON CONFLICT (id) DO UPDATE SET v = 'x'"


def test_an_upsert_is_explained_as_it_is_run(connection):
    (line, *_) = explain(connection, f"EXPLAIN {UPSERT}")
    assert line.startswith("postgres, on thawed rows: ")
    # More than can be hot.
    connection.execute("INSERT INTO t SELECT g, 'v' FROM generate_series(2001, 3500) g")
    for options in ("", "(ANALYZE, TIMING OFF) "):
        lines = explain(connection, f"EXPLAIN {options}{UPSERT}")
        assert lines[0].startswith("spark: tiered tables")
        assert "  Spark SQL:" in lines
    assert lines[0].endswith(" (actual rows=1503.00 loops=1)")


def test_a_write_over_extracts_is_explained_part_by_part(connection):
    connection.execute("CREATE TEMPORARY TABLE r (id integer PRIMARY KEY, v text)")
    connection.execute("INSERT INTO r VALUES (1, 'old'), (2, 'old')")
    statement = "UPDATE r SET v = t.v FROM t WHERE t.id = r.id AND r.id < %s"
    plain = explain(connection, f"EXPLAIN {statement % 2}")
    assert plain[0] == "spark, then postgres: tiered tables"
    assert [line.strip() for line in plain if line.endswith(":")] == [
        "Spark SQL of extract_1:",
        "Spark Plan of extract_1:",
        "PostgreSQL Plan:",
    ]
    assert "            ->  Seq Scan on extract_1" in plain
    assert not any("pgwire" in line for line in plain)
    assert connection.execute("SELECT v FROM r ORDER BY id").fetchall() == [("old",), ("old",)]
    document = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}", [3]).fetchone()[0]
    assert document[0]["Plan"]["Node Type"] == "PostgreSQL"
    assert document[0]["Plan"]["PostgreSQL Plan"].startswith("Update on r")
    analyzed = explain(connection, f"EXPLAIN (ANALYZE, TIMING OFF) {statement % 3}")
    assert analyzed[0].endswith(" (actual rows=2.00 loops=1)")
    assert connection.execute("SELECT v FROM r ORDER BY id").fetchall() == [("a",), ("b",)]


def test_a_temporary_table_is_filled_when_analyzed(connection):
    connection.execute("CREATE TEMPORARY TABLE temp (id integer)")
    plain = explain(connection, "EXPLAIN INSERT INTO temp SELECT id FROM t")
    assert connection.execute("SELECT count(*) FROM temp").fetchone() == (0,)
    assert plain[0] == "spark, then postgres: tiered tables"
    explain(connection, "EXPLAIN ANALYZE INSERT INTO temp SELECT id FROM t")
    assert connection.execute("SELECT count(*) FROM temp").fetchone() == (3,)


def test_a_journal_is_explained(connection):
    lines = explain(connection, "EXPLAIN SELECT * FROM t_journal")
    assert lines[0] == "spark: a journal"
    assert "public.t_journal" in "".join(lines)


def test_json_is_one_document(connection):
    cursor = connection.execute(
        "EXPLAIN (ANALYZE, FORMAT json) SELECT v FROM t WHERE upper(v) = 'B'"
    )
    ((answer,),) = cursor.fetchall()
    assert cursor.description is not None
    assert (cursor.description[0].name, cursor.description[0].type_code) == ("QUERY PLAN", JSON_OID)
    (document,) = answer
    plan = document["Plan"]
    assert list(document) == ["Plan", "Planning Time", "Execution Time"]
    assert (plan["Node Type"], plan["Executor"], plan["Reason"]) == (
        "Spark",
        "spark",
        "tiered tables",
    )
    assert plan["Spark SQL"].startswith("SELECT ")
    assert plan["Spark Plan"].startswith("== Physical Plan ==")
    assert (plan["Actual Rows"], plan["Actual Loops"]) == (1.0, 1)
    assert 0 < plan["Actual Startup Time"] <= plan["Actual Total Time"]


def test_xml_is_one_document(connection):
    cursor = connection.execute("EXPLAIN (FORMAT xml) SELECT '<&>' || v FROM t")
    ((answer,),) = cursor.fetchall()
    assert cursor.description is not None
    assert cursor.description[0].type_code == XML_OID
    plan = ET.fromstring(answer)[0][0]  # noqa: S314 - our own
    tags = [element.tag.partition("}")[2] for element in plan]
    assert tags == ["Node-Type", "Executor", "Reason", "Spark-SQL", "Spark-Plan"]
    assert "'<&>'" in (plan[3].text or "")


def test_yaml_is_one_document(connection):
    cursor = connection.execute("EXPLAIN (FORMAT yaml, SUMMARY) SELECT v FROM t WHERE v = 'x: y'")
    ((answer,),) = cursor.fetchall()
    assert cursor.description is not None
    assert cursor.description[0].type_code == TEXT_OID
    first, *fields, last = answer.split("\n")
    assert (first, last.partition(":")[0]) == ("- Plan: ", "  Planning Time")
    values = dict(field.strip().split(": ", 1) for field in fields)
    assert json.loads(values["Executor"]) == "spark"
    assert "'x: y'" in json.loads(values["Spark SQL"])


def test_parameters_are_planned_with_their_values(connection):
    lines = explain(connection, "EXPLAIN ANALYZE SELECT v FROM t WHERE id = %s AND v <> %s", 2, "q")
    assert "(2 AS SMALLINT)" in "".join(lines)
    assert " rows=1.00 " in lines[0]


def test_a_prepared_explanation_is_made_anew_each_time(connection):
    statement = "EXPLAIN ANALYZE SELECT * FROM t WHERE id > %s"
    counts = []
    for bound in (0, 2):
        cursor = connection.execute(statement, [bound], prepare=True)
        counts.append(cursor.fetchall()[0][0].partition("rows=")[2])
        connection.execute("INSERT INTO t VALUES (%s, 'more')", [10 + bound])
        connection.execute(f"ALTER TABLE t ADD COLUMN added_{bound} integer")
    assert counts == ["3.00 loops=1)", "2.00 loops=1)"]


def test_the_column_is_described_before_anything_is_executed(connection):
    pgconn = connection.pgconn
    pgconn.prepare(b"told", b"EXPLAIN (ANALYZE, FORMAT json) DELETE FROM t WHERE id = $1")
    described = pgconn.describe_prepared(b"told")
    assert [described.fname(0), described.ftype(0)] == [b"QUERY PLAN", JSON_OID]
    assert [described.nparams, described.param_type(0)] == [1, 23]
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)
    pgconn.exec_prepared(b"told", [b"2"])
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)


@pytest.mark.parametrize("analyze", ["", "ANALYZE "])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT v FROM t",
        "UPDATE t SET v = 'x'",
        "DELETE FROM t",
        "INSERT INTO t VALUES (9, 'x')",
        "INSERT INTO t SELECT id + 10, v FROM t",
        "SELECT v FROM t_journal",
    ],
)
def test_privileges_are_those_of_the_statement(connection, gateway, database, analyze, statement):
    connection.execute("DROP ROLE IF EXISTS nosy")
    connection.execute("CREATE ROLE nosy LOGIN")
    with (
        psycopg.connect(gateway.conninfo(database, user="nosy"), autocommit=True) as nosy,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        nosy.execute(f"EXPLAIN {analyze}{statement}")
    connection.execute("DROP ROLE nosy")


def test_in_a_read_only_transaction_writes_are_only_explained(connection):
    with connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        assert explain(connection, "EXPLAIN DELETE FROM t")[0] == "spark: tiered tables"
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), connection.transaction():
            connection.execute("EXPLAIN ANALYZE DELETE FROM t")


def test_resident_tables_are_explained_by_who_would_read_them(resident_gateway):
    with psycopg.connect(resident_gateway.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE told (id integer)")
        try:
            lines = explain(connection, "EXPLAIN (COSTS OFF) SELECT * FROM told")
            assert lines == ["Seq Scan on told"]
            connection.execute("SET gateway.executor = spark")
            assert explain(connection, "EXPLAIN SELECT * FROM told")[0] == "spark: asked for"
        finally:
            connection.execute("DROP TABLE told")


def test_what_execute_names_is_explained_with_its_arguments(connection):
    connection.execute("PREPARE found (integer) AS SELECT v FROM t WHERE id > $1 + 40")
    connection.execute("PREPARE changed (integer) AS UPDATE t SET v = 'x' WHERE id <= $1")
    lines = explain(connection, "EXPLAIN EXECUTE found (2)")
    assert lines[0] == "spark: tiered tables"
    assert "CAST(2 AS BIGINT) + 40" in " ".join(lines)
    explain(connection, "EXPLAIN EXECUTE changed (2)")
    assert connection.execute("SELECT count(*) FROM t WHERE v = 'x'").fetchone() == (0,)
    explain(connection, "EXPLAIN ANALYZE EXECUTE changed (2)")
    assert connection.execute("SELECT count(*) FROM t WHERE v = 'x'").fetchone() == (2,)
    with pytest.raises(psycopg.errors.SyntaxError, match="wrong number of parameters"):
        explain(connection, "EXPLAIN EXECUTE found")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation) as caught:
        explain(connection, "EXPLAIN EXECUTE found ('x')")
    assert caught.value.diag.statement_position == "24"
