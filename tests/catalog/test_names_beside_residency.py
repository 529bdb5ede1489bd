"""Commands that give code another name for a table, while another session makes it tiered."""

import pytest

from catalog.errors import GatewayError
from catalog.hot import resident_upkeep
from catalog.session import names
from tests.support.fix_catalog import Client, Inspector

pytestmark = pytest.mark.catalog

SETUP = (
    "CREATE SCHEMA s",
    "CREATE TABLE t (id int PRIMARY KEY)",
    "CREATE VIEW v AS SELECT * FROM t",
    "CREATE VIEW s.w AS SELECT 1 AS id",
    "CREATE MATERIALIZED VIEW m AS SELECT 1 AS id",
    (
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS"
        " 'BEGIN RETURN (SELECT count(*) FROM w); END'"
    ),
)

NAMING = (
    "ALTER TABLE v RENAME TO w",
    "ALTER VIEW v RENAME TO w",
    "CREATE VIEW w AS SELECT * FROM t",
    "CREATE TEMP VIEW w AS SELECT * FROM t",
    "CREATE SCHEMA n CREATE VIEW w AS SELECT * FROM public.t",
)
"""What lets the function reach the table."""


@pytest.fixture
def table(client: Client, inspector: Inspector) -> int:
    for statement in SETUP:
        client.run(statement)
    client.run("SET lock_timeout = '100ms'")
    return client.relid("t")


@pytest.mark.parametrize("statement", NAMING)
def test_a_name_waits_for_who_makes_the_table_tiered(
    client: Client, inspector: Inspector, table: int, statement: str
) -> None:
    inspector.session.transaction.begin()
    resident_upkeep.make_tiered(inspector.session, table)
    assert client.sqlstate(statement) == "55P03"
    inspector.session.transaction.commit()
    assert client.sqlstate(statement) == "0A000"


@pytest.mark.parametrize("statement", [*NAMING, "ALTER TABLE v SET SCHEMA s"])
def test_no_table_becomes_tiered_that_is_being_given_a_name(
    client: Client, inspector: Inspector, table: int, statement: str
) -> None:
    client.session.transaction.begin()
    client.run(statement)
    inspector.run("SET lock_timeout = '100ms'")
    with pytest.raises(GatewayError) as caught:
        resident_upkeep.make_tiered(inspector.session, table)
    assert caught.value.sqlstate == "55P03"
    client.session.transaction.rollback()
    resident_upkeep.make_tiered(inspector.session, table)


def test_names_are_the_latest_and_of_what_there_is(client: Client, inspector: Inspector) -> None:
    client.run('CREATE TABLE "A ""b" (id int PRIMARY KEY)')
    relid = client.relid('"A ""b"')
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    client.run("SELECT 1")
    inspector.run('ALTER TABLE "A ""b" RENAME TO "C.d"')
    assert names.relation_name(client.session, relid) == 'public."C.d"'
    inspector.run('DROP TABLE "C.d"')
    with pytest.raises(GatewayError, match="does not exist") as caught:
        names.relation_name(client.session, relid)
    assert caught.value.sqlstate == "42P01"
    client.session.transaction.rollback()
