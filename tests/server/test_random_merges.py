"""Random MERGEs over partitions of both tiers do what PostgreSQL does, or are refused by name."""

from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.support import random_merges
from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

SCHEMA = "random_merges"

MERGES = 16
"""How many are tried with each choice of tiered partitions; rows are new for every fourth."""

REFUSED = "0A000"

AGAIN = "40001"


@pytest.fixture(params=["m0,m1a,m1b,m2", "m0,m1b", "m1a,m2,md"])
def both(
    two_tiers_pair: Pair, request: pytest.FixtureRequest
) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """Connections to PostgreSQL and to the gateway, where some partitions are tiered."""
    wanted = request.param.split(",")
    default = (random_merges.DEFAULT,) if "md" in wanted else ()
    setup = (f"CREATE SCHEMA {SCHEMA}", f"SET search_path = {SCHEMA}", *random_merges.TABLES)
    with (
        psycopg.connect(two_tiers_pair.plain.conninfo(two_tiers_pair.database)) as plain,
        psycopg.connect(two_tiers_pair.gateway.conninfo(two_tiers_pair.database)) as gateway,
    ):
        for connection in (plain, gateway):
            connection.autocommit = True
            for statement in (*setup, *default):
                connection.execute(statement)  # type: ignore[call-overload]
        make_tiered(gateway, *wanted)
        yield plain, gateway
        for leaf in leaves(gateway):
            found = gateway.execute(f"SELECT gateway.check('{SCHEMA}.{leaf}')").fetchall()
            assert (leaf, found) == (leaf, [(0,)])
        for connection in (plain, gateway):
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def leaves(connection: psycopg.Connection) -> Sequence[str]:
    query = "SELECT relid::regclass::text FROM pg_partition_tree('m') WHERE isleaf ORDER BY 1"
    return [name for (name,) in connection.execute(query)]


def outcome(connection: psycopg.Connection, statement: str):
    """Return what a statement says and leaves in each leaf, or its SQLSTATE; take it back."""
    try:
        with connection.transaction(force_rollback=True):
            done = connection.execute(statement)  # type: ignore[call-overload]
            returned = sorted(map(str, done.fetchall())) if done.description else None
            rows = [
                sorted(map(str, connection.execute(f"TABLE {leaf}").fetchall()))
                for leaf in leaves(connection)
            ]
            return done.statusmessage, returned, rows
    except psycopg.Error as error:
        return error.sqlstate


def test_what_postgresql_does_is_done(both, request: pytest.FixtureRequest) -> None:
    plain, gateway = both
    first = len(request.node.name) * 1000
    done = 0
    for seed in range(first, first + MERGES):
        if seed % 4 == 0:
            for statement in random_merges.contents(seed):
                for connection in both:
                    connection.execute(statement)
        statement = random_merges.merge(seed)
        expected, found = outcome(plain, statement), outcome(gateway, statement)
        if found == AGAIN:
            # Upkeep has got in between.
            found = outcome(gateway, statement)
        if found == REFUSED:
            continue
        # Of several violations PostgreSQL finds the first one that it comes across.
        if isinstance(expected, str) and isinstance(found, str):
            continue
        assert (statement, found) == (statement, expected)
        done += 1
    assert done >= MERGES // 4
