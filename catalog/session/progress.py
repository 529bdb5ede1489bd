"""How far long statements are, noted where clients can see it (``gateway.progress``)."""

import json
from dataclasses import asdict, dataclass

from catalog.errors import CatalogError
from catalog.pg.types import INT4, JSON
from catalog.session.connections import CatalogSession


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a statement is; None for what is not known, or means nothing in its phase."""

    command: str
    source: str
    target: str
    phase: str
    seconds: float
    """Since the statement began."""
    rows_read: int | None = None
    rows_written: int | None = None
    rows_total: int | None = None
    tasks_done: int | None = None
    tasks_total: int | None = None


def note(session: CatalogSession, backend: int, progress: Progress) -> None:
    """Note how far the statement of another session is.

    Args:
        session: An administrator's session, in no transaction.
        backend: Process id of the other session's backend.
        progress: How far it is.
    """
    values = [str(backend).encode(), json.dumps(asdict(progress)).encode()]
    _run(session, "SELECT pg_journal.note_progress($1, $2)", values, [INT4, JSON])


def end(session: CatalogSession, backend: int) -> None:
    """Note that the statement of another session is over."""
    _run(session, "SELECT pg_journal.end_progress($1)", [str(backend).encode()], [INT4])


def _run(session: CatalogSession, sql: str, values: list[bytes], types: list[int]) -> None:
    """Run a statement that notes something; what could not be noted keeps nobody from working."""
    try:
        for _ in session.execute_parameters(sql, values, parameter_oids=types).rows:
            pass
    except CatalogError:
        session.transaction.rollback()
