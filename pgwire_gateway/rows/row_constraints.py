"""NOT NULL and CHECK of tables that have rows already: each of the current rows is looked at."""

from collections.abc import Sequence
from functools import cached_property

from catalog.errors import GatewayError
from catalog.model import JournalTable, TableSnapshot
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

    @cached_property
    def _seen(self) -> tuple[TableSnapshot, Observation]:
        """The table, asked for once for all constraints."""
        observation = self._observer.observe([self._relid])
        return observation.result.snapshots[self._relid], observation

    def require_not_null(self, columns: Sequence[int]) -> None:
        """Refuse columns that are NULL in a row (23502)."""
        for attnum in columns:
            snapshot, observation = self._seen
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
        for check in checks:
            snapshot, observation = self._seen
            table = snapshot.table
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
