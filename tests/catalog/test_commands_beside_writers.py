"""Commands that PostgreSQL runs beside writers of a table wait for no writer of a journal."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.fix_catalog import wait_until_waiting

pytestmark = pytest.mark.catalog

BESIDE = (
    "GRANT SELECT ON t TO PUBLIC",
    "GRANT INSERT (a) ON t TO PUBLIC",
    "REVOKE SELECT ON t FROM PUBLIC",
    "ALTER TABLE t SET (fillfactor = 90)",
    "ALTER TABLE t RESET (fillfactor)",
    "ALTER TABLE t ALTER a SET STATISTICS 10",
    "ALTER TABLE t ALTER a SET (n_distinct = 5)",
    "ALTER TABLE t SET (autovacuum_enabled = false), ALTER b SET STATISTICS 10",
    "COMMENT ON TABLE t IS 'x'",
)

DEFINED = "SELECT definition, epoch FROM pg_journal.journals WHERE table_name = 't'"


@pytest.fixture
def table(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int CHECK (b > 0))")
    client.insert("t", "INSERT INTO t VALUES (1, 2)")
    return client.relid("t")


@pytest.fixture
def defined(catalog, database):
    """Return what tells whether a journal has been brought into line."""
    administrator = catalog.admin(database)
    yield lambda: list(administrator.execute(DEFINED).rows)
    administrator.close()


@pytest.mark.parametrize("command", BESIDE)
def test_they_wait_for_nobody(command, client, other, table):
    client.session.writes.begin_write([table])
    other.run("SET lock_timeout = '1s'")
    other.run(command)
    client.session.transaction.commit()


@pytest.mark.parametrize("command", BESIDE)
def test_they_keep_nobody_waiting(command, client, other, table):
    client.session.transaction.begin()
    client.run(command)
    other.run("SET lock_timeout = '1s'")
    other.session.writes.begin_write([table])
    other.session.transaction.rollback()
    client.session.transaction.commit()


@pytest.mark.parametrize("command", BESIDE)
def test_the_journal_is_what_it_was(command, client, defined, table):
    before = defined()
    client.run(command)
    assert defined() == before


@pytest.mark.parametrize(
    "command",
    [
        "ALTER TABLE t ADD c int",
        "ALTER TABLE t RENAME a TO c",
        "ALTER TABLE t RENAME CONSTRAINT t_b_check TO c",
        "ALTER TABLE t SET (fillfactor = 90), ALTER b SET NOT NULL",
        "ALTER INDEX t_pkey RENAME TO k",
    ],
)
def test_the_journal_follows_others(command, client, defined, table):
    before = defined()
    client.run(command)
    assert defined() != before


def test_the_journal_follows_constraints_that_are_validated_beside_writers(client, defined):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int)")
    client.run("ALTER TABLE t ADD CHECK (b > 0) NOT VALID")
    before = defined()
    client.run("ALTER TABLE t VALIDATE CONSTRAINT t_b_check")
    assert defined() != before


def test_a_lock_that_keeps_writers_is_waited_for(client, other, table):
    client.session.writes.begin_write([table])
    other.run("SET lock_timeout = '50ms'")
    assert other.sqlstate("ALTER TABLE t ADD c int") == "55P03"
    client.session.transaction.rollback()


def test_who_may_read_a_table_by_two_grants_at_once_reads_its_journal(client, other, reader):
    client.run("CREATE TABLE p (a int PRIMARY KEY) PARTITION BY LIST (a)")
    client.run("CREATE TABLE q PARTITION OF p FOR VALUES IN (1)")
    client.run("CREATE ROLE grantee")
    journal = f"pg_journal.journal_{client.relid('q')}"
    other.run("SET lock_timeout = '10s'")
    client.session.transaction.begin()
    client.run("GRANT SELECT ON p TO grantee")
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(other.run, "GRANT SELECT ON q TO PUBLIC")
        wait_until_waiting(other, client, "Lock")
        client.session.transaction.commit()
        second.result()
    reader.run(f"SELECT * FROM {journal}")
    assert client.value(f"SELECT has_table_privilege('grantee', '{journal}', 'SELECT')") == "t"
    client.run("REVOKE SELECT ON p FROM grantee")
    assert client.value(f"SELECT has_table_privilege('grantee', '{journal}', 'SELECT')") == "t"
    client.run("REVOKE SELECT ON q FROM PUBLIC")
    assert client.value(f"SELECT has_table_privilege('grantee', '{journal}', 'SELECT')") == "f"
    client.run("DROP ROLE grantee")
