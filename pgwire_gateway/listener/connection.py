"""Serves one client, from its first byte to its last, on buenavista's handler: one thread each."""

import logging
import socket
from typing import Protocol, cast

from buenavista.postgres import BuenaVistaHandler

from pgwire_gateway import errors
from pgwire_gateway.errors import FATAL
from pgwire_gateway.listener.channel import ClientConnection
from pgwire_gateway.messages.errors import MessageLengthError
from pgwire_gateway.messages.simple_query import Terminate
from pgwire_gateway.protocol import dispatch
from pgwire_gateway.session.state import ClientSession

logger = logging.getLogger(__name__)


class SessionHost(Protocol):
    """What opens and closes the sessions of connections."""

    def open_session(self, connection: ClientConnection) -> ClientSession | None:
        """Lead a connection through its start-up phase; None when it was only a request."""

    def close_session(self, session: ClientSession) -> None:
        """End a session whose client is gone."""


class Listener(Protocol):
    """The server a handler belongs to."""

    state: SessionHost


class ClientHandler(BuenaVistaHandler):  # type: ignore[misc]
    """Serves one client from its first byte to its last."""

    server: Listener

    def handle(self) -> None:
        """Authenticate the client, then answer its messages until it leaves."""
        connection = ClientConnection(cast("socket.socket", self.request))
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Who has vanished without a word keeps no place forever.
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            self._serve(connection)
        except (EOFError, OSError, MessageLengthError):
            # PostgreSQL, too, closes without a word when a message's length cannot be right.
            logger.debug("client hung up")
        except Exception as error:  # noqa: BLE001 - the last resort of a connection's thread
            self._send_fatal(connection, error)
        finally:
            connection.close()

    def _serve(self, connection: ClientConnection) -> None:
        session = self.server.state.open_session(connection)
        if session is None:
            return
        try:
            while True:
                if dispatch.on_arrival(session):
                    continue
                frame = connection.receive()
                if frame.message_class is Terminate:
                    return
                dispatch.on_frame(session, frame)
        except EOFError:
            # Nothing is received any more, too, when the catalog has ended the session.
            session.catalog.require_connected()
            raise
        finally:
            self.server.state.close_session(session)

    @staticmethod
    def _send_fatal(connection: ClientConnection, error: BaseException) -> None:
        logger.debug("connection ends", exc_info=error)
        try:
            connection.send(errors.error_response(error, FATAL))
            connection.flush()
        except OSError:
            logger.debug("client was gone already")
