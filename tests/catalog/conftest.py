from tests.support.fix_catalog import catalog, client, connect, database, other, reader

__all__ = ["catalog", "client", "connect", "database", "other", "reader"]
