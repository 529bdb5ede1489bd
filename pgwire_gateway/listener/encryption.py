"""TLS on a client's connection: a thread stands between its socket and whoever serves it.

Whoever serves the client has one end of a pair of sockets, with plain bytes: so a connection is
read, polled and written in one way, encrypted or not. Sections "SSL Session Encryption" and
"Message Flow" of PostgreSQL's protocol chapter; RFC 8446, RFC 5929 for the channel binding.
"""

import logging
import select
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from typing_extensions import override

from pgwire_gateway.config import Config, ConfigError

logger = logging.getLogger(__name__)

ALPN_PROTOCOL: Final = "postgresql"
"""What a client names that begins with TLS at once."""

HANDSHAKE_BYTE: Final = 0x16
"""First byte of a TLS connection; no start-up packet is long enough to have it."""

_READ_BYTES: Final = 256 * 1024

_LINGER_S: Final = 10.0
"""How long a client may take for the last bytes."""

_OTHERS: Final = 0o077
_OTHERS_OF_ROOTS: Final = 0o037
"""Permissions that nobody but the owner of a private key may have (root's: its group may read)."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """What the server proves its identity with."""

    context: ssl.SSLContext
    end_point: bytes | None
    """Hash of the certificate, which clients may bind authentication to (RFC 5929, section 4).

    None where the certificate's signature tells no hash.
    """

    @classmethod
    def load(cls, config: Config) -> Self | None:
        """Read the files; None where no certificate is configured.

        Raises:
            ConfigError: A file cannot be used (22023).
        """
        certificate, key = config.tls_certificate, config.tls_key
        if certificate is None:
            if key is not None or config.tls_ca is not None:
                raise ConfigError("--tls-key and --tls-ca need --tls-certificate")
            return None
        if key is None and not _has_key(certificate):
            raise ConfigError(
                f"there is no private key in {certificate}",
                hint="Name the file that has it: --tls-key.",
            )
        _require_private(key or certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # sessions are not resumed
        context.set_alpn_protocols([ALPN_PROTOCOL])
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
            if config.tls_ca is not None:
                context.load_verify_locations(config.tls_ca)
                context.verify_mode = ssl.CERT_OPTIONAL
            return cls(context, _end_point(certificate.read_bytes()))
        except (OSError, ValueError) as error:
            names = ", ".join(str(name) for name in (certificate, key, config.tls_ca) if name)
            raise ConfigError(f"could not use the files for TLS ({names}): {error}") from error


class Tunnel(threading.Thread):
    """Decrypts what one client sends, and encrypts what it is sent."""

    def __init__(self, client: socket.socket, encryption: Encryption, received: bytes) -> None:
        """Take a connection of which some bytes have been received already."""
        super().__init__(name="tls", daemon=True)
        self._client = client
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(received)
        self._tls = encryption.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._own, self.plain = socket.socketpair()
        """The end with plain bytes."""
        self._to_client, self._to_server = memoryview(b""), memoryview(b"")
        self._client_ended = self._server_ended = False

    def shake_hands(self) -> str | None:
        """Agree with the client on keys; return the protocol it has named, if any.

        Raises:
            OSError: They could not agree, or the client hung up.
        """
        try:
            while not self._shake():
                self._take_from_client()
        except BaseException:
            self._own.close()
            raise
        return self._tls.selected_alpn_protocol()

    def _shake(self) -> bool:
        """Go as far as what has come allows; return whether that is the end."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            logger.info("a client and the server do not agree on encryption: %s", error)
            raise
        finally:
            self._client.sendall(self._outgoing.read())  # also what tells the client why not
        return True

    def close(self) -> None:
        """Wait until the client has got what was sent to it, and no longer than it deserves."""
        self.plain.close()
        if not self.is_alive():
            return
        self.join(_LINGER_S)
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)
        self.join(_LINGER_S)

    @override
    def run(self) -> None:
        """Pass bytes on until one side ends."""
        self._client.setblocking(False)
        self._own.setblocking(False)
        try:
            self._pass_on()
        except (OSError, ValueError):
            # Broken, or what came was no TLS: the end is all that the other side can be told.
            logger.debug("encrypted connection ends", exc_info=True)
        finally:
            with suppress(OSError):
                self._client.shutdown(socket.SHUT_RDWR)
            self._own.close()

    def _pass_on(self) -> None:
        while True:
            self._send()
            if self._decrypt():
                continue
            if self._client_ended and not self._to_server:
                return
            if self._server_ended and not self._to_client:
                return
            ready = self._wait()
            if self._client.fileno() in ready:
                self._take_from_client()
            if self._own.fileno() in ready:
                self._take_from_server()

    def _wait(self) -> frozenset[int]:
        """Wait for what can be done next; return the descriptors that can be read."""
        takes = {
            self._client: not (self._to_server or self._client_ended),
            self._own: not (self._to_client or self._server_ended),
        }
        gives = {self._client: bool(self._to_client), self._own: bool(self._to_server)}
        poll = select.poll()
        for end, wanted in takes.items():
            events = (select.POLLIN if wanted else 0) | (select.POLLOUT if gives[end] else 0)
            if events:
                poll.register(end, events)
        found = dict(poll.poll(_LINGER_S * 1000 if self._server_ended else None))
        if not found:
            raise TimeoutError
        readable = {number for number, events in found.items() if events & ~select.POLLOUT}
        return frozenset(end.fileno() for end, wanted in takes.items() if wanted) & readable

    def _decrypt(self) -> bool:
        """Make bytes for the server of those that have come, if it has taken all before them."""
        if self._to_server or self._client_ended:
            return False
        try:
            data = self._tls.read(_READ_BYTES)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:  # a farewell, or none
            data = b""
        self._to_server, self._client_ended = memoryview(data), not data
        return bool(data)

    def _send(self) -> None:
        """Hand over as much as either side takes now."""
        if not self._to_client:
            self._to_client = memoryview(self._outgoing.read())
        self._to_client = _sent(self._client, self._to_client)
        try:
            self._to_server = _sent(self._own, self._to_server)
        except OSError:
            self._to_server = memoryview(b"")  # it has left; what it has said is still to be sent

    def _take_from_client(self) -> None:
        data = self._client.recv(_READ_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _take_from_server(self) -> None:
        try:
            data = self._own.recv(_READ_BYTES)
        except ConnectionResetError:  # it has left without having read all
            data = b""
        if data:
            self._tls.write(data)
            return
        self._server_ended = True
        with suppress(ssl.SSLError):  # a farewell that is not waited for
            self._tls.unwrap()


def _sent(end: socket.socket, data: memoryview) -> memoryview:
    """Send what can be sent now; return the rest."""
    if not data:
        return data
    with suppress(BlockingIOError):
        return data[end.send(data) :]
    return data


def _end_point(certificates: bytes) -> bytes | None:
    """Return the hash that RFC 5929 asks for: that of the signature, but no weaker than SHA-256."""
    own = x509.load_pem_x509_certificates(certificates)[0]
    try:
        used = own.signature_hash_algorithm
    except UnsupportedAlgorithm:
        used = None
    if used is None:
        logger.warning("the certificate's signature allows no channel binding")
        return None
    weak = isinstance(used, hashes.MD5 | hashes.SHA1)
    return own.fingerprint(hashes.SHA256() if weak else used)


def _has_key(certificate: Path) -> bool:
    """Tell whether a PEM file has a private key, too; whoever reads it tells why it cannot be."""
    try:
        return b"PRIVATE KEY-----" in certificate.read_bytes()
    except OSError:
        return True


def _require_private(key: Path) -> None:
    """Refuse a private key that others can read, as PostgreSQL does."""
    try:
        found = key.stat()
    except OSError as error:
        raise ConfigError(f"could not read {key}: {error.strerror}") from error
    if found.st_mode & (_OTHERS if found.st_uid else _OTHERS_OF_ROOTS):
        raise ConfigError(
            f"private key file {key} has group or world access",
            hint="Allow its owner alone to read it: chmod 600.",
        )


def _no_password() -> str:
    """Answer instead of the terminal, at which nobody may sit."""
    raise ValueError("the private key is protected by a passphrase, which is not supported")
