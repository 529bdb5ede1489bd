"""Journals that other programs keep, too: what they write is seen, what we write is theirs to read.

The other program is pyarrow. Rows are compared in the journal itself.
"""

import datetime as dt
import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.attentive import VISIT_S
from tests.support.fix_server import SPARK_OPTIONS
from tests.support.servers import GatewayProcess

pytestmark = [pytest.mark.server, pytest.mark.turns("journal")]

UTC = dt.UTC
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=UTC)
NUMBERS = itertools.count(1)

VERSIONS = {
    "TIMESTAMP": (pa.timestamp("us", "UTC"), lambda n: LONG_AGO + dt.timedelta(seconds=n)),
    "BIGINT": (pa.int64(), lambda n: n),
}


@dataclass
class Journal:
    """The journal `depts_journal` in a directory, and the table that stands for it."""

    connection: psycopg.Connection
    conninfo: str
    directory: Path
    kind: str

    @property
    def schema(self):
        version, _ = VERSIONS[self.kind]
        return pa.schema(
            [
                pa.field("deptno", pa.int32()),
                pa.field("version_number", version),
                pa.field("subsequent_version_number", version),
                pa.field("department_name", pa.string()),
            ]
        )

    def others_write(self, *rows):
        """Append a file as another program does: (deptno, version, subsequent, name)."""
        _, number = VERSIONS[self.kind]
        numbered = [
            (key, number(version), None if subsequent is None else number(subsequent), name)
            for key, version, subsequent, name in rows
        ]
        columns = list(zip(*numbered, strict=True)) or [()] * 4
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        path = self.directory / f"theirs-{next(NUMBERS):04}.parquet"
        pq.write_table(pa.Table.from_arrays(arrays, schema=self.schema), path)

    def register(self, table="hr.depts", **options):
        listed = {"location": str(self.directory), "key": "deptno", **options}
        arguments = ", ".join(f"{name} => '{value}'" for name, value in listed.items())
        self.execute(f"CALL gateway.register_journal('{table}', {arguments})")

    def execute(self, sql, parameters=None):
        return self.connection.execute(sql, parameters)

    def rows(self, sql="SELECT * FROM hr.depts ORDER BY 1"):
        return self.execute(sql).fetchall()

    def refusal(self, sql, parameters=None):
        with pytest.raises(psycopg.Error) as raised:
            self.execute(sql, parameters)
        return raised.value

    def stored(self, where=None):
        """Return what is in the journal itself: (deptno, name, is a tombstone), by version."""
        files = sorted(self.directory.glob("*.parquet"))
        parts = [pq.read_table(file).select(self.schema.names) for file in files]
        table = pa.concat_tables([part.cast(self.schema) for part in parts])
        rows = sorted(table.to_pylist(), key=lambda row: (row["deptno"], row["version_number"]))
        return [
            (row["deptno"], row["department_name"], row["subsequent_version_number"] is not None)
            for row in rows
            if where is None or row["deptno"] == where
        ]

    def versions(self, deptno):
        """Return the version numbers of a row, in the order of files' times."""
        table = pq.read_table(self.directory)
        return sorted(row["version_number"] for row in table.to_pylist() if row["deptno"] == deptno)


@dataclass(frozen=True)
class Server:
    """A gateway, and the directory that its clients may use."""

    process: GatewayProcess
    files: Path


@pytest.fixture(scope="module")
def server(resident_process, allowed_directory) -> Server:
    return Server(resident_process, allowed_directory)


def opened(server, kind) -> Iterator[Journal]:
    process = server.process
    name = f"test_{time.monotonic_ns()}"
    directory = server.files / name
    directory.mkdir()
    process.address.execute(f"CREATE DATABASE {name}")
    conninfo = process.address.conninfo(name)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA hr")
        yield Journal(connection, conninfo, directory, kind)
    process.address.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["TIMESTAMP", "BIGINT"])
def journal(server, request) -> Iterator[Journal]:
    for journal in opened(server, request.param):
        journal.others_write((1, 1, None, "Sales"), (2, 1, None, "Sails"), (2, 2, None, "Rigging"))
        journal.others_write((3, 1, None, "Gone"), (3, 2, 2, "Gone"))
        journal.register()
        yield journal


def test_the_latest_version_is_read_unless_it_is_a_tombstone(journal):
    assert journal.rows() == [(1, "Sales"), (2, "Rigging")]
    assert journal.rows("SELECT department_name FROM hr.depts WHERE deptno = 2") == [("Rigging",)]
    assert journal.rows("SELECT count(*), max(deptno) FROM hr.depts") == [(2, 2)]
    (names,) = zip(*journal.rows(COLUMNS), strict=True)
    assert names == ("deptno", "department_name")


COLUMNS = (
    "SELECT column_name FROM information_schema.columns"
    " WHERE table_schema = 'hr' AND table_name = 'depts' ORDER BY ordinal_position"
)


def test_every_statement_of_the_convention(journal):
    done = journal.execute("INSERT INTO hr.depts (deptno, department_name) VALUES (666, 'Pivotal')")
    assert done.statusmessage == "INSERT 0 1"
    assert journal.stored(666) == [(666, "Pivotal", False)]
    done = journal.execute("UPDATE hr.depts SET department_name='New Name' WHERE deptno = 666")
    assert done.statusmessage == "UPDATE 1"
    assert journal.stored(666) == [(666, "Pivotal", False), (666, "New Name", False)]
    assert journal.rows() == [(1, "Sales"), (2, "Rigging"), (666, "New Name")]
    done = journal.execute("DELETE FROM hr.depts WHERE deptno=666")
    assert done.statusmessage == "DELETE 1"
    assert journal.stored(666)[2:] == [(666, "New Name", True)]
    assert journal.rows() == [(1, "Sales"), (2, "Rigging")]
    assert len(set(journal.versions(666))) == 3


def test_what_others_write_between_our_statements_is_seen(journal):
    journal.execute("UPDATE hr.depts SET department_name = 'Ours' WHERE deptno = 1")
    later = 10**10 if journal.kind == "TIMESTAMP" else 100
    journal.others_write((1, later, None, "Theirs"), (7, 1, None, "New"))
    assert journal.rows() == [(1, "Theirs"), (2, "Rigging"), (7, "New")]
    journal.execute("UPDATE hr.depts SET department_name = department_name || '!'")
    assert journal.rows() == [(1, "Theirs!"), (2, "Rigging!"), (7, "New!")]
    assert journal.versions(1)[-1] > journal.versions(1)[-2]
    assert len(journal.versions(1)) == 4


def test_a_row_that_was_deleted_comes_again(journal):
    journal.execute("INSERT INTO hr.depts VALUES (3, 'Again')")
    assert journal.rows()[-1] == (3, "Again")
    journal.execute("DELETE FROM hr.depts WHERE deptno = 3")
    journal.execute("INSERT INTO hr.depts VALUES (3, 'And again')")
    assert journal.rows()[-1] == (3, "And again")
    assert [gone for _, _, gone in journal.stored(3)] == [False, True, False, True, False]


def test_keys_are_kept(journal):
    error = journal.refusal("INSERT INTO hr.depts VALUES (9, 'x'), (2, 'y')")
    assert (error.sqlstate, error.diag.constraint_name) == ("23505", "depts_pkey")
    assert error.diag.message_detail == "Key (deptno)=(2) already exists."
    assert journal.refusal("INSERT INTO hr.depts VALUES (NULL, 'y')").sqlstate == "23502"
    error = journal.refusal("UPDATE hr.depts SET deptno = 2 WHERE deptno = 1")
    assert error.sqlstate == "23505"
    assert journal.rows() == [(1, "Sales"), (2, "Rigging")]
    assert len(journal.stored()) == 5


def test_a_key_that_changes_is_a_tombstone_and_a_row(journal):
    journal.execute("UPDATE hr.depts SET deptno = deptno + 10 WHERE deptno = 1")
    assert journal.rows() == [(2, "Rigging"), (11, "Sales")]
    assert journal.stored(1) == [(1, "Sales", False), (1, "Sales", True)]
    assert journal.stored(11) == [(11, "Sales", False)]


def test_rows_come_back_from_returning_and_many_are_written_at_once(journal):
    rows = journal.rows(
        "INSERT INTO hr.depts SELECT n, 'n' || n FROM generate_series(100, 3099) n RETURNING deptno"
    )
    assert len(rows) == 3000
    assert journal.rows("SELECT count(*) FROM hr.depts") == [(3002,)]
    changed = journal.rows(
        "UPDATE hr.depts SET department_name = upper(department_name)"
        " WHERE deptno >= 100 RETURNING department_name"
    )
    assert len(changed) == 3000
    assert journal.execute("DELETE FROM hr.depts WHERE deptno >= 200").statusmessage == (
        "DELETE 2900"
    )
    assert journal.rows("SELECT count(*), min(department_name) FROM hr.depts") == [(102, "N100")]
    copied = "INSERT INTO hr.depts SELECT deptno + 50000, department_name FROM hr.depts"
    assert journal.execute(copied).statusmessage == "INSERT 0 102"
    assert journal.rows("SELECT count(*) FROM hr.depts") == [(204,)]


def test_merge(journal):
    journal.execute("CREATE TABLE news (id int PRIMARY KEY, name text)")
    journal.execute("INSERT INTO news VALUES (1, 'Merged'), (5, 'Come')")
    done = journal.execute(
        "MERGE INTO hr.depts d USING news n ON d.deptno = n.id"
        " WHEN MATCHED THEN UPDATE SET department_name = n.name"
        " WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.name)"
        " WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert done.statusmessage == "MERGE 3"
    assert journal.rows() == [(1, "Merged"), (5, "Come")]
    assert journal.stored(2)[-1] == (2, "Rigging", True)


def test_on_conflict(journal):
    do_nothing = "INSERT INTO hr.depts VALUES (1, 'x'), (8, 'Eight') ON CONFLICT DO NOTHING"
    assert journal.execute(do_nothing).statusmessage == "INSERT 0 1"
    rows = journal.rows(
        "INSERT INTO hr.depts AS d VALUES (1, 'One'), (3, 'Three') ON CONFLICT (deptno)"
        " DO UPDATE SET department_name = d.department_name || excluded.department_name"
        " RETURNING deptno, department_name"
    )
    assert rows == [(1, "SalesOne"), (3, "Three")]
    assert journal.rows() == [(1, "SalesOne"), (2, "Rigging"), (3, "Three"), (8, "Eight")]
    assert journal.stored(1) == [(1, "Sales", False), (1, "SalesOne", False)]
    assert journal.stored(3)[-1] == (3, "Three", False)


def test_on_conflict_of_rows_that_a_query_yields(journal):
    done = journal.execute(
        "INSERT INTO hr.depts SELECT n, 'n' || n FROM generate_series(2, 4) n"
        " ON CONFLICT DO NOTHING"
    )
    assert done.statusmessage == "INSERT 0 2"
    assert journal.rows() == [(1, "Sales"), (2, "Rigging"), (3, "n3"), (4, "n4")]
    assert journal.stored(2) == [(2, "Sails", False), (2, "Rigging", False)]


def test_unique_keys(journal):
    journal.others_write((4, 1, None, "Sales"))
    error = journal.refusal("ALTER TABLE hr.depts ADD UNIQUE (department_name)")
    assert (error.sqlstate, error.diag.message_detail) == (
        "23505",
        "Key (department_name)=(Sales) is duplicated.",
    )
    journal.execute("DELETE FROM hr.depts WHERE deptno = 4")
    journal.execute("ALTER TABLE hr.depts ADD UNIQUE (department_name)")
    before = journal.stored()
    for statement in (
        "INSERT INTO hr.depts VALUES (9, 'Rigging')",
        """INSERT INTO hr.depts SELECT n, CASE n WHEN 3000 THEN 'Sales' ELSE 'n' || n END
        FROM generate_series(100, 3000) n""",
        "UPDATE hr.depts SET department_name = 'Sales' WHERE deptno = 2",
    ):
        error = journal.refusal(statement)
        assert (error.sqlstate, error.diag.constraint_name) == (
            "23505",
            "depts_department_name_key",
        )
    assert journal.stored() == before
    journal.execute("UPDATE hr.depts SET department_name = 'Was ' || department_name")
    journal.execute("INSERT INTO hr.depts VALUES (9, 'Rigging'), (10, NULL), (11, NULL)")
    merged = (
        "MERGE INTO hr.depts USING (VALUES (2)) n ON deptno = column1"
        " WHEN MATCHED THEN UPDATE SET department_name = 'Rigging'"
    )
    assert journal.refusal(merged).sqlstate == "23505"
    taken = "INSERT INTO hr.depts VALUES (1, 'x') ON CONFLICT (deptno) DO"
    assert journal.execute(f"{taken} NOTHING").statusmessage == "INSERT 0 0"
    error = journal.refusal(f"{taken} UPDATE SET department_name = 'Rigging'")
    assert error.sqlstate == "23505"
    assert journal.rows()[:3] == [(1, "Was Sales"), (2, "Was Rigging"), (9, "Rigging")]


def test_copy(journal):
    with journal.connection.cursor() as cursor:
        with cursor.copy("COPY hr.depts FROM STDIN") as copy:
            copy.write("20\tTwenty\n21\t\\N\n")
        with cursor.copy("COPY hr.depts FROM STDIN") as copy:
            copy.write("".join(f"{n}\tn{n}\n" for n in range(1000, 4000)))
    assert journal.rows("SELECT count(*), max(deptno) FROM hr.depts") == [(3004, 3999)]
    assert journal.stored(21) == [(21, None, False)]
    with (
        pytest.raises(psycopg.errors.UniqueViolation),
        journal.connection.cursor() as cursor,
        cursor.copy("COPY hr.depts FROM STDIN") as copy,
    ):
        copy.write("30\tx\n2\ty\n")
    assert journal.stored(30) == []
    with journal.connection.cursor() as cursor, cursor.copy("COPY hr.depts TO STDOUT") as copy:
        assert len(list(copy.rows())) == 3004


def test_writers_lose_nothing(journal):
    def add(mark):
        with psycopg.connect(journal.conninfo, autocommit=True) as other:
            for _ in range(3):
                other.execute(
                    "UPDATE hr.depts SET department_name = department_name || %s WHERE deptno = 1",
                    [mark],
                )

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add, "abc"))
    ((name,),) = journal.rows("SELECT department_name FROM hr.depts WHERE deptno = 1")
    assert sorted(name.removeprefix("Sales")) == sorted("abc" * 3)
    assert len(set(journal.versions(1))) == 10


def test_explain_analyze_writes(journal):
    journal.execute("EXPLAIN ANALYZE UPDATE hr.depts SET department_name = 'x' WHERE deptno = 1")
    assert journal.rows()[0] == (1, "x")
    plan = "\n".join(line for (line,) in journal.rows("EXPLAIN SELECT * FROM hr.depts"))
    assert str(journal.directory.parent.parent) not in plan


def test_a_statement_without_rows_writes_no_file(journal):
    before = sorted(journal.directory.iterdir())
    assert journal.execute("DELETE FROM hr.depts WHERE deptno = 99").statusmessage == "DELETE 0"
    assert journal.rows("UPDATE hr.depts SET deptno = 1 WHERE false RETURNING *") == []
    assert sorted(journal.directory.iterdir()) == before


def test_nothing_is_there_when_the_disk_is_full_or_the_path_has_gone(journal, server):
    files = sorted(journal.directory.iterdir())
    elsewhere = journal.directory.with_name("moved")
    journal.directory.rename(elsewhere)
    try:
        for statement in ("SELECT * FROM hr.depts", "INSERT INTO hr.depts VALUES (9, 'x')"):
            assert journal.refusal(statement).sqlstate == "58P01"
        outside = server.process.data_dir.parent / "outside"
        outside.mkdir(exist_ok=True)
        journal.directory.symlink_to(outside)
        for statement in ("SELECT * FROM hr.depts", "INSERT INTO hr.depts VALUES (9, 'x')"):
            assert journal.refusal(statement).sqlstate == "42501"
        assert list(outside.iterdir()) == []
        journal.directory.unlink()
    finally:
        elsewhere.rename(journal.directory)
    assert sorted(journal.directory.iterdir()) == files
    assert journal.rows() == [(1, "Sales"), (2, "Rigging")]


def test_only_those_who_may_import_register_and_privileges_are_those_of_the_table(journal):
    role = f"role_{time.monotonic_ns()}"
    journal.execute(f"CREATE ROLE {role} LOGIN")
    journal.execute(f"GRANT USAGE, CREATE ON SCHEMA hr TO {role}")
    with psycopg.connect(journal.conninfo, user=role, autocommit=True) as other:
        for statement in (
            "SELECT * FROM hr.depts",
            "INSERT INTO hr.depts VALUES (9, 'x')",
            f"CALL gateway.register_journal('hr.mine', '{journal.directory}', 'deptno')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute(statement)
        journal.execute(f"GRANT SELECT, INSERT ON hr.depts TO {role}")
        other.execute("INSERT INTO hr.depts VALUES (9, 'x')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute("DELETE FROM hr.depts")
    assert journal.rows()[-1] == (9, "x")
    journal.execute(f"REVOKE ALL ON hr.depts FROM {role}; REVOKE ALL ON SCHEMA hr FROM {role}")
    journal.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("options", "sqlstate", "words"),
    [
        ({"key": "id"}, "42703", 'column "id" does not exist'),
        ({"version_column": "Version_Number"}, "42703", "Perhaps you meant"),
        ({"subsequent_column": "gone"}, "42703", 'column "gone" does not exist'),
        ({"version_type": "TIMESTAMP"}, "42804", 'column "version_number"'),
        ({"version_column": "department_name"}, "42804", 'column "department_name"'),
        ({"version_type": "uuid"}, "22023", 'version type "uuid"'),
        ({"format": "avro"}, "22023", "avro"),
        ({"columns": "deptno bigint, department_name text"}, "42804", 'column "deptno"'),
        ({"columns": "deptno int"}, "42703", 'column "department_name"'),
        ({"columns": "deptno int) ; DROP TABLE x"}, "42601", "syntax error"),
        ({"location": "/etc"}, "42501", "not below"),
        ({"location": "relative"}, "42602", "relative path"),
        ({"key": "department_name"}, "23502", 'column "department_name"'),
    ],
)
def test_what_is_wrong_with_a_registration_is_named(server, options, sqlstate, words):
    for journal in opened(server, "BIGINT"):
        journal.others_write((1, 1, None, None))
        with pytest.raises(psycopg.Error) as raised:
            journal.register(**options)
        assert raised.value.sqlstate == sqlstate
        said = f"{raised.value.diag.message_primary} {raised.value.diag.message_hint}"
        assert words in said
        assert journal.rows("SELECT to_regclass('hr.depts')") == [(None,)]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "BIGINT"])
@pytest.mark.parametrize("form", ["parquet", "orc", "csv", "json"])
def test_an_empty_directory_becomes_a_journal(server, kind, form):
    columns = "deptno integer, department_name text, budget numeric(12,2), since date, flag boolean"
    for journal in opened(server, kind):
        if (form, kind) == ("orc", "TIMESTAMP"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                journal.register(format=form, version_type=kind, columns=columns)
            continue
        journal.register(format=form, version_type=kind, columns=columns)
        assert journal.rows() == []
        oldest = "1582-10-15" if form == "orc" else "0099-01-01"
        rows = [
            (1, 'a,b "c"\n\\', "1.50", "2024-02-29", True),
            (2, "", None, None, None),
            (3, None, "-0.01", oldest, False),
        ]
        expected = "SELECT deptno, department_name, budget::text, since::text, flag FROM hr.depts"
        for row in rows:
            journal.execute("INSERT INTO hr.depts VALUES (%s, %s, %s, %s, %s)", row)
        assert journal.rows(f"{expected} ORDER BY 1") == rows
        journal.execute("UPDATE hr.depts SET budget = budget + 1, flag = NOT flag")
        journal.execute("DELETE FROM hr.depts WHERE deptno = 2")
        changed = [
            (1, rows[0][1], "2.50", "2024-02-29", False),
            (3, None, "0.99", oldest, True),
        ]
        assert journal.rows(f"{expected} ORDER BY 1") == changed
        assert {file.suffix for file in journal.directory.iterdir()} == {f".{form}"}
        journal.execute("DROP TABLE hr.depts")
        journal.register(format=form, version_type=kind, columns=columns)
        assert journal.rows(f"{expected} ORDER BY 1") == changed


def test_nothing_is_written_in_a_transaction_block_unless_asked_for(journal):
    before = journal.stored()
    with pytest.raises(psycopg.Error) as raised, journal.connection.transaction():
        journal.execute("DELETE FROM hr.depts")
    assert raised.value.sqlstate == "25001"
    assert journal.stored() == before
    error = journal.refusal("DELETE FROM hr.depts; SELECT 1 / 0")
    assert (error.sqlstate, journal.stored()) == ("25001", before)
    journal.execute("SET gateway.external_writes = immediate")
    with journal.connection.transaction(force_rollback=True):
        journal.execute("DELETE FROM hr.depts WHERE deptno = 1")
        assert journal.rows() == [(2, "Rigging")]
        journal.execute("INSERT INTO hr.depts VALUES (1, 'Again')")
        assert journal.rows() == [(1, "Again"), (2, "Rigging")]
    assert journal.rows() == [(1, "Again"), (2, "Rigging")]


def test_writers_of_ours_wait_for_each_other(journal):
    journal.execute("SET gateway.external_writes = immediate")
    with psycopg.connect(journal.conninfo, autocommit=True) as other:
        other.execute("SET lock_timeout = '500ms'")
        with journal.connection.transaction():
            journal.execute("UPDATE hr.depts SET department_name = 'a' WHERE deptno = 1")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("UPDATE hr.depts SET department_name = 'b' WHERE deptno = 1")
        other.execute(
            "UPDATE hr.depts SET department_name = department_name || 'b' WHERE deptno = 1"
        )
    assert journal.rows()[0] == (1, "ab")


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE hr.depts",
        "CALL gateway.archive('hr.depts')",
        "SELECT * FROM hr.depts FOR UPDATE",
        "ALTER TABLE hr.depts ADD COLUMN budget numeric",
        "ALTER TABLE hr.depts DROP COLUMN department_name",
        "ALTER TABLE hr.depts ALTER department_name TYPE varchar(3)",
        "ALTER TABLE hr.depts ADD EXCLUDE (deptno WITH =)",
        "ALTER TABLE hr.depts SET (gateway.residency = always)",
        "CREATE TABLE child () INHERITS (hr.depts)",
        "CREATE TABLE other (d int REFERENCES hr.depts)",
        "ALTER TABLE hr.depts ADD FOREIGN KEY (deptno) REFERENCES plain",
        "CREATE FUNCTION reach() RETURNS int AS 'SELECT deptno FROM hr.depts' LANGUAGE sql",
        "ALTER TABLE hr.depts DROP CONSTRAINT depts_pkey",
        "ALTER TABLE hr.depts ALTER department_name SET NOT NULL",
        "ALTER TABLE hr.depts ADD CHECK (department_name <> 'None')",
    ],
)
def test_what_is_not_done_is_refused(server, statement):
    for journal in opened(server, "BIGINT"):
        journal.others_write((1, 1, None, "Sales"))
        journal.register()
        journal.execute("CREATE TABLE plain (id int PRIMARY KEY)")
        assert journal.refusal(statement).sqlstate == "0A000"
        assert journal.rows() == [(1, "Sales")]


def test_upkeep_and_definitions_that_change_nothing_there(journal, server):
    before, start = sorted(journal.directory.iterdir()), len(server.process.log)
    for statement in (
        "VACUUM hr.depts",
        "ANALYZE hr.depts",
        "COMMENT ON TABLE hr.depts IS 'Of others'",
        "ALTER TABLE hr.depts ALTER department_name SET DEFAULT 'Unnamed'",
        "CREATE VIEW named AS SELECT * FROM hr.depts WHERE department_name <> ''",
    ):
        journal.execute(statement)
    assert journal.rows("SELECT gateway.check('hr.depts')") == [(0,)]
    assert journal.rows("SELECT * FROM named ORDER BY 1") == [(1, "Sales"), (2, "Rigging")]
    assert sorted(journal.directory.iterdir()) == before
    journal.execute("WITH new AS (INSERT INTO hr.depts (deptno) VALUES (5)) SELECT 1")
    assert journal.rows("SELECT * FROM named WHERE deptno = 5") == [(5, "Unnamed")]
    resident = "CREATE TABLE kept AS SELECT d.*, 1 AS one FROM hr.depts d"
    assert journal.execute(resident).statusmessage == "SELECT 3"
    time.sleep(4 * VISIT_S)  # upkeep has looked at it
    assert journal.rows("SELECT count(*) FROM hr.depts") == [(3,)]
    assert not [line for line in server.process.log[start:] if "WARNING" in line or "ERROR" in line]


def test_dropping_the_table_leaves_the_journal(journal):
    before = sorted(journal.directory.iterdir())
    journal.execute("DROP TABLE hr.depts")
    assert sorted(journal.directory.iterdir()) == before
    journal.register()
    assert journal.rows() == [(1, "Sales"), (2, "Rigging")]


def test_the_journal_is_read_by_its_name(journal):
    rows = journal.rows(
        "SELECT deptno, department_name, subsequent_version_number IS NOT NULL"
        " FROM hr.depts_journal ORDER BY deptno, version_number"
    )
    assert rows == journal.stored()
    journal.execute("ALTER TABLE hr.depts RENAME COLUMN department_name TO name")
    journal.execute("ALTER TABLE hr.depts RENAME TO departments")
    assert journal.rows("SELECT name FROM hr.departments ORDER BY 1") == [("Rigging",), ("Sales",)]
    journal.execute("UPDATE hr.departments SET name = 'x' WHERE deptno = 1")
    assert journal.stored(1)[-1] == (1, "x", False)


@pytest.mark.timeout(300)
def test_what_was_acknowledged_is_there_after_a_kill_and_nothing_in_part(tmp_path):
    files = tmp_path / "files"
    (files / "journal").mkdir(parents=True)
    option = f"--allow-path={files}"
    columns = "deptno int, department_name text"
    acknowledged = []
    with GatewayProcess(tmp_path / "data", *SPARK_OPTIONS, option) as process:
        with psycopg.connect(process.address.conninfo(), autocommit=True) as connection:
            connection.execute(
                "CALL gateway.register_journal('depts', %s, 'deptno', 'parquet', columns => %s)",
                [str(files / "journal"), columns],
            )

        def write(start):
            with psycopg.connect(process.address.conninfo(), autocommit=True) as connection:
                for number in itertools.count(start, 2):
                    row = [number, str(number), number + 1, str(number + 1)]
                    connection.execute("INSERT INTO depts VALUES (%s, %s), (%s, %s)", row)
                    acknowledged.append(number)

        for round_number, pause in enumerate((0.0, 0.06, 0.13)):
            with ThreadPoolExecutor(1) as pool:
                done = pool.submit(write, 1 + 10_000 * round_number)
                wanted = len(acknowledged) + 2
                while len(acknowledged) < wanted and not done.done():
                    time.sleep(0.01)
                time.sleep(pause)
                process.kill()
                assert isinstance(done.exception(60), psycopg.OperationalError)
            process.start()
            with psycopg.connect(process.address.conninfo(), autocommit=True) as connection:
                rows = connection.execute("SELECT deptno FROM depts").fetchall()
                found = {number for (number,) in rows}
                assert len(rows) == len(found)
                assert set(acknowledged) <= found
                assert len(found - {n + i for n in acknowledged for i in (0, 1)}) <= 2 * (
                    round_number + 1
                )
                assert all(
                    (number - 1 if number % 2 == 0 else number + 1) in found for number in found
                )
    assert acknowledged


@pytest.mark.parametrize("key", ["", ", key => 'id'"])
def test_types_that_others_write_in_other_forms_are_refused(server, key):
    # What they wrote would be compared as text: 'a' is not 'a  ', nor is 'A0' then 'a0'.
    procedure = "register_journal" if key else "register_table"
    for place in opened(server, "BIGINT"):
        place.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        for kind in ("character(3)", "uuid", "jsonb", "bit(3)", '"char"', "uuid[]", "mood"):
            refused = place.refusal(
                f"CALL gateway.{procedure}('hr.typed', '{place.directory}'{key}, format => 'csv',"
                f" columns => 'id int, value {kind}')"
            )
            assert refused.sqlstate == "0A000"
            assert f'column "value" of type {kind} is not supported' in str(refused)
            assert place.rows("SELECT to_regclass('hr.typed')") == [(None,)]


def test_a_table_that_is_no_journal(server):
    for place in opened(server, "BIGINT"):
        names = pa.array(["a", "b", None], pa.string())
        table = pa.table({"name": names, "n": pa.array([1, 2, 3], pa.int64())})
        pq.write_table(table, place.directory / "theirs.parquet")
        place.execute(f"CALL gateway.register_table('hr.things', '{place.directory}')")
        things = "SELECT name, n FROM hr.things ORDER BY n"
        assert place.rows(things) == [("a", 1), ("b", 2), (None, 3)]
        assert place.rows("SELECT count(*), sum(n) FROM hr.things WHERE n > 1") == [(2, 5)]
        written = "INSERT INTO hr.things SELECT 'x' || name, n + 10 FROM hr.things RETURNING n"
        assert sorted(place.rows(written)) == [(11,), (12,), (13,)]
        with place.connection.cursor().copy("COPY hr.things (n) FROM STDIN") as copy:
            copy.write_row((20,))
        pq.write_table(table.slice(0, 1), place.directory / "others.parquet")
        assert place.rows(things)[:2] == [("a", 1), ("a", 1)]
        assert place.rows("SELECT name, n FROM hr.things WHERE n > 3 ORDER BY n") == [
            ("xa", 11),
            ("xb", 12),
            (None, 13),
            (None, 20),
        ]
        read = pa.concat_tables([pq.read_table(f) for f in place.directory.glob("*.parquet")])
        assert read.schema.names == ["name", "n"]
        assert sorted(read.column("n").to_pylist()) == [1, 1, 2, 3, 11, 12, 13, 20]
        for statement in (
            "UPDATE hr.things SET n = 1",
            "DELETE FROM hr.things",
            "TABLE hr.things_journal",
            "ALTER TABLE hr.things ADD UNIQUE (n)",
            "CREATE UNIQUE INDEX ON hr.things (n)",
        ):
            assert place.refusal(statement).sqlstate == "0A000", statement
        within = place.refusal("WITH d AS (DELETE FROM hr.things RETURNING n) SELECT * FROM d")
        assert (within.sqlstate, within.diag.message_hint) == (
            "0A000",
            "Name the rows by constants for their keys, if the table has one.",
        )
        emptied = place.refusal("TRUNCATE hr.things")
        assert (emptied.sqlstate, emptied.diag.message_hint) == (
            "0A000",
            "Remove the rows where they are.",
        )
        keyed = "columns => 'name text, n bigint PRIMARY KEY'"
        registered = f"CALL gateway.register_table('hr.keyed', '{place.directory}', {keyed})"
        assert place.refusal(registered).sqlstate == "0A000"
        empty = place.directory.parent / f"{place.directory.name}_csv"
        empty.mkdir()
        said = "format => 'csv', columns => 'a int, b text CHECK (b <> '''')'"
        place.execute(f"CALL gateway.register_table('hr.lines', '{empty}', {said})")
        place.execute("INSERT INTO hr.lines VALUES (1, 'one, two'), (2, NULL)")
        assert place.refusal("INSERT INTO hr.lines VALUES (3, '')").sqlstate == "23514"
        assert place.rows("TABLE hr.lines ORDER BY a") == [(1, "one, two"), (2, None)]
        (file,) = empty.glob("*.csv")
        assert file.read_text().splitlines() == ["a,b", '1,"one, two"', "2,"]
        place.execute("VACUUM hr.lines")
        place.execute("ANALYZE hr.lines")
        assert place.rows("SELECT gateway.check('hr.things')") == [(0,)]
        place.execute("DROP TABLE hr.things")
        assert len(list(place.directory.glob("*.parquet"))) == 4


TEXTS = {
    "integer": ({" +5 ": "5"}, {"5.0": "22P02", "\u0663": "22P02", "99999999999": "22003"}),
    "numeric(10,2)": ({"-.5": "-0.50", "1.239": "1.24"}, {"1,5": "22P02", "1e9": "22003"}),
    "numeric": ({"0.10": "0.10"}, {"1,5": "22P02", "x": "22P02", "1e3": "0A000"}),
    "float8": ({"-inf": "-Infinity"}, {"1.5d": "22P02", "1e400": "22003", "1e-400": "22003"}),
    "real": ({"1.5": "1.5"}, {"1.5f": "22P02", "1e40": "22003"}),
    "boolean": ({"yes": "t", "0": "f"}, {"abc": "22P02"}),
    "date": ({"2024-02-29": "2024-02-29"}, {"2024": "22007", "2024-02-30": "22008"}),
    "timestamp": (
        {"2024-01-01T10:00:00.123456": "2024-01-01 10:00:00.123456"},
        {"10:00": "22007", "2024-01-01 10:00:00.1234567": "22007"},
    ),
    "timestamptz": (
        {
            "2024-01-01 10:00:00+02": "2024-01-01 08:00:00+00",
            "2024-01-01": "2024-01-01 00:00:00+00",
        },
        {"10:00": "22007", "1704067200": "22007", "2024": "22007"},
    ),
    "varchar(3)": ({"ab   ": "ab "}, {"abcd": "22001"}),
}


@pytest.mark.parametrize("form", ["csv", "json"])
def test_text_of_others_is_read_as_postgresql_reads_it_or_refused(server, form):
    for place in opened(server, "BIGINT"):
        for number, (kind, (read, refused)) in enumerate(TEXTS.items()):
            directory = place.directory / str(number)
            directory.mkdir()
            said = f"format => '{form}', columns => 'id int, v {kind}'"
            place.execute(f"CALL gateway.register_table('hr.t{number}', '{directory}', {said})")
            for value, expected in {**read, **refused}.items():
                file = directory / f"theirs.{form}"
                text = json.dumps({"id": 1, "v": value}) if form == "json" else f'id,v\n1,"{value}"'
                file.write_text(text, encoding="utf-8")
                query = f"SELECT v FROM hr.t{number}"
                if value in refused:
                    assert place.refusal(query).sqlstate == expected, (kind, value)
                    continue
                with psycopg.ClientCursor(place.connection) as cursor:
                    cursor.execute("SET TimeZone TO UTC")
                    cursor.execute(query)
                    assert cursor.pgresult.get_value(0, 0) == expected.encode(), (kind, value)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_we_write_as_text_comes_back(server, form):
    columns = "a text, b text, at timestamptz, local timestamp"
    moment = dt.datetime(2024, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)
    rows = [
        (text, other, moment, moment.replace(tzinfo=None))
        for text, other in itertools.pairwise(
            [
                " x ",
                "\r",
                "a\rb",
                "\r\n",
                "x\n",
                " ",
                "",
                None,
                '"',
                "\\",
                "#",
                ",",
                "\ufeff",
                '"x"y',
            ]
        )
    ]
    for place in opened(server, "BIGINT"):
        place.execute("SET TimeZone TO UTC")
        said = f"format => '{form}', columns => '{columns}'"
        place.execute(f"CALL gateway.register_table('hr.t', '{place.directory}', {said})")
        for row in rows:
            place.execute("INSERT INTO hr.t VALUES (%s, %s, %s, %s)", row)
        assert sorted(place.rows("TABLE hr.t"), key=repr) == sorted(rows, key=repr)
        one = place.directory / "one"
        place.execute("DROP TABLE hr.t")
        for file in place.directory.iterdir():
            file.unlink()
        one.mkdir()
        said = f"format => '{form}', columns => 'a text'"
        place.execute(f"CALL gateway.register_table('hr.one', '{one}', {said})")
        place.execute("INSERT INTO hr.one VALUES (''), (' '), (E'a\\n')")
        if form == "csv":
            assert place.refusal("INSERT INTO hr.one VALUES ('x'), (NULL)").sqlstate == "0A000"
            assert sorted(place.rows("TABLE hr.one")) == [("",), (" ",), ("a\n",)]
        else:
            place.execute("INSERT INTO hr.one VALUES (NULL)")
            assert place.rows("SELECT count(*) FROM hr.one WHERE a IS NULL") == [(1,)]


def test_files_that_come_later_are_looked_at_too(server):
    for place in opened(server, "BIGINT"):
        (place.directory / "1.csv").write_bytes(b"a,b\n1,2\n")
        place.execute(f"CALL gateway.register_table('hr.t', '{place.directory}')")
        assert place.rows("TABLE hr.t") == [("1", "2")]
        for content, sqlstate in (
            (b"b,a\n1,2\n", "22P04"),
            (b"a,b\n1\n", "22P04"),
            (b"a,b\n\n", "22P04"),
            (b"a,b\n1,\xe9\n", "22021"),
            (b"a,b\n\x001,2\n", "22021"),
            (b'a,b\n1,"x" \n', "0A000"),
        ):
            (place.directory / "2.csv").write_bytes(content)
            for query in ("TABLE hr.t", "SELECT a FROM hr.t", "SELECT count(*) FROM hr.t"):
                assert place.refusal(query).sqlstate == sqlstate, (content, query)
        (place.directory / "2.csv").write_bytes(b'a,b\r\n3,"\r\n"\r\n')
        assert place.rows("TABLE hr.t ORDER BY 1") == [("1", "2"), ("3", "\r\n")]
        (place.directory / "2.csv").write_bytes(b"")
        assert place.rows("TABLE hr.t ORDER BY 1") == [("1", "2")]
        (place.directory / "1.csv").write_bytes(b"")
        assert place.rows("TABLE hr.t ORDER BY 1") == []
        place.execute("DROP TABLE hr.t")
        for kind in ("bytea", "int[]"):
            said = f"format => 'csv', columns => 'id int, v {kind}'"
            refused = f"CALL gateway.register_table('hr.t', '{place.directory}/none', {said})"
            (place.directory / "none").mkdir(exist_ok=True)
            assert place.refusal(refused).sqlstate == "0A000"


def test_arrays_and_bytes_in_json(server):
    for place in opened(server, "BIGINT"):
        columns = "n int, a int[], t text[], d date[], b bytea"
        said = f"format => 'json', columns => '{columns}'"
        place.execute(f"CALL gateway.register_table('hr.t', '{place.directory}', {said})")
        rows = [
            (1, [1, None], ["x", None, ""], [dt.date(2024, 2, 29)], b"\x00\xff"),
            (2, [], None, [None], b""),
        ]
        for row in rows:
            place.execute("INSERT INTO hr.t VALUES (%s, %s, %s, %s, %s)", row)
        assert place.rows("TABLE hr.t ORDER BY n") == rows
        for text, sqlstate in (('"a": ["5", 1.5]', "22P02"), ('"d": ["10:00"]', "22007")):
            (place.directory / "theirs.json").write_text(f'{{"n": 3, {text}}}')
            assert place.refusal("SELECT a, d FROM hr.t").sqlstate == sqlstate
