"""Migrations are applied once, in order; a database of another program is refused, not touched."""

import hashlib
from collections.abc import Iterator

import psycopg
import pytest

from catalog.api import Catalog
from catalog.embedded import SUPERUSER
from catalog.errors import GatewayError
from catalog.migrations import migrate, scripts

pytestmark = pytest.mark.catalog


@pytest.fixture
def administrator(catalog: Catalog, database: str) -> Iterator[psycopg.Connection]:
    """Return the administrator's connection to the test's database, whose bookkeeping is there."""
    assert catalog.server is not None
    address = f"host={catalog.server.host} port={catalog.server.port}"
    with psycopg.connect(f"{address} user={SUPERUSER} dbname={database}", autocommit=True) as found:
        yield found


def applied(administrator: psycopg.Connection) -> list[tuple]:
    columns = "number, name, digest, applied_at"
    return administrator.execute(
        f"SELECT {columns} FROM pg_journal.migrations ORDER BY number"
    ).fetchall()


def refusal(administrator: psycopg.Connection) -> GatewayError:
    before = applied(administrator)
    with pytest.raises(GatewayError) as caught:
        migrate(administrator)
    assert applied(administrator) == before
    assert caught.value.sqlstate == "55000"
    assert caught.value.hint
    return caught.value


def test_each_is_applied_once(administrator: psycopg.Connection) -> None:
    before = applied(administrator)
    assert [row[:3] for row in before] == [
        (number, name, hashlib.sha256(text.encode()).hexdigest())
        for number, name, text in scripts()
    ]
    migrate(administrator)
    assert applied(administrator) == before


def test_a_missing_one_is_applied(administrator: psycopg.Connection) -> None:
    administrator.execute("DROP SCHEMA pg_journal CASCADE")
    migrate(administrator)
    assert [row[0] for row in applied(administrator)] == [number for number, _, _ in scripts()]


def test_a_database_of_a_newer_program_is_refused(administrator: psycopg.Connection) -> None:
    administrator.execute("INSERT INTO pg_journal.migrations (number, name) VALUES (9999, 'later')")
    assert "newer version (migration 9999)" in refusal(administrator).message


@pytest.mark.parametrize("digest", ["another", None])
def test_a_database_with_another_form_of_a_migration_is_refused(
    administrator: psycopg.Connection, digest: str | None
) -> None:
    administrator.execute("UPDATE pg_journal.migrations SET digest = %s WHERE number = 5", [digest])
    assert "another form of migration 5" in refusal(administrator).message


def test_clients_are_told_at_login(
    catalog: Catalog, administrator: psycopg.Connection, database: str
) -> None:
    administrator.execute("INSERT INTO pg_journal.migrations (number, name) VALUES (9999, 'later')")
    with pytest.raises(GatewayError) as caught:
        catalog.connect("postgres", database, {})
    assert caught.value.sqlstate == "55000"
