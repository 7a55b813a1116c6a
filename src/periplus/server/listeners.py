"""Listening sockets of a context server, and addresses that it refuses.

A Unix socket has mode 0600 before anybody can connect. TCP is bound to loopback unless another host is named, which requires a
token and TLS. A killed server leaves its socket behind; the lock beside it distinguishes a leftover from a socket in use.
"""

from __future__ import annotations

__all__ = ["TOKEN_BYTES_MAX", "TOKEN_BYTES_MIN", "Endpoint", "Listener", "listen", "server_tls", "token_matches"]

import os
import socket
import stat
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import EnvironmentFailure, RefusedError, UsageError, environment_failure
from periplus.base.process.locks import Lock, holder_of
from periplus.context.remotes.address import Address, is_loopback, socket_path

if TYPE_CHECKING:
    import ssl

BACKLOG: Final = 128
TOKEN_BYTES_MIN: Final = 16
TOKEN_BYTES_MAX: Final = 1_024
SOCKET_MODE: Final = 0o600


class Endpoint(NamedTuple):
    """An address to listen on: ``path`` of a Unix socket, or ``host`` and ``port`` (0: any free one), with token and TLS files."""

    path: str = ""
    host: str = ""
    port: int = 0
    token: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None


class Listener:
    """An open listening socket. ``is_local``: a Unix socket, which only this user can reach."""

    def __init__(
        self, opened: socket.socket, address: Address, token: str | None, tls: ssl.SSLContext | None, lock: Lock | None
    ) -> None:
        self.socket = opened
        self.address = address
        self.token = token
        self.tls = tls
        self._lock = lock
        self._name = _name_of(address.path) if self.is_local else None

    @property
    def is_local(self) -> bool:
        return self.address.scheme == "unix"

    def close(self) -> None:
        """Stop listening, and remove the socket's file if it is still ours."""
        self.socket.close()
        if self._lock is not None:
            try:
                if _name_of(self.address.path) == self._name:  # otherwise a later server owns it
                    os.unlink(self.address.path)
            except FileNotFoundError:
                pass  # already removed
            self._lock.release()
            self._lock.close()
            self._lock = None


def _name_of(path: str) -> tuple[int, int] | None:
    """Identify the socket that has this name now."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def token_matches(given: str | None, wanted: str | None) -> bool:
    """Compare tokens in constant time."""
    if wanted is None:
        return True
    return (
        compare_digest(sha256((given or "").encode()).digest(), sha256(wanted.encode()).digest()) and given is not None
    )


def listen(endpoint: Endpoint) -> Listener:
    """Open the listener. Raises UsageError and RefusedError for forbidden addresses, EnvironmentFailure for failures."""
    return _listen_unix(endpoint) if endpoint.path else _listen_tcp(endpoint)


def _listen_unix(endpoint: Endpoint) -> Listener:
    path = os.path.abspath(endpoint.path)
    _is_leftover(path)  # do not touch a file that is not a socket, and put no lock beside it
    lock = Lock(path + ".lock")
    if not lock.try_take():
        holder = holder_of(path + ".lock")
        raise RefusedError(
            f"another server listens on {path}" + (f": {holder.text}" if holder else ""),
            safe="It was not changed.",
            mend="Stop it, or give another path for the socket.",
        )
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_leftover(path)
        with socket_path(path) as name:
            opened.bind(name)
            os.chmod(name, SOCKET_MODE)  # before it listens, so before anybody can connect
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        lock.release()
        lock.close()
        raise environment_failure(error, "listen on", path) from error
    except BaseException:  # close what was opened, then raise again
        opened.close()
        lock.release()
        lock.close()
        raise
    return Listener(opened, Address("unix", path=path), endpoint.token, None, lock)


def _is_leftover(path: str) -> bool:
    """Return whether there is a socket. Raises UsageError if there is another file."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    if not stat.S_ISSOCK(status.st_mode):
        raise UsageError(f"{path} exists and is not a socket", safe="It was not changed.", mend="Give another path.")
    return True


def _remove_leftover(path: str) -> None:
    if _is_leftover(path):
        os.unlink(path)  # nobody holds its lock, so its server is dead


def _listen_tcp(endpoint: Endpoint) -> Listener:
    host = endpoint.host or "127.0.0.1"
    _check_protected(endpoint, host)
    tls = None
    if endpoint.certificate_file is not None:
        tls = server_tls(endpoint.certificate_file, endpoint.key_file)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        if is_loopback(host) and not is_loopback(str(where[0])):
            raise EnvironmentFailure(f"{host} is not this machine's loopback here: {where[0]}")
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise environment_failure(error, "listen on", host) from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(where)
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        raise environment_failure(error, "listen on", f"{host}:{endpoint.port}") from error
    bound = opened.getsockname()
    return Listener(opened, Address("tls" if tls else "tcp", host=bound[0], port=bound[1]), endpoint.token, tls, None)


def _check_protected(endpoint: Endpoint, host: str) -> None:
    if (endpoint.certificate_file is None) != (endpoint.key_file is None):
        raise UsageError("TLS needs two files: the certificate and its key", mend="Give both or neither.")
    token = endpoint.token
    if token is not None and not TOKEN_BYTES_MIN <= len(token.encode()) <= TOKEN_BYTES_MAX:
        raise UsageError(
            f"token: {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX:,} bytes", mend="Generate one: openssl rand -hex 32"
        )
    lacking = [what for what, given in (("a token", token), ("TLS files", endpoint.certificate_file)) if given is None]
    if lacking and not is_loopback(host):
        raise RefusedError(
            f"will not listen on {host} without {' and '.join(lacking)}: anybody who reaches it could read and change the store",
            safe="Nothing was started.",
            mend="Give a token file, a certificate and its key; or listen on 127.0.0.1.",
        )


def server_tls(certificate_file: str, key_file: str | None) -> ssl.SSLContext:
    """Return a TLS context for TLS 1.3 only. Raises UsageError."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(
            certificate_file, key_file, password=lambda: ""
        )  # otherwise OpenSSL would ask at the terminal and block
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"certificate {certificate_file} with key {key_file}: cannot be read, or do not match",
            mend="Both are PEM files; the key has no password.",
        ) from error
    return context
