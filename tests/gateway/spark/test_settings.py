"""Settings: ours, those of each kind of session, and the operator's above all."""

from pathlib import Path

import pytest

from pgwire_gateway.spark.settings import SessionKind, SparkSettings, driver_conf, session_conf

SETTINGS = SparkSettings("warehouse", Path("runtime"))


@pytest.mark.parametrize("kind", SessionKind)
def test_no_kind_of_session_loses_columns(kind: SessionKind) -> None:
    excluded = session_conf(SETTINGS, kind)["spark.sql.optimizer.excludedRules"]
    assert "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion" in (
        excluded.split(",")
    )


def test_the_operators_settings_win() -> None:
    conf = {"spark.driver.memory": "7g", "spark.sql.shuffle.partitions": "3"}
    settings = SparkSettings("warehouse", Path("runtime"), conf=conf)
    assert driver_conf(settings)["spark.driver.memory"] == "7g"
    small = session_conf(settings, SessionKind.SMALL)
    assert small["spark.sql.shuffle.partitions"] == "3"


@pytest.mark.parametrize("kind", SessionKind)
def test_nothing_in_statements_is_a_variable(kind: SessionKind) -> None:
    name = "spark.sql.variable.substitute"
    settings = SparkSettings("warehouse", Path("runtime"), conf={name: "true"})
    assert session_conf(settings, kind)[name] == "false"


def test_there_is_one_garbage_collector() -> None:
    options = "spark.driver.extraJavaOptions"
    own = driver_conf(SETTINGS)[options]
    assert "-XX:+UseParallelGC" in own
    chosen = SparkSettings("w", Path("r"), conf={options: "-XX:+UseZGC -Dx=y"})
    assert driver_conf(chosen)[options].count("GC") == 1
    assert driver_conf(chosen)[options].endswith("-Dx=y")
