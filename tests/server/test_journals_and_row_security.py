"""Journals of tables with row security: they have versions of rows that policies hide."""

from collections.abc import Iterator, Sequence

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "journals_policed"

OWNER, READER = (f"{SCHEMA}_{name}" for name in ("owner", "reader"))

READ = "SELECT id, owner FROM t_journal ORDER BY id"

ALL = [(1, READER), (2, OWNER)]

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE ROLE {OWNER}",
    f"CREATE ROLE {READER}",
    f"GRANT {OWNER}, {READER} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE",
    f"GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {OWNER}, {READER}",
    f"CREATE TABLE {SCHEMA}.t (id integer PRIMARY KEY, owner name)",
    f"ALTER TABLE {SCHEMA}.t OWNER TO {OWNER}",
    f"SET ROLE {OWNER}",
    f"INSERT INTO {SCHEMA}.t VALUES (1, '{READER}'), (2, '{OWNER}')",
    f"GRANT SELECT ON {SCHEMA}.t TO {READER}",
    f"CREATE POLICY own ON {SCHEMA}.t USING (owner = current_user)",
    f"ALTER TABLE {SCHEMA}.t ENABLE ROW LEVEL SECURITY",
)

END = (
    "RESET ROLE",
    f"GRANT {OWNER}, {READER} TO CURRENT_USER WITH INHERIT TRUE",
    f"DROP OWNED BY {OWNER}, {READER}",
    f"DROP SCHEMA {SCHEMA} CASCADE",
    f"DROP ROLE {OWNER}, {READER}",
)


@pytest.fixture
def client(resident_pair: Pair) -> Iterator[psycopg.Connection]:
    options = f"-c search_path={SCHEMA}"
    conninfo = resident_pair.gateway.conninfo(resident_pair.database)
    with psycopg.connect(conninfo, autocommit=True, options=options) as connection:
        run(connection, *SETUP)
        yield connection
        run(connection, *END)


def run(connection: psycopg.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement)  # type: ignore[call-overload]


def rows(connection: psycopg.Connection, role: str, query: str = READ) -> Sequence[object]:
    run(connection, f"SET ROLE {role}")
    return connection.execute(query).fetchall()  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    "query",
    [READ, f"EXPLAIN {READ}", f"SELECT * FROM ({READ}) x, t", "SELECT count(*) FROM t_journal j"],
)
def test_a_role_that_policies_concern_reads_no_journal(
    client: psycopg.Connection, query: str
) -> None:
    assert rows(client, READER, "TABLE t") == [(1, READER)]
    with pytest.raises(errors.InsufficientPrivilege, match='"t_journal"'):
        rows(client, READER, query)
    with (
        pytest.raises(errors.InsufficientPrivilege, match='"t_journal"'),
        client.cursor() as cursor,
        cursor.copy(f"COPY ({READ}) TO STDOUT") as copy,  # type: ignore[call-overload]
    ):
        copy.read()


def test_the_owner_does_unless_row_security_is_forced(client: psycopg.Connection) -> None:
    assert rows(client, OWNER) == ALL
    run(client, "ALTER TABLE t FORCE ROW LEVEL SECURITY")
    with pytest.raises(errors.InsufficientPrivilege):
        rows(client, OWNER)
    run(client, "ALTER TABLE t NO FORCE ROW LEVEL SECURITY")
    assert rows(client, OWNER) == ALL


def test_what_exempts_the_owner_is_in_no_list(client: psycopg.Connection) -> None:
    listed = (
        "SELECT schemaname, tablename, policyname FROM pg_policies WHERE schemaname ~ 'journal'"
    )
    assert rows(client, OWNER, listed) == [(SCHEMA, "t", "own")]


def test_a_prepared_statement_is_planned_for_who_executes_it(client: psycopg.Connection) -> None:
    run(client, f"SET ROLE {OWNER}")
    assert client.execute(READ, prepare=True).fetchall() == ALL  # type: ignore[call-overload]
    run(client, f"SET ROLE {READER}")
    with pytest.raises(errors.InsufficientPrivilege, match='"t_journal"'):
        client.execute(READ, prepare=True)  # type: ignore[call-overload]
    run(client, f"SET ROLE {OWNER}")
    assert client.execute(READ, prepare=True).fetchall() == ALL  # type: ignore[call-overload]
    run(client, "SET row_security = off", f"SET ROLE {READER}")
    with pytest.raises(errors.InsufficientPrivilege):
        client.execute(READ, prepare=True)  # type: ignore[call-overload]


def test_everyone_does_when_it_is_disabled(client: psycopg.Connection) -> None:
    run(client, "ALTER TABLE t DISABLE ROW LEVEL SECURITY")
    assert rows(client, READER) == ALL


def test_it_follows_the_owner(client: psycopg.Connection) -> None:
    run(client, "RESET ROLE", f"GRANT {OWNER}, {READER} TO CURRENT_USER WITH INHERIT TRUE")
    run(client, f"ALTER TABLE t OWNER TO {READER}")
    assert rows(client, READER) == ALL
    run(client, "RESET ROLE", f"REASSIGN OWNED BY {READER} TO {OWNER}")
    assert rows(client, OWNER) == ALL
    with pytest.raises(errors.InsufficientPrivilege):
        rows(client, READER)


def test_a_view_reads_as_its_owner(client: psycopg.Connection) -> None:
    run(client, "CREATE VIEW v AS SELECT * FROM t_journal", f"GRANT SELECT ON v TO {READER}")
    query = "SELECT id, owner FROM v ORDER BY id"
    assert rows(client, READER, query) == ALL
    run(client, f"SET ROLE {OWNER}", "ALTER VIEW v SET (security_invoker = true)")
    with pytest.raises(errors.InsufficientPrivilege):
        rows(client, READER, query)


def test_partitions_follow_what_they_are_partitions_of(client: psycopg.Connection) -> None:
    run(
        client,
        f"SET ROLE {OWNER}",
        "CREATE TABLE p (id integer PRIMARY KEY, owner name) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (9)",
        f"INSERT INTO p VALUES (1, '{OWNER}')",
        f"GRANT SELECT ON p, p1 TO {READER}",
    )
    queries = [f"SELECT owner FROM {name}_journal" for name in ("p", "p1")]
    for query in queries:
        assert rows(client, READER, query) == [(OWNER,)]
    run(client, f"SET ROLE {OWNER}", "ALTER TABLE p ENABLE ROW LEVEL SECURITY")
    for query in queries:
        assert rows(client, OWNER, query) == [(OWNER,)]
        with pytest.raises(errors.InsufficientPrivilege):
            rows(client, READER, query)


def test_what_is_in_the_way_of_dropping_a_role_are_objects_of_users(
    client: psycopg.Connection,
) -> None:
    run(client, "RESET ROLE")
    with pytest.raises(errors.DependentObjectsStillExist) as told:
        run(client, f"DROP ROLE {OWNER}")
    lines = sorted((told.value.diag.message_detail or "").splitlines())
    assert lines == ["owner of table t", f"privileges for schema {SCHEMA}"]


def test_nobody_hears_of_the_privileges_on_journals(client: psycopg.Connection) -> None:
    heard: list[str | None] = []
    client.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    run(client, "RESET ROLE", f"GRANT {OWNER} TO CURRENT_USER WITH INHERIT TRUE")
    run(client, f"GRANT {READER} TO CURRENT_USER WITH INHERIT TRUE", f"DROP OWNED BY {READER}")
    assert heard == []
    run(client, f"GRANT USAGE ON SCHEMA {SCHEMA} TO {READER}")
    with pytest.raises(errors.InsufficientPrivilege, match="table t_journal"):
        rows(client, READER)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM seen",
        "EXPLAIN SELECT * FROM seen",
        "CREATE TEMP TABLE kept AS SELECT * FROM seen",
        "COPY (SELECT * FROM seen) TO STDOUT",
        "EXECUTE reading",
    ],
)
def test_who_is_refused_a_journal_is_told_its_name(client: psycopg.Connection, query: str) -> None:
    run(client, f"SET ROLE {OWNER}", "PREPARE reading AS SELECT * FROM t_journal")
    run(client, "CREATE VIEW seen WITH (security_invoker) AS SELECT id, owner FROM t_journal")
    run(client, f"GRANT SELECT ON seen TO {READER}", f"REVOKE ALL ON t FROM {READER}")
    run(client, f"SET ROLE {READER}")
    for before in ("SELECT 1", "BEGIN"):
        run(client, before)
        with pytest.raises(errors.InsufficientPrivilege) as told:
            run(client, query)
        assert told.value.diag.message_primary == "permission denied for table t_journal"
    run(client, "ROLLBACK")


def test_tables_of_users_are_called_as_they_are(
    client: psycopg.Connection, resident_pair: Pair
) -> None:
    conninfo = resident_pair.plain.conninfo(resident_pair.database)
    with psycopg.connect(conninfo, autocommit=True) as plain:
        run(plain, *SETUP, f"SET search_path = {SCHEMA}")
        heard: list[list[str | None]] = []
        for server in (plain, client):
            said: list[str | None] = []
            server.add_notice_handler(lambda notice, said=said: said.append(notice.message_primary))
            run(server, f"SET ROLE {OWNER}", "CREATE TABLE journal_5 (a int)")
            with pytest.raises(errors.InsufficientPrivilege, match="for table journal_5"):
                rows(server, READER, "SELECT * FROM journal_5")
            run(server, f"SET ROLE {OWNER}", f"GRANT SELECT ON journal_5 TO {READER}")
            run(server, f"SET ROLE {READER}", f"GRANT SELECT ON journal_5 TO {OWNER}")
            run(server, f"REVOKE SELECT ON journal_5 FROM {OWNER}")
            heard.append(said)
        run(plain, *END)
    assert heard[0] == heard[1]
    assert heard[0][0] == 'no privileges were granted for "journal_5"'
