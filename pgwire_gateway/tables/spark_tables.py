"""CREATE TABLE in Spark's form: PostgreSQL makes the table, from a translation of the statement."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from catalog.errors import GatewayError
from catalog.extensions.convert import Files, Table
from catalog.extensions.create_table import SparkTable
from catalog.pg import sqlstate as codes
from catalog.session import names
from catalog.statements.splitting import RelationName
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.progress import ProgressReport
from pgwire_gateway.spark.file_inspection import Inspection
from pgwire_gateway.tables import adoptions, divisions
from pgwire_gateway.tables.loads import Load


class Run(Protocol):
    """Runs another statement as part of one."""

    def __call__(self, text: str, place: Callable[[int], int] | None = None) -> StatementResult:
        """Run a statement; ``place`` tells where positions of errors are in the other one."""


def create(call: Invocation, run: Run) -> StatementResult:
    """Run CREATE TABLE … USING, with its comments, and with the key of an option.

    Raises:
        GatewayError: PostgreSQL's own errors, 23502 and 23505 for a key that rows do not fit, 0A000
            for an order of rows that is not that of a key; those of CONVERT IN PLACE for files at a
            location.
    """
    session, details = call.session, call.statement.details
    table: SparkTable = details["table"]
    if "plain" in details and names.has_access_method(session.catalog, table.access_method):
        return run(details["plain"].text, lambda position: position)
    session.transaction.begin_implicit()
    if not table.is_temporary:
        names.require_unshadowed(session.catalog, RelationName(*table.relation))
    if table.location is not None:
        session.watch(call.running, call.statement.text)
        name = names.qualified(RelationName(*table.relation))
        with ProgressReport(call, "CREATE TABLE", table.location, name) as progress:
            return _of_files(call, run, table, table.location, progress)
    with session.notices() as notices:
        result = run(table.create.text, table.create.place)
    if _existed(notices):
        return result
    if table.later_key:
        name = names.qualified(RelationName(*table.relation))
        listed = ", ".join(map(names.quoted, table.later_key))
        run(f"ALTER TABLE {name} ADD PRIMARY KEY ({listed})")
    for comment in table.comments:
        run(comment)
    if table.sorted_by is not None:
        divisions.require_sorted(call, RelationName(*table.relation), table.sorted_by)
    if table.partitioned_by:
        divisions.divide(call, RelationName(*table.relation), table.partitioned_by)
    return result


def _of_files(
    call: Invocation, run: Run, table: SparkTable, location: str, progress: ProgressReport
) -> StatementResult:
    """Make a table whose rows are the files at a location."""
    deed = "CREATE TABLE ... LOCATION of"
    load = Load(call, run, progress, Table(table.relation), (), deed=deed)
    inspection = _inspected(load, table, location)
    with call.session.notices() as notices:
        if table.has_columns:
            result = run(table.create.text, table.create.place)
        else:
            given = adoptions.types_of(inspection)
            result = load.create(given, if_not_exists=table.if_not_exists)
    if _existed(notices):
        return result
    adoptions.fill(load, inspection)
    for comment in table.comments:
        run(comment)
    return result


def _existed(notices: Iterable[Mapping[str, str]]) -> bool:
    """Tell whether IF NOT EXISTS has found a table."""
    return any(fields.get("C") == codes.DUPLICATE_TABLE for fields in notices)


def _inspected(load: Load, table: SparkTable, location: str) -> Inspection:
    try:
        return adoptions.inspect(load, Files(location), table.access_method)
    except GatewayError as error:
        if error.sqlstate == codes.UNDEFINED_FILE:
            error.hint = "Leave LOCATION out for an empty table; the gateway chooses its place."
        raise
