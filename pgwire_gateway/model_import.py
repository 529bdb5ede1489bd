"""Register the schemas of a model file at a gateway, as a client of it."""

import logging
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.session.names import quoted
from pgwire_gateway import model_files
from pgwire_gateway.model_files import ModelSchema, ModelTable

logger = logging.getLogger(__name__)


def run(model: Path, dsn: str) -> int:
    """Register all journals of a model file or, where one cannot be, none; and other tables.

    Raises:
        GatewayError: What is wrong with the file, and what the gateway refuses.
    """
    schemas = model_files.read(model)
    try:
        with psycopg.connect(dsn) as connection:
            connection.add_notice_handler(_log)
            for schema in schemas:
                _register_schema(connection, schema)
    except psycopg.Error as error:
        raise _of_server(error) from error
    return 0


def _log(notice: psycopg.errors.Diagnostic) -> None:
    logger.warning("%s", notice.message_primary)


def _register_schema(
    connection: "psycopg.Connection[tuple[object, ...]]", schema: ModelSchema
) -> None:
    """Make the tables of a schema."""
    create = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}")
    connection.execute(create.format(sql.Identifier(schema.name)))
    for table in schema.tables:
        _register(connection, table)
    arguments = {
        "target": quoted(schema.name),
        "location": quoted(schema.location),
        "connection": str(schema.connection),
        "without": ", ".join(quoted(table.journal[1]) for table in schema.tables),
    }
    _call(connection, "register_schema", arguments)


def _call(
    connection: "psycopg.Connection[tuple[object, ...]]",
    procedure: str,
    arguments: Mapping[str, str],
) -> None:
    given = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.SQL(argument), sql.Literal(value))
        for argument, value in arguments.items()
    )
    called = sql.SQL("CALL {}({})").format(sql.Identifier("gateway", procedure), given)
    connection.execute(called)


def _register(connection: "psycopg.Connection[tuple[object, ...]]", table: ModelTable) -> None:
    """Make one table, unless it is there."""
    name = quoted(table.schema, table.name)
    ((found,),) = connection.execute("SELECT to_regclass(%s)::text", [name]).fetchall()
    if found is not None:
        logger.info("table %s exists, and stays as it is", name)
        return
    arguments = {
        "target": name,
        "location": quoted(*table.journal),
        "key": ", ".join(map(quoted, table.key)),
        "version_column": table.version,
        "subsequent_column": table.subsequent,
        "version_type": table.version_type,
        "connection": str(table.connection),
    }
    _call(connection, "register_journal", arguments)
    logger.info("table %s stands for %s", name, quoted(*table.journal))


def _of_server(error: psycopg.Error) -> GatewayError:
    return GatewayError(
        error.diag.message_primary or str(error).strip(),
        sqlstate=error.sqlstate or codes.CONNECTION_FAILURE,
        detail=error.diag.message_detail,
        hint=error.diag.message_hint,
    )
