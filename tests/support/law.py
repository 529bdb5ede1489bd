"""The law of resident tables, asked of a gateway: they hold what their journals say."""

import psycopg
from psycopg import sql

from tests.support.servers import Address


def inconsistent(gateway: Address, database: str, schema: str | None = None) -> dict[str, int]:
    """Return the resident tables that differ from their journals, with the number of rows."""
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as connection:
        tables = connection.execute(
            "SELECT schema_name, table_name FROM gateway.tables WHERE residency = 'resident'"
        ).fetchall()
        found = {}
        for schema_name, table_name in tables:
            if schema in {None, schema_name}:
                name = sql.Identifier(schema_name, table_name).as_string(connection)
                query = sql.SQL("SELECT gateway.check({})").format(sql.Literal(name))
                row = connection.execute(query).fetchone()
                assert row is not None
                if row[0]:
                    found[name] = row[0]
    return found
