"""The short way of a statement: passed to PostgreSQL as it came, its answer passed back as it comes.

The client's messages go to the catalog in one round trip together with the proof that the plans they
rest on still hold; what comes back is kept until the proof is in. Where the short way does not fit,
or the proof fails without harm, nothing has happened and the long way answers the same messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from catalog import bookkeeping, proofs
from catalog import sqlstate as codes
from catalog.errors import GatewayError
from catalog.proofs import Check
from catalog.relay import Reply, message
from pgwire_gateway.messages.base import Frame, FrontendMessage
from pgwire_gateway.messages.extended_query import (
    Bind,
    Close,
    Describe,
    Execute,
    Parse,
    Sync,
)
from pgwire_gateway.session import commands
from pgwire_gateway.session.plans import Plan, Route
from pgwire_gateway.session.portals import PreparedStatement
from pgwire_gateway.session.shortcuts import Shortcut
from pgwire_gateway.session.state import ENDING_ACTIONS, ClientSession
from pgwire_gateway.spark.statements import RunningStatement

BEGINNING = frozenset({"begin", "start"})

QUERY_ANSWERS = 4

_PARSED = message(b"B", b"\0\0\0\0\0\0\0\0") + message(b"D", b"P\0") + message(b"E", b"\0\0\0\0\0")
"""Bind, Describe and Execute of the unnamed statement that a query string becomes."""

_NO_LIMIT = b"\0\0\0\0\0"
"""Body of an Execute that takes all rows of the unnamed portal."""

_ISOLATION = proofs.isolation()

PORTAL = ord("P")


def on_query(session: ClientSession, frame: Frame[FrontendMessage]) -> bool:
    """Answer a Query the short way; False when it has to go the long way."""
    shortcut = session.shortcuts.of_query(frame.body)
    if shortcut is None or not _admitted(session, shortcut):
        return False
    session.forget_statement("")
    session.forget_portal("")
    parse = message(b"P", b"\0" + frame.body + b"\0\0")
    return _run(session, Trip([parse, _PARSED], QUERY_ANSWERS, [shortcut], simple=True))


def on_series(session: ClientSession, frame: Frame[FrontendMessage]) -> bool:
    """Answer the messages from this one to the next Sync the short way; False when that is not it.

    The others must have arrived; they are received only when they have been answered.
    """
    shortcuts = session.shortcuts
    if shortcuts.declined or session.transaction.implicit:
        return False
    rest = session.frontend.received_up_to(Sync, SERIES)
    if rest:
        series = _Series(session)
        if all(series.add(found) for found in (frame, *rest[:-1])):
            done = _run(session, series.trip)
            if done:
                session.frontend.skip(len(rest))
                return True
    shortcuts.declined = True
    return False


def remember_query(session: ClientSession, query_string: str, plan: Plan) -> None:
    """Keep the plan of a query string of one statement for the next time."""
    query = query_string.encode(session.frontend.encoding, "surrogateescape") + b"\0"
    session.shortcuts.add_query(session.catalog, query, plan)


def remember_parse(session: ClientSession, parse: Parse, plan: Plan) -> None:
    """Keep the plan of a prepared statement for the next time."""
    body = replace(parse, statement_name="").encode(session.frontend.encoding)[6:]
    session.shortcuts.add_parse(session.catalog, body, plan)


@dataclass(slots=True)
class Trip:
    """What is sent at once."""

    messages: list[bytes] = field(default_factory=list)
    answers: int = 0
    shortcuts: list[Shortcut] = field(default_factory=list)
    """The statements in it."""
    executed: int = 0
    before: bytes = b""
    """A message of our own that has to come first."""
    simple: bool = False
    effects: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    """What to do once so many messages were answered."""


class _Series:
    """Messages of the extended query sub-protocol on their way into a trip."""

    def __init__(self, session: ClientSession) -> None:
        self.trip = Trip()
        self._session = session
        self._declared: dict[bytes, Shortcut] = {}
        self._bound: Shortcut | None = None
        self._again: Shortcut | None = None

    def add(self, frame: Frame[FrontendMessage]) -> bool:
        """Add a message; False when the series cannot be passed through."""
        add = ADDING[frame.message_class]
        return add(self, frame.body)

    def _parse(self, body: bytes) -> bool:
        name, _, rest = body.partition(b"\0")
        session = self._session
        text = _name(session, name)
        shortcut = session.shortcuts.of_parse(rest)
        if shortcut is None or (name and (text in session.statements or shortcut.action)):
            return False
        if name in self._declared or not self._include(shortcut):
            return False
        self._declared[name] = shortcut
        if not name:
            session.forget_statement("")
        self._message(b"P", body)
        self._after(lambda: _declare(session, text, shortcut, rest))
        return True

    def _bind(self, body: bytes) -> bool:
        portal, _, rest = body.partition(b"\0")
        name, _, rest = rest.partition(b"\0")
        found = self._found(name)
        if portal or found is None:
            return False
        self._bound, place = found
        self._session.forget_portal("")
        self._message(b"B", b"\0" + place + b"\0" + rest)
        return True

    def _describe(self, body: bytes) -> bool:
        name = body[1:-1]
        if body[0] == PORTAL:
            if name or self._bound is None:
                return False
            self._message(b"D", body)
            return True
        found = self._found(name)
        if found is None or found[0].action:
            return False
        self._message(b"D", b"S" + found[1] + b"\0")
        return True

    def _execute(self, body: bytes) -> bool:
        bound, self._bound = self._bound, None
        if body != _NO_LIMIT or bound is None:
            return False
        self.trip.executed += 1
        self._message(b"E", body)
        # A transaction command parts what is proved from what is not.
        commands = any(shortcut.action for shortcut in self.trip.shortcuts)
        return self.trip.executed == 1 or not commands

    def _close(self, body: bytes) -> bool:
        session, name = self._session, body[1:-1]
        text = _name(session, name)
        statement = session.statements.get(text)
        plan = statement.plan if statement else None
        if body[0] == PORTAL or not name or plan is None or plan.prepared != text:
            return False
        self._message(b"C", body)
        self._after(lambda: _forget(session, text))
        return True

    def _found(self, name: bytes) -> tuple[Shortcut, bytes] | None:
        """Return a prepared statement and its name in the catalog."""
        declared = self._declared.get(name)
        if declared is not None:
            return declared, name
        session = self._session
        statement = session.statements.get(_name(session, name))
        if statement is None or statement.plan is None:
            return None
        plan = statement.plan
        shortcut = session.shortcuts.of_prepared(session.catalog, statement.name, plan)
        if shortcut is None or not self._include(shortcut):
            return None
        if plan.prepared:
            return shortcut, plan.prepared.encode(session.frontend.encoding)
        return self._prepared_again(shortcut, statement)

    def _prepared_again(
        self, shortcut: Shortcut, statement: PreparedStatement
    ) -> tuple[Shortcut, bytes] | None:
        """Prepare what the catalog does not hold once more, for this trip alone."""
        if self._again is shortcut and not self._declared:
            return shortcut, b""
        if self.trip.answers:
            return None
        self._again = shortcut
        rest = statement.parse
        if not rest:
            text = shortcut.plan.statement.text.encode(self._session.frontend.encoding)
            rest = text + b"\0\0\0"
        self.trip.before = message(b"P", b"\0" + rest)
        return shortcut, b""

    def _include(self, shortcut: Shortcut) -> bool:
        self.trip.shortcuts.append(shortcut)
        return _admitted(self._session, shortcut)

    def _message(self, kind: bytes, body: bytes) -> None:
        self.trip.messages.append(message(kind, body))
        self.trip.answers += 1

    def _after(self, effect: Callable[[], None]) -> None:
        self.trip.effects.append((self.trip.answers, effect))


ADDING: dict[type[FrontendMessage], Callable[[_Series, bytes], bool]] = {
    Parse: _Series._parse,
    Bind: _Series._bind,
    Describe: _Series._describe,
    Execute: _Series._execute,
    Close: _Series._close,
}
"""How each message joins a series."""

SERIES = frozenset(ADDING)


def _name(session: ClientSession, name: bytes) -> str:
    return name.decode(session.frontend.encoding, "surrogateescape")


def _declare(session: ClientSession, name: str, shortcut: Shortcut, parse: bytes) -> None:
    if shortcut.action:
        session.statements[name] = PreparedStatement(name, shortcut.plan)
        return
    plan = replace(shortcut.plan, prepared=name)
    session.statements[name] = PreparedStatement(name, plan, b"" if name else parse)
    session.shortcuts.note_prepared(name, plan, replace(shortcut, plan=plan))


def _forget(session: ClientSession, name: str) -> None:
    session.statements.pop(name, None)


def _admitted(session: ClientSession, shortcut: Shortcut) -> bool:
    """Return whether a statement can take the short way in the transaction there is."""
    transaction = session.transaction
    if transaction.implicit:
        return False
    status = transaction.status
    if shortcut.action:
        return status != "E" or shortcut.action in ENDING_ACTIONS
    if status == "T" and shortcut.plan.replaceable:
        return session.shortcuts.read_committed
    return status != "E"


def _run(session: ClientSession, trip: Trip) -> bool:
    """Make a trip and answer the client; False when nothing was done and the long way is left."""
    outside = session.transaction.status == "I"
    checks = _checks(trip, outside=outside)
    session.running = RunningStatement()
    reply = session.catalog.exchange(
        b"".join(trip.messages),
        trip.answers,
        checks,
        before=trip.before,
        simple=trip.simple,
        sink=session.frontend.send_encoded,
    )
    outdated = _is_outdated(session, trip, reply, outside=outside)
    telling = reply.status == "T"
    if outdated and not reply.sent and (outside or telling):
        session.finish()
        return False
    if outdated:
        reply.error = None
        _note(session, trip, reply)
        session.fail(
            GatewayError(
                "definitions have changed since the statement was planned",
                sqlstate=codes.SERIALIZATION_FAILURE,
                hint="The transaction might succeed if retried.",
            )
        )
        session.skip_until_sync = False
    else:
        _note(session, trip, reply)
        _answer(session, reply)
    session.ready_for_query()
    return True


def _checks(trip: Trip, *, outside: bool) -> list[Check]:
    """Return what goes with the statements of a trip."""
    actions = [shortcut.action for shortcut in trip.shortcuts]
    if any(actions):
        return [_ISOLATION] if outside and trip.executed and actions[0] in BEGINNING else []
    found = {shortcut.proof for shortcut in trip.shortcuts if shortcut.proof is not None}
    telling = not outside and all(shortcut.repeatable for shortcut in trip.shortcuts)
    return [proof.telling if telling else proof.raising for proof in found]


def _is_outdated(session: ClientSession, trip: Trip, reply: Reply, *, outside: bool) -> bool:
    """Return whether plans do not hold any more."""
    if any(shortcut.action for shortcut in trip.shortcuts):
        return False
    if reply.error is None:
        return any(value != proofs.PROVED for value in reply.values)
    code = reply.code
    if code == bookkeeping.OUTDATED:
        return True
    if reply.answered == trip.answers and code == codes.INVALID_SQL_STATEMENT_NAME:
        return True
    if not outside or reply.sent or code == codes.QUERY_CANCELED:
        return False
    # The error may be one of the outdated plan.
    found = {shortcut.proof for shortcut in trip.shortcuts if shortcut.proof is not None}
    if not found:
        return False
    checks = [proof.telling for proof in found]
    again = session.catalog.exchange(b"", 0, checks, sink=session.frontend.send_encoded)
    return again.error is not None or any(value != proofs.PROVED for value in again.values)


def _note(session: ClientSession, trip: Trip, reply: Reply) -> None:
    """Keep what the session knows of itself in step with PostgreSQL."""
    for answers, effect in trip.effects:
        if reply.answered >= answers:
            effect()
    if reply.error is not None:
        session.drop_portals(session.transaction.savepoints.latest)
        session.transaction.settle()
        return
    for shortcut in trip.shortcuts if trip.executed or trip.simple else ():
        if shortcut.action:
            commands.note_transaction(session, shortcut.plan.statement.details)
            session.shortcuts.read_committed = reply.values == [proofs.READ_COMMITTED]


def _answer(session: ClientSession, reply: Reply) -> None:
    send = session.frontend.send_encoded
    for data in reply.data:
        send(data)
    if reply.error is not None:
        send(reply.error)
    elif reply.completion:
        send(reply.completion)
    for data in reply.notifications:
        send(data)
