"""A new table whose rows are files of others, which stay where they are and whose they are."""

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.errors import GatewayError
from catalog.extensions.convert import Files
from catalog.model import JournalTable
from catalog.pg import sqlstate as codes
from catalog.session import residency
from pgwire_gateway.spark.adoption import adopted
from pgwire_gateway.spark.file_inspection import (
    HINT,
    MOST_UNKEYED_FILES,
    Inspection,
    NullValueError,
)
from pgwire_gateway.tables.loads import Load, null_key
from pgwire_gateway.tables.source_files import file_source
from rewrite.errors import UnsupportedError

FORMAT = "parquet"
"""The format of data files of ours."""


def adopt(load: Load, source: Files, form: str | None) -> int:
    """Make a table of files as they are, with their columns; return the number of its rows.

    Args:
        load: The statement.
        source: Where the files are.
        form: Their format; None to go by their names.

    Raises:
        GatewayError: 42501, 58P01, 22P04 for the files, 22021 and 22008 for values in them, 23502
            and 23505 for the key, PostgreSQL's own errors for the table.
        UnsupportedError: 0A000 for files that have to be copied.
    """
    load.session.transaction.begin_implicit()
    inspection = inspect(load, source, form)
    load.require_free()
    given = types_of(inspection)
    load.require_columns(given)
    load.create(given)
    return fill(load, inspection)


def inspect(load: Load, source: Files, form: str | None) -> Inspection:
    """Look at the files that a table is to be made of.

    Raises:
        GatewayError: 42501, 58P01, 22P04.
        UnsupportedError: 0A000 for files that have to be copied.
    """
    found = file_source(load.session, source, form)
    if found.format != FORMAT:
        raise UnsupportedError(
            f"files in format {found.format} are not supported in place", hint=HINT
        )
    return Inspection(found.files, _Watch(load))


@dataclass(frozen=True, slots=True)
class _Watch:
    """What an inspection tells a statement that waits for it."""

    load: Load

    def begin(self, phase: str, rows_total: int) -> None:
        self.load.progress.begin(phase, rows_total=rows_total)

    def seen(self, rows: int) -> None:
        self.load.call.running.check()
        self.load.progress.add_read(rows)


def types_of(inspection: Inspection) -> Mapping[str, str]:
    """Return the columns of files with their types in PostgreSQL, as SQL."""
    return {column.name: column.postgres_type for column in inspection.columns}


def fill(load: Load, inspection: Inspection) -> int:
    """Let files be the rows of the table that was made for them; return how many there are.

    Raises:
        GatewayError, UnsupportedError: As :func:`adopt`.
    """
    with load.new_table() as (table, version):
        _require_same_columns(table, inspection)
        _require_plain(table)
        key = [table.column(attnum).name for attnum in table.key]
        required = [column.name for column in table.columns if column.not_null]
        try:
            contents = inspection.examine(key, [*key, *required])
            inspection.require_sizes(table)
        except NullValueError as error:
            raise null_key(table, error.column) from None
        if not inspection.rows:
            return 0
        block = _first_block(load, table, len(inspection.files))
        warehouse = load.session.services.relations.warehouse
        borrowed = inspection.borrowed(version, contents, block)
        segment = adopted(warehouse, table, inspection, contents, borrowed)
        load.session.catalog.journals.publish(table.relid, version, [segment])
        if key and not contents.is_unique:
            load.require_key(table, inspection.rows)
    return inspection.rows


def _first_block(load: Load, table: JournalTable, files: int) -> int | None:
    """Take a block of identities for each file; None where rows have a key."""
    if table.key:
        return None
    if files > MOST_UNKEYED_FILES:
        raise UnsupportedError(
            f"more than {MOST_UNKEYED_FILES} files without key are not supported in place",
            hint=f"Say KEY and the columns that identify rows. {HINT}",
        )
    return residency.reserve_identities(load.session.catalog, table.relid, files)


def _require_same_columns(table: JournalTable, inspection: Inspection) -> None:
    """Refuse a table whose columns are not those of the files (42804)."""
    given = types_of(inspection)
    ours = {column.name: column for column in table.columns}
    for name in [*given, *ours]:
        if name not in ours or name not in given:
            where = "table" if name in given else "files"
            raise GatewayError(
                f'column "{name}" is missing in the {where}',
                sqlstate=codes.DATATYPE_MISMATCH,
                hint="A table and its files have the same columns, in any order.",
            )
        if ours[name].storage_name != name:
            raise UnsupportedError(f'a column named "{name}" is not supported in place', hint=HINT)
    for column in inspection.columns:
        found = ours[column.name]
        if (found.type_oid, found.typmod) != column.type_oid_and_typmod:
            raise GatewayError(
                f'column "{column.name}" has another type than in the files',
                sqlstate=codes.DATATYPE_MISMATCH,
                detail=f"In the files it is {column.postgres_type}.",
            )


def _require_plain(table: JournalTable) -> None:
    """Refuse what rows would have to be computed or checked for (0A000)."""
    for found, what in (
        (table.checks, "CHECK constraints"),
        (table.unique_keys, "unique constraints besides the primary key"),
        (table.referencing, "foreign keys"),
        ([column for column in table.columns if column.generated], "generated columns"),
    ):
        if found:
            raise UnsupportedError(
                f"{what} of tables that are made of files in place are not supported",
                hint="Add them with ALTER TABLE when the table is there.",
            )
