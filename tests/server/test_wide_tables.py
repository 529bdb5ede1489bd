"""Tables of as many columns as PostgreSQL has, whoever holds their rows.

A function of PostgreSQL's takes a hundred arguments at most.
"""

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = [pytest.mark.server, pytest.mark.sampled(1)]

WIDTHS = (97, 101, 1000)
"""How many columns there are beside the key."""

KINDS = {
    "int": "g + {}",
    "text": "CASE WHEN g % 7 > 0 THEN 't,\"' || g || '{}' END",
    "numeric(9,2)": "g / 4.0",
    "date": "'2024-01-01'::date + g",
    "bytea": "'\\x00ff'::bytea",
}
ROWS = 40

STATEMENTS = (
    "UPDATE wide SET c0 = c0 + 1, c1 = 'x' WHERE id IN (7, 8)",
    "INSERT INTO wide (id, c0) VALUES (7, 1), (100, 2) ON CONFLICT (id) DO UPDATE SET c2 = 1.5",
    "UPDATE wide SET c5 = 5 WHERE c0 > 30",
    "DELETE FROM wide WHERE id = 9",
    (
        "MERGE INTO wide USING (VALUES (1, 2), (200, 3)) s (a, b) ON id = a"
        " WHEN MATCHED THEN UPDATE SET c0 = b WHEN NOT MATCHED THEN INSERT (id, c0) VALUES (a, b)"
    ),
    "UPDATE wide SET id = id + 1000 WHERE id BETWEEN 20 AND 22",
)


@pytest.fixture(params=WIDTHS)
def both(request: pytest.FixtureRequest, shared_pair: Pair) -> Iterator[list[psycopg.Connection]]:
    """The table on PostgreSQL and on the gateway."""
    kinds = [list(KINDS)[number % len(KINDS)] for number in range(request.param)]
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds))
    values = ", ".join(KINDS[kind].format(number) for number, kind in enumerate(kinds))
    opened = []
    for server in (shared_pair.plain, shared_pair.gateway):
        connection = psycopg.connect(server.conninfo(shared_pair.database), autocommit=True)
        connection.execute(f"CREATE TABLE wide (id int PRIMARY KEY, {columns})")  # type: ignore[call-overload]
        connection.execute(  # type: ignore[call-overload]
            f"INSERT INTO wide SELECT g, {values} FROM generate_series(1, {ROWS}) g"
        )
        opened.append(connection)
    yield opened
    for connection in opened:
        connection.execute("DROP TABLE wide")
        connection.close()


def require_same(both: list[psycopg.Connection]) -> None:
    plain, gateway = (c.execute("SELECT * FROM wide ORDER BY id").fetchall() for c in both)
    assert gateway == plain
    plain, gateway = (c.execute("SELECT * FROM wide WHERE id = 7").fetchall() for c in both)
    assert gateway == plain


def test_each_statement_answers_as_on_postgresql(both: list[psycopg.Connection]) -> None:
    _, gateway = both
    make_tiered(gateway, "wide")
    require_same(both)
    for statement in STATEMENTS:
        tags = [connection.execute(statement).statusmessage for connection in both]
        assert tags[0] == tags[1]
    require_same(both)
    for settled in ("VACUUM wide", "VACUUM FULL wide"):
        gateway.execute(settled)
        require_same(both)
    assert gateway.execute("SELECT gateway.check('wide')").fetchone() == (0,)
    # Rows of it are PostgreSQL's for a query that Spark has no words for.
    query = "SELECT to_jsonb(wide) ->> 'c1' FROM wide WHERE c0 > 5 ORDER BY id"
    plain, answered = (connection.execute(query).fetchall() for connection in both)
    assert answered == plain


def test_a_wide_table_changes_its_tier(both: list[psycopg.Connection]) -> None:
    _, gateway = both
    for residency in ("always", "never"):
        gateway.execute(f"ALTER TABLE wide SET (gateway.residency = {residency})")  # type: ignore[call-overload]
        for connection in both:
            connection.execute("UPDATE wide SET c1 = %s WHERE id < 5", [residency])
        require_same(both)
        gateway.execute("VACUUM wide")
        require_same(both)


def test_a_journal_has_four_columns_more_than_its_table(resident_pair: Pair) -> None:
    conninfo = resident_pair.gateway.conninfo(resident_pair.database)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for count in (1596, 1597):
            columns = ", ".join(f"c{number} int" for number in range(count))
            try:
                connection.execute(f"CREATE TABLE most ({columns})")  # type: ignore[call-overload]
                connection.execute("DROP TABLE most")
            except psycopg.errors.TooManyColumns:
                assert count > 1596
            else:
                assert count == 1596
