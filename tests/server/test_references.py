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

UNIQUE = (
    "CREATE TABLE p (id integer UNIQUE, v integer, key text PRIMARY KEY DEFAULT gen_random_uuid())",
    "INSERT INTO p SELECT g, g * 10 FROM generate_series(1, 9) g",
    "CREATE TABLE t (id integer PRIMARY KEY, p integer REFERENCES p (id) {actions}, v integer)",
    "INSERT INTO t SELECT g, (g - 1) % 6 + 1, g FROM generate_series(1, 12) g",
)


BACKENDS = {
    "plain": ((), ""),
    "resident": ((), ""),
    "cold": ("t", ""),
    "hot": ("t", "UPDATE t SET v = v WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)"),
    "parent": ("p", ""),
    "hot_parent": ("p", "UPDATE p SET v = v WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8, 9)"),
    "both": ("pt", ""),
}
"""Which tables are tiered, and what is done to them before the rows are fought for."""

SETUPS = {
    "the primary key": (SETUP, tuple(BACKENDS)),
    "a unique key": (UNIQUE, ("plain", "parent", "hot_parent", "both")),
}
"""By what rows are referenced, and on which backends that matters."""

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
    "a row that two are referencing stays as long as one does": (
        "",
        """
        a and b: BEGIN
        a: INSERT INTO t VALUES (20, 9, 0), (22, 8, 0) => INSERT 0 2
        b: INSERT INTO t VALUES (21, 9, 0), (23, 8, 0) => INSERT 0 2
        c: DELETE FROM p WHERE id = 9 -- waits
        a: COMMIT
        b: SELECT id FROM t WHERE id > 19 ORDER BY id => 20, 21, 22, 23
        b: COMMIT
        c goes on => error 23503
        a: DELETE FROM t WHERE id > 19 => DELETE 4
        c: DELETE FROM p WHERE id IN (8, 9) => DELETE 2
    """,
    ),
    "a row that two were referencing goes when neither does": (
        "",
        """
        a and b: BEGIN
        a: INSERT INTO t VALUES (20, 9, 0)
        b: UPDATE t SET p = 9 WHERE id = 1 => UPDATE 1
        c: DELETE FROM p WHERE id = 9 -- waits
        b: ROLLBACK
        a: SELECT id FROM t WHERE id > 19 => 20
        a: ROLLBACK
        c goes on => DELETE 1
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
    "TRUNCATE … CASCADE empties what comes to reference what it empties": (
        "",
        """
        a: BEGIN
        a: CREATE TABLE late (id integer PRIMARY KEY, t integer REFERENCES t)
        a: INSERT INTO late VALUES (1, 1)
        b: TRUNCATE p CASCADE -- waits
        a: COMMIT
        b goes on => TRUNCATE TABLE
        b: SELECT count(*) FROM late => 0
        b: SELECT count(*) FROM t => 0
        c: INSERT INTO t VALUES (1, 1, 1) => error 23503
        c: INSERT INTO p VALUES (1, 1) => INSERT 0 1
        c: INSERT INTO t VALUES (1, 1, 1) => INSERT 0 1
    """,
    ),
    "TRUNCATE … CASCADE empties what comes to reference the table": (
        "",
        """
        a: ALTER TABLE t DROP CONSTRAINT t_p_fkey
        a: BEGIN
        a: ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES p (id)
        b: TRUNCATE p CASCADE -- waits
        a: COMMIT
        b goes on => TRUNCATE TABLE
        b: SELECT count(*) FROM t => 0
    """,
    ),
    "TRUNCATE … CASCADE goes on without a table that goes": (
        "",
        """
        a: CREATE TABLE late (id integer PRIMARY KEY, t integer REFERENCES t)
        a: INSERT INTO late VALUES (1, 1)
        a: BEGIN
        a: DROP TABLE late
        b: TRUNCATE p CASCADE -- waits
        a: COMMIT
        b goes on => TRUNCATE TABLE
        b: SELECT count(*) FROM t => 0
    """,
    ),
    "TRUNCATE … CASCADE finds a table by another name": (
        "",
        """
        a: CREATE TABLE late (id integer PRIMARY KEY, t integer REFERENCES t)
        a: INSERT INTO late VALUES (1, 1)
        a: BEGIN
        a: ALTER TABLE late RENAME TO later
        a: CREATE TABLE late (id integer PRIMARY KEY)
        a: INSERT INTO late VALUES (1)
        b: TRUNCATE p CASCADE -- waits
        a: COMMIT
        b goes on => TRUNCATE TABLE
        b: SELECT count(*) FROM later => 0
        b: SELECT count(*) FROM late => 1
        b: SELECT count(*) FROM t => 0
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
    "a value that another row takes over": (
        "ON DELETE CASCADE",
        """
        a: DELETE FROM t WHERE id > 2 => DELETE 10
        a: BEGIN
        a: UPDATE t SET p = 3 - p => UPDATE 2
        b: DELETE FROM p WHERE id = 1 -- waits
        a: COMMIT
        b goes on => DELETE 1
        b: SELECT id, p FROM t ORDER BY id => 1|2
    """,
    ),
    "rows that wait for each other": (
        "",
        """
        b: BEGIN
        b: DELETE FROM p WHERE id = 8
        a: INSERT INTO t VALUES (20, 8, 0), (21, 7, 0) -- waits
        b: DELETE FROM p WHERE id = 7 => DELETE 1
        b: COMMIT
        a goes on => error 23503
    """,
    ),
    "what is referenced is confirmed when it is there": (
        "",
        """
        a: BEGIN
        a: INSERT INTO p VALUES (30, 0)
        a: INSERT INTO t VALUES (30, 30, 0), (31, 9, 0) => INSERT 0 2
        b: INSERT INTO t VALUES (32, 30, 0) => error 23503
        a: SAVEPOINT s
        a: DELETE FROM p WHERE id = 8 => DELETE 1
        a: INSERT INTO t VALUES (33, 8, 0) => error 23503
        a: ROLLBACK TO s
        a: INSERT INTO t VALUES (33, 8, 0)
        a: UPDATE p SET v = 7 WHERE id = 9 => UPDATE 1
        b: UPDATE t SET v = 7 WHERE p = 9 => UPDATE 0
        b: DELETE FROM p WHERE id = 8 -- waits
        a: COMMIT
        b goes on => error 23503
    """,
    ),
    "constraints are checked at once": (
        "",
        """
        a: BEGIN
        a: SET CONSTRAINTS ALL IMMEDIATE
        a: INSERT INTO t VALUES (20, 9, 0)
        a: SET CONSTRAINTS ALL IMMEDIATE
        a: INSERT INTO t VALUES (21, 8, 0), (22, NULL, 0)
        a: COMMIT
        b: SELECT p FROM t WHERE id > 19 ORDER BY id => 9, 8, None
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
    "a row that is referenced goes before the deferred end": (
        "DEFERRABLE INITIALLY DEFERRED",
        """
        a: BEGIN
        a: INSERT INTO t VALUES (20, 9, 0), (21, 8, 0) => INSERT 0 2
        b: DELETE FROM p WHERE id = 9 => DELETE 1
        a: COMMIT => error 23503
        b: INSERT INTO t VALUES (20, 8, 0)
        b: SELECT count(*) FROM t => 13
    """,
    ),
    "a deferred end waits for who takes away": (
        "DEFERRABLE INITIALLY DEFERRED",
        """
        b: BEGIN
        b: DELETE FROM p WHERE id IN (8, 9)
        a: INSERT INTO t VALUES (20, 9, 0) -- waits
        c: BEGIN
        c: UPDATE t SET p = 8 WHERE id = 1 => UPDATE 1
        c: COMMIT -- waits
        b: COMMIT
        a goes on => error 23503
        c goes on => error 23503
        a: BEGIN
        a: INSERT INTO t VALUES (20, 9, 0)
        b: INSERT INTO p VALUES (9, 0)
        a: COMMIT
        b: DELETE FROM p WHERE id = 9 => error 23503
    """,
    ),
    "a deferred end waits for who does not take away": (
        "DEFERRABLE INITIALLY DEFERRED",
        """
        b: BEGIN
        b: DELETE FROM p WHERE id = 9
        a: BEGIN
        a: INSERT INTO t VALUES (20, 9, 0)
        a: COMMIT -- waits
        b: ROLLBACK
        a goes on => COMMIT
        b: DELETE FROM p WHERE id = 9 => error 23503
    """,
    ),
    "what references goes in another session before the deferred end": (
        "DEFERRABLE INITIALLY DEFERRED",
        """
        b: BEGIN
        b: DELETE FROM p WHERE id = 3 => DELETE 1
        b: UPDATE p SET id = 40 WHERE id = 4 => UPDATE 1
        c: DELETE FROM t WHERE p = 3 => DELETE 2
        c: UPDATE t SET p = NULL WHERE p = 4 => UPDATE 2
        b: COMMIT
        b: DELETE FROM p WHERE id = 5 => error 23503
    """,
    ),
    "a deferred end waits for who lets go": (
        "DEFERRABLE INITIALLY DEFERRED",
        """
        c: BEGIN
        c: DELETE FROM t WHERE id IN (3, 9)
        b: BEGIN
        b: DELETE FROM p WHERE id = 3 => DELETE 1
        b: COMMIT -- waits
        c: ROLLBACK
        b goes on => error 23503
        c: BEGIN
        c: DELETE FROM t WHERE id IN (3, 9)
        b: DELETE FROM p WHERE id = 3 -- waits
        c: COMMIT
        b goes on => DELETE 1
    """,
    ),
    "deferred ends that wait for each other": (
        "DEFERRABLE INITIALLY DEFERRED",
        """
        a: BEGIN
        a: DELETE FROM p WHERE id = 8
        a: INSERT INTO t VALUES (20, 9, 0)
        b: BEGIN
        b: DELETE FROM p WHERE id = 9
        b: INSERT INTO t VALUES (21, 8, 0)
        a: COMMIT -- waits
        b: COMMIT -- waits
        a or b goes on => error 40P01
        c: DELETE FROM t WHERE id > 12 => DELETE 1
        c: INSERT INTO p VALUES (8, 0), (9, 0) ON CONFLICT (id) DO UPDATE SET v = 0
    """,
    ),
    "keys change places before the deferred end": (
        "DEFERRABLE INITIALLY DEFERRED",
        """
        a: BEGIN
        a: UPDATE p SET id = 100 WHERE id = 3
        a: UPDATE p SET id = 3 WHERE id = 7
        a: SELECT v FROM p WHERE id = 3 => 70
        a: COMMIT
        a: BEGIN
        a: DELETE FROM p WHERE id = 2
        a: SAVEPOINT s
        a: SET CONSTRAINTS ALL IMMEDIATE => error 23503
        a: ROLLBACK TO s
        a: INSERT INTO p VALUES (2, 0)
        a: SET CONSTRAINTS ALL IMMEDIATE
        a: DELETE FROM p WHERE id = 2 => error 23503
        a: ROLLBACK TO s
        a: DELETE FROM t WHERE p = 2
        a: COMMIT
    """,
    ),
    "what is deferred only when asked for": (
        "DEFERRABLE",
        """
        a: INSERT INTO t VALUES (20, 30, 0) => error 23503
        a: DELETE FROM p WHERE id = 3 => error 23503
        a: BEGIN
        a: SET CONSTRAINTS t_p_fkey DEFERRED
        a: DELETE FROM p WHERE id = 3 => DELETE 1
        a: INSERT INTO t VALUES (20, 30, 0)
        b: DELETE FROM t WHERE p = 3 => DELETE 2
        b: INSERT INTO p VALUES (30, 0)
        a: SET CONSTRAINTS t_p_fkey IMMEDIATE
        b: DELETE FROM p WHERE id = 30 -- waits
        a: COMMIT
        b goes on => error 23503
    """,
    ),
    "refused at once, however deferrable": (
        "ON DELETE RESTRICT ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED",
        """
        a: BEGIN
        a: UPDATE p SET id = 40 WHERE id = 4
        a: SELECT p FROM t WHERE id = 4 => 40
        a: SAVEPOINT s
        a: DELETE FROM p WHERE id = 3 => error 23001
        a: ROLLBACK TO s
        a: DELETE FROM p WHERE id = 9 => DELETE 1
        a: COMMIT
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


def make_tiered(owner: psycopg.Connection, schema: str, table: str = "t") -> None:
    owner.execute(f"ALTER TABLE {table} SET (gateway.residency = never)")
    deadline = time.monotonic() + PATIENCE_S
    told = (
        "SELECT residency, pinned_by FROM pg_journal.tables"
        " WHERE schema_name = %s AND table_name = %s"
    )
    while (found := owner.execute(told, [schema, table]).fetchone()) != ("tiered", None):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def play(
    servers: Mapping[str, Address], backend: str, by: str, name: str
) -> tuple[list[str], list[tuple]]:
    """Return the dialogue, and what is in both tables afterwards."""
    schema = f"references_{list(SETUPS).index(by)}_{list(SCENARIOS).index(name)}"
    actions, dialogue = SCENARIOS[name]
    with connect(servers, backend, schema) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
        for statement in SETUPS[by][0]:
            owner.execute(statement.format(actions=actions))
        tables, prepared = BACKENDS[backend]
        for table in tables:
            make_tiered(owner, schema, table)
        if prepared:
            owner.execute(prepared)
        with ExitStack() as stack:
            said = Stage(lambda: connect(servers, backend, schema), stack).play(dialogue)
        rows = owner.execute("SELECT * FROM t ORDER BY id").fetchall()
        rows += owner.execute("SELECT id, v FROM p ORDER BY id").fetchall()
        if backend != "plain":
            for table in "pt":
                assert owner.execute(f"SELECT gateway.check('{table}')").fetchall() == [(0,)]
    return said, rows


@pytest.mark.parametrize("by", SETUPS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_referenced_is_fought_for_as_in_postgresql(
    servers: Mapping[str, Address], name: str, by: str
) -> None:
    _, backends = SETUPS[by]
    with ThreadPoolExecutor(len(backends)) as pool:
        played = {backend: pool.submit(play, servers, backend, by, name) for backend in backends}
    said, rows = played["plain"].result()
    assert said == expected(SCENARIOS[name][1], said)
    for backend in backends:
        assert played[backend].result() == (said, rows), backend


UNFIT = {
    "to a table without primary key": "CREATE TABLE c (p integer REFERENCES q (n))",
    "to a table whose keys cannot be hot": "CREATE TABLE c (p integer REFERENCES r (n))",
    "by values that cannot be hot": "CREATE TABLE c (p numeric REFERENCES p (n))",
    "its action changes what is unique": (
        "CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON UPDATE CASCADE,"
        " v integer, UNIQUE (p, v))"
    ),
    "of another type": "CREATE TABLE c (p bigint REFERENCES p)",
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_key_that_cannot_be_kept_pins_its_table(
    servers: Mapping[str, Address], name: str
) -> None:
    schema = f"references_unfit_{list(UNFIT).index(name)}"
    with connect(servers, "cold", schema) as owner:
        for statement in (
            f"CREATE SCHEMA {schema}",
            "CREATE TABLE p (id integer PRIMARY KEY, n numeric UNIQUE)",
            "CREATE TABLE q (n integer UNIQUE)",
            "CREATE TABLE r (id double precision PRIMARY KEY, n integer UNIQUE)",
        ):
            owner.execute(statement)
        owner.execute(UNFIT[name])
        told = "SELECT string_agg(pinned_by, '') FROM pg_journal.tables WHERE schema_name = %s"
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


def test_tables_that_are_tiered_from_the_beginning_keep_their_keys(
    gateway: Address, database: str
) -> None:
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as owner:
        for statement in SETUP:
            owner.execute(statement.format(actions=""))
        # Who defines a table lets its rows go cold.
        owner.execute("ALTER TABLE t ALTER v DROP DEFAULT")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            owner.execute("DELETE FROM p WHERE id = 2")
        owner.execute("UPDATE t SET v = 0 WHERE id = 12")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            owner.execute("DELETE FROM p WHERE id = 1")
        owner.execute("DELETE FROM p WHERE id = 9")
        owner.execute("DELETE FROM t WHERE p = 2")
        owner.execute("DELETE FROM p WHERE id = 2")
        assert owner.execute("SELECT count(*) FROM p").fetchone() == (7,)


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
            "DO 'BEGIN TRUNCATE p CASCADE; END'",
            "EXPLAIN ANALYZE DELETE FROM p WHERE id = 1",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                owner.execute(statement)
        owner.execute("SELECT take(9)")
        assert owner.execute("SELECT count(*) FROM p").fetchone() == (8,)
        assert owner.execute("SELECT count(*) FROM t").fetchone() == (12,)


@pytest.mark.parametrize("key", ["PRIMARY KEY", "UNIQUE"])
@pytest.mark.parametrize("tables", ["p", "pt"])
def test_many_rows_are_looked_up_at_once(
    servers: Mapping[str, Address], tables: str, key: str
) -> None:
    schema = f"references_many_{tables}_{key[:3].lower()}"
    other = "v integer" if key == "PRIMARY KEY" else "v integer PRIMARY KEY"
    with connect(servers, "parent", schema) as owner:
        for statement in (
            f"CREATE SCHEMA {schema}",
            f"CREATE TABLE p (id integer {key}, {other})",
            "INSERT INTO p SELECT g, 30000 - g FROM generate_series(1, 30000) g",
            "CREATE TABLE t (id integer PRIMARY KEY, p integer REFERENCES p (id))",
            "INSERT INTO t VALUES (0, 1)",
        ):
            owner.execute(statement)
        for table in tables:
            make_tiered(owner, schema, table)
        added = "INSERT INTO t SELECT g, g + %s::int FROM generate_series(%s::int, %s::int) g"
        assert owner.execute(added, [0, 1, 3_000]).rowcount == 3_000
        assert owner.execute(added, [5_000, 5_001, 20_000]).rowcount == 15_000
        explained = "EXPLAIN ANALYZE INSERT INTO t VALUES (-1, 29000)"
        if "t" in tables:
            owner.execute(explained)
            owner.execute("DELETE FROM t WHERE id = -1")
        else:
            # PostgreSQL runs it alone.
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                owner.execute(explained)
        for missing in ([27_001, 1, 3_000], [15_000, 5_001, 15_001]):
            with pytest.raises(psycopg.errors.ForeignKeyViolation) as told:
                owner.execute(added, [missing[0], missing[1] + 50_000, missing[2] + 50_000])
            assert "is not present in table" in str(told.value.diag.message_detail)
        with owner.cursor().copy("COPY t FROM STDIN") as copied:
            for number in range(3_000):
                copied.write_row((100_000 + number, 30_000 - number))
        with (
            pytest.raises(psycopg.errors.ForeignKeyViolation),
            owner.cursor().copy("COPY t FROM STDIN") as copied,
        ):
            copied.write_row((200_000, 30_001))
        assert owner.execute("SELECT count(*) FROM t").fetchone() == (21_001,)
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            owner.execute("DELETE FROM p WHERE id = 29999")
        assert owner.execute("SELECT gateway.check('t')").fetchone() == (0,)


def test_code_that_handles_errors_is_told_what_it_cannot_see(
    servers: Mapping[str, Address],
) -> None:
    schema = "references_handled"
    with connect(servers, "parent", schema) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
        for statement in SETUP:
            owner.execute(statement.format(actions=""))
        # No other table has this name.
        owner.execute("ALTER TABLE t RENAME TO handled")
        owner.execute(
            "CREATE FUNCTION put(n integer) RETURNS text LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO handled VALUES (n + 100, n, 0); RETURN 'there';"
            " EXCEPTION WHEN foreign_key_violation THEN RETURN 'not there'; END $$"
        )
        make_tiered(owner, schema, "p")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            owner.execute("SELECT put(77)")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            owner.execute("SELECT put(7)")
        # In a transaction what comes later has it looked up.
        with owner.transaction():
            assert owner.execute("SELECT put(7)").fetchone() == ("there",)
            owner.execute("INSERT INTO handled VALUES (50, 8, 0)")
        assert owner.execute("SELECT id, p FROM handled WHERE id > 12 ORDER BY id").fetchall() == [
            (50, 8),
            (107, 7),
        ]


@pytest.mark.parametrize("tables", ["p", "t", "pt", ""])
def test_a_foreign_key_is_added_to_tables_with_rows(
    servers: Mapping[str, Address], tables: str
) -> None:
    schema = f"references_added_{tables}"
    with connect(servers, "parent", schema) as owner:
        for statement in (
            f"CREATE SCHEMA {schema}",
            "CREATE TABLE p (x integer, y text, v integer, PRIMARY KEY (y, x))",
            "INSERT INTO p SELECT g, 'k' || g % 7, g FROM generate_series(1, 90) g",
            "CREATE TABLE t (id integer PRIMARY KEY, y text, x integer)",
            "INSERT INTO t SELECT g, 'k' || g % 7, g FROM generate_series(1, 60) g",
            "INSERT INTO t VALUES (1001, NULL, 7), (1002, 'none', 7)",
        ):
            owner.execute(statement)
        for table in tables:
            make_tiered(owner, schema, table)
        add = (
            "ALTER TABLE t ADD CONSTRAINT k FOREIGN KEY (x, y) REFERENCES p (x, y)"
            " ON DELETE CASCADE"
        )
        with pytest.raises(psycopg.errors.ForeignKeyViolation) as told:
            owner.execute(add)
        assert told.value.diag.message_detail == 'Key (x, y)=(7, none) is not present in table "p".'
        assert told.value.diag.constraint_name == "k"
        owner.execute("DELETE FROM t WHERE id = 1002")
        owner.execute(add)
        is_valid = "SELECT convalidated FROM pg_constraint WHERE conname = 'k'"
        assert owner.execute(is_valid).fetchall() == [(True,)]
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            owner.execute("INSERT INTO t VALUES (2000, 'k2', 1)")
        owner.execute("INSERT INTO t VALUES (2000, 'k2', 86), (2001, 'k3', NULL)")
        owner.execute("DELETE FROM p WHERE x IN (5, 86)")
        assert owner.execute("SELECT count(*), sum(x) FROM t").fetchone() == (61, 1_832)
        for table in "pt":
            assert owner.execute(f"SELECT gateway.check('{table}')").fetchone() == (0,)
        owner.execute("ALTER TABLE t DROP CONSTRAINT k")
        owner.execute("INSERT INTO t VALUES (2002, 'k2', 1)")
        owner.execute("DELETE FROM p")


@pytest.mark.parametrize("tables", ["p", "t", "pt"])
@pytest.mark.parametrize("key", ["PRIMARY KEY", "UNIQUE"])
def test_a_key_of_another_length_is_looked_for_as_before(
    servers: Mapping[str, Address], key: str, tables: str
) -> None:
    schema = f"references_longer_{tables}_{key[:3].lower()}"
    other = "v integer" if key == "PRIMARY KEY" else "v integer PRIMARY KEY"
    with connect(servers, "parent", schema) as owner:
        for statement in (
            f"CREATE SCHEMA {schema}",
            "CREATE TABLE e (id integer PRIMARY KEY)",
            f"CREATE TABLE p (k varchar(10) {key}, {other}, extra integer)",
            "INSERT INTO p SELECT g, g FROM generate_series(1, 50) g",
            "CREATE TABLE t (id integer PRIMARY KEY, k varchar(10) REFERENCES p (k))",
            "INSERT INTO t SELECT g, g FROM generate_series(1, 20) g",
        ):
            owner.execute(statement)
        for table in f"e{tables}":
            make_tiered(owner, schema, table)
        longer = "ALTER TABLE p ALTER COLUMN k TYPE varchar(20)"
        if "t" in tables:
            for refused in (longer, f"{longer}, DROP COLUMN extra"):
                with pytest.raises(psycopg.errors.FeatureNotSupported):
                    owner.execute(refused)
        else:
            owner.execute(longer)
        for violating in ("INSERT INTO t VALUES (100, '77')", "DELETE FROM p WHERE k = '5'"):
            with pytest.raises(psycopg.errors.ForeignKeyViolation):
                owner.execute(violating)
        owner.execute("INSERT INTO t VALUES (100, '40')")
        assert owner.execute("DELETE FROM p WHERE k IN ('45', '50')").rowcount == 2
        owner.execute("ALTER TABLE e ADD COLUMN k varchar(10) REFERENCES p (k)")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            owner.execute("INSERT INTO e VALUES (1, '45')")


def test_definitions_keep_what_references_tiered_tables(servers: Mapping[str, Address]) -> None:
    schema = "references_redefined"
    with connect(servers, "parent", schema) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
        for statement in SETUP:
            owner.execute(statement.format(actions=""))
        owner.execute("CREATE TABLE tree (LIKE t) PARTITION BY LIST (id)")
        make_tiered(owner, schema, "p")
        for refused in (
            "ALTER TABLE t ALTER CONSTRAINT t_p_fkey NOT ENFORCED",
            "CREATE TABLE u (p bigint REFERENCES p)",
            "CREATE TABLE u () INHERITS (t)",
            "ALTER TABLE t ADD COLUMN q integer DEFAULT 3 REFERENCES p",
            "ALTER TABLE t ALTER COLUMN p TYPE bigint",
            "ALTER TABLE tree ATTACH PARTITION t DEFAULT",
            "ALTER TABLE tree ADD FOREIGN KEY (p) REFERENCES p",
            "CREATE TABLE u (p integer REFERENCES p) PARTITION BY LIST (p)",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                owner.execute(refused)
        for done in (
            "ALTER TABLE t RENAME COLUMN p TO q",
            "ALTER TABLE p RENAME TO q",
            "ALTER TABLE q RENAME COLUMN id TO key",
            "ALTER TABLE t ADD COLUMN r integer REFERENCES q",
            f"ALTER SCHEMA {schema} RENAME TO {schema}_2",
            f"SET search_path = {schema}_2",
            "INSERT INTO t VALUES (20, 9, 0, 8)",
            "UPDATE t SET q = 8 WHERE id = 1",
            "ALTER TABLE t DROP COLUMN r",
            "INSERT INTO t VALUES (21, 9, 0)",
        ):
            owner.execute(done)
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match='present in table "q"'):
            owner.execute("INSERT INTO t VALUES (22, 99, 0)")
        owner.execute("DROP TABLE q CASCADE")
        owner.execute("INSERT INTO t VALUES (22, 99, 0)")
