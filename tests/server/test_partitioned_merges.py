"""MERGE of many rows of several tiered partitions leaves what PostgreSQL would leave."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.both_sides import Both, both_sides, said_and_left
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "merged_partitions"

ROWS = 1500
"""More than may be hot at once."""

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    (
        "CREATE TABLE p (id int, k int, v int, t text, PRIMARY KEY (id, k), CHECK (v <> 66666))"
        " PARTITION BY RANGE (k)"
    ),
    *(
        f"CREATE TABLE p{n} PARTITION OF p FOR VALUES FROM ({n * 100}) TO ({n * 100 + 100})"
        for n in range(3)
    ),
    f"INSERT INTO p SELECT g, g % 200, g, 't' || g FROM generate_series(1, {ROWS}) g",
    "CREATE TABLE s (id int, k int, v int, t text)",
    (
        "INSERT INTO s SELECT g, g % 200, -g, CASE WHEN g % 5 > 0 THEN 's' || g END"
        f" FROM generate_series(200, {2 * ROWS}) g"
    ),
    "INSERT INTO s SELECT 10000 + g, 200 + g % 100, g, 'new' FROM generate_series(1, 50) g",
    # Columns in another order, as a table can have them that is attached.
    "CREATE TABLE q (LIKE p INCLUDING INDEXES) PARTITION BY RANGE (k)",
    "CREATE TABLE q0 PARTITION OF q FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE q1 (t text, v int, k int NOT NULL, id int NOT NULL, PRIMARY KEY (id, k))",
    "ALTER TABLE q ATTACH PARTITION q1 FOR VALUES FROM (100) TO (200)",
    "INSERT INTO q SELECT * FROM p",
    "CREATE TABLE r (LIKE p INCLUDING INDEXES) PARTITION BY HASH (id)",
    *(
        f"CREATE TABLE r{n} PARTITION OF r FOR VALUES WITH (MODULUS 3, REMAINDER {n})"
        for n in range(3)
    ),
    "INSERT INTO r SELECT * FROM p",
    "CREATE TABLE w (id int, k int, v int NOT NULL, t text) PARTITION BY RANGE (k)",
    *(
        f"CREATE TABLE w{n} PARTITION OF w FOR VALUES FROM ({n * 100}) TO ({n * 100 + 100})"
        for n in range(3)
    ),
    "INSERT INTO w SELECT p.* FROM p, generate_series(1, 2)",
    "VACUUM w0",
    "DELETE FROM w WHERE id % 10 = 3",
)
ON = "USING s ON p.id = s.id AND p.k = s.k"
INSERT = "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k, s.v, s.t)"


@pytest.fixture(scope="module")
def both(shared_pair: Pair) -> Iterator[Both]:
    """Connections to PostgreSQL and to the gateway, with the same tables."""
    with both_sides(shared_pair, SCHEMA, SETUP) as sides:
        yield sides


def outcome(connection: psycopg.Connection, statement: str, table: str):
    """Return what a statement says and leaves in each leaf, and take it back."""
    leaves = [table, *(f"{table}{n}" for n in range(3 if table in {"p", "w"} else 2))]
    queries = [f"SELECT id, k, v, t FROM {leaf}" for leaf in leaves]
    return said_and_left(connection, [statement], queries)


@pytest.mark.parametrize(
    "statement",
    [
        f"MERGE INTO p {ON} WHEN MATCHED THEN UPDATE SET v = s.v {INSERT}",
        (
            f"MERGE INTO p {ON} WHEN MATCHED AND s.t IS NULL THEN UPDATE SET v = s.v,"
            " t = p.t || 'x'"
            " WHEN MATCHED AND p.v % 2 = 0 THEN DO NOTHING WHEN MATCHED THEN DELETE"
        ),
        (
            f"MERGE INTO p {ON} WHEN MATCHED AND s.id < 700 THEN DO NOTHING"
            " WHEN NOT MATCHED AND s.v > 0 THEN INSERT (id, k, v) VALUES (s.id, s.k, s.v)"
            " WHEN NOT MATCHED AND s.t IS NOT NULL THEN INSERT VALUES (s.id, s.k, s.v, s.t)"
        ),
        (
            f"MERGE INTO p {ON} WHEN NOT MATCHED BY SOURCE AND p.k < 150 THEN DELETE"
            " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t = 'gone'"
            f" WHEN MATCHED THEN UPDATE SET v = 1 {INSERT}"
        ),
        (
            f"MERGE INTO p {ON} WHEN MATCHED AND s.id < 1000 THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET v = s.v {INSERT}"
            " RETURNING merge_action(), p.*, old.v, new.v"
        ),
        (
            "MERGE INTO q USING s ON q.id = s.id AND q.k = s.k"
            " WHEN MATCHED AND s.id < 1000 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = s.v, t = s.t RETURNING merge_action(), new.t"
        ),
        # What is read of the table itself.
        (
            "MERGE INTO p USING p AS s ON p.id = s.id + 200 AND p.k = s.k"
            " WHEN MATCHED AND s.v % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = p.v + s.v"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.id + 200, s.k + 100, s.v, s.t || 'x')"
            " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t = 'first'"
            " RETURNING merge_action(), p.*, s.id, old.v"
        ),
        (
            "MERGE INTO p USING (SELECT k, count(*) AS c, max(id) AS id FROM p GROUP BY k) s"
            " ON p.id = s.id AND p.k = s.k WHEN MATCHED THEN UPDATE SET v = s.c, k = 299 - p.k"
        ),
        # Without primary key.
        (
            "MERGE INTO w USING s ON w.id = s.id AND w.k = s.k WHEN MATCHED AND s.v % 2 = 0 THEN"
            " DELETE WHEN MATCHED THEN UPDATE SET v = s.v, t = s.t WHEN NOT MATCHED THEN"
            " INSERT VALUES (s.id, s.k, s.v, s.t) RETURNING merge_action(), w.*, old.v"
        ),
        (
            "MERGE INTO w USING s ON w.id = s.id AND w.k = s.k WHEN NOT MATCHED BY SOURCE AND"
            " w.k < 150 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t = 'gone'"
            " WHEN MATCHED THEN DO NOTHING"
        ),
        (
            "MERGE INTO w USING s ON w.id = s.id AND w.k = s.k"
            " WHEN MATCHED AND s.v % 3 = 0 THEN UPDATE SET k = 199 - w.k, v = s.v"
            " WHEN MATCHED AND s.v % 3 = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k, s.v, s.t)"
            " RETURNING merge_action(), w.*, old.k, new.k, s.v"
        ),
        (
            "MERGE INTO w USING s ON w.id = s.id AND w.k = s.k"
            " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET k = (w.k + 150) % 300, t = 'left'"
            " WHEN MATCHED THEN UPDATE SET k = w.k"
        ),
        "MERGE INTO w USING s ON false WHEN NOT MATCHED THEN INSERT VALUES (1, s.k, 1, 'same')",
        f"MERGE INTO p {ON} AND p.k < 100 WHEN MATCHED THEN UPDATE SET v = 5",
        f"MERGE INTO p {ON} WHEN MATCHED AND p.v < 0 THEN DELETE",
        f"MERGE INTO p {ON} WHEN MATCHED THEN UPDATE SET k = 0",
        (
            f"MERGE INTO p {ON} WHEN MATCHED AND s.v % 2 = 0 THEN UPDATE SET k = 299 - p.k, v = s.v"
            f" WHEN MATCHED THEN UPDATE SET v = s.v {INSERT}"
            " RETURNING merge_action(), p.*, old.k, new.k"
        ),
    ],
)
def test_every_leaf_has_the_rows_of_postgresql(both, statement: str) -> None:
    table = statement.split()[2]
    expected, found = (outcome(connection, statement, table) for connection in both)
    assert found == expected


@pytest.mark.parametrize(
    "statement",
    [
        (
            "MERGE INTO p USING (TABLE s UNION ALL SELECT * FROM s WHERE id = 700) s"
            " ON p.id = s.id AND p.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v"
        ),
        f"MERGE INTO p {ON} WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k + 200, s.v, s.t)",
        f"MERGE INTO p {ON} AND p.id < 1000 {INSERT}",
        f"MERGE INTO p {ON} WHEN NOT MATCHED THEN INSERT VALUES (1 + s.id % 2, 250, s.v, s.t)",
        (
            "MERGE INTO w USING (TABLE s UNION ALL SELECT * FROM s WHERE id = 700) s"
            " ON w.id = s.id AND w.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v"
        ),
        (
            "MERGE INTO w USING s ON w.id = s.id AND w.k = s.k"
            " WHEN MATCHED THEN UPDATE SET v = NULLIF(s.v, -700)"
        ),
        (
            "MERGE INTO w USING (TABLE s UNION ALL SELECT * FROM s WHERE id = 700) s"
            " ON w.id = s.id AND w.k = s.k WHEN MATCHED THEN UPDATE SET k = 299 - w.k"
        ),
        (
            "MERGE INTO w USING s ON w.id = s.id AND w.k = s.k"
            " WHEN MATCHED THEN UPDATE SET k = NULLIF(s.k, 100)"
        ),
        (
            "MERGE INTO w USING s ON w.id = s.id AND w.k = s.k"
            " WHEN MATCHED THEN UPDATE SET k = 299 - w.k, v = NULLIF(s.v, -700)"
        ),
        (
            "MERGE INTO w USING s ON w.id = s.id AND w.k = s.k"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k + 200, s.v, s.t)"
        ),
        f"MERGE INTO p {ON} WHEN MATCHED THEN UPDATE SET v = 66666",
        f"MERGE INTO p {ON} WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k, 66666, s.t)",
        f"MERGE INTO p {ON} WHEN NOT MATCHED THEN INSERT VALUES (s.id, NULL, s.v, s.t)",
        f"MERGE INTO p {ON} WHEN MATCHED THEN UPDATE SET k = p.k + 150",
        f"MERGE INTO p {ON} WHEN MATCHED THEN UPDATE SET id = s.id % 2, k = 250",
        f"MERGE INTO p {ON} WHEN MATCHED AND s.id = 300 THEN UPDATE SET id = 10, k = 10",
        f"MERGE INTO p {ON} WHEN MATCHED THEN UPDATE SET k = 250, v = 66666",
    ],
)
def test_what_postgresql_refuses_is_refused_alike(both, statement: str) -> None:
    codes = []
    for connection in both:
        before = connection.execute("SELECT count(*), sum(v) FROM p").fetchall()
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(statement)
        codes.append((raised.value.sqlstate, before))
        assert connection.execute("SELECT count(*), sum(v) FROM p").fetchall() == before
    assert codes[0] == codes[1]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (
            (
                "MERGE INTO p USING (TABLE s UNION ALL SELECT -id, k, id, t FROM s WHERE id < 900)"
                " AS s ON p.id = s.id AND p.k = s.k WHEN MATCHED THEN DELETE"
                " WHEN NOT MATCHED THEN INSERT VALUES (abs(s.id), s.k, s.v, s.t)"
            ),
            "with the key of one that it deletes",
        ),
        (
            (
                "MERGE INTO q USING s ON q.id = s.id AND q.k = s.k"
                " WHEN NOT MATCHED THEN INSERT VALUES (s.id, 5, s.v, s.t)"
            ),
            "partitions that differ",
        ),
        (
            (
                "MERGE INTO q USING s ON q.id = s.id AND q.k = s.k"
                " WHEN MATCHED THEN UPDATE SET k = 199 - s.k"
            ),
            "partitions that differ",
        ),
        (f"MERGE INTO p {ON} WHEN MATCHED THEN UPDATE SET id = p.id + 200", "gives another key"),
        (
            "MERGE INTO q USING q AS s ON q.id = s.id AND q.k = s.k WHEN MATCHED THEN DELETE",
            "by what is read of them",
        ),
    ],
)
def test_what_spark_cannot_do_is_refused_by_name(both, statement: str, named: str) -> None:
    _, gateway = both
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=named):
        gateway.execute(statement)


def test_it_is_one_commit_that_others_see_whole(both, shared_pair: Pair) -> None:
    statement = (
        "MERGE INTO r USING s ON r.id = s.id AND r.k = s.k"
        f" WHEN MATCHED THEN UPDATE SET v = s.v {INSERT}"
    )
    plain, gateway = both
    for connection in both:
        connection.execute(statement)
    assert gateway.execute("SHOW gateway.last_decision").fetchone() == (
        "spark: several partitions",
    )
    with psycopg.connect(shared_pair.gateway.conninfo(shared_pair.database)) as other:
        found = other.execute(f"SELECT * FROM {SCHEMA}.r ORDER BY id, k").fetchall()
    assert found == plain.execute("SELECT * FROM r ORDER BY id, k").fetchall()
    gateway.execute("VACUUM r")
    assert gateway.execute("SELECT * FROM r ORDER BY id, k").fetchall() == found
    gateway.execute(statement)
    assert gateway.execute("SELECT * FROM r ORDER BY id, k").fetchall() == found
