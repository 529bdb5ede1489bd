"""The step of a pipeline whose rows are held while the other steps are run."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from psycopg.pq.abc import PGresult

from catalog.connection.steps import Execute, Query
from catalog.connection.tuple_stores import TupleStore
from catalog.errors import CatalogError
from catalog.pg import sqlstate
from catalog.results import Row


@dataclass(slots=True)
class HeldStep:
    """The one step of a pipeline that may return very many rows, and what has become of them."""

    step: Query | Execute
    rows: Iterator[Row] = field(default_factory=lambda: iter(()))
    """Its rows, once it has been run."""
    unheld: CatalogError | None = None
    """Why they could not be held."""

    def settle(self, last: PGresult, *, is_done: bool) -> None:
        """Forget the rows where an error is all that is told of the pipeline.

        Args:
            last: The last result of the pipeline.
            is_done: Whether no step has failed.

        Raises:
            CatalogError: Why they could not be held; 40003 where the statement is committed.
        """
        if not is_done and isinstance(self.rows, TupleStore):
            self.rows.close()
        if self.unheld is None:
            return
        if last.command_status != b"COMMIT":
            raise self.unheld
        raise CatalogError(
            self.unheld.message,
            sqlstate=sqlstate.STATEMENT_COMPLETION_UNKNOWN,
            detail="The transaction was committed before its rows were taken.",
        )
