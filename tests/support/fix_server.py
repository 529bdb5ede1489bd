"""Fixtures of the gateway, of the PostgreSQL it is compared with, and of databases on both."""

import itertools
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.support import unsynced
from tests.support.java import JAVA_OPTIONS
from tests.support.programs import program
from tests.support.servers import ATTENTIVE, Address, GatewayProcess, PlainPostgres

DRIVER_OPTIONS = (
    "--spark-master=local[2]",
    "--spark-conf=spark.driver.memory=2g",
    f"--spark-conf=spark.driver.extraJavaOptions={JAVA_OPTIONS}",
)
"""Two cores, as on the machine that runs the checks, and as much memory as by default."""

MACHINE_OPTIONS = DRIVER_OPTIONS
"""The same, said by tests whose tables are resident."""

SPARK_OPTIONS = (*DRIVER_OPTIONS, "--resident-rows=0", "--thaw-rows=1000")
"""The same with all tables on Spark: few rows exercise its road, some more that of bulk writes."""


def pytest_configure() -> None:
    """Let the PostgreSQL servers of this process not wait for the disk."""
    unsynced.apply()


def pytest_report_header() -> list[str]:
    """Name the server and the Java the tests run with."""
    version = subprocess.run(
        [program("postgres"), "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    java = shutil.which("java")
    return [f"oracle: {version}", f"java: {java or 'the one of the JDK wheel'}"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Show what the shared gateway logged during a test that fails."""
    process = getattr(item, "funcargs", {}).get("gateway_process")
    start = len(process.log) if process is not None else 0
    try:
        return (yield)
    finally:
        if process is not None:
            item.add_report_section("call", "gateway log", "".join(process.log[start:]))


@dataclass(frozen=True)
class Pair:
    """One database of the same name on both servers."""

    plain: Address
    gateway: Address
    database: str


@contextmanager
def _same_roles(server: Address) -> Iterator[None]:
    """Require that tests leave no roles behind: they are in the lists of all databases."""
    query = "SELECT rolname FROM pg_roles ORDER BY 1"
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        before = connection.execute(query).fetchall()
    yield
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        assert connection.execute(query).fetchall() == before


@pytest.fixture(scope="session")
def plain_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A PostgreSQL without gateway."""
    with PlainPostgres(tmp_path_factory.mktemp("plain")) as server, _same_roles(server.address):
        yield server.address


@pytest.fixture(scope="session")
def allowed_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where clients of the shared gateways may have files, each test in a place of its own."""
    directory = tmp_path_factory.mktemp("allowed") / "files"
    directory.mkdir()
    return directory


@pytest.fixture(scope="session")
def gateway_process(
    tmp_path_factory: pytest.TempPathFactory, allowed_directory: Path
) -> Iterator[GatewayProcess]:
    """The gateway that tests share; none of them may end it."""
    directory = tmp_path_factory.mktemp("gateway")
    options = (*SPARK_OPTIONS, f"--allow-path={allowed_directory}")
    server = GatewayProcess(directory, *options, module=ATTENTIVE)
    with server as process, _same_roles(process.address):
        yield process


@pytest.fixture(scope="session")
def resident_process(
    tmp_path_factory: pytest.TempPathFactory, allowed_directory: Path
) -> Iterator[GatewayProcess]:
    """A gateway with its own bounds of residency, for tests that share it; none may end it."""
    # Hundreds of small tables: writing each of their tails to a file would only take time.
    options = (*MACHINE_OPTIONS, "--flush-age-s=3600", f"--allow-path={allowed_directory}")
    directory = tmp_path_factory.mktemp("resident")
    server = GatewayProcess(directory, *options, module=ATTENTIVE)
    with server as process, _same_roles(process.address):
        yield process


@pytest.fixture(scope="session")
def resident_gateway(resident_process: GatewayProcess) -> Address:
    """Address of the shared gateway whose small tables are PostgreSQL's to answer for."""
    return resident_process.address


@pytest.fixture(scope="session")
def resident_pair(plain_postgres: Address, resident_gateway: Address) -> Iterator[Pair]:
    """As ``shared_pair``, where small tables are resident."""
    with _databases(plain_postgres, resident_gateway, "resident") as pair:
        yield pair


@pytest.fixture(scope="session")
def two_tiers_pair(plain_postgres: Address, resident_gateway: Address) -> Iterator[Pair]:
    """As ``resident_pair``, without code that would keep all tables resident."""
    with _databases(plain_postgres, resident_gateway, "two_tiers") as pair:
        yield pair


@contextmanager
def _databases(plain: Address, gateway: Address, name: str) -> Iterator[Pair]:
    for server in (plain, gateway):
        server.execute(f"CREATE DATABASE {name}")
    yield Pair(plain, gateway, name)
    for server in (plain, gateway):
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def gateway(gateway_process: GatewayProcess) -> Address:
    """Address of the shared gateway."""
    return gateway_process.address


@pytest.fixture(scope="session")
def _database_names() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"scratch_{next(numbers)}"


@pytest.fixture
def database(gateway: Address, _database_names: Callable[[], str]) -> Iterator[str]:
    """Name of an empty database on the gateway."""
    name = _database_names()
    gateway.execute(f"CREATE DATABASE {name}")
    yield name
    gateway.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def shared_pair(plain_postgres: Address, gateway: Address) -> Iterator[Pair]:
    """A database of the same name on both servers, for tests that keep to a schema of their own."""
    with _databases(plain_postgres, gateway, "shared") as pair:
        yield pair


@pytest.fixture
def pair(
    plain_postgres: Address, gateway: Address, _database_names: Callable[[], str]
) -> Iterator[Pair]:
    """An empty database of the same name on both servers."""
    name = _database_names()
    with ExitStack() as stack:
        for server in (plain_postgres, gateway):
            server.execute(f"CREATE DATABASE {name}")
            stack.callback(server.execute, f"DROP DATABASE {name} WITH (FORCE)")
        yield Pair(plain_postgres, gateway, name)
