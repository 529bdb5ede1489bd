"""Tiered tables are compacted, and files that nobody reads are removed, without VACUUM."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from catalog.server.embedded import SUPERUSER
from pgwire_gateway.upkeep.cold_tables import MOST_SEGMENTS
from tests.support.autovacuum import PAUSE_S
from tests.support.data_files import data_files
from tests.support.fix_server import SPARK_OPTIONS
from tests.support.servers import GatewayProcess

pytestmark = pytest.mark.server

Files = Callable[[str], int]

THRESHOLD = 3_000
ROWS = 10_000

PATIENCE_S = 90.0
"""How long upkeep may take."""

SEVERAL_VISITS_S = 5.0
"""How long nothing must happen to say that nothing will."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway whose tiered tables are compacted when 3,000 rows and a tenth have changed."""
    options = (
        "--inline-rows=100",
        "--thaw-rows=100",
        "--hot-age-s=1",
        f"--autovacuum-threshold={THRESHOLD}",
        "--autovacuum-scale-factor=0.1",
    )
    directory = tmp_path_factory.mktemp("autovacuum")
    with GatewayProcess(
        directory, *SPARK_OPTIONS, *options, module="tests.support.autovacuum"
    ) as process:
        yield process


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[psycopg.Connection]:
    """A client with a loaded table ``t``."""
    with psycopg.connect(gateway.address.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        load(connection, 1, ROWS)
        yield connection
        connection.execute("DROP TABLE t")


def load(client: psycopg.Connection, first: int, last: int) -> None:
    rows = sql.SQL("INSERT INTO t SELECT g, 0 FROM generate_series({}, {}) g")
    client.execute(rows.format(sql.Literal(first), sql.Literal(last)))


def update(client: psycopg.Connection, rows: int, value: int) -> None:
    change = sql.SQL("UPDATE t SET v = {} WHERE id <= {}")
    client.execute(change.format(sql.Literal(value), sql.Literal(rows)))


@pytest.fixture
def files(gateway: GatewayProcess) -> Iterator[Files]:
    """Tells how many segments of a kind ``t`` has."""
    host = str((gateway.data_dir / "socket").resolve())
    conninfo = psycopg.conninfo.make_conninfo(
        host=host, port=5432, user=SUPERUSER, dbname="postgres"
    )
    query = (
        "SELECT count(*) FROM pg_journal.segments"
        " WHERE relid = 't'::regclass AND kind = %s AND retired_at IS NULL"
    )
    with psycopg.connect(conninfo, autocommit=True) as catalog:

        def count(kind: str) -> int:
            ((found,),) = catalog.execute(query, [kind]).fetchall()
            return int(found)

        yield count


def await_that(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.2)


def sums(client: psycopg.Connection) -> tuple[object, ...]:
    (found,) = client.execute("SELECT count(*), sum(v) FROM t").fetchall()
    return found


def test_a_table_of_which_much_has_changed_is_compacted(
    client: psycopg.Connection, files: Files
) -> None:
    assert (files("base"), files("delta")) == (1, 0)
    update(client, 2_000, 1)
    update(client, 1_500, 1)
    time.sleep(SEVERAL_VISITS_S)
    assert files("delta") == 2
    update(client, 1_000, 2)
    await_that(lambda: files("delta") == 0)
    assert (files("base"), files("archive")) == (1, 1)
    assert sums(client) == (ROWS, 3_000)
    versions = client.execute("SELECT count(*) FROM t_journal").fetchone()
    assert versions == (ROWS + 4_500,)
    assert client.execute("SELECT gateway.check('t')").fetchone() == (0,)


def test_what_is_in_the_tail_goes_along(client: psycopg.Connection, files: Files) -> None:
    client.execute("ALTER TABLE t SET (autovacuum_enabled = off)")
    update(client, 4_500, 1)
    client.execute("INSERT INTO t VALUES (0, 7)")
    client.execute("DELETE FROM t WHERE id = 1")
    time.sleep(SEVERAL_VISITS_S)
    assert files("delta") >= 1
    client.execute("ALTER TABLE t RESET (autovacuum_enabled)")
    await_that(lambda: files("delta") == 0)
    assert sums(client) == (ROWS, 4_499 + 7)
    assert client.execute("SELECT gateway.check('t')").fetchone() == (0,)


def test_the_storage_parameters_of_a_table_go_first(
    client: psycopg.Connection, files: Files
) -> None:
    client.execute(
        "ALTER TABLE t SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0)"
    )
    update(client, 400, 1)
    time.sleep(SEVERAL_VISITS_S)
    assert files("delta") == 1
    update(client, 200, 2)
    await_that(lambda: files("delta") == 0)
    assert sums(client) == (ROWS, 600)


def test_many_small_loads_are_joined(client: psycopg.Connection, files: Files) -> None:
    client.execute("ALTER TABLE t SET (autovacuum_enabled = off)")
    for number in range(MOST_SEGMENTS + 1):
        load(client, ROWS + 1 + number * 200, ROWS + (number + 1) * 200)
    assert files("base") == MOST_SEGMENTS + 2
    client.execute("ALTER TABLE t RESET (autovacuum_enabled)")
    await_that(lambda: files("base") < MOST_SEGMENTS)
    assert sums(client) == (ROWS + (MOST_SEGMENTS + 1) * 200, 0)


def test_many_small_changes_are_joined(client: psycopg.Connection, files: Files) -> None:
    client.execute("ALTER TABLE t SET (autovacuum_vacuum_threshold = 100000)")
    for number in range(MOST_SEGMENTS + 1):
        update(client, 120, number)
    await_that(lambda: files("delta") == 1)
    assert files("base") == 1
    assert sums(client) == (ROWS, 120 * MOST_SEGMENTS)
    assert client.execute("SELECT count(*) FROM t_journal").fetchone() == (
        ROWS + 120 * (MOST_SEGMENTS + 1),
    )


@pytest.mark.parametrize("written", ["1e3", "1000.4", "0x3E8"])
def test_storage_parameters_may_be_written_as_postgresql_reads_them(
    client: psycopg.Connection, files: Files, written: str
) -> None:
    parameters = "autovacuum_vacuum_threshold = {}, autovacuum_vacuum_scale_factor = 0"
    client.execute(
        sql.SQL("ALTER TABLE t SET (" + parameters + ")").format(sql.Literal(written))  # type: ignore[arg-type]
    )
    update(client, 900, 1)
    time.sleep(SEVERAL_VISITS_S)
    assert files("delta") == 1
    update(client, 200, 2)
    await_that(lambda: files("delta") == 0)


def test_at_most_so_many_rows_change(client: psycopg.Connection, files: Files) -> None:
    client.execute("ALTER TABLE t SET (autovacuum_vacuum_max_threshold = 500)")
    update(client, 600, 1)
    await_that(lambda: files("delta") == 0)


def test_writers_meanwhile_lose_nothing(client: psycopg.Connection, files: Files) -> None:
    client.execute(
        "ALTER TABLE t SET (autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0)"
    )
    for number in range(1, 21):
        update(client, 150, number)
        client.execute("UPDATE t SET v = v + 1 WHERE id = %s", [ROWS - number])
    await_that(lambda: files("delta") == 0)
    assert sums(client) == (ROWS, 150 * 20 + 20)
    assert client.execute("SELECT gateway.check('t')").fetchone() == (0,)


def test_files_that_nobody_reads_go(
    gateway: GatewayProcess, client: psycopg.Connection, files: Files
) -> None:
    def bases() -> set[Path]:
        stored = data_files(gateway.data_dir / "warehouse")
        return {path for path in stored if path.parent.name.startswith("base-")}

    former = bases()
    assert former
    update(client, 5_000, 1)
    await_that(lambda: files("delta") == 0)
    with psycopg.connect(gateway.address.conninfo()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert sums(reader) == (ROWS, 5_000)
        await_that(lambda: not former & bases())
        shown = bases()
        update(client, 5_000, 2)
        await_that(lambda: files("delta") == 0)
        time.sleep(3 * PAUSE_S)
        assert shown < bases()
        assert sums(reader) == (ROWS, 5_000)
    await_that(lambda: not shown & bases())
    assert sums(client) == (ROWS, 10_000)
