"""The JVM: found, started, lost, started again, and gone when the gateway is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from catalog.errors import GatewayError
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.errors import SparkLostError
from pgwire_gateway.spark.executor import Executor, RunningStatement
from pgwire_gateway.spark.internals.process import is_ending
from pgwire_gateway.spark.java_runtime import bundled_java_home, find_java_home, java_version
from pgwire_gateway.spark.relations import Relations
from rewrite.results import SparkQuery
from tests.support.fix_spark import settings

SLOW = "SELECT SUM(a.id * b.id) AS o1 FROM range(1000000) AS a CROSS JOIN range(1000000) AS b"


def query(sql: str) -> SparkQuery:
    return SparkQuery(sql, (), (), 1, 1)


def fetch(engine: SparkEngine, sql: str) -> list[dict]:
    batches = Executor(Relations(engine)).run(
        query(sql), relations=[], sessions=engine.sessions(), statement=RunningStatement()
    )
    return batches.read_all().to_pylist()


@pytest.mark.spark
def test_sessions_are_shared(spark_engine: SparkEngine) -> None:
    assert spark_engine.sessions() is spark_engine.sessions()


@pytest.mark.spark
def test_a_lost_jvm_fails_the_statement_and_is_replaced(tmp_path: Path) -> None:
    engine = SparkEngine(settings(tmp_path))
    engine.start()
    try:
        assert fetch(engine, "SELECT 1 AS o1") == [{"o1": 1}]
        sessions = engine.sessions()
        executor = Executor(Relations(engine))
        jvm = psutil.Process(engine.driver.machine.process.process.pid)

        def run(sql: str):
            return executor.run(
                query(sql), relations=[], sessions=sessions, statement=RunningStatement()
            )

        killer = subprocess.Popen([sys.executable, "-c", _KILL_LATER, str(jvm.pid)])
        with pytest.raises(SparkLostError) as caught:
            run(SLOW)
        killer.wait()
        assert caught.value.sqlstate == "57P02"
        assert fetch(engine, "SELECT 2 AS o1") == [{"o1": 2}]
    finally:
        engine.stop()
    assert _gone(jvm)


def test_a_process_that_was_killed_is_known_to_end_before_it_is_gone() -> None:
    """A statement that came between would wait for an answer of nobody."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("the system does not tell")
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        assert not is_ending(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_ending(process.pid)


_KILL_LATER = "import os, sys, time; time.sleep(1); os.kill(int(sys.argv[1]), 9)"

_HOLDER = """
import signal, sys, time
from pathlib import Path
from pgwire_gateway.spark.engine import SparkEngine
from tests.support.fix_spark import settings

# A shell has those it runs in the background ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
engine = SparkEngine(settings(Path(sys.argv[1])))
engine.start()
try:
    print(engine.driver.machine.process.process.pid, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print(engine.sessions().small.query("SELECT 1").count(), flush=True)
    time.sleep(60)
"""


@pytest.mark.spark
def test_the_jvm_survives_ctrl_c_and_dies_with_the_gateway(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    said = tmp_path / "said"
    with said.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
            start_new_session=True,
        )
    try:
        started = process.stdout.readline().strip()
        assert started, said.read_text()
        jvm = psutil.Process(int(started))
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline().strip() == "1", said.read_text()
    finally:
        process.kill()
        process.wait()
    assert _gone(jvm)


@pytest.mark.spark
def test_the_jdk_of_the_wheel_runs_spark(tmp_path: Path) -> None:
    home = bundled_java_home(tmp_path)
    assert java_version(home / "bin" / "java") >= 17
    base = settings(tmp_path)
    engine = SparkEngine(
        type(base)(base.warehouse, base.runtime_directory, base.master, base.conf, home)
    )
    try:
        assert fetch(engine, "SELECT 1 + 1 AS o1") == [{"o1": 2}]
    finally:
        engine.stop()


@pytest.mark.spark
def test_a_jvm_that_cannot_start_says_why(tmp_path: Path) -> None:
    engine = SparkEngine(
        settings(tmp_path, **{"spark.driver.extraJavaOptions": "-agentlib:nothing"})
    )
    with pytest.raises(GatewayError) as caught:
        engine.start()
    assert caught.value.sqlstate == "58000"
    assert "agent library nothing" in (caught.value.detail or "")


def test_a_java_too_old_or_missing_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(java.parent))
    assert java_version(java) == 11
    assert java_version(tmp_path / "none") == 0
    home = find_java_home(tmp_path / "runtime")
    assert home == tmp_path / "runtime" / "java"


def _gone(process: psutil.Process, timeout_s: float = 60) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:  # it went between the two
            return True
        time.sleep(0.1)
    return False
