"""Register the journals of a model file at a gateway, as a client of it."""

import logging
from pathlib import Path

import psycopg
from psycopg import sql

from catalog import sqlstate as codes
from catalog.errors import GatewayError
from catalog.names import quoted
from pgwire_gateway import model_files
from pgwire_gateway.model_files import ModelTable

logger = logging.getLogger(__name__)


def run(model: Path, dsn: str) -> int:
    """Register all tables of a model file or, where one cannot be, none.

    Raises:
        GatewayError: What is wrong with the file, and what the gateway refuses.
    """
    tables = model_files.read(model)
    try:
        with psycopg.connect(dsn) as connection:
            for table in tables:
                _register(connection, table)
    except psycopg.Error as error:
        raise _of_server(error) from error
    return 0


def _register(connection: "psycopg.Connection[tuple[object, ...]]", table: ModelTable) -> None:
    """Make one table, unless it is there."""
    name = quoted(table.schema, table.name)
    ((found,),) = connection.execute("SELECT to_regclass(%s)::text", [name]).fetchall()
    if found is not None:
        logger.info("table %s exists, and stays as it is", name)
        return
    connection.execute(
        sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(table.schema))
    )
    arguments = {
        "target": name,
        "location": quoted(*table.journal),
        "key": ", ".join(map(quoted, table.key)),
        "version_column": table.version,
        "subsequent_column": table.subsequent,
        "version_type": table.version_type,
        "connection": str(table.connection),
    }
    given = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.SQL(argument), sql.Literal(value))
        for argument, value in arguments.items()
    )
    connection.execute(sql.SQL("CALL gateway.register_journal({})").format(given))
    logger.info("table %s stands for %s", name, quoted(*table.journal))


def _of_server(error: psycopg.Error) -> GatewayError:
    return GatewayError(
        error.diag.message_primary or str(error).strip(),
        sqlstate=error.sqlstate or codes.CONNECTION_FAILURE,
        detail=error.diag.message_detail,
        hint=error.diag.message_hint,
    )
