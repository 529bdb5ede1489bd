"""Alembic: a chain of migrations up and down, with rows that have to survive it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.fix_clients import scratch_database
from tests.support.programs import environment, run
from tests.support.servers import Address

PROJECT = Path(__file__).parent

ROWS = """
INSERT INTO departments (id, name, budget) VALUES (1, 'Research', 5000), (2, 'Sales', 750);
INSERT INTO employees (name, department_id) VALUES ('Ada', 1), ('Grace', 1);
INSERT INTO employees (name, manager_id) SELECT 'Bob', id FROM employees WHERE name = 'Ada';
"""
"""Rows of the first revision."""

Alembic = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def database(server_under_test: Address) -> Iterator[str]:
    with scratch_database(server_under_test, "alembic") as name:
        yield name


@pytest.fixture
def connection(server_under_test: Address, database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server_under_test.conninfo(database), autocommit=True) as connection:
        yield connection


@pytest.fixture
def alembic(server_under_test: Address, database: str) -> Alembic:
    """The command, run on the database."""

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "alembic", *arguments],
            cwd=PROJECT,
            env=environment(**server_under_test.variables(database)),
            capture_output=True,
            text=True,
            check=False,
        )

    return command


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(connection: psycopg.Connection, query: str) -> list[tuple]:
    return connection.execute(query).fetchall()


def test_autogenerate_finds_no_difference_after_the_last_migration(alembic: Alembic) -> None:
    succeeded(alembic("upgrade", "head"))
    assert "r6 (head)" in succeeded(alembic("current"))
    assert "No new upgrade operations detected." in succeeded(alembic("check"))


def test_autogenerate_finds_what_was_changed_by_hand(
    alembic: Alembic, connection: psycopg.Connection
) -> None:
    succeeded(alembic("upgrade", "head"))
    connection.execute("ALTER TABLE units DROP CONSTRAINT units_name_key")
    connection.execute("ALTER TABLE employees ALTER name TYPE varchar(10)")
    done = alembic("check")
    assert done.returncode != 0
    assert "modify_type" in done.stderr + done.stdout
    assert "add_constraint" in done.stderr + done.stdout


def test_rows_survive_the_way_up_and_down(alembic: Alembic, connection: psycopg.Connection) -> None:
    succeeded(alembic("upgrade", "r1"))
    connection.execute(ROWS)
    succeeded(alembic("upgrade", "head"))
    assert rows(connection, "SELECT name, budget::text FROM units ORDER BY id") == [
        ("Research", "5000.00"),
        ("Sales", "750.00"),
    ]
    assert rows(connection, "SELECT name, email, unit_id, status FROM employees ORDER BY id") == [
        ("Ada", "ada@example.com", 1, "active"),
        ("Grace", "grace@example.com", 1, "active"),
        ("Bob", "bob@example.com", None, "active"),
    ]
    succeeded(alembic("downgrade", "r1"))
    assert rows(connection, "SELECT * FROM departments ORDER BY id") == [
        (1, "Research", 5000),
        (2, "Sales", 750),
    ]
    assert rows(connection, "SELECT name, department_id FROM employees ORDER BY id") == [
        ("Ada", 1),
        ("Grace", 1),
        ("Bob", None),
    ]
    succeeded(alembic("upgrade", "head"))
    assert "No new upgrade operations detected." in succeeded(alembic("check"))


def test_constraints_hold_after_the_migrations(
    alembic: Alembic, connection: psycopg.Connection
) -> None:
    succeeded(alembic("upgrade", "r1"))
    connection.execute(ROWS)
    succeeded(alembic("upgrade", "head"))
    mistakes = {
        "INSERT INTO units (name) VALUES ('Sales')": psycopg.errors.UniqueViolation,
        "UPDATE units SET budget = -1": psycopg.errors.CheckViolation,
        "UPDATE employees SET unit_id = 99": psycopg.errors.ForeignKeyViolation,
        "UPDATE employees SET email = 'same'": psycopg.errors.UniqueViolation,
        "UPDATE employees SET status = 'gone'": psycopg.errors.InvalidTextRepresentation,
        "DELETE FROM employees WHERE name = 'Ada'": psycopg.errors.ForeignKeyViolation,
    }
    for statement, error in mistakes.items():
        with pytest.raises(error):
            connection.execute(statement)
    connection.execute("DELETE FROM units WHERE name = 'Research'")
    assert rows(connection, "SELECT count(*) FROM employees WHERE unit_id IS NULL") == [(3,)]


def test_failed_migration_leaves_the_revision_before_it(
    alembic: Alembic, connection: psycopg.Connection
) -> None:
    succeeded(alembic("upgrade", "r2"))
    connection.execute("INSERT INTO employees (name) VALUES ('Ada'), ('ADA')")
    done = alembic("upgrade", "head")
    assert done.returncode != 0
    assert "employees_email_key" in done.stderr
    assert rows(connection, "SELECT version_num FROM alembic_version") == [("r2",)]
    assert rows(connection, "SELECT DISTINCT email FROM employees") == [(None,)]


def test_downgrade_to_the_beginning_leaves_nothing(
    alembic: Alembic, connection: psycopg.Connection
) -> None:
    succeeded(alembic("upgrade", "head"))
    succeeded(alembic("downgrade", "base"))
    names = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    assert rows(connection, names) == [("alembic_version",), ("alembic_version_pkc",)]
    enums = "SELECT count(*) FROM pg_type WHERE typtype = 'e'"
    assert rows(connection, enums) == [(0,)]


def test_script_for_psql_makes_the_same_schema(
    alembic: Alembic, server_under_test: Address, database: str
) -> None:
    script = succeeded(alembic("upgrade", "head", "--sql"))
    done = run(
        "psql",
        ["-Xq", "--set=ON_ERROR_STOP=1"],
        server=server_under_test.variables(database),
        stdin=script,
    )
    assert done.returncode == 0, done.stderr
    assert "No new upgrade operations detected." in succeeded(alembic("check"))
