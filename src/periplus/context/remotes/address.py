"""Addresses of context servers, and the check that a server is the right one.

An address is ``unix:PATH``, ``tcp://HOST:PORT`` (plain, for loopback) or ``tls://HOST:PORT``. With TLS a server is
identified by the authority that signed its certificate (``ca_file``) or by the certificate itself (``fingerprint``, the
SHA-256 of its DER form). A pinned certificate is checked before the first byte is sent, so that a token never reaches
an impostor; and no token is sent over plain TCP to another machine.
"""

from __future__ import annotations

__all__ = [
    "PATH_BYTES_MAX",
    "Address",
    "Trust",
    "certificate_failure",
    "check_fingerprint",
    "check_token_stays_secret",
    "client_tls",
    "connect",
    "connection_failure",
    "fingerprint_of",
    "is_loopback",
    "parse_address",
    "parse_fingerprint",
    "socket_path",
]

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from periplus.base.errors import EnvironmentFailure, PeriplusError, RefusedError, UsageError, environment_failure

if TYPE_CHECKING:
    import ssl

PATH_BYTES_MAX: Final = 103  # sun_path of macOS without its final zero; Linux has four more
_PORT_MAX: Final = 65_535
_FORMS: Final = "unix:PATH, tcp://HOST:PORT or tls://HOST:PORT"


class Address(NamedTuple):
    """A server address: ``path`` of a Unix socket, or ``host`` and ``port``."""

    scheme: Literal["unix", "tcp", "tls"]
    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_far(self) -> bool:
        """True if bytes on the way may be expensive. A Unix socket and plain TCP on loopback stay on this machine and
        are not compressed.
        """
        return self.scheme == "tls"

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Trust(NamedTuple):
    """The identity of a TLS server. With neither field, the authorities of the machine decide."""

    ca_file: str | None = None
    fingerprint: bytes | None = None


def parse_address(text: str) -> Address:
    """Parse an address. Raises UsageError."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path or "\x00" in path:
            raise UsageError(f"{text!r} names no socket", mend=f"Give {_FORMS}.")
        return Address("unix", path=path)
    scheme, found, rest = text.partition("://")
    host, colon, port = rest.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_number = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= _PORT_MAX
    if not found or scheme not in {"tcp", "tls"} or not colon or not host or not is_number or "/" in host:
        raise UsageError(f"{text!r} is not the address of a context server", mend=f"Give {_FORMS}.")
    return Address("tls" if scheme == "tls" else "tcp", host=host, port=int(port))


def parse_fingerprint(text: str) -> bytes:
    """Parse 64 hexadecimal digits, with or without colons. Raises UsageError."""
    digits = text.replace(":", "")
    if len(digits) != 64 or not set(digits.lower()) <= set("0123456789abcdef"):
        raise UsageError(
            "fingerprint: not the SHA-256 of a certificate (64 hexadecimal digits)",
            mend="openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE shows it.",
        )
    return bytes.fromhex(digits)


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is certainly this machine: by a loopback number, or by the name ``localhost``."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token_stays_secret(address: Address, token: str) -> None:
    """Raise RefusedError if a token would travel over a network unencrypted: plain TCP is for this machine."""
    if token and address.scheme == "tcp" and not is_loopback(address.host):
        raise RefusedError(
            f"will not send a token to {address}: plain TCP shows it to everybody on the way",
            safe="Nothing was sent.",
            mend=f"Name the server as {address._replace(scheme='tls')}.",
        )


@contextmanager
def socket_path(path: str) -> Iterator[str]:
    """Yield a name of ``path`` that fits into a socket address: a long path goes through the open folder if the system
    allows it.
    """
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    if sys.platform != "linux":
        raise UsageError(
            f"socket {path}: over {PATH_BYTES_MAX} bytes, which is more than this system takes",
            mend="Choose a shorter path for the socket.",
        )
    folder, name = os.path.split(path)
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise environment_failure(error, "open the folder of the socket", folder) from error
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def client_tls(trust: Trust) -> ssl.SSLContext:
    """Return a context for TLS 1.3 only. With a fingerprint, ``check_fingerprint`` checks the certificate."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=trust.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"ca_file {trust.ca_file}: not a readable certificate in PEM form") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if trust.fingerprint is not None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint_of(certificate: bytes) -> bytes:
    """Return the fingerprint of a certificate in DER form."""
    return sha256(certificate).digest()


def check_fingerprint(address: Address, trust: Trust, certificate: bytes | None) -> None:
    """Raise RefusedError if the server shows another certificate (DER) than the pinned one."""
    if trust.fingerprint is None:
        return
    shown = fingerprint_of(certificate or b"")
    if not compare_digest(shown, trust.fingerprint):
        raise RefusedError(
            f"{address} shows another certificate than the pinned one: {shown.hex()}, not {trust.fingerprint.hex()}",
            safe="Nothing was sent to it, not even the token.",
            mend="Ask who runs the server whether the certificate was replaced; if so, pin the new fingerprint.",
        )


def certificate_failure(address: Address, trust: Trust, reason: str) -> RefusedError:
    """Return the error for a certificate that the authority did not sign; ``reason`` is that of TLS."""
    vouching = f"{trust.ca_file}" if trust.ca_file else "the authorities of this machine"
    return RefusedError(
        f"the certificate of {address} is not signed by {vouching}: {reason}",
        safe="Nothing was sent to it, not even the token.",
        mend="Ask who runs the server whether the certificate was replaced; if so, give the new authority.",
    )


def connection_failure(address: Address, error: OSError | None, doing: str = "reach") -> EnvironmentFailure:
    reason = "it ended the connection" if error is None else error.strerror or str(error) or type(error).__name__
    look = "Check that the server runs"
    if address.scheme == "tcp" and doing != "reach":  # the server was reached, and refused the protocol
        look += f"; if it speaks TLS, name it as {address._replace(scheme='tls')}"
    elif getattr(error, "reason", "") == "WRONG_VERSION_NUMBER":
        reason = "the server there does not speak TLS"
        look += f"; if it is one without TLS, name it as {address._replace(scheme='tcp')}"
    return EnvironmentFailure(
        f"cannot {doing} the context server at {address}: {reason}",
        safe="Nothing here was changed; what was transferred is kept.",
        mend=f"{look}, then repeat the command: it continues where it stopped.",
    )


def connect(address: Address, trust: Trust, timeout_s: float) -> socket.socket:
    """Open a blocking socket to the server and check its certificate. Raises EnvironmentFailure, RefusedError,
    UsageError.
    """
    try:
        if address.scheme == "unix":
            plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                plain.settimeout(timeout_s)
                with socket_path(address.path) as path:
                    plain.connect(path)
            except BaseException:  # on any failure: close the socket and re-raise
                plain.close()
                raise
            return plain
        plain = socket.create_connection((address.host, address.port), timeout=timeout_s)
    except OSError as error:
        raise connection_failure(address, error) from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain if address.scheme == "tcp" else _with_tls(plain, address, trust)


def _with_tls(plain: socket.socket, address: Address, trust: Trust) -> socket.socket:
    import ssl

    wrapped: ssl.SSLSocket | None = None
    try:
        wrapped = client_tls(trust).wrap_socket(plain, server_hostname=address.host)
        check_fingerprint(address, trust, wrapped.getpeercert(binary_form=True))
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise certificate_failure(address, trust, error.verify_message) from error
    except OSError as error:
        plain.close()
        raise connection_failure(address, error) from error
    except PeriplusError:
        (wrapped or plain).close()
        raise
    return wrapped
