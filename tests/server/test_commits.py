"""Commits as clients see them: listed, taken back, gone back to, in files and out of them.

Each test plays on a resident table and on a tiered one; the model is what the table held.
"""

import random
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from tests.support.servers import GatewayProcess
from tests.support.tiers import await_tiered

pytestmark = [pytest.mark.server, pytest.mark.turns("client")]

DATABASE = "commits"

Rows = Mapping[int, tuple[int, str | None]]

WRITES = (
    "INSERT INTO t VALUES (%(k)s, %(n)s, 'i') ON CONFLICT (id) DO UPDATE SET v = %(n)s, note = 'u'",
    "DELETE FROM t WHERE id = %(k)s",
    "UPDATE t SET v = v + %(n)s WHERE id = %(k)s",
)

RESIDENCY = (
    "SELECT residency FROM gateway.tables WHERE schema_name = current_schema() AND table_name = 't'"
)

LATEST = "SELECT commit FROM gateway.commits ORDER BY committed_at DESC LIMIT 1"


@pytest.fixture(scope="module")
def server(resident_process: GatewayProcess) -> Iterator[GatewayProcess]:
    """The gateway, with a database."""
    resident_process.address.execute(f"CREATE DATABASE {DATABASE}")
    yield resident_process
    resident_process.address.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def connected(server: GatewayProcess, schema: str, user: str = "postgres") -> psycopg.Connection:
    options = f"-c search_path={schema}"
    conninfo = server.address.conninfo(DATABASE, user=user)
    return psycopg.connect(conninfo, autocommit=True, options=options)


@pytest.fixture(params=["resident", "tiered"])
def client(server: GatewayProcess, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    """A client whose schema has a table ``t`` with nine rows, written by one commit."""
    schema = f"commits_{request.param}"
    with connected(server, schema) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")  # type: ignore[call-overload]
        connection.execute(f"CREATE SCHEMA {schema}")  # type: ignore[call-overload]
        connection.execute("CREATE TABLE p (id integer PRIMARY KEY)")
        make(connection, "t", request.param)
        yield connection
        assert connection.execute("SELECT gateway.check('t')").fetchall() == [(0,)]
        connection.execute(f"DROP SCHEMA {schema} CASCADE")  # type: ignore[call-overload]


def make(connection: psycopg.Connection, name: str, residency: str) -> None:
    columns = "id integer PRIMARY KEY, v integer, note text, p integer REFERENCES p"
    connection.execute(f"CREATE TABLE {name} ({columns})")  # type: ignore[call-overload]
    if residency == "tiered":
        connection.execute(f"ALTER TABLE {name} SET (gateway.residency = never)")  # type: ignore[call-overload]
        await_tiered(connection, name)
    connection.execute(
        f"INSERT INTO {name} SELECT g, g * 10, NULL FROM generate_series(1, 9) g"  # type: ignore[call-overload]
    )


def rows(connection: psycopg.Connection, table: str = "t") -> Rows:
    found = connection.execute(f"SELECT id, v, note FROM {table}").fetchall()  # type: ignore[call-overload]
    return {key: (v, note) for key, v, note in found}


def latest(connection: psycopg.Connection) -> str:
    ((name,),) = connection.execute(LATEST).fetchall()
    return str(name)


def test_commits_are_listed_with_what_they_wrote(client: psycopg.Connection) -> None:
    with client.transaction():
        client.execute("UPDATE t SET v = 0 WHERE id < 4")
        client.execute("DELETE FROM t WHERE id = 9")
    name = latest(client)
    query = "SELECT row_versions, rows_ended FROM gateway.commits WHERE commit = %s"
    listed = client.execute(query, [name]).fetchall()
    assert listed == [(4, 1)]
    client.execute("VACUUM t")
    assert client.execute(query, [name]).fetchall() == listed
    assert latest(client) == name


def test_large_commits_are_counted_once(client: psycopg.Connection) -> None:
    client.execute("INSERT INTO t SELECT g, g, NULL FROM generate_series(101, 20100) g")
    query = "SELECT row_versions FROM gateway.commits WHERE commit = %s"
    assert client.execute(query, [latest(client)]).fetchall() == [(20_000,)]
    client.execute("UPDATE t SET v = v + 1 WHERE id > 100")
    assert client.execute(query, [latest(client)]).fetchall() == [(20_000,)]


def test_a_truncation_is_taken_back(client: psycopg.Connection) -> None:
    before = rows(client)
    client.execute("TRUNCATE t")
    name = latest(client)
    ((kind,),) = client.execute(
        "SELECT residency FROM gateway.tables WHERE table_name = 't'"
    ).fetchall()
    query = "SELECT row_versions, rows_ended FROM gateway.commits WHERE commit = %s"
    # In the tail of a resident table it is one mark.
    expected = (1, 1) if kind == "resident" else (9, 9)
    assert client.execute(query, [name]).fetchall() == [expected]
    client.execute(f"SELECT gateway.rollback_commit('{name}')")
    assert rows(client) == before


def test_a_commit_is_taken_back(client: psycopg.Connection) -> None:
    before = rows(client)
    with client.transaction():
        client.execute("UPDATE t SET v = v + 1, note = 'changed' WHERE id IN (1, 2)")
        client.execute("DELETE FROM t WHERE id = 3")
        client.execute("INSERT INTO t VALUES (20, 20, 'new')")
    name = latest(client)
    client.execute("UPDATE t SET v = -5 WHERE id = 5")
    assert client.execute(f"SELECT gateway.rollback_commit('{name}')").fetchall() == [(4,)]
    assert rows(client) == {**before, 5: (-5, None)}
    found = client.execute("SELECT rolled_back_to, row_versions FROM gateway.rollbacks").fetchall()
    assert found == [(name, 4)]


def test_what_a_rollback_did_can_be_taken_back(client: psycopg.Connection) -> None:
    client.execute("DELETE FROM t WHERE id < 4")
    after = rows(client)
    client.execute(f"SELECT gateway.rollback_commit('{latest(client)}')")
    assert len(rows(client)) == 9
    client.execute(f"SELECT gateway.rollback_commit('{latest(client)}')")
    assert rows(client) == after


def test_rows_that_later_commits_changed_need_cascade(client: psycopg.Connection) -> None:
    before = rows(client)
    client.execute("UPDATE t SET v = 1 WHERE id IN (1, 2)")
    name = latest(client)
    client.execute("UPDATE t SET v = 2 WHERE id IN (2, 3)")
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="later commits have changed"):
        client.execute(f"SELECT gateway.rollback_commit('{name}', 't')")
    assert rows(client)[1] == (1, None)
    client.execute(f"SELECT gateway.rollback_commit('{name}', 't', true)")
    assert rows(client) == {**before, 3: (2, None)}


def test_a_rollback_is_part_of_its_transaction(client: psycopg.Connection) -> None:
    client.execute("DELETE FROM t WHERE id < 4")
    name, after = latest(client), rows(client)
    with client.transaction(force_rollback=True):
        client.execute(f"SELECT gateway.rollback_commit('{name}')")
        assert len(rows(client)) == 9
    assert rows(client) == after
    assert client.execute("SELECT * FROM gateway.rollbacks").fetchall() == []


def test_savepoints_are_gone_back_to(client: psycopg.Connection) -> None:
    client.execute("UPDATE t SET v = 1 WHERE id = 1")
    name, kept = latest(client), rows(client)
    client.execute(f"SELECT gateway.create_savepoint('t', '{name}')")
    with pytest.raises(errors.DuplicateObject):
        client.execute(f"SELECT gateway.create_savepoint('t', '{name}')")
    client.execute("UPDATE t SET v = v + 7")
    client.execute("VACUUM t")
    client.execute("DELETE FROM t WHERE id > 5")
    client.execute("INSERT INTO t VALUES (1000, 1, 'late')")
    assert client.execute("SELECT savepoint, table_name FROM gateway.savepoints").fetchall() == [
        (name, "t")
    ]
    client.execute(f"SELECT gateway.rollback_to_savepoint('t', '{name}')")
    assert rows(client) == kept
    client.execute(f"SELECT gateway.delete_savepoint('t', '{name}')")
    assert client.execute("SELECT * FROM gateway.savepoints").fetchall() == []
    with pytest.raises(errors.UndefinedObject):
        client.execute(f"SELECT gateway.delete_savepoint('t', '{name}')")


def test_a_commit_over_tables_that_reference_each_other(client: psycopg.Connection) -> None:
    with client.transaction():
        client.execute("INSERT INTO p VALUES (7)")
        client.execute("INSERT INTO t VALUES (50, 0, NULL, 7)")
    name, both = latest(client), rows(client)
    client.execute(f"SELECT gateway.rollback_commit('{name}')")
    assert 50 not in rows(client)
    assert client.execute("SELECT * FROM p").fetchall() == []
    client.execute(f"SELECT gateway.rollback_commit('{latest(client)}')")
    assert rows(client) == both
    assert client.execute("SELECT p FROM t WHERE id = 50").fetchall() == [(7,)]
    assert client.execute("SELECT * FROM p").fetchall() == [(7,)]


def test_names_that_are_none(client: psycopg.Connection) -> None:
    with pytest.raises(errors.UndefinedObject):
        client.execute("SELECT gateway.rollback_commit('20000101000000000000')")
    with pytest.raises(errors.UndefinedTable):
        client.execute("SELECT gateway.rollback_commit('20000101000000000000', 'nothing')")
    with pytest.raises(errors.UndefinedObject):
        client.execute("SELECT gateway.create_savepoint('t', '20000101000000000000')")


def test_roles_see_and_take_back_what_they_may(
    server: GatewayProcess, client: psycopg.Connection
) -> None:
    client.execute("UPDATE t SET v = 1 WHERE id = 1")
    name = latest(client)
    ((schema,),) = client.execute("SELECT current_schema()").fetchall()
    client.execute("DROP ROLE IF EXISTS stranger")
    client.execute("CREATE ROLE stranger LOGIN")
    client.execute(f"GRANT USAGE ON SCHEMA {schema} TO stranger")
    with connected(server, schema, "stranger") as other:
        mine = f"SELECT commit FROM gateway.commits WHERE schema_name = '{schema}'"
        assert other.execute(mine).fetchall() == []  # type: ignore[call-overload]
        with pytest.raises(errors.UndefinedObject):
            other.execute(f"SELECT gateway.rollback_commit('{name}')")
        client.execute("GRANT SELECT ON t TO stranger")
        assert (name,) in other.execute(mine).fetchall()  # type: ignore[call-overload]
        with pytest.raises(errors.InsufficientPrivilege):
            other.execute(f"SELECT gateway.rollback_commit('{name}')")
        with pytest.raises(errors.InsufficientPrivilege):
            other.execute(f"SELECT gateway.create_savepoint('t', '{name}')")
    assert rows(client)[1] == (1, None)
    client.execute(f"REVOKE ALL ON SCHEMA {schema} FROM stranger")
    client.execute("REVOKE ALL ON t FROM stranger")
    client.execute("DROP ROLE stranger")


def test_all_kinds_of_columns_come_back(client: psycopg.Connection) -> None:
    client.execute(
        "CREATE TABLE w (a integer, b text, c numeric(12,2), d timestamptz, e bytea, f boolean[],"
        " g integer GENERATED ALWAYS AS (a * 2) STORED, h double precision, i date, j uuid,"
        " n bigint GENERATED BY DEFAULT AS IDENTITY, PRIMARY KEY (b, a))"
    )
    client.execute(
        "INSERT INTO w VALUES (1, 'x', 1.50, '2026-01-02 03:04:05.678901+00', '\\x00ff',"
        " '{t,NULL}', DEFAULT, 0.1, '2026-02-03', '00000000-0000-0000-0000-000000000001'),"
        " (1, 'y', NULL, NULL, NULL, NULL, DEFAULT, NULL, NULL, NULL)"
    )
    before = client.execute("SELECT * FROM w ORDER BY b").fetchall()
    client.execute("UPDATE w SET c = 0, d = now(), e = '', f = '{}', h = 1 WHERE b = 'x'")
    first = latest(client)
    client.execute("DELETE FROM w WHERE b = 'y'")
    for name in (latest(client), first):
        client.execute(f"SELECT gateway.rollback_commit('{name}', 'w')")
    found = client.execute("SELECT * FROM w ORDER BY b").fetchall()
    assert found == before


def test_constraints_hold_for_what_comes_back(client: psycopg.Connection) -> None:
    client.execute("CREATE UNIQUE INDEX ON t (v)")
    client.execute("UPDATE t SET v = 1000 WHERE id = 1")
    name = latest(client)
    client.execute("INSERT INTO t VALUES (60, 10, NULL)")
    with pytest.raises(errors.UniqueViolation):
        client.execute(f"SELECT gateway.rollback_commit('{name}')")
    assert rows(client)[1] == (1000, None)


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE w ALTER id TYPE bigint", "ALTER TABLE w ALTER v TYPE text"],
)
def test_commits_of_before_other_columns_are_refused(
    client: psycopg.Connection, change: str
) -> None:
    client.execute("CREATE TABLE w (id integer PRIMARY KEY, v integer)")
    client.execute("INSERT INTO w VALUES (1, 1), (2, 2)")
    first = latest(client)
    try:
        client.execute(change)  # type: ignore[call-overload]
    except errors.FeatureNotSupported:
        pytest.skip("the types of columns of tiered tables do not change")
    for name in {first, latest(client)}:
        with pytest.raises(errors.FeatureNotSupported, match="columns or keys"):
            client.execute(f"SELECT gateway.rollback_commit('{name}', 'w', true)")
        with pytest.raises(errors.FeatureNotSupported, match="columns or keys"):
            client.execute(f"SELECT gateway.rollback_to_savepoint('w', '{first}')")
    assert client.execute("SELECT count(*), count(v) FROM w").fetchall() == [(2, 2)]


@pytest.mark.parametrize(
    "obstacle",
    [
        "CREATE TABLE c (w integer REFERENCES w ON DELETE CASCADE)",
        "ALTER TABLE w ENABLE ROW LEVEL SECURITY; ALTER TABLE w FORCE ROW LEVEL SECURITY;"  # noqa: ISC004
        " CREATE POLICY p ON w USING (true)",
        "CREATE TABLE c (x integer) INHERITS (w)",
        "ALTER TABLE w ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY; INSERT INTO w VALUES (3)",
    ],
)
def test_tables_whose_rows_change_with_others_are_refused(
    client: psycopg.Connection, obstacle: str
) -> None:
    client.execute("CREATE TABLE w (id integer PRIMARY KEY)")
    client.execute("ALTER TABLE w SET (gateway.residency = always)")
    client.execute(obstacle)  # type: ignore[call-overload]
    client.execute("INSERT INTO w VALUES (1)")
    with pytest.raises(errors.FeatureNotSupported):
        client.execute(f"SELECT gateway.rollback_commit('{latest(client)}', 'w')")
    assert (1,) in client.execute("SELECT id FROM w").fetchall()


def test_writers_are_waited_for(server: GatewayProcess, client: psycopg.Connection) -> None:
    client.execute("UPDATE t SET v = v + 100 WHERE id <= 3")
    name = latest(client)
    ((schema,),) = client.execute("SELECT current_schema()").fetchall()
    with connected(server, schema) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN")
        other.execute("UPDATE t SET v = 999 WHERE id = 1")
        rolled_back = pool.submit(client.execute, f"SELECT gateway.rollback_commit('{name}')")
        time.sleep(1)
        assert not rolled_back.done()
        other.execute("COMMIT")
        with pytest.raises(errors.ObjectNotInPrerequisiteState):
            rolled_back.result()
    assert rows(client)[1] == (999, None)


def test_tables_without_key_are_refused(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE k (v integer)")
    client.execute("INSERT INTO k VALUES (1)")
    with pytest.raises(errors.FeatureNotSupported, match="no primary key"):
        client.execute(f"SELECT gateway.rollback_commit('{latest(client)}', 'k')")


def test_a_command_shows_the_newest_commits_however_often_it_is_sent(
    client: psycopg.Connection,
) -> None:
    names = []
    for n in range(8):
        client.execute("UPDATE t SET v = %s WHERE id = 1", [n])
        names.insert(0, latest(client))
        if n == 3:
            client.execute("VACUUM t")
        # Drivers prepare what comes again and again.
        shown = client.execute("commits show (table = 't', limit = 3)").fetchall()
        assert [row[0] for row in shown][: len(names)] == names[:3]
    query = "SELECT schema_name, table_name FROM gateway.commits WHERE commit = %s"
    for name in (names[0], names[-1]):
        (found,) = client.execute(query, [name]).fetchall()
        (listed,) = client.execute(f"commit showpartitions (commit = '{name}')").fetchall()
        assert (*listed[:2], listed[3]) == (*found, 1)
    assert client.execute("commit showpartitions (commit = 'no name')").fetchall() == []


def test_commands_do_the_same(client: psycopg.Connection) -> None:
    before = rows(client)
    client.execute("UPDATE t SET v = 1 WHERE id = 1")
    name = latest(client)
    for show in (
        "commits show (table = 't', limit = 1)",
        "CALL show_commits(table => 't', limit => 1)",
    ):
        listed = client.execute(show)  # type: ignore[call-overload]
        assert [column.name for column in listed.description][:3] == [
            "commit_time",
            "schema_name",
            "table_name",
        ]
        ((commit, _, table, written, ended, _),) = listed.fetchall()
        assert (commit, table, written, ended) == (name, "t", 1, 0)
    client.execute(f"savepoint create (table = 't', commit = '{name}')")
    client.execute("SET gateway.table = 't'")
    ((kept, *_),) = client.execute("savepoints show").fetchall()
    assert kept == name
    client.execute("DELETE FROM t WHERE id = 2")
    assert client.execute(f"commit rollback (commit = '{latest(client)}')").fetchall() == [(1,)]
    client.execute("DELETE FROM t WHERE id > 2")
    client.execute(f"savepoint rollback (savepoint = '{name}')")
    assert rows(client) == {**before, 1: (1, None)}
    assert len(client.execute("show rollbacks").fetchall()) == 2
    client.execute(f"CALL gateway.delete_savepoint('t', '{name}')")
    assert client.execute("CALL show_savepoints(limit => 5)").fetchall() == []
    client.execute("compaction run (table = 't')")
    sizes = client.execute("stats filesizes").fetchall()
    assert {row[2] for row in sizes} == {"t"}
    assert all(row[3] <= row[5] <= row[7] for row in sizes)
    files = client.execute("SELECT commit FROM gateway.commit_files WHERE kind = 'base'").fetchall()
    shown = client.execute(f"commit showfiles (commit = '{files[0][0]}', limit = 5)").fetchall()
    assert "base" in [row[2] for row in shown]
    client.execute("RESET gateway.table")
    with pytest.raises(errors.InvalidParameterValue, match="no table is named"):
        client.execute(f"savepoint create (commit = '{name}')")
    with pytest.raises(errors.SyntaxError) as raised:
        client.execute("SELECT 1; commits show limit")
    assert raised.value.diag.statement_position == "24"


def test_upkeep_writes_row_versions_again(client: psycopg.Connection) -> None:
    def told() -> tuple[object, ...]:
        (row,) = client.execute("stats wa (table = 't')").fetchall()
        return row[1:]

    client.execute("UPDATE t SET v = 7 WHERE id <= 3")
    ((written,),) = client.execute("SELECT count(*) FROM t_journal").fetchall()
    table, upserted, total, factor = told()
    assert (table, upserted) == ("t", written)
    assert factor == round(total / upserted, 2)
    client.execute("VACUUM t")
    assert told()[:2] == ("t", written)
    again = told()[2]
    assert again == total + written
    client.execute("UPDATE t SET v = 8 WHERE id = 1")
    assert told()[1:3] == (written + 1, again + 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_commits_against_a_model(client: psycopg.Connection, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same in every run
    states: list[tuple[str, Rows]] = [(latest(client), rows(client))]
    for number in range(12):
        for _ in range(chance.randint(1, 3)):
            key = chance.randint(1, 15)
            client.execute(chance.choice(WRITES), {"k": key, "n": number})
        if (name := latest(client)) != states[-1][0]:
            states.append((name, rows(client)))
        if chance.random() < 0.2:
            client.execute("VACUUM t")
    for _ in range(4):
        name, expected = chance.choice(states)
        client.execute(f"SELECT gateway.rollback_to_savepoint('t', '{name}')")
        assert rows(client) == expected, name
