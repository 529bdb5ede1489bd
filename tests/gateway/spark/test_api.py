"""What the gateway needs of Spark, from each of the interfaces by which it is had."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j import java_gateway, protocol
from pyspark.sql import SparkSession

from catalog.errors import GatewayError
from catalog.server.embedded import time_zone_directory
from pgwire_gateway.config import SparkApi
from pgwire_gateway.spark.api import Delivery, Frame, JobProgress, Reading, Session, Writing
from pgwire_gateway.spark.engine import SessionKind, SparkEngine
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.executor import failures
from pgwire_gateway.spark.internals.driver import JvmDriver
from pgwire_gateway.spark.public.driver import PublicDriver
from pgwire_gateway.spark.public.running import Groups
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.temporary_views import viewed
from pgwire_gateway.spark.zone_rules import ZoneRules
from rewrite.context import ALWAYS
from tests.support.fix_spark import settings
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.spark

ALL = Delivery(100)
SLOW = "SELECT SUM(a.id * b.id) AS o1 FROM range(1000000) AS a CROSS JOIN range(1000000) AS b"
"""Takes hours."""
SLOW_STAGE = "SELECT id % 7 AS o1, COUNT(*) AS o2 FROM range(1000000000000) GROUP BY id % 7"
"""Takes hours in its first stage, whose rows are divided among the tasks of the second."""
LETTERS = 32
"""So many that the planner takes seconds for them, and not for ever."""
BACKTRACKING = "SELECT v FROM global_temp.letters WHERE v RLIKE '(?s)(?:a|aa){1,40}b'"
"""A choice that is repeated a limited number of times: Java tries all ways to make it."""
NO_PARAMETERS = SimpleNamespace(params={})
NOTHING = JobProgress()

DDL = (
    "i INT, l BIGINT, s STRING, b BINARY, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, x DECIMAL(12, 2),"
    " f DOUBLE, o BOOLEAN, a ARRAY<INT>, r STRUCT<x: INT, y: STRING>"
)
VALUES = {
    "i": [1, None],
    "l": [2**40, None],
    "s": ["a'é", None],
    "b": [b"\0\xff", None],
    "d": [date(1, 1, 1), None],
    "t": [datetime(1500, 2, 3, 4, 5, 6, 789, UTC), None],
    "n": [datetime(2300, 2, 3, 4, 5, 6), None],  # noqa: DTZ001 - without time zone
    "x": [Decimal("-1234567890.12"), None],
    "f": [float("inf"), None],
    "o": [True, None],
    "a": [[1, None], None],
    "r": [{"x": 1, "y": "z"}, None],
}
TYPES = {
    "i": pa.int32(),
    "l": pa.int64(),
    "s": pa.string(),
    "b": pa.binary(),
    "d": pa.date32(),
    "t": pa.timestamp("us", "UTC"),
    "n": pa.timestamp("us"),
    "x": pa.decimal128(12, 2),
    "f": pa.float64(),
    "o": pa.bool_(),
    "a": pa.list_(pa.int32()),
    "r": pa.struct([("x", pa.int32()), ("y", pa.string())]),
}


@pytest.fixture(scope="module")
def public_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """A running engine by PySpark's public interface, which has one JVM in a process."""
    home = os.environ.get("JAVA_HOME")
    others = SparkSession.getActiveSession()
    engine = SparkEngine(settings(tmp_path_factory.mktemp("public"), SparkApi.PUBLIC))
    engine.start()
    yield engine
    if others is None:
        engine.stop()
    if home is None:
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = home


@pytest.fixture(autouse=True)
def own_py4j(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the errors of Py4J, or what PySpark makes of them for its own interface."""
    if getattr(request.node, "callspec", NO_PARAMETERS).params.get("engine") is not SparkApi.PUBLIC:
        monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)


@pytest.fixture(params=list(SparkApi))
def engine(request: pytest.FixtureRequest) -> SparkEngine:
    name = "public_engine" if request.param is SparkApi.PUBLIC else "spark_engine"
    return request.getfixturevalue(name)


@pytest.fixture(params=list(SessionKind))
def session(engine: SparkEngine, request: pytest.FixtureRequest) -> Session:
    found = engine.sessions().of_kind(request.param)
    found.enter("test")
    return found


@pytest.fixture
def large(engine: SparkEngine) -> Session:
    found = engine.sessions().large
    found.enter("test")
    return found


def table(frame: Frame) -> pa.Table:
    rows = frame.rows(ALL)
    return pa.Table.from_batches(rows, rows.schema)


def tuples(frame: Frame) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table(frame).to_pylist()]


def test_rows_of_all_types_come_back_as_they_are(session: Session):
    given = pa.table(VALUES, pa.schema(list(TYPES.items())))
    frame = session.local(given, DDL)
    found = table(frame)
    assert found.schema.names == list(VALUES)
    assert found.schema.field("t").type == pa.timestamp("us", "UTC")
    assert found.cast(given.schema).equals(given)


@pytest.mark.parametrize("count", [0, 1, 25_000])
def test_rows_held_in_memory_are_as_many(session: Session, count: int):
    frame = session.local(pa.table({"i": pa.array(range(count), pa.int32())}), "i INT")
    assert frame.count() == count
    assert sorted(table(frame).column(0).to_pylist()) == list(range(count))


@pytest.mark.parametrize(
    "delivery",
    [
        Delivery(7),
        Delivery(7, collected=False, part_rows=10, may_exceed_part=True),
        Delivery(7, collected=False, part_rows=10, may_exceed_part=True, may_be_few=True),
        Delivery(7, collected=False, part_rows=10_000),
        Delivery(7, collected=False, part_rows=10, may_multiply=True),
        Delivery(7, collected=False, part_rows=10, may_multiply=True, may_be_few=True),
        Delivery(7, collected=False, part_rows=10_000, may_multiply=True, may_be_few=True),
    ],
)
@pytest.mark.parametrize("parts", [1, 5])
def test_rows_come_in_their_order_in_batches(session: Session, delivery: Delivery, parts: int):
    query = f"SELECT id AS o1 FROM range(0, 1000, 1, {parts}) ORDER BY id DESC"
    rows = session.query(query).rows(delivery, enter=lambda: session.enter("test"))
    batches = list(rows)
    assert rows.schema.names == ["o1"]
    assert max(batch.num_rows for batch in batches) <= 7
    assert [v for batch in batches for v in batch.column(0).to_pylist()] == [*range(999, -1, -1)]


def test_a_result_without_rows_has_columns(session: Session):
    rows = session.query("SELECT id AS o1, 'a' AS o2 FROM range(0)").rows(ALL)
    assert rows.schema.names == ["o1", "o2"]
    assert sum(batch.num_rows for batch in rows) == 0


def test_a_statement_that_is_not_wanted_any_more_gets_no_rows(session: Session):
    statement = RunningStatement()
    statement.cancel()
    with pytest.raises(QueryCanceledError):
        session.query("SELECT 1 AS o1").rows(ALL, check=statement.check)


def test_operations_on_frames(session: Session):
    frame = session.query("SELECT * FROM VALUES (1, 'a'), (2, 'b'), (2, 'b'), (3, NULL) AS t(i, s)")
    assert sorted(tuples(frame.distinct().where("i > 1").select(["i + 1 AS j"]))) == [(3,), (4,)]
    assert sorted(tuples(frame.among("s", ["a", "b"]).among("i", [2, 3]))) == [(2, "b"), (2, "b")]
    assert tuples(frame.among("i", [])) == []
    assert frame.union(frame).count() == 8
    assert frame.limit(3).count() == 3
    assert frame.select(["count(*)", "count(s)", "max(i)", "min(NULL)"]).first() == (4, 3, 3, None)
    one = frame.coalesce(1)
    assert one.parts() == 1
    assert tuples(one.sorted_parts(["s", "i"]))[0] == (3, None)
    assert '"name":"i"' in frame.schema()


def test_ranges_are_parts(large: Session):
    frame = large.query("SELECT id FROM range(0, 100000, 1, 3)").by_range(4, ["id"])
    assert frame.parts() == 4
    ends = frame.select(["spark_partition_id() AS p", "id"])
    with viewed(large, {"ends": ends}) as views:
        found = tuples(
            large.query(f"SELECT p, min(id), max(id) FROM {views['ends']} GROUP BY p ORDER BY p")
        )
    bounds = [bound for _, low, high in found for bound in (low, high)]
    assert bounds == sorted(bounds)
    assert (bounds[0], bounds[-1]) == (0, 99_999)


def test_frames_have_names_while_they_are_needed(session: Session):
    with viewed(session, {"one": session.query("SELECT 5 AS v")}) as views:
        query = f"SELECT v + 1 AS o FROM {views['one']}"
        frame = session.query(query)
    assert tuples(frame) == [(6,)]
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.query(query)


def test_what_is_written_is_read(large: Session, tmp_path: Path):
    frame = large.query("SELECT id, CAST(id % 2 AS STRING) AS p FROM range(10)").coalesce(1)
    place = tmp_path / "rows"
    frame.write(Writing("parquet", str(place), {"compression": "zstd"}, ("p",)))
    files = sorted(place.glob("p=1/*.parquet"))
    assert sorted(pq.ParquetFile(files[0]).read().column("id").to_pylist()) == [1, 3, 5, 7, 9]
    assert pq.read_metadata(files[0]).row_group(0).column(0).compression == "ZSTD"
    reading = Reading("parquet", tuple(map(str, files)), ddl="id BIGINT, missing STRING")
    assert sorted(tuples(large.read(reading)))[:2] == [(1, None), (3, None)]
    with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
        frame.write(Writing("parquet", str(place)))
    frame.write(Writing("parquet", str(place), partitions=("p",), appends=True))
    assert large.read(Reading("parquet", (str(place),))).count() == 20


def test_files_of_text_by_schema_and_options(large: Session, tmp_path: Path):
    (tmp_path / "a.csv").write_text("i;s\n1;x\n2;\n")
    schema = large.query("SELECT 1 AS i, 'a' AS s").schema().replace("false", "true")
    reading = Reading(
        "csv", (f"file://{tmp_path}/a.csv",), {"header": "true", "sep": ";"}, schema=schema
    )
    assert tuples(large.read(reading)) == [(1, "x"), (2, None)]
    assert large.types(schema) == large.types(large.empty(schema).schema())
    assert [(name, kind.upper()) for name, kind in large.types(schema)] == [
        ("i", "INT"),
        ("s", "STRING"),
    ]
    assert large.empty(schema).count() == 0


def test_tables_of_sparks_catalogs(large: Session):
    name = f"written_{time.monotonic_ns()}"
    assert not large.has_table(f"default.{name}")
    large.query(f"CREATE TABLE default.{name} (id BIGINT) USING parquet")
    try:
        assert large.has_table(f"default.{name}")
        large.query("SELECT id FROM range(3)").coalesce(1).insert_into(f"default.{name}")
        assert sorted(tuples(large.table(f"default.{name}"))) == [(0,), (1,), (2,)]
        with viewed(large, {"view": large.query("SELECT 1 AS id")}) as views:
            assert not large.has_table(views["view"])
    finally:
        large.query(f"DROP TABLE default.{name}")


def test_plans_are_explained_and_not_run(large: Session):
    told = large.explain("SELECT raise_error('run') AS o FROM range(10) AS r WHERE r.id > 3")
    assert "== Physical Plan ==" in told.physical
    assert "Range" in told.physical
    assert "== Optimized Logical Plan ==" in told.logical
    assert "Physical" not in told.logical


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message"),
    [
        ("SELECT 1 / id FROM range(1)", "22012", "division by zero"),
        ("SELECT CAST('x' AS INT)", "22P02", 'invalid input syntax for type integer: "x"'),
        ("SELECT CAST(id + 70000 AS SMALLINT) FROM range(1)", "22003", "smallint out of range"),
        ("SELECT id + 9223372036854775807L FROM range(2)", "22003", None),
        (
            """SELECT raise_error('{"sqlstate": "22008", "message": "none"}') FROM range(2)""",
            "22008",
            "none",
        ),
        (
            "SELECT (SELECT id FROM range(2))",
            "21000",
            "more than one row returned by a subquery used as an expression",
        ),
        ("SELECT timestamp_seconds(id + 9223372036854775L) FROM range(2)", "22008", None),
        ("SELECT no_such_column", "XX000", "Spark could not run the statement"),
    ],
)
def test_failures_of_evaluation(engine: SparkEngine, sql: str, sqlstate: str, message: str | None):
    session, statement = engine.sessions().large, RunningStatement()
    session.enter(statement.begin(session.driver))
    with (
        pytest.raises(GatewayError) as caught,
        failures(engine, session.driver, statement),
    ):
        tuples(session.query(sql))
    assert caught.value.sqlstate == sqlstate
    assert message is None or caught.value.message == message
    assert tuples(session.query("SELECT 1 AS o")) == [(1,)]


def _begun(
    engine: SparkEngine, statement: RunningStatement, work: Callable[[], object]
) -> tuple[threading.Thread, list[GatewayError]]:
    """Begin the work of a statement in a thread; return that, and what is going to be wrong."""
    caught: list[GatewayError] = []

    def run() -> None:
        try:
            with failures(engine, engine.sessions().large.driver, statement):
                work()
        except GatewayError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, caught


@pytest.mark.parametrize("act", ["rows", "count", "write", "first"])
def test_a_cancelled_statement_ends(engine: SparkEngine, tmp_path: Path, act: str):
    session, statement = engine.sessions().large, RunningStatement()
    driver = session.driver
    group = statement.begin(driver)

    def run() -> None:
        session.enter(group)
        frame = session.query(SLOW)
        actions = {
            "rows": lambda: list(frame.rows(ALL)),
            "count": lambda: frame.union(frame).distinct().count(),
            "write": lambda: frame.write(Writing("parquet", str(tmp_path / "out"))),
            "first": frame.first,
        }
        actions[act]()

    thread, caught = _begun(engine, statement, run)
    assert wait_until(lambda: (driver.progress(group) or NOTHING).tasks_total > 0)
    statement.cancel()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [error.sqlstate for error in caught] == ["57014"]
    # Others go on, and so does this thread.
    session.enter(RunningStatement().begin(driver))
    assert tuples(session.query("SELECT count(*) FROM range(1000)")) == [(1000,)]


def planning(engine: SparkEngine) -> int:
    """Return how many plans are made, also such that nobody waits for any more."""
    driver = engine.driver
    if isinstance(driver, JvmDriver):
        return driver.machine.planning.busy
    assert isinstance(driver, PublicDriver)
    return driver.planning.busy


@pytest.mark.parametrize(
    ("kind", "act"), [(SessionKind.SMALL, "rows"), (SessionKind.LARGE, "explain")]
)
def test_a_statement_that_is_planned_is_cancelled(engine: SparkEngine, kind: SessionKind, act: str):
    session, statement = engine.sessions().of_kind(kind), RunningStatement()
    group = statement.begin(session.driver)
    session.enter(group)
    session.local(pa.table({"v": ["a" * LETTERS]}), "v STRING").register("letters")

    def run() -> None:
        session.enter(group)
        if act == "explain":
            session.explain(BACKTRACKING)
        else:
            session.query(BACKTRACKING).rows(replace(ALL, matches_patterns=True))

    thread, caught = _begun(engine, statement, run)
    assert wait_until(lambda: planning(engine) == 1)
    statement.cancel()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [error.sqlstate for error in caught] == ["57014"]
    # Java is at it still, and nobody waits.
    assert planning(engine) == 1
    session.enter(RunningStatement().begin(session.driver))
    assert tuples(session.query("SELECT 1 AS o")) == [(1,)]
    session.drop("letters")
    assert wait_until(lambda: planning(engine) == 0)


def test_what_was_cancelled_while_it_was_planned_is_not_computed(engine: SparkEngine):
    session, statement = engine.sessions().large, RunningStatement()
    group = statement.begin(session.driver)
    session.enter(group)
    session.local(pa.table({"v": ["a" * LETTERS]}), "v STRING").register("letters")
    # The planner looks at the letters; then there are jobs.
    letters = BACKTRACKING.replace("RLIKE", "NOT RLIKE")
    computed = f"SELECT o1 FROM ({letters}) CROSS JOIN ({SLOW_STAGE})"

    def run() -> None:
        session.enter(group)
        session.query(computed).rows(replace(ALL, matches_patterns=True))

    thread, caught = _begun(engine, statement, run)
    assert wait_until(lambda: planning(engine) == 1)
    statement.cancel()
    thread.join(PATIENCE_S)
    assert [error.sqlstate for error in caught] == ["57014"]
    session.drop("letters")
    ended = wait_until(lambda: planning(engine) == 0, PATIENCE_S / 2)
    session.driver.cancel(group)
    assert ended


def test_a_statement_cancelled_between_stages_ends(engine: SparkEngine, monkeypatch):
    # As if the look at cancelled groups had come just before the cancellation.
    monkeypatch.setattr(Groups, "check", lambda _: None)
    session, statement = engine.sessions().large, RunningStatement()
    driver = session.driver
    group = statement.begin(driver)

    def run() -> None:
        session.enter(group)
        frame = session.query(SLOW_STAGE)
        statement.cancel()
        frame.count()

    thread, caught = _begun(engine, statement, run)
    thread.join(PATIENCE_S)
    ended = not thread.is_alive()
    driver.cancel(group)
    assert ended
    assert [error.sqlstate for error in caught] == ["57014"]
    assert statement.job is None


def test_a_cancelled_group_begins_no_work(engine: SparkEngine):
    session, statement = engine.sessions().large, RunningStatement()
    group = statement.begin(session.driver)
    session.enter(group)
    session.driver.cancel(group)
    with pytest.raises(Exception, match=r"(?i)cancel"):
        session.query("SELECT count(*) FROM range(0, 1000, 1, 3)").rows(ALL)


def test_progress_is_told_of_the_group(engine: SparkEngine):
    session, statement = engine.sessions().large, RunningStatement()
    group = statement.begin(session.driver)
    session.enter(group)
    tuples(session.query("SELECT id FROM range(0, 1000, 1, 3) WHERE id > 3"))

    def is_done() -> bool:
        told = session.driver.progress(group)
        return told is not None and told.tasks_done == told.tasks_total > 0

    assert wait_until(is_done)
    other = session.driver.progress("nobody's")
    assert other is not None
    assert other.tasks_total == 0


def test_cores_and_life(engine: SparkEngine):
    assert engine.driver.cores >= 1
    assert engine.driver.alive
    assert engine.sessions().small.driver is engine.driver


def test_settings_of_sessions(engine: SparkEngine):
    small = engine.driver.session(SessionKind.SMALL, **{"spark.sql.shuffle.partitions": "3"})
    name = "spark.sql.shuffle.partitions"
    assert tuples(small.query(f"SET {name}"))[0] == (name, "3")
    assert tuples(engine.sessions().small.query(f"SET {name}"))[0] == (name, "1")
    zone = "spark.sql.session.timeZone"
    assert tuples(engine.sessions().large.query(f"SET {zone}"))[0] == (zone, "UTC")


@pytest.mark.parametrize("name", ["Europe/Berlin", "Africa/Casablanca", "Etc/UTC"])
def test_clocks_of_time_zones(engine: SparkEngine, name: str):
    assert ZoneRules(engine, str(time_zone_directory())).difference(name) is None
    steps = engine.driver.zone_steps(name)
    assert steps is not None
    assert steps == sorted(steps)


def test_no_such_time_zone(engine: SparkEngine, tmp_path: Path):
    assert engine.driver.zone_steps("New/Town") is None
    assert ZoneRules(engine, str(tmp_path)).difference("New/Town") == ALWAYS


def test_clocks_are_the_same_by_each_interface(spark_engine: SparkEngine, public_engine):
    for name in ("America/New_York", "Pacific/Apia", "Antarctica/Troll"):
        ours, others = (engine.driver.zone_steps(name) for engine in (spark_engine, public_engine))
        assert _changes(ours) == _changes(others)


def _changes(steps):
    """Leave out steps that change nothing, as when a zone gets another name for the same clocks."""
    before = [(None, None), *steps]
    return [step for step, (_, last) in zip(steps, before, strict=False) if step[1] != last]


@pytest.mark.parametrize("call", ["quoted", "relations", "update"])
def test_what_the_public_interface_has_not_is_refused(public_engine: SparkEngine, call: str):
    session = public_engine.sessions().small
    calls = {
        "quoted": lambda: session.quoted("jdbc:postgresql://h/d", "name"),
        "relations": lambda: session.relations({}, "s"),
        "update": lambda: session.update({"dbtable": "t"}, "UPDATE t"),
    }
    with pytest.raises(GatewayError, match="public interface is not supported") as caught:
        calls[call]()
    assert caught.value.sqlstate == "0A000"
