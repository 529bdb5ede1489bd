"""Rows that a statement reports are in the tail, or the statement fails (XX001)."""

from collections.abc import Callable, Iterator

import pytest

from catalog.errors import GatewayError
from tests.support.fix_catalog import Client
from tests.support.lossy_tails import lose

pytestmark = pytest.mark.catalog


@pytest.fixture
def administrator(catalog, database, inspector) -> Iterator[Client]:
    """A superuser; new tables are resident."""
    opened = Client(catalog.admin(database))
    yield opened
    opened.session.close()


@pytest.fixture
def lossy(client, administrator) -> Callable[[str, str], None]:
    """Has the tail of a table silently lose the row versions that a condition holds for."""

    return lambda table, condition: lose(administrator, client.relid(table), condition)


ROW = "new.subsequent_version_number IS NULL"

TOMBSTONE = "new.subsequent_version_number IS NOT NULL"

STATEMENTS = {
    "rows that are inserted": ("INSERT INTO t VALUES (5, 1), (6, 1)", f"{ROW} AND new.c1 = 5"),
    "rows that an upsert inserts": (
        "INSERT INTO t VALUES (1, 1), (6, 1) ON CONFLICT (id) DO UPDATE SET v = 7",
        f"{ROW} AND new.c1 = 6",
    ),
    "rows that an upsert updates": (
        "INSERT INTO t VALUES (1, 1), (6, 1) ON CONFLICT (id) DO UPDATE SET v = 7",
        f"{ROW} AND new.c1 = 1",
    ),
    "one row that is updated": ("UPDATE t SET v = 2 WHERE id = 3", f"{ROW} AND new.c1 = 3"),
    "rows that are updated": ("UPDATE t SET v = 2", f"{ROW} AND new.c1 = 3"),
    "the new key of a row": ("UPDATE t SET id = 9 WHERE id = 3", f"{ROW} AND new.c1 = 9"),
    "the old key of a row": ("UPDATE t SET id = 9 WHERE id = 3", f"{TOMBSTONE} AND new.c1 = 3"),
    "rows that are deleted": ("DELETE FROM t WHERE id > 1", f"{TOMBSTONE} AND new.c1 = 3"),
    "all rows": ("TRUNCATE t", TOMBSTONE),
    "rows that a MERGE deletes": (
        (
            "MERGE INTO t USING (VALUES (1), (3)) s (id) ON t.id = s.id"
            " WHEN MATCHED AND t.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 5"
        ),
        f"{TOMBSTONE} AND new.c1 = 3",
    ),
    "rows that WITH deletes": (
        "WITH g AS (DELETE FROM t WHERE id = 3 RETURNING v) INSERT INTO t SELECT 8, v FROM g",
        f"{TOMBSTONE} AND new.c1 = 3",
    ),
    "rows of a DO block": (
        "DO $$ BEGIN UPDATE t SET v = 3 WHERE id = 2; UPDATE t SET v = 4 WHERE id = 3; END $$",
        f"{ROW} AND new.c1 = 3",
    ),
}

KINDS = {
    "a key": ("CREATE TABLE t (id int PRIMARY KEY, v int)",),
    "no key": ("CREATE TABLE t (id int, v int)",),
    "a leaf": (
        "CREATE TABLE above (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE t PARTITION OF above FOR VALUES FROM (0) TO (1000)",
    ),
    "a child": (
        "CREATE TABLE above (id int, v int)",
        "CREATE TABLE t (PRIMARY KEY (id)) INHERITS (above)",
    ),
    "a leaf without key": (
        "CREATE TABLE above (id int, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE t PARTITION OF above DEFAULT",
    ),
}


KEYLESS = frozenset({"no key", "a leaf without key"})


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_row_that_is_lost_fails_its_statement(  # noqa: PLR0917 - fixtures, and what is tried
    client, inspector, lossy, name, kind, isolation
):
    statement, condition = STATEMENTS[name]
    if kind in KEYLESS and "ON CONFLICT" in statement:
        pytest.skip("there is no key to conflict")
    client.run(f"SET default_transaction_isolation = '{isolation}'")
    for sql in (*KINDS[kind], "INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)"):
        client.run(sql)
    before, versions = client.run("TABLE t"), inspector.versions("t")
    lossy("t", condition)
    assert client.sqlstate(statement) == "XX001"
    assert client.run("TABLE t") == before
    assert inspector.versions("t") == versions
    assert inspector.differences() == {}
    client.run("INSERT INTO t VALUES (50, 1)")
    assert inspector.differences() == {}


def test_the_error_says_which_law_is_broken(client, lossy):
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    client.run("INSERT INTO t SELECT g, g FROM generate_series(1, 5) g")
    lossy("t", f"{ROW} AND new.c1 < 3")
    with pytest.raises(GatewayError, match='of table "t" got 3 row versions of 5 by UPDATE'):
        client.run("UPDATE t SET v = 0")


def test_a_cascade_that_is_lost_fails_the_statement_that_caused_it(client, inspector, lossy):
    for sql in (
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE t (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE)",
        "INSERT INTO parent VALUES (1), (2)",
        "INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)",
    ):
        client.run(sql)
    lossy("t", f"{TOMBSTONE} AND new.c1 = 2")
    client.run("DELETE FROM parent WHERE id = 2")
    assert client.sqlstate("DELETE FROM parent WHERE id = 1") == "XX001"
    assert client.run("TABLE parent") == [("1",)]
    assert inspector.differences() == {}


def test_a_block_is_undone_with_the_row_it_lost(client, inspector, lossy):
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    client.run("INSERT INTO t VALUES (1, 1), (2, 1)")
    lossy("t", f"{ROW} AND new.c1 = 2")
    client.session.transaction.begin()
    client.run("UPDATE t SET v = 2 WHERE id = 1")
    assert client.sqlstate("UPDATE t SET v = 2 WHERE id = 2") == "XX001"
    client.session.transaction.rollback()
    assert client.run("TABLE t ORDER BY id") == [("1", "1"), ("2", "1")]
    assert inspector.differences() == {}


REENTRANT = {
    "the row that came is deleted": "DELETE FROM t WHERE id = new.id;",
    "the row that came gets another key": "UPDATE t SET id = id + 100 WHERE id = new.id;",
    "the row that came is changed": "UPDATE t SET v = v + 1 WHERE id = new.id;",
    "the old key is given to another row": (
        "IF tg_op = 'UPDATE' THEN INSERT INTO t VALUES (old.id, 0) ON CONFLICT DO NOTHING; END IF;"
    ),
    "all other rows are deleted": "DELETE FROM t WHERE id <> new.id;",
    "all rows are truncated": "DELETE FROM t; INSERT INTO t VALUES (new.id, 77);",
}


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "SERIALIZABLE"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REENTRANT)
def test_what_triggers_do_to_the_rows_of_a_statement_is_no_loss(
    client, inspector, name, kind, isolation
):
    keyless = kind in KEYLESS
    client.run(f"SET default_transaction_isolation = '{isolation}'")
    for sql in (
        *KINDS[kind],
        (
            "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF pg_trigger_depth() = 1 THEN {REENTRANT[name]} END IF; RETURN NULL; END $$"
        ),
        "CREATE TRIGGER again AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION again()",
        "INSERT INTO t SELECT g, g FROM generate_series(1, 9) g",
        "INSERT INTO t VALUES (10, 1)",
        "UPDATE t SET v = v + 1",
        "UPDATE t SET id = id + 20 WHERE id < 5",
        (
            "WITH gone AS (DELETE FROM t WHERE id < 9 RETURNING id, v) INSERT INTO t"
            " SELECT id + 30, v FROM gone"
        ),
        *(() if keyless else ("INSERT INTO t VALUES (10, 2), (40, 3) ON CONFLICT DO NOTHING",)),
        "DELETE FROM t WHERE v > 1",
        "DELETE FROM t",
    ):
        client.run(sql)
        assert inspector.differences() == {}, sql


def test_cascades_that_meet_a_row_twice_are_no_loss(client, inspector):
    for sql in (
        "CREATE TABLE parent (id int PRIMARY KEY)",
        (
            "CREATE TABLE t (a int REFERENCES parent ON UPDATE CASCADE ON DELETE CASCADE,"
            " b int REFERENCES parent ON UPDATE CASCADE ON DELETE CASCADE, PRIMARY KEY (a, b))"
        ),
        "INSERT INTO parent VALUES (1), (2), (3)",
        "INSERT INTO t VALUES (1, 2), (2, 1), (3, 3), (1, 1)",
        "UPDATE parent SET id = id + 10",
        "WITH moved AS (UPDATE parent SET id = 21 WHERE id = 11) DELETE FROM t WHERE b = 12",
        "DELETE FROM parent",
    ):
        client.run(sql)
        assert inspector.differences() == {}, sql


def test_keys_that_are_compared_by_other_rules_are_no_loss(client, inspector):
    for sql in (
        "CREATE TYPE letter AS ENUM ('a', 'b', 'A', 'B')",
        "CREATE TABLE a (id char(3) PRIMARY KEY, v int)",
        "CREATE TABLE b (id letter PRIMARY KEY, v int)",
        "CREATE TABLE c (id numeric, w float8, v int, PRIMARY KEY (id, w))",
        "INSERT INTO a VALUES ('a', 1), ('b', 2)",
        "UPDATE a SET id = upper(id)",
        "UPDATE a SET id = id || ' '",
        "INSERT INTO b VALUES ('a', 1), ('b', 2)",
        "UPDATE b SET id = upper(id::text)::letter",
        "INSERT INTO c VALUES (1.0, 'NaN', 1), ('NaN', '-0', 2)",
        "UPDATE c SET id = 1.00, w = 0 WHERE id <> 1",
        "UPDATE c SET id = id + 0.000, w = -w",
        "DELETE FROM a",
        "DELETE FROM b",
        "DELETE FROM c",
    ):
        client.run(sql)
        assert inspector.differences() == {}, sql
