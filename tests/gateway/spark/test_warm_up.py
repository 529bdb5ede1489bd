"""The statements that warm Spark up are ones it can run."""

import pytest

from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.executor import Executor
from pgwire_gateway.spark.relations import Relations
from pgwire_gateway.spark.warm_up import warm_up


@pytest.mark.spark
def test_spark_runs_all_of_them(spark_engine: SparkEngine, spark_relations: Relations) -> None:
    warm_up(spark_engine, Executor(spark_relations))
