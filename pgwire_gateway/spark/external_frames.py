"""Journals of others as DataFrames: their row versions in the columns that compiled SQL reads."""

import json
from pathlib import Path

from catalog.journal.layout import SUBSEQUENT, VERSION, column_name
from catalog.model import Column, ExternalJournal, JournalTable, Outside
from pgwire_gateway.spark import databases, text_values
from pgwire_gateway.spark.api import Frame, Session
from pgwire_gateway.spark.file_sources import FileSource, quoted, reader_of
from pgwire_gateway.spark.layouts import unbounded
from rewrite.dialect import oids
from rewrite.dialect.type_mapping import storage_type

JDBC = "jdbc"
"""Format of journals that are relations of another database."""

TABLE = "table"
"""Format of journals that are tables of Spark's catalogs."""

_TEXTS = frozenset({"csv", "json"})
"""Formats of text."""

_ARRAY = "ARRAY<"
_NO_VERSION = "CAST(NULL AS TIMESTAMP)"


def version_type(external: ExternalJournal) -> str:
    """Return the type of version numbers in relations."""
    return "BIGINT" if external.counts else "TIMESTAMP"


def frame_of(session: Session, table: JournalTable, outside: Outside) -> Frame:
    """Return the row versions of a journal of others."""
    external = table.external
    if external is None:
        raise TypeError(table)
    items = [
        f"{_as_stored(external, column)} AS {column_name(column.attnum)}"
        for column in table.columns
    ]
    if external.is_plain:
        items += [f"timestamp_micros(0L) AS {VERSION}", f"{_NO_VERSION} AS {SUBSEQUENT}"]
        return opened(session, external, outside).select(items)
    kind = version_type(external)
    version, subsequent = quoted(external.version), quoted(external.subsequent)
    if external.format in _TEXTS:
        version, subsequent = text_values.read(version, kind), text_values.read(subsequent, kind)
    items += [
        f"CAST({version} AS {kind}) AS {VERSION}",
        f"CAST({subsequent} AS {kind}) AS {SUBSEQUENT}",
    ]
    return opened(session, external, outside).select(items)


def _as_stored(external: ExternalJournal, column: Column) -> str:
    """Return what a column is in the journal, of the type that it has here."""
    kind = storage_type(column.type_oid, column.typmod)
    value = f"CAST({_value(external, column)} AS {kind})"
    # Databases find zeros of either sign equal, as files do not.
    return value if external.format == JDBC else unbounded(value, kind)


def _value(external: ExternalJournal, column: Column) -> str:
    """Return what a column is in the journal; texts are read."""
    found = quoted(column.storage_name)
    kind = storage_type(column.type_oid, column.typmod)
    if external.format not in _TEXTS:
        return found
    if kind.startswith(_ARRAY):
        element = kind[len(_ARRAY) : -1]
        of = oids.ELEMENTS[column.type_oid]
        read = text_values.read("x", element) if text_values.is_read(element) else ""
        read = read or text_values.checked("x", of, column.typmod)
        return f"transform({found}, x -> {read})"
    if text_values.is_read(kind):
        return text_values.read(found, kind)
    return text_values.checked(found, column.type_oid, column.typmod)


def newest_of(table: JournalTable) -> list[str]:
    """Return expressions that make row versions newer than all that a journal of others has."""
    if table.external is None:
        raise TypeError(table)
    if table.external.is_plain:
        columns = [column_name(column.attnum) for column in table.columns]
        return [*columns, VERSION, f"{_NO_VERSION} AS {SUBSEQUENT}"]
    newest = f"{2**63 - 1}L" if table.external.counts else f"timestamp_micros({2**63 - 1}L)"
    columns = [column_name(column.attnum) for column in table.columns]
    ended = f"CASE WHEN {SUBSEQUENT} IS NOT NULL THEN {newest} END AS {SUBSEQUENT}"
    return [*columns, f"{newest} AS {VERSION}", ended]


def opened(session: Session, external: ExternalJournal, outside: Outside) -> Frame:
    """Return the row versions in the journal's own columns, those of text files as text."""
    session.activate()
    if external.format == JDBC:
        return databases.opened(session, external)
    if external.format == TABLE:
        return session.table(external.location)
    schema = _schema_of_texts(external) if external.format in _TEXTS else external.schema
    if not outside.files:
        return session.empty(schema)
    source = FileSource(external.format, tuple(Path(file) for file in outside.files))
    return reader_of(session, source, schema)


def _schema_of_texts(external: ExternalJournal) -> str:
    """Return the columns of a journal with text where `text_values` is to read it."""
    schema = json.loads(external.schema)
    for field in schema["fields"]:
        kind = field["type"]
        if isinstance(kind, dict):
            kind["elementType"] = _text_or(kind["elementType"])
        else:
            field["type"] = _text_or(kind)
    return json.dumps(schema)


def _text_or(kind: str) -> str:
    return kind if kind == "binary" else "string"


def column_names(external: ExternalJournal) -> list[str]:
    """Return the names of the columns in the journal's order."""
    return [str(field["name"]) for field in json.loads(external.schema)["fields"]]
