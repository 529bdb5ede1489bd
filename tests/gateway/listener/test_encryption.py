"""TLS between a client and whoever serves it: all bytes arrive, and both learn of the end."""

import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pgwire_gateway.config import Config, ConfigError
from pgwire_gateway.listener.encryption import Encryption, Tunnel
from tests.support.certificates import Certificates, make_certificates

LARGE = bytes(range(256)) * 40_000
"""More than sockets and TLS records hold."""

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def config(files: Certificates) -> Config:
    return Config(tls_certificate=files.server, tls_key=files.key)


@contextmanager
def connected(files: Certificates) -> Iterator[tuple[ssl.SSLSocket, socket.socket, Tunnel]]:
    """A client's encrypted socket, the plain end that serves it, and what is between."""
    encryption = Encryption.load(config(files))
    assert encryption is not None
    listener = socket.create_server(("127.0.0.1", 0))
    context = ssl.create_default_context(cafile=files.authority)
    clients: list[ssl.SSLSocket] = []

    def connect() -> None:
        plain = socket.create_connection(listener.getsockname(), TIMEOUT_S)
        clients.append(context.wrap_socket(plain, server_hostname="localhost"))

    thread = threading.Thread(target=connect)
    thread.start()
    accepted, _ = listener.accept()
    tunnel = Tunnel(accepted, encryption, b"")
    tunnel.shake_hands()
    tunnel.start()
    thread.join()
    tunnel.plain.settimeout(TIMEOUT_S)
    with listener, accepted, clients[0] as client:
        yield client, tunnel.plain, tunnel
        tunnel.close()


def received(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := end.recv(1 << 16)):
        data += part
    return data


def test_bytes_arrive_in_both_directions_at_once(certificates):
    with connected(certificates) as (client, server, _):
        sender = threading.Thread(target=client.sendall, args=(LARGE,))
        sender.start()
        answer = threading.Thread(target=server.sendall, args=(LARGE[::-1],))
        taken = received(server, len(LARGE))
        sender.join()
        answer.start()
        assert received(client, len(LARGE)) == LARGE[::-1]
        answer.join()
        assert taken == LARGE


def test_what_was_sent_before_the_end_arrives(certificates):
    with connected(certificates) as (client, server, tunnel):
        client.sendall(b"never read")

        def send_and_leave() -> None:
            server.sendall(LARGE)
            tunnel.close()

        server_thread = threading.Thread(target=send_and_leave)
        server_thread.start()
        assert (
            hashlib.sha256(received(client, len(LARGE) + 1)).digest()
            == hashlib.sha256(LARGE).digest()
        )
        server_thread.join()
        assert not tunnel.is_alive()


def test_a_client_that_leaves_is_noticed(certificates):
    with connected(certificates) as (client, server, tunnel):
        client.sendall(b"last words")
        client.close()
        assert received(server, 100) == b"last words"
        tunnel.join(TIMEOUT_S)
        assert not tunnel.is_alive()


def test_a_client_that_takes_nothing_blocks_the_server(certificates):
    with connected(certificates) as (client, server, _):
        server.settimeout(0.5)
        with pytest.raises(TimeoutError):
            server.sendall(LARGE)
        client.close()


def test_what_is_no_tls_is_refused(certificates):
    encryption = Encryption.load(config(certificates))
    assert encryption is not None
    client, server = socket.socketpair()
    with client, server, pytest.raises(ssl.SSLError):
        Tunnel(server, encryption, b"GET / HTTP/1.1\r\n\r\n").shake_hands()


def test_a_client_that_hangs_up_while_shaking_hands_is_gone(certificates):
    encryption = Encryption.load(config(certificates))
    assert encryption is not None
    client, server = socket.socketpair()
    client.close()
    with server, pytest.raises(OSError, match=r"."):
        Tunnel(server, encryption, b"\x16").shake_hands()


def test_a_key_that_others_can_read_is_refused(tmp_path):
    files = make_certificates(tmp_path)
    files.key.chmod(0o644)
    with pytest.raises(ConfigError, match="group or world access") as caught:
        Encryption.load(config(files))
    assert "chmod" in (caught.value.hint or "")


def test_files_that_cannot_be_used_are_named(tmp_path):
    files = make_certificates(tmp_path)
    other = make_certificates(_second(tmp_path))
    for broken in (
        replace(config(files), tls_certificate=tmp_path / "none.pem"),
        replace(config(files), tls_key=tmp_path / "none.pem"),
        replace(config(files), tls_key=other.key),
        replace(config(files), tls_ca=files.key),
    ):
        with pytest.raises(ConfigError, match=r"\.pem"):
            Encryption.load(broken)
    with pytest.raises(ConfigError, match="--tls-certificate"):
        Encryption.load(Config(tls_key=files.key))
    with pytest.raises(ConfigError, match="no private key") as caught:
        Encryption.load(replace(config(files), tls_key=None))
    assert "--tls-key" in (caught.value.hint or "")


def _second(tmp_path: Path) -> Path:
    """Make a second directory."""
    directory = tmp_path / "other"
    directory.mkdir()
    return directory


@pytest.mark.parametrize(("signature", "size"), [("sha256", 32), ("sha384", 48), ("ed25519", None)])
def test_the_hash_that_clients_bind_to_is_that_of_the_signature(tmp_path, signature, size):
    encryption = Encryption.load(config(make_certificates(tmp_path, signature=signature)))
    assert encryption is not None
    end_point = encryption.end_point
    assert (None if end_point is None else len(end_point)) == size


def test_without_a_certificate_nothing_is_encrypted():
    assert Encryption.load(Config()) is None
