"""Tables whose names have become those of others since the snapshot of a transaction.

PostgreSQL finds tables by the latest catalog, and rows by the snapshot: no statement reaches the
table that had the name before.
"""

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.servers import Address
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

SCHEMA = "exchanged_names"

TABLES = ("t", "s", "kept", "other")

TIERED = ("t", "s")

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    *(f"CREATE TABLE {table} (id integer PRIMARY KEY, v integer)" for table in TABLES),
    "INSERT INTO t SELECT g, g FROM generate_series(1, 60) g",
    "INSERT INTO s SELECT g, -g FROM generate_series(1, 60) g",
)

STATEMENTS = {
    "a resident table is filled": "INSERT INTO kept SELECT id + 100, v FROM t",
    "one of its columns is": "INSERT INTO kept (id) SELECT id + 100 FROM t",
    "a resident table is filled, but for conflicts": (
        "INSERT INTO kept SELECT id, v FROM t ON CONFLICT DO NOTHING"
    ),
    "a resident table is changed": (
        "MERGE INTO kept USING t ON kept.id = t.id WHEN NOT MATCHED THEN INSERT VALUES (t.id, t.v)"
    ),
    "rows of a key": "UPDATE t SET v = 0 WHERE id = 3",
    "rows of a condition": "UPDATE t SET v = 0 WHERE v BETWEEN 3 AND 5",
    "rows are deleted": "DELETE FROM t WHERE v > 50",
    "rows are locked": "SELECT id, v FROM t WHERE v BETWEEN -5 AND -3 ORDER BY id FOR UPDATE",
    "rows are read": "SELECT sum(v) FROM t",
}

SERIALIZATION_FAILURE = "40001"

EXCHANGED = [(60, 1830, -1830), (60, 1830, 1830), (0, None, None), (0, None, None)]
"""What the tables hold where nothing was written and two tiered ones have each other's names."""


@pytest.fixture(params=["REPEATABLE READ", "SERIALIZABLE"])
def level(request: pytest.FixtureRequest) -> str:
    """The isolation level of the transaction."""
    return str(request.param)


@pytest.fixture
def pair(two_tiers_pair: Pair) -> Iterator[Pair]:
    """The tables on both servers; two of the gateway's are tiered."""
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    for server in (two_tiers_pair.plain, two_tiers_pair.gateway):
        server.execute(*SETUP, database=two_tiers_pair.database)
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute(f"SET search_path = {SCHEMA}")
        make_tiered(owner, *TIERED)
    yield two_tiers_pair
    for server in (two_tiers_pair.plain, two_tiers_pair.gateway):
        server.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=two_tiers_pair.database)


def play(server: Address, database: str, level: str, text: str) -> tuple[object, list[object]]:
    """Return what a statement says after two names were exchanged, and what there is then."""
    options = f"-c search_path={SCHEMA}"
    conninfo = server.conninfo(database)
    first, second = ("kept", "other") if "kept" in text else TIERED
    with (
        psycopg.connect(conninfo, autocommit=True, options=options) as a,
        psycopg.connect(conninfo, autocommit=True, options=options) as b,
    ):
        a.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[call-overload]
        a.execute("SELECT count(*) FROM pg_class")
        for name, becomes in ((first, "passing"), (second, first), ("passing", second)):
            b.execute(f"ALTER TABLE {name} RENAME TO {becomes}")  # type: ignore[call-overload]
        said: object
        try:
            cursor = a.execute(text)  # type: ignore[call-overload]
            said = cursor.fetchall() if cursor.description else cursor.statusmessage
        except psycopg.Error as error:
            said = error.sqlstate
        a.execute("COMMIT")
        query = "SELECT count(*), sum(id), sum(v) FROM {}"
        return said, [b.execute(query.format(table)).fetchone() for table in TABLES]


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_reaches_the_table_that_had_the_name(
    pair: Pair, name: str, level: str
) -> None:
    """PostgreSQL's answer; who writes a tiered one begins again (40001), and leaves nothing."""
    text = STATEMENTS[name]
    expected = play(pair.plain, pair.database, level, text)
    found = play(pair.gateway, pair.database, level, text)
    if found[0] == SERIALIZATION_FAILURE:
        assert "kept" not in text
        assert "sum(" not in text
        expected = (SERIALIZATION_FAILURE, EXCHANGED)
    assert found == expected
