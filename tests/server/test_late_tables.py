"""Tables made after the snapshot of a transaction above READ COMMITTED, which it reads and writes.

PostgreSQL finds tables by the latest catalog, and rows by the snapshot.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.sampling import crossed
from tests.support.servers import Address

pytestmark = pytest.mark.server

SCHEMA = "late_tables"

MAKE = "CREATE TABLE late (id integer PRIMARY KEY, t text)"

FILL = "INSERT INTO late SELECT g, 'early' FROM generate_series(1, 3) g"

COPY = "COPY late FROM STDIN"

MANY = "INSERT INTO late SELECT g, 'many' FROM generate_series(100, 1299) g"

READ = "SELECT id, t FROM late WHERE id < 50 ORDER BY id"

COUNT = "SELECT count(*), sum(id) FROM late"

HISTORIES = {
    "reads": [f"b: {MAKE}", f"a: {READ}", f"a: {COUNT}"],
    "reads nothing of what is there": [f"b: {MAKE}", f"b: {FILL}", f"a: {READ}", f"a: {COUNT}"],
    "writes": [
        f"b: {MAKE}",
        "a: INSERT INTO late VALUES (1, 'one')",
        f"a: {READ}",
        f"a: {COPY}",
        f"a: {READ}",
        "a: UPDATE late SET t = 'two' WHERE id = 1 RETURNING *",
        "a: DELETE FROM late WHERE id = 1",
        f"a: {COUNT}",
        f"b: {READ}",
        "a: COMMIT",
        f"b: {READ}",
        "b: INSERT INTO late VALUES (2, 'again')",
        "b: INSERT INTO late VALUES (3, 'three')",
        f"b: {READ}",
    ],
    "writes many rows": [
        f"b: {MAKE}",
        f"a: {MANY}",
        f"a: {COUNT}",
        "a: UPDATE late SET t = 'more'",
        "a: COMMIT",
        f"b: {COUNT}",
        "b: SELECT DISTINCT t FROM late",
    ],
    "rolls back": [
        f"b: {MAKE}",
        "a: INSERT INTO late VALUES (1, 'one')",
        "a: ROLLBACK",
        f"b: {READ}",
        "b: INSERT INTO late VALUES (1, 'two')",
        f"b: {READ}",
    ],
    "changes nothing of what it does not see": [
        f"b: {MAKE}",
        f"b: {FILL}",
        "a: UPDATE late SET t = 'x'",
        "a: DELETE FROM late WHERE id = 1",
        "a: COMMIT",
        f"b: {READ}",
    ],
    "writes beside rows it does not see": [
        f"b: {MAKE}",
        f"b: {FILL}",
        "a: INSERT INTO late VALUES (4, 'four')",
        f"a: {READ}",
        "a: COMMIT",
        f"b: {READ}",
    ],
    "writes a key that it does not see": [
        f"b: {MAKE}",
        f"b: {FILL}",
        "a: INSERT INTO late VALUES (1, 'one')",
        "a: COMMIT",
        f"b: {READ}",
    ],
    "copies": [f"b: {MAKE}", f"a: {COPY}", f"a: {READ}", "a: COMMIT", f"b: {READ}"],
    "writes two rows of a new table each": [
        f"b: {MAKE}",
        "a: INSERT INTO late VALUES (1, 'one')",
        "b: INSERT INTO late VALUES (2, 'two')",
        "a: UPDATE late SET id = 5",
        "b: COMMIT",
        "a: COMMIT",
        f"b: {READ}",
    ],
    "others write after it": [
        f"b: {MAKE}",
        f"a: {READ}",
        f"b: {FILL}",
        f"a: {READ}",
        "a: COMMIT",
        f"a: {READ}",
    ],
}


@dataclass(frozen=True)
class Place:
    """Both servers, and how the gateway keeps new tables."""

    pair: Pair
    is_tiered: bool

    def play(self, server: Address, history: list[str], level: str) -> list[tuple[str, object]]:
        """Have two clients run statements, after the first one has taken its snapshot."""
        options = f"-c search_path={SCHEMA}"
        conninfo = server.conninfo(self.pair.database)
        with (
            psycopg.connect(conninfo, autocommit=True, options=options) as a,
            psycopg.connect(conninfo, autocommit=True, options=options) as b,
        ):
            a.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[call-overload]
            a.execute("SELECT count(*) FROM pg_class")
            clients = {"a": a, "b": b}
            found = []
            for line in history:
                who, _, text = line.partition(": ")
                found.append((line, answered(clients[who], text)))
            a.rollback()
            b.execute("DROP TABLE late")
        return found


@pytest.fixture(params=["resident_pair", "shared_pair"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Where new tables are resident, and where they are tiered."""
    pair: Pair = request.getfixturevalue(request.param)
    for server in (pair.plain, pair.gateway):
        server.execute(f"CREATE SCHEMA {SCHEMA}", database=pair.database)
    yield Place(pair, is_tiered=request.param == "shared_pair")
    for server in (pair.plain, pair.gateway):
        server.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=pair.database)


@pytest.mark.parametrize(
    ("name", "level"), crossed(list(HISTORIES), ["REPEATABLE READ", "SERIALIZABLE"])
)
def test_a_table_younger_than_the_snapshot(place: Place, name: str, level: str) -> None:
    """PostgreSQL's answer; who writes a tiered one begins again (40001), and leaves nothing."""
    history = HISTORIES[name]
    expected = place.play(place.pair.plain, history, level)
    found = place.play(place.pair.gateway, history, level)
    first = next((i for i, line in enumerate(history) if line.startswith(WRITES)), None)
    if place.is_tiered and first is not None:
        ended = next(i for i, line in enumerate(history) if line in {"a: COMMIT", "a: ROLLBACK"})
        rest = [line for line in history if not line.startswith("a: ")]
        others = iter(place.play(place.pair.plain, rest, level))
        for i, line in enumerate(history):
            if not line.startswith("a: "):
                expected[i] = next(others)
            elif i > first:
                expected[i] = (line, "25P02" if i < ended else "ROLLBACK")
            elif i == first and expected[i][1] != "23505":
                expected[i] = (line, "40001")
    assert found == expected


WRITES = ("a: INSERT", "a: UPDATE", "a: DELETE", "a: COPY")


def answered(client: psycopg.Connection, text: str) -> object:
    """Return the rows of a statement, what it reports, or its error."""
    try:
        if text == COPY:
            with client.cursor() as cursor:
                with cursor.copy(COPY) as copying:
                    copying.write(b"2\tcopied\n3\tcopied\n")
                return cursor.statusmessage
        cursor = client.execute(text)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else cursor.statusmessage
    except psycopg.Error as error:
        return error.sqlstate
