"""The plugins of the integration tests, which run real client programs against the gateway."""

import pytest

pytest_plugins = [
    "tests.support.fix_clients",
    "tests.support.fix_order",
    "tests.support.fix_server",
]

collect_ignore = ["sqlalchemy/suite"]
"""A project of its own, run by the test beside it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here as an integration test."""
    for item in items:
        if "integration" in item.path.parts:
            item.add_marker(pytest.mark.integration)
