import os
from collections.abc import Iterator

import psycopg
import pytest

from tests.gateway.wire_types.oracle import Oracle


@pytest.fixture(scope="session")
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """A session on a real PostgreSQL server."""
    url = os.environ.get("ORACLE_URL")
    with psycopg.connect(url, autocommit=True) as connection:
        yield Oracle(connection)
