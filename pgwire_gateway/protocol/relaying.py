"""The short way of a statement: passed to PostgreSQL as it came, answered as PostgreSQL answers.

The client's messages go to the catalog in one round trip together with the proof that the plans
they rest on still hold; what comes back is kept until the proof is in. Where the short way does not
fit, or the proof fails without harm, nothing has happened and the long way answers the messages.
"""

from contextlib import nullcontext
from dataclasses import replace
from struct import Struct
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.proofs import together
from catalog.connection.relay import Reply, message
from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.messages.extended_query import Parse
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.protocol.series import (
    BEGINNING,
    Passage,
    is_cut,
    passage_of,
    passage_of_query,
    series_of,
)
from pgwire_gateway.session.shortcuts import KEPT_BYTES, Shortcut
from pgwire_gateway.session.state import ENDING_ACTIONS, ClientSession
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.statements import commands

_REST_OF_QUERY: Final = (
    message(b"B", b"\0\0\0\0\0\0\0\0") + message(b"D", b"P\0") + message(b"E", b"\0\0\0\0\0")
)
"""Bind, Describe and Execute of the unnamed statement that a query string becomes."""

_HEADER_BYTES: Final = 5
"""Type and length of a message."""

_LENGTH: Final = Struct("!i")


def on_query(session: ClientSession, data: bytes) -> bool:
    """Answer the Query that data begin with the short way; False when it has to go the long way."""
    while len(data) < _HEADER_BYTES:
        data = session.frontend.peek_more()
    end = 1 + int(_LENGTH.unpack_from(data, 1)[0])
    while len(data) < end <= KEPT_BYTES:
        data = session.frontend.peek_more()
    if not _HEADER_BYTES < end <= len(data):
        return False
    query = data[_HEADER_BYTES:end]
    shortcut = session.shortcuts.of_query(query)
    status = session.catalog.transaction_status
    if shortcut is None or not _admitted(session, shortcut, status):
        return False
    if "" in session.statements:
        session.forget_statement("")
    if session.portals:
        session.forget_portal("")
    passage = passage_of_query(session, shortcut)
    messages = message(b"P", b"\0" + query + b"\0\0") + _REST_OF_QUERY
    if _run(session, passage, messages, outside=status == "I", simple=True):
        session.frontend.skip(end)
        return True
    return False


def on_series(session: ClientSession, data: bytes) -> bool:
    """Answer the messages up to the next Sync the short way; False when that is not it.

    All of them must have arrived; they are taken when they have been answered.
    """
    series = series_of(data)
    while series is None and is_cut(data):
        data = session.frontend.peek_more()
        series = series_of(data)
    passage = passage_of(session, series.form) if series is not None else None
    status = session.catalog.transaction_status
    if series is not None and passage is not None and _may_pass(session, passage, status):
        if session.portals:
            session.forget_portal("")
        if _run(session, passage, passage.messages(series), outside=status == "I"):
            session.frontend.skip(series.end)
            return True
    session.shortcuts.declined = True
    return False


def remember_query(session: ClientSession, query_string: str, plan: Plan) -> None:
    """Keep the plan of a query string of one statement for the next time."""
    query = query_string.encode(session.frontend.encoding, "surrogateescape") + b"\0"
    session.shortcuts.add_query(session.catalog, query, plan)


def remember_parse(session: ClientSession, parse: Parse, plan: Plan) -> None:
    """Keep the plan of a prepared statement for the next time."""
    body = replace(parse, statement_name="").encode(session.frontend.encoding)[6:]
    session.shortcuts.add_parse(session.catalog, body, plan)


def _may_pass(session: ClientSession, passage: Passage, status: str) -> bool:
    for shortcut in passage.shortcuts:
        if not _admitted(session, shortcut, status):
            return False
    unnamed = session.statements.get("")
    if passage.effects and unnamed is not None and unnamed.plan and unnamed.plan.prepared:
        session.forget_statement("")
    return True


def _admitted(session: ClientSession, shortcut: Shortcut, status: str) -> bool:
    """Return whether a statement can take the short way in the transaction there is."""
    transaction, loaded = session.transaction, shortcut.plan.loaded
    if transaction.implicit or (loaded is not None and session.occupied.may_lack(loaded)):
        return False
    if shortcut.action in commands.COMMITTING and (transaction.defers or session.keeps_cursors):
        return False
    if shortcut.action:
        return status != "E" or shortcut.action in ENDING_ACTIONS
    if status == "T" and shortcut.plan.replaceable:
        return session.shortcuts.read_committed
    return status != "E"


def _run(
    session: ClientSession,
    passage: Passage,
    messages: bytes,
    *,
    outside: bool,
    simple: bool = False,
) -> bool:
    """Answer the client; False when nothing was done and the long way is left."""
    session.running = RunningStatement()
    doubt = None if outside else _doubt(session, passage)
    if doubt is None:
        return _pass_on(session, passage, messages, outside=outside, simple=simple)
    if doubt.error is None:
        # The long way plans it again, whatever the block has done before.
        _forget(session, passage)
        session.finish()
        return False
    _note(session, passage, doubt)
    _answer(session, doubt)
    session.ready_for_query()
    return True


def _pass_on(
    session: ClientSession, passage: Passage, messages: bytes, *, outside: bool, simple: bool
) -> bool:
    """Have PostgreSQL run it, and answer; False when nothing was done and the long way is left."""
    checks = passage.outside if outside else passage.inside
    commits = passage.action in commands.COMMITTING
    if passage.action in commands.ENDING:
        session.catalog.transaction.end_guard()
    session.transaction.note_run()
    with session.catalog.transaction.doubting() if commits else nullcontext():
        reply = session.catalog.relay.exchange(
            messages,
            passage.answers,
            checks,
            before=passage.before,
            simple=simple,
            sink=session.frontend.send_encoded,
        )
    if (reply.error is None and reply.confirmed) or not _is_outdated(
        session, passage, reply, outside=outside
    ):
        _note(session, passage, reply)
        if outside and passage.action in BEGINNING and reply.status == "T":
            _note_begun(session, passage)
        _answer(session, reply)
        session.ready_for_query()
        return True
    # The next time they are planned again, where they cannot be this time.
    _forget(session, passage)
    if reply.error is None and not outside and not passage.repeatable:
        if _was_local(session, passage):
            _note(session, passage, reply)
            _answer(session, reply)
        else:
            _end_outdated(session, passage, reply)
        session.ready_for_query()
        return True
    if not reply.sent and (outside or reply.status == "T"):
        if outside:  # what began with the passage
            session.catalog.transaction.rollback()
        for name in passage.prepares:
            session.catalog.analyses.deallocate(name)
        session.finish()
        return False
    _end_outdated(session, passage, reply)
    session.ready_for_query()
    return True


def _doubt(session: ClientSession, passage: Passage) -> Reply | None:
    """Ask whether plans hold before statements of a block are run that cannot be taken back.

    Nothing is asked where it has been proved just now: definitions change rarely.

    Returns:
        What says that they do not hold, or the error that asking met; None when all is well.
    """
    if passage.action or passage.repeatable:
        return None
    if session.shortcuts.is_proved(passage.proofs):
        return None
    proven = together(proof.telling for proof in passage.proofs)
    reply = session.catalog.relay.exchange(b"", 0, proven, sink=session.frontend.send_encoded)
    if reply.error is None and reply.confirmed:
        return None
    return reply


def _forget(session: ClientSession, passage: Passage) -> None:
    session.shortcuts.forget(passage.shortcuts)
    session.passages.clear()


def _is_outdated(session: ClientSession, passage: Passage, reply: Reply, *, outside: bool) -> bool:
    """Return whether plans do not hold any more."""
    if passage.action and len(passage.shortcuts) == 1:
        return False
    if reply.error is None:
        return not reply.confirmed
    code = reply.code
    ours = (codes.INVALID_SQL_STATEMENT_NAME, codes.DUPLICATE_PSTATEMENT)
    at_our_own = reply.answered in {0, passage.answers} and code in ours
    if code == bookkeeping.OUTDATED or at_our_own:
        return True
    if not outside or reply.sent or not passage.proofs or code == codes.QUERY_CANCELED:
        return False
    # The error may be one of the outdated plan.
    proven = together(proof.telling for proof in passage.proofs)
    again = session.catalog.relay.exchange(b"", 0, proven, sink=session.frontend.send_encoded)
    return not again.confirmed


def _was_local(session: ClientSession, passage: Passage) -> bool:
    """Return whether what has been done was PostgreSQL's to do, although definitions have changed.

    Whatever the statements touched is locked by now, and PostgreSQL ran them by the definitions it
    has: only a table that has become tiered meanwhile would make them wrong.
    """
    proven = [shortcut.plan for shortcut in passage.shortcuts if shortcut.proof is not None]
    return all(_is_local(session, plan) for plan in proven)


def _is_local(session: ClientSession, plan: Plan) -> bool:
    try:
        oids = plan.analysis.parameter_oids if plan.analysis else ()
        now = router.plan(session.catalog, plan.source, oids, "")
    except GatewayError:
        return False
    # A table may have been tiered meanwhile, and be resident again.
    agrees = plan.answerable is None or plan.answerable.agrees(now.answerable)
    return now.route is Route.CATALOG and agrees


def _end_outdated(session: ClientSession, passage: Passage, reply: Reply) -> None:
    """Let a statement fail whose plan did not hold, but which cannot be repeated."""
    _note(session, passage, reply)
    session.fail(
        GatewayError(
            "definitions have changed since the statement was planned",
            sqlstate=codes.SERIALIZATION_FAILURE,
            hint="The transaction might succeed if retried.",
        )
    )
    session.skip_until_sync = False


def _note(session: ClientSession, passage: Passage, reply: Reply) -> None:
    """Keep what the session knows of itself in step with PostgreSQL."""
    action = passage.action
    if reply.confirmed:
        session.shortcuts.note_proved(passage.proofs)
    if reply.defers:
        session.transaction.defers = True
    if not action:
        session.last_decision = f"postgres: {passage.shortcuts[-1].plan.reason}"
    for answers, effect in passage.effects:
        if reply.answered >= answers:
            effect(session)
    if reply.error is not None:
        session.fail_portals()
        session.transaction.settle()
        return
    if action and passage.executes:
        commands.note_transaction(session, passage.shortcuts[0].plan.statement.details)
        if action in {"begin", "start", "commit", "rollback"}:
            begun = action in BEGINNING
            session.shortcuts.read_committed = begun and reply.confirmed


def _note_begun(session: ClientSession, passage: Passage) -> None:
    """Note how the client has begun a transaction, if it has done nothing else."""
    if len(passage.shortcuts) == 1:
        session.transaction.note_begun(passage.shortcuts[0].plan.statement.text)


def _answer(session: ClientSession, reply: Reply) -> None:
    """Pass on what PostgreSQL answered."""
    send = session.frontend.send_encoded
    for data in reply.data:
        send(data)
    if reply.error is not None:
        send(reply.error)
    elif reply.completion:
        send(reply.completion)
    for data in reply.notifications:
        send(data)
