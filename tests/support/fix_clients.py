"""The server that client programs are tested on: the gateway, or by choice a plain PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.servers import Address


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of the server."""
    parser.addoption(
        "--on-plain",
        action="store_true",
        help="run the client projects on a plain PostgreSQL: what the gateway has to equal",
    )


@pytest.fixture(scope="session")
def server_under_test(request: pytest.FixtureRequest) -> Address:
    """The server that clients are pointed at."""
    plain = request.config.getoption("--on-plain")
    address: Address = request.getfixturevalue("plain_postgres" if plain else "resident_gateway")
    return address


@contextmanager
def scratch_database(server: Address, name: str) -> Iterator[str]:
    """Create a database for the time of a block."""
    server.execute(f"CREATE DATABASE {name}")
    try:
        yield name
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
