"""Partitioned tables with tiered partitions: who answers, who may, who waits for whom."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from psycopg import errors

from tests.support.attentive import VISIT_S
from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

SCHEMA = "partitions_served"

PATIENCE_S = 60.0
"""How long upkeep may take to change the residency of a table."""

COLUMNS = "(k integer, id integer, v integer, w text, PRIMARY KEY (k, id))"

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    f"CREATE TABLE p {COLUMNS} PARTITION BY RANGE (k)",
    "CREATE TABLE p_0 PARTITION OF p FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (100) TO (200)",
    "CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (200) TO (300)",
    "INSERT INTO p SELECT g, g, g * 10, 'w' || g FROM generate_series(0, 299) g",
)


def connected(pair: Pair, user: str = "postgres") -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c lock_timeout=60s"
    return psycopg.connect(
        pair.gateway.conninfo(pair.database), user=user, autocommit=True, options=options
    )


def residency(connection: psycopg.Connection, table: str) -> str:
    query = "SELECT residency FROM gateway.tables WHERE schema_name = %s AND table_name = %s"
    (row,) = connection.execute(query, [SCHEMA, table]).fetchall()
    return row[0]


def decision(connection: psycopg.Connection) -> str:
    (row,) = connection.execute("SHOW gateway.last_decision").fetchall()
    return row[0]


def rows(connection: psycopg.Connection, statement: str, *values: object, **options: bool):
    return sorted(connection.execute(statement, values or None, **options).fetchall())


@pytest.fixture
def served(two_tiers_pair: Pair) -> Iterator[Pair]:
    """A table of three partitions, of which the first two are tiered."""
    gateway, database = two_tiers_pair.gateway, two_tiers_pair.database
    gateway.execute(*SETUP, database=database)
    with connected(two_tiers_pair) as connection:
        make_tiered(connection, "p_0", "p_1")
    yield two_tiers_pair
    with connected(two_tiers_pair) as connection:
        names = connection.execute(
            "SELECT concat(schema_name, '.', table_name) FROM gateway.tables"
            " WHERE schema_name = %s",
            [SCHEMA],
        ).fetchall()
        for (name,) in names:
            assert rows(connection, f"SELECT gateway.check('{name}')") == [(0,)]
    gateway.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=database)


@pytest.fixture
def client(served: Pair) -> Iterator[psycopg.Connection]:
    """A connection to the gateway."""
    with connected(served) as connection:
        yield connection


@pytest.fixture
def other(served: Pair) -> Iterator[psycopg.Connection]:
    """A second one."""
    with connected(served) as connection:
        yield connection


def test_all_partitions_are_checked(client: psycopg.Connection) -> None:
    client.execute("UPDATE p SET v = v + 1 WHERE k = 50")
    assert rows(client, "SELECT gateway.check('p')") == [(0,)]
    client.execute("CREATE TABLE q (LIKE p) PARTITION BY LIST (k)")
    assert rows(client, "SELECT gateway.check('q')") == [(0,)]
    client.execute("CREATE TABLE q_1 PARTITION OF q DEFAULT")
    client.execute("INSERT INTO q SELECT * FROM p")
    assert rows(client, "SELECT gateway.check('q')") == [(0,)]


def test_who_answers(client: psycopg.Connection) -> None:
    parts, spark = "postgres: resident partitions only", "spark: tiered tables"
    thawed = "postgres, on thawed rows: single rows by key"
    for statement, expected in (
        ("SELECT * FROM p WHERE k = 250 AND id = 250", parts),
        ("SELECT count(*) FROM p WHERE k >= 200", parts),
        ("SELECT * FROM p WHERE k = 5 AND id = 5", spark),
        ("SELECT count(*) FROM p", spark),
        ("UPDATE p SET v = 0 WHERE k = 250 AND id = 250", parts),
        ("UPDATE p SET v = 0 WHERE k = 5 AND id = 5", thawed),
        ("UPDATE p SET v = 0 WHERE id IN (5, 105)", "spark: several partitions"),
        ("INSERT INTO p VALUES (251, 1)", parts),
        ("INSERT INTO p VALUES (6, 1)", "postgres, then the journal: tiered tables"),
        ("INSERT INTO p VALUES (6, 2), (106, 2)", "postgres, then the journal: several partitions"),
        ("DELETE FROM p WHERE k >= 200 AND id = 2", parts),
    ):
        client.execute(statement)
        assert (decision(client), statement) == (expected, statement)


def test_prepared_statements_follow_their_values_and_residency(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    query = "SELECT v FROM p WHERE k = %s AND id = %s"
    for k in (5, 105, 205, 5, 400):
        expected = [] if k == 400 else [(k * 10,)]
        assert rows(client, query, k, k, prepare=True) == expected
    make_tiered(other, "p_2")
    for k in (205, 5):
        assert rows(client, query, k, k, prepare=True) == [(k * 10,)]
    change = "UPDATE p SET v = v + 1 WHERE k = %s AND id = %s RETURNING v"
    for k in (5, 205, 105, 5):
        client.execute(change, [k, k], prepare=True)
    assert rows(client, "SELECT k, v FROM p WHERE id IN (5, 105, 205)") == [
        (5, 52),
        (105, 1051),
        (205, 2051),
    ]


def test_times_that_are_not_constants_prune_nothing_too_early(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE d (at timestamptz, v integer) PARTITION BY RANGE (at)")
    client.execute("CREATE TABLE d_old PARTITION OF d FOR VALUES FROM (MINVALUE) TO ('2020-01-01')")
    client.execute("CREATE TABLE d_new PARTITION OF d FOR VALUES FROM ('2020-01-01') TO (MAXVALUE)")
    client.execute("INSERT INTO d VALUES ('2019-06-01', 1), (now(), 2), (now(), 3)")
    make_tiered(client, "d_old", "d_new")
    assert rows(client, "SELECT v FROM d WHERE at <= now()") == [(1,), (2,), (3,)]
    assert rows(client, "SELECT v FROM d WHERE at > now() - interval '1 year'") == [(2,), (3,)]
    client.execute("DELETE FROM d WHERE at > now() - interval '1 year' AND v = 3")
    assert rows(client, "SELECT v FROM d") == [(1,), (2,)]


def test_cold_rows_keep_partitions_from_being_attached(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE alone (LIKE p INCLUDING ALL)")
    client.execute("INSERT INTO alone VALUES (5000, 1)")
    make_tiered(client, "alone")
    with pytest.raises(errors.FeatureNotSupported, match="ATTACH PARTITION of a tiered table"):
        client.execute("ALTER TABLE p ATTACH PARTITION alone FOR VALUES FROM (300) TO (400)")
    client.execute("CREATE TABLE p_rest PARTITION OF p DEFAULT")
    client.execute("INSERT INTO p VALUES (1000, 1), (350, 2)")
    make_tiered(client, "p_rest")
    for text in (
        "CREATE TABLE p_3 PARTITION OF p FOR VALUES FROM (300) TO (400)",
        "CREATE TABLE p_3 PARTITION OF p FOR VALUES FROM (300) TO (400) PARTITION BY LIST (k)",
    ):
        with pytest.raises(errors.FeatureNotSupported, match="beside the default one"):
            client.execute(text)
    client.execute("CREATE TABLE p_3 (LIKE p INCLUDING ALL)")
    with pytest.raises(errors.FeatureNotSupported, match="beside the default one"):
        client.execute("ALTER TABLE p ATTACH PARTITION p_3 FOR VALUES FROM (300) TO (400)")
    assert rows(client, "SELECT k, id FROM p WHERE k >= 300") == [(350, 2), (1000, 1)]
    client.execute("ALTER TABLE p DETACH PARTITION p_rest")
    client.execute("CREATE TABLE p_4 PARTITION OF p FOR VALUES FROM (300) TO (400)")
    client.execute("INSERT INTO p VALUES (350, 3)")
    assert rows(client, "SELECT k, id FROM p WHERE k >= 300") == [(350, 3)]
    assert rows(client, "SELECT k, id FROM p_rest") == [(350, 2), (1000, 1)]


def test_what_a_partitioned_table_pins(client: psycopg.Connection) -> None:
    query = "SELECT pinned_by FROM gateway.tables WHERE schema_name = %s AND table_name = 'p_2'"
    assert rows(client, query, SCHEMA) == [(None,)]
    with pytest.raises(errors.FeatureNotSupported, match="ROW LEVEL SECURITY"):
        client.execute("ALTER TABLE p ENABLE ROW LEVEL SECURITY")
    with pytest.raises(errors.FeatureNotSupported, match="tiered"):
        client.execute(
            "CREATE TABLE child (k integer, id integer, FOREIGN KEY (k, id) REFERENCES p)"
        )
    with pytest.raises(errors.FeatureNotSupported, match="can reach the tiered table"):
        client.execute(
            "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM p'"
        )
    with pytest.raises(errors.FeatureNotSupported, match="can reach the tiered table"):
        client.execute("DO $$ BEGIN UPDATE p SET v = 1; END $$")
    with pytest.raises(errors.FeatureNotSupported):
        client.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) FROM p")
    changing = "WITH gone AS (DELETE FROM p RETURNING k) SELECT k FROM gone"
    with pytest.raises(errors.FeatureNotSupported, match="must not use data-modifying"):
        client.execute(f"CREATE MATERIALIZED VIEW m AS {changing}")
    client.execute("CREATE VIEW below_300_of_p AS SELECT k, v FROM p WHERE id < 300")
    assert rows(client, "SELECT count(*) FROM below_300_of_p WHERE k < 150") == [(150,)]


def test_partitions_are_detached_while_others_use_the_table(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    client.execute("UPDATE p SET v = 7 WHERE k = 105 AND id = 105")
    client.execute("ALTER TABLE p DETACH PARTITION p_1 CONCURRENTLY")
    assert rows(other, "SELECT count(*) FROM p") == [(200,)]
    assert rows(other, "SELECT v FROM p_1 WHERE k = 105 AND id = 105") == [(7,)]
    client.execute("UPDATE p_1 SET v = 8 WHERE k = 105 AND id = 105")
    assert rows(other, "SELECT count(*), max(v) FROM p_1 WHERE k = 105") == [(1, 8)]
    client.execute("DROP TABLE p_1")
    assert rows(other, "SELECT count(*) FROM p") == [(200,)]


def test_the_journal_of_the_table_has_those_of_all_partitions(client: psycopg.Connection) -> None:
    client.execute("UPDATE p SET v = 7 WHERE k = 105 AND id = 105")
    client.execute("DELETE FROM p WHERE k = 205 AND id = 205")
    journal = "SELECT v, subsequent_version_number IS NULL FROM p_journal WHERE id IN (105, 205)"
    assert rows(client, journal) == [(7, True), (1050, True), (2050, False), (2050, True)]


def test_residency_of_the_table_is_that_of_its_partitions(client: psycopg.Connection) -> None:
    client.execute("ALTER TABLE p SET (gateway.residency = never)")
    deadline = time.monotonic() + PATIENCE_S
    while residency(client, "p_2") != "tiered":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert rows(client, "SELECT count(*), sum(v) FROM p") == [(300, 448500)]
    client.execute("ALTER TABLE p SET (gateway.residency = auto)")
    while any(residency(client, f"p_{n}") != "resident" for n in range(3)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert rows(client, "SELECT count(*), sum(v) FROM p") == [(300, 448500)]


def test_who_reads_by_one_snapshot(client: psycopg.Connection, other: psycopg.Connection) -> None:
    client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert rows(client, "SELECT sum(v) FROM p") == [(448500,)]
    other.execute("UPDATE p SET v = 0 WHERE id IN (5, 105, 205)")
    assert rows(client, "SELECT sum(v) FROM p") == [(448500,)]
    with pytest.raises(errors.SerializationFailure):
        client.execute("UPDATE p SET v = v + 1 WHERE id IN (5, 105)")
    client.execute("ROLLBACK")
    client.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    client.execute("UPDATE p SET v = v + 1 WHERE id IN (5, 105, 205)")
    client.execute("INSERT INTO p VALUES (6, 1000, 1), (206, 1000, 1)")
    client.execute("COMMIT")
    assert rows(client, "SELECT sum(v) FROM p") == [(448500 - 3150 + 5,)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM p USING t WHERE t.v = p.id AND p.k > 200",
        "UPDATE p SET k = k + (random() * 0)::integer WHERE id = 5",
        "UPDATE p_0 SET k = k + 1 WHERE w > 'a'",
        "MERGE INTO p_0 USING p_1 s ON p_0.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1, s.id)",
        "SELECT count(*) FROM ONLY p",
        "DELETE FROM ONLY p",
        "INSERT INTO p SELECT k, id + 1000 FROM ONLY p",
    ],
)
def test_it_is_refused_by_name(client: psycopg.Connection, statement: str) -> None:
    client.execute("CREATE TABLE t (v integer PRIMARY KEY)")
    client.execute("INSERT INTO t VALUES (5), (105)")
    make_tiered(client, "t")
    with pytest.raises(errors.FeatureNotSupported):
        client.execute(statement)
    assert rows(client, "SELECT count(*), sum(v), sum(k) FROM p") == [(300, 448500, 44850)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO p SELECT k, id + 1 FROM p ON CONFLICT DO NOTHING",
        "INSERT INTO p VALUES (5, 5 + (random() * 0)::integer), (105, 105) ON CONFLICT DO NOTHING",
        "UPDATE p SET v = (SELECT max(v) FROM p) WHERE id IN (5, 105, 205) RETURNING k, v",
        "UPDATE p SET v = t.v FROM t WHERE t.v = p.id RETURNING p.*",
        "UPDATE p SET k = k + 100 WHERE id = 5 RETURNING id, k",
        "UPDATE p SET k = k + 100 WHERE id % 90 = 5 AND k < 200 RETURNING id, k",
        "SELECT tableoid::regclass::text, k FROM p WHERE k < 220",
        "SELECT * FROM p WHERE id IN (105, 205) FOR UPDATE",
        "SELECT * FROM p WHERE id IN (5, 105) FOR UPDATE SKIP LOCKED",
        "WITH gone AS (DELETE FROM p WHERE id % 70 = 1 RETURNING *) SELECT * FROM gone",
        (
            "WITH gone AS (DELETE FROM p WHERE k IN (5, 105, 205) RETURNING *)"
            " INSERT INTO p SELECT 299 - k, id, v, w FROM gone RETURNING *"
        ),
    ],
)
def test_resident_and_tiered_partitions_change_together(
    served: Pair, client: psycopg.Connection, statement: str
) -> None:
    """PostgreSQL runs it, on hot rows of tiered partitions and all rows of resident ones."""
    client.execute("CREATE TABLE t (v integer PRIMARY KEY)")
    client.execute("INSERT INTO t VALUES (5), (105), (205)")
    make_tiered(client, "t")
    with psycopg.connect(served.plain.conninfo(served.database), autocommit=True) as plain:
        for one in (*SETUP, "CREATE TABLE t AS SELECT unnest(ARRAY[5, 105, 205]) AS v"):
            plain.execute(one)
        answers = [connection.execute(statement) for connection in (client, plain)]
        told = [(answer.statusmessage, answer.rownumber is not None) for answer in answers]
        assert told[0] == told[1]
        if told[0][1]:
            assert sorted(answers[0].fetchall()) == sorted(answers[1].fetchall())
        assert rows(client, "SELECT * FROM p") == rows(plain, "SELECT * FROM p")
        for leaf in ("p_0", "p_1", "p_2"):
            assert rows(client, f"SELECT * FROM {leaf}") == rows(plain, f"SELECT * FROM {leaf}")
        plain.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_a_cursor_goes_back_over_resident_and_tiered_partitions(
    client: psycopg.Connection,
) -> None:
    client.execute("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT k FROM p ORDER BY k DESC")
    fetched = [
        client.execute(f"FETCH {motion} FROM c").fetchall()
        for motion in ("2", "LAST", "PRIOR", "FIRST")
    ]
    assert fetched == [[(299,), (298,)], [(0,)], [(1,)], [(299,)]]


@pytest.mark.parametrize(
    "earlier",
    [
        "UPDATE p SET v = 1 WHERE k = 105 AND id = 105",
        "INSERT INTO p VALUES (106, 1000)",
        "INSERT INTO p SELECT 100 + g, 1000 + g FROM generate_series(1, 3) g",
        "DELETE FROM p WHERE k BETWEEN 100 AND 199 AND id % 2 = 0",
        "UPDATE p SET v = 1 WHERE id % 50 = 0",
    ],
)
def test_rows_go_to_no_partition_that_another_statement_has_announced(
    client: psycopg.Connection, earlier: str
) -> None:
    merged = (
        "MERGE INTO p USING (VALUES ({0}, {0}), (107, 107)) s (a, b)"
        " ON p.k = s.a AND p.id = s.b AND p.k {1}"
        " WHEN MATCHED THEN UPDATE SET v = -1"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.a + 0, s.b, -2)"
    )
    # What reaches tiered partitions looks for the key in those that rows may go to.
    for statement, error in (
        (merged.format(205, ">= 200"), errors.FeatureNotSupported),
        (merged.format(5, "< 100"), errors.UniqueViolation),
    ):
        client.execute("BEGIN")
        client.execute(earlier)
        with pytest.raises(error):
            client.execute(statement)
        client.execute("ROLLBACK")
    assert rows(client, "SELECT count(*), sum(v) FROM p") == [(300, 448500)]


def test_many_rows_for_one_partition_and_few_for_another(client: psycopg.Connection) -> None:
    client.execute(
        "INSERT INTO p SELECT CASE WHEN g < 15000 THEN g % 100 ELSE 105 END, g, 1"
        " FROM generate_series(10000, 15001) g"
    )
    counts = "SELECT k >= 100, count(*) FROM p WHERE id >= 10000 GROUP BY 1"
    assert rows(client, counts) == [(False, 5000), (True, 2)]


def test_rows_are_merged_into_several_partitions_by_key(client: psycopg.Connection) -> None:
    upsert = "INSERT INTO p VALUES (%s, %s, 1), (%s, %s, 1) ON CONFLICT (k, id) DO UPDATE SET v = 0"
    client.execute(upsert, [5, 5, 105, 105])
    assert decision(client) == "postgres, on thawed rows: single rows by key"
    client.execute(upsert, [6, 6, 206, 206])
    client.execute(upsert, [7, 1007, 107, 1107])
    client.execute(upsert, [8, 8, 9, 9])
    assert decision(client) == "postgres, on thawed rows: single rows by key"
    client.execute(upsert, [208, 208, 209, 209])
    assert rows(client, "SELECT count(*), sum(v) FROM p") == [
        (302, 448500 - 50 - 1050 - 60 - 2060 + 2 - 80 - 90 - 2080 - 2090)
    ]
    merge = (
        "MERGE INTO p USING (VALUES (5, 5), (105, 105), (10, 2010), (210, 2210)) s (k, id)"
        " ON p.k = s.k AND p.id = s.id WHEN MATCHED THEN UPDATE SET k = 299 - p.k, id = 3000 + p.k"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.id, 7)"
    )
    client.execute(merge)
    assert decision(client) == "postgres, on thawed rows: single rows by key"
    assert rows(client, "SELECT k, id, v FROM p WHERE id > 2000") == [
        (10, 2010, 7),
        (194, 3105, 0),
        (210, 2210, 7),
        (294, 3005, 0),
    ]
    # All keys are those of resident partitions.
    client.execute(
        "MERGE INTO p USING (VALUES (205, 205), (206, 6206)) s (k, id) ON p.k = s.k AND p.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.id, 7)"
    )
    assert rows(client, "SELECT k, id FROM p WHERE k IN (205, 206)") == [(206, 206), (206, 6206)]


def test_rows_that_no_keys_name_are_merged_by_spark(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (v integer PRIMARY KEY)")
    client.execute("INSERT INTO t VALUES (6), (106), (206)")
    make_tiered(client, "t")
    for statement, merged in (
        ("MERGE INTO p USING (VALUES (5)) s (i) ON p.id = s.i WHEN MATCHED THEN DELETE", 1),
        ("MERGE INTO p USING t ON p.k = t.v AND p.id = t.v WHEN MATCHED THEN DELETE", 3),
    ):
        assert client.execute(statement).statusmessage == f"MERGE {merged}"
        assert decision(client) == "spark: several partitions"
    found = [(300 - 4, 448500 - 50 - 60 - 1060 - 2060)]
    assert rows(client, "SELECT count(*), sum(v) FROM p") == found
    client.execute(
        "MERGE INTO p USING (VALUES (7, 7), (107, 107), (207, 207)) s (k, i)"
        " ON p.k = s.k AND p.id = s.i WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert rows(client, "SELECT k FROM p") == [(7,), (107,), (207,)]


def test_a_merge_moves_a_row_between_tiered_partitions(client: psycopg.Connection) -> None:
    moved = (
        "MERGE INTO p USING (VALUES (5, 5)) s (k, id) ON p.k = s.k AND p.id = s.id"
        " WHEN MATCHED THEN UPDATE SET k = 150, id = 5"
    )
    client.execute(moved)
    assert rows(client, "SELECT k, v FROM p WHERE id = 5") == [(150, 50)]
    assert rows(client, "SELECT count(*), count(*) FILTER (WHERE k = 150) FROM p_1") == [(101, 2)]
    client.execute(moved)
    with pytest.raises(errors.UniqueViolation):
        client.execute(moved.replace("(5, 5)", "(6, 6)"))
    journal = "SELECT k, subsequent_version_number IS NULL FROM p_journal WHERE id = 5"
    assert rows(client, journal) == [(5, False), (5, True), (150, True)]


def test_who_merges_rows_of_several_partitions_waits_for_others(served: Pair) -> None:
    """Counters in three partitions, which two sessions count up in opposite order.

    They lock them in that order, row by row, so that there are deadlocks, as in PostgreSQL.
    """
    failures = []

    def count(order: int) -> None:
        values = [f"({k}, {k + 5000}, 1)" for k in (5, 105, 205)][::order]
        try:
            with connected(served) as counter:
                counted = 0
                while counted < 15:
                    with suppress(errors.DeadlockDetected):
                        counter.execute(
                            f"INSERT INTO p VALUES {', '.join(values)}"
                            " ON CONFLICT (k, id) DO UPDATE SET v = p.v + 1"
                        )
                        counted += 1
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=count, args=(order,)) for order in (1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with connected(served) as connection:
        assert rows(connection, "SELECT k, v FROM p WHERE id > 5000") == [
            (5, 30),
            (105, 30),
            (205, 30),
        ]


def test_spark_is_asked_for(client: psycopg.Connection) -> None:
    client.execute("SET gateway.executor = spark")
    assert rows(client, "SELECT count(*), sum(v) FROM p WHERE k >= 200") == [(100, 249500)]
    assert decision(client) == "spark: tiered tables"
    client.execute("UPDATE p SET v = 0 WHERE k < 200 AND id IN (5, 105)")
    with pytest.raises(errors.FeatureNotSupported, match="resident partitions"):
        client.execute("UPDATE p SET v = 0 WHERE id IN (5, 205)")
    client.execute("INSERT INTO p VALUES (7, 1000, 1), (207, 1000, 1)")
    assert rows(client, "SELECT count(*), sum(v) FROM p") == [(302, 448500 - 1100 + 2)]


def test_privileges_are_those_of_the_table_that_is_named(
    served: Pair, client: psycopg.Connection
) -> None:
    client.execute("DROP ROLE IF EXISTS clerk")
    client.execute("CREATE ROLE clerk LOGIN")
    client.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO clerk")
    client.execute("GRANT SELECT, INSERT, UPDATE ON p TO clerk")
    with connected(served, "clerk") as clerk:
        assert rows(clerk, "SELECT v FROM p WHERE k = 5 AND id = 5") == [(50,)]
        assert rows(clerk, "SELECT count(*) FROM p") == [(300,)]
        clerk.execute("UPDATE p SET v = 1 WHERE k = 5 AND id = 5")
        clerk.execute("UPDATE p SET v = v + 1 WHERE id IN (5, 105, 205)")
        clerk.execute("INSERT INTO p VALUES (6, 1), (106, 1), (206, 1)")
        assert rows(clerk, "SELECT k, v FROM p WHERE id IN (1, 5, 105, 205)") == [
            (1, 10),
            (5, 2),
            (6, None),
            (105, 1051),
            (106, None),
            (205, 2051),
            (206, None),
        ]
        for statement in ("DELETE FROM p WHERE k = 5 AND id = 5", "DELETE FROM p", "TRUNCATE p"):
            with pytest.raises(errors.InsufficientPrivilege):
                clerk.execute(statement)
        for statement in ("SELECT * FROM p_0", "UPDATE p_0 SET v = 1 WHERE k = 5 AND id = 5"):
            with pytest.raises(errors.InsufficientPrivilege):
                clerk.execute(statement)
    client.execute("REVOKE ALL ON p FROM clerk")
    client.execute(f"REVOKE ALL ON SCHEMA {SCHEMA} FROM clerk")
    client.execute("DROP ROLE clerk")


def test_writers_of_a_partition_meet_row_by_row(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    with client.transaction():
        client.execute("UPDATE p SET v = 1 WHERE k = 5 AND id = 5")
        other.execute("UPDATE p SET v = 2 WHERE k = 6 AND id = 6")
        with pytest.raises(errors.LockNotAvailable):
            other.execute("SELECT * FROM p WHERE k = 5 AND id = 5 FOR UPDATE NOWAIT")
        other.execute("UPDATE p SET v = 3 WHERE k = 105 AND id = 105")
        other.execute("INSERT INTO p VALUES (7, 1), (8, 1)")
    assert rows(client, "SELECT v FROM p WHERE id IN (5, 6, 105)") == [(1,), (2,), (3,)]


def test_a_partition_does_not_become_tiered_while_rows_are_routed(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute("CREATE TABLE q (k integer PRIMARY KEY) PARTITION BY RANGE (k)")
    for n in range(2):
        other.execute(f"CREATE TABLE q_{n} PARTITION OF q FOR VALUES FROM ({n}) TO ({n + 1})")
    with client.transaction():
        client.execute("INSERT INTO q VALUES (0)")
        other.execute("ALTER TABLE q_1 SET (gateway.residency = never)")
        time.sleep(2 * VISIT_S)
        assert residency(other, "q_1") == "resident"
        client.execute("INSERT INTO q VALUES (1)")
    make_tiered(other, "q_1")
    assert rows(client, "SELECT * FROM q") == [(0,), (1,)]


def test_nothing_is_lost_while_partitions_come_and_go_cold(
    served: Pair, client: psycopg.Connection
) -> None:
    """Amounts that move between rows of three partitions, of which one changes its residency."""
    client.execute("UPDATE p SET v = 100")
    stop, failures = threading.Event(), []

    def move(seed: int) -> None:
        done = 0
        with connected(served) as mover:
            while not stop.is_set():
                one, two = (seed + done * 7) % 300, (seed + done * 7 + 100) % 300
                try:
                    with mover.transaction():
                        for k, amount in sorted(((one, 1), (two, -1))):
                            mover.execute(
                                "UPDATE p SET v = v + %s WHERE k = %s AND id = %s", [amount, k, k]
                            )
                    done += 1
                except (errors.SerializationFailure, errors.DeadlockDetected):
                    pass
                except psycopg.Error as error:
                    failures.append(error)
                    return

    threads = [threading.Thread(target=move, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for wanted in ("never", "auto"):
        client.execute(f"ALTER TABLE p_2 SET (gateway.residency = {wanted})")
        # It locks one partition after the other, as movers do.
        with suppress(errors.DeadlockDetected):
            client.execute("UPDATE p SET w = 'seen' WHERE id % 50 = 0")
        time.sleep(4 * VISIT_S)
        assert rows(client, "SELECT sum(v) FROM p") == [(30000,)]
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert rows(client, "SELECT sum(v), count(*) FROM p") == [(30000, 300)]


def test_explain(client: psycopg.Connection) -> None:
    def explained(statement: str) -> str:
        return "\n".join(line for (line,) in client.execute(f"EXPLAIN {statement}").fetchall())

    assert "p_2" in explained("SELECT * FROM p WHERE k = 250")
    assert "resident partitions only" not in explained("SELECT * FROM p WHERE k < 150")
    assert "several partitions" in explained("UPDATE p SET v = 1 WHERE id = 5")
    merge = "MERGE INTO p USING (VALUES (5)) s (i) ON p.id = s.i WHEN MATCHED THEN"
    assert "several partitions" in explained(f"{merge} DELETE")
    assert "several partitions" in explained(f"{merge} UPDATE SET k = 299 - p.k")
    assert rows(client, "SELECT count(*), sum(k) FROM p") == [(300, 44850)]
    assert "UNION ALL" not in explained("SELECT count(*) FROM p WHERE k = 5")
    # Partitions of the same columns are one relation.
    assert "UNION ALL" not in explained("SELECT count(*) FROM p")
    client.execute("CREATE TABLE p_3 (w text, v integer, id integer NOT NULL, k integer NOT NULL)")
    client.execute("ALTER TABLE p ATTACH PARTITION p_3 FOR VALUES FROM (300) TO (400)")
    assert "UNION ALL" in explained("SELECT count(*) FROM p")
