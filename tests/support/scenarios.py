"""Scenarios of sessions that want the same rows: dialogues, and the stage they are played on.

A line ``a: SQL`` is what session ``a`` says; ``-- waits`` follows where it has to wait, and a line
``b goes on`` is where it need not any more. ``=>`` tells what comes back: rows, else the command
tag, or the SQLSTATE of an error, which is always told. ``a or b`` is whichever of them; ``a and b``
say the same one after the other, and what comes back is told in the order of the alphabet.
``a: cancels b`` is a cancel request. After ``<<`` come the rows of a COPY, parted by commas.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import psycopg
from psycopg.pq import TransactionStatus

PATIENCE_S = 20.0
"""How long a session may take that need not wait."""

SUSPICION_S = 3.0
"""After this time a session is taken to wait, though PostgreSQL knows nothing of it."""

POLL_S = 0.02

FEW, SOME, MANY = 3, 25, 250
"""How often in a row PostgreSQL has to say that a session waits which should, may, or should not.

Who should not may wait for a moment, for upkeep that has locked its table.
"""

BLOCKED = "SELECT cardinality(pg_blocking_pids(%s)) > 0"

_LINE = re.compile(
    r"(?:(?P<who>\w+(?: and \w+)*): (?P<says>.+?)(?P<waits> -- waits)?"
    r"|(?P<goes>\w+(?: or \w+)*) goes on)"
    r"(?: => (?P<expected>.+))?"
)


@dataclass(frozen=True)
class Step:
    """What one session says, or that sessions need not wait any more."""

    sessions: tuple[str, ...]
    says: str | None
    waits: bool
    expected: str | None

    @property
    def label(self) -> str:
        """Return the step without what it answers."""
        if self.says is None:
            return f"{' or '.join(self.sessions)}: goes on"
        return f"{' and '.join(self.sessions)}: {self.says}"


def steps(scenario: str) -> Iterator[Step]:
    """Read a dialogue."""
    for line in filter(None, map(str.strip, scenario.splitlines())):
        found = _LINE.fullmatch(line)
        assert found, line
        sessions = tuple(re.split(" or | and ", found["who"] or found["goes"]))
        yield Step(sessions, found["says"], bool(found["waits"]), found["expected"])


@dataclass
class Session:
    """A client that can be left waiting."""

    connection: psycopg.Connection
    worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    answer: Future[str] | None = None
    """Of what it said last, until somebody has heard it."""

    def __post_init__(self) -> None:
        """Ask which process serves it."""
        (self.process_id,) = self.connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)

    def say(self, sql: str) -> None:
        self.answer = self.worker.submit(self._say, sql)

    def _say(self, sql: str) -> str:
        sql, _, rows = sql.partition(" << ")
        try:
            cursor = self._copied(sql, rows) if rows else self.connection.execute(sql)
        except psycopg.Error as error:
            return f"error {error.sqlstate or error}"
        if not cursor.description:
            return cursor.statusmessage or ""
        return ", ".join("|".join(map(str, row)) for row in cursor) or "no rows"

    def _copied(self, sql: str, rows: str) -> psycopg.Cursor:
        cursor = self.connection.cursor()
        with cursor.copy(sql) as copy:
            for row in rows.rstrip(",").split(", "):
                copy.write(f"{row}\n")
        return cursor

    def heard(self, timeout_s: float = PATIENCE_S) -> str:
        """Return what comes back, or that nothing does."""
        if self.answer is None:
            return "had not waited"
        try:
            heard = self.answer.result(timeout_s)
        except TimeoutError:
            return "waits"
        self.answer = None
        return heard

    def leave(self) -> None:
        """Wait for nobody any more."""
        if self.answer is not None and not self.answer.done():
            self.connection.cancel_safe()
        self.worker.shutdown()


class Stage:
    """Where one scenario is played: a table, its sessions, and somebody who looks on."""

    def __init__(self, connect: Callable[[], psycopg.Connection], stack: ExitStack) -> None:
        self._connect = lambda: stack.enter_context(connect())
        self._stack = stack
        self.onlooker = self._connect()
        self._sessions: dict[str, Session] = {}

    def play(self, scenario: str) -> list[str]:
        """Return the dialogue with what comes back in each step."""
        played = []
        for step in steps(scenario):
            early = [
                name
                for name, session in self._sessions.items()
                if session.answer is not None and session.answer.done() and step.says
            ]
            played += [f"{name} did not wait: {self._sessions[name].heard()}" for name in early]
            answer = self._take(step)
            played.append(f"{step.label} => {answer}")
            if answer == "waits" and not step.waits:
                break  # all that follows would only tell of this
        idle = TransactionStatus.IDLE
        for name, session in self._sessions.items():
            if session.answer is None and session.connection.info.transaction_status != idle:
                played.append(f"{name} ends in a transaction")
        return played

    def _take(self, step: Step) -> str:
        if step.says is None:
            return self._go_on([self._session(name) for name in step.sessions])
        if len(step.sessions) > 1:
            return ", ".join(
                sorted(self._take(replace(step, sessions=(name,))) for name in step.sessions)
            )
        session = self._session(step.sessions[0])
        if step.says.startswith("cancels "):
            self._session(step.says.removeprefix("cancels ")).connection.cancel_safe()
            return "cancelled"
        if session.answer is not None:
            return "waits"
        session.say(step.says)
        return self._heard(session, *((SUSPICION_S, FEW) if step.waits else (PATIENCE_S, MANY)))

    def _session(self, name: str) -> Session:
        if name not in self._sessions:
            session = Session(self._connect())
            self._stack.callback(session.leave)
            self._sessions[name] = session
        return self._sessions[name]

    def _heard(self, session: Session, patience_s: float, polls: int) -> str:
        """Return what a session answers, or that it waits once that is certain."""
        return "waits" if self.is_waiting(session, patience_s, polls) else session.heard()

    def is_waiting(self, session: Session, patience_s: float, polls: int = SOME) -> bool:
        """Return whether a session waits, once that is certain, or it has answered."""
        assert session.answer is not None
        deadline, seen = time.monotonic() + patience_s, 0
        while time.monotonic() < deadline and seen < polls:
            if wait_for([session.answer], POLL_S).done:
                return False
            blocked = self.onlooker.execute(BLOCKED, [session.process_id]).fetchone() == (True,)
            seen = seen + 1 if blocked else 0
        return True

    @staticmethod
    def _go_on(sessions: Sequence[Session]) -> str:
        """Return what those say that waited; the failed ones last of several."""
        return max((session.heard() for session in sessions), key=_is_error)


def _is_error(answer: str) -> bool:
    return answer.startswith("error ")


def expected(scenario: str, dialogue: Sequence[str]) -> list[str]:
    """Return a dialogue as it is written down; what is not told is no error."""
    written = []
    for step, line in zip(steps(scenario), dialogue, strict=True):
        answer = line.removeprefix(f"{step.label} => ")
        wanted = "waits" if step.waits else step.expected
        assert wanted or not _is_error(answer), line
        written.append(f"{step.label} => {wanted or answer}")
    return written
