"""The start-up phase of a connection, from the first byte to the first ReadyForQuery.

Follows "Start-up", "SSL Session Encryption" and "Canceling Requests in Progress" of PostgreSQL's
protocol chapter.
"""

import logging

from catalog import sqlstate as codes
from catalog.api import Catalog
from catalog.connections import CatalogSession
from pgwire_gateway.cancel import CancelRegistry
from pgwire_gateway.channel import ClientConnection
from pgwire_gateway.errors import FatalError
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


def read_startup(connection: ClientConnection, cancels: CancelRegistry) -> StartupMessage | None:
    """Answer encryption and cancel requests; return the startup message, None when there is none.

    Raises:
        FatalError: 0A000 for a protocol version PostgreSQL does not speak.
    """
    while True:
        frame = connection.receive()
        packet = decode_startup_packet(frame.body)
        if isinstance(packet, SSLRequest | GSSENCRequest):
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


def open_catalog_session(catalog: Catalog, message: StartupMessage) -> tuple[CatalogSession, str]:
    """Log in to the catalog as the client's role; returns the session and the database's name.

    Raises:
        FatalError: 28000 without a user name.
        CatalogError: 28000, 3D000 … as PostgreSQL reports them.
    """
    user = message.parameter("user")
    if not user:
        raise FatalError(
            "no PostgreSQL user name specified in startup packet",
            sqlstate=codes.INVALID_AUTHORIZATION_SPECIFICATION,
        )
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
    session = catalog.connect(user, database, settings, options=message.parameter("options"))
    return session, database


def welcome(connection: ClientConnection) -> None:
    """Tell the client that it is authenticated."""
    connection.send(AuthenticationOk())
    connection.frames.expect_session()


def _require_supported(message: StartupMessage) -> None:
    version = message.protocol_version
    if version.major != PG_PROTOCOL_EARLIEST.major:
        raise FatalError(
            f"unsupported frontend protocol {version.major}.{version.minor}: server supports "
            f"{PG_PROTOCOL_EARLIEST.major}.{PG_PROTOCOL_EARLIEST.minor} to "
            f"{PG_PROTOCOL_LATEST.major}.{PG_PROTOCOL_LATEST.minor}",
            sqlstate=codes.FEATURE_NOT_SUPPORTED,
        )
