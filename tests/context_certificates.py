"""Certificates for tests of TLS, made when they are needed: an authority, and servers that it vouches for."""

from __future__ import annotations

import datetime as dt
import ipaddress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple


class Served(NamedTuple):
    """The files of a server's certificate, of the authority that signed it, and the certificate's fingerprint."""

    certificate: str
    key: str
    authority: str
    fingerprint: bytes


def make_certificate(folder: Path, name: str = "server", host: str = "127.0.0.1") -> Served:
    """A server's certificate for ``host``, signed by an authority of its own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def subject(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = dt.datetime.now(dt.UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())

    def builder(whose, key):
        return (
            x509.CertificateBuilder()
            .subject_name(subject(whose))
            .issuer_name(subject(f"authority of {name}"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )

    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    authority = (
        builder(f"authority of {name}", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        builder(name, server_key)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    paths = [folder / f"{name}{suffix}" for suffix in (".pem", ".key", ".authority.pem")]
    paths[0].write_bytes(server.public_bytes(pem))
    paths[1].write_bytes(server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    paths[2].write_bytes(authority.public_bytes(pem))
    fingerprint = sha256(server.public_bytes(serialization.Encoding.DER)).digest()
    return Served(*map(str, paths), fingerprint)
