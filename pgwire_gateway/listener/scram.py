"""SCRAM-SHA-256, the server's side: messages in, messages out; knows no connection and no role.

Follows RFC 5802 and RFC 7677, with what PostgreSQL's chapter "SASL Authentication" says of them:
the user's name is that of the start-up message, whatever stands in the exchange.
"""

import base64
import binascii
import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Self

from catalog.pg import sqlstate
from pgwire_gateway.errors import FatalError, ProtocolError

NAME: Final = "SCRAM-SHA-256"
NAME_WITH_BINDING: Final = "SCRAM-SHA-256-PLUS"

_BINDING: Final = "tls-server-end-point"
_NONCE_BYTES: Final = 18
_SALT_BYTES: Final = 16
_ITERATIONS: Final = 4096
"""PostgreSQL's default of scram_iterations."""

_VERIFIER: Final = re.compile(r"SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):(.+)")
_FIRST: Final = re.compile(
    r"(n|y|p=[A-Za-z0-9.-]+),([^,]*),(([^,]*),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)"
)
_FINAL: Final = re.compile(r"(c=([^,]*),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?),p=([^,]*)")


@dataclass(frozen=True, slots=True)
class Verifier:
    """What the server knows of a password, in place of the password itself."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def parse(cls, stored: str) -> Self | None:
        """Read the form of ``pg_authid.rolpassword``; None where it is of another kind."""
        found = _VERIFIER.fullmatch(stored)
        if found is None:
            return None
        salt, stored_key, server_key = (base64.b64decode(part) for part in found.groups()[1:])
        return cls(int(found[1]), salt, stored_key, server_key)

    @classmethod
    def mock(cls, secret: bytes, user: str) -> Self:
        """Return what looks like a role's, the same for each name, and no password fits."""
        salt = hmac.digest(secret, user.encode(), sha256)[:_SALT_BYTES]
        return cls(_ITERATIONS, salt, secrets.token_bytes(32), secrets.token_bytes(32))


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What a client has proved to know; with it the server can log in elsewhere in its name."""

    client_key: bytes
    server_key: bytes


class Exchange:
    """One client's proof that it knows a password."""

    def __init__(
        self, verifier: Verifier, *, mechanism: str = NAME, end_point: bytes | None = None
    ) -> None:
        """Begin.

        Args:
            verifier: What is known of the password.
            mechanism: What the client has chosen.
            end_point: What it could bind the proof to; None where that was not offered.
        """
        self._verifier = verifier
        self._binds = mechanism == NAME_WITH_BINDING
        self._end_point = end_point
        self._nonce = ""
        self._bound = b""
        self._said = ""

    def challenge(self, first: bytes) -> bytes:
        """Return the answer to the client's first message.

        Raises:
            ProtocolError: It breaks the protocol (08P01).
            FatalError: 28000 where somebody keeps the client from binding; 0A000 for what is not
                supported.
        """
        found = _FIRST.fullmatch(_text(first))
        if found is None:
            raise _malformed("The first message of the client is none.")
        flag, identity, bare, name, nonce = found.groups()
        self._require_right_binding(flag)
        if identity:
            raise _unsupported("client uses authorization identity, but it is not supported")
        if name.startswith("m="):
            raise _unsupported("client requires an unsupported SCRAM extension")
        if not name.startswith("n="):
            raise _malformed("The first message of the client names no user.")
        header = f"{flag},{identity},".encode()
        self._bound = header + (self._end_point or b"") if self._binds else header
        self._nonce = nonce + _encoded(secrets.token_bytes(_NONCE_BYTES))
        salt = _encoded(self._verifier.salt)
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._said = f"{bare},{answer}"
        return answer.encode()

    def outcome(self, final: bytes) -> tuple[bytes, ScramKeys] | None:
        """Return the answer to the client's proof, and what it has proved; None if it is wrong.

        Raises:
            ProtocolError: It breaks the protocol (08P01).
            FatalError: 28000 where it is bound to another channel.
        """
        found = _FINAL.fullmatch(_text(final))
        if found is None:
            raise _malformed("The last message of the client is none.")
        without_proof, bound, nonce, proved = found.groups()
        if not hmac.compare_digest(_decoded(bound), self._bound):
            raise FatalError(
                "SCRAM channel binding check failed",
                sqlstate=sqlstate.INVALID_AUTHORIZATION_SPECIFICATION,
            )
        if not hmac.compare_digest(nonce, self._nonce):
            raise ProtocolError("invalid SCRAM response", detail="Nonce does not match.")
        proof = _decoded(proved)
        if len(proof) != sha256().digest_size:
            raise _malformed("The proof has not the length of a hash.")
        said = f"{self._said},{without_proof}".encode()
        signature = hmac.digest(self._verifier.stored_key, said, sha256)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(sha256(client_key).digest(), self._verifier.stored_key):
            return None
        answer = _encoded(hmac.digest(self._verifier.server_key, said, sha256))
        return f"v={answer}".encode(), ScramKeys(client_key, self._verifier.server_key)

    def _require_right_binding(self, flag: str) -> None:
        """Refuse what does not go with the mechanism that the client has chosen."""
        if flag.startswith("p="):
            if not self._binds:
                raise _malformed("The client binds to the channel without having said so.")
            if flag != f"p={_BINDING}":
                raise _unsupported(f'unsupported SCRAM channel-binding type "{flag[2:]}"')
        elif self._binds:
            raise _malformed("The client does not bind to the channel, but has said so.")
        elif flag == "y" and self._end_point is not None:
            # It was offered: somebody between client and server has taken the offer away.
            raise FatalError(
                "SCRAM channel binding negotiation error",
                sqlstate=sqlstate.INVALID_AUTHORIZATION_SPECIFICATION,
                detail="The client supports SCRAM channel binding but thinks the server does not. "
                "However, this server does support channel binding.",
            )


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise _malformed("The message is not UTF-8.") from error


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise _malformed("A part of the message is not base64.") from error


def _malformed(detail: str) -> ProtocolError:
    return ProtocolError("malformed SCRAM message", detail=detail)


def _unsupported(message: str) -> FatalError:
    return FatalError(message, sqlstate=sqlstate.FEATURE_NOT_SUPPORTED)
