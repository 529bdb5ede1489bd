"""NOT NULL and CHECK of tables that have rows already: each of the current rows is looked at."""

from collections.abc import Callable, Iterable

from catalog.errors import GatewayError
from catalog.model import TableSnapshot
from catalog.pg import sqlstate as codes
from catalog.results import PendingCheck
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.statements import RunningStatement
from rewrite import row_constraints
from rewrite.results import SparkQuery


def require_not_null(
    session: ClientSession, relid: int, running: RunningStatement, columns: Iterable[int]
) -> None:
    """Refuse columns that are NULL in current rows of a table (23502)."""
    for attnum in columns:

        def query(snapshot: TableSnapshot, attnum: int = attnum) -> SparkQuery:
            return row_constraints.compile_null(snapshot, attnum)

        found = _first_with(session, relid, running, query)
        if found is not None:
            column, table = found.table.column(attnum), found.table
            raise GatewayError(
                f'column "{column.name}" of relation "{table.name}" contains null values',
                sqlstate=codes.NOT_NULL_VIOLATION,
                fields={"s": table.schema, "t": table.name, "c": column.name},
            )


def require_checks(
    session: ClientSession,
    relid: int,
    running: RunningStatement,
    checks: Iterable[PendingCheck],
) -> None:
    """Refuse CHECK constraints that are false for current rows of a table (23514).

    Raises:
        UnsupportedError: Spark does not compute a constraint as PostgreSQL does.
    """
    for check in checks:

        def query(snapshot: TableSnapshot, check: PendingCheck = check) -> SparkQuery:
            return row_constraints.compile_violation(snapshot, check.tree)

        found = _first_with(session, relid, running, query)
        if found is not None:
            table = found.table
            raise GatewayError(
                f'check constraint "{check.name}" of relation "{table.name}" '
                "is violated by some row",
                sqlstate=codes.CHECK_VIOLATION,
                fields={"s": table.schema, "t": table.name, "n": check.name},
            )


def _first_with(
    session: ClientSession,
    relid: int,
    running: RunningStatement,
    compiled: Callable[[TableSnapshot], SparkQuery],
) -> TableSnapshot | None:
    """Return the table where a query of it has a row."""
    observer = Observer(session)
    observation = observer.observe([relid])
    snapshot = observation.result.snapshots[relid]
    with observer.run(compiled(snapshot), observation, running) as batches:
        return snapshot if any(batch.num_rows for batch in batches) else None
