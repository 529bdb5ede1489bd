"""Who takes more rows of a portal can be stopped as who takes the first."""

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


class Computed:
    """Rows that are computed while they are taken, unless somebody cancels that."""

    exhausted = False

    def __init__(self, session, running):
        self._session, self._running = session, running

    def take(self, _limit):
        yield b"", 1
        if self._session.running is not None:  # as a request to cancel does
            self._session.running.cancel()
        self._running.check()
        yield b"", 1

    def close(self):
        """Nothing computes them."""


def test_more_rows_of_a_portal_are_cancelled():
    running, sent, portals = RunningStatement(), [], {}
    session = SimpleNamespace(
        running=None,
        portals=portals,
        transaction=SimpleNamespace(require_not_failed=lambda: None),
        frontend=SimpleNamespace(send_encoded=sent.append),
        send=sent.append,
        note_settings=lambda: None,
        forget_portal=portals.pop,
    )
    result = StatementResult((), Computed(session, running), "SELECT {}".format)
    statement = PreparedStatement("", SimpleNamespace())
    portals[""] = Portal("", statement, state=PortalState.SUSPENDED, result=result, running=running)
    with pytest.raises(QueryCanceledError):
        extended_query.on_execute(session, Execute("", 5))
    assert sent == [b""]
    assert portals == {}


def test_what_is_cancelled_while_it_is_planned_does_not_run():
    session = SimpleNamespace(running=None)
    with pytest.raises(QueryCanceledError), ClientSession.planning(session):
        session.running.cancel()
    assert session.running is None
    with ClientSession.planning(session):
        assert session.running is not None
    assert session.running is None
