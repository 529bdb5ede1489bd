"""What upkeep is doing with a table, noted where clients can see it (``gateway.maintenance``)."""

from types import TracebackType
from typing import Final, Self

from catalog.errors import CatalogError, CatalogUnavailableError, GatewayError
from catalog.pg.sqlstate import INTERNAL_ERROR
from catalog.pg.types import FLOAT8, INT8, OID, TEXT
from catalog.session.connections import CatalogSession

FLUSH: Final = "flush"
COMPACTION: Final = "compaction"
COOLING: Final = "cooling"
CHECKING: Final = "comparing hot rows"
FREEZE: Final = "becoming tiered"
THAW: Final = "becoming resident"


class Work:
    """Work on one table; noted as failed when an error ends it, which ends its transaction too.

    Each note is a transaction of its own, on a session that is in none.
    """

    def __init__(self, session: CatalogSession, relid: int, name: str) -> None:
        """Take an administrator's session."""
        self.pause_s: float | None = None
        """After what time it is tried again when it fails; None: with the next visit."""
        self._session = session
        self._relid = relid
        self._name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, CatalogUnavailableError):
            return
        failure = None
        if error is not None:
            self._session.transaction.rollback()
            failure = error.sqlstate if isinstance(error, GatewayError) else INTERNAL_ERROR
        values = (
            None if failure is None else failure.encode(),
            None if error is None or self.pause_s is None else str(self.pause_s).encode(),
        )
        _note(
            self._session,
            "SELECT pg_journal.note_end($1, $2, $3)",
            self._relid,
            *zip(values, (TEXT, FLOAT8), strict=True),
        )

    def begin(self, phase: str, rows: int | None = None) -> None:
        """Note what is done now, and with how many rows, where that is known."""
        values = (self._name.encode(), phase.encode(), None if rows is None else str(rows).encode())
        _note(
            self._session,
            "SELECT pg_journal.note_work($1, $2, $3, $4)",
            self._relid,
            *zip(values, (TEXT, TEXT, INT8), strict=True),
        )


def _note(session: CatalogSession, sql: str, relid: int, *values: tuple[bytes | None, int]) -> None:
    """Run a statement that notes something; what could not be noted keeps nobody from working."""
    if session.transaction_status != "I":
        return
    try:
        result = session.execute_parameters(
            sql,
            [str(relid).encode(), *(value for value, _ in values)],
            parameter_oids=[OID, *(type_oid for _, type_oid in values)],
        )
        for _ in result.rows:
            pass
    except CatalogError:
        session.transaction.rollback()
