"""Sessions that read by one snapshot, and want rows of partitions and of tables of foreign keys.

PostgreSQL plays each dialogue, and the gateway with its tables resident, or tiered, or some of
them, whose rows are cold or hot. What is to be seen of single tables: `test_hot_rows`.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg
import pytest

from tests.support.scenarios import Stage, expected
from tests.support.servers import Address
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

DATABASE = "own_hot_rows_served"


@dataclass(frozen=True)
class Scenery:
    """Tables, and what becomes of them before the rows are fought for."""

    setup: tuple[str, ...]
    backends: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    """Which are tiered, and what is done to them then."""
    tables: tuple[str, ...]
    """What is to be the same at the end."""
    journals: tuple[str, ...]
    """What is to be as its journal says."""


PARTITIONS = Scenery(
    (
        (
            "CREATE TABLE s (k integer, id integer, v integer, w text, PRIMARY KEY (k, id))"
            " PARTITION BY LIST (k)"
        ),
        "CREATE TABLE s_1 PARTITION OF s FOR VALUES IN (1)",
        # Its columns have other numbers.
        (
            "CREATE TABLE s_2 (gone integer, w text, id integer NOT NULL, k integer NOT NULL,"
            " v integer)"
        ),
        "ALTER TABLE s_2 DROP COLUMN gone",
        "ALTER TABLE s ATTACH PARTITION s_2 FOR VALUES IN (2)",
        "CREATE TABLE s_3 PARTITION OF s FOR VALUES IN (3)",
        (
            "INSERT INTO s SELECT k, g, g * 10, 'w' || g FROM generate_series(1, 6) g,"
            " generate_series(1, 3) k"
        ),
    ),
    {
        "plain": ((), ()),
        "resident": ((), ()),
        "cold": (("s_1", "s_2"), ()),
        "hot": (
            ("s_1", "s_2"),
            tuple(f"UPDATE s SET v = v WHERE k = {k} AND id IN (1, 2, 3, 4, 5, 6)" for k in (1, 2)),
        ),
    },
    ("s",),
    ("s_1", "s_2", "s_3"),
)


def references(actions: str = "", *, only: str = "") -> Scenery:
    """Return a table that references another one; `only` some backends are to be as PostgreSQL."""
    hot = (
        "UPDATE t SET v = v WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)",
        "UPDATE p SET v = v WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8, 9)",
    )
    backends: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "plain": ((), ()),
        "resident": ((), ()),
        "parent": (("p",), ()),
        "child": (("t",), ()),
        "both": (("p", "t"), ()),
        "hot": (("p", "t"), hot),
    }
    return Scenery(
        (
            "CREATE TABLE p (id integer PRIMARY KEY, u text UNIQUE, v integer)",
            "INSERT INTO p SELECT g, 'u' || g, g * 10 FROM generate_series(1, 9) g",
            (
                f"CREATE TABLE t (id integer PRIMARY KEY, p integer REFERENCES p {actions},"
                " v integer, u text REFERENCES p (u))"
            ),
            "INSERT INTO t SELECT g, (g - 1) % 6 + 1, g FROM generate_series(1, 12) g",
        ),
        {name: backends[name] for name in only.split() or backends},
        ("p", "t"),
        ("p", "t"),
    )


SCENARIOS: Mapping[str, tuple[Scenery, str]] = {
    "writers of different rows of a partition": (
        PARTITIONS,
        """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT sum(v) FROM s => 630, 630
        a: UPDATE s SET v = v + 1 WHERE k = 1 AND id = 1 RETURNING v => 11
        b: UPDATE s SET v = v + 2 WHERE k = 1 AND id = 2 RETURNING v => 22
        a: DELETE FROM s WHERE k = 1 AND id = 3 => DELETE 1
        b: INSERT INTO s VALUES (1, 7, 70, 'w7') => INSERT 0 1
        b: DELETE FROM s_2 WHERE id = 2 => DELETE 1
        a: UPDATE s SET v = v + 1 WHERE k = 2 AND v = 10 RETURNING v => 11
        a: SELECT v FROM s WHERE k = 2 AND id = 3 FOR UPDATE => 30
        b: SELECT id FROM s WHERE k = 2 AND id IN (3, 4) FOR UPDATE SKIP LOCKED => 4
        a: SELECT id, v FROM s WHERE k = 1 ORDER BY id => 1|11, 2|20, 4|40, 5|50, 6|60
        b: SELECT id, v FROM s WHERE k = 1 ORDER BY id => 1|10, 2|22, 3|30, 4|40, 5|50, 6|60, 7|70
        b: COMMIT
        c: UPDATE s SET v = v * 2 WHERE k = 1 AND id = 1 -- waits
        a: UPDATE s SET v = v + 2 WHERE k = 1 AND id = 1 RETURNING v => 13
        a: COMMIT
        c goes on => UPDATE 1
        c: SELECT k, id, v FROM s WHERE k < 3 AND id < 3 ORDER BY k, id => 1|1|26, 1|2|22, 2|1|11
    """,
    ),
    "two want one row of a partition": (
        PARTITIONS,
        """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT v FROM s WHERE k = 1 AND id = 1 => 10, 10
        a: UPDATE s SET v = v + 1 WHERE k = 1 AND id = 1
        b: UPDATE s_1 SET v = v + 1 WHERE id = 1 -- waits
        a: COMMIT
        b goes on => error 40001
        b: ROLLBACK
        b: BEGIN ISOLATION LEVEL SERIALIZABLE
        b: UPDATE s SET v = v + 1 WHERE k = 1 AND id = 1 RETURNING v => 12
        b: COMMIT
    """,
    ),
    "what has changed in a partition since, and what has not": (
        PARTITIONS,
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM s => 18
        b: UPDATE s SET v = 0 WHERE k = 1 AND id = 1
        b: DELETE FROM s WHERE k = 1 AND id = 2
        b: INSERT INTO s VALUES (1, 7, 70, 'w7'), (1, 8, 80, 'w8')
        a: UPDATE s SET v = v + 1 WHERE k = 1 AND id IN (3, 7) RETURNING id, v => 3|31
        a: SAVEPOINT x
        a: UPDATE s SET v = v + 1 WHERE k = 1 AND id = 1 => error 40001
        a: ROLLBACK TO x
        a: DELETE FROM s WHERE k = 1 AND id = 2 => error 40001
        a: ROLLBACK TO x
        a: INSERT INTO s VALUES (1, 7, 0) ON CONFLICT (k, id) DO UPDATE SET v = 1 => error 40001
        a: ROLLBACK TO x
        a: INSERT INTO s VALUES (1, 4, 0) ON CONFLICT (k, id) DO UPDATE SET v = 1 RETURNING v => 1
        a: INSERT INTO s VALUES (1, 9, 90, 'w9') => INSERT 0 1
        a: INSERT INTO s VALUES (1, 5, 90, 'w9') => error 23505
        a: ROLLBACK TO x
        a: SELECT id, v FROM s WHERE k = 1 ORDER BY id => 1|10, 2|20, 3|31, 4|40, 5|50, 6|60
        a: COMMIT
        a: SELECT id, v FROM s WHERE k = 1 ORDER BY id => 1|0, 3|31, 4|40, 5|50, 6|60, 7|70, 8|80
    """,
    ),
    "one partition after the other, and several": (
        PARTITIONS,
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM s => 18
        a: UPDATE s SET v = v + 1 WHERE k = 1 AND id = 1
        a: UPDATE s SET v = v + 1 WHERE k = 2 AND id = 1
        a: UPDATE s SET v = v + 1 WHERE k = 3 AND id = 1
        b: UPDATE s SET v = v + 5 WHERE k = 2 AND id = 2
        a: INSERT INTO s VALUES (2, 7, 70), (2, 8, 80)
        a: UPDATE s SET v = v + 1 WHERE k = 1 AND id = 1 RETURNING v => 12
        a: DELETE FROM s WHERE k = 2 AND id = 7 => DELETE 1
        a: SELECT k, id, v FROM s WHERE id IN (1, 8) ORDER BY 1, 2 => 1|1|12, 2|1|11, 2|8|80, 3|1|11
        a: COMMIT
        a: SELECT sum(v) FROM s => 719
    """,
    ),
    "writers of rows that reference": (
        references(),
        """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*), sum(p.v) FROM t JOIN p ON p.id = t.p => 12|420, 12|420
        a: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 2
        b: UPDATE t SET v = v + 1 WHERE id = 2 RETURNING v => 3
        a: INSERT INTO t VALUES (20, 9, 0) => INSERT 0 1
        b: UPDATE t SET p = 8 WHERE id = 3 => UPDATE 1
        b: SAVEPOINT x
        b: INSERT INTO t VALUES (21, 99, 0) => error 23503
        b: ROLLBACK TO x
        b: UPDATE t SET p = 98 WHERE id = 3 => error 23503
        b: ROLLBACK TO x
        a: UPDATE p SET v = v + 1 WHERE id = 7 RETURNING v => 71
        b: UPDATE p SET v = v + 2 WHERE id = 6 RETURNING v => 62
        b: DELETE FROM t WHERE id = 4 => DELETE 1
        a: INSERT INTO t SELECT g, g - 20, 0 FROM generate_series(21, 23) g => INSERT 0 3
        a: SELECT id, p, v FROM t WHERE id IN (1, 20, 21) ORDER BY id => 1|1|2, 20|9|0, 21|1|0
        a: COMMIT
        b: INSERT INTO t VALUES (30, 5, 0) => INSERT 0 1
        b: SELECT count(*) FROM t => 12
        b: COMMIT
        c: DELETE FROM p WHERE id = 9 => error 23503
        c: DELETE FROM p WHERE id = 8 => error 23503
        c: DELETE FROM p WHERE id = 7 => DELETE 1
        c: SELECT count(*), sum(v) FROM t => 16|76
    """,
    ),
    "rows are referenced by a unique value": (
        references(),
        """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 12, 12
        a: INSERT INTO t VALUES (20, NULL, 0, 'u9') => INSERT 0 1
        b: UPDATE t SET u = 'u8' WHERE id = 1 => UPDATE 1
        b: SAVEPOINT x
        b: UPDATE t SET u = 'u10' WHERE id = 2 => error 23503
        b: ROLLBACK TO x
        c: INSERT INTO p VALUES (10, 'u10', 0) => INSERT 0 1
        b: UPDATE t SET u = 'u10' WHERE id = 2 => error 23503
        b: ROLLBACK TO x
        a: COMMIT
        b: COMMIT
        c: DELETE FROM p WHERE id = 9 => error 23503
        c: UPDATE p SET u = 'v8' WHERE id = 8 => error 23503
    """,
    ),
    "what is referenced has changed since": (
        references(),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM p => 9
        b: DELETE FROM p WHERE id = 9
        b: INSERT INTO p VALUES (30, 'u30', 0)
        a: UPDATE t SET v = 0 WHERE id = 1 => UPDATE 1
        a: SAVEPOINT x
        a: INSERT INTO t VALUES (20, 9, 0) => error 40001
        a: ROLLBACK TO x
        a: INSERT INTO t VALUES (20, 30, 0) => error 23503
        a: ROLLBACK TO x
        a: INSERT INTO t VALUES (20, 7, 0) => INSERT 0 1
        a: COMMIT
        b: DELETE FROM p WHERE id = 7 => error 23503
    """,
    ),
    "what is referenced is taken away": (
        references(),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM p => 9
        a: DELETE FROM p WHERE id = 9 => DELETE 1
        a: SAVEPOINT x
        a: DELETE FROM p WHERE id = 1 => error 23503
        a: ROLLBACK TO x
        a: UPDATE p SET id = 20 WHERE id = 2 => error 23503
        a: ROLLBACK TO x
        a: UPDATE p SET id = 20 WHERE id = 8 => UPDATE 1
        a: DELETE FROM t WHERE p = 3 => DELETE 2
        a: DELETE FROM p WHERE id = 3 => DELETE 1
        b: INSERT INTO t VALUES (20, 9, 0) -- waits
        a: COMMIT
        b goes on => error 23503
        b: SELECT id FROM p ORDER BY id => 1, 2, 4, 5, 6, 7, 20
    """,
    ),
    "what references is taken away first": (
        references(),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM p => 9
        a: DELETE FROM t WHERE id IN (1, 7) => DELETE 2
        b: DELETE FROM p WHERE id = 1 -- waits
        a: COMMIT
        b goes on => DELETE 1
    """,
    ),
    "what references is kept after all": (
        references(),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM p => 9
        a: DELETE FROM t WHERE id IN (1, 7) => DELETE 2
        b: DELETE FROM p WHERE id = 1 -- waits
        a: ROLLBACK
        b goes on => error 23503
    """,
    ),
    "a reference that a savepoint takes back": (
        references(),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM p => 9
        a: SAVEPOINT x
        a: INSERT INTO t VALUES (20, 9, 0) => INSERT 0 1
        a: ROLLBACK TO x
        b: DELETE FROM p WHERE id = 9 => DELETE 1
        a: SELECT count(*) FROM p => 9
        a: INSERT INTO t VALUES (20, 9, 0) => error 40001
        a: ROLLBACK
    """,
    ),
    "cascades": (
        references("ON DELETE CASCADE ON UPDATE CASCADE"),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM t => 12
        b: UPDATE t SET v = 5 WHERE id = 2
        a: DELETE FROM p WHERE id = 1 => DELETE 1
        a: UPDATE p SET id = 30 WHERE id = 3 => UPDATE 1
        a: SELECT id, p FROM t WHERE id IN (1, 3, 7, 9) ORDER BY id => 3|30, 9|30
        a: SAVEPOINT x
        a: DELETE FROM p WHERE id = 2 => error 40001
        a: ROLLBACK TO x
        c: UPDATE t SET v = 0 WHERE id = 4 => UPDATE 1
        b: UPDATE t SET v = 0 WHERE id = 1 -- waits
        a: COMMIT
        b goes on => UPDATE 0
        c: SELECT count(*), sum(p) FROM t => 10|94
    """,
    ),
    "what is referenced has changed since, but for its key": (
        references(only="plain resident child hot"),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM p => 9
        b: UPDATE p SET v = 0 WHERE id = 8
        a: UPDATE t SET p = 8 WHERE id = 2 => UPDATE 1
        a: COMMIT
        b: DELETE FROM p WHERE id = 8 => error 23503
    """,
    ),
    "what has come to reference since": (
        references("ON DELETE CASCADE", only="plain resident child hot"),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM t => 12
        b: INSERT INTO t VALUES (20, 9, 0)
        a: DELETE FROM p WHERE id = 9 => error 40001
        a: ROLLBACK
    """,
    ),
    "what has come to reference since, and is kept": (
        references(only="plain resident child hot"),
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM t => 12
        b: INSERT INTO t VALUES (20, 9, 0)
        a: DELETE FROM p WHERE id = 9 => error 23503
        a: ROLLBACK
    """,
    ),
}


def connect(server: Address, backend: str, schema: str) -> psycopg.Connection:
    return psycopg.connect(
        server.conninfo(f"{DATABASE}_{backend}"),
        autocommit=True,
        prepare_threshold=None,
        options=f"-c search_path={schema} -c lock_timeout=20s",
    )


@pytest.fixture(scope="module")
def servers(plain_postgres: Address, resident_gateway: Address) -> Iterator[Mapping[str, Address]]:
    """The server of each backend, with a database for it."""
    backends = {backend for scenery, _ in SCENARIOS.values() for backend in scenery.backends}
    found = dict.fromkeys(backends, resident_gateway) | {"plain": plain_postgres}
    with ExitStack() as stack:
        for name, server in found.items():
            server.execute(f"CREATE DATABASE {DATABASE}_{name}")
            stack.callback(server.execute, f"DROP DATABASE {DATABASE}_{name} WITH (FORCE)")
        yield found


def play(server: Address, backend: str, name: str) -> tuple[list[str], list[list[tuple]]]:
    """Return the dialogue, and what is in the tables afterwards."""
    schema = f"scenario_{list(SCENARIOS).index(name)}"
    scenery, dialogue = SCENARIOS[name]
    tiered, prepared = scenery.backends[backend]
    with connect(server, backend, schema) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
        for statement in scenery.setup:
            owner.execute(statement)  # type: ignore[call-overload]
        if tiered:
            make_tiered(owner, *tiered)
        for statement in prepared:
            owner.execute(statement)  # type: ignore[call-overload]
        with ExitStack() as stack:
            said = Stage(lambda: connect(server, backend, schema), stack).play(dialogue)
        rows = [
            sorted(owner.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
            for table in scenery.tables
        ]
        if backend != "plain":
            for table in scenery.journals:
                assert owner.execute(f"SELECT gateway.check('{table}')").fetchall() == [(0,)]
    return said, rows


@pytest.mark.parametrize("name", SCENARIOS)
def test_rows_are_fought_for_as_in_postgresql(servers: Mapping[str, Address], name: str) -> None:
    scenery, dialogue = SCENARIOS[name]
    with ThreadPoolExecutor(len(scenery.backends)) as pool:
        played = {
            backend: pool.submit(play, servers[backend], backend, name)
            for backend in scenery.backends
        }
    said, rows = played["plain"].result()
    assert said == expected(dialogue, said)
    for backend in scenery.backends:
        said_there, rows_there = played[backend].result()
        assert said_there == said, backend
        assert rows_there == rows, backend


def test_many_rows_are_referenced_by_one_snapshot(servers: Mapping[str, Address]) -> None:
    """They are more than may be hot, so the referenced table is taken as a whole."""
    server, schema = servers["parent"], "many"
    with connect(server, "parent", schema) as client, connect(server, "parent", schema) as other:
        for statement in (
            f"CREATE SCHEMA {schema}",
            "CREATE TABLE p (id integer PRIMARY KEY)",
            "CREATE TABLE t (id integer PRIMARY KEY, p integer REFERENCES p)",
            "INSERT INTO p SELECT generate_series(1, 12000)",
        ):
            client.execute(statement)  # type: ignore[call-overload]
        make_tiered(client, "p")
        added = "INSERT INTO t SELECT g, g FROM generate_series(1, %s::integer) g"
        client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert client.execute(added, [10_500]).rowcount == 10_500
        client.execute("ROLLBACK")
        client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            client.execute(added, [12_001])
        client.execute("ROLLBACK")
        client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        client.execute("SELECT count(*) FROM t")
        other.execute("INSERT INTO p VALUES (12001)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            client.execute(added, [10_500])
        client.execute("ROLLBACK")
        client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert client.execute(added, [12_001]).rowcount == 12_001
        client.execute("COMMIT")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            client.execute("DELETE FROM p WHERE id = 12001")
        for table in "pt":
            assert client.execute(f"SELECT gateway.check('{table}')").fetchall() == [(0,)]
