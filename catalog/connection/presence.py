"""Keeps a session's backend at work while others work for the session.

PostgreSQL takes a session for idle that asks nothing of it: time-outs of idle sessions end it, and
there is nothing to cancel. So the backend is made to sleep, within a transaction or a savepoint of
its own that leaves no trace. It sleeps under the client's text, as ``pg_stat_activity`` shows.
"""

from typing import Final

from psycopg import pq

from catalog.connection.libpq_results import OK
from catalog.connection.link import Link
from catalog.connection.pipelines import Pipelines
from catalog.connection.steps import Query, Step
from catalog.errors import CatalogError, error_of

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

_RETRY_MS: Final = 1_000
"""After what time a backend that sleeps on is cancelled again."""


class Presence:
    """The sleep of one backend, from which it is woken, or by which it is ended."""

    def __init__(self, link: Link, pipelines: Pipelines) -> None:
        self._link = link
        self._pipelines = pipelines
        self.status = ""
        """The transaction's status while the backend sleeps; else empty."""

    def begin(self, text: str) -> bool:
        """Let the backend sleep under a client's text, unless it is at work.

        For whoever holds the lock.

        Returns:
            Whether it sleeps.
        """
        link = self._link
        idle = (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS)
        if not link.relayed_status and link.connection.transaction_status not in idle:
            return False
        status = link.transaction_status
        if status == "E":
            return False
        try:
            self._pipelines.run(_entering(status))
        except CatalogError:
            self._pipelines.run(_leaving(status))
            return False
        # The client may have had another encoding when it sent the text.
        shown = text[:_SHOWN]
        if link.encoding.is_converted:
            shown = shown.encode(link.encoding.codec, "replace").decode(link.encoding.codec)
        link.send_text(_sleeping(shown))
        self.status = status
        link.flush()
        return True

    def end(self) -> None:
        """Wake the backend if it sleeps; for whoever holds the lock."""
        if not self.status:
            return
        link = self._link
        link.cancel()
        while link.connection.is_busy():
            if link.wait_readable(_RETRY_MS):
                link.consume()
            else:
                link.cancel()
        self._woken()

    def interruption(self, timeout_s: float) -> CatalogError | None:
        """Wait until somebody ends the sleep, and return how; None if nobody.

        For the thread that has put it to sleep.
        """
        link = self._link
        if not link.wait_beside(timeout_s):
            return None
        with link.lock:
            if not self.status:
                return None
            try:
                link.consume()
                if link.connection.is_busy():
                    return None
                return self._woken()
            except CatalogError as error:
                return error

    def _woken(self) -> CatalogError | None:
        """Take the answer of the backend that slept, and leave the transaction as it was."""
        status, self.status = self.status, ""
        result = self._link.fetch()
        self._link.drain()
        self._pipelines.run(_leaving(status))
        if result is None or result.status in OK:
            return None
        return error_of(self._link.messages.fields(result))


def _entering(status: str) -> list[Step]:
    """Return the steps before the backend sleeps, by the transaction's status."""
    begin = "BEGIN" if status == "I" else f"SAVEPOINT {_SAVEPOINT}"
    return [Query(text, internal=True) for text in (begin, *_SETTINGS)]


def _leaving(status: str) -> list[Step]:
    """Return the steps after which nothing is left of it."""
    if status == "I":
        return [Query("ROLLBACK", internal=True)]
    ends = (f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}", f"RELEASE SAVEPOINT {_SAVEPOINT}")
    return [Query(text, internal=True) for text in ends]


def _sleeping(text: str) -> str:
    """Return the statement that sleeps, which shows a client's text first."""
    shown = text[:_SHOWN].replace("/*", "/ *").replace("*/", "* /")
    return f"/* {shown} */ SELECT pg_catalog.pg_sleep({_LONGEST_S})"
