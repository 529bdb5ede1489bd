"""Random statements on resident tables: after each transaction tail and table are equal.

Controls leave one mechanism of capture out, and show that the oracle finds it.
"""

import random
import time

import pytest

from catalog.errors import GatewayError
from catalog.journal.order import OF_OTHERS, order_by
from catalog.pg.sqlstate import DATA_CORRUPTED

pytestmark = pytest.mark.catalog

SECONDS = 2.0
"""How long each shape is tried. A long run: 600."""

KEYS = 12

SHAPES = {
    "keyed": ("CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 0, w text)",),
    "keyless": ("CREATE TABLE t (id int, v int DEFAULT 0, w text)",),
    "self_referencing": (
        (
            "CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 0, w text, parent int"
            " REFERENCES t ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)"
        ),
        (
            "CREATE FUNCTION adopt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " new.parent := CASE WHEN new.id % 3 = 0 THEN new.id ELSE"
            " (SELECT min(id) FROM t) END; RETURN new; END $$"
        ),
        "CREATE TRIGGER adopt BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION adopt()",
    ),
    "partitioned": (
        "CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 0, w text) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (4)",
        "CREATE TABLE t2 PARTITION OF t DEFAULT PARTITION BY RANGE (id)",
        "CREATE TABLE t21 PARTITION OF t2 FOR VALUES FROM (4) TO (8)",
        "CREATE TABLE t22 PARTITION OF t2 DEFAULT",
    ),
    "partitioned_keyless": (
        "CREATE TABLE t (id int, v int DEFAULT 0, w text) PARTITION BY LIST (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1, 3, 5, 7)",
        "CREATE TABLE t2 PARTITION OF t DEFAULT",
    ),
    "inheritance": (
        "CREATE TABLE t (id int, v int DEFAULT 0, w text)",
        "CREATE TABLE t1 (x int, PRIMARY KEY (id)) INHERITS (t)",
        "INSERT INTO t1 SELECT g, g FROM generate_series(1, 8) g",
    ),
    "re_entrant": (
        "CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 0, w text)",
        (
            "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF pg_trigger_depth() > 2 THEN RETURN NULL; END IF;"
            " IF tg_op = 'DELETE' THEN"
            "  INSERT INTO t VALUES (old.id, 1) ON CONFLICT DO NOTHING;"
            " ELSE UPDATE t SET v = v + 1 WHERE id = new.id;"
            "  IF new.v % 3 = 0 THEN DELETE FROM t WHERE id = new.id; END IF;"
            "  IF new.v % 5 = 0 THEN UPDATE t SET id = id + 100 WHERE id = new.id; END IF;"
            " END IF; RETURN NULL; END $$"
        ),
        (
            "CREATE TRIGGER again AFTER INSERT OR UPDATE OR DELETE ON t"
            " FOR EACH ROW WHEN (pg_trigger_depth() < 3) EXECUTE FUNCTION again()"
        ),
        (
            "CREATE FUNCTION refill() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN INSERT INTO t VALUES (1, 1) ON CONFLICT DO NOTHING; RETURN NULL; END $$"
        ),
        "CREATE TRIGGER a_refill AFTER TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION refill()",
    ),
}


def statement(random_source: random.Random, shape: str) -> str:
    """Return a statement that changes few keys of the table, often the same."""
    a, b = (random_source.randrange(KEYS) for _ in range(2))
    table = random_source.choice(["t", "t", "t1"]) if shape.startswith(("part", "inh")) else "t"
    conflict = (
        ""
        if "keyless" in shape or shape == "inheritance"
        else (
            random_source.choice(
                [
                    " ON CONFLICT (id) DO UPDATE SET v = t.v + 1",
                    f" ON CONFLICT (id) DO UPDATE SET id = {a}, v = 7",
                    " ON CONFLICT DO NOTHING",
                ]
            )
        )
    )
    return random_source.choice(
        [
            f"INSERT INTO t (id, v) VALUES ({a}, {b}), ({b + KEYS}, {a}){conflict}",
            f"INSERT INTO t (id, w) SELECT g, 'x' FROM generate_series({a}, {a} + 3) g{conflict}",
            f"UPDATE {table} SET v = v + {b} WHERE id BETWEEN {a} AND {a} + 3",
            f"UPDATE {table} SET id = {b} WHERE id = {a}",
            f"UPDATE t SET id = {a + b} - id WHERE id IN ({a}, {b})",
            f"DELETE FROM {table} WHERE id IN ({a}, {b})",
            (
                f"WITH gone AS (DELETE FROM t WHERE id = {a} RETURNING *)"
                f" INSERT INTO t (id, v) SELECT {b}, v FROM gone{conflict}"
            ),
            (
                f"WITH gone AS (DELETE FROM t WHERE id = {a}), "
                f"new AS (UPDATE t SET v = 5 WHERE id = {b})"
                f" INSERT INTO t (id) VALUES ({a + 2 * KEYS}){conflict}"
            ),
            (
                f"MERGE INTO t USING generate_series({a}, {a} + 4) g ON g = t.id"
                f" WHEN MATCHED AND t.v % 2 = 0 THEN DELETE WHEN MATCHED "
                f"THEN UPDATE SET id = {b} + g,"
                " v = t.v + 1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (g, 2)"
            ),
            (
                f"DO $$ BEGIN UPDATE t SET w = 'do' WHERE id = {a}; DELETE FROM t WHERE id = {b};"
                " BEGIN DELETE FROM t; PERFORM 1 / 0;"
                " EXCEPTION WHEN division_by_zero THEN NULL; END;"
                " END $$"
            ),
            "TRUNCATE t" if random_source.random() < 0.3 else f"TRUNCATE {table}",
        ]
    )


def find_difference(client, inspector, shape: str, seconds: float) -> str | None:
    """Run random transactions; return what the first one did after which a tail differs.

    So it does where capture itself tells that rows are missing.
    """
    random_source = random.Random(shape)  # noqa: S311 — no secret
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done = []
        client.run("BEGIN")
        for _ in range(random_source.randint(1, 3)):
            done.append(statement(random_source, shape))
            client.run("SAVEPOINT s")
            try:
                client.run(done[-1])
            except GatewayError as error:
                if error.sqlstate == DATA_CORRUPTED:
                    client.run("ROLLBACK")
                    return f"{error.message} after {'; '.join(done)}"
                client.run("ROLLBACK TO s")
            if random_source.random() < 0.1:
                client.run("ROLLBACK TO s")
        try:
            client.run(random_source.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        except GatewayError:
            client.run("ROLLBACK")
        differences = inspector.differences()
        if differences:
            return f"{differences} after {'; '.join(done)}"
    return None


def make(client, shape: str) -> None:
    for sql in SHAPES[shape]:
        client.run(sql)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tail_equals_its_table_after_each_transaction(client, inspector, shape):
    make(client, shape)
    assert find_difference(client, inspector, shape, SECONDS) is None


def sabotage(client, inspector, old: str, new: str) -> None:
    """Take a mechanism out of the capture functions of the test's tables."""
    relids = inspector.run("SELECT relid::int8 FROM pg_journal.journals")
    changed = 0
    for (relid,) in relids:
        ((definition,),) = inspector.run(
            f"SELECT pg_get_functiondef('pg_journal.capture_{relid}'::regproc)"
        )
        ((broken,),) = inspector.run(
            "SELECT regexp_replace("
            f"$text${definition}$text$, $text${old}$text$, $text${new}$text$, 'g')"
        )
        changed += broken != definition
        inspector.run(broken)
    assert changed


_HELD = r"FROM ONLY \S+ pgwire_held JOIN pgwire_new pgwire_n ON [^;]*;"


def capture_images(client, inspector) -> None:
    """Have statements capture what they were told of rows, instead of what the table holds."""
    sabotage(
        client,
        inspector,
        r"pgwire_held\.(\w+),((?: pgwire_held\.\w+,)*) pgwire_version " + _HELD,
        "pgwire_n.id, pgwire_n.v, pgwire_n.w, pgwire_version FROM pgwire_new pgwire_n;",
    )
    sabotage(client, inspector, r" WHERE NOT EXISTS \(SELECT FROM ONLY [^;]*\);", ";")


def test_images_instead_of_what_the_table_holds_are_found_out(client, inspector):
    make(client, "re_entrant")
    capture_images(client, inspector)
    assert find_difference(client, inspector, "re_entrant", 60)


def test_images_are_ties_that_the_order_of_versions_decides(client, inspector):
    """Where no statement runs inside another one, images say the same, if not in one version."""
    make(client, "keyed")
    capture_images(client, inspector)
    assert find_difference(client, inspector, "keyed", SECONDS) is None
    other = order_by(OF_OTHERS, "%1$s")
    inspector.run(
        "CREATE OR REPLACE FUNCTION pg_journal.newest_first(source text) RETURNS text"
        f" LANGUAGE sql IMMUTABLE RETURN format('{other}', source)"
    )
    assert find_difference(client, inspector, "keyed", 60)


def test_a_truncation_without_its_mark_is_found_out(client, inspector):
    make(client, "keyed")
    sabotage(
        client,
        inspector,
        r"VALUES \(pgwire_version, pgwire_version, -\d+\);",
        "SELECT pgwire_version, pgwire_version, NULL WHERE false;",
    )
    assert find_difference(client, inspector, "keyed", 60)


def test_a_truncation_that_does_not_read_the_table_again_is_found_out(client, inspector):
    make(client, "re_entrant")
    sabotage(
        client,
        inspector,
        r"(interval '1 microsecond' FROM ONLY \S+ pgwire_held);",
        r"\1 WHERE false;",
    )
    assert find_difference(client, inspector, "re_entrant", 60)


@pytest.mark.parametrize("shape", ["partitioned", "inheritance"])
def test_members_of_trees_captured_by_statement_are_found_out(client, inspector, shape):
    inspector.run(
        "CREATE OR REPLACE FUNCTION pg_journal.is_in_tree(relid oid) RETURNS boolean"
        " LANGUAGE sql STABLE RETURN false"
    )
    make(client, shape)
    assert find_difference(client, inspector, shape, 60)


def test_an_old_row_that_is_not_ended_is_found_out(client, inspector):
    make(client, "keyed")
    sabotage(
        client,
        inspector,
        r"FROM pgwire_old pgwire_o WHERE",
        "FROM pgwire_old pgwire_o WHERE false AND",
    )
    assert find_difference(client, inspector, "keyed", 60)
