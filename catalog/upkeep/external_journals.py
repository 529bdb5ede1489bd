"""What the bookkeeping is told of journals of others."""

import json
from dataclasses import asdict

from catalog.bookkeeping import calls as bookkeeping
from catalog.model import ExternalJournal
from catalog.session.connections import CatalogSession


def make_external(session: CatalogSession, relid: int, external: ExternalJournal) -> None:
    """Let a tiered table without rows stand for a journal of others.

    Raises:
        CatalogError: 55000 for another one, 42501 for that of another owner, 0A000 for constraints
            that are not kept.
    """
    session.call(
        bookkeeping.MAKE_EXTERNAL, str(relid).encode(), json.dumps(asdict(external)).encode()
    )


def forget_written(session: CatalogSession, relid: int) -> None:
    """Forget what a statement has written, once it has been appended to the journal."""
    session.call(bookkeeping.SHIPPED, str(relid).encode())


def are_writes_immediate(session: CatalogSession) -> bool:
    """Return whether the client wants writes that no ROLLBACK undoes in transaction blocks."""
    query = "SELECT current_setting('gateway.external_writes', true)"
    ((value,),) = session.execute(query).rows
    return value == b"immediate"
