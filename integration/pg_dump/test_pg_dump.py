"""pg_dump and pg_restore 18: a database of every kind of object, and its copies."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.fix_clients import scratch_database
from tests.support.programs import run
from tests.support.servers import Address

SCHEMA = Path(__file__).parent / "schema.sql"

TEXT = ["--restrict-key=fixed"]
"""Without this option each dump has a key of its own in it."""


@dataclass(frozen=True)
class Database:
    """A database of one of the servers."""

    server: Address
    name: str

    def run(self, program: str, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run a program that must succeed, and return its output."""
        variables = self.server.variables(self.name)
        done = run(program, [str(a) for a in arguments], server=variables, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def psql(self, script: str) -> str:
        """Run a script up to its end or its first mistake."""
        return self.run("psql", "-XqAt", "--set=ON_ERROR_STOP=1", stdin=script)

    def dump(self, *options: str) -> str:
        """Return a dump as SQL."""
        return self.run("pg_dump", *TEXT, *options)


NewDatabase = Callable[[Address], Database]


@pytest.fixture(scope="module")
def new_database() -> Iterator[NewDatabase]:
    """Make databases that last as long as the tests here."""
    numbers = itertools.count(1)
    with ExitStack() as stack:
        yield lambda server: Database(
            server, stack.enter_context(scratch_database(server, f"dumped_{next(numbers)}"))
        )


@pytest.fixture(scope="module")
def original(server_under_test: Address, new_database: NewDatabase) -> Database:
    """The database with everything in it."""
    database = new_database(server_under_test)
    database.psql(SCHEMA.read_text(encoding="utf-8"))
    return database


@pytest.fixture(params=["same_server", "plain_server"])
def copy(
    request: pytest.FixtureRequest,
    server_under_test: Address,
    plain_postgres: Address,
    new_database: NewDatabase,
) -> Database:
    """An empty database to restore into."""
    servers = {"same_server": server_under_test, "plain_server": plain_postgres}
    return new_database(servers[request.param])


def test_dump_is_the_one_of_postgresql(
    original: Database, plain_postgres: Address, new_database: NewDatabase
) -> None:
    plain = new_database(plain_postgres)
    plain.psql(SCHEMA.read_text(encoding="utf-8"))
    assert original.dump().splitlines() == plain.dump().splitlines()


@pytest.mark.parametrize("options", [[], ["--create"], ["--schema-only"], ["--data-only"]])
def test_nothing_of_the_gateway_is_dumped(original: Database, options: list[str]) -> None:
    assert "pgwire" not in original.dump(*options).lower()


@pytest.mark.parametrize("options", [[], ["--inserts", "--rows-per-insert=100"]])
def test_script_makes_an_equal_copy(original: Database, copy: Database, options: list[str]) -> None:
    copy.psql(original.dump(*options))
    assert copy.dump().splitlines() == original.dump().splitlines()


def test_custom_archive_makes_an_equal_copy(
    original: Database, copy: Database, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    original.run("pg_dump", "-Fc", f"--file={archive}")
    copy.run("pg_restore", "--exit-on-error", f"--dbname={copy.name}", archive)
    assert copy.dump().splitlines() == original.dump().splitlines()


def test_directory_is_written_and_read_by_several_connections(
    original: Database, copy: Database, tmp_path: Path
) -> None:
    directory = tmp_path / "directory"
    original.run("pg_dump", "-Fd", "--jobs=2", f"--file={directory}")
    copy.run("pg_restore", "--exit-on-error", "--jobs=2", f"--dbname={copy.name}", directory)
    assert copy.dump().splitlines() == original.dump().splitlines()


def test_schema_alone_makes_a_copy_without_rows(original: Database, copy: Database) -> None:
    copy.psql(original.dump("--schema-only"))
    assert copy.dump("--schema-only").splitlines() == original.dump("--schema-only").splitlines()
    assert copy.psql("SELECT count(*) FROM shop.products") == "0\n"


def test_rows_follow_the_schema(original: Database, copy: Database) -> None:
    copy.psql(original.dump("--section=pre-data"))
    copy.psql(original.dump("--section=data"))
    copy.psql(original.dump("--section=post-data"))
    assert copy.dump().splitlines() == original.dump().splitlines()


def test_restoring_over_a_table_replaces_it(original: Database, copy: Database) -> None:
    copy.psql(original.dump())
    copy.psql("UPDATE public.plain SET v = 'changed'; ALTER TABLE public.plain ADD w integer")
    copy.psql(original.dump("--clean", "--if-exists", "--table=public.plain"))
    assert copy.dump().splitlines() == original.dump().splitlines()


def test_restored_copy_is_alive(original: Database, copy: Database) -> None:
    copy.psql(original.dump())
    added = copy.psql(
        "SET search_path = shop;"
        "INSERT INTO customers (name, mail) VALUES ('New', 'new@example.com') RETURNING id;"
        "INSERT INTO products (code, price) VALUES ('DDD', 2) RETURNING id, taxed;"
        "UPDATE customers SET name = 'Newer' WHERE name = 'New' RETURNING notes;"
        "SELECT total(1);"
        "REFRESH MATERIALIZED VIEW not_filled;"
        "SELECT count(*) FROM not_filled;"
    )
    assert added.splitlines() == ["4", "25|2.3800", '{"changed": true}', "3.00", "4"]
