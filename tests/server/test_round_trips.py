"""How often the gateway asks its catalog, per statement, on the session's own connection.

The numbers are exact: one that is smaller than here is an improvement, to be written down.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, cycle

import psycopg
import pytest

from pgwire_gateway.messages import (
    Bind,
    DataRow,
    Describe,
    ErrorResponse,
    Execute,
    FrontendMessage,
    ObjectKind,
    Parse,
    Query,
    Sync,
)
from pgwire_gateway.wire_types.tails import MOST_MISSED
from tests.support.counted import LINE
from tests.support.dialogues import bind, wire
from tests.support.fix_server import DRIVER_OPTIONS
from tests.support.servers import GatewayProcess
from tests.support.tiers import make_tiered
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.server

OPTIONS = (*DRIVER_OPTIONS, "--flush-age-s=3600", "--hot-age-s=3600", "--thaw-rows=50")

TIERED, RESIDENT = ("cold", "other", "warm", "thawed", "filled", "bulk", "queue"), "small"

PATIENCE_S = 60.0

INT8 = 20


@dataclass(frozen=True)
class Trips:
    """Round trips of one statement."""

    first: int
    """Sent as a query string, for the first time in the session."""
    again: int
    """The same with other values."""
    unnamed: int
    """As the whole series of messages that a driver sends for an unnamed statement, again."""
    parse: int
    """Prepared under a name, and described."""
    prepared: int
    """Executed then, the second time and later."""
    inside: int
    """Executed in a transaction block, the second time there."""
    plain_inside: int
    """As a query string in a transaction block, the second time there."""


KINDS: dict[str, tuple[str, Trips]] = {
    "a cold row by key": ("SELECT * FROM cold WHERE id = {}", Trips(2, 1, 2, 1, 1, 1, 2)),
    "a row by key where some are hot": (
        "SELECT * FROM warm WHERE id = {}",
        Trips(2, 1, 2, 1, 1, 1, 2),
    ),
    "an aggregate": (
        "SELECT v, count(*) FROM cold WHERE id > {} GROUP BY v",
        Trips(2, 1, 2, 1, 1, 1, 2),
    ),
    "two tables joined": (
        "SELECT count(*) FROM cold JOIN other USING (id) WHERE cold.v > {}",
        Trips(2, 1, 2, 1, 1, 1, 2),
    ),
    "settings and names": (
        "SELECT id, x, b, current_user FROM other WHERE id < {}",
        Trips(2, 1, 2, 1, 1, 1, 2),
    ),
    "a row of a resident table": ("SELECT * FROM small WHERE id = {}", Trips(7, 1, 1, 1, 1, 1, 1)),
    "a cold row changed": ("UPDATE thawed SET v = 1 WHERE id = {}", Trips(6, 3, 3, 1, 2, 3, 4)),
    "a hot row changed": ("UPDATE warm SET v = 1 WHERE id = {}", Trips(6, 2, 2, 1, 1, 1, 3)),
    "a row inserted": ("INSERT INTO filled VALUES (10000 + {})", Trips(3, 3, 3, 1, 2, 3, 4)),
    "many rows changed": (
        "UPDATE bulk SET v = v + 1 WHERE id > {}",
        # In a block they are few enough to be hot: the table would be locked until its end.
        Trips(14, 8, 9, 1, 8, 5, 6),
    ),
}

HOT = (1, 2)
"""Keys of ``warm``."""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that tells of its round trips, with tables of both tiers."""
    directory = tmp_path_factory.mktemp("counted")
    with GatewayProcess(directory, *OPTIONS, module="tests.support.counted") as process:
        with psycopg.connect(process.address.conninfo(), autocommit=True) as client:
            for table in (*TIERED, RESIDENT):
                client.execute(  # type: ignore[call-overload]
                    f"CREATE TABLE {table} (id bigint PRIMARY KEY, v integer, x float8, b bytea)"
                )
                client.execute(  # type: ignore[call-overload]
                    f"INSERT INTO {table} SELECT g, g % 10, g / 7.0, '\\x00ff'"
                    " FROM generate_series(1, 1000) g"
                )
            make_tiered(client, *TIERED)
            for table in TIERED:
                client.execute(f"VACUUM {table}")  # type: ignore[call-overload]
            for key in HOT:
                client.execute("UPDATE warm SET v = 0 WHERE id = %s", [key])
            client.execute("UPDATE thawed SET v = 0 WHERE id = 1000")
            client.execute("INSERT INTO filled VALUES (2000)")
        yield process


class Counter:
    """A client's session that counts what the gateway asks for it."""

    def __init__(self, process: GatewayProcess, client: WireClient) -> None:
        self._process = process
        self._client = client
        self._marks = count(1)
        (row,) = self._rows("SELECT pg_backend_pid()")
        self._backend = int(row.values[0] or b"0")
        self.trips(Sync())  # what was asked so far is in the log then

    def _rows(self, query: str) -> list[DataRow]:
        return [m for m in self._client.query(query) if isinstance(m, DataRow)]

    def trips(self, *messages: FrontendMessage) -> list[str]:
        """Send messages, and return what was asked before ReadyForQuery."""
        start = len(self._process.log)
        self._client.send(*messages)
        answers = self._client.receive_until_ready()
        assert not [m for m in answers if isinstance(m, ErrorResponse)], answers
        # What comes after it in the log shows that all of it has been read.
        number = next(self._marks)
        self._client.send(Parse(f"mark {number}", f"SELECT {number} AS mark"), Sync())
        self._client.receive_until_ready()
        told = f"parse SELECT {number} AS mark"
        deadline = time.monotonic() + PATIENCE_S
        while not any(told in line for line in self._process.log[start:]):
            assert time.monotonic() < deadline, "the mark was not told"
            time.sleep(0.01)
        asked = []
        for line in self._process.log[start:]:
            if told in line:
                break
            found = LINE.match(line)
            if found and int(found[1]) == self._backend:
                asked.append(found[2])
        return asked


@pytest.fixture
def counter(counted: GatewayProcess) -> Iterator[Counter]:
    with wire(counted.address, "postgres") as client:
        yield Counter(counted, client)


def executed(key: int, statement: str = "") -> list[FrontendMessage | Bind]:
    return [bind(str(key), statement=statement), Describe(ObjectKind.PORTAL), Execute(), Sync()]


@pytest.mark.parametrize("kind", KINDS)
def test_round_trips(counter: Counter, kind: str) -> None:
    text, expected = KINDS[kind]
    keys = cycle(HOT) if "warm" in text else count(11)
    plain: Callable[[], Query] = lambda: Query(text.format(next(keys)))  # noqa: E731
    parameterized = text.format("$1")

    first = counter.trips(plain())
    again = counter.trips(plain())
    for _ in range(2):
        unnamed = counter.trips(Parse("", parameterized, (INT8,)), *executed(next(keys)))
    parse = counter.trips(
        Parse("s", parameterized, (INT8,)), Describe(ObjectKind.STATEMENT, "s"), Sync()
    )
    counter.trips(*executed(next(keys), "s"))
    prepared = counter.trips(*executed(next(keys), "s"))
    for command in ("BEGIN", "COMMIT", "BEGIN"):
        counter.trips(Query(command))
    for _ in range(2):
        inside = counter.trips(*executed(next(keys), "s"))
    for _ in range(2):
        plain_inside = counter.trips(plain())
    assert len(counter.trips(Query("COMMIT"))) == 1

    asked = [first, again, unnamed, parse, prepared, inside, plain_inside]
    assert Trips(*map(len, asked)) == expected, "\n".join(
        f"{name}: {told}" for name, told in zip(Trips.__annotations__, asked, strict=True)
    )


def test_what_was_found_by_a_condition_is_known_to_all_sessions(counted: GatewayProcess) -> None:
    take = Query(
        "UPDATE queue SET v = 100 WHERE id = (SELECT id FROM queue WHERE v = 7 AND x > 1"
        " LIMIT 1 FOR UPDATE SKIP LOCKED)"
    )

    def searches(counter: Counter) -> int:
        """Return how often the journal was looked at once rows could be hot."""
        asked = counter.trips(take)
        (place, *_) = [number for number, told in enumerate(asked) if "announce()" in told]
        return sum("snapshot()" in told for told in asked[place:])

    with wire(counted.address, "postgres") as one, wire(counted.address, "postgres") as other:
        first, second = Counter(counted, one), Counter(counted, other)
        assert searches(first)
        while searches(first):  # a few rows at first, and all of them later
            pass
        assert [searches(second), searches(first), searches(second)] == [0, 0, 0]
        # All rows go cold.
        first.trips(Query("UPDATE queue SET b = NULL"))
        assert searches(second)
        while searches(second):
            pass
        assert [searches(first), searches(second)] == [0, 0]


def test_a_long_tail_is_read_before_who_writes_it_again_looks_into_it(
    counted: GatewayProcess,
) -> None:
    # Definitions in the database of the others would cost these a trip.
    counted.address.execute("CREATE DATABASE keyed")
    with (
        psycopg.connect(counted.address.conninfo("keyed"), autocommit=True) as client,
        wire(counted.address, "keyed") as connection,
    ):
        counter = Counter(counted, connection)
        client.execute("CREATE TABLE keyed (id bigint PRIMARY KEY, u bigint UNIQUE)")
        make_tiered(client, "keyed")
        insert = "INSERT INTO keyed VALUES ({0}, {0})"
        client.execute(insert.format(0))
        many = "INSERT INTO keyed SELECT g, g FROM generate_series(%s::int, %s::int) g"
        client.execute(many, [1, 2 * MOST_MISSED])
        trips = [len(counter.trips(Query(insert.format(key)))) for key in range(1001, 1006)]
        assert trips[2:] == [trips[3]] * 3
        assert trips.count(trips[3] + 1) == 1
        # Who is told to read it finds another table there.
        client.execute(many, [2 * MOST_MISSED + 1, 4 * MOST_MISSED])
        counter.trips(Query(insert.format(1006)))
        client.execute("DROP TABLE keyed")
        client.execute("CREATE TABLE keyed (id bigint PRIMARY KEY, u bigint UNIQUE)")
        counter.trips(Query(insert.format(1006)))
        assert client.execute("SELECT * FROM keyed").fetchall() == [(1006, 1006)]
    counted.address.execute("DROP DATABASE keyed WITH (FORCE)")
