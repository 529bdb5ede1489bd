"""What is asked of PostgreSQL over one connection: its parts under one name.

Knows PostgreSQL's protocol flow and nothing of journals.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from psycopg.pq.abc import PGconn, PGresult

from catalog.connection.copy_flow import CopyFlow
from catalog.connection.due_steps import DueSteps
from catalog.connection.held_steps import HeldStep
from catalog.connection.libpq_results import columns_of
from catalog.connection.link import Link
from catalog.connection.own_texts import is_in_utf8
from catalog.connection.parameter_statuses import ParameterStatuses
from catalog.connection.pipelines import Pipelines
from catalog.connection.presence import Presence
from catalog.connection.relay import Batch, Relay, Reply, Sink
from catalog.connection.steps import COMMIT, Close, Execute, Query, Step, require_sendable
from catalog.connection.streams import Streams
from catalog.connection.turns import Turns
from catalog.errors import CatalogError, CatalogUnavailableError
from catalog.failpoints import Failpoint, reach
from catalog.pg.text_codecs import UTF8
from catalog.results import LocalResult, Notification, ResultColumn
from catalog.server.closing import finish


class Backend:
    """One libpq connection.

    It belongs to one thread; only ``cancel`` and ``stand_in`` are called from others, the latter
    while that thread asks nothing of it.
    """

    def __init__(self, connection: PGconn) -> None:
        self._link = link = Link(connection)
        self._statuses = ParameterStatuses(connection, link.encoding)
        # TLS and GSSAPI have a layer of their own between libpq and the socket.
        plain = not connection.ssl_in_use and not connection.used_gssapi
        self._relay = Relay(connection) if plain else None
        self._due = DueSteps()
        self._pipelines = Pipelines(link)
        self._presence = Presence(link, self._pipelines)
        self._turns = Turns(link, self._pipelines, self._presence, self._due)
        self._streams = Streams(link, self._turns)
        self._copies = CopyFlow(link, self._turns)

    # state ----------------------------------------------------------------------------------------

    @property
    def process_id(self) -> int:
        """Process id of the server's process."""
        return self._link.process_id

    @property
    def uses(self) -> int:
        """How often something was asked of the server."""
        return self._turns.uses

    @property
    def transaction_status(self) -> str:
        """'I', 'T' or 'E', as in ReadyForQuery.

        Raises:
            CatalogUnavailableError: when the connection is gone.
        """
        with self._link.lock:
            if self._due.begins:
                return "T"
            return self._presence.status or self._link.transaction_status

    @property
    def codec(self) -> str:
        """Python's name of the client encoding."""
        return self._link.encoding.codec

    @property
    def is_converted(self) -> bool:
        """Whether the server converts texts of the client."""
        return self._link.encoding.is_converted

    def parameter_statuses(self) -> dict[str, str]:
        """Return every reported setting; the same mapping again until one changes."""
        return self._statuses.read() if self._link.is_used else self._statuses.known

    def encode(self, text: str) -> bytes:
        """Encode text for the server in the client encoding."""
        return self._link.encoding.encode(text)

    def decode(self, data: bytes) -> str:
        """Decode text of the server from the client encoding."""
        return self._link.encoding.decode(data)

    def columns(self, result: PGresult, *, is_clients: bool = False) -> tuple[ResultColumn, ...]:
        """Return the row description of what a step has answered, of ours or of the client's."""
        return columns_of(result, self.codec if is_clients else UTF8)

    # messages -------------------------------------------------------------------------------------

    @property
    def on_notice(self) -> Callable[[Mapping[str, str]], None]:
        """Called with the fields of each notice."""
        return self._link.messages.on_notice

    @on_notice.setter
    def on_notice(self, receiver: Callable[[Mapping[str, str]], None]) -> None:
        self._link.messages.on_notice = receiver

    @property
    def on_notification(self) -> Callable[[Notification], None]:
        """Called with each notification."""
        return self._link.messages.on_notification

    @on_notification.setter
    def on_notification(self, receiver: Callable[[Notification], None]) -> None:
        self._link.messages.on_notification = receiver

    def wait_notifications(self, timeout_s: float) -> None:
        """Deliver notifications that arrive within the time."""
        self._link.messages.deliver_notifications()
        if self._link.wait_readable(timeout_s * 1000):
            self._link.consume()
            self._link.messages.deliver_notifications()

    # requests -------------------------------------------------------------------------------------

    @property
    def relays(self) -> bool:
        """Whether messages can be passed through."""
        return self._relay is not None

    def exchange(self, batch: Batch, sink: Sink) -> Reply:
        """Pass messages through up to ReadyForQuery; see `Relay.exchange`."""
        link = self._link
        if self._relay is None:
            raise link.messages.lost()
        with link.lock:
            self._turns.take()
            if link.is_used:
                # What came unasked must not be left half read.
                link.consume()
                link.messages.deliver_notifications()
                self.parameter_statuses()
            link.note_relayed("T", is_used=link.is_used)
            reply = self._relay.exchange(batch, sink)
            link.note_relayed(reply.status, is_used=bool(reply.settings))
            return reply

    def run(self, step: Step) -> PGresult:
        """Run one step and return its result; raise what the server reports."""
        require_sendable([step])
        if self._due.presses:
            return self.run_all([step])[-1]
        link = self._link
        if link.encoding.is_converted and is_in_utf8(step):
            return self.run_all([step])[-1]
        with link.lock:
            self._turns.take()
            link.send(step)
            if step is COMMIT:
                link.flush()
                reach(Failpoint.COMMIT_SENT)
            result = link.fetch_only()
            link.messages.deliver_notifications()
            link.messages.check(result, internal=step.internal)
            return result

    def run_all(
        self,
        steps: Sequence[Step],
        on_success: Callable[[Step, PGresult], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
        held: HeldStep | None = None,
    ) -> list[PGresult]:
        """Run steps in one round trip; the first error is raised after the server has recovered.

        Outside a transaction block the steps form one implicit transaction. `on_success` hears of
        each step that succeeded, and what it answered, also before an error. What is done
        `meanwhile`, while the server works, must not raise. The rows of the step that is
        `held` are left there; its result tells its columns and tag.
        """
        require_sendable(steps)
        with self._link.lock:
            self._turns.take(sends=False)
            due = self._due.take()
            return self._pipelines.run([*due, *steps], on_success, meanwhile, held)[len(due) :]

    def stream(self, step: Query | Execute) -> LocalResult:
        """Run one step whose rows are fetched while the caller iterates them.

        Rows not fetched before the next request are dropped.
        """
        require_sendable([step])
        if self._link.encoding.is_converted and is_in_utf8(step):
            held = HeldStep(step)
            result = self.run_all([step], held=held)[-1]
            return self._streams.taken(result, held.rows)
        with self._link.lock:
            self._turns.take()
            return self._streams.open(step)

    # requests that wait for the next one ----------------------------------------------------------

    def begin_later(self) -> None:
        """Begin a transaction block with what is run next; `transaction_status` tells it at once.

        Only outside of one.
        """
        with self._link.lock:
            self._due.add_begin()

    def run_later(self, step: Step) -> None:
        """Run a step, which cannot fail, together with what is run next, and before it."""
        with self._link.lock:
            self._due.add(step)

    def leave_out(self, step: Step) -> bool:
        """Do not run it after all; False when it has been."""
        with self._link.lock:
            return self._due.leave_out(step)

    def close_later(self, name: str) -> None:
        """Close a prepared statement, which nobody asks for any more, with what is run next."""
        with self._link.lock:
            self._due.add(Close(name))
            if self._due.are_many:
                self.run_all([])

    # COPY -----------------------------------------------------------------------------------------

    def start_copy(self, sql: str, *, is_own: bool = False) -> PGresult:
        """Run a COPY statement up to the point where data flow.

        Args:
            sql: The statement.
            is_own: Whether errors and notices are not to tell that there is a COPY.
        """
        return self._copies.start(sql, is_own=is_own)

    def put_copy_data(self, data: bytes) -> None:
        """Send data of a COPY FROM STDIN."""
        self._copies.put(data)

    def refuses_copy(self) -> bool:
        """Return whether the server is known to take no more data of a COPY FROM STDIN.

        libpq looks at what it has said only after the last data.
        """
        return self._relay is not None and self._relay.has_error()

    def end_copy(self, error: str | None = None) -> str:
        """End a COPY FROM STDIN, or make it fail, and return the command tag."""
        return self._copies.end(error)

    def copied_data(self) -> Iterator[bytes]:
        """Return the data of a COPY TO STDOUT message by message."""
        return self._copies.data()

    def finish_copy_out(self) -> str:
        """Return the command tag after the last data of a COPY TO STDOUT."""
        return self._copies.finish()

    # others' work ---------------------------------------------------------------------------------

    def stand_in(self, text: str, wanted: Callable[[], bool]) -> bool:
        """Let the server sleep under a client's text, unless it is at work, or others ask first.

        It is woken by whatever is asked of it next. For another thread than that which asks.

        Args:
            text: What `pg_stat_activity` shows.
            wanted: Whether that is still to be, asked when nobody can come in between.

        Returns:
            Whether it sleeps.
        """
        return self._turns.stand_in(text, wanted)

    def stand_down(self) -> None:
        """Wake the server if it stands in for others' work."""
        with self._link.lock:
            self._presence.end()

    def interruption(self, timeout_s: float) -> CatalogError | None:
        """Wait until somebody ends what stands in for others' work, and return how; None if nobody.

        For the thread that has called `stand_in`.
        """
        return self._presence.interruption(timeout_s)

    # lifetime -------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the socket, to wait together with other sockets; -1 when the session has ended."""
        return self._link.fileno()

    def require_connected(self) -> None:
        """Raise what the server said when it has ended the session.

        Raises:
            CatalogUnavailableError: 57P01, 57P02, 57P05 … as PostgreSQL says them.
        """
        if not self._link.has_hung_up():
            return
        with self._link.lock:
            self.stand_down()
            self._link.hear_out()
            raise self._link.messages.lost()

    def cancel(self) -> None:
        """Ask the server to cancel what runs; callable from any thread."""
        self._link.cancel()

    def close(self) -> None:
        """Close the connection; returns when the server's process has ended."""
        with suppress(CatalogUnavailableError):
            self.stand_down()
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        finish(self._link.connection)
