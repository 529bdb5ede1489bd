"""Certificates for tests: an authority of their own, and what it signs."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Certificates:
    """Files of PEM."""

    authority: Path
    """What clients trust."""
    server: Path
    """The server's certificate."""
    key: Path
    """Its private key."""


def make_certificates(directory: Path, *, signature: str = "sha256") -> Certificates:
    """Make certificates for 127.0.0.1 and localhost; by Ed25519 the signature names no hash."""
    found = Certificates(*(directory / f"{name}.pem" for name in ("authority", "server", "key")))
    plain = signature != "ed25519"
    hashed = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384()}.get(signature)
    parent = (
        ec.generate_private_key(ec.SECP256R1()) if plain else ed25519.Ed25519PrivateKey.generate()
    )
    own = ec.generate_private_key(ec.SECP256R1())
    authority = _builder("tests", "tests", parent.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = _builder("tests", "localhost", own.public_key()).add_extension(
        x509.SubjectAlternativeName(names), critical=False
    )
    for path, certificate in ((found.authority, authority), (found.server, server)):
        signed = certificate.sign(parent, hashed)
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    found.key.touch(mode=0o600)
    found.key.write_bytes(
        own.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return found


def _builder(issuer: str, subject: str, key: object) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(_name(issuer))
        .subject_name(_name(subject))
        .public_key(key)  # type: ignore[arg-type]
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
