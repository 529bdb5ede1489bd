"""Results whose rows are fetched while they are iterated."""

from collections.abc import Iterator

from psycopg import pq
from psycopg.pq.abc import PGresult

from catalog.connection.libpq_results import CHUNK_ROWS, OK, columns_of, rows_of
from catalog.connection.link import Link
from catalog.connection.steps import Execute, Query, Step
from catalog.connection.turns import Turns
from catalog.pg.text_codecs import UTF8
from catalog.results import LocalResult, Row


class Streams:
    """The streamed results of one connection, of which the last one can have rows to come."""

    def __init__(self, link: Link, turns: Turns) -> None:
        self._link = link
        self._turns = turns

    def open(self, step: Query | Execute) -> LocalResult:
        """Run one step and return its answer with the first of its rows at hand.

        For whoever holds the lock and has taken a turn.
        """
        link = self._link
        if isinstance(step, Query) and step.is_plain:
            # The simple query protocol spares PostgreSQL the messages of the extended one.
            link.send_text(step.sql)
        else:
            link.send(step)
        wanted = step.chunk_rows if isinstance(step, Query) else None
        link.connection.set_chunked_rows_mode(wanted or CHUNK_ROWS)
        first = link.fetch()
        if first is None:
            raise link.messages.lost()
        if first.status not in OK:
            link.drain()
            link.messages.deliver_notifications()
            link.messages.check(first, internal=step.internal)
        has_rows = first.status in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.TUPLES_CHUNK}
        answer = LocalResult(
            columns=columns_of(first, link.encoding.codec) if has_rows else None,
            rows=iter(()),
            format_code=first.fformat(0) if has_rows and first.nfields else 0,
        )
        if first.status != pq.ExecStatus.TUPLES_CHUNK:
            link.drain()
            link.messages.deliver_notifications()
            answer.command_tag = link.encoding.decode(first.command_status or b"")
            answer.rows = iter(rows_of(first))
        else:
            self._turns.leave_unread(answer)
            answer.rows = self._rows(first, answer, step)
        return answer

    def taken(self, result: PGresult, rows: Iterator[Row]) -> LocalResult:
        """Return the answer of a step of our own, whose rows have been taken."""
        has_rows = result.status in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.TUPLES_CHUNK}
        return LocalResult(
            columns=columns_of(result, UTF8) if has_rows else None,
            rows=rows,
            format_code=result.fformat(0) if has_rows and result.nfields else 0,
            command_tag=(result.command_status or b"").decode(),
        )

    def _rows(self, result: PGresult | None, answer: LocalResult, step: Step) -> Iterator[Row]:
        link, turns = self._link, self._turns
        try:
            while result is not None and turns.is_unread(answer):
                if result.status not in OK:
                    turns.take()
                    link.messages.check(result, internal=step.internal)
                # libpq puts the tag on the last chunk, or on the empty result after a full one.
                if result.command_status:
                    answer.command_tag = link.encoding.decode(result.command_status)
                yield from rows_of(result)
                # Its rows may be long, and go before others come.
                result = None
                with link.lock:
                    if turns.is_unread(answer):
                        result = link.fetch()
        finally:
            with link.lock:
                if turns.is_unread(answer):
                    turns.take()
                    link.messages.deliver_notifications()
