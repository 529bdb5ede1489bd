"""Query strings are split and classified exactly as PostgreSQL's grammar does it."""

import pytest

from catalog.pg.statement_tokens import Piece
from catalog.statements.splitting import RelationName, StatementKind, split


def only(sql):
    (statement,) = split(sql)
    return statement


def test_statements_know_where_they_are():
    query_string = "/* é */ SELECT 'é;', $2 ;; -- c\n  SELECT 3 -- d"
    first, second = split(query_string)
    for statement in (first, second):
        assert query_string[statement.offset :].startswith(statement.text)
    assert (first.text, first.offset, first.parameter_count) == ("SELECT 'é;', $2", 8, 2)
    assert second.text.startswith("SELECT 3")


@pytest.mark.parametrize("sql", ["", " ;; ", "-- nothing\n", "/* */"])
def test_a_query_string_without_statements_is_empty(sql):
    assert split(sql) == []


@pytest.mark.parametrize("sql", ["SELECT FROM FROM", "SELECT 'open", "SELECT 1; SELEC 2", "a\0b"])
def test_what_does_not_parse_is_one_unknown_statement(sql):
    statement = only(sql)
    assert (statement.kind, statement.text) == (StatementKind.UNKNOWN, sql)
    assert not statement.all_qualified_system


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("VALUES (1)", StatementKind.SELECT),
        ("TABLE t", StatementKind.SELECT),
        ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", StatementKind.SELECT),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", StatementKind.INSERT),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", StatementKind.MERGE),
        ("SELECT 1 INTO t", StatementKind.SELECT_INTO),
        ("CREATE TABLE t AS SELECT 1", StatementKind.CREATE_TABLE_AS),
        ("START TRANSACTION", StatementKind.TRANSACTION),
        ("ABORT", StatementKind.TRANSACTION),
        ("MOVE 1 IN c", StatementKind.FETCH),
        ("RESET ALL", StatementKind.SET),
        ("ANALYZE t", StatementKind.VACUUM),
        ("CREATE TABLE t (a int)", StatementKind.DEFINITION),
        ("CHECKPOINT", StatementKind.DEFINITION),
        ("DO 'begin end'", StatementKind.DO),
        ("PREPARE TRANSACTION 'x'", StatementKind.TRANSACTION),
        ("SET pg_journal.arrived_1 = ''", StatementKind.REFUSED),
        ("SET LOCAL debug_print_rewritten = on", StatementKind.REFUSED),
        ("ALTER ROLE postgres SET debug_print_rewritten = on", StatementKind.REFUSED),
        ("CREATE DATABASE x TEMPLATE y", StatementKind.REFUSED),
        ("CREATE DATABASE x TEMPLATE template0", StatementKind.DEFINITION),
    ],
)
def test_kinds(sql, kind):
    assert only(sql).kind is kind


def test_relations_are_those_named_and_no_common_table_expressions():
    statement = only(
        "WITH q AS (SELECT * FROM s.a) SELECT (SELECT 1 FROM b), * FROM q, s.q, ONLY c, "
        "LATERAL (SELECT * FROM d) x FOR UPDATE OF c"
    )
    assert set(statement.relations) == {
        RelationName("s", "a"),
        RelationName(None, "b"),
        RelationName("s", "q"),
        RelationName(None, "c"),
        RelationName(None, "d"),
    }


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", {"t"}),
        ("WITH RECURSIVE t AS (SELECT 1 UNION SELECT * FROM t) SELECT * FROM t", set()),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a, b", {"b"}),
        ("WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", set()),
        ("SELECT * FROM t, (WITH t AS (SELECT 1) SELECT * FROM t) x", {"t"}),
        ("WITH t AS (SELECT 1) SELECT (SELECT * FROM t), x FROM (SELECT * FROM t) x", set()),
        ("WITH t AS (SELECT 1) (SELECT * FROM t UNION SELECT * FROM t) ORDER BY 1", set()),
        ("WITH t AS (SELECT 1) INSERT INTO t SELECT * FROM t", {"t"}),
        ("WITH t AS (SELECT 1) UPDATE t SET a = x.a FROM t x", {"t"}),
        ("WITH t AS (SELECT 1) DELETE FROM u USING t", {"u"}),
        ("WITH t AS (SELECT 1) SELECT * INTO t FROM t", {"t"}),
    ],
)
def test_a_common_table_expression_hides_a_relation_only_where_it_can_be_named(sql, expected):
    assert {relation.name for relation in only(sql).relations} == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM pg_catalog.pg_class c JOIN information_schema.tables t ON true", True),
        ("SELECT now()", True),
        ("SELECT * FROM pg_class", False),
        ("SELECT * FROM pg_catalog.pg_class, t", False),
    ],
)
def test_qualified_system_relations_need_no_tree(sql, expected):
    assert only(sql).all_qualified_system is expected


@pytest.mark.parametrize(
    ("sql", "details"),
    [
        (
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
            {
                "action": "begin",
                "options": {"transaction_isolation": "serializable", "transaction_read_only": 1},
            },
        ),
        ("ROLLBACK TO SAVEPOINT x", {"action": "rollback_to", "name": "x"}),
        ("COMMIT AND CHAIN", {"action": "commit", "chain": True}),
        (
            "COPY s.t (a, b) FROM STDIN (FORMAT csv, HEADER, NULL 'x', FORCE_QUOTE (a))",
            {
                "relation": ("s", "t"),
                "columns": ("a", "b"),
                "is_from": True,
                "filename": None,
                "options": {"format": "csv", "header": True, "null": "x", "force_quote": ("a",)},
            },
        ),
        (
            "COPY (SELECT (1)) TO PROGRAM 'x'",
            {"query": Piece("SELECT (1)", 6), "is_program": True, "is_from": False},
        ),
        (
            "DECLARE c BINARY NO SCROLL CURSOR WITH HOLD FOR SELECT 1 FOR UPDATE",
            {
                "name": "c",
                "query": Piece("SELECT 1 FOR UPDATE", 48),
                "binary": True,
                "scroll": False,
                "no_scroll": True,
                "hold": True,
            },
        ),
        ("FETCH BACKWARD 5 FROM c", {"name": "c", "direction": "backward", "count": 5}),
        ("MOVE ALL IN c", {"direction": "forward", "count": None, "is_move": True}),
        ("FETCH ABSOLUTE 0 c", {"direction": "absolute", "count": 0}),
        ("CLOSE ALL", {"name": None}),
        ("SET LOCAL TIME ZONE 'UTC'", {"action": "set", "name": "timezone", "is_local": True}),
        ("SET search_path TO a, b", {"name": "search_path", "values": ("a", "b")}),
        ("RESET ALL", {"action": "reset_all"}),
        ("SHOW x", {"name": "x"}),
        (
            "PREPARE p (int, numeric(10,2)) AS SELECT $1",
            {"name": "p", "types": ("int", "numeric(10,2)"), "query": Piece("SELECT $1", 34)},
        ),
        ("EXECUTE p (f(1, 2), 'a,b')", {"name": "p", "arguments": ("f(1, 2)", "'a,b'")}),
        ("EXECUTE p", {"arguments": ()}),
        ("DEALLOCATE ALL", {"name": None}),
        ("DEALLOCATE p", {"name": "p"}),
        ("DISCARD TEMP", {"target": "temp"}),
        (
            "TRUNCATE a, ONLY s.b RESTART IDENTITY CASCADE",
            {
                "relations": ((None, "a"), ("s", "b")),
                "only": (False, True),
                "restart_identity": True,
                "cascade": True,
            },
        ),
        (
            "VACUUM (FULL, VERBOSE) t",
            {
                "is_vacuum": True,
                "relations": ((None, "t"),),
                "options": {"full": True, "verbose": True},
            },
        ),
        ("ANALYZE", {"is_vacuum": False, "relations": ()}),
        ("DROP SCHEMA IF EXISTS a, b CASCADE", {"dropped": (), "schemas": ("a", "b")}),
        (
            "DROP TABLE IF EXISTS a, s.b CASCADE",
            {"dropped": ((None, "a"), ("s", "b")), "schemas": ()},
        ),
        ("DROP INDEX db.s.i", {"dropped": (("s", "i"),)}),
        ('DROP TRIGGER "the trigger" ON s.t', {"dropped": (("s", "t"),)}),
        ("DROP POLICY p ON t", {"dropped": ((None, "t"),)}),
        ("DROP FUNCTION t", {"dropped": ()}),
        ("DROP FUNCTION t(integer)", {"dropped": ()}),
        ("DROP TYPE s.t", {"dropped": ()}),
        ("DROP CAST (integer AS text)", {"dropped": ()}),
        ("DROP OPERATOR +(integer, none)", {"dropped": ()}),
        (
            "EXPLAIN (ANALYZE, FORMAT json) SELECT 1",
            {"analyze": True, "query": Piece("SELECT 1", 31), "inner": "SelectStmt"},
        ),
        ("EXPLAIN (ANALYZE off) SELECT 1", {"analyze": False}),
        ("EXPLAIN ANALYZE VERBOSE DELETE FROM t", {"analyze": True, "inner": "DeleteStmt"}),
        ("EXPLAIN (SELECT 1)", {"analyze": False, "query": Piece("(SELECT 1)", 8)}),
        ("NOTIFY a, 'b'", {"channel": "a", "payload": "b"}),
        ("UNLISTEN *", {"channel": None}),
        (
            "CREATE TEMP TABLE IF NOT EXISTS x (a) AS SELECT 1 WITH NO DATA",
            {
                "target": (None, "x"),
                "columns": ("a",),
                "query": Piece("SELECT 1", 41),
                "create_sql": "CREATE TEMP TABLE IF NOT EXISTS x (a) AS SELECT 1 WITH NO DATA",
                "with_data": False,
                "if_not_exists": True,
                "temporary": True,
            },
        ),
        (
            "CREATE TABLE x AS EXECUTE p (1) WITH DATA",
            {"executes": True, "with_data": True, "query": Piece("EXECUTE p (1)", 18)},
        ),
        (
            "WITH q AS (SELECT 1 AS i) SELECT i INTO TEMP s.x FROM q WHERE 'é' = 'é'",
            {
                "target": ("s", "x"),
                "temporary": True,
                "create_sql": "CREATE TEMPORARY TABLE s.x AS WITH q AS (SELECT 1 AS i) SELECT i "
                " FROM q WHERE 'é' = 'é' WITH NO DATA",
            },
        ),
        (
            "INSERT INTO t VALUES (1), (2) ON CONFLICT DO NOTHING RETURNING *",
            {"source": "values", "rows": 2, "on_conflict": "nothing", "returning": True},
        ),
        ("INSERT INTO t DEFAULT VALUES", {"source": "default", "rows": 1, "on_conflict": None}),
        ("INSERT INTO t SELECT 1", {"source": "select", "rows": None, "returning": False}),
        ("DELETE FROM s.t WHERE CURRENT OF c", {"target": ("s", "t"), "current_of": "c"}),
        ("ALTER TABLE t SET (gateway.hot_rows = 0)", {"setting": "hot_rows", "value": "0"}),
        ("ALTER TABLE t SET (gateway.hot_age_s = 1.5)", {"setting": "hot_age_s", "value": "1.5"}),
        ("ALTER TABLE t SET (gateway.residency = '')", {"setting": "residency", "value": ""}),
        ("ALTER TABLE t SET (fillfactor = 90, parallel_workers = 2)", {"keeps_writers": False}),
        ("ALTER TABLE t ALTER a SET STATISTICS 9, RESET (fillfactor)", {"keeps_writers": False}),
        ("ALTER TABLE t ALTER a SET (n_distinct = 9)", {"keeps_writers": False}),
        ("/* v */ CREATE OR REPLACE VIEW v AS TABLE t", {"keeps_writers": False}),
        ("CREATE TEMP RECURSIVE VIEW v (a) AS SELECT 1", {"keeps_writers": False}),
        ("VACUUM (SKIP_LOCKED) t", {"skips_locked": True, "is_full": False}),
        ("VACUUM (SKIP_LOCKED off, FULL) t", {"skips_locked": False, "is_full": True}),
        ("SELECT 1 FOR SHARE", {"locking": True, "modifying": False}),
        ("WITH x AS (INSERT INTO t VALUES (1)) SELECT 1", {"modifying": True}),
    ],
)
def test_details(sql, details):
    found = only(sql).details
    assert {name: found[name] for name in details} == details


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t SET (user_catalog_table = true)",
        "ALTER TABLE t SET (fillfactor = 90), ALTER a DROP DEFAULT",
        "ALTER TABLE t VALIDATE CONSTRAINT c",
        "CREATE MATERIALIZED VIEW v AS TABLE t",
        "CREATE RULE r AS ON INSERT TO t DO NOTHING",
        "ALTER TABLE t ENABLE TRIGGER ALL",
        "ALTER TABLE t SET (gateway.residency = never)",
    ],
)
def test_what_keeps_writers_waiting_is_not_taken_for_less(sql):
    assert only(sql).details.get("keeps_writers", True)


@pytest.mark.parametrize("operators", [60, 300, 2000])
def test_deep_expressions_are_still_classified(operators):
    first, deep = split("SELECT 1; SELECT " + " + ".join(["a"] * operators) + " + $3 FROM t")
    assert first.relations_known
    assert (deep.kind, deep.parameter_count, deep.offset) == (StatementKind.SELECT, 3, 10)
    assert not deep.all_qualified_system
