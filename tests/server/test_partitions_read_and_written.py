"""Many rows of several partitions that are changed by what is read of them, as PostgreSQL does."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.both_sides import Both, both_sides
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "partitions_read_and_written"

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    (
        "CREATE TABLE p (k integer, r text, v numeric, d date DEFAULT '2024-01-01',"
        " PRIMARY KEY (k, r)) PARTITION BY LIST (r)"
    ),
    "CREATE TABLE p_a PARTITION OF p FOR VALUES IN ('a', 'b')",
    "CREATE TABLE p_c PARTITION OF p FOR VALUES IN ('c')",
    "CREATE TABLE p_d PARTITION OF p DEFAULT",
    "INSERT INTO p SELECT g, chr(97 + g % 6), g * 1.25 FROM generate_series(1, 4000) g",
)

ABOVE_AVERAGE = "DELETE FROM p WHERE v > (SELECT avg(v) FROM p)"

MANY = (
    (
        "UPDATE p SET v = v + x.s FROM (SELECT r, count(*) s FROM p GROUP BY r) x"
        " WHERE x.r = p.r AND p.k % 2 = 0"
    ),
    f"{ABOVE_AVERAGE} + 1000",
    (
        "UPDATE p SET v = (SELECT max(v) FROM p o WHERE o.r = p.r) + v WHERE r IN ('a', 'd', 'e')"
        " RETURNING k, old.v, new.v"
    ),
    (
        "UPDATE p SET d = d + 1 WHERE EXISTS"
        " (SELECT FROM p o WHERE o.k = p.k + 1 AND o.r <> p.r AND o.v > p.v)"
    ),
    "DELETE FROM p USING p o WHERE o.k = p.k + 6 AND o.r = p.r AND p.r < 'e' RETURNING p.*, o.k",
    "UPDATE p SET v = o.v FROM p o WHERE o.r = 'd' AND p.r IN ('a', 'f') AND o.k = p.k + 3",
)
"""Each of them changes other rows than one that reads a partition alone would."""


@pytest.fixture
def both(shared_pair: Pair) -> Iterator[Both]:
    """Connections to PostgreSQL and to the gateway, all of whose tables are tiered."""
    with both_sides(shared_pair, SCHEMA, SETUP) as sides:
        yield sides


def done(connection: psycopg.Connection, statement: str):
    """Return what a statement says."""
    cursor = connection.execute(statement)  # type: ignore[call-overload]
    returned = sorted(cursor.fetchall()) if cursor.description else None
    return cursor.statusmessage, returned


def rows(connection: psycopg.Connection):
    return sorted(connection.execute("TABLE p").fetchall())


def test_rows_are_those_of_postgresql(both) -> None:
    plain, gateway = both
    decisions = []
    for statement in MANY:
        assert done(gateway, statement) == done(plain, statement)
        decisions += gateway.execute("SHOW gateway.last_decision").fetchone()
        assert rows(gateway) == rows(plain)
    # Few enough are changed by PostgreSQL.
    assert decisions.count("spark: several partitions") >= 3
    for connection in both:
        connection.execute("BEGIN")
    # What a transaction has written itself is read as well.
    for statement in (*MANY, ABOVE_AVERAGE):
        assert done(gateway, statement) == done(plain, statement)
    assert rows(gateway) == rows(plain)
    for connection in both:
        connection.execute("ROLLBACK")
    assert rows(gateway) == rows(plain)


def test_explain_tells_who_runs_it(both) -> None:
    _, gateway = both

    def told(statement: str, options: str) -> str:
        return str(gateway.execute(f"EXPLAIN ({options}) {statement}").fetchall())

    before = rows(gateway)
    many = f"{ABOVE_AVERAGE} - 1000"
    few = "DELETE FROM p WHERE k < 9 AND v < (SELECT max(v) FROM p o WHERE o.k < 9)"
    for statement, reason in ((many, "several partitions"), (few, "single rows by key")):
        assert reason in told(statement, "FORMAT json")
    assert rows(gateway) == before
    gateway.execute("BEGIN")
    assert "Execution Time" in told(many, "ANALYZE")
    assert len(rows(gateway)) < len(before)
    gateway.execute("ROLLBACK")


def test_partitions_that_differ_are_refused(both) -> None:
    _, gateway = both
    gateway.execute("CREATE TABLE q (k integer, v integer) PARTITION BY RANGE (k)")
    gateway.execute("CREATE TABLE q_0 PARTITION OF q FOR VALUES FROM (0) TO (2000)")
    gateway.execute("CREATE TABLE q_1 (v integer, k integer)")
    gateway.execute("ALTER TABLE q ATTACH PARTITION q_1 FOR VALUES FROM (2000) TO (9000)")
    gateway.execute("INSERT INTO q SELECT g, g FROM generate_series(0, 3999) g")
    with pytest.raises(errors.FeatureNotSupported, match="partitions that differ"):
        gateway.execute("DELETE FROM q WHERE v > (SELECT avg(v) FROM q) - 1000")
    assert gateway.execute("SELECT count(*), sum(v) FROM q").fetchone() == (4000, 7998000)


def test_rows_that_move_and_very_many_are_refused(both) -> None:
    _, gateway = both
    before = rows(gateway)
    with pytest.raises(errors.FeatureNotSupported, match="or rows move"):
        gateway.execute("UPDATE p SET r = 'z' WHERE v > (SELECT avg(v) FROM p)")
    assert rows(gateway) == before
    gateway.execute("CREATE TABLE b (k integer PRIMARY KEY, t text) PARTITION BY RANGE (k)")
    gateway.execute("CREATE TABLE b_0 PARTITION OF b FOR VALUES FROM (0) TO (2000)")
    gateway.execute("CREATE TABLE b_1 PARTITION OF b FOR VALUES FROM (2000) TO (9000)")
    gateway.execute("INSERT INTO b SELECT g, 't' FROM generate_series(0, 3999) g")
    with pytest.raises(errors.FeatureNotSupported, match="very many rows"):
        gateway.execute("UPDATE b SET t = repeat('x', 9999) WHERE k < (SELECT max(k) FROM b)")
    assert gateway.execute("SELECT count(*), max(t) FROM b").fetchone() == (4000, "t")


def test_attempts_on_hot_rows_leave_no_lock_behind(both, shared_pair: Pair) -> None:
    _, gateway = both
    gateway.execute("UPDATE p SET v = v + 1 WHERE (k, r) IN ((6, 'a'), (8, 'c'), (9, 'd'))")
    statement = f"UPDATE {SCHEMA}.p SET v = v + (SELECT count(*) FROM {SCHEMA}.p)"
    (before,) = gateway.execute("SELECT sum(v) FROM p").fetchone()
    failures: list[psycopg.Error] = []

    def change() -> None:
        try:
            with psycopg.connect(shared_pair.gateway.conninfo(shared_pair.database)) as connection:
                for _ in range(3):
                    connection.execute(statement)  # type: ignore[call-overload]
                    connection.commit()
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert gateway.execute("SELECT sum(v) FROM p").fetchone() == (before + 6 * 4000 * 4000,)


def test_no_write_beside_it_is_lost(both, shared_pair: Pair) -> None:
    _, gateway = both
    rounds, steps = 3, 20
    failures: list[psycopg.Error] = []

    def count(k: int, r: str) -> None:
        try:
            with psycopg.connect(
                shared_pair.gateway.conninfo(shared_pair.database), autocommit=True
            ) as counter:
                for _ in range(steps):
                    counter.execute(
                        f"UPDATE {SCHEMA}.p SET v = v + 1 WHERE (k, r) = (%s, %s)", [k, r]
                    )
        except psycopg.Error as error:
            failures.append(error)

    keys = [(6, "a"), (8, "c"), (9, "d")]
    before = {k: gateway.execute("SELECT v FROM p WHERE k = %s", [k]).fetchone() for k, _ in keys}
    threads = [threading.Thread(target=count, args=key) for key in keys]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        gateway.execute(
            "UPDATE p SET v = v + x.n FROM (SELECT count(*) + 96000 AS n FROM p) x WHERE p.k <> 0"
        )
    for thread in threads:
        thread.join()
    assert not failures
    after = {k: gateway.execute("SELECT v FROM p WHERE k = %s", [k]).fetchone() for k, _ in keys}
    assert after == {k: (v + 100000 * rounds + steps,) for k, (v,) in before.items()}
