"""NOT NULL and CHECK of tables that have rows already: each of the current rows is looked at."""

from collections.abc import Sequence

from catalog.errors import GatewayError
from catalog.model import JournalTable
from catalog.pg import sqlstate as codes
from catalog.results import PendingCheck
from catalog.session import names
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.statements import RunningStatement
from rewrite import row_constraints
from rewrite.errors import UnsupportedError
from rewrite.results import SparkQuery


class RowConstraints:
    """The constraints of a table that its current rows have to satisfy."""

    def __init__(self, session: ClientSession, relid: int, running: RunningStatement) -> None:
        """Look at the rows as the session's transaction sees them."""
        self._observer = Observer(session)
        self._relid = relid
        self._running = running

    def require_not_null(self, columns: Sequence[int]) -> None:
        """Refuse columns that are NULL in a row (23502)."""
        if not columns:
            return
        observation = self._observer.observe([self._relid])
        snapshot = observation.result.snapshots[self._relid]
        for attnum in columns:
            if self._has_row(row_constraints.compile_null(snapshot, attnum), observation):
                column, table = snapshot.table.column(attnum), snapshot.table
                raise GatewayError(
                    f'column "{column.name}" of relation "{table.name}" contains null values',
                    sqlstate=codes.NOT_NULL_VIOLATION,
                    fields=_fields(table, c=column.name),
                )

    def require_checks(self, checks: Sequence[PendingCheck]) -> None:
        """Refuse CHECK constraints that are false for a row (23514).

        Raises:
            UnsupportedError: Spark does not compute a constraint as PostgreSQL does.
        """
        if not checks:
            return
        observation = self._observer.observe([self._relid])
        snapshot = observation.result.snapshots[self._relid]
        table = snapshot.table
        for check in checks:
            constants = self._observer.constants(check.tree, observation)
            try:
                query = row_constraints.compile_violation(snapshot, check.tree, constants)
            except UnsupportedError as error:
                named = names.quoted(table.schema, table.name)
                error.hint = f"ALTER TABLE {named} SET (gateway.residency = always) first."
                raise
            if self._has_row(query, observation):
                raise GatewayError(
                    f'check constraint "{check.name}" of relation "{table.name}" '
                    "is violated by some row",
                    sqlstate=codes.CHECK_VIOLATION,
                    fields=_fields(table, n=check.name),
                )

    def _has_row(self, query: SparkQuery, observation: Observation) -> bool:
        with self._observer.run(query, observation, self._running) as batches:
            return any(batch.num_rows for batch in batches)


def _fields(table: JournalTable, **fields: str) -> dict[str, str]:
    return {"s": table.schema, "t": table.name} | fields
