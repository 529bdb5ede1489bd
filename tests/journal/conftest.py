from tests.support.fix_catalog import (
    catalog,
    client,
    connect,
    database,
    inspector,
    pristine_database,
)
from tests.support.fix_spark import journal, own_py4j, spark_engine, spark_relations

__all__ = [
    "catalog",
    "client",
    "connect",
    "database",
    "inspector",
    "journal",
    "own_py4j",
    "pristine_database",
    "spark_engine",
    "spark_relations",
]
