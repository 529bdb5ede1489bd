"""Who takes more rows of a portal can be stopped as who takes the first."""

import time
from types import SimpleNamespace

import pytest

from pgwire_gateway.messages.extended_query import Execute
from pgwire_gateway.protocol import extended_query
from pgwire_gateway.session.portals import (
    Portal,
    PortalState,
    PreparedStatement,
    StatementResult,
)
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.statements import RunningStatement


class Session(SimpleNamespace):
    """A session as far as portals go; it notes what is looked after, and sent."""

    resume = ClientSession.resume
    _go_on = ClientSession._go_on
    suspend = ClientSession.suspend
    take = ClientSession.take
    _release_portals = ClientSession._release_portals
    transaction = SimpleNamespace(require_not_failed=lambda: None)

    def __init__(self):
        self.sent = []
        self.looked_after = []
        super().__init__(
            running=None,
            portals={},
            failed_portals=set(),
            frontend=SimpleNamespace(send_encoded=self.sent.append),
            send=self.sent.append,
            note_settings=lambda: None,
            _watched=None,
        )

    def forget_portal(self, name):
        self.portals.pop(name).close()

    def watch(self, running, text):
        self._watched = running
        self.looked_after.append((text, time.monotonic() - running.begun_s))

    def sync(self):
        self.running = self._watched = None
        self._release_portals("T")


class Computed:
    """Rows that are computed while they are taken, as long as nobody cancels that."""

    exhausted = False

    def __init__(self, running, taken=lambda: None):
        self._running = running
        self._taken = taken
        self.is_open = True

    def take(self, limit):
        for _ in range(limit):
            self._running.check()
            yield b"", 1
            self._taken()

    def close(self):
        self.is_open = False


def suspended(session, taken=lambda: None):
    """Return a portal with rows left, whose execution began long ago."""
    running = RunningStatement()
    running.begun_s -= 3600.0
    stream = Computed(running, taken)
    result = StatementResult((), stream, "SELECT {}".format)
    plan = SimpleNamespace(statement=SimpleNamespace(text="SELECT"), only_reads=True)
    portal = Portal(
        "",
        PreparedStatement("", plan),
        state=PortalState.SUSPENDED,
        result=result,
        running=running,
    )
    session.portals[""] = portal
    return portal


def test_more_rows_of_a_portal_are_cancelled():
    session = Session()
    # As a request to cancel does.
    portal = suspended(session, lambda: session.running.cancel())  # noqa: PLW0108 - it is another one then
    with pytest.raises(QueryCanceledError):
        extended_query.on_execute(session, Execute("", 5))
    assert session.sent == [b""]
    assert session.portals == {}
    assert not portal.result.stream.is_open


def test_more_rows_of_a_portal_are_looked_after_with_a_time_of_their_own():
    session = Session()
    suspended(session)
    for _ in range(2):
        for _ in range(2):
            extended_query.on_execute(session, Execute("", 1))
        session.sync()
    assert [text for text, _ in session.looked_after] == ["SELECT", "SELECT"]
    assert max(age_s for _, age_s in session.looked_after) < 60.0


def test_who_is_cancelled_with_the_last_row_that_was_asked_for_computes_no_more():
    session = Session()
    portal = suspended(session, lambda: session.running.cancel())  # noqa: PLW0108 - it is another one then
    with pytest.raises(QueryCanceledError):
        extended_query.on_execute(session, Execute("", 1))
    assert not portal.result.stream.is_open


def test_who_times_out_when_no_rows_are_asked_for_computes_no_more():
    session = Session()
    portal = suspended(session)
    extended_query.on_execute(session, Execute("", 1))
    assert session.running is None  # a request to cancel is for nothing
    portal.running.cancel("it has timed out")
    session.sync()
    assert not portal.result.stream.is_open
    with pytest.raises(QueryCanceledError, match="it has timed out"):
        extended_query.on_execute(session, Execute("", 1))
    assert session.portals == {}


def test_what_is_cancelled_while_it_is_planned_does_not_run():
    session = SimpleNamespace(running=None)
    with pytest.raises(QueryCanceledError), ClientSession.planning(session):
        session.running.cancel()
    assert session.running is None
    with ClientSession.planning(session):
        assert session.running is not None
    assert session.running is None
