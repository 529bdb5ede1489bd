"""What PostgreSQL refuses at the first of many rows that are copied is told before the last."""

import time

import pytest

from pgwire_gateway.messages import CopyData, CopyDone, Query
from pgwire_gateway.messages.responses import ErrorResponse, ReadyForQuery
from tests.support.dialogues import wire
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

PATIENCE_S = 60.0


def test_a_client_is_told_while_it_sends(shared_pair: Pair) -> None:
    with wire(shared_pair.gateway, shared_pair.database) as client:
        client.query("CREATE TEMP TABLE c (v integer)")
        client.send(Query("COPY c FROM STDIN"), CopyData(b"x\n"))
        deadline = time.monotonic() + PATIENCE_S
        client.receive()  # CopyInResponse
        client._transport.settimeout(0.05)
        while True:
            assert time.monotonic() < deadline, "the client is told nothing"
            client.send(CopyData(b"1\n"))
            try:
                message = client.receive()
            except TimeoutError:
                continue
            break
        client._transport.settimeout(PATIENCE_S)
        assert isinstance(message, ErrorResponse)
        assert isinstance(client.receive(), ReadyForQuery)
        client.send(CopyData(b"1\n"), CopyDone())
        assert "0" in repr(client.query("SELECT count(*) FROM c"))
