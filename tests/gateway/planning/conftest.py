from tests.support.fix_catalog import (
    catalog,
    client,
    connect,
    database,
    inspector,
    pristine_database,
)

__all__ = ["catalog", "client", "connect", "database", "inspector", "pristine_database"]
