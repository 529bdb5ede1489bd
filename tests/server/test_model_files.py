"""Journals in another database: a second PostgreSQL, named by a model file of the convention."""

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from catalog.errors import GatewayError
from pgwire_gateway import model_import
from tests.support.drivers import driver
from tests.support.fix_server import MACHINE_OPTIONS, SPARK_OPTIONS
from tests.support.servers import Address, GatewayProcess
from tests.support.tcp_relay import tcp_relay

pytestmark = [pytest.mark.server, pytest.mark.turns("place")]

JOURNALS = {
    "TIMESTAMP": """
        CREATE TABLE hr.depts_journal (
            deptno SERIAL NOT NULL,
            version_number TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT CURRENT_TIMESTAMP,
            subsequent_version_number TIMESTAMP WITH TIME ZONE NULL DEFAULT NULL,
            department_name TEXT NOT NULL,
            PRIMARY KEY (deptno, version_number))""",
    "BIGINT": """
        CREATE TABLE hr.depts_journal (
            department_name TEXT NOT NULL,
            subsequent_version_number BIGINT NULL DEFAULT NULL,
            version_number BIGINT NOT NULL DEFAULT 1,
            deptno SERIAL NOT NULL,
            PRIMARY KEY (deptno, version_number))""",
}
VERSIONS = {"TIMESTAMP": "'2020-01-01'::timestamptz + {} * interval '1 second'", "BIGINT": "{}"}


@dataclass
class Servers:
    """The gateway, and the other server, which has a port for Java."""

    gateway: GatewayProcess
    plain: Address
    port: int
    directory: Path


@dataclass
class Place:
    """A database of each server, and the model that names the one to the other."""

    gateway: GatewayProcess
    plain: Address
    directory: Path
    kind: str

    def theirs(self, sql):
        """Run a statement in the other database."""
        with psycopg.connect(self.plain.conninfo("journals"), autocommit=True) as connection:
            done = connection.execute(sql)
            return done.fetchall() if done.description else None

    def ours(self, sql):
        with psycopg.connect(self.gateway.address.conninfo(), autocommit=True) as connection:
            done = connection.execute(sql)
            return done.fetchall() if done.description else done.statusmessage

    def refusal(self, sql):
        with pytest.raises(psycopg.Error) as raised:
            self.ours(sql)
        return raised.value

    def version(self, number):
        return VERSIONS[self.kind].format(number)

    def stored(self, deptno):
        return self.theirs(
            "SELECT department_name, subsequent_version_number IS NOT NULL FROM hr.depts_journal"
            f" WHERE deptno = {deptno} ORDER BY version_number"
        )

    def model(self, **operand):
        found = {
            "connection": "connection.json",
            "jdbcSchema": "hr",
            "journalSuffix": "_journal",
            "journalVersionField": "version_number",
            "journalSubsequentVersionField": "subsequent_version_number",
            "journalVersionType": self.kind,
            "journalDefaultKey": ["id"],
            "journalTables": {"depts": ["deptno"]},
            **operand,
        }
        schema = {
            "name": "hr",
            "type": "custom",
            "factory": "org.apache.calcite.adapter.jdbc.JournalledJdbcSchema$Factory",
            "operand": {name: value for name, value in found.items() if value is not None},
        }
        document = {"version": "1.0", "defaultSchema": "doesntmatter", "schemas": [schema]}
        path = self.directory / "model.json"
        path.write_text(json.dumps(document))
        return path

    def import_model(self, path):
        """Do what the command does; return what it says where it fails."""
        try:
            model_import.run(path, self.gateway.address.conninfo())
        except GatewayError as error:
            return "\n".join(filter(None, (error.message, error.detail, error.hint)))
        return ""

    def run_command(self, path):
        """Run the command, a process that takes two seconds; return the same."""
        command = [sys.executable, "-m", "pgwire_gateway", "import-model", str(path)]
        command.append(self.gateway.address.conninfo())
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def servers(plain_postgres, tmp_path_factory) -> Iterator[Servers]:
    archive = driver()
    if archive is None:
        pytest.skip("needs Maven to fetch PostgreSQL's driver")
    directory = tmp_path_factory.mktemp("models")
    (directory / "files").mkdir()
    plain_postgres.execute("CREATE DATABASE journals")
    options = [*MACHINE_OPTIONS, f"--jars={archive}", f"--allow-path={directory / 'files'}"]
    data = directory / "data"
    with tcp_relay(plain_postgres) as port, GatewayProcess(data, *options) as process:
        yield Servers(process, plain_postgres, port, directory / "files")
    plain_postgres.execute("DROP DATABASE journals WITH (FORCE)")


@pytest.fixture(params=["TIMESTAMP", "BIGINT"])
def place(servers, request) -> Iterator[Place]:
    directory = servers.directory
    place = Place(servers.gateway, servers.plain, directory, request.param)
    connection = {
        "jdbcDriver": "org.postgresql.Driver",
        "jdbcUrl": f"jdbc:postgresql://127.0.0.1:{servers.port}/journals",
        "jdbcUser": "postgres",
        "jdbcPassword": "",
    }
    (directory / "connection.json").write_text(json.dumps(connection))
    place.theirs("CREATE SCHEMA hr")
    place.theirs(JOURNALS[request.param])
    yield place
    place.theirs("DROP SCHEMA hr CASCADE")
    place.ours("DROP SCHEMA IF EXISTS hr CASCADE")


@pytest.fixture
def depts(place) -> Place:
    place.theirs(
        "INSERT INTO hr.depts_journal (deptno, version_number, department_name) VALUES"
        f" (1, {place.version(1)}, 'Sales'), (2, {place.version(1)}, 'Sails'),"
        f" (2, {place.version(2)}, 'Rigging')"
    )
    assert not place.import_model(place.model())
    return place


def test_every_statement_of_the_convention(depts):
    assert depts.ours("SELECT * FROM hr.depts ORDER BY deptno") in (
        [(1, "Sales"), (2, "Rigging")],
        [("Sales", 1), ("Rigging", 2)],
    )
    insert = "INSERT INTO hr.depts (deptno, department_name) VALUES (666, 'Pivotal')"
    assert depts.ours(insert) == "INSERT 0 1"
    assert depts.stored(666) == [("Pivotal", False)]
    update = "UPDATE hr.depts SET department_name='New Name' WHERE deptno = 666"
    assert depts.ours(update) == "UPDATE 1"
    assert depts.stored(666) == [("Pivotal", False), ("New Name", False)]
    assert depts.ours("SELECT department_name FROM hr.depts WHERE deptno = 666") == [("New Name",)]
    assert depts.ours("DELETE FROM hr.depts WHERE deptno=666") == "DELETE 1"
    assert depts.stored(666)[2:] == [("New Name", True)]
    assert depts.ours("SELECT deptno FROM hr.depts ORDER BY 1") == [(1,), (2,)]
    assert depts.refusal(insert.replace("666", "2")).sqlstate == "23505"
    assert depts.ours(insert) == "INSERT 0 1"
    assert depts.stored(666)[3:] == [("Pivotal", False)]
    assert depts.ours("UPDATE hr.depts SET deptno = 777 WHERE deptno = 666") == "UPDATE 1"
    assert depts.stored(666)[4:] == [("Pivotal", True)]
    assert depts.stored(777) == [("Pivotal", False)]


def test_what_others_write_is_seen(depts):
    depts.ours("UPDATE hr.depts SET department_name = 'Ours'")
    later = depts.version(10**9)
    depts.theirs(
        "INSERT INTO hr.depts_journal (deptno, version_number, department_name)"
        f" VALUES (1, {later}, 'Theirs'), (3, {later}, 'New')"
    )
    names = "SELECT department_name FROM hr.depts ORDER BY deptno"
    assert depts.ours(names) == [("Theirs",), ("Ours",), ("New",)]
    depts.ours("UPDATE hr.depts SET department_name = department_name || '!'")
    assert depts.ours(names) == [("Theirs!",), ("Ours!",), ("New!",)]
    depts.theirs(
        "INSERT INTO hr.depts_journal SELECT * FROM (SELECT * FROM hr.depts_journal"
        " WHERE deptno = 3 ORDER BY version_number DESC LIMIT 1) x ON CONFLICT DO NOTHING"
    )
    assert depts.ours("SELECT count(*) FROM hr.depts") == [(3,)]


def test_archiving_tells_superseded_versions_their_successor(depts):
    depts.ours("UPDATE hr.depts SET department_name = 'Ours' WHERE deptno = 2")
    depts.ours("DELETE FROM hr.depts WHERE deptno = 1")
    before = depts.ours("SELECT deptno, department_name FROM hr.depts ORDER BY 1")
    with psycopg.connect(depts.gateway.address.conninfo(), autocommit=True) as connection:
        said = []
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
        connection.execute("CALL gateway.archive('hr.depts')")
    assert said == ["3 superseded row versions were told their successor"]
    assert depts.ours("SELECT deptno, department_name FROM hr.depts ORDER BY 1") == before
    left = depts.theirs(
        "SELECT deptno, version_number = subsequent_version_number, subsequent_version_number IS"
        " NULL FROM hr.depts_journal ORDER BY deptno, version_number"
    )
    assert left == [
        (1, False, False),
        (1, True, False),
        (2, False, False),
        (2, False, False),
        (2, None, True),
    ]
    depts.ours("UPDATE hr.depts SET department_name = 'Later'")
    assert depts.ours("SELECT department_name FROM hr.depts") == [("Later",)]


def test_a_journal_becomes_a_table_of_ours(depts):
    assert depts.ours("CONVERT TO hr.kept FROM hr.depts KEY (deptno)") == "CONVERT 2"
    kept = "SELECT deptno, department_name FROM hr.kept ORDER BY 1"
    assert depts.ours(kept) == [(1, "Sales"), (2, "Rigging")]


def test_the_other_database_has_the_last_word(depts):
    depts.theirs("ALTER TABLE hr.depts_journal ADD CHECK (department_name <> 'Bad')")
    error = depts.refusal(
        "INSERT INTO hr.depts (deptno, department_name) VALUES (8, 'Fine'), (9, 'Bad')"
    )
    assert error.sqlstate == "HV000"
    assert "depts_journal_department_name_check" in error.diag.message_primary
    assert depts.stored(8) == []
    depts.theirs("DROP TABLE hr.depts_journal")
    assert depts.refusal("SELECT * FROM hr.depts").sqlstate == "HV000"


@pytest.mark.parametrize(
    ("operand", "words"),
    [
        ({"journalSufix": "_j"}, 'unknown property "journalSufix"'),
        ({"journalTables": None}, 'property "journalTables"'),
        ({"journalVersionType": "UUID"}, '"journalVersionType" of schema "hr" is "UUID"'),
        ({"journalTables": ["depts"]}, 'column "id" does not exist'),
        ({"journalTables": {"depts": []}}, 'the key of "depts"'),
        ({"journalVersionField": "v"}, 'column "v" does not exist'),
        ({"journalTables": {"emps": "empid"}}, '"hr.emps_journal" does not exist'),
        ({"connection": "missing.json"}, "missing.json"),
    ],
)
def test_what_is_wrong_with_a_model_is_named(place, operand, words):
    assert words in place.import_model(place.model(**operand)).replace('""', '"')
    assert place.ours("SELECT to_regclass('hr.depts')") == [(None,)]


def test_a_version_type_that_does_not_match_is_refused(place):
    other = {"TIMESTAMP": "BIGINT", "BIGINT": "TIMESTAMP"}[place.kind]
    said = place.import_model(place.model(journalVersionType=other))
    assert 'column "version_number" of the journal is of type' in said or (
        'column "subsequent_version_number" of the journal is of type' in said
    )


def test_a_key_may_be_a_name_a_list_or_the_default(place):
    for tables in ({"depts": "deptno"}, {"depts": None}, ["depts"]):
        model = place.model(journalTables=tables, journalDefaultKey="deptno")
        assert not place.import_model(model)
        key = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'depts_pkey'"
        assert place.ours(key) == [("PRIMARY KEY (deptno)",)]
        assert not place.import_model(model)  # they stay as they are
        place.ours("DROP TABLE hr.depts")


@pytest.mark.parametrize("place", ["TIMESTAMP"], indirect=True)
def test_a_server_starts_with_a_model(place, tmp_path):
    place.theirs("INSERT INTO hr.depts_journal (deptno, department_name) VALUES (4, 'Four')")
    options = [f"--jars={driver()}", f"--model={place.model()}"]
    for _ in range(2):
        with (
            GatewayProcess(tmp_path / "data", *SPARK_OPTIONS, *options) as process,
            psycopg.connect(process.address.conninfo(), autocommit=True) as connection,
        ):
            rows = connection.execute("SELECT deptno, department_name FROM hr.depts").fetchall()
            assert rows == [(4, "Four")]


def test_connections_are_below_directories_that_are_allowed(place, tmp_path):
    (tmp_path / "connection.json").write_text((place.directory / "connection.json").read_text())
    path = place.model(connection=str(tmp_path / "connection.json"))
    assert "is not below a directory that is allowed" in place.run_command(path)


def test_tables_that_are_not_declared_are_what_they_are_there(depts):
    depts.theirs('CREATE TABLE hr."Offices" (city text PRIMARY KEY, desks int, since date)')
    depts.theirs("INSERT INTO hr.\"Offices\" VALUES ('Graz', 4, '2001-02-03'), ('Ulm', 2, NULL)")
    depts.theirs('CREATE VIEW hr.large AS SELECT * FROM hr."Offices" WHERE desks > 3')
    depts.theirs("CREATE TABLE hr.shapes (id int, shape int4range[], times timetz[])")
    path = depts.model()
    assert not depts.import_model(path)
    assert depts.ours('SELECT * FROM hr."Offices" ORDER BY city') == [
        ("Graz", 4, dt.date(2001, 2, 3)),
        ("Ulm", 2, None),
    ]
    assert depts.ours("SELECT city FROM hr.large") == [("Graz",)]
    listed = (
        "SELECT relname FROM pg_class WHERE relnamespace = 'hr'::regnamespace AND relkind = 'r'"
    )
    assert {name for (name,) in depts.ours(listed)} == {"depts", "Offices", "large", "shapes"}
    # What they write is seen, what we write is theirs.
    depts.theirs("UPDATE hr.\"Offices\" SET desks = 9 WHERE city = 'Ulm'")
    assert depts.ours("INSERT INTO hr.\"Offices\" VALUES ('Wels', 1, 'today')") == "INSERT 0 1"
    joined = 'SELECT sum(o.desks), count(d.deptno) FROM hr."Offices" o, hr.depts d'
    assert depts.ours(joined) == [(14 * 2, 6)]
    assert depts.theirs('SELECT city, desks FROM hr."Offices" ORDER BY 1')[2] == ("Wels", 1)
    # The other database has the last word, and nothing of a statement is there when it refuses.
    said = depts.refusal("INSERT INTO hr.\"Offices\" VALUES ('Enns', 1), ('Graz', 1)")
    assert (said.sqlstate, "Offices_pkey" in str(said)) == ("HV000", True)
    for statement in (
        'UPDATE hr."Offices" SET desks = 1',
        "DELETE FROM hr.\"Offices\" WHERE city = 'Graz'",
        'MERGE INTO hr."Offices" o USING hr.depts d ON desks = deptno WHEN MATCHED THEN DELETE',
        'TRUNCATE hr."Offices"',
        'SELECT * FROM hr."Offices" FOR UPDATE',
        'SELECT * FROM hr."Offices_journal"',
        'ALTER TABLE hr."Offices" ADD PRIMARY KEY (city)',
    ):
        assert depts.refusal(statement).sqlstate == "0A000", statement
    assert depts.refusal("CALL gateway.archive('hr.\"Offices\"')").sqlstate == "42809"
    assert depts.refusal('BEGIN; INSERT INTO hr."Offices" VALUES (1)').sqlstate == "25001"
    assert depts.theirs('SELECT count(*) FROM hr."Offices"') == [(3,)]
    # What is there already stays as it is.
    depts.theirs("CREATE TABLE hr.later (n numeric(5,2))")
    assert not depts.run_command(path)
    assert depts.ours("SELECT count(*) FROM hr.later") == [(0,)]
