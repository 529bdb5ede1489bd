"""A client that speaks the raw protocol over a blocking socket, message by message.

It shows everything the server sends and hides nothing; it knows trust, cleartext, MD5 and SCRAM
logins, TLS, and nothing of SQL.
"""

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Self

from pgwire_gateway.messages import (
    AuthenticationCleartextPassword,
    AuthenticationMD5Password,
    AuthenticationRequest,
    AuthenticationSASL,
    AuthenticationSASLContinue,
    AuthenticationSASLFinal,
    BackendFrameReader,
    BackendKeyData,
    BackendMessage,
    CancelRequest,
    ErrorResponse,
    FrontendMessage,
    NegotiateProtocolVersion,
    ParameterStatus,
    PasswordMessage,
    ProtocolVersion,
    Query,
    ReadyForQuery,
    SASLInitialResponse,
    SASLResponse,
    SSLRequest,
    StartupMessage,
    Terminate,
    TransactionStatus,
)

Address = str | tuple[str, int]
"""Path of a Unix-domain socket, or host and port."""

_CHUNK_BYTES = 65_536


class ConnectionClosedError(Exception):
    """The server closed the connection; ``messages`` is what came since it was last asked for."""

    def __init__(self, messages: Sequence[BackendMessage] = ()) -> None:
        super().__init__(f"server closed the connection after {list(messages)}")
        self.messages = list(messages)


class LoginError(Exception):
    """The server refused the login; ``messages`` ends with its ErrorResponse."""

    def __init__(self, messages: Sequence[BackendMessage]) -> None:
        super().__init__(repr(messages[-1]))
        self.messages = list(messages)

    @property
    def error(self) -> ErrorResponse:
        """The ErrorResponse."""
        error = self.messages[-1]
        assert isinstance(error, ErrorResponse)
        return error


class WireClient:
    """One connection."""

    def __init__(self, transport: socket.socket, *, address: Address | None = None) -> None:
        """Speak over a connected socket; nothing is sent yet."""
        self._transport = transport
        self._address = address
        self._reader = BackendFrameReader()
        self.settings: dict[str, str] = {}
        """Values of ParameterStatus, the latest."""
        self.key: BackendKeyData | None = None
        """What a cancel request has to carry."""
        self.protocol_version = ProtocolVersion(3, 0)
        """The version spoken."""
        self.transaction_status: TransactionStatus | None = None
        """What the latest ReadyForQuery said."""

    @classmethod
    def connect(
        cls,
        address: Address,
        parameters: Mapping[str, str],
        *,
        protocol_version: tuple[int, int] = (3, 0),
        password: str = "",
        ssl_context: ssl.SSLContext | None = None,
        timeout_s: float = 30.0,
    ) -> Self:
        """Open a connection and log in.

        Raises:
            LoginError: the server refused.
        """
        client = cls(open_socket(address, timeout_s), address=address)
        try:
            if ssl_context is not None:
                client.start_tls(ssl_context)
            client.log_in(parameters, protocol_version=protocol_version, password=password)
        except BaseException:
            client.close()
            raise
        return client

    def start_tls(self, ssl_context: ssl.SSLContext) -> None:
        """Ask for TLS and go on with it."""
        assert self.request_encryption(SSLRequest()) == b"S"
        host = self._address[0] if isinstance(self._address, tuple) else None
        self._transport = ssl_context.wrap_socket(self._transport, server_hostname=host)

    def request_encryption(self, request: FrontendMessage) -> bytes:
        """Send SSLRequest or GSSENCRequest and return the one byte that answers it."""
        self.send(request)
        return self._transport.recv(1)

    def log_in(
        self,
        parameters: Mapping[str, str],
        *,
        protocol_version: tuple[int, int] = (3, 0),
        password: str = "",
    ) -> list[BackendMessage]:
        """Send the StartupMessage, authenticate, and return all messages to ReadyForQuery.

        Raises:
            LoginError: the server refused.
        """
        self.protocol_version = ProtocolVersion(*protocol_version)
        self.send(StartupMessage(self.protocol_version, tuple(parameters.items())))
        messages: list[BackendMessage] = []
        scram: ScramClient | None = None
        while True:
            message = self.receive()
            messages.append(message)
            match message:
                case ErrorResponse():
                    raise LoginError(messages)
                case ReadyForQuery():
                    return messages
                case AuthenticationCleartextPassword():
                    self.send(PasswordMessage(password))
                case AuthenticationMD5Password(salt):
                    self.send(PasswordMessage(_md5(parameters["user"], password, salt)))
                case AuthenticationSASL():
                    scram = ScramClient(password)
                    self.send(SASLInitialResponse(ScramClient.mechanism, scram.first()))
                case AuthenticationSASLContinue(data) if scram is not None:
                    self.send(SASLResponse(scram.final(data)))
                case AuthenticationSASLFinal(data) if scram is not None:
                    scram.verify(data)
                case AuthenticationRequest() | _:
                    pass

    def send(self, *messages: FrontendMessage | bytes) -> None:
        """Send messages, or any bytes, in one go."""
        self._transport.sendall(
            b"".join(m if isinstance(m, bytes) else m.encode() for m in messages)
        )

    def receive(self) -> BackendMessage:
        """Return the next message.

        Raises:
            ConnectionClosedError: there is none.
        """
        while (message := self._reader.next_message()) is None:
            try:
                data = self._transport.recv(_CHUNK_BYTES)
            except (ConnectionResetError, ssl.SSLEOFError):
                data = b""
            if not data:
                raise ConnectionClosedError
            self._reader.feed(data)
        self._take_note(message)
        return message

    def receive_until(
        self, *last: type[BackendMessage], count: int | None = None
    ) -> list[BackendMessage]:
        """Return all messages up to one of these classes, or to so many messages.

        Raises:
            ConnectionClosedError: the server closed the connection before.
        """
        messages: list[BackendMessage] = []
        while count is None or len(messages) < count:
            try:
                messages.append(self.receive())
            except ConnectionClosedError:
                raise ConnectionClosedError(messages) from None
            if isinstance(messages[-1], last):
                break
        return messages

    def receive_until_ready(self) -> list[BackendMessage]:
        """Return all messages up to and with ReadyForQuery."""
        return self.receive_until(ReadyForQuery)

    def receive_until_closed(self) -> list[BackendMessage]:
        """Return all messages until the server closes the connection."""
        try:
            while True:
                self.receive_until()
        except ConnectionClosedError as closed:
            return closed.messages

    def exchange(self, *messages: FrontendMessage | bytes) -> list[BackendMessage]:
        """Send messages and return all answers up to and with ReadyForQuery."""
        self.send(*messages)
        return self.receive_until_ready()

    def query(self, query_string: str) -> list[BackendMessage]:
        """Send a query string and return all answers up to and with ReadyForQuery."""
        return self.exchange(Query(query_string))

    def cancel(self) -> None:
        """Cancel over a second connection what this one is running; wait until it was taken."""
        assert self._address is not None
        assert self.key is not None
        with open_socket(self._address, self._transport.gettimeout()) as second:
            second.sendall(CancelRequest(self.key.process_id, self.key.secret_key).encode())
            assert second.recv(1) == b""

    def terminate(self) -> None:
        """Leave as the protocol wants it."""
        self.send(Terminate())
        self.close()

    def close(self) -> None:
        """Close the socket without a word."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _take_note(self, message: BackendMessage) -> None:
        match message:
            case ParameterStatus(name, value):
                self.settings[name] = value
            case BackendKeyData():
                self.key = message
            case ReadyForQuery(status):
                self.transaction_status = status
            case NegotiateProtocolVersion(version):
                self.protocol_version = version
            case _:
                pass


class ScramClient:
    """The client's side of SCRAM-SHA-256 (RFC 7677) without channel binding."""

    mechanism = "SCRAM-SHA-256"

    def __init__(self, password: str, *, user: str = "", nonce: str | None = None) -> None:
        """Authenticate with a password.

        PostgreSQL takes the user from the StartupMessage, so that clients leave it empty here; a
        nonce is drawn unless one is given.
        """
        self._password = password.encode()
        self._first_bare = f"n={user},r={nonce or secrets.token_urlsafe(18)}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the client-first-message."""
        return f"n,,{self._first_bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the client-final-message that answers the server-first-message."""
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, iterations)
        without_proof = f"c=biws,r={fields['r']}"
        signed = f"{self._first_bare},{challenge.decode()},{without_proof}".encode()
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), signed)
        self._server_signature = _hmac(_hmac(salted, b"Server Key"), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, outcome: bytes) -> None:
        """Check the server-final-message: the server knows the password too."""
        assert outcome == b"v=" + base64.b64encode(self._server_signature)


def open_socket(address: Address, timeout_s: float | None) -> socket.socket:
    """Return a socket connected to a server."""
    if isinstance(address, tuple):
        return socket.create_connection(address, timeout=timeout_s)
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(timeout_s)
    try:
        connected.connect(address)
    except BaseException:
        connected.close()
        raise
    return connected


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _md5(user: str, password: str, salt: bytes) -> str:
    inner = hashlib.md5((password + user).encode(), usedforsecurity=False).hexdigest()
    return "md5" + hashlib.md5(inner.encode() + salt, usedforsecurity=False).hexdigest()
