"""MERGE of many rows that move between partitions, and of resident partitions among tiered ones."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support import both_sides
from tests.support.both_sides import Both, said_and_left
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "moving_merges"

TIERED = ("p0", "p1b")

FILL = (
    "INSERT INTO p (id, k, v, t) SELECT g % 10, g * 5, g + 100, 't' || g"
    " FROM generate_series(0, 59) g"
)

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    (
        "CREATE TABLE p (id int, k int, v int CHECK (v <> 13),"
        " t varchar(8) NOT NULL DEFAULT 'none', g int GENERATED ALWAYS AS (v * 2) STORED,"
        " PRIMARY KEY (id, k)) PARTITION BY RANGE (k)"
    ),
    "CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (100) TO (200) PARTITION BY LIST (id)",
    "CREATE TABLE p1a PARTITION OF p1 FOR VALUES IN (1, 2, 3, 4, 5)",
    "CREATE TABLE p1b PARTITION OF p1 DEFAULT",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (200) TO (300)",
    *(f"CREATE UNIQUE INDEX ON {leaf} (t)" for leaf in ("p0", "p1b", "p2")),
    FILL,
    "CREATE TABLE s (id int, k int, v int)",
    "INSERT INTO s SELECT g % 10, g * 5, g FROM generate_series(0, 63, 3) g",
)

SOURCE = "(SELECT id + 0 AS id, k + 0 AS k, v FROM s) s"
"""Of keys that are computed PostgreSQL does not know which rows they name."""

ON = f"MERGE INTO p USING {SOURCE} ON p.id = s.id AND p.k = s.k"
INSERT = "WHEN NOT MATCHED THEN INSERT (id, k, v, t) VALUES (s.id, s.k - 199, s.v, 'i' || s.v)"

LEAVES = ("p0", "p1a", "p1b", "p2")


@pytest.fixture(scope="module")
def both(two_tiers_pair: Pair) -> Iterator[Both]:
    """Connections to PostgreSQL and to the gateway, with the same tables; two leaves are tiered."""
    with both_sides.both_sides(two_tiers_pair, SCHEMA, SETUP, TIERED, LEAVES) as sides:
        yield sides


def outcome(connection: psycopg.Connection, *statements: str):
    """Return what the last statement says, and what is in each leaf then; take it back."""
    whole = "SELECT count(*), sum(v), sum(g), sum(k) FROM p"
    queries = [*(f"TABLE {leaf}" for leaf in LEAVES), whole]
    return said_and_left(connection, statements, queries)


def connected(pair: Pair, user: str = "postgres") -> psycopg.Connection:
    return both_sides.connected(pair, SCHEMA, user)


@pytest.mark.parametrize(
    "statement",
    [
        # Rows move in all directions, and between resident leaves too.
        f"{ON} WHEN MATCHED THEN UPDATE SET k = (p.k + 103) % 300",
        (
            f"{ON} WHEN MATCHED AND s.v < 20 THEN UPDATE SET k = 299 - p.k, v = s.v"
            f" WHEN MATCHED AND s.v < 40 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v {INSERT}"
            " RETURNING merge_action(), old.*, new.*, s.v"
        ),
        # Only the list of ids tells the leaf.
        f"{ON} WHEN MATCHED THEN UPDATE SET id = p.id + 4 RETURNING old.id, new.id, p.g",
        (
            f"{ON} WHEN NOT MATCHED BY SOURCE AND p.k < 50 THEN"
            " UPDATE SET k = p.k + 201, t = 'f' || p.v"
            " WHEN NOT MATCHED BY SOURCE AND p.k % 10 = 0 THEN DELETE WHEN MATCHED THEN DO NOTHING"
        ),
        # To what was there, and to a key of its own leaf.
        f"{ON} WHEN MATCHED THEN UPDATE SET k = p.k + 1, id = s.id RETURNING merge_action(), p.*",
        f"{ON} WHEN MATCHED THEN UPDATE SET k = s.k, id = s.id, v = 0",
        # No row moves, and resident leaves are changed beside tiered ones.
        f"{ON} WHEN MATCHED AND s.v % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = p.v + s.v",
        f"{ON} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t = 'x' || p.v RETURNING p.*",
        f"{ON} {INSERT} RETURNING merge_action(), p.*",
        f"{ON} AND s.v < 0 WHEN MATCHED THEN UPDATE SET k = 0",
    ],
)
def test_every_leaf_has_the_rows_of_postgresql(both, statement: str) -> None:
    plain, gateway = both
    assert outcome(gateway, statement) == outcome(plain, statement)
    # What is written natively in the same transaction is seen, and what is seen is written again.
    before = ("UPDATE p SET v = 7 WHERE k = 225", "INSERT INTO p VALUES (77, 150, 1, 'new')")
    after = f"{ON} WHEN MATCHED THEN UPDATE SET v = p.v + 1"
    steps = (*before, statement, after)
    assert outcome(gateway, *steps) == outcome(plain, *steps)


def test_it_is_done_by_spark_in_one_commit(both, two_tiers_pair: Pair) -> None:
    plain, gateway = both
    gateway.execute("BEGIN")
    gateway.execute(f"{ON} WHEN MATCHED THEN UPDATE SET k = 299 - p.k")
    assert gateway.execute("SHOW gateway.last_decision").fetchone() == (
        "spark: several partitions",
    )
    with connected(two_tiers_pair) as other:
        seen = sorted(other.execute("SELECT id, k, v FROM p").fetchall())
        assert seen == sorted(plain.execute("SELECT id, k, v FROM p").fetchall())
    gateway.execute("ROLLBACK")
    assert sorted(gateway.execute("TABLE p").fetchall()) == sorted(
        plain.execute("TABLE p").fetchall()
    )


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        # No partition.
        (f"{ON} WHEN MATCHED THEN UPDATE SET k = p.k + 300", "23514"),
        (f"{ON} WHEN MATCHED THEN UPDATE SET k = NULL", "23514"),
        (f"{ON} WHEN MATCHED THEN UPDATE SET id = NULL", "23502"),
        # Constraints of the leaf that rows go to, and of one that they stay in.
        (f"{ON} WHEN MATCHED THEN UPDATE SET k = 299 - p.k, v = 13", "23514"),
        (f"{ON} WHEN MATCHED THEN UPDATE SET k = 299 - p.k, t = NULL", "23502"),
        (f"{ON} WHEN MATCHED THEN UPDATE SET k = 299 - p.k, t = 'ninechars'", "22001"),
        (f"{ON} AND p.k > 200 WHEN MATCHED THEN UPDATE SET v = 13", "23514"),
        (f"{ON} AND p.k > 200 WHEN MATCHED THEN UPDATE SET t = NULL", "23502"),
        # Keys that rows have which stay, in tiered and in resident leaves; unique keys.
        (f"{ON} AND p.id = 0 WHEN MATCHED THEN UPDATE SET id = 1, k = 105", "23505"),
        (f"{ON} AND p.id = 0 AND p.k = 0 WHEN MATCHED THEN UPDATE SET id = 6, k = 30", "23505"),
        (f"{ON} AND p.id = 0 AND p.k = 0 WHEN MATCHED THEN UPDATE SET id = 1, k = 205", "23505"),
        (
            f"{ON} AND p.id = 0 AND p.k = 0 WHEN MATCHED THEN UPDATE SET k = 205, t = 't41'",
            "23505",
        ),
        (f"{ON} WHEN MATCHED AND s.k = 0 THEN UPDATE SET k = 36, t = 't7'", "23505"),
        # Several come to one key; a row is moved twice, and inserted where another one comes to.
        (f"{ON} WHEN MATCHED THEN UPDATE SET id = 1, k = 299", "23505"),
        (
            (
                f"{ON} WHEN MATCHED AND s.k = 0 THEN UPDATE SET id = 9, k = 115"
                " WHEN NOT MATCHED AND s.k = 315 THEN INSERT VALUES (9, 115, 0, 'x')"
            ),
            "23505",
        ),
        (
            (
                "MERGE INTO p USING (TABLE s UNION ALL SELECT id, k, 0 FROM s WHERE k = 210) s"
                " ON p.id = s.id AND p.k = s.k WHEN MATCHED THEN UPDATE SET k = 299 - p.k"
            ),
            "21000",
        ),
        (
            (
                "MERGE INTO p USING (TABLE s UNION ALL SELECT id, k, -1 FROM s WHERE k = 210) s"
                " ON p.id = s.id AND p.k = s.k WHEN MATCHED AND s.v < 0 THEN DELETE"
                " WHEN MATCHED THEN UPDATE SET k = 299 - p.k"
            ),
            "21000",
        ),
    ],
)
def test_what_postgresql_refuses_is_refused_alike(both, statement: str, code: str) -> None:
    for connection in both:
        before = sorted(connection.execute("TABLE p").fetchall())
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(statement)
        assert (connection is both[0], raised.value.sqlstate) == (connection is both[0], code)
        assert sorted(connection.execute("TABLE p").fetchall()) == before


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        # Whether that succeeds depends on which row comes first.
        (f"{ON} WHEN MATCHED THEN UPDATE SET k = p.k + 15, id = (p.id + 3) % 10", "gives another"),
        (
            (
                f"{ON} WHEN MATCHED AND s.k = 0 THEN DELETE"
                " WHEN MATCHED AND s.k = 15 THEN UPDATE SET id = 0, k = 0"
            ),
            "it deletes",
        ),
        (
            (
                f"{ON} WHEN MATCHED AND s.k = 0 THEN UPDATE SET k = 299"
                " WHEN NOT MATCHED AND s.k = 300 THEN INSERT VALUES (0, 0, 0, 'x')"
            ),
            "gives another",
        ),
    ],
)
def test_what_depends_on_the_order_of_rows_is_refused(both, statement: str, named: str) -> None:
    _, gateway = both
    before = sorted(gateway.execute("TABLE p").fetchall())
    with pytest.raises(errors.FeatureNotSupported, match=named):
        gateway.execute(statement)
    assert sorted(gateway.execute("TABLE p").fetchall()) == before


def test_rights_are_those_on_the_table_that_is_named(both, two_tiers_pair: Pair) -> None:
    plain, gateway = both
    moves = f"{ON} WHEN MATCHED AND s.k = 0 THEN UPDATE SET k = 299"
    for right, table in (("USAGE", f"SCHEMA {SCHEMA}"), ("SELECT", "s"), ("SELECT", "p")):
        if right == "USAGE":
            gateway.execute("CREATE ROLE merger LOGIN")
        gateway.execute(f"GRANT {right} ON {table} TO merger")
    try:
        with connected(two_tiers_pair, "merger") as merger:
            for statement in (moves, f"{ON} WHEN MATCHED THEN DELETE", f"{ON} {INSERT}"):
                with pytest.raises(errors.InsufficientPrivilege):
                    merger.execute(statement)
            gateway.execute("GRANT UPDATE (k, v), DELETE ON p TO merger")
            with pytest.raises(errors.InsufficientPrivilege):
                merger.execute(f"{ON} WHEN MATCHED THEN UPDATE SET t = 'x'")
            # PostgreSQL asks for no right to insert there.
            merger.execute("BEGIN")
            assert merger.execute(moves).statusmessage == "MERGE 1"
            everywhere = f"{ON} WHEN MATCHED THEN UPDATE SET k = 299 - p.k"
            found = merger.execute(f"{everywhere} RETURNING p.*, old.k").fetchall()
            after = sorted(merger.execute("TABLE p").fetchall())
            merger.execute("ROLLBACK")
            plain.execute("BEGIN")
            plain.execute(moves)
            expected = plain.execute(f"{everywhere} RETURNING p.*, old.k").fetchall()
            assert sorted(found) == sorted(expected)
            assert after == sorted(plain.execute("TABLE p").fetchall())
            plain.execute("ROLLBACK")
            with pytest.raises(errors.UniqueViolation):
                merger.execute(f"{ON} AND p.id = 0 WHEN MATCHED THEN UPDATE SET k = 205")
            with pytest.raises(errors.CheckViolation):
                merger.execute(f"{ON} WHEN MATCHED THEN UPDATE SET k = 299 - p.k, v = 13")
            # For an action that inserts it asks for the columns that are given.
            gateway.execute("GRANT INSERT (id, k, v) ON p TO merger")
            with pytest.raises(errors.InsufficientPrivilege):
                merger.execute(f"{ON} {INSERT}")
            merger.execute("BEGIN")
            some = "WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (s.id, s.k - 199, s.v)"
            assert merger.execute(f"{ON} {some}").statusmessage == "MERGE 2"
            merger.execute("ROLLBACK")
            merger.execute("BEGIN")
            done = merger.execute(
                f"{ON} WHEN MATCHED AND s.v < 30 THEN UPDATE SET v = 1 WHEN MATCHED THEN DELETE"
            )
            assert done.statusmessage == "MERGE 20"
            merger.execute("ROLLBACK")
            gateway.execute("GRANT INSERT ON p TO merger")
            merger.execute("BEGIN")
            assert merger.execute(moves).statusmessage == "MERGE 1"
            merger.execute("ROLLBACK")
    finally:
        for table in ("SCHEMA " + SCHEMA, "s", "p"):
            gateway.execute(f"REVOKE ALL ON {table} FROM merger")
        gateway.execute("DROP ROLE merger")


def test_partitions_that_cannot_become_tiered_are_refused(both) -> None:
    _, gateway = both
    gateway.execute(
        "CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'"
    )
    gateway.execute("CREATE TRIGGER told BEFORE UPDATE ON p2 FOR EACH ROW EXECUTE FUNCTION told()")
    try:
        with pytest.raises(errors.FeatureNotSupported, match=r'"p2".*TRIGGER'):
            gateway.execute(f"{ON} WHEN MATCHED THEN UPDATE SET v = 0")
    finally:
        gateway.execute("DROP FUNCTION told() CASCADE")


@pytest.mark.parametrize(
    ("condition", "k", "others"),
    [
        ("k = %s", 105, ("p0", "p2")),
        ("k = %s", 210, ("p0", "p1a", "p1b")),
        ("id < 10 AND k = %s", 5, ("p1a", "p1b", "p2")),
        ("(k, id) = (%s, 1)", 5, ("p1a", "p1b", "p2")),
    ],
)
def test_statements_that_have_run_often_wait_for_writers_of_no_other_partition(
    both, two_tiers_pair: Pair, condition: str, k: int, others: tuple[str, ...]
) -> None:
    """PostgreSQL locks all partitions that a plan it keeps for all values names."""
    _, gateway = both
    statement = f"UPDATE p SET v = v + 0 WHERE {condition}"
    # Small tables let PostgreSQL prefer such a plan.
    gateway.execute("VACUUM (ANALYZE) p")
    with connected(two_tiers_pair) as often:
        for _ in range(8):
            assert often.execute(statement, [k], prepare=True).statusmessage == "UPDATE 1"
        often.execute("SET lock_timeout = '3s'")
        with gateway.transaction():
            for leaf in others:
                gateway.execute(f"LOCK TABLE ONLY {leaf} IN EXCLUSIVE MODE")
            assert often.execute(statement, [k], prepare=True).statusmessage == "UPDATE 1"


def test_small_writers_lose_nothing(both, two_tiers_pair: Pair) -> None:
    """One counts rows up by MERGE of all partitions, others single ones; rows move on the way."""
    _, gateway = both
    failures: list[psycopg.Error] = []
    rounds, steps = 6, 60

    def count(k: int, statement: str) -> None:
        try:
            with connected(two_tiers_pair) as counter:
                for _ in range(steps):
                    counter.execute(statement, [k])  # type: ignore[call-overload]
        except psycopg.Error as error:
            failures.append(error)

    before = gateway.execute("SELECT k, v FROM p WHERE k IN (210, 240, 105)").fetchall()
    counting = "UPDATE p SET v = v + 1 WHERE k = %s"
    threads = [threading.Thread(target=count, args=(k, counting)) for k in (210, 240, 105)]
    for thread in threads:
        thread.start()
    try:
        for number in range(rounds):
            # A row that is far from what others write goes to a resident leaf, and back.
            there, back = (1, 291) if number % 2 == 0 else (291, 1)
            gateway.execute(
                "MERGE INTO p USING (SELECT 1 AS one FROM s LIMIT 1) s ON p.k >= s.one"
                f" WHEN MATCHED AND p.k = {5 if number == 0 else there} THEN UPDATE SET k = {back}"
                " WHEN MATCHED THEN UPDATE SET v = p.v + 1000"
            )
        for thread in threads:
            thread.join()
        assert not failures
        found = dict(gateway.execute("SELECT k, v FROM p WHERE k IN (210, 240, 105)").fetchall())
        assert found == {k: v + steps + 1000 * rounds for k, v in before}
        for leaf in LEAVES:
            assert gateway.execute(f"SELECT gateway.check('{SCHEMA}.{leaf}')").fetchall() == [(0,)]
    finally:
        for thread in threads:
            thread.join()
        gateway.execute("DELETE FROM p")
        gateway.execute(FILL)
