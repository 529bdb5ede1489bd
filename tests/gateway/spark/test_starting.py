"""Who waits for Spark to start can be stopped, and Spark starts all the same."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgwire_gateway.spark import engine as engines
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.errors import QueryCanceledError, SparkError
from pgwire_gateway.spark.settings import SparkSettings
from pgwire_gateway.spark.statements import RunningStatement

PATIENCE_S = 30.0

SETTINGS = SparkSettings("no warehouse", Path("no directory"))
"""Of drivers that are none."""


class Driver:
    """A driver that starts when it may."""

    alive = True

    def session(self, _kind):
        return SimpleNamespace(driver=self)

    def kill(self):
        self.alive = False

    stop = kill


class Starts:
    """What starts drivers."""

    def __init__(self):
        self.begun = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.failure = None
        self.drivers = []

    def __call__(self, _settings):
        self.begun.release()
        self.may_go_on.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        self.drivers.append(Driver())
        return self.drivers[-1]


@pytest.fixture
def starts(monkeypatch):
    found = Starts()
    monkeypatch.setattr(engines, "_driver", found)
    yield found
    found.may_go_on.set()


def test_who_waits_for_spark_is_cancelled(starts):
    engine, statement = SparkEngine(SETTINGS), RunningStatement()
    with ThreadPoolExecutor() as others:
        waiting = others.submit(engine.sessions, statement.check)
        patient = others.submit(engine.sessions)
        assert starts.begun.acquire(timeout=PATIENCE_S)
        begun = time.monotonic()
        statement.cancel()
        assert isinstance(waiting.exception(PATIENCE_S), QueryCanceledError)
        engine.failed(Driver())  # nor is who knows of another one kept waiting
        assert time.monotonic() - begun < PATIENCE_S / 2
        assert not patient.done()
        starts.may_go_on.set()
        assert patient.result(PATIENCE_S).large.driver is starts.drivers[0]
    assert len(starts.drivers) == 1
    assert engine.sessions() is engine.sessions(statement.check)


def test_a_lost_driver_is_started_again_by_one(starts):
    starts.may_go_on.set()
    engine = SparkEngine(SETTINGS)
    engine.start()
    engine.driver.kill()
    with ThreadPoolExecutor(8) as others:
        found = {others.submit(lambda: engine.driver) for _ in range(8)}
    assert {future.result() for future in found} == {starts.drivers[1]}


def test_who_waits_is_told_why_spark_does_not_start_and_the_next_tries_again(starts):
    starts.may_go_on.set()
    starts.failure = SparkError("could not start Spark")
    engine = SparkEngine(SETTINGS)
    with pytest.raises(SparkError, match="could not start"):
        engine.sessions()
    starts.failure = None
    assert engine.driver is starts.drivers[0]


def test_one_that_is_being_started_is_stopped(starts):
    engine = SparkEngine(SETTINGS)
    with ThreadPoolExecutor() as others:
        waiting = others.submit(engine.sessions)
        assert starts.begun.acquire(timeout=PATIENCE_S)
        stopping = others.submit(engine.stop)
        starts.may_go_on.set()
        stopping.result(PATIENCE_S)
        assert not starts.drivers[0].alive
        waiting.exception(PATIENCE_S)
    with pytest.raises(SparkError, match="has been stopped"):
        engine.sessions()
