"""Small results are computed without a job, where that is the same, and can be stopped."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.clientserver import ClientServerConnection

from catalog.errors import GatewayError
from pgwire_gateway.spark import batch_stores
from pgwire_gateway.spark.api import Delivery, Reading, Rows, Session
from pgwire_gateway.spark.engine import SessionKind, SparkEngine
from pgwire_gateway.spark.executor import failures
from pgwire_gateway.spark.internals import driver_tasks, row_batches, task_contexts
from pgwire_gateway.spark.internals.driver import JvmDriver
from pgwire_gateway.spark.internals.task_contexts import single
from pgwire_gateway.spark.statements import RunningStatement
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.spark

SMALL = Delivery(100, is_small=True)
ONE = "(SELECT /*+ COALESCE(1) */ id, id % 3 AS k FROM range(0, 1000, 1, 1))"
"""Rows of which Spark knows that they are in one part."""
ENDLESS = "SELECT id FROM range(0, 1000000000000000, 1, 1) WHERE id < 0"
"""Takes days, in one part."""


@pytest.fixture
def engine(spark_engine: SparkEngine) -> SparkEngine:
    return spark_engine


@pytest.fixture
def driver(engine: SparkEngine) -> JvmDriver:
    driver = engine.driver
    assert isinstance(driver, JvmDriver)
    return driver


class Query:
    """One statement in the session for small ones."""

    def __init__(self, engine: SparkEngine, session: Session | None = None) -> None:
        self.engine = engine
        self.session = session or engine.sessions().small
        self.statement = RunningStatement()
        self.group = self.statement.begin(self.session.driver)

    def batches(self, sql: str, delivery: Delivery) -> Rows:
        """Return its rows as they come."""
        with failures(self.engine, self.session.driver, self.statement):
            self.session.enter(self.group)
            rows = self.session.query(sql).rows(delivery, check=self.statement.check)
        self.statement.end(self.group)
        return rows

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return its rows."""
        rows = self.batches(sql, SMALL)
        return [tuple(row.values()) for batch in rows for row in batch.to_pylist()]

    def jobs(self) -> int:
        """Return how many jobs it took."""
        driver = self.session.driver
        assert isinstance(driver, JvmDriver)
        return len(driver.machine.context.statusTracker().getJobIdsForGroup(self.group))


@pytest.fixture
def query(engine: SparkEngine) -> Query:
    return Query(engine)


@pytest.fixture
def begun(engine: SparkEngine) -> Iterator[Callable[[], tuple[Query, threading.Thread, list]]]:
    """Begin queries that have no end; all of them are stopped afterwards."""
    started = []

    def begin() -> tuple[Query, threading.Thread, list[Exception]]:
        query, caught = Query(engine), []

        def run() -> None:
            try:
                query.rows(ENDLESS)
            except GatewayError as error:
                caught.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        started.append((query, thread))
        return query, thread, caught

    yield begin
    for query, thread in started:
        query.statement.cancel()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert wait_until(lambda: busy(engine.driver) == 0)


def busy(driver: JvmDriver) -> int:
    return driver.machine.tasks.busy


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id FROM range(0, 3, 1, 1) WHERE id > 0", [(1,), (2,)]),
        (f"SELECT id FROM {ONE} ORDER BY id DESC LIMIT 2", [(999,), (998,)]),
        (f"SELECT k, count(*) FROM {ONE} GROUP BY k ORDER BY k", [(0, 334), (1, 333), (2, 333)]),
        (f"SELECT count(*) FROM {ONE} a JOIN {ONE} b USING (id)", [(1000,)]),
        (f"SELECT row_number() OVER (ORDER BY id DESC) FROM {ONE} WHERE id < 2", [(1,), (2,)]),
        (f"SELECT id FROM {ONE} WHERE id < 0", []),
    ],
)
def test_one_part_takes_no_job(query: Query, sql: str, rows: list[tuple[object, ...]]):
    assert query.rows(sql) == rows
    assert query.jobs() == 0


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) FROM range(0, 1000, 1, 3)", [(1000,)]),
        ("SELECT DISTINCT id % 3 AS k FROM range(0, 1000, 1, 3) ORDER BY k", [(0,), (1,), (2,)]),
        (f"SELECT count(*) FROM {ONE} a JOIN range(0, 5, 1, 2) b USING (id)", [(5,)]),
    ],
)
def test_what_comes_through_an_exchange_takes_a_job(query: Query, sql: str, rows: list):
    assert query.rows(sql) == rows
    assert query.jobs() > 0


def test_files_are_read(query: Query, tmp_path: Path):
    pq.write_table(pa.table({"i": range(10_000)}), tmp_path / "a.parquet")
    place = f"parquet.`file://{tmp_path}/a.parquet`"
    assert query.rows(f"SELECT i FROM {place} WHERE i = 7777") == [(7777,)]
    assert query.jobs() == 1, "a job finds out which columns there are"
    found = query.rows(f"SELECT /*+ COALESCE(1) */ i FROM {place} ORDER BY i DESC LIMIT 1")
    assert found == [(9999,)]


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message"),
    [
        ("SELECT 1 / id FROM range(0, 1, 1, 1)", "22012", "division by zero"),
        (
            """SELECT raise_error('{"sqlstate": "22008", "message": "none"}')
               FROM range(0, 2, 1, 1)""",
            "22008",
            "none",
        ),
        (f"SELECT CAST(id + 70000 AS SMALLINT) FROM {ONE} ORDER BY id", "22003", None),
    ],
)
def test_failures_are_those_of_jobs(engine: SparkEngine, sql: str, sqlstate: str, message):
    query = Query(engine)
    with pytest.raises(GatewayError) as caught:
        query.rows(sql)
    assert caught.value.sqlstate == sqlstate
    assert message is None or caught.value.message == message
    assert query.jobs() == 0
    # The thread that has failed goes on.
    again = Query(engine)
    assert again.rows("SELECT 1 AS o") == [(1,)]
    assert again.jobs() == 0


def test_settings_are_those_of_the_session(engine: SparkEngine):
    query = Query(engine)
    with pytest.raises(GatewayError):
        query.rows("SELECT CAST(concat('x', id) AS INT) FROM range(0, 1, 1, 1)")
    lenient = engine.driver.session(SessionKind.SMALL, **{"spark.sql.ansi.enabled": "false"})
    query = Query(engine, lenient)
    assert query.rows("SELECT CAST(concat('x', id) AS INT) FROM range(0, 1, 1, 1)") == [(None,)]
    assert query.jobs() == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM range(0, 1000, 1, 1)",
        f"SELECT id FROM {ONE} ORDER BY id % 7, id",
        f"SELECT explode(array(id, k)) FROM {ONE} ORDER BY 1",
        f"SELECT id, sum(id) OVER (PARTITION BY k ORDER BY id) FROM {ONE} ORDER BY id",
        f"SELECT /*+ MERGE(b) */ a.id, b.k FROM {ONE} a JOIN {ONE} b ON a.id = b.id * 2 ORDER BY 1",
        f"SELECT k, sort_array(collect_list(id)) FROM {ONE} GROUP BY k ORDER BY k",
    ],
)
def test_larger_results_are_in_a_file(
    engine: SparkEngine, driver: JvmDriver, monkeypatch: pytest.MonkeyPatch, sql: str
):
    expected = Query(engine).rows(sql)
    monkeypatch.setattr(batch_stores, "MOST_BYTES", 1000)
    monkeypatch.setattr(row_batches, "MOST_BYTES", 400)
    query = Query(engine)
    assert query.rows(sql) == expected
    assert query.jobs() == 0
    assert allocated(driver) == 0


def allocated(driver: JvmDriver) -> int:
    """Return how much batches take up that have not been given up."""
    utils = single(driver.machine.jvm.org.apache.spark.sql.util, "ArrowUtils")
    return int(utils.rootAllocator().getAllocatedMemory())


WIDTH = 45_000
WIDE = f"repeat(chr(CAST(97 + id % 26 AS INT)), {WIDTH})"
"""A value far larger than what it is made of."""


@pytest.mark.parametrize(
    ("sql", "jobs"),
    [
        (f"SELECT id, {WIDE} AS v FROM range(0, 500, 1, 1)", 0),
        (f"SELECT id, {WIDE} AS v FROM (SELECT id FROM {ONE} ORDER BY id LIMIT 500)", 0),
        (f"SELECT id, {WIDE} AS v FROM range(0, 500, 1, 3)", 1),
        (f"SELECT id, {WIDE} AS v FROM range(0, 500, 1, 3) ORDER BY id", 1),
    ],
)
def test_wide_rows_come_in_batches_of_bounded_size(
    engine: SparkEngine, driver: JvmDriver, sql: str, jobs: int
):
    query = Query(engine)
    rows = query.batches(sql, Delivery(50_000, is_small=True))
    seen, sizes = 0, []
    for batch in rows:
        sizes.append(batch.nbytes)
        assert batch["id"].to_pylist() == list(range(seen, seen + batch.num_rows))
        for number, value in zip(batch["id"].to_pylist(), batch["v"].to_pylist(), strict=True):
            assert value == chr(97 + number % 26) * WIDTH
        seen += batch.num_rows
    assert seen == 500
    assert max(sizes) < row_batches.MOST_BYTES + 2 * WIDTH
    assert len(sizes) >= 500 * WIDTH // (row_batches.MOST_BYTES + WIDTH)
    assert query.jobs() == jobs
    assert allocated(driver) == 0


def test_a_batch_has_one_row_at_least(query: Query):
    width = 2 * row_batches.MOST_BYTES
    sql = f"SELECT id, repeat('x', {width}) AS v FROM range(0, 3, 1, 1)"
    batches = list(query.batches(sql, SMALL))
    assert [batch.num_rows for batch in batches] == [1, 1, 1]
    assert {value for batch in batches for value in batch["v"].to_pylist()} == {"x" * width}


def test_bytes_of_the_jvm_are_what_they_were(driver: JvmDriver):
    expected = bytes(range(256)) * 5
    found = driver.machine.jvm.java.nio.ByteBuffer.wrap(expected).array()
    assert type(found) is bytes
    assert found == expected


def test_a_cancelled_statement_ends(driver: JvmDriver, begun, query: Query):
    endless, thread, caught = begun()
    assert wait_until(lambda: busy(driver) == 1)
    assert endless.jobs() == 0
    endless.statement.cancel()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [error.sqlstate for error in caught] == ["57014"]
    # What computed it ends, too, and is there for others.
    assert wait_until(lambda: busy(driver) == 0)
    assert query.rows("SELECT 1 AS o") == [(1,)]
    assert query.jobs() == 0


def test_without_the_internals_jobs_do_it(
    engine: SparkEngine, driver: JvmDriver, monkeypatch: pytest.MonkeyPatch, caplog
):
    machine = driver.machine
    unable = driver_tasks.DriverTasks(machine.process, machine.context, 1)
    monkeypatch.setattr(task_contexts, "_ENVIRONMENT", "org.apache.spark.Nothing")
    monkeypatch.setattr(machine, "tasks", unable)
    for _ in range(2):
        query = Query(engine)
        assert query.rows("SELECT id FROM range(0, 2, 1, 1)") == [(0,), (1,)]
        assert query.jobs() == 1
    assert [record.getMessage() for record in caplog.records] == [
        "small results are computed by jobs"
    ]


def test_others_are_not_cancelled(driver: JvmDriver, begun):
    first, first_thread, _ = begun()
    second, second_thread, _ = begun()
    assert wait_until(lambda: busy(driver) == 2)
    first.statement.cancel()
    first_thread.join(PATIENCE_S)
    assert not first_thread.is_alive()
    assert wait_until(lambda: busy(driver) == 1)
    assert second_thread.is_alive()
    assert second.jobs() == 0


def test_when_all_are_busy_a_job_does_it(driver: JvmDriver, begun, query: Query):
    for _ in range(driver.cores):
        begun()
    assert wait_until(lambda: busy(driver) == driver.cores)
    assert query.rows("SELECT id FROM range(0, 2, 1, 1)") == [(0,), (1,)]
    assert query.jobs() == 1


def test_scans_copy_no_defaults(engine: SparkEngine, driver: JvmDriver, tmp_path: Path):
    pq.write_table(pa.table({"i": range(10)}), tmp_path / "a.parquet")
    for session in (engine.sessions().small, engine.sessions().large):
        session.enter("scan")
        frame = session.read(Reading("parquet", (f"file://{tmp_path}/a.parquet",), ddl="i BIGINT"))
        assert frame.count() == 10
    assert driver.machine.context.hadoopConfiguration().size() < 50


def test_what_nobody_reads_is_forgotten(query: Query, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch_stores, "MOST_BYTES", 1000)
    rows = query.batches(f"SELECT id FROM {ONE} ORDER BY id", SMALL)
    assert next(iter(rows)).num_rows == 100
    rows.close()
    assert list(rows) == []


def test_a_result_whose_job_is_over_can_be_cancelled(
    engine: SparkEngine, query: Query, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(row_batches, "MOST_BYTES", 400)
    taken = []
    add = batch_stores.BatchStore.add

    def cancelling(store: batch_stores.BatchStore, batch: pa.RecordBatch) -> None:
        taken.append(batch.num_rows)
        query.statement.cancel()
        add(store, batch)

    monkeypatch.setattr(batch_stores.BatchStore, "add", cancelling)
    with pytest.raises(GatewayError) as caught:
        query.rows("SELECT id FROM range(0, 1000, 1, 3)")
    assert caught.value.sqlstate == "57014"
    assert len(taken) == 1


def test_a_query_looks_for_no_class(
    query: Query, driver: JvmDriver, monkeypatch: pytest.MonkeyPatch
):
    sql = f"SELECT id FROM {ONE} LIMIT 10"
    query.rows(sql)
    sent: list[str] = []
    send = ClientServerConnection.send_command

    def noted(connection: ClientServerConnection, command: str) -> str:
        sent.append(command)
        return str(send(connection, command))

    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    assert len(query.rows(sql)) == 10
    assert sent
    assert [command for command in sent if command.startswith("r\nu\n")] == []
