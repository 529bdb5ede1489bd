"""Keeps a session's backend at work while others work for the session.

PostgreSQL takes a session for idle that asks nothing of it: time-outs of idle sessions end it, and
there is nothing to cancel. So the backend is made to sleep, within a transaction or a savepoint of
its own that leaves no trace. It sleeps under the client's text, as ``pg_stat_activity`` shows.
"""

from typing import Final

from catalog.connection.steps import Query, Step

_SAVEPOINT: Final = "pgwire_presence"

_SETTINGS: Final = (
    # The statement's own limit began with the statement, and is not PostgreSQL's to keep.
    "SET LOCAL statement_timeout = 0",
    # A backend whose gateway has been killed must not keep its locks.
    "SET LOCAL client_connection_check_interval = '2s'",
)

_LONGEST_S: Final = 10_000_000

_SHOWN: Final = 8_192
"""Characters of the client's text that are sent; PostgreSQL keeps 1,024 bytes if not told else."""

RETRY_MS: Final = 1_000
"""After what time a backend that sleeps on is cancelled again."""


def entering(status: str) -> list[Step]:
    """Return the steps before the backend sleeps, by the transaction's status."""
    begin = "BEGIN" if status == "I" else f"SAVEPOINT {_SAVEPOINT}"
    return [Query(text, internal=True) for text in (begin, *_SETTINGS)]


def leaving(status: str) -> list[Step]:
    """Return the steps after which nothing is left of it."""
    if status == "I":
        return [Query("ROLLBACK", internal=True)]
    ends = (f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}", f"RELEASE SAVEPOINT {_SAVEPOINT}")
    return [Query(text, internal=True) for text in ends]


def sleeping(text: str) -> str:
    """Return the statement that sleeps, which shows a client's text first."""
    shown = text[:_SHOWN].replace("/*", "/ *").replace("*/", "* /")
    return f"/* {shown} */ SELECT pg_catalog.pg_sleep({_LONGEST_S})"
