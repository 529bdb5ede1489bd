from tests.support.fix_catalog import (
    catalog,
    client,
    connect,
    database,
    inspector,
    other,
    pristine_database,
    reader,
)

__all__ = [
    "catalog",
    "client",
    "connect",
    "database",
    "inspector",
    "other",
    "pristine_database",
    "reader",
]
