"""The same tables on PostgreSQL and on the gateway, and what statements say and leave there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

Both = tuple[psycopg.Connection, psycopg.Connection]
"""Connections to PostgreSQL and to the gateway."""


@contextmanager
def both_sides(
    pair: Pair,
    schema: str,
    setup: Sequence[str],
    tiered: Sequence[str] = (),
    checked: Sequence[str] = (),
) -> Iterator[Both]:
    """Open a connection to either, and set them up; drop the schema at the end.

    Args:
        pair: The servers.
        schema: The schema that the statements make.
        setup: The statements, for both.
        tiered: Tables that become tiered before it begins.
        checked: Tables that are what their journals say when it ends.
    """
    with (
        psycopg.connect(pair.plain.conninfo(pair.database), autocommit=True) as plain,
        psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True) as gateway,
    ):
        for connection in (plain, gateway):
            for statement in setup:
                connection.execute(statement)  # type: ignore[call-overload]
        if tiered:
            make_tiered(gateway, *tiered)
        yield plain, gateway
        for table in checked:
            found = gateway.execute(f"SELECT gateway.check('{schema}.{table}')").fetchall()
            assert (table, found) == (table, [(0,)])
        for connection in (plain, gateway):
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


def said_and_left(
    connection: psycopg.Connection, statements: Sequence[str], queries: Sequence[str]
) -> tuple[str | None, list | None, list[list]]:
    """Return what the last statement says, and what queries find then; take it back."""
    with connection.transaction(force_rollback=True):
        for statement in statements:
            done = connection.execute(statement)  # type: ignore[call-overload]
        returned = sorted(done.fetchall(), key=str) if done.description else None
        found = [sorted(connection.execute(query).fetchall(), key=str) for query in queries]  # type: ignore[call-overload]
        return done.statusmessage, returned, found


def connected(pair: Pair, schema: str, user: str = "postgres") -> psycopg.Connection:
    """Open another connection to the gateway, which sees the tables of a schema."""
    options = f"-c search_path={schema} -c lock_timeout=60s"
    return psycopg.connect(
        pair.gateway.conninfo(pair.database), user=user, autocommit=True, options=options
    )
