"""The tables that are measured: made in PostgreSQL and copied from there into the gateway.

Small ones are made on both servers by the same statements.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psycopg

from benchmarks.client import Client
from tests.support.servers import Address

COPY_BATCH_ROWS = 4096

COLUMNS = """
    id bigint PRIMARY KEY,
    account integer NOT NULL,
    kind text NOT NULL,
    amount numeric(12,2),
    created_at timestamp with time zone NOT NULL,
    note text
"""

ROWS = """
    SELECT i,
           (i * 7919 % 100003)::integer,
           (ARRAY['order', 'refund', 'payment', 'fee', 'transfer', 'interest', 'deposit', 'other'])
               [1 + i * 31 % 8],
           CASE WHEN i % 50 <> 0 THEN (i * 104729 % 10000000)::numeric / 100 END,
           timestamp with time zone '2024-01-01 00:00:00+00' + i * interval '7.25 seconds',
           'note ' || md5(i::text)
    FROM generate_series(1::bigint, {rows}) AS i
"""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table of six columns."""

    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class Loading:
    """How long it took to get a table into the gateway."""

    copy_s: float
    vacuum_s: float


def create(client: Client, dataset: Dataset) -> None:
    """Make a table without rows, instead of what there was of that name."""
    client.query(f"DROP TABLE IF EXISTS {dataset.table}")
    client.query(f"CREATE TABLE {dataset.table} ({COLUMNS})")


def fill(client: Client, dataset: Dataset) -> None:
    """Let the server make the rows."""
    client.query(f"INSERT INTO {dataset.table} {ROWS.format(rows=dataset.rows)}")


def load_postgres(address: Address, dataset: Dataset) -> None:
    """Make a table and its rows in PostgreSQL."""
    with Client(address) as client:
        create(client, dataset)
        fill(client, dataset)
        client.query(f"VACUUM ANALYZE {dataset.table}")
        client.query("CHECKPOINT")


def lines(source: Address, dataset: Dataset) -> list[bytes]:
    """Return the rows as COPY's text format has them, in pieces of some thousand lines."""
    statement = f"COPY ({ROWS.format(rows=dataset.rows)}) TO STDOUT"
    with (
        psycopg.connect(source.conninfo(), autocommit=True) as connection,
        connection.cursor().copy(statement) as rows,
    ):
        return [b"".join(batch) for batch in _batches(rows)]


def load_gateway(source: Address, gateway: Address, dataset: Dataset) -> Loading:
    """Copy a table of PostgreSQL into the gateway and compact it there."""
    with Client(gateway) as client:
        create(client, dataset)
        start = time.perf_counter()
        _copy(source, gateway, dataset.table)
        copied = time.perf_counter()
        client.query(f"VACUUM {dataset.table}")
        return Loading(copied - start, time.perf_counter() - copied)


def _copy(source: Address, gateway: Address, table: str) -> None:
    with (
        psycopg.connect(source.conninfo(), autocommit=True) as origin,
        psycopg.connect(gateway.conninfo(), autocommit=True) as target,
        origin.cursor().copy(f"COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT") as rows,
        target.cursor().copy(f"COPY {table} FROM STDIN") as into,
    ):
        for batch in _batches(rows):
            into.write(b"".join(batch))


def _batches(rows: Iterable[bytes | bytearray | memoryview]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for row in rows:
        batch.append(bytes(row))
        if len(batch) == COPY_BATCH_ROWS:
            yield batch
            batch = []
    yield batch
