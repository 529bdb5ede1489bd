"""A tail of many bytes is written to files before Spark reads it."""

import psycopg
import pytest

from tests.support.servers import Address

pytestmark = pytest.mark.server

BYTES = 240_000

ROWS = 150
"""More bytes together than Spark is given from the catalog, and fewer than upkeep looks for."""


def test_a_large_tail_is_read(resident_gateway: Address) -> None:
    with psycopg.connect(resident_gateway.conninfo(), autocommit=True) as client:
        client.execute("CREATE TABLE large_tail (id integer PRIMARY KEY, v text)")
        client.execute(
            "INSERT INTO large_tail SELECT g, repeat(md5(g::text), %s)"  # type: ignore[arg-type]
            f" FROM generate_series(1, {ROWS}) g",
            [BYTES // 32],
        )
        total = "SELECT count(*), sum(length(v)) FROM large_tail_journal"
        assert client.execute(total).fetchall() == [(ROWS, ROWS * BYTES)]
        flushed = (
            "SELECT tail_rows, last_flushed IS NOT NULL FROM gateway.maintenance"
            " WHERE table_name = 'large_tail'"
        )
        assert client.execute(flushed).fetchall() == [(0, True)]
        with client.transaction():
            client.execute("UPDATE large_tail SET v = v || 'x'")
            assert client.execute(total).fetchall() == [(2 * ROWS, ROWS * (2 * BYTES + 1))]
        client.execute("DROP TABLE large_tail")
