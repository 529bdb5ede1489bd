"""What a role without rights tries that connects to the catalog's server past the gateway."""

from collections.abc import Iterator

import psycopg
import pytest

from catalog.server.embedded import SUPERUSER
from tests.support.fix_server import DRIVER_OPTIONS
from tests.support.servers import Address, GatewayProcess, PlainPostgres
from tests.support.tiers import make_tiered

pytestmark = [pytest.mark.integration]

ROLE = "mallory"
OWNER = "alice"

DENIED = "42501"
UNANNOUNCED = "GW001"
"""Writes that nobody has announced: who connects to the gateway never sees this code."""

ROLES = (
    *(f"CREATE ROLE {role} LOGIN" for role in (OWNER, ROLE)),
    *(f"GRANT CREATE ON SCHEMA public TO {role}" for role in (OWNER, ROLE)),
    # Meant for tables of the operator's own.
    f"ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {ROLE}",
)

OTHERS = (
    "CREATE TABLE secret (id integer PRIMARY KEY, word text)",
    "INSERT INTO secret VALUES (1, 'open sesame')",
    "CREATE TABLE lent (id integer PRIMARY KEY, v integer)",
    "INSERT INTO lent VALUES (1, 1)",
    f"GRANT ALL ON lent TO {ROLE}",
    "CREATE TABLE noted (id integer PRIMARY KEY, v integer)",
    "INSERT INTO noted VALUES (1, 1)",
    f"GRANT ALL ON noted TO {ROLE}",
)
"""Tables of another role; the first two become tiered."""

ATTEMPTS: dict[str, str | None] = {
    "SELECT secret_key FROM pg_journal.instance": DENIED,
    "TABLE pg_journal.tail_N": DENIED,
    "TABLE pg_journal.journal_N": DENIED,
    "CREATE VIEW v AS TABLE pg_journal.tail_N": DENIED,
    "CREATE TABLE t (a pg_journal.tail_N)": DENIED,
    "CREATE FUNCTION pg_journal.authorize(code varchar) RETURNS void LANGUAGE sql AS ''": DENIED,
    "CREATE TRIGGER t BEFORE INSERT ON pg_journal.segments EXECUTE FUNCTION noted()": DENIED,
    "SELECT pg_journal.snapshot('guess', '[]')": DENIED,
    "SELECT pg_journal.announce('guess', 'lent'::regclass, 'ROW EXCLUSIVE', true, 'keys', '[[1]]',"
    " true, 1, true, true, '{}')": DENIED,
    "SELECT pg_journal.thaw_keys('lent'::regclass, 1, 1, pg_current_snapshot(), '[]', '[]',"
    " true)": DENIED,
    "SELECT pg_journal.renew_key()": DENIED,
    "SELECT setval('pg_journal.calls_1', 1)": DENIED,
    "LOCK TABLE pg_journal.series IN SHARE MODE": DENIED,
    "SET session_replication_role = replica": DENIED,
    "SET event_triggers = off": DENIED,
    "TABLE secret": DENIED,
    "INSERT INTO lent VALUES (2, 2)": UNANNOUNCED,
    "UPDATE lent SET v = 2": UNANNOUNCED,
    "DELETE FROM lent": UNANNOUNCED,
    "TRUNCATE lent": "0A000",
    "MERGE INTO lent USING (VALUES (7)) s (i) ON i = id"
    " WHEN NOT MATCHED THEN INSERT VALUES (i, i)": UNANNOUNCED,
    "SELECT set_config('pg_journal.writing_' || 'lent'::regclass::oid, 'x', true);"
    " INSERT INTO lent VALUES (2, 2)": UNANNOUNCED,
    "CREATE RULE r AS ON INSERT TO lent DO NOTHING": DENIED,
    "ALTER TABLE lent DISABLE TRIGGER ALL": DENIED,
    "DROP TABLE lent": DENIED,
    "CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql"
    " AS 'BEGIN RETURN (SELECT count(*) FROM lent); END'": "0A000",
    "INSERT INTO noted VALUES (2, 2)": None,
    "UPDATE noted SET v = 2": None,
}

HOLDING = (
    "PREPARE p AS DELETE FROM pg_journal.series",
    "PREPARE p AS DELETE FROM pg_journal.instance",
    "SELECT pg_journal.take_series()",
    "SELECT * FROM pg_journal.tables, pg_journal.definition_marks",
)
"""What leaves locks until the transaction ends."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Address]]:
    """Yield a gateway's address, and that of its catalog."""
    directory = tmp_path_factory.mktemp("boundaries")
    with PlainPostgres(directory / "server") as server:
        direct = server.address
        with psycopg.connect(direct.conninfo(user=SUPERUSER), autocommit=True) as operator:
            for statement in ROLES:
                operator.execute(statement)  # type: ignore[call-overload]
        url = f"postgresql://{SUPERUSER}@/postgres?host={direct.host}&port={direct.port}"
        with GatewayProcess(directory / "gateway", *DRIVER_OPTIONS, "--catalog", url) as gateway:
            owner = gateway.address.conninfo(user=OWNER)
            with psycopg.connect(owner, autocommit=True) as connection:
                for statement in OTHERS:
                    connection.execute(statement)  # type: ignore[call-overload]
                make_tiered(connection, "secret", "lent")
            yield gateway.address, direct


def _answer(connection: psycopg.Connection, statement: str) -> str | None:
    """Return the SQLSTATE a statement fails with; None for one that does not, which is undone."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement)  # type: ignore[call-overload]
    except psycopg.Error as error:
        return error.sqlstate
    return None


def test_past_the_gateway_there_is_no_more_to_be_had(servers: tuple[Address, Address]) -> None:
    gateway, direct = servers
    with psycopg.connect(direct.conninfo(user=ROLE), autocommit=True) as mallory:
        ((secret,),) = mallory.execute("SELECT 'secret'::regclass::oid").fetchall()
        answers = {
            statement: _answer(mallory, statement.replace("_N", f"_{secret}"))
            for statement in ATTEMPTS
        }
    assert {key: value for key, value in answers.items() if value != ATTEMPTS[key]} == {}
    with psycopg.connect(gateway.conninfo(user=OWNER), autocommit=True) as owner:
        assert owner.execute("TABLE secret").fetchall() == [(1, "open sesame")]
        assert owner.execute("TABLE lent").fetchall() == [(1, 1)]


def test_what_is_written_past_the_gateway_is_captured(servers: tuple[Address, Address]) -> None:
    gateway, direct = servers
    with psycopg.connect(direct.conninfo(user=ROLE), autocommit=True) as mallory:
        mallory.execute("INSERT INTO noted VALUES (3, 3)")
    with psycopg.connect(gateway.conninfo(user=OWNER), autocommit=True) as owner:
        assert owner.execute("SELECT count(*) FROM noted_journal WHERE id = 3").fetchone() == (1,)
        assert owner.execute("SELECT gateway.check('noted')").fetchone() == (0,)


@pytest.mark.parametrize("statement", HOLDING)
def test_nobody_waits_for_who_connects_past_the_gateway(
    servers: tuple[Address, Address], statement: str
) -> None:
    gateway, direct = servers
    with psycopg.connect(direct.conninfo(user=ROLE)) as mallory:
        mallory.execute(statement)  # type: ignore[call-overload]
        limited = gateway.conninfo(user=OWNER, connect_timeout="20")
        with psycopg.connect(limited, autocommit=True) as owner:
            for wanted in (
                "SET statement_timeout = '20s'",
                "CREATE TABLE t (id integer PRIMARY KEY)",
                "INSERT INTO t VALUES (1)",
                "DROP TABLE t",
                "UPDATE secret SET word = word WHERE id = 1",
            ):
                owner.execute(wanted)  # type: ignore[call-overload]
