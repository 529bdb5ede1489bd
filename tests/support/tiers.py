"""Tables that are tiered, for tests of what holds of these."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psycopg
from psycopg import sql

PATIENCE_S = 60.0
"""How long upkeep may take to empty a table's catalog table."""


@contextmanager
def schema_sessions(conninfo: str, schema: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Yield what opens sessions in a schema, which is there while the context lasts."""
    with ExitStack() as stack:

        def opened() -> psycopg.Connection:
            options = f"-c search_path={schema}"
            return stack.enter_context(psycopg.connect(conninfo, autocommit=True, options=options))

        first = opened()
        first.execute(f"CREATE SCHEMA {schema}")  # type: ignore[call-overload]
        yield opened
        first.execute(f"DROP SCHEMA {schema} CASCADE")  # type: ignore[call-overload]


def make_tiered(connection: psycopg.Connection, *tables: str) -> None:
    """Have tables of the current schema be tiered, and stay so."""
    for table in tables:
        setting = sql.SQL("ALTER TABLE {} SET (gateway.residency = never)")
        connection.execute(setting.format(sql.Identifier(table)))
    await_tiered(connection, *tables)


def await_tiered(connection: psycopg.Connection, *tables: str) -> None:
    """Wait until upkeep has made tables of the current schema tiered."""
    query = (
        "SELECT table_name FROM gateway.tables WHERE residency = 'tiered'"
        " AND schema_name = current_schema() AND table_name = ANY (%s)"
    )
    deadline = time.monotonic() + PATIENCE_S
    while len(connection.execute(query, [list(tables)]).fetchall()) < len(tables):
        assert time.monotonic() < deadline, "a table did not become tiered"
        time.sleep(0.1)
