"""The plugins of the test suite; each holds its fixtures and its line of the report header."""

pytest_plugins = [
    "tests.support.fix_order",
    "tests.support.fix_properties",
    "tests.support.fix_server",
]
