"""A write of whose rows the journal does not get all fails (XX001), and nothing of it is there."""

import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.server.test_removed_files import administrator
from tests.support.servers import Address, GatewayProcess
from tests.support.tiers import PATIENCE_S, await_tiered, make_tiered

pytestmark = pytest.mark.server

SETUP = (
    "CREATE TABLE t (id integer PRIMARY KEY, v integer)",
    "INSERT INTO t SELECT g, g FROM generate_series(1, 1500) g",
)

LOSE = """
CREATE FUNCTION pg_journal.lose() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF new.c1 = 3 THEN RETURN NULL; END IF; RETURN new; END';
CREATE TRIGGER lose BEFORE INSERT ON pg_journal.tail_{0} FOR EACH ROW
    EXECUTE FUNCTION pg_journal.lose();
"""
"""Loses row versions of one row, as no role can."""

LOSE_ROW = """
CREATE FUNCTION pg_journal.lose() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF new.id = 3 THEN RETURN NULL; END IF; RETURN new; END';
CREATE TRIGGER lose BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION pg_journal.lose();
ALTER TABLE public.t ENABLE ALWAYS TRIGGER lose
"""
"""Has PostgreSQL lose one row that is put into the table, as no role can."""

KEEP = """
CREATE FUNCTION pg_journal.keep() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF old.c1 = 3 THEN RETURN NULL; END IF; RETURN old; END';
CREATE TRIGGER keep BEFORE DELETE ON pg_journal.tail_{0} FOR EACH ROW
    EXECUTE FUNCTION pg_journal.keep();
"""
"""Keeps row versions of one row in the tail when they are in files, as no role can."""

STATEMENTS = {
    "by key": "UPDATE t SET v = 0 WHERE id = 3",
    "of several rows": "UPDATE t SET v = 0 WHERE id IN (2, 3)",
    "with a result": "UPDATE t SET v = 0 WHERE id = 3 RETURNING v",
    "that deletes": "DELETE FROM t WHERE id = 3",
    "that gives another key": "UPDATE t SET id = 9003 WHERE id = 3",
    "that gives its key to another": "WITH g AS (DELETE FROM t WHERE id = 3) SELECT 1",
    "that merges": (
        "MERGE INTO t USING (VALUES (2), (3)) s (id) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = 0"
    ),
    "that inserts or updates": (
        "INSERT INTO t VALUES (3, 0) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
    ),
    "in a function": "DO $$ BEGIN UPDATE t SET v = 0 WHERE id = 3; END $$",
}


@pytest.fixture(params=["resident", "hot"])
def tier(request: pytest.FixtureRequest) -> str:
    """How the table's rows are kept."""
    return str(request.param)


@pytest.fixture
def process(tier: str, request: pytest.FixtureRequest) -> GatewayProcess:
    """A gateway whose tables are kept so."""
    name = "resident_process" if tier == "resident" else "gateway_process"
    served = request.getfixturevalue(name)
    assert isinstance(served, GatewayProcess)
    return served


@pytest.fixture
def database(process: GatewayProcess, tier: str) -> Iterator[str]:
    """A database whose table loses a row, which is hot where the table is tiered."""
    address: Address = process.address
    name = f"conserved_{tier}"
    address.execute(f"CREATE DATABASE {name}")
    address.execute(*SETUP, database=name)
    if tier == "hot":
        address.execute("UPDATE t SET v = v WHERE id IN (2, 3)", database=name)
    with administrator(process, name) as catalog:
        ((relid,),) = catalog.execute("SELECT 't'::regclass::oid::integer").fetchall()
        catalog.execute(LOSE.format(relid))  # type: ignore[call-overload]
    yield name
    address.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_statement_fails_and_leaves_nothing(
    process: GatewayProcess, database: str, tier: str
) -> None:
    whole = "SELECT count(*), sum(id), sum(v) FROM t"
    with psycopg.connect(process.address.conninfo(database), autocommit=True) as client:
        before = client.execute(whole).fetchall()
        for name, statement in STATEMENTS.items():
            if tier == "hot" and name == "in a function":
                continue
            with pytest.raises(psycopg.errors.DataCorrupted, match="row versions of"):
                client.execute(statement)  # type: ignore[call-overload]
            assert client.execute(whole).fetchall() == before, name
            client.execute("BEGIN")
            client.execute("UPDATE t SET v = -1 WHERE id = 2")
            with pytest.raises(psycopg.errors.DataCorrupted, match="row versions of"):
                client.execute(statement)  # type: ignore[call-overload]
            assert client.execute("COMMIT").statusmessage == "ROLLBACK"
            assert client.execute(whole).fetchall() == before, name
        client.execute("UPDATE t SET v = v WHERE id = 2")
        assert client.execute("SELECT gateway.check('t')").fetchone() == (0,)
        assert client.execute(whole).fetchall() == before


def test_a_table_does_not_become_resident_without_one_of_its_rows(
    resident_process: GatewayProcess,
) -> None:
    address, whole = resident_process.address, "SELECT count(*), sum(id), sum(v) FROM t"
    logged = len(resident_process.log)
    address.execute("CREATE DATABASE conserved_thaw")
    with (
        psycopg.connect(address.conninfo("conserved_thaw"), autocommit=True) as client,
        administrator(resident_process, "conserved_thaw") as catalog,
    ):
        for statement in SETUP:
            client.execute(statement)  # type: ignore[call-overload]
        make_tiered(client, "t")
        before = client.execute(whole).fetchall()
        with catalog.transaction():
            catalog.execute("SET LOCAL event_triggers = off")
            catalog.execute(LOSE_ROW)
        client.execute("ALTER TABLE t SET (gateway.residency = always)")
        _await_line(resident_process, 'table "t" got 1499 of the 1500 rows in its journal', logged)
        assert client.execute(whole).fetchall() == before
        with catalog.transaction():
            catalog.execute("SET LOCAL event_triggers = off")
            catalog.execute("DROP TRIGGER lose ON public.t")
        client.execute("VACUUM t")
        assert client.execute(whole).fetchall() == before
    address.execute("DROP DATABASE conserved_thaw WITH (FORCE)")


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_what_stays_in_the_tail_is_not_published(
    process: GatewayProcess, tier: str, key: str
) -> None:
    address, whole = process.address, "SELECT count(*), sum(id), sum(v) FROM t"
    address.execute("CREATE DATABASE conserved_flush")
    with (
        psycopg.connect(address.conninfo("conserved_flush"), autocommit=True) as client,
        administrator(process, "conserved_flush") as catalog,
    ):
        client.execute(f"CREATE TABLE t (id integer {key}, v integer)")  # type: ignore[call-overload]
        client.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 9) g")
        if tier == "hot" and key:
            client.execute("UPDATE t SET v = v WHERE id IN (2, 3)")
        before = client.execute(whole).fetchall()
        ((relid,),) = catalog.execute("SELECT 't'::regclass::oid::integer").fetchall()
        catalog.execute(KEEP.format(relid))
        with pytest.raises(psycopg.errors.DataCorrupted, match=r"were read .*, and \d+ taken out"):
            client.execute("VACUUM t")
        assert client.execute(whole).fetchall() == before
        query = f"SELECT count(*) FROM pg_journal.segments WHERE relid = {relid}"
        assert catalog.execute(query).fetchall() == [(0,)]
        catalog.execute(f"DROP TRIGGER keep ON pg_journal.tail_{relid}")
        client.execute("VACUUM t")
        assert client.execute(whole).fetchall() == before
        assert client.execute("SELECT gateway.check('t')").fetchone() == (0,)
    address.execute("DROP DATABASE conserved_flush WITH (FORCE)")


def test_upkeep_does_not_publish_what_stays_in_the_tail(gateway_process: GatewayProcess) -> None:
    address, logged = gateway_process.address, len(gateway_process.log)
    address.execute("CREATE DATABASE conserved_upkeep")
    with (
        psycopg.connect(address.conninfo("conserved_upkeep"), autocommit=True) as client,
        administrator(gateway_process, "conserved_upkeep") as catalog,
    ):
        client.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        ((relid,),) = catalog.execute("SELECT 't'::regclass::oid::integer").fetchall()
        catalog.execute(KEEP.format(relid))
        for first in range(1, 11_000, 900):
            client.execute(
                "INSERT INTO t SELECT g, g FROM generate_series(%s::int, %s) g",
                [first, first + 899],
            )
        _await_line(gateway_process, "were read for its files, and", logged)
        assert client.execute("SELECT count(*) FROM t").fetchall() == [(11_700,)]
        segments = f"SELECT count(*) FROM pg_journal.segments WHERE relid = {relid}"
        assert catalog.execute(segments).fetchall() == [(0,)]
    address.execute("DROP DATABASE conserved_upkeep WITH (FORCE)")


@pytest.mark.parametrize("in_files", [False, True])
def test_a_table_does_not_become_tiered_without_one_of_its_rows(
    resident_process: GatewayProcess, *, in_files: bool
) -> None:
    address, whole = resident_process.address, "SELECT count(*), sum(id), sum(v) FROM t"
    logged = len(resident_process.log)
    address.execute("CREATE DATABASE conserved_freeze")
    with (
        psycopg.connect(address.conninfo("conserved_freeze"), autocommit=True) as client,
        administrator(resident_process, "conserved_freeze") as catalog,
    ):
        for statement in SETUP:
            client.execute(statement)  # type: ignore[call-overload]
        before = client.execute(whole).fetchall()
        ((relid,),) = catalog.execute("SELECT 't'::regclass::oid::integer").fetchall()
        catalog.execute(f"DELETE FROM pg_journal.tail_{relid} WHERE c1 = 3")
        if in_files:
            client.execute("VACUUM t")
            client.execute("UPDATE t SET v = v WHERE id < 3")
        client.execute("ALTER TABLE t SET (gateway.residency = never)")
        _await_line(resident_process, 'the journal of table "t" has 1499 of its 1500 rows', logged)
        assert client.execute(whole).fetchall() == before
        client.execute("UPDATE t SET v = v WHERE id = 3")
        await_tiered(client, "t")
        assert client.execute(whole).fetchall() == before
    address.execute("DROP DATABASE conserved_freeze WITH (FORCE)")


def test_a_table_does_not_become_tiered_with_another_row_than_its_files(
    resident_process: GatewayProcess,
) -> None:
    address, logged = resident_process.address, len(resident_process.log)
    address.execute("CREATE DATABASE conserved_values")
    with (
        psycopg.connect(address.conninfo("conserved_values"), autocommit=True) as client,
        administrator(resident_process, "conserved_values") as catalog,
    ):
        client.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        client.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 9) g")
        client.execute("VACUUM t")
        catalog.execute("SET session_replication_role = replica")
        catalog.execute("UPDATE t SET v = -1 WHERE id = 3")
        client.execute("ALTER TABLE t SET (gateway.residency = never)")
        told = 'the journal of table "t" has another row with key (3) than PostgreSQL'
        _await_line(resident_process, told, logged)
        assert client.execute("SELECT v FROM t WHERE id = 3").fetchall() == [(-1,)]
        client.execute("UPDATE t SET v = v WHERE id = 3")
        await_tiered(client, "t")
        assert client.execute("SELECT v FROM t WHERE id = 3").fetchall() == [(-1,)]
    address.execute("DROP DATABASE conserved_values WITH (FORCE)")


def _await_line(process: GatewayProcess, text: str, start: int) -> None:
    """Wait until the log has a line with a text, from a line on."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(text in line for line in process.log[start:]):
        assert time.monotonic() < deadline, text
        time.sleep(0.1)
