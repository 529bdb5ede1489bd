"""The statements that warm Spark up are ones it can run, and end when the gateway stops."""

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typing_extensions import override

from pgwire_gateway.config import Config
from pgwire_gateway.listener.server import Gateway
from pgwire_gateway.spark import warm_up as warm_up_module
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.errors import QueryCanceledError, SparkError
from pgwire_gateway.spark.executor import Executor
from pgwire_gateway.spark.relations import Relations
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.warm_up import STOP_S, WarmUp, warm_up

PATIENCE_S = 30.0


@pytest.mark.spark
def test_spark_runs_all_of_them(spark_engine: SparkEngine, spark_relations: Relations) -> None:
    warm_up(spark_engine, Executor(spark_relations), RunningStatement())


@pytest.mark.spark
def test_spark_runs_none_when_cancelled(
    spark_engine: SparkEngine, spark_relations: Relations
) -> None:
    running = RunningStatement()
    running.cancel()
    with pytest.raises(QueryCanceledError):
        warm_up(spark_engine, Executor(spark_relations), running)


class Spark:
    """Runs a statement until it is stopped, and a while longer."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.stopped = threading.Event()
        self.ran = 0

    def sessions(self) -> None:
        return None

    def stop(self) -> None:
        self.stopped.set()

    def run(self, *_: object, **__: object) -> Any:
        self.ran += 1
        self.begun.set()
        assert self.stopped.wait(PATIENCE_S)
        time.sleep(0.3)
        raise SparkError("Spark has been stopped", sqlstate="57P01")


def warming() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "warm-up"]


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def gateway(spark: Spark) -> Gateway:
    """A gateway of which nothing but Spark runs, which is being warmed up."""
    found = Gateway(Config())
    found._engine = cast("Any", spark)
    found._warm_up = WarmUp(cast("Any", spark), cast("Any", spark))
    assert spark.begun.wait(PATIENCE_S)
    return found


def test_a_gateway_that_stops_waits_for_them(gateway: Gateway, spark: Spark) -> None:
    assert len(warming()) == 1
    gateway.stop()
    assert warming() == []
    assert spark.ran == 1


def test_it_does_not_wait_forever(
    gateway: Gateway, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < STOP_S <= 60
    monkeypatch.setattr(warm_up_module, "STOP_S", 0.1)
    monkeypatch.setattr(spark, "stop", lambda: None)
    gateway.stop()
    (left,) = warming()
    spark.stopped.set()
    left.join(PATIENCE_S)
    assert not left.is_alive()


class Fast(Spark):
    """Ends its first statement well, although it was stopped."""

    @override
    def run(self, *_: object, **__: object) -> Any:
        self.ran += 1
        self.begun.set()
        assert self.stopped.wait(PATIENCE_S)
        return SimpleNamespace(read_all=lambda: None)


@pytest.mark.parametrize("spark", [Fast()])
def test_no_more_begin_when_it_stops(gateway: Gateway, spark: Spark) -> None:
    gateway.stop()
    assert warming() == []
    assert spark.ran == 1
