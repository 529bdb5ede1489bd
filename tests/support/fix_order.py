"""In which order files are given to processes that share the tests: the long ones first.

A long file that begins last runs alone while the other processes have nothing left to do.
"""

import pytest

from tests.support.sampling import leave_out

LONG_FILES = (
    "tests/sql/test_sql.py",
    # One Spark answers for all of these: in a row they keep to the process that has started it.
    "tests/rewrite/dialect/test_expressions.py",
    "tests/rewrite/query/test_divided_tables.py",
    "tests/rewrite/query/test_statements.py",
    "tests/rewrite/query/test_tpch.py",
    "tests/rewrite/dialect/test_time_zones.py",
    "tests/rewrite/query/test_current_rows.py",
    "tests/server/test_bulk_changes.py",
    "tests/server/test_convert.py",
    "tests/server/test_prepared_reads.py",
    "tests/server/test_convert_in_place.py",
    "tests/server/test_external_journals.py",
    "tests/server/test_public_api.py",
    "tests/catalog/test_conserved_writes.py",
    "tests/rewrite/needs/test_random_statements.py",
    "tests/rewrite/needs/test_rule_lines.py",
    "tests/server/test_hot_rows.py",
    "integration/crash/test_partitions.py",
    "tests/server/test_model_files.py",
    "integration/crash/test_divided_tables.py",
    "tests/server/test_failpoints.py",
    "tests/server/test_residency.py",
    "tests/server/test_client_encodings.py",
    "tests/server/test_commits.py",
    "tests/server/test_spark_catalog_journals.py",
    "tests/server/test_old_snapshots.py",
    "integration/encryption/test_clients.py",
    "tests/server/test_upserted_leaves.py",
    "tests/server/test_divided_tables.py",
    "tests/server/test_moving_merges.py",
    "integration/sqlalchemy/test_sqlalchemy.py",
    "tests/server/test_timeouts.py",
    "tests/server/test_deferred_references.py",
    "tests/catalog/test_filed_hot_rows.py",
    "tests/server/test_cursors_over_freezes.py",
    "integration/crash/test_hot_rows.py",
    "integration/crash/test_residency.py",
    "integration/crash/test_crash.py",
    "integration/alembic/test_alembic.py",
    "integration/tpch/test_tpch.py",
    "integration/lifecycle/test_lifecycle.py",
    "integration/django/test_django.py",
    "tests/gateway/spark/test_engine.py",
    "integration/external_catalog/test_external_catalog.py",
)
"""Files that take longer than others, the longest first; the others keep their order."""

_PLACES = {path: place for place, path in enumerate(LONG_FILES)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the long files begin first, if several processes share the tests."""
    # Before tests are left out by their marks.
    leave_out(items)
    if hasattr(config, "workerinput"):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    return _PLACES.get(item.nodeid.partition("::")[0], len(LONG_FILES))
