"""Who a client is: the method that asks for proof, and what becomes of those without.

Chapter "Client Authentication". Failures look alike to the client, whatever their reason, which is
in the log; and they take their time.
"""

import base64
import logging
import time
from collections.abc import Mapping
from typing import Final

from catalog.pg import sqlstate
from catalog.server.roles import Role
from pgwire_gateway.errors import FatalError, ProtocolError
from pgwire_gateway.listener import scram
from pgwire_gateway.listener.channel import ClientConnection
from pgwire_gateway.messages.authentication import (
    AuthenticationSASL,
    AuthenticationSASLContinue,
    AuthenticationSASLFinal,
    SASLInitialResponse,
    SASLResponse,
)

logger = logging.getLogger(__name__)

DELAY_S: Final = 1.0
"""How long a client without proof waits for its answer."""


def by_password(
    connection: ClientConnection, user: str, role: Role | None, mock_secret: bytes
) -> Mapping[str, str]:
    """Let a client prove that it knows a role's password (SCRAM-SHA-256).

    Args:
        connection: The client's.
        user: The name it has given.
        role: The role of that name, if there is one.
        mock_secret: What makes something up for names that have no password.

    Returns:
        libpq's parameters by which another server with the same verifier lets the gateway in.

    Raises:
        FatalError: 28P01 without proof; 28000 where the proof was meant for another server.
        ProtocolError: What the client sends breaks the protocol (08P01).
    """
    encryption = connection.encryption
    end_point = None if encryption is None else encryption.end_point
    names = [scram.NAME] if end_point is None else [scram.NAME_WITH_BINDING, scram.NAME]
    connection.send(AuthenticationSASL(tuple(names)))
    connection.flush()
    connection.frames.expect_authentication(SASLInitialResponse)
    response = connection.receive().decode(connection.encoding)
    if not isinstance(response, SASLInitialResponse) or response.mechanism not in names:
        raise ProtocolError("client selected an invalid SASL authentication mechanism")
    if response.data is None:
        raise ProtocolError("malformed SCRAM message", detail="The message is empty.")
    verifier, reason = _verifier(role)
    exchange = scram.Exchange(
        verifier or scram.Verifier.mock(mock_secret, user),
        mechanism=response.mechanism,
        end_point=end_point,
    )
    connection.send(AuthenticationSASLContinue(exchange.challenge(response.data)))
    connection.flush()
    connection.frames.expect_authentication(SASLResponse)
    last = connection.receive().decode(connection.encoding)
    outcome = exchange.outcome(last.data if isinstance(last, SASLResponse) else b"")
    if verifier is None or outcome is None:
        logger.warning(
            "password authentication failed for user %r at %s: %s",
            user,
            connection.peer,
            reason or "the password is wrong",
        )
        time.sleep(DELAY_S)
        raise FatalError(
            f'password authentication failed for user "{user}"', sqlstate=sqlstate.INVALID_PASSWORD
        )
    answer, keys = outcome
    connection.send(AuthenticationSASLFinal(answer))
    return {
        "scram_client_key": base64.b64encode(keys.client_key).decode(),
        "scram_server_key": base64.b64encode(keys.server_key).decode(),
    }


def _verifier(role: Role | None) -> tuple[scram.Verifier | None, str | None]:
    """Return what is known of a role's password; or why nothing is."""
    if role is None:
        return None, "there is no such role"
    if role.verifier is None:
        return None, "the role has no password"
    if role.is_expired:
        return None, "the role's password has expired"
    verifier = scram.Verifier.parse(role.verifier)
    return verifier, None if verifier else "the role's password is not kept for SCRAM"
