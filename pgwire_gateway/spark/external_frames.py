"""Journals of others as DataFrames: their row versions in the columns that compiled SQL reads."""

import json
from pathlib import Path
from typing import Any

from catalog.model import ExternalJournal, JournalTable, Outside
from pgwire_gateway.spark import databases
from pgwire_gateway.spark.engine import SparkSession
from pgwire_gateway.spark.file_sources import FileSource, quoted, reader_of
from pgwire_gateway.spark.frames import Frame
from pgwire_gateway.spark.layouts import SUBSEQUENT, VERSION
from rewrite.dialect.type_mapping import storage_type

JDBC = "jdbc"
"""Format of journals that are relations of another database."""

TABLE = "table"
"""Format of journals that are tables of Spark's catalogs."""

_NO_VERSION = "CAST(NULL AS TIMESTAMP)"


def version_type(external: ExternalJournal) -> str:
    """Return the type of version numbers in relations."""
    return "BIGINT" if external.counts else "TIMESTAMP"


def frame_of(session: SparkSession, table: JournalTable, outside: Outside) -> Frame:
    """Return the row versions of a journal of others."""
    external = table.external
    if external is None:
        raise TypeError(table)
    items = [
        f"CAST({quoted(column.storage_name)} AS {storage_type(column.type_oid, column.typmod)})"
        f" AS c{column.attnum}"
        for column in table.columns
    ]
    if external.is_plain:
        items += [f"timestamp_micros(0L) AS {VERSION}", f"{_NO_VERSION} AS {SUBSEQUENT}"]
        return opened(session, external, outside).selectExpr(session.driver.strings(items))
    items += [
        f"CAST({quoted(external.version)} AS {version_type(external)}) AS {VERSION}",
        f"CAST({quoted(external.subsequent)} AS {version_type(external)}) AS {SUBSEQUENT}",
    ]
    return opened(session, external, outside).selectExpr(session.driver.strings(items))


def newest_of(table: JournalTable) -> list[str]:
    """Return expressions that make row versions newer than all that a journal of others has."""
    if table.external is None:
        raise TypeError(table)
    if table.external.is_plain:
        columns = [f"c{column.attnum}" for column in table.columns]
        return [*columns, VERSION, f"{_NO_VERSION} AS {SUBSEQUENT}"]
    newest = f"{2**63 - 1}L" if table.external.counts else f"timestamp_micros({2**63 - 1}L)"
    columns = [f"c{column.attnum}" for column in table.columns]
    ended = f"CASE WHEN {SUBSEQUENT} IS NOT NULL THEN {newest} END AS {SUBSEQUENT}"
    return [*columns, f"{newest} AS {VERSION}", ended]


def opened(session: SparkSession, external: ExternalJournal, outside: Outside) -> Frame:
    """Return the row versions in the journal's own columns."""
    session.activate()
    if external.format == JDBC:
        return databases.opened(session, external)
    if external.format == TABLE:
        # Others may have written to it since Spark listed its files.
        session.java.catalog().refreshTable(external.location)
        return session.java.table(external.location)
    schema = schema_of(session, external)
    if not outside.files:
        return session.java.createDataFrame(session.driver.jvm.java.util.ArrayList(), schema)
    source = FileSource(external.format, tuple(Path(file) for file in outside.files))
    return reader_of(session, source, schema)


def schema_of(session: SparkSession, external: ExternalJournal) -> Any:
    """Return the columns of a journal as Spark's schema."""
    return session.driver.jvm.org.apache.spark.sql.types.DataType.fromJson(external.schema)


def column_names(external: ExternalJournal) -> list[str]:
    """Return the names of the columns in the journal's order."""
    return [str(field["name"]) for field in json.loads(external.schema)["fields"]]
