"""In which order files are given to processes that share the tests: the long ones first.

A long file that begins last runs alone while the other processes have nothing left to do.
"""

import pytest

LONG_FILES = (
    "tests/sql/test_sql.py",
    # One Spark answers for all of these: in a row they keep to the process that has started it.
    "tests/rewrite/dialect/test_expressions.py",
    "tests/rewrite/query/test_divided_tables.py",
    "tests/rewrite/query/test_statements.py",
    "tests/rewrite/query/test_tpch.py",
    "tests/rewrite/dialect/test_time_zones.py",
    "tests/rewrite/query/test_current_rows.py",
    "tests/server/test_residency.py",
    "integration/lifecycle/test_lifecycle.py",
    "integration/crash/test_hot_rows.py",
    "integration/crash/test_residency.py",
    "integration/tpch/test_tpch.py",
    "tests/server/test_hot_rows.py",
    "tests/server/test_failpoints.py",
    "tests/gateway/spark/test_engine.py",
    "integration/external_catalog/test_external_catalog.py",
    "tests/rewrite/needs/test_random_sources.py",
    "tests/rewrite/needs/test_random_statements.py",
    "integration/crash/test_crash.py",
    "integration/pg_dump/test_pg_dump.py",
    "tests/server/test_dialogues.py",
    "integration/sqlalchemy/test_sqlalchemy.py",
    "tests/server/test_two_tiers.py",
    "tests/server/test_explain.py",
    "integration/external_catalog/test_prepared_transactions.py",
    "integration/psql/test_descriptions.py",
    "integration/pgbench/test_pgbench.py",
    "integration/alembic/test_alembic.py",
    "integration/django/test_django.py",
)
"""Files that take longer than others, the longest first; the others keep their order."""

_PLACES = {path: place for place, path in enumerate(LONG_FILES)}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the long files begin first, if several processes share the tests."""
    if hasattr(config, "workerinput"):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    return _PLACES.get(item.nodeid.partition("::")[0], len(LONG_FILES))
