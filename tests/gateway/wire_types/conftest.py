from collections.abc import Iterator

import psycopg
import pytest

from tests.gateway.wire_types.oracle import Oracle
from tests.support.servers import Address


@pytest.fixture(scope="session")
def oracle(plain_postgres: Address) -> Iterator[Oracle]:
    """A session on a PostgreSQL without gateway."""
    with psycopg.connect(plain_postgres.conninfo(), autocommit=True) as connection:
        yield Oracle(connection)
