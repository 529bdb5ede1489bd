"""A client's messages passed to PostgreSQL as they are, with what proves that they may be.

What is passed on, and which checks follow it, is decided elsewhere.
"""

from collections.abc import Iterable

from catalog.bookkeeping import proofs
from catalog.bookkeeping.calls import Bookkeeping
from catalog.bookkeeping.proofs import NO_CHECKS, Checks, Proof
from catalog.connection.backend import Backend
from catalog.connection.relay import Batch, Reply, Sink
from catalog.pg import sqlstate
from catalog.results import Basis


class MessageRelay:
    """Messages of the client of one session, passed through."""

    def __init__(self, backend: Backend, calls: Bookkeeping) -> None:
        """Pass them on by a connection, whose calls have been prepared beside them."""
        self._backend = backend
        self._calls = calls

    @property
    def is_usable(self) -> bool:
        """Whether the backend's socket can be used beside libpq."""
        return self._backend.relays

    def proof(self, basis: Basis, names: Iterable[str], *, lasting: bool = False) -> Proof | None:
        """Return what proves this basis of a statement that names these relations, as SQL."""
        return proofs.proof_of(basis, list(names), self._backend.codec, lasting=lasting)

    def exchange(  # noqa: PLR0913 - a batch has this many parts
        self,
        messages: bytes,
        answers: int,
        checks: Checks = NO_CHECKS,
        *,
        before: bytes = b"",
        simple: bool = False,
        sink: Sink,
    ) -> Reply:
        """Pass a client's messages to PostgreSQL, checks after them, all up to one Sync.

        Args:
            messages: The client's messages.
            answers: Their number.
            checks: What follows them.
            before: One message of our own that has to come before, or nothing.
            simple: Whether the client sent a Query.
            sink: What takes answers that are too many to wait for the checks.
        """
        calls = self._calls
        leading = 1 if before else 0
        data = before + messages + checks.execute
        missing = checks.names - calls.prepared
        parses = {}
        if missing:
            parses = {check.name: check.parse for check in checks.each if check.name in missing}
            leading += len(parses)
            data = b"".join(parses.values()) + data
        batch = Batch(data, leading, answers, checks.expected, simple)
        reply = self._backend.exchange(batch, sink)
        for name in list(parses)[: reply.led]:
            calls.note_prepared(name)
        if reply.error is not None and checks.names and not reply.confirmed:
            self._note_dropped(reply, checks, leading=leading, answers=answers)
        return reply

    def _note_dropped(self, reply: Reply, checks: Checks, *, leading: int, answers: int) -> None:
        """Note what the client has dropped, or made, of the statements that are ours."""
        code = reply.code
        if reply.led < leading and code == sqlstate.DUPLICATE_PSTATEMENT:
            for name in checks.names:
                self._calls.note_prepared(name)
        elif reply.answered == answers and code == sqlstate.INVALID_SQL_STATEMENT_NAME:
            for name in checks.names:
                self._calls.note_dropped(name)
