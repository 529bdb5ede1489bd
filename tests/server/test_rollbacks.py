"""Rolling commits back: keys and values of all types, names, parameters, roles and partitions."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.server.test_committed_at_once import await_waiting
from tests.support.servers import GatewayProcess

pytestmark = pytest.mark.server

DATABASE = "rollbacks"

SCHEMA = "rolled_back"

LATEST = "SELECT commit FROM gateway.commits ORDER BY committed_at DESC LIMIT 1"

KEYS = {
    "date": ("date", "'2024-01-01'", "'2024-02-29'"),
    "numeric": ("numeric(12,2)", "1.5", "-2.25"),
    "uuid": ("uuid", "gen_random_uuid()", "gen_random_uuid()"),
    "timestamptz": ("timestamptz", "'2024-01-01 12:00Z'", "'2024-01-01 12:00:00.5Z'"),
    "boolean": ("boolean", "true", "false"),
    "bytea": ("bytea", r"'\x00'", r"'\x01ff'"),
    "integer[]": ("integer[]", "'{1,2}'", "'{3,NULL}'"),
}


@pytest.fixture(scope="module")
def server(resident_process: GatewayProcess) -> Iterator[GatewayProcess]:
    """The gateway, with a database."""
    resident_process.address.execute(f"CREATE DATABASE {DATABASE}")
    yield resident_process
    resident_process.address.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


@pytest.fixture
def client(server: GatewayProcess) -> Iterator[psycopg.Connection]:
    conninfo = server.address.conninfo(DATABASE)
    options = f"-c search_path={SCHEMA}"
    with psycopg.connect(conninfo, autocommit=True, options=options) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        yield connection
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def latest(client: psycopg.Connection) -> str:
    ((name,),) = client.execute(LATEST).fetchall()
    return str(name)


def make(client: psycopg.Connection, columns: str, residency: str) -> None:
    client.execute(f"CREATE TABLE t ({columns})")  # type: ignore[call-overload]
    if residency == "tiered":
        client.execute("ALTER TABLE t SET (gateway.residency = never)")
        client.execute("VACUUM t")


def rows(client: psycopg.Connection) -> list[tuple[object, ...]]:
    return sorted(client.execute("SELECT * FROM t").fetchall(), key=repr)


@pytest.mark.parametrize("residency", ["resident", "tiered"])
@pytest.mark.parametrize("name", KEYS)
def test_rows_come_back_by_keys_of_all_types(
    client: psycopg.Connection, name: str, residency: str
) -> None:
    kind, one, other = KEYS[name]
    make(client, f"k {kind} PRIMARY KEY, v integer", residency)
    client.execute(f"INSERT INTO t VALUES ({one}, 1), ({other}, 2)")  # type: ignore[call-overload]
    before = rows(client)
    with client.transaction():
        client.execute("UPDATE t SET v = v + 10 WHERE v = 1")
        client.execute("DELETE FROM t WHERE v = 2")
    client.execute("SELECT gateway.rollback_commit(%s)", [latest(client)])
    assert rows(client) == before


@pytest.mark.parametrize("residency", ["resident", "tiered"])
def test_null_in_arrays_comes_back_where_clients_have_it_read_as_a_text(
    client: psycopg.Connection, residency: str
) -> None:
    client.execute("CREATE DOMAIN word AS text")
    make(client, "k integer PRIMARY KEY, a word[], b text[]", residency)
    client.execute("INSERT INTO t VALUES (1, ARRAY['x', NULL, 'NULL'], ARRAY['x', NULL, 'NULL'])")
    before = rows(client)
    client.execute("UPDATE t SET a = '{}', b = '{}'")
    changed = latest(client)
    client.execute("SET array_nulls = off")
    client.execute("SELECT gateway.rollback_commit(%s)", [changed])
    assert rows(client) == before
    assert client.execute("SHOW array_nulls").fetchall() == [("off",)]


UNIQUE = {
    "UNIQUE": "u integer NOT NULL UNIQUE, v text",
    "columns": "u integer, v text, UNIQUE (v, u)",
    "computed": "u integer, v text, w integer GENERATED ALWAYS AS (u * 2) STORED UNIQUE",
    "expression": "u integer, v text",
}


@pytest.mark.parametrize("residency", ["resident", "tiered"])
@pytest.mark.parametrize("name", UNIQUE)
def test_unique_values_that_have_passed_from_row_to_row_are_given_back(
    client: psycopg.Connection, name: str, residency: str
) -> None:
    make(client, f"k integer PRIMARY KEY, {UNIQUE[name]}", residency)
    if name == "expression":
        client.execute("CREATE UNIQUE INDEX ON t ((u + 1))")
    client.execute("INSERT INTO t (k, u, v) VALUES (1, 1, ''), (2, 2, ''), (3, 3, ''), (4, 4, '')")
    before = rows(client)
    with client.transaction():
        client.execute("DELETE FROM t WHERE k = 1")
        client.execute("UPDATE t SET u = 1 WHERE k = 2")
        client.execute("UPDATE t SET u = 9 WHERE k = 3")
        client.execute("UPDATE t SET u = 3 WHERE k = 4")
        client.execute("UPDATE t SET u = 4 WHERE k = 3")
    passed, after = latest(client), rows(client)
    take_back = "SELECT gateway.rollback_commit(%s)"
    assert client.execute(take_back, [passed]).fetchall() == [(4,)]
    assert rows(client) == before
    client.execute(take_back, [latest(client)])
    assert rows(client) == after


@pytest.mark.parametrize("residency", ["resident", "tiered"])
def test_rows_that_are_referenced_are_updated(client: psycopg.Connection, residency: str) -> None:
    make(client, "k integer PRIMARY KEY, u integer UNIQUE", residency)
    client.execute("CREATE TABLE r (k integer REFERENCES t)")
    client.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    client.execute("INSERT INTO r VALUES (2)")
    client.execute("UPDATE t SET u = 3 WHERE k = 2")
    client.execute("SELECT gateway.rollback_commit(%s)", [latest(client)])
    assert rows(client) == [(1, 1), (2, 2)]
    with client.transaction():
        client.execute("UPDATE t SET u = 3 WHERE k = 1")
        client.execute("UPDATE t SET u = 1 WHERE k = 2")
    with pytest.raises(errors.UniqueViolation) as caught:
        client.execute("SELECT gateway.rollback_commit(%s)", [latest(client)])
    assert "passed from row to row" in str(caught.value.diag.message_hint)
    assert rows(client) == [(1, 3), (2, 1)]


def test_values_without_end_are_refused_by_name(client: psycopg.Connection) -> None:
    make(client, "id integer PRIMARY KEY, d date, m timestamptz, n numeric, f float8", "resident")
    client.execute("INSERT INTO t VALUES (1, 'infinity', '-infinity', 'infinity', '-infinity')")
    client.execute("INSERT INTO t VALUES (2, '-infinity', 'infinity', 'NaN', 'NaN')")
    client.execute("UPDATE t SET d = '2024-01-01', m = now(), n = 1, f = 1")
    name = latest(client)
    with pytest.raises(errors.FeatureNotSupported, match="infinite dates and times"):
        client.execute("SELECT gateway.rollback_commit(%s)", [name])
    client.execute("UPDATE t SET n = 'infinity', f = '-infinity'")
    client.execute("UPDATE t SET n = 3, f = 4")


@pytest.mark.parametrize("residency", ["resident", "tiered"])
def test_names_that_the_rollback_uses_itself_are_free(
    client: psycopg.Connection, residency: str
) -> None:
    columns = "pgwire_place integer, gone integer, place integer, ended text, overtaken integer"
    make(client, f"id integer PRIMARY KEY, {columns}", residency)
    client.execute("INSERT INTO t VALUES (1, 2, 3, 4, 'e', 5)")
    ((relid,),) = client.execute("SELECT 't'::regclass::oid").fetchall()
    client.execute(f"CREATE TEMPORARY TABLE pgwire_former_{relid} (a integer)")  # type: ignore[call-overload]
    client.execute("UPDATE t SET gone = 7, place = 8, ended = NULL, pgwire_place = 1")
    client.execute("SELECT gateway.rollback_commit(%s)", [latest(client)])
    assert rows(client) == [(1, 2, 3, 4, "e", 5)]


def test_functions_take_parameters_and_stand_in_from(client: psycopg.Connection) -> None:
    make(client, "id integer PRIMARY KEY, v integer", "resident")
    client.execute("INSERT INTO t VALUES (1, 1)")
    for binary in (False, True):
        client.execute("UPDATE t SET v = 2")
        query = "SELECT * FROM gateway.rollback_commit(%s, %s, %s)"
        found = client.execute(query, [latest(client), "t", False], binary=binary).fetchall()
        assert (found, rows(client)) == ([(1,)], [(1, 1)])
    assert client.execute("SELECT gateway.check(%s)", ["t"]).fetchall() == [(0,)]
    with pytest.raises(errors.UndefinedFunction):
        client.execute("SELECT gateway.rollback_commit(%s, %s, %s, %s)", ["1", "t", False, "x"])


def written(client: psycopg.Connection, *statements: str) -> list[str]:
    """Run statements, and return the names of the commits that they are."""
    names = []
    for statement in statements:
        client.execute(statement)  # type: ignore[call-overload]
        names.append(latest(client))
    return names


def take_back(client: psycopg.Connection, commit: str) -> str:
    client.execute("SELECT gateway.rollback_commit(%s)", [commit])
    return latest(client)


def make_row(client: psycopg.Connection, residency: str) -> None:
    make(client, "id integer PRIMARY KEY, v integer", residency)
    client.execute("INSERT INTO t VALUES (1, 1)")


STEPS = (
    "UPDATE t SET v = 2 WHERE id < 3",
    "DELETE FROM t WHERE id = 2",
    "UPDATE t SET v = 3 WHERE id = 1",
    "INSERT INTO t VALUES (2, 9), (4, 4)",
)


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("residency", ["resident", "tiered"])
def test_commits_are_taken_back_one_after_the_other(
    client: psycopg.Connection, residency: str, compacted: bool
) -> None:
    make(client, "id integer PRIMARY KEY, v integer", residency)
    client.execute("INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)")
    states, names = [rows(client)], []
    for statement in STEPS:
        names += written(client, statement)
        states.append(rows(client))
    if compacted:
        client.execute("VACUUM t")
    for name in reversed(names):
        assert rows(client) == states.pop()
        take_back(client, name)
        if states[1:]:
            with pytest.raises(errors.ObjectNotInPrerequisiteState):
                take_back(client, name)
    assert rows(client) == states.pop()


@pytest.mark.parametrize("residency", ["resident", "tiered"])
def test_what_was_taken_back_twice_is_in_the_way_again(
    client: psycopg.Connection, residency: str
) -> None:
    make_row(client, residency)
    first, second = written(client, "UPDATE t SET v = 2", "UPDATE t SET v = 3")
    again = take_back(client, take_back(client, second))
    assert rows(client) == [(1, 3)]
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        take_back(client, first)
    take_back(client, again)
    take_back(client, first)
    assert rows(client) == [(1, 1)]


@pytest.mark.parametrize("residency", ["resident", "tiered"])
def test_what_was_written_beside_a_rollback_is_in_the_way(
    client: psycopg.Connection, residency: str
) -> None:
    make_row(client, residency)
    first, second = written(client, "UPDATE t SET v = 2", "UPDATE t SET v = 3")
    with client.transaction():
        client.execute("SELECT gateway.rollback_commit(%s)", [second])
        client.execute("UPDATE t SET v = 7")
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        take_back(client, first)
    assert rows(client) == [(1, 7)]


@pytest.mark.parametrize("residency", ["resident", "tiered"])
def test_what_took_later_changes_back_is_in_the_way(
    client: psycopg.Connection, residency: str
) -> None:
    make_row(client, residency)
    cascade = "SELECT gateway.rollback_commit('{}', cascade => 'true')"
    changes = [f"UPDATE t SET v = {value}" for value in (2, 3, 4)]
    first, second, third = written(client, *changes)
    written(client, cascade.format(second))
    assert rows(client) == [(1, 2)]
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        take_back(client, third)
    written(client, cascade.format(third))
    assert rows(client) == [(1, 3)]
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        take_back(client, first)
    assert rows(client) == [(1, 3)]


def test_commits_of_several_tables_are_taken_back_one_after_the_other(
    client: psycopg.Connection,
) -> None:
    make(client, "id integer PRIMARY KEY, v integer", "resident")
    client.execute("CREATE TABLE u (id integer PRIMARY KEY, v integer)")
    client.execute("INSERT INTO t VALUES (1, 1)")
    client.execute("INSERT INTO u VALUES (1, 1)")
    names = []
    for value in (2, 3):
        with client.transaction():
            client.execute("UPDATE t SET v = %s", [value])
            client.execute("UPDATE u SET v = %s", [value])
        names.append(latest(client))
    # Of one table alone the last one is in the way of the other.
    client.execute("SELECT gateway.rollback_commit(%s, 't')", [names[1]])
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match='"u"'):
        take_back(client, names[0])
    client.execute("SELECT gateway.rollback_commit(%s, 'u')", [names[1]])
    take_back(client, names[0])
    for table in "tu":
        assert client.execute(f"SELECT v FROM {table}").fetchall() == [(1,)]  # type: ignore[call-overload]


@pytest.mark.parametrize("residency", ["resident", "tiered"])
def test_what_a_savepoint_was_gone_back_to_for_is_in_the_way(
    client: psycopg.Connection, residency: str
) -> None:
    make_row(client, residency)
    first, *_ = written(client, "UPDATE t SET v = 2", "UPDATE t SET v = 3")
    client.execute("SELECT gateway.rollback_to_savepoint('t', %s)", [first])
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        take_back(client, first)
    client.execute("SELECT gateway.rollback_commit(%s, cascade => true)", [first])
    assert rows(client) == [(1, 1)]


def test_arguments_are_given_by_name(client: psycopg.Connection) -> None:
    make_row(client, "resident")
    (name,) = written(client, "UPDATE t SET v = 2")
    client.execute("SELECT gateway.create_savepoint(commit => %s, \"table\" => 't')", [name])
    client.execute("SELECT gateway.rollback_commit(%s, cascade => false)", [name])
    assert rows(client) == [(1, 1)]
    for wrong in ("'1', commit => '1'", "cascade => true", "commit => '1', 't'", "what => '1'"):
        with pytest.raises((errors.UndefinedFunction, errors.SyntaxError)):
            client.execute(f"SELECT gateway.rollback_commit({wrong})")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "given",
    [
        "'1', 't' || ''",
        "lower('1')",
        "'1', cascade => 1 > 0",
        "'12'::varchar(1)",
        "'1', 't'::bpchar",
    ],
)
def test_arguments_that_would_have_to_be_computed_are_refused(
    client: psycopg.Connection, given: str
) -> None:
    with pytest.raises(errors.FeatureNotSupported, match=r"gateway\.rollback_commit"):
        client.execute(f"SELECT gateway.rollback_commit({given})")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM t, gateway.rollback_commit('1')",
        "SELECT gateway.rollback_commit('1') FROM t",
        "SELECT id FROM t WHERE id = (SELECT Gateway . Rollback_Commit('1'))",
        "SELECT * FROM t_journal, gateway.rollback_commit('1')",
        "INSERT INTO t SELECT gateway.rollback_commit('1'), 1",
        "EXPLAIN SELECT gateway.rollback_commit('1')",
        "CREATE VIEW v AS SELECT gateway.rollback_commit('1')",
    ],
)
def test_functions_stand_alone(client: psycopg.Connection, statement: str) -> None:
    make(client, "id integer PRIMARY KEY, v integer", "resident")
    with pytest.raises(errors.FeatureNotSupported, match=r"gateway\.rollback_commit") as told:
        client.execute(statement)  # type: ignore[call-overload]
    assert (told.value.diag.message_hint or "").startswith("Call gateway.rollback_commit alone")
    with pytest.raises(errors.InvalidSchemaName):
        client.execute("SELECT gateway.something('1') FROM t")


def test_lists_are_those_of_the_current_role(
    server: GatewayProcess, client: psycopg.Connection
) -> None:
    make_row(client, "resident")
    client.execute("CREATE ROLE lister")
    client.execute("GRANT lister TO CURRENT_USER")
    try:
        client.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO lister")
        client.execute("SET ROLE lister")
        lists = ("commits", "commit_files", "tables", "maintenance")
        for name in lists:
            query = f"SELECT FROM gateway.{name} WHERE table_name = 't'"
            assert client.execute(query).rowcount == 0  # type: ignore[call-overload]
        with pytest.raises(errors.InsufficientPrivilege):
            client.execute("ALTER TABLE t SET (gateway.residency = always)")
        client.execute("RESET ROLE")
        client.execute("GRANT SELECT ON t TO lister")
        client.execute("SET ROLE lister")
        assert client.execute("commits show (table = 't')").rowcount == 1
    finally:
        client.execute("RESET ROLE")
        client.execute("REVOKE SELECT ON t FROM lister")
        client.execute(f"REVOKE USAGE ON SCHEMA {SCHEMA} FROM lister")
        client.execute("DROP ROLE lister")


def test_tables_in_schemas_that_one_may_not_use_are_in_nobodys_way(
    server: GatewayProcess, client: psycopg.Connection
) -> None:
    make_row(client, "resident")
    client.execute("CREATE ROLE reader LOGIN")
    client.execute("CREATE SCHEMA hidden")
    try:
        client.execute("CREATE TABLE hidden.h (id integer PRIMARY KEY)")
        client.execute("INSERT INTO hidden.h VALUES (1)")
        client.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO reader")
        client.execute("GRANT SELECT ON t, hidden.h TO reader")
        conninfo = server.address.conninfo(DATABASE, user="reader")
        with psycopg.connect(conninfo, autocommit=True) as reader:
            listed = reader.execute(f"commits show (table = '{SCHEMA}.t')").fetchall()
            assert [row[2] for row in listed] == ["t"]
            reader.execute(f"SET gateway.table = '{SCHEMA}.t'")
            assert len(reader.execute("commits show").fetchall()) == 1
    finally:
        client.execute("DROP SCHEMA hidden CASCADE")
        client.execute("REVOKE SELECT ON t FROM reader")
        client.execute(f"REVOKE USAGE ON SCHEMA {SCHEMA} FROM reader")
        client.execute("DROP ROLE reader")


def test_partitioned_tables_are_refused_by_name(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE p (id integer PRIMARY KEY) PARTITION BY RANGE (id)")
    client.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    client.execute("INSERT INTO p VALUES (1)")
    name = latest(client)
    with pytest.raises(errors.FeatureNotSupported, match="partitions"):
        client.execute("SELECT gateway.rollback_commit(%s, 'p')", [name])
    with pytest.raises(errors.FeatureNotSupported, match="partitioned"):
        client.execute("SELECT gateway.create_savepoint('p', %s)", [name])


def test_lists_of_a_partitioned_table_are_those_of_its_partitions(
    client: psycopg.Connection,
) -> None:
    client.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id)")
    client.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    client.execute("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)")
    client.execute("INSERT INTO t VALUES (1, 1), (11, 11), (12, 12)")
    name = latest(client)
    client.execute("UPDATE t SET v = 0 WHERE id = 11")
    shown = client.execute(f"commit showpartitions (table = 't', commit = '{name}')").fetchall()  # type: ignore[call-overload]
    assert shown == [
        (SCHEMA, "t1", "FOR VALUES FROM (0) TO (10)", 1, 0),
        (SCHEMA, "t2", "FOR VALUES FROM (10) TO (20)", 2, 0),
    ]
    listed = client.execute("commits show (table = 't')").fetchall()
    assert sorted((row[2], row[3]) for row in listed) == [("t1", 1), ("t2", 1), ("t2", 2)]
    # The first commit has changed both.
    compared = client.execute("commits compare (table = 't1', path = 't2')").fetchall()
    assert compared == [(latest(client), SCHEMA, "t2")]
    assert client.execute("CALL commits_compare(table => 't', path => 't2')").fetchall() == []


def test_no_commit_is_taken_back_in_part(
    server: GatewayProcess, client: psycopg.Connection
) -> None:
    make(client, "id integer PRIMARY KEY, v integer", "resident")
    client.execute("CREATE TABLE u (id integer PRIMARY KEY)")
    client.execute("INSERT INTO t VALUES (1, 1)")
    client.execute("CREATE ROLE changer LOGIN")
    client.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO changer")
    client.execute("GRANT ALL ON t TO changer")
    with client.transaction():
        client.execute("UPDATE t SET v = 2")
        client.execute("INSERT INTO u VALUES (1)")
    name = latest(client)
    try:
        conninfo = server.address.conninfo(DATABASE, user="changer")
        options = f"-c search_path={SCHEMA}"
        with psycopg.connect(conninfo, autocommit=True, options=options) as changer:
            with pytest.raises(errors.InsufficientPrivilege, match="permission denied for table u"):
                changer.execute("SELECT gateway.rollback_commit(%s)", [name])
            assert rows(client) == [(1, 2)]
            changer.execute("SELECT gateway.rollback_commit(%s, 't')", [name])
        assert rows(client) == [(1, 1)]
        assert client.execute("SELECT * FROM u").fetchall() == [(1,)]
    finally:
        client.execute("REVOKE ALL ON t FROM changer")
        client.execute(f"REVOKE USAGE ON SCHEMA {SCHEMA} FROM changer")
        client.execute("DROP ROLE changer")


def test_the_commit_that_made_a_table_is_gone_back_to(client: psycopg.Connection) -> None:
    with client.transaction():
        client.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        client.execute("INSERT INTO t VALUES (1, 1)")
    name = latest(client)
    client.execute("UPDATE t SET v = 2")
    client.execute("INSERT INTO t VALUES (2, 2)")
    client.execute("SELECT gateway.rollback_to_savepoint('t', %s)", [name])
    assert rows(client) == [(1, 1)]
    with pytest.raises(errors.FeatureNotSupported, match="from before columns or keys"):
        client.execute("SELECT gateway.rollback_commit(%s)", [name])


def test_a_table_that_gets_another_name_meanwhile_is_not_gone_back_to(
    server: GatewayProcess, client: psycopg.Connection
) -> None:
    for table in ("t", "other"):
        client.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, v text)")
        client.execute(f"INSERT INTO {table} VALUES (1, 'one')")
    client.execute("UPDATE t SET v = 'bad'")
    changed = latest(client)
    conninfo = server.address.conninfo(DATABASE)
    options = f"-c search_path={SCHEMA}"
    with psycopg.connect(conninfo, autocommit=True, options=options) as second:
        second.execute("BEGIN")
        second.execute("ALTER TABLE t RENAME TO former")
        second.execute("ALTER TABLE other RENAME TO t")
        failures: list[psycopg.Error] = []

        def roll_back() -> None:
            try:
                client.execute("SELECT gateway.rollback_commit(%s)", [changed])
            except psycopg.Error as error:
                failures.append(error)

        thread = threading.Thread(target=roll_back)
        thread.start()
        await_waiting(second, client.info.backend_pid)
        second.execute("COMMIT")
        thread.join(60)
    assert [error.sqlstate for error in failures] == ["40001"]
    assert client.execute("SELECT v FROM former").fetchall() == [("bad",)]
    assert rows(client) == [(1, "one")]
    client.execute("SELECT gateway.rollback_commit(%s)", [changed])
    assert client.execute("SELECT v FROM former").fetchall() == [("one",)]
