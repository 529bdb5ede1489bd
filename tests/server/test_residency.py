"""Which tables are PostgreSQL's to answer for, and what clients see when that changes."""

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql

from catalog.server.embedded import SUPERUSER
from pgwire_gateway.session.occupied_tables import OCCUPIED_S
from pgwire_gateway.upkeep import failures
from tests.support.attentive import REST_S, VISIT_S
from tests.support.data_files import data_files
from tests.support.fix_server import MACHINE_OPTIONS
from tests.support.servers import ATTENTIVE, GatewayProcess

pytestmark = pytest.mark.server

BOUND = 200

HARD_BOUND = 5_000

PATIENCE_S = 90.0
"""How long upkeep may take to look at a table."""

SEVERAL_VISITS_S = max(REST_S + 1.0, 4 * VISIT_S)
"""How long nothing must happen to say that nothing will."""

Row = tuple[object, ...]


@pytest.fixture(scope="module")
def small_bounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway whose tables are large when they have more than ``BOUND`` rows."""
    bounds = [f"--resident-rows={BOUND}", f"--resident-hard-rows={HARD_BOUND}"]
    options = [*bounds, "--flush-age-s=1", "--flush-rows=300"]
    directory = tmp_path_factory.mktemp("residency")
    with GatewayProcess(directory, *MACHINE_OPTIONS, *options, module=ATTENTIVE) as process:
        yield process


class Client:
    """A connection that says what tables are."""

    def __init__(self, connection: psycopg.Connection) -> None:
        """Talk through this connection."""
        self._connection = connection

    @property
    def connection(self) -> psycopg.Connection:
        """The connection itself."""
        return self._connection

    def run(self, statement: str, *, prepare: bool | None = None) -> list[Row]:
        """Run a statement and return its rows."""
        cursor = self._connection.execute(statement, prepare=prepare)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []

    def copy(self, table: str, rows: int) -> None:
        """Copy rows into a table of two integer columns."""
        with self._connection.cursor() as cursor:
            statement = sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))
            with cursor.copy(statement) as copy:
                for number in range(rows):
                    copy.write_row((number, 1))

    def state(self, table: str) -> Row:
        """Return residency, what was asked for, and what pins the table."""
        query = "SELECT residency, asked, pinned_by FROM gateway.tables WHERE table_name = %s"
        (found,) = self._connection.execute(query, [table]).fetchall()
        return found

    def becomes(self, table: str, residency: str) -> bool:
        """Wait until a table is resident, or tiered."""
        deadline = time.monotonic() + PATIENCE_S
        while self.state(table)[0] != residency:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def is_lawful(self, table: str) -> bool:
        """Return whether a table holds what its journal says."""
        query = sql.SQL("SELECT gateway.check({})").format(sql.Literal(table))
        return self._connection.execute(query).fetchone() == (0,)


def connected(process: GatewayProcess) -> psycopg.Connection:
    return psycopg.connect(process.address.conninfo(), autocommit=True)


@pytest.fixture
def client(small_bounds: GatewayProcess) -> Iterator[Client]:
    """A client; its tables are gone afterwards."""
    with connected(small_bounds) as connection:
        yield Client(connection)
        for (name,) in connection.execute("SELECT table_name FROM gateway.tables").fetchall():
            drop = sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(sql.Identifier(name))
            connection.execute(drop)


@pytest.fixture
def other(small_bounds: GatewayProcess) -> Iterator[Client]:
    """A second client."""
    with connected(small_bounds) as connection:
        yield Client(connection)


LOADED = BOUND + 100

LOAD = f"INSERT INTO t SELECT g, 1 FROM generate_series(1, {LOADED}) g"

SUM = "SELECT sum(v) FROM t"


def make(client: Client, *, tiered: bool) -> None:
    """Make ``t`` with ``LOADED`` rows, each of which counts one."""
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    residency = "auto" if tiered else "always"
    client.run(f"ALTER TABLE t SET (gateway.residency = {residency})")
    client.run(LOAD)
    if tiered:
        assert client.becomes("t", "tiered")


def decision(client: Client) -> str:
    return str(client.run("SHOW gateway.last_decision")[0][0])


DOCUMENT = (
    "decode((SELECT string_agg(md5((g * 20000 + n)::text), '')"
    " FROM generate_series(1, 15000) n), 'hex')"
)
"""Of 240 kB that cannot be compressed, another one for each ``g``."""


def directory_of(process: GatewayProcess, client: Client, table: str) -> Path:
    """Return where the data files of a table are."""
    ((place,),) = client.run(
        "SELECT (SELECT oid FROM pg_database WHERE datname = current_database())"
        f" || '/' || '{table}'::regclass::oid"
    )
    return process.data_dir / "warehouse" / str(place)


def wait_for_flush(process: GatewayProcess, client: Client, table: str) -> Path:
    """Return the one segment that a table's tail has become."""
    deadline = time.monotonic() + PATIENCE_S
    directory = directory_of(process, client, table)
    while not (found := [*directory.glob("base-*"), *directory.glob("delta-*")]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (segment,) = found
    return segment


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_a_tail_of_many_bytes_is_written_in_pieces(
    small_bounds: GatewayProcess, client: Client, key: str
) -> None:
    client.run(f"CREATE TABLE t (id integer {key}, v bytea)")
    client.run(f"INSERT INTO t SELECT g, {DOCUMENT} FROM generate_series(1, 80) g")
    segment = wait_for_flush(small_bounds, client, "t")
    assert segment.name.startswith("base-")
    assert len(list(segment.glob("*.parquet"))) == 2
    assert client.run("SELECT count(*), sum(length(v)) FROM t_journal") == [(80, 80 * 240_000)]
    assert client.is_lawful("t")


@pytest.mark.parametrize(
    "change", ["UPDATE t SET id = id + 100 WHERE id = 3", "DELETE FROM t WHERE id = 3"]
)
def test_a_tail_of_rows_that_have_changed_is_no_base(
    small_bounds: GatewayProcess, client: Client, change: str
) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v bytea)")
    client.run("BEGIN")
    client.run(f"INSERT INTO t SELECT g, {DOCUMENT} FROM generate_series(1, 80) g")
    client.run(change)
    client.run("COMMIT")
    assert wait_for_flush(small_bounds, client, "t").name.startswith("delta-")
    assert client.is_lawful("t")


def test_a_tail_of_many_bytes_is_vacuumed(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v bytea)")
    client.run(f"INSERT INTO t SELECT g, {DOCUMENT} FROM generate_series(1, 40) g")
    client.run("VACUUM t")
    assert client.run("SELECT count(*), sum(length(v)) FROM t_journal") == [(40, 40 * 240_000)]


def test_what_has_gone_without_key_is_written_with_all_of_its_tail(
    small_bounds: GatewayProcess, client: Client
) -> None:
    client.run("CREATE TABLE t (id integer, v bytea)")
    client.run("BEGIN")
    client.run(f"INSERT INTO t SELECT g, {DOCUMENT} FROM generate_series(1, 40) g")
    client.run("DELETE FROM t WHERE id > 30")
    client.run("COMMIT")
    wait_for_flush(small_bounds, client, "t")
    assert client.is_lawful("t")
    assert client.run("SELECT count(*) FROM t") == [(30,)]


# growing and shrinking ----------------------------------------------------------------------------


def test_a_table_that_was_too_large_to_be_resident_takes_rows_once_it_is_tiered(
    client: Client,
) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run(f"INSERT INTO t SELECT g, 1 FROM generate_series(1, {HARD_BOUND + 1}) g")
    assert client.becomes("t", "tiered")
    client.run("INSERT INTO t VALUES (0, 1)")
    client.run("INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1")
    assert client.run(SUM) == [(HARD_BOUND + 3,)]
    assert client.is_lawful("t")


def test_a_loaded_table_past_the_bound_becomes_tiered(client: Client) -> None:
    make(client, tiered=True)
    assert client.run("SELECT count(*), sum(v) FROM t") == [(LOADED, LOADED)]
    assert decision(client) == "spark: tiered tables"


def test_a_table_within_the_bound_stays_resident(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run(f"INSERT INTO t SELECT g, 1 FROM generate_series(1, {BOUND}) g")
    time.sleep(SEVERAL_VISITS_S)
    assert client.state("t") == ("resident", "auto", None)
    assert client.run(SUM) == [(BOUND,)]
    assert decision(client) == "postgres: resident tables only"


def test_small_writes_keep_a_large_table_resident(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    with client.connection.transaction():
        client.run("INSERT INTO t VALUES (0, 0)")
        client.run(LOAD)
        for number in range(3):
            client.run(f"UPDATE t SET v = v + 0 WHERE id = {number}")
    deadline = time.monotonic() + SEVERAL_VISITS_S
    number = 0
    while time.monotonic() < deadline:
        number += 1
        client.run(f"UPDATE t SET v = v + 0 WHERE id = {1 + number % LOADED}")
        if number > 2:
            time.sleep(0.02)
    assert client.state("t") == ("resident", "auto", None)
    assert client.becomes("t", "tiered")
    assert client.run(SUM) == [(LOADED,)]


def test_a_tiered_table_within_half_of_the_bound_becomes_resident(client: Client) -> None:
    make(client, tiered=True)
    client.run("DELETE FROM t WHERE id > 100")
    client.run("VACUUM t")
    assert client.becomes("t", "resident")
    assert client.run(SUM) == [(100,)]
    assert client.is_lawful("t")


def test_a_tiered_table_between_half_of_the_bound_and_the_bound_stays_tiered(
    client: Client,
) -> None:
    make(client, tiered=True)
    client.run("DELETE FROM t WHERE id > 150")
    client.run("VACUUM t")
    time.sleep(SEVERAL_VISITS_S)
    assert client.state("t")[0] == "tiered"
    assert client.run(SUM) == [(150,)]


def test_a_truncated_table_becomes_resident(client: Client) -> None:
    make(client, tiered=True)
    client.run("TRUNCATE t")
    assert client.becomes("t", "resident")
    assert client.run("SELECT count(*) FROM t") == [(0,)]
    assert client.is_lawful("t")


def test_the_journal_of_a_truncated_table_has_all_versions(client: Client) -> None:
    make(client, tiered=True)
    client.run("UPDATE t SET v = 2 WHERE id <= 10")
    client.run("TRUNCATE t")
    count = (
        "SELECT count(*), count(subsequent_version_number),"
        " count(*) FILTER (WHERE v = 2) FROM t_journal"
    )
    versions = [(2 * LOADED + 10, LOADED, 20)]
    assert client.run(count) == versions
    assert client.becomes("t", "resident")
    assert client.run(count) == versions
    client.run("INSERT INTO t VALUES (1, 3)")
    assert client.run("SELECT v FROM t_journal WHERE id = 1 ORDER BY version_number DESC") == [
        (3,),
        (2,),
        (2,),
        (1,),
    ]
    assert client.is_lawful("t")


def test_writers_that_wait_for_a_truncation_do_not_deadlock(client: Client, other: Client) -> None:
    make(client, tiered=True)
    client.run("BEGIN")
    client.run("TRUNCATE t")
    waiting = threading.Thread(target=other.run, args=["INSERT INTO t VALUES (1, 7)"])
    waiting.start()
    time.sleep(1.0)
    client.run("TRUNCATE t")
    client.run("COMMIT")
    waiting.join(PATIENCE_S)
    assert client.run("SELECT id, v FROM t") == [(1, 7)]


def test_equal_rows_without_key_are_as_many_afterwards(client: Client) -> None:
    client.run("CREATE TABLE t (id integer, v integer)")
    client.run("INSERT INTO t VALUES (7, 1)")  # so that it stays resident for the rest
    client.run(f"INSERT INTO t SELECT 7, 1 FROM generate_series(2, {LOADED})")
    client.run("DELETE FROM t WHERE ctid IN (SELECT ctid FROM t LIMIT 10)")
    assert client.becomes("t", "tiered")
    assert client.run(SUM) == [(LOADED - 10,)]
    client.run("ALTER TABLE t SET (gateway.residency = always)")
    assert client.becomes("t", "resident")
    assert client.run(SUM) == [(LOADED - 10,)]
    assert client.is_lawful("t")


# what owners ask for ------------------------------------------------------------------------------


def test_rows_without_key_changed_while_tiered_are_as_many_when_resident(client: Client) -> None:
    client.run("CREATE TABLE coins (worth int, side text)")
    client.run("ALTER TABLE coins SET (gateway.residency = never)")
    client.run("INSERT INTO coins SELECT 1, 'head' FROM generate_series(1, 9)")
    assert client.becomes("coins", "tiered")
    client.run("UPDATE coins SET side = 'tail'")
    client.run("INSERT INTO coins VALUES (1, 'new'), (2, 'gone')")
    client.run("DELETE FROM coins WHERE worth = 2")
    client.run("ALTER TABLE coins SET (gateway.residency = always)")
    assert client.becomes("coins", "resident")
    client.run("UPDATE coins SET side = 'edge' WHERE side = 'new'")
    client.run("VACUUM coins")
    assert client.is_lawful("coins")
    client.run("ALTER TABLE coins SET (gateway.residency = never)")
    assert client.becomes("coins", "tiered")
    counts = client.run("SELECT side, count(*) FROM coins GROUP BY side ORDER BY side")
    assert counts == [("edge", 1), ("tail", 9)]


def test_residency_never(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run("INSERT INTO t VALUES (1, 1)")
    client.run("ALTER TABLE t SET (gateway.residency = never)")
    assert client.becomes("t", "tiered")
    assert client.run(SUM) == [(1,)]


def test_a_table_that_nobody_writes_is_what_its_owner_asks_for(client: Client) -> None:
    """Its rows have been counted, as its file is large, and are not counted again."""
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer, filling text)")
    client.run(f"INSERT INTO t SELECT g, 1, repeat('x', 500) FROM generate_series(1, {BOUND}) g")
    client.run("SELECT pg_stat_force_next_flush()")
    time.sleep(SEVERAL_VISITS_S)
    client.run("ALTER TABLE t SET (gateway.residency = never)")
    assert client.becomes("t", "tiered")
    client.run("ALTER TABLE t SET (gateway.residency = always)")
    assert client.becomes("t", "resident")
    assert client.run(SUM) == [(BOUND,)]


def test_residency_always(client: Client) -> None:
    make(client, tiered=True)
    client.run("ALTER TABLE t SET (gateway.residency = always)")
    assert client.becomes("t", "resident")
    assert client.state("t") == ("resident", "always", "gateway.residency = always")
    assert client.run(SUM) == [(LOADED,)]
    assert client.is_lawful("t")


def test_residency_always_of_a_table_whose_rows_are_being_written(client: Client) -> None:
    make(client, tiered=True)
    write = "UPDATE t SET v = v + 1 WHERE id = 1"
    hot = "SELECT state = 'hot' FROM gateway.maintenance WHERE table_name = 't'"
    writes = 0
    while client.run(hot) != [(True,)]:
        client.run(write)
        writes += 1
    client.run("ALTER TABLE t SET (gateway.residency = always)")
    deadline = time.monotonic() + PATIENCE_S
    while client.state("t")[0] != "resident" and time.monotonic() < deadline:
        client.run(write)
        writes += 1
        time.sleep(0.05)
    assert client.state("t")[0] == "resident"
    assert client.run(SUM) == [(LOADED + writes,)]
    assert client.is_lawful("t")


PINS = {
    "unique": ("ALTER TABLE t ADD UNIQUE (v, id) DEFERRABLE", ""),
    "function": (
        "CREATE FUNCTION total() RETURNS bigint LANGUAGE sql AS 'SELECT sum(v) FROM t'",
        "DROP FUNCTION total()",
    ),
    "foreign key": ("CREATE TABLE child (id bigint REFERENCES t)", ""),
}


@pytest.mark.parametrize("pin", PINS)
def test_a_pin_keeps_a_large_table_resident(client: Client, pin: str) -> None:
    statement, undone = PINS[pin]
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run(statement)
    try:
        client.run(LOAD)
        time.sleep(SEVERAL_VISITS_S)
        residency, _, pinned_by = client.state("t")
        assert residency == "resident"
        assert pinned_by
    finally:
        if undone:
            client.run(undone)


def test_who_writes_to_a_large_pinned_table_is_told_once(client: Client) -> None:
    told: list[str | None] = []
    client.connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer, UNIQUE (v, id) DEFERRABLE)")
    client.run(LOAD)
    deadline = time.monotonic() + PATIENCE_S
    for number in itertools.count(LOADED + 10_000):
        client.run(f"INSERT INTO t VALUES ({number}, 0)")
        if told or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    _, _, pinned_by = client.state("t")
    stays = f'table "t" stays resident although it is large, up to {HARD_BOUND} rows: '
    assert told == [f"{stays}{pinned_by}"]
    for number in range(20):
        client.run(f"INSERT INTO t VALUES ({-number}, 0)")
        time.sleep(0.2)
    assert len(told) == 1
    assert client.is_lawful("t")


DDL_OF_LARGE_TABLES = {
    "unique": "ALTER TABLE t ADD UNIQUE (v, id) DEFERRABLE",
    "always": "ALTER TABLE t SET (gateway.residency = always)",
}


@pytest.mark.parametrize("statement", DDL_OF_LARGE_TABLES.values(), ids=DDL_OF_LARGE_TABLES)
@pytest.mark.parametrize("loaded", [False, True])
def test_who_pins_a_large_table_is_told(client: Client, statement: str, loaded: bool) -> None:
    told: list[str | None] = []
    client.connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
    with client.connection.transaction():  # upkeep cannot make it tiered before
        client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        client.run("INSERT INTO t VALUES (0, 1)")
        if loaded:
            client.run(LOAD)  # which finds rows, so that the table stays
        client.run(statement)
    stays = 'table "t" stays resident although it is large, up to '
    assert [message is not None and message.startswith(stays) for message in told] == [
        True
    ] * loaded


# loads --------------------------------------------------------------------------------------------


def test_a_large_copy_into_an_empty_table_goes_to_files(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.copy("t", LOADED)
    assert client.state("t")[0] == "tiered"
    assert client.run(SUM) == [(LOADED,)]


def test_a_small_copy_into_an_empty_table_does_not(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.copy("t", BOUND)
    assert client.state("t")[0] == "resident"
    assert client.run(SUM) == [(BOUND,)]


@pytest.mark.parametrize(("rows", "residency"), [(LOADED, "tiered"), (BOUND, "resident")])
@pytest.mark.parametrize(
    "load",
    [
        "INSERT INTO t SELECT id, v FROM large WHERE id < {}",
        "CREATE TABLE t AS SELECT id, v FROM large WHERE id < {}",
    ],
)
def test_many_rows_that_spark_computes_go_to_files(
    client: Client, load: str, rows: int, residency: str
) -> None:
    client.run("CREATE TABLE large (id integer PRIMARY KEY, v integer)")
    client.copy("large", LOADED)
    if load.startswith("INSERT"):
        client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer CHECK (v > 0))")
    client.run(load.format(rows))
    assert client.state("t")[0] == residency
    assert client.run(SUM) == [(rows,)]
    client.run("INSERT INTO t VALUES (-1, 1)")
    assert client.run(SUM) == [(rows + 1,)]


@pytest.mark.parametrize(("rows", "residency"), [(LOADED, "tiered"), (BOUND, "resident")])
@pytest.mark.parametrize(
    "load",
    [
        "INSERT INTO t SELECT g, 1 FROM generate_series(1, {}) g",
        "INSERT INTO t SELECT a.id * 20 + b.id, 1 FROM small a, small b LIMIT {}",
        "PREPARE p AS INSERT INTO t SELECT g, $1 FROM generate_series(1, $2) g; EXECUTE p (1, {})",
    ],
    ids=["series", "resident tables", "EXECUTE"],
)
def test_many_rows_that_postgresql_computes_go_to_files(
    client: Client, load: str, rows: int, residency: str
) -> None:
    client.run("CREATE TABLE small (id integer PRIMARY KEY)")
    client.run("INSERT INTO small SELECT g FROM generate_series(0, 19) g")
    client.run("ANALYZE small")
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer CHECK (v > 0))")
    for statement in load.format(rows).split(";"):
        client.run(statement)
    assert client.state("t")[0] == residency
    assert client.run(SUM) == [(rows,)]
    client.run("INSERT INTO t VALUES (-1, 1)")
    assert client.run(SUM) == [(rows + 1,)]
    assert client.is_lawful("t")


@pytest.mark.parametrize(
    ("rows", "residency"), [(BOUND // 2, "resident"), (LOADED, "tiered")], ids=["few", "many"]
)
@pytest.mark.parametrize("create", ["CREATE TABLE t AS SELECT", "SELECT INTO"])
def test_a_table_made_of_many_rows_that_postgresql_computes_is_made_of_files(
    client: Client, create: str, rows: int, residency: str
) -> None:
    query = f"g AS id, 1 AS v {{}} FROM generate_series(1, {rows}) g"
    if create == "SELECT INTO":
        client.run(f"SELECT {query.format('INTO t')}")
    else:
        client.run(f"{create} {query.format('')}")
    assert client.state("t")[0] == residency
    assert client.run(SUM) == [(rows,)]
    assert client.is_lawful("t")


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("TEMP", f"SELECT g AS id, 1 AS v FROM generate_series(1, {LOADED}) g"),
        ("", f"SELECT g AS id, 1 AS v FROM generate_series(1, {LOADED}) g WITH NO DATA"),
        (
            "",
            (
                "WITH noted AS (INSERT INTO other VALUES (0) RETURNING id)"
                f" SELECT g AS id, 1 AS v FROM noted, generate_series(1, {LOADED}) g"
            ),
        ),
        ("", f"SELECT g AS id, 1 AS v, 'infinity'::date AS d FROM generate_series(1, {LOADED}) g"),
    ],
    ids=["temporary", "without rows", "with changes", "not for files"],
)
def test_another_table_made_of_many_rows_is_made_in_postgresql(
    client: Client, kind: str, query: str
) -> None:
    client.run("CREATE TABLE other (id integer)")
    client.run(f"CREATE {kind} TABLE t AS {query}")
    assert client.run("SELECT coalesce(sum(v), 0) FROM t") == [
        (0 if query.endswith("NO DATA") else LOADED,)
    ]
    if kind:
        persistence = "SELECT relpersistence FROM pg_class WHERE oid = 't'::regclass"
        assert client.run(persistence) == [("t",)]
    else:
        assert client.state("t")[0] == "resident"


def test_a_large_insert_returns_its_rows(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    returned = client.run(f"{LOAD} RETURNING id, v")
    assert returned == [(number, 1) for number in range(1, LOADED + 1)]
    assert client.state("t")[0] == "tiered"


@pytest.mark.parametrize(
    "select", [f"SELECT g % {BOUND}, 1 FROM", f"SELECT g, 100 / (g - {BOUND}) FROM"]
)
def test_a_large_insert_that_fails_leaves_the_table_resident(client: Client, select: str) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    with pytest.raises((errors.UniqueViolation, errors.DivisionByZero)):
        client.run(f"INSERT INTO t {select} generate_series(1, {LOADED}) g")
    assert client.state("t")[0] == "resident"
    assert client.run(SUM) == [(None,)]
    client.run("INSERT INTO t VALUES (1, 1)")
    assert client.is_lawful("t")


def test_a_table_that_has_rows_stays_resident_for_a_large_insert(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run("BEGIN")
    client.run("INSERT INTO t VALUES (0, 0)")
    client.run(LOAD)
    assert client.state("t")[0] == "resident"
    client.run("COMMIT")
    assert client.run(SUM) == [(LOADED,)]


@pytest.mark.parametrize(
    ("setting", "insert"),
    [
        ("client_encoding = euc_kr", LOAD),
        ("gateway.executor = postgres", LOAD),
        ("default_transaction_isolation = 'repeatable read'", LOAD),
        ("client_encoding = utf8", f"{LOAD} RETURNING xmin IS NOT NULL"),
        (
            "client_encoding = utf8",
            f"{LOAD} WHERE NOT EXISTS (SELECT FROM t WHERE t.id = g) RETURNING t",
        ),
    ],
    ids=["encoding", "executor", "isolation", "row places", "its own rows"],
)
def test_what_is_for_resident_tables_alone_leaves_the_table_resident(
    client: Client, setting: str, insert: str
) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run(f"SET {setting}")
    client.run(insert)
    assert client.state("t")[0] == "resident"
    assert client.run(SUM) == [(LOADED,)]


@pytest.mark.parametrize("block", [False, True])
def test_rows_that_files_cannot_hold_leave_the_table_resident(client: Client, block: bool) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer, at timestamptz)")
    with client.connection.transaction() if block else nullcontext():
        client.run(LOAD.replace("g, 1", "g, 1, 'infinity'"))
        client.run("UPDATE t SET v = 2 WHERE id = 1")
    assert client.state("t")[0] == "resident"
    assert client.run(SUM) == [(LOADED + 1,)]
    assert client.is_lawful("t")


@pytest.mark.parametrize("prepare", [False, True])
def test_a_statement_that_has_inserted_nothing_goes_to_files_with_many_rows(
    client: Client, prepare: bool
) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    load = "INSERT INTO t SELECT g, 1 FROM generate_series(1, 0) g"
    for _ in range(3):
        client.run(load, prepare=prepare)
        assert client.state("t")[0] == "resident"
    time.sleep(OCCUPIED_S)
    client.run(load.replace("0", str(LOADED)), prepare=prepare)
    assert client.state("t")[0] == "tiered"
    assert client.run(SUM) == [(LOADED,)]


def test_a_table_of_which_an_owner_has_asked_it_stays_resident_for_a_large_insert(
    client: Client,
) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run("ALTER TABLE t SET (gateway.residency = always)")
    client.run(LOAD)
    assert client.state("t")[:2] == ("resident", "always")


def test_a_large_copy_that_is_rolled_back_leaves_the_table_resident(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run("BEGIN")
    client.copy("t", LOADED)
    client.run("ROLLBACK")
    assert client.state("t")[0] == "resident"
    client.run("INSERT INTO t VALUES (1, 1)")
    assert client.run(SUM) == [(1,)]
    assert client.is_lawful("t")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_large_copy_sees_rows_committed_after_its_snapshot(
    client: Client, other: Client, level: str
) -> None:
    client.run("CREATE TABLE t (id integer, v integer)")
    client.run("CREATE TABLE looked_at (id integer)")
    client.run(f"BEGIN ISOLATION LEVEL {level}")
    client.run("SELECT * FROM looked_at")
    other.run("INSERT INTO t VALUES (-1, 1)")
    client.copy("t", LOADED)
    client.run("COMMIT")
    assert client.state("t")[0] == "resident"
    assert client.run(SUM) == [(LOADED + 1,)]
    assert client.is_lawful("t")


# code that PostgreSQL alone would run -------------------------------------------------------------


REFUSED = {
    "function": "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT sum(v) FROM t'",
    "function of dynamic SQL": (
        "CREATE FUNCTION f(name text) RETURNS void LANGUAGE plpgsql AS"
        " 'BEGIN EXECUTE ''DELETE FROM '' || name; END'"
    ),
    "DO": "DO 'BEGIN DELETE FROM t; END'",
    "materialized view": "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
    "foreign key": "CREATE TABLE child (id bigint REFERENCES t)",
}


@pytest.mark.parametrize("code", REFUSED)
def test_code_that_reaches_a_tiered_table_is_refused(client: Client, code: str) -> None:
    make(client, tiered=True)
    with pytest.raises(errors.FeatureNotSupported):
        client.run(REFUSED[code])
    assert client.run(SUM) == [(LOADED,)]


def test_code_being_made_keeps_its_table_resident(client: Client, other: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    other.run("BEGIN")
    other.run("CREATE FUNCTION total() RETURNS bigint LANGUAGE sql AS 'SELECT sum(v) FROM t'")
    client.copy("t", LOADED)
    other.run("COMMIT")
    try:
        assert client.run("SELECT total()") == [(LOADED,)]
    finally:
        client.run("DROP FUNCTION total()")


# statements and transactions that were there before -----------------------------------------------


def become(client: Client, residency: str) -> None:
    asked = "always" if residency == "resident" else "never"
    client.run(f"ALTER TABLE t SET (gateway.residency = {asked})")
    assert client.becomes("t", residency)


def test_prepared_statements_outlive_changes_of_residency(client: Client, other: Client) -> None:
    make(client, tiered=False)
    for residency in ("tiered", "resident"):
        for _ in range(3):
            assert other.run(SUM, prepare=True) == [(LOADED,)]
        become(client, residency)
        assert other.run(SUM, prepare=True) == [(LOADED,)]
        other.run("UPDATE t SET v = v + 0 WHERE id < 3", prepare=True)
        assert other.run(SUM, prepare=True) == [(LOADED,)]
    assert client.is_lawful("t")


def test_execute_outlives_changes_of_residency(client: Client, other: Client) -> None:
    make(client, tiered=False)
    other.run(f"PREPARE total AS {SUM}")
    other.run("PREPARE changed (integer) AS UPDATE t SET v = v + 1 WHERE id = $1")
    for number, residency in enumerate(("tiered", "resident")):
        assert other.run("EXECUTE total") == [(LOADED + number,)]
        become(client, residency)
        assert other.run("EXECUTE total") == [(LOADED + number,)]
        other.run("EXECUTE changed (7)")
    assert other.run("EXECUTE total") == [(LOADED + 2,)]
    assert client.is_lawful("t")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_snapshots_outlive_changes_of_residency(client: Client, other: Client, level: str) -> None:
    make(client, tiered=False)
    for residency in ("tiered", "resident"):
        other.run(f"BEGIN ISOLATION LEVEL {level}")
        assert other.run(SUM) == [(LOADED,)]
        become(client, residency)
        assert other.run(SUM) == [(LOADED,)]
        with pytest.raises(errors.SerializationFailure):
            other.run("INSERT INTO t VALUES (1, 1)")
        other.run("ROLLBACK")


def test_a_cursor_outlives_its_table_becoming_tiered(client: Client, other: Client) -> None:
    make(client, tiered=False)
    other.run("BEGIN")
    other.run("DECLARE c CURSOR FOR SELECT v FROM t")
    assert len(other.run("FETCH 10 FROM c")) == 10
    become(client, "tiered")
    assert len(other.run("FETCH ALL FROM c")) == LOADED - 10
    other.run("COMMIT")


# journals -----------------------------------------------------------------------------------------


JOURNAL = "SELECT id, v, version_number FROM t_journal ORDER BY version_number, id, v"


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""], ids=["key", "no key"])
def test_a_flush_leaves_the_journal_as_it_was(
    small_bounds: GatewayProcess, client: Client, key: str
) -> None:
    seen = len(small_bounds.log)
    client.run(f"CREATE TABLE t (id integer {key}, v integer)")
    with client.connection.transaction():
        client.run("INSERT INTO t SELECT g, g FROM generate_series(1, 20) g")
        client.run("UPDATE t SET v = 0 WHERE id = 3")
        client.run("DELETE FROM t WHERE id = 4")
    before = client.run(JOURNAL)
    deadline = time.monotonic() + PATIENCE_S
    while not any('of "t"' in line for line in small_bounds.log[seen:]):
        assert time.monotonic() < deadline, "the tail was not flushed"
        time.sleep(0.2)
        # What an idle session has written is counted after ten seconds, or with a statement.
        client.run("SELECT 1")
    assert client.run(JOURNAL) == before
    assert client.is_lawful("t")


def test_vacuum_of_a_resident_table_keeps_its_rows_and_its_journal(client: Client) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run("INSERT INTO t SELECT g, 1 FROM generate_series(1, 20) g")
    for number in range(1, 8):
        client.run(f"UPDATE t SET v = v + 1 WHERE id = {number}")
    before = client.run(JOURNAL)
    client.run("VACUUM t")
    assert client.run(JOURNAL) == before
    assert client.run("SELECT count(*), sum(v) FROM t") == [(20, 27)]
    assert client.is_lawful("t")


@pytest.mark.parametrize("change", ["id TYPE bigint", "id TYPE numeric(12,2)", "v TYPE bigint"])
def test_rows_in_files_are_history_when_the_type_of_their_key_changes(
    client: Client, change: str
) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run("INSERT INTO t SELECT g, 1 FROM generate_series(1, 50) g")
    client.run("VACUUM t")
    client.run("UPDATE t SET v = 2 WHERE id <= 10")
    client.run(f"ALTER TABLE t ALTER {change}")
    assert client.is_lawful("t")
    client.run("VACUUM t")
    client.run("DELETE FROM t WHERE id > 40")
    assert client.is_lawful("t")
    client.run("ALTER TABLE t SET (gateway.residency = never)")
    assert client.becomes("t", "tiered")
    found = "SELECT count(*), sum(v), min(id)::int, max(id)::int FROM t"
    assert client.run(found) == [(40, 50, 1, 40)]
    client.run("UPDATE t SET v = 3 WHERE id = 5")
    client.run("VACUUM t")
    assert client.run(found) == [(40, 51, 1, 40)]


def test_check_of_a_tiered_table_has_nothing_to_compare(client: Client) -> None:
    make(client, tiered=True)
    assert client.run("SELECT gateway.check('t')") == [(0,)]


# one table and the others -------------------------------------------------------------------------


def directories(process: GatewayProcess) -> set[Path]:
    """Return the directories that have data files."""
    return {path.parent for path in data_files(process.data_dir / "warehouse")}


def test_upkeep_of_one_table_is_nothing_to_another(
    small_bounds: GatewayProcess, client: Client, other: Client
) -> None:
    """One table cannot be flushed at all, one is being written by somebody who rests."""
    before = directories(small_bounds)
    client.run("CREATE TABLE broken (id integer, v integer)")
    client.run("INSERT INTO broken SELECT g, 1 FROM generate_series(1, 5) g")
    client.run("ALTER TABLE broken SET (gateway.residency = never)")
    assert client.becomes("broken", "tiered")
    (segment,) = directories(small_bounds) - before
    for name in ("written", "fine"):
        client.run(f"CREATE TABLE {name} (id integer, v integer)")
        client.run(f"ALTER TABLE {name} SET (gateway.residency = never)")
        assert client.becomes(name, "tiered")
    # Where its files belong there is a file.
    kept = segment.parent.rename(segment.parent.with_name("kept"))
    segment.parent.touch()
    other.run("BEGIN")
    other.run("INSERT INTO written VALUES (0, 0)")
    seen = len(small_bounds.log)
    try:
        for _ in range(4):
            for name in ("broken", "fine"):
                client.run(f"INSERT INTO {name} SELECT g, 1 FROM generate_series(1, 100) g")
        assert logged(small_bounds, seen, 'of "fine"')
        assert logged(small_bounds, seen, "upkeep of table")
        # It can be told to go while upkeep would have it.
        client.run("SET lock_timeout = '20s'")
        client.run("REINDEX TABLE fine")
        client.run("DROP TABLE fine")
    finally:
        segment.parent.unlink()
        kept.rename(segment.parent)
    other.run("COMMIT")
    assert logged(small_bounds, seen, 'of "broken"')
    assert client.run("SELECT count(*) FROM broken") == [(405,)]
    assert client.run("SELECT count(*) FROM written") == [(1,)]


def test_upkeep_that_failed_is_tried_again_though_nobody_writes(
    small_bounds: GatewayProcess, client: Client
) -> None:
    before = directories(small_bounds)
    client.run("CREATE TABLE t (id integer, v integer)")
    client.run("INSERT INTO t VALUES (1, 1)")
    assert wait_for_flush(small_bounds, client, "t")
    (segment,) = directories(small_bounds) - before
    # Where its files belong there is a file.
    kept = segment.parent.rename(segment.parent.with_name("kept"))
    segment.parent.touch()
    seen = len(small_bounds.log)
    try:
        client.run("INSERT INTO t VALUES (2, 1)")
        assert logged(small_bounds, seen, "upkeep of table")
        # Statistics tell of it sooner or later, which is a change to upkeep.
        time.sleep(SEVERAL_VISITS_S)
    finally:
        segment.parent.unlink()
        kept.rename(segment.parent)
    assert logged(small_bounds, seen, 'of "t"')


def test_a_table_that_cannot_become_resident_is_left_alone_for_some_time(
    small_bounds: GatewayProcess, client: Client
) -> None:
    client.run("CREATE TABLE t (id integer, v integer)")
    client.run("INSERT INTO t VALUES (1, 1)")
    client.run("ALTER TABLE t SET (gateway.residency = never)")
    assert client.becomes("t", "tiered")
    directory = directory_of(small_bounds, client, "t")
    seen, failed = len(small_bounds.log), f"table {directory.name} could not become resident"
    kept = directory.rename(small_bounds.data_dir / "kept")
    began = time.monotonic()
    try:
        client.run("ALTER TABLE t SET (gateway.residency = always)")
        assert logged(small_bounds, seen, failed)
        time.sleep(2 * SEVERAL_VISITS_S)
        times = sum(failed in line for line in small_bounds.log[seen:])
        assert times <= 1 + (time.monotonic() - began) // failures.PAUSE_S
    finally:
        kept.rename(directory)
    assert client.becomes("t", "resident")
    assert client.run("SELECT * FROM t") == [(1, 1)]


WRITES = (
    "UPDATE t SET v = v + 1 WHERE id = 2",
    "UPDATE t SET v = v + 1",
    "INSERT INTO t VALUES (100000, 1)",
    "DELETE FROM t WHERE id = 3",
)


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("has_written", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_a_block_with_a_savepoint_writes_tables_that_have_become_tiered(
    write: str,
    has_written: bool,
    prepare: bool,
    client: Client,
    other: Client,
) -> None:
    client.run("CREATE TABLE u (id integer PRIMARY KEY)")
    make(client, tiered=False)
    for _ in range(3):  # how it is run is known
        client.run("BEGIN")
        client.run("SAVEPOINT s")
        expected = changed(client, write, prepare=prepare)
        client.run("ROLLBACK")
    client.run("BEGIN")
    if has_written:
        client.run("INSERT INTO u VALUES (1)")
    client.run("SAVEPOINT s")
    other.run("ALTER TABLE t SET (gateway.residency = never)")
    assert other.becomes("t", "tiered")
    assert changed(client, write, prepare=prepare) == expected
    client.run("COMMIT")
    assert client.run("SELECT count(*) FROM u") == [(int(has_written),)]
    assert client.is_lawful("t")


def changed(client: Client, statement: str, *, prepare: bool) -> int:
    """Return how many rows a statement has changed."""
    return client.connection.execute(statement, prepare=prepare).rowcount  # type: ignore[call-overload]


def test_vacuum_that_waits_for_upkeep_can_be_cancelled(
    small_bounds: GatewayProcess, client: Client
) -> None:
    client.run("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
    client.run("INSERT INTO t SELECT g, 1 FROM generate_series(1, 20) g")
    pid_file = small_bounds.data_dir / "catalog" / "postmaster.pid"
    socket = pid_file.read_text(encoding="utf-8").splitlines()[4]
    # The thread that looks after tables does not wait as long.
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = 'pgwire_gateway' AND wait_event_type = 'Lock'"
        " AND clock_timestamp() - query_start > interval '2 s'"
    )
    login = {"host": socket, "user": SUPERUSER, "dbname": "postgres"}
    with (
        psycopg.connect(**login) as upkeep,
        psycopg.connect(**login, autocommit=True) as observer,
        ThreadPoolExecutor(1) as thread,
    ):
        upkeep.execute("SELECT FROM pg_journal.journals WHERE relid = 't'::regclass FOR UPDATE")
        vacuum = thread.submit(client.run, "VACUUM t")
        try:
            deadline = time.monotonic() + PATIENCE_S
            while observer.execute(waiting).fetchone() == (0,):
                assert time.monotonic() < deadline, "VACUUM does not wait"
                time.sleep(0.05)
            client.connection.cancel_safe()
            assert isinstance(vacuum.exception(PATIENCE_S / 3), errors.QueryCanceled)
        finally:
            upkeep.rollback()
    client.run("VACUUM t")
    assert client.is_lawful("t")


def logged(process: GatewayProcess, since: int, text: str) -> bool:
    """Wait until something has been logged since a line."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(text in line for line in process.log[since:]):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
