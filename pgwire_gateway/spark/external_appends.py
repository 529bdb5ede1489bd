"""Row versions as they are appended to a journal of others: in its columns, with its numbers.

The number of a row version is larger than any that the row had: the moment of the write, or one
more than the largest, where numbers are counted or a clock elsewhere is ahead.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from catalog.failpoints import Failpoint, reach
from catalog.journal.layout import SUBSEQUENT, VERSION, column_name
from catalog.model import ExternalJournal, JournalTable, TableSnapshot
from pgwire_gateway.spark import databases
from pgwire_gateway.spark.api import Frame, Session, Writing
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.executor import failures
from pgwire_gateway.spark.external_frames import JDBC, TABLE, column_names
from pgwire_gateway.spark.file_sources import quoted, write_options
from pgwire_gateway.spark.relations import Relation, Relations
from pgwire_gateway.spark.settings import SessionKind
from pgwire_gateway.spark.staging import Staging
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.temporary_views import viewed
from pgwire_gateway.spark.warehouse import synchronise
from pgwire_gateway.wire_types.type_oids import INT2, INT4, INT8, TEXT, VARCHAR
from rewrite.errors import UnsupportedError
from rewrite.results import Source, SourcePart

_STAGING: Final = ".pgwire-"
"""What names of directories begin with that nobody reads."""
_FEW_ROWS: Final = 1000
"""Versions of so many rows are looked for by their keys."""
_PLAIN: Final = frozenset({INT2, INT4, INT8, TEXT, VARCHAR})
"""Types of keys whose values Spark takes as they are."""
_MANY_ROWS: Final = 100_000
"""More rows are computed by several tasks before one writes them."""


def append(  # noqa: PLR0913 - all that one append is about
    relations: Relations,
    snapshot: TableSnapshot,
    tail: pa.Table | None,
    statement: RunningStatement,
    require: Callable[[], None],
    *,
    ends_rows: bool,
) -> None:
    """Append what a transaction has written to the journal of others that it belongs to.

    All of it is there when this returns, or nothing.

    Args:
        relations: What makes DataFrames of journals.
        snapshot: What the transaction sees of the table; the row versions that are not outside are
            its own, with the moment of the write as their version.
        tail: Those that are in the tail.
        statement: The statement.
        require: Raises where nothing may be appended after all; called just before it is seen.
        ends_rows: Whether there may be tombstones among them, which have the values of the row.

    Raises:
        GatewayError: 53100 when the disk is full, 58030 for other failures of storage, 57014 when
            cancelled, what another database refuses, and what `require` raises.
    """
    table = snapshot.table
    external = table.external
    if external is None:
        raise TypeError(table)
    rows = snapshot.tail_rows + snapshot.stored_rows
    kind = SessionKind.SMALL if rows <= _MANY_ROWS else SessionKind.LARGE
    session = relations.engine.sessions(statement.check).of_kind(kind)
    driver = session.driver
    with failures(relations.engine, driver, statement):
        group = statement.begin(driver)
        session.enter(group)
        source = Source(table.relid, SourcePart.JOURNAL, "")
        written = Relation(source, replace(snapshot, outside=None), lambda: tail)

        def framed(relation: Relation) -> Frame:
            return relations.frame(relation, driver, kind)

        if external.is_plain:
            frame = framed(written).select(_stored(session, table))
        else:
            frame = _versions(framed, session, written, snapshot, ends_rows=ends_rows)
        _written_out(external, frame, require, relations.warehouse.staging)
        statement.end(group)


def _written_out(
    external: ExternalJournal, frame: Frame, require: Callable[[], None], staging: Staging
) -> None:
    """Append rows that have all columns of the journal or table."""
    if external.format not in {JDBC, TABLE}:
        _append_file(external, frame, require, staging)
        return
    require()
    if external.format == JDBC:
        databases.append(external, frame)
    else:
        frame.coalesce(1).insert_into(external.location)


def _stored(session: Session, table: JournalTable) -> list[str]:
    """Return expressions for the columns of a table of others, in its order."""
    if table.external is None:
        raise TypeError(table)
    numbers = {column.storage_name: column_name(column.attnum) for column in table.columns}
    return [
        f"CAST({numbers[name]} AS {kind}) AS {quoted(name)}"
        for name, kind in session.types(table.external.schema)
    ]


def _versions(
    framed: Callable[[Relation], Frame],
    session: Session,
    written: Relation,
    snapshot: TableSnapshot,
    *,
    ends_rows: bool,
) -> Frame:
    """Return row versions in the columns of the journal, with numbers larger than those it has."""
    tail = written.tail()
    outside = replace(snapshot, segments=(), tail_rows=0)
    before = replace(written, snapshot=outside, tail=lambda: None)
    frames = {"written": framed(written), "journal": framed(before)}
    if not snapshot.segments and tail is not None:
        frames["journal"] = _of_keys(frames["journal"], snapshot.table, tail)
    with viewed(session, frames) as views:
        names = views["written"], views["journal"]
        return session.query(_numbered(session, snapshot.table, *names, ends_rows=ends_rows))


def _of_keys(journal: Frame, table: JournalTable, rows: pa.Table) -> Frame:
    """Leave out what cannot be versions of these rows, where they are few.

    A semi join would come after all has been read; this reaches the scan.
    """
    if rows.num_rows > _FEW_ROWS:
        return journal
    for attnum in table.key:
        if table.column(attnum).type_oid in _PLAIN:
            name = column_name(attnum)
            journal = journal.among(name, rows.column(name).unique().to_pylist())
    return journal


def _numbered(
    session: Session, table: JournalTable, written: str, journal: str, *, ends_rows: bool
) -> str:
    """Return the query for row versions in the columns of the journal."""
    external = table.external
    if external is None:
        raise TypeError(table)
    keys = [column_name(attnum) for attnum in table.key]
    same = " AND ".join(f"w.{key} = j.{key}" for key in keys)
    number = "coalesce(j.latest, 0) + 1"
    if not external.counts:
        number = f"greatest(w.{VERSION}, j.latest + INTERVAL '0.000001' SECOND)"
    types = dict(session.types(external.schema))
    others = [c for c in table.columns if c.attnum not in table.key] if ends_rows else []
    stored = {column.storage_name: f"w.{column_name(column.attnum)}" for column in table.columns}
    stored |= {
        column.storage_name: f"CASE WHEN w.{SUBSEQUENT} IS NULL THEN w.{name}"
        f" ELSE j.last.{name} END"
        for column in others
        for name in [column_name(column.attnum)]
    }
    stored[external.version] = number
    stored[external.subsequent] = f"CASE WHEN w.{SUBSEQUENT} IS NOT NULL THEN {number} END"
    items = ", ".join(
        f"CAST({stored[name]} AS {kind}) AS {quoted(name)}" for name, kind in types.items()
    )
    last = ", ".join(column_name(column.attnum) for column in others)
    last = f", max_by(struct({last}), {VERSION}) AS last" if others else ""
    latest = (
        f"SELECT {', '.join(keys)}, max({VERSION}) AS latest{last} FROM {journal} j"  # noqa: S608
        f" LEFT SEMI JOIN {written} w ON {same} GROUP BY {', '.join(keys)}"
    )
    return f"SELECT {items} FROM {written} w LEFT JOIN ({latest}) j ON {same}"  # noqa: S608


def _append_file(
    external: ExternalJournal, frame: Frame, require: Callable[[], None], staging: Staging
) -> None:
    """Write one file beside the directory's others, under a name that nobody reads, and rename it.

    One, so that there are all rows of it or none, whatever happens.
    """
    directory = Path(external.location)
    _require_lines(external, frame)
    with staging.outside(directory, _STAGING) as place:
        options = write_options(external.format)
        frame.coalesce(1).write(Writing(external.format, f"file://{place}", options))
        with storage_failures():
            (part,) = [file for file in place.iterdir() if file.name.startswith("part-")]
            synchronise(part)
            reach(Failpoint.APPEND_WRITTEN)
            require()
            part.rename(directory / part.name)
            synchronise(directory)


def _require_lines(external: ExternalJournal, frame: Frame) -> None:
    """Refuse NULL in CSV of one column (0A000): Spark writes no line for it, and reads none."""
    name, *others = column_names(external)
    if external.format != "csv" or others:
        return
    if frame.where(f"{quoted(name)} IS NULL").limit(1).count():
        raise UnsupportedError(
            f'NULL in column "{name}", the only one of CSV files, is not supported',
            hint="It would be a blank line. Keep the table in JSON or Parquet.",
        )
