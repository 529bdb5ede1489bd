"""What rows of a tiered table reference is taken away, and given, by several sessions at once.

A scenario is a dialogue of sessions over a table that references another one. PostgreSQL plays it,
and the gateway, with the referencing table resident or tiered, its rows cold or hot.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from tests.support.scenarios import Stage, expected
from tests.support.servers import Address

pytestmark = pytest.mark.server

DATABASE = "references_served"

PATIENCE_S = 60.0
"""How long a table may take to become tiered."""

SETUP = (
    "CREATE TABLE p (id integer PRIMARY KEY, v integer)",
    "INSERT INTO p SELECT g, g * 10 FROM generate_series(1, 9) g",
    "CREATE TABLE t (id integer PRIMARY KEY, p integer REFERENCES p {actions}, v integer)",
    "INSERT INTO t SELECT g, (g - 1) % 6 + 1, g FROM generate_series(1, 12) g",
)

BACKENDS = {
    "plain": (),
    "resident": (),
    "cold": (),
    "hot": ("UPDATE t SET v = v WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)",),
}
"""What is done to the referencing table before the rows are fought for."""

SCENARIOS = {
    "a row that is being referenced stays": (
        "",
        """
        a: BEGIN
        a: INSERT INTO t VALUES (20, 9, 0)
        b: DELETE FROM p WHERE id = 9 -- waits
        c: DELETE FROM p WHERE id = 8 => DELETE 1
        a: COMMIT
        b goes on => error 23503
    """,
    ),
    "a row that is being taken away is not referenced": (
        "",
        """
        a: BEGIN
        a: DELETE FROM p WHERE id = 9
        b: INSERT INTO t VALUES (20, 9, 0) -- waits
        c: UPDATE t SET p = 9 WHERE id = 2 -- waits
        a: COMMIT
        b goes on => error 23503
        c goes on => error 23503
    """,
    ),
    "what references is taken away first": (
        "",
        """
        a: BEGIN
        a: DELETE FROM t WHERE id IN (3, 9) => DELETE 2
        b: DELETE FROM p WHERE id = 3 -- waits
        a: COMMIT
        b goes on => DELETE 1
    """,
    ),
    "what references is given another value first": (
        "",
        """
        a: BEGIN
        a: UPDATE t SET p = 9 WHERE id IN (3, 9) => UPDATE 2
        b: DELETE FROM p WHERE id = 3 => error 23503
        a: COMMIT
        b: DELETE FROM p WHERE id = 3 => DELETE 1
        b: DELETE FROM p WHERE id = 4 => error 23503
    """,
    ),
    "a cascade waits for writers of rows it reaches": (
        "ON DELETE CASCADE ON UPDATE CASCADE",
        """
        a: BEGIN
        a: UPDATE t SET v = 100 WHERE id = 1
        b: DELETE FROM p WHERE id = 1 -- waits
        c: UPDATE p SET id = 12 WHERE id = 2 => UPDATE 1
        a: COMMIT
        b goes on => DELETE 1
        b: SELECT count(*), sum(p) FROM t => 10|60
    """,
    ),
    "writers wait for a cascade": (
        "ON DELETE SET NULL",
        """
        a: BEGIN
        a: DELETE FROM p WHERE id = 1 => DELETE 1
        b: UPDATE t SET v = v + 1 WHERE id = 7 RETURNING p -- waits
        c: UPDATE t SET v = v + 1 WHERE id = 8 RETURNING p => 2
        a: COMMIT
        b goes on => None
    """,
    ),
    "a cascade that is undone": (
        "ON DELETE CASCADE",
        """
        a: BEGIN
        a: SAVEPOINT s
        a: DELETE FROM p WHERE id IN (1, 2) => DELETE 2
        a: SELECT count(*) FROM t => 8
        a: ROLLBACK TO s
        a: SELECT count(*) FROM t => 12
        b: UPDATE t SET v = 0 WHERE p = 1 => UPDATE 2
        a: DELETE FROM p WHERE id = 1 => DELETE 1
        a: COMMIT
        b: DELETE FROM p WHERE id = 2 => DELETE 1
        b: SELECT count(*) FROM t => 8
    """,
    ),
    "rows of many": (
        "",
        """
        a: DELETE FROM p WHERE id > 3 => error 23503
        a: DELETE FROM p WHERE id > 6 => DELETE 3
        a: UPDATE p SET id = id + 10 WHERE id = 4 => error 23503
        a: UPDATE p SET id = id, v = 0 WHERE id = 4 => UPDATE 1
        a: UPDATE p SET v = 1 => UPDATE 6
    """,
    ),
}


@pytest.fixture(scope="module")
def servers(plain_postgres: Address, resident_gateway: Address) -> Iterator[Mapping[str, Address]]:
    """The server of each backend, with a database for it."""
    found = dict.fromkeys(BACKENDS, resident_gateway) | {"plain": plain_postgres}
    with ExitStack() as stack:
        for name, server in found.items():
            server.execute(f"CREATE DATABASE {DATABASE}_{name}")
            stack.callback(server.execute, f"DROP DATABASE {DATABASE}_{name} WITH (FORCE)")
        yield found


def connect(servers: Mapping[str, Address], backend: str, schema: str) -> psycopg.Connection:
    return psycopg.connect(
        servers[backend].conninfo(f"{DATABASE}_{backend}"),
        autocommit=True,
        prepare_threshold=None,
        options=f"-c search_path={schema} -c lock_timeout=20s",
    )


def make_tiered(owner: psycopg.Connection, schema: str) -> None:
    owner.execute("ALTER TABLE t SET (gateway.residency = never)")
    deadline = time.monotonic() + PATIENCE_S
    told = (
        "SELECT residency, pinned_by FROM pg_journal.tables"
        " WHERE schema_name = %s AND table_name = 't'"
    )
    while (found := owner.execute(told, [schema]).fetchone()) != ("tiered", None):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def play(
    servers: Mapping[str, Address], backend: str, number: int, scenario: tuple[str, str]
) -> tuple[list[str], list[tuple]]:
    """Return the dialogue, and what is in both tables afterwards."""
    schema = f"references_{number}"
    actions, dialogue = scenario
    with connect(servers, backend, schema) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
        for statement in SETUP:
            owner.execute(statement.format(actions=actions))
        if backend in {"cold", "hot"}:
            make_tiered(owner, schema)
        for statement in BACKENDS[backend]:
            owner.execute(statement)
        with ExitStack() as stack:
            said = Stage(lambda: connect(servers, backend, schema), stack).play(dialogue)
        rows = owner.execute("SELECT * FROM t ORDER BY id").fetchall()
        rows += owner.execute("SELECT * FROM p ORDER BY id").fetchall()
        if backend != "plain":
            assert owner.execute("SELECT gateway.check('t')").fetchall() == [(0,)]
    return said, rows


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_referenced_is_fought_for_as_in_postgresql(
    servers: Mapping[str, Address], name: str
) -> None:
    number = list(SCENARIOS).index(name)
    with ThreadPoolExecutor(len(BACKENDS)) as pool:
        played = {
            backend: pool.submit(play, servers, backend, number, SCENARIOS[name])
            for backend in BACKENDS
        }
    said, rows = played["plain"].result()
    assert said == expected(SCENARIOS[name][1], said)
    for backend in BACKENDS:
        assert played[backend].result() == (said, rows), backend


UNFIT = {
    "its action changes what is unique": (
        "CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON UPDATE CASCADE,"
        " v integer, UNIQUE (p, v))"
    ),
    "deferrable": "CREATE TABLE c (p integer REFERENCES p DEFERRABLE)",
    "of another type": "CREATE TABLE c (p bigint REFERENCES p)",
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_key_that_cannot_be_kept_pins_its_table(
    servers: Mapping[str, Address], name: str
) -> None:
    schema = f"references_unfit_{list(UNFIT).index(name)}"
    with connect(servers, "cold", schema) as owner:
        for statement in (f"CREATE SCHEMA {schema}", "CREATE TABLE p (id integer PRIMARY KEY)"):
            owner.execute(statement)
        owner.execute(UNFIT[name])
        told = "SELECT pinned_by FROM pg_journal.tables WHERE schema_name = %s AND table_name = 'c'"
        assert "FOREIGN KEY" in str(owner.execute(told, [schema]).fetchone())


def test_definitions_that_would_lose_it_are_refused(servers: Mapping[str, Address]) -> None:
    schema = "references_defined"
    with connect(servers, "cold", schema) as owner:
        for statement in (
            f"CREATE SCHEMA {schema}",
            "CREATE TABLE r (id integer)",
            "CREATE TABLE p (id integer PRIMARY KEY, k varchar(10) UNIQUE)",
            "INSERT INTO p SELECT g, g FROM generate_series(1, 9) g",
            (
                "CREATE TABLE t (id integer PRIMARY KEY, k varchar(10) UNIQUE REFERENCES p (k),"
                " n integer, p integer GENERATED ALWAYS AS (n) STORED REFERENCES p)"
            ),
            "INSERT INTO t SELECT g, g, g FROM generate_series(1, 9) g",
        ):
            owner.execute(statement)
        make_tiered(owner, schema)
        for statement in (
            "ALTER TABLE p ALTER COLUMN k TYPE varchar(20)",
            "ALTER TABLE p INHERIT r",
            "REINDEX TABLE CONCURRENTLY t",
            "CREATE UNIQUE INDEX CONCURRENTLY ON t (n)",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                owner.execute(statement)
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            owner.execute("UPDATE t SET n = 77 WHERE id > 2")
        owner.execute("DELETE FROM t WHERE id = 1")
        assert owner.execute("DELETE FROM p WHERE id = 1").rowcount == 1


def test_who_raises_what_looks_like_it_gains_nothing(servers: Mapping[str, Address]) -> None:
    schema = "references_forged"
    with connect(servers, "cold", schema) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
        for statement in SETUP:
            owner.execute(statement.format(actions=""))
        owner.execute(
            "CREATE FUNCTION raised() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'mine' USING ERRCODE = '0A000',"
            " DATATYPE = repeat('0', 64) || ' {oops'; END $$"
        )
        owner.execute(
            "CREATE TRIGGER forged BEFORE DELETE ON p FOR EACH ROW EXECUTE FUNCTION raised()"
        )
        make_tiered(owner, schema)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="mine"):
            owner.execute("DELETE FROM p WHERE id = 1")


def test_elsewhere_it_is_refused(servers: Mapping[str, Address]) -> None:
    schema = "references_elsewhere"
    with connect(servers, "cold", schema) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
        for statement in SETUP:
            owner.execute(statement.format(actions="ON DELETE CASCADE"))
        owner.execute(
            "CREATE FUNCTION take(integer) RETURNS void LANGUAGE plpgsql AS"
            " 'BEGIN DELETE FROM p WHERE id = $1; END'"
        )
        make_tiered(owner, schema)
        for statement in (
            "SELECT take(1)",
            "DO 'BEGIN DELETE FROM p WHERE id = 1; END'",
            "TRUNCATE p CASCADE",
            "EXPLAIN ANALYZE DELETE FROM p WHERE id = 1",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                owner.execute(statement)
        owner.execute("SELECT take(9)")
        owner.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        owner.execute("DELETE FROM p WHERE id = 8")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            owner.execute("DELETE FROM p WHERE id = 1")
        owner.execute("ROLLBACK")
        assert owner.execute("SELECT count(*) FROM p").fetchone() == (8,)
        assert owner.execute("SELECT count(*) FROM t").fetchone() == (12,)
