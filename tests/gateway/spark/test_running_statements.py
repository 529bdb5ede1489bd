"""A cancelled statement is cancelled until its work on Spark is over."""

import threading
import time
from types import SimpleNamespace

import pytest

from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.executor import failures
from pgwire_gateway.spark.statements import RunningStatement

PATIENCE_S = 30.0


class CountingDriver:
    """A driver that knows how often it was told to cancel what."""

    def __init__(self, *, answers: int = 1_000_000):
        self.told: list[str] = []
        self._answers = answers

    def cancel(self, group):
        self.told.append(group)
        if len(self.told) > self._answers:
            raise ConnectionError("the JVM is gone")


def _wait_until_told(driver, times):
    end = time.monotonic() + PATIENCE_S
    while len(driver.told) < times:
        assert time.monotonic() < end, driver.told
        time.sleep(0.01)


def _is_quiet(driver):
    time.sleep(0.2)
    before = len(driver.told)
    time.sleep(1.2)
    return len(driver.told) == before


def test_spark_is_told_again_until_the_work_is_over():
    driver, statement = CountingDriver(), RunningStatement()
    group = statement.begin(driver)
    statement.cancel()
    _wait_until_told(driver, 3)
    statement.end(group)
    assert _is_quiet(driver)
    assert set(driver.told) == {group}


def test_who_cancels_several_times_has_it_told_by_one():
    driver, statement = CountingDriver(), RunningStatement()
    group = statement.begin(driver)
    before = threading.active_count()
    for _ in range(20):
        statement.cancel()
    assert len(driver.told) >= 20
    assert threading.active_count() <= before + 1
    statement.end(group)
    assert _is_quiet(driver)


def test_it_is_not_told_again_when_the_work_has_failed():
    driver, statement = CountingDriver(), RunningStatement()
    statement.begin(driver)

    def work():
        with failures(None, _Untold(), statement):
            statement.cancel()
            _wait_until_told(driver, 2)
            raise RuntimeError("the job was cancelled")

    with pytest.raises(QueryCanceledError):
        work()
    assert statement.job is None
    assert _is_quiet(driver)


def test_it_is_not_told_again_when_it_does_not_answer():
    driver, statement = CountingDriver(answers=1), RunningStatement()
    statement.begin(driver)
    statement.cancel()
    _wait_until_told(driver, 2)
    assert _is_quiet(driver)
    assert len(driver.told) == 2


def test_without_work_nobody_is_told():
    driver, statement = CountingDriver(), RunningStatement()
    statement.end(statement.begin(driver))
    statement.cancel()
    assert _is_quiet(driver)
    assert driver.told == []
    with pytest.raises(QueryCanceledError):
        statement.begin(driver)


class _Untold(SimpleNamespace):
    def told(self, _error):
        return None
