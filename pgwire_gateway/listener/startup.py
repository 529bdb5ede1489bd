"""The start-up phase of a connection, from the first byte to the first ReadyForQuery.

Follows "Start-up", "SSL Session Encryption" and "Canceling Requests in Progress" of PostgreSQL's
protocol chapter.
"""

import logging
from collections.abc import Mapping

from catalog.api import Catalog
from catalog.pg import sqlstate as codes
from catalog.session.connections import CatalogSession
from pgwire_gateway.errors import FatalError, ProtocolError
from pgwire_gateway.listener.cancel import CancelRegistry
from pgwire_gateway.listener.channel import ClientConnection
from pgwire_gateway.listener.encryption import ALPN_PROTOCOL, HANDSHAKE_BYTE, Encryption
from pgwire_gateway.messages.authentication import AuthenticationOk
from pgwire_gateway.messages.base import ProtocolVersion
from pgwire_gateway.messages.responses import NegotiateProtocolVersion
from pgwire_gateway.messages.startup import (
    PG_PROTOCOL_EARLIEST,
    PG_PROTOCOL_LATEST,
    CancelRequest,
    GSSENCRequest,
    SSLRequest,
    StartupMessage,
    decode_startup_packet,
)

logger = logging.getLogger(__name__)

OWN_PARAMETERS = frozenset({"user", "database", "options", "replication"})
"""Startup parameters that are no settings."""

PROTOCOL_OPTION_PREFIX = "_pq_."
"""Start of the names of protocol options."""

LONG_KEY_VERSION = ProtocolVersion(3, 2)
"""First version whose secret keys may be longer than four bytes."""


def read_startup(
    connection: ClientConnection, cancels: CancelRegistry, encryption: Encryption | None
) -> StartupMessage | None:
    """Answer encryption and cancel requests; return the startup message, None when there is none.

    Raises:
        FatalError: 0A000 for a protocol version PostgreSQL does not speak.
        ProtocolError: 08P01 for what was sent too early, or TLS that names another protocol.
        OSError: Client and server could not agree on encryption.
    """
    if encryption is not None and connection.peek()[0] == HANDSHAKE_BYTE:
        _require_postgresql(connection.encrypt(encryption))
    while True:
        frame = connection.receive()
        packet = decode_startup_packet(frame.body)
        if isinstance(packet, SSLRequest) and encryption is not None:
            _start_encryption(connection, encryption)
        elif isinstance(packet, SSLRequest | GSSENCRequest):
            connection.send_encoded(b"N")
            connection.flush()
        elif isinstance(packet, CancelRequest):
            cancels.cancel(packet.process_id, packet.secret_key)
            return None
        else:
            _require_supported(packet)
            return packet


def negotiate(connection: ClientConnection, message: StartupMessage) -> ProtocolVersion:
    """Settle protocol version and options, telling the client what it asked for in vain."""
    requested = message.protocol_version
    unknown = tuple(
        name for name, _ in message.parameters if name.startswith(PROTOCOL_OPTION_PREFIX)
    )
    spoken = min(requested, PG_PROTOCOL_LATEST)
    if requested > spoken or unknown:
        connection.send(NegotiateProtocolVersion(spoken, unknown))
    return spoken


def user_of(message: StartupMessage) -> str:
    """Return the name of the role that a client wants to be.

    Raises:
        FatalError: 28000 without one.
    """
    user = message.parameter("user")
    if not user:
        raise FatalError(
            "no PostgreSQL user name specified in startup packet",
            sqlstate=codes.INVALID_AUTHORIZATION_SPECIFICATION,
        )
    return user


def require_encryption(connection: ClientConnection) -> None:
    """Refuse a connection that is not encrypted (28000)."""
    if connection.encryption is None:
        raise FatalError(
            "connections that are not encrypted are refused",
            sqlstate=codes.INVALID_AUTHORIZATION_SPECIFICATION,
            hint="Connect with sslmode=require, or better verify-full.",
        )


def open_catalog_session(
    catalog: Catalog, message: StartupMessage, credentials: Mapping[str, str] | None = None
) -> tuple[CatalogSession, str]:
    """Log in to the catalog as the client's role; returns the session and the database's name.

    Raises:
        FatalError: 28000 without a user name.
        CatalogError: 28000, 3D000 … as PostgreSQL reports them.
    """
    user = user_of(message)
    if message.parameter("replication") not in {None, "false", "off", "no", "0"}:
        raise FatalError(
            "replication connections are not supported", sqlstate=codes.FEATURE_NOT_SUPPORTED
        )
    database = message.parameter("database") or user
    settings = {
        name: value
        for name, value in message.parameters
        if name not in OWN_PARAMETERS and not name.startswith(PROTOCOL_OPTION_PREFIX)
    }
    options = message.parameter("options")
    session = catalog.connect(user, database, settings, options=options, credentials=credentials)
    return session, database


def welcome(connection: ClientConnection) -> None:
    """Tell the client that it is authenticated."""
    connection.send(AuthenticationOk())
    connection.frames.expect_session()


def _require_postgresql(protocol: str | None) -> None:
    """Refuse who begins with TLS and may have meant a server of another kind."""
    if protocol != ALPN_PROTOCOL:
        raise ProtocolError(
            "received direct SSL connection request without ALPN protocol negotiation extension"
        )


def _start_encryption(connection: ClientConnection, encryption: Encryption) -> None:
    """Answer a request for encryption; what was sent before the answer is none of the client's."""
    if connection.encryption is not None:
        raise ProtocolError("received a request for encryption on an encrypted connection")
    if connection.frames.buffered_bytes:
        raise ProtocolError(
            "received unencrypted data after SSL request",
            detail="This could be either a client-software bug or evidence of an attempted "
            "man-in-the-middle attack.",
        )
    connection.send_encoded(b"S")
    connection.flush()
    connection.encrypt(encryption)


def _require_supported(message: StartupMessage) -> None:
    version = message.protocol_version
    if version.major != PG_PROTOCOL_EARLIEST.major:
        raise FatalError(
            f"unsupported frontend protocol {version.major}.{version.minor}: server supports "
            f"{PG_PROTOCOL_EARLIEST.major}.{PG_PROTOCOL_EARLIEST.minor} to "
            f"{PG_PROTOCOL_LATEST.major}.{PG_PROTOCOL_LATEST.minor}",
            sqlstate=codes.FEATURE_NOT_SUPPORTED,
        )
