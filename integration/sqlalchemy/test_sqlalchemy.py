"""SQLAlchemy's compliance suite for dialects, run by a pytest of its own."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fix_clients import scratch_database
from tests.support.programs import environment
from tests.support.servers import Address

SUITE = Path(__file__).parent / "suite"

URL = "postgresql+psycopg://"
"""Without a host: libpq's variables name the server."""

CHOSEN = (
    "Insert or Update or Delete or CTE or Rowcount or Sequence or Join or JSON or Numeric "
    "or HasTable or HasIndex or Identity or Computed or Temporary or Isolation or Returning "
    "or TableDDL"
)
"""A selection by names of classes, for every run of the tests."""

CHOSEN_COUNT = 864

WHOLE_COUNT = 1883
"""Tests that pass on PostgreSQL 18; the others ask for what it does not have."""


@pytest.fixture(scope="module")
def database(server_under_test: Address) -> Iterator[str]:
    """A database with the two schemas that the suite asks for."""
    with scratch_database(server_under_test, "sqlalchemy") as name:
        schemas = ("CREATE SCHEMA test_schema", "CREATE SCHEMA test_schema_2")
        server_under_test.execute(*schemas, database=name)
        yield name


def run_suite(server: Address, database: str, report: Path, *arguments: str) -> set[str]:
    """Run the suite and return the names of the tests that passed; fail when any did not."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "dialect_suite.py"),
            *(f"--dburi={URL}", f"--junit-xml={report}", *arguments),
        ],
        cwd=SUITE,
        # It would take the rights of others away from the directory this run keeps its files in.
        env=environment(**server.variables(database), PYTEST_DEBUG_TEMPROOT=str(report.parent)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    # The report is the one that the process above has just written.
    cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314
    return {f"{case.get('classname')}.{case.get('name')}" for case in cases if not len(case)}


def test_statements_and_values(server_under_test: Address, database: str, tmp_path: Path) -> None:
    passed = run_suite(server_under_test, database, tmp_path / "report.xml", "-k", CHOSEN)
    assert len(passed) == CHOSEN_COUNT


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_whole_suite(server_under_test: Address, database: str, tmp_path: Path) -> None:
    passed = run_suite(server_under_test, database, tmp_path / "report.xml")
    assert len(passed) == WHOLE_COUNT
