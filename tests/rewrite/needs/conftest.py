"""The tests of the rule that are not marked as needing PostgreSQL have what was recorded of it."""

import subprocess
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest

from tests.support.analyses import DIRECTORY, Analyses

STARTING = frozenset({"oracle_uri", "spark_session"})
"""The fixtures here that start a process, which others build upon."""


@pytest.fixture(scope="module")
def analyses(request: pytest.FixtureRequest) -> Analyses:
    """What is recorded for the tests of a module."""
    return Analyses(DIRECTORY / Path(request.path).name.removeprefix("test_"))


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """See to it that a test without the mark needs no process."""
    if request.node.get_closest_marker("catalog") is not None:
        return
    assert STARTING.isdisjoint(request.fixturenames)
    monkeypatch.setattr(subprocess, "Popen", _refused)
    monkeypatch.setattr(psycopg, "connect", _refused)


def _refused(*_: object, **__: object) -> NoReturn:
    raise AssertionError("the test is not marked as one that needs a process")
