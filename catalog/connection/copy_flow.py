"""The data of a COPY on their way to the server and from it."""

from collections.abc import Iterator
from typing import Final

from psycopg import pq
from psycopg.pq.abc import PGresult

from catalog.connection.link import Link
from catalog.connection.turns import Turns
from catalog.errors import CatalogError
from catalog.pg import sqlstate

_FLUSH_BYTES: Final = 1 << 20


class CopyFlow:
    """Copy-in and copy-out mode of one connection."""

    def __init__(self, link: Link, turns: Turns) -> None:
        self._link = link
        self._turns = turns

    def start(self, sql: str, *, is_own: bool) -> PGresult:
        """Run a COPY statement up to the point where data flow.

        Args:
            sql: The statement.
            is_own: Whether errors and notices are not to tell that there is a COPY.
        """
        link = self._link
        with link.lock:
            self._turns.take()
            link.messages.hides_copy = is_own
            link.connection.send_query(link.encoding.encode(sql))
            link.note_use()
            link.flush()
            result = link.fetch()
            if result is None:
                raise link.messages.lost()
            if result.status not in {pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT}:
                link.drain()
                link.messages.check(result, internal=False)
                raise CatalogError("COPY did not start", sqlstate=sqlstate.PROTOCOL_VIOLATION)
            return result

    def put(self, data: bytes) -> None:
        """Send data of a COPY FROM STDIN."""
        link = self._link
        for start in range(0, len(data), _FLUSH_BYTES):
            piece = data if len(data) <= _FLUSH_BYTES else data[start : start + _FLUSH_BYTES]
            while link.guard(link.connection.put_copy_data, piece) == 0:
                link.flush()
            link.flush()

    def end(self, error: str | None) -> str:
        """End a COPY FROM STDIN, or make it fail, and return the command tag."""
        link = self._link
        message = None if error is None else error.encode(link.encoding.codec, "replace")
        while link.guard(link.connection.put_copy_end, message) == 0:
            link.flush()
        link.flush()
        return self.finish()

    def data(self) -> Iterator[bytes]:
        """Return the data of a COPY TO STDOUT by message; it is cancelled if not all are taken."""
        link = self._link
        finished = False
        try:
            while True:
                count, data = link.guard(link.connection.get_copy_data, 1)
                if count == 0:
                    link.wait_readable()
                    link.consume()
                elif count < 0:
                    break
                else:
                    yield bytes(data)
            finished = True
        finally:
            if not finished:
                link.cancel()
                with link.lock:
                    while link.connection.get_copy_data(0)[0] > 0:
                        pass
                    link.drain()

    def finish(self) -> str:
        """Return the command tag after the last data."""
        link = self._link
        with link.lock:
            try:
                result = link.fetch()
                if result is None:
                    raise link.messages.lost()
                link.drain()
                link.messages.deliver_notifications()
                link.messages.check(result, internal=False)
            finally:
                link.messages.hides_copy = False
            return link.encoding.decode(result.command_status or b"")
