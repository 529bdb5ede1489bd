"""Rules of time zones in the JVM, compared with those of PostgreSQL."""

from pathlib import Path

import pytest

from catalog.server.embedded import time_zone_directory
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.zone_rules import ZoneRules
from rewrite.context import ALWAYS

pytestmark = pytest.mark.spark

DIRECTORY = str(time_zone_directory())

YEAR = 31_557_600_000_000
"""Microseconds of an average year."""


@pytest.fixture
def rules(spark_engine: SparkEngine) -> ZoneRules:
    """Compares the rules of the engine's JVM with those of the embedded PostgreSQL."""
    return ZoneRules(spark_engine, DIRECTORY)


def tzif(offset: int, footer: str) -> bytes:
    """Return the file of a zone with one offset, and a rule from 1970 on."""
    counts = bytes(3 * 4) + bytes(4) + b"\0\0\0\1" + b"\0\0\0\4"
    body = offset.to_bytes(4, "big", signed=True) + b"\0\0" + b"ODD\0"
    part = b"TZif2" + bytes(15) + counts + body
    return part * 2 + f"\n{footer}\n".encode()


@pytest.mark.parametrize(
    "name",
    [
        *("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Etc/UTC"),
        *("Africa/Casablanca", "Europe/Dublin", "America/St_Johns", "Antarctica/Troll"),
        *("Pacific/Apia", "America/Scoresbysund", "Asia/Tokyo"),
    ],
)
def test_the_same_rules(rules: ZoneRules, name: str):
    assert rules.difference(name) is None


def test_a_zone_the_jvm_does_not_know_differs_always(rules: ZoneRules, tmp_path: Path):
    (tmp_path / "New").mkdir()
    (tmp_path / "New" / "Town").write_bytes(tzif(3600, "ODD-1"))
    assert ZoneRules(rules._engine, str(tmp_path)).difference("New/Town") == ALWAYS


def test_other_rules_for_some_time_or_ever(rules: ZoneRules, tmp_path: Path):
    # Paris had its own time until 1911, and summer time often since.
    (tmp_path / "Asia").mkdir()
    (tmp_path / "Asia" / "Tokyo").write_bytes(tzif(9 * 3600, "JST-9"))
    (tmp_path / "Asia" / "Seoul").write_bytes(tzif(10 * 3600, "KST-10"))
    (tmp_path / "Asia" / "Kolkata").write_bytes(tzif(19800, "IST-5:30IST,M3.2.0,M11.1.0"))
    ours = ZoneRules(rules._engine, str(tmp_path))
    first, last = ours.difference("Asia/Tokyo")
    assert first == ALWAYS[0]
    assert -20 * YEAR < last < -18 * YEAR
    assert ours.difference("Asia/Seoul") == ALWAYS
    assert ours.difference("Asia/Kolkata")[1] == ALWAYS[1]


def test_names_that_are_surely_missing(rules: ZoneRules):
    missing = [rules.is_missing(name) for name in ("Nowhere/City", "nowhere", "Mars/Olympus Mons")]
    assert missing == [True, True, True]


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "europe/berlin", "EST", "CEST", "EST5EDT", "+02", "nonsense1"]
)
def test_names_that_may_exist(rules: ZoneRules, name: str):
    assert not rules.is_missing(name)
