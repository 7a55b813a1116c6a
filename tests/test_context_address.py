"""Addresses of context servers, and what a server listens on: what is refused, and what is said of it."""

from __future__ import annotations

import os
import pty
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from context_certificates import make_certificate
from periplus.base.errors import EnvironmentFailure, RefusedError, UsageError
from periplus.context.remotes.address import (
    Address,
    Trust,
    connect,
    is_loopback,
    parse_address,
    parse_fingerprint,
)
from periplus.server.listeners import Endpoint, listen, token_matches

pytestmark = pytest.mark.quick

TOKEN = "correct horse battery staple"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/a/b.sock", Address("unix", path="/a/b.sock")),
        ("tcp://localhost:80", Address("tcp", host="localhost", port=80)),
        ("tls://example.org:9000", Address("tls", host="example.org", port=9000)),
        ("tls://[::1]:9000", Address("tls", host="::1", port=9000)),
    ],
)
def test_an_address_is_read_and_printed(text, address):
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "unix:", "unix:a\0b", "tcp://", "tcp://host", "tcp://host:", "tcp://:80", "tcp://host:0", "tcp://host:65536",
     "tcp://host:٣", "http://host:80", "tls://host:80/path", "host:80"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert "tls://HOST:PORT" in caught.value.mend


def test_fingerprints_are_read_with_and_without_colons():
    assert parse_fingerprint("AB" * 32) == parse_fingerprint(":".join(["ab"] * 32)) == b"\xab" * 32
    for wrong in ("", "ab" * 31, "zz" * 32):
        with pytest.raises(UsageError, match="fingerprint"):
            parse_fingerprint(wrong)


def test_only_this_machine_is_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "")))


def test_tokens_match_only_themselves():
    assert token_matches("a" * 20, "a" * 20)
    assert token_matches(None, None)
    assert not any(token_matches(given, "a" * 20) for given in (None, "", "a" * 19, "a" * 21, "ä" * 20))


def test_the_socket_of_a_store_is_for_its_owner_alone_and_goes_with_its_server(tmp_path):
    path = str(tmp_path / "contexts.sock")
    listener = listen(Endpoint(path=path))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert listener.is_local
    listener.close()
    assert not os.path.exists(path)


def test_a_second_server_is_refused_and_a_dead_ones_socket_taken_over(tmp_path):
    path = str(tmp_path / "contexts.sock")
    first = listen(Endpoint(path=path))
    with pytest.raises(RefusedError, match=f"{os.getpid()}"):
        listen(Endpoint(path=path))
    connect(first.address, Trust(), 10).close()
    first.close()
    left = socket.socket(socket.AF_UNIX)
    left.bind(path)
    left.close()  # as a server that was killed leaves it
    second = listen(Endpoint(path=path))
    connect(second.address, Trust(), 10).close()
    second.close()


def test_a_server_that_ends_leaves_the_socket_of_one_that_came_after_it(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    path = str(folder / "contexts.sock")
    first = listen(Endpoint(path=path))
    folder.rename(tmp_path / "moved")  # with the lock
    folder.mkdir()
    second = listen(Endpoint(path=path))
    first.close()
    connect(second.address, Trust(), 10).close()
    second.close()
    assert not os.path.exists(path)


def test_a_file_where_the_socket_would_be_is_left_alone(tmp_path):
    path = tmp_path / "contexts.sock"
    path.write_text("mine")
    with pytest.raises(UsageError, match="not a socket"):
        listen(Endpoint(path=str(path)))
    assert path.read_text() == "mine"


def test_a_socket_deep_in_folders_works(tmp_path):
    folder = tmp_path.joinpath(*["a folder with a long name"] * 6)
    folder.mkdir(parents=True)
    listener = listen(Endpoint(path=str(folder / "contexts.sock")))
    try:
        assert len(listener.address.path) > 108
        assert stat.S_IMODE(os.stat(listener.address.path).st_mode) == 0o600
        connect(listener.address, Trust(), 10).close()
    finally:
        listener.close()


@pytest.mark.parametrize("given", [{}, {"token": TOKEN}, {"tls": True}])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_nothing_but_loopback_without_token_and_tls(tmp_path, host, given):
    served = make_certificate(tmp_path)
    files = {"certificate_file": served.certificate, "key_file": served.key} if given.get("tls") else {}
    with pytest.raises(RefusedError) as caught:
        listen(Endpoint(host=host, token=given.get("token"), **files))
    assert ("a token" in caught.value.wrong) == ("token" not in given)
    assert ("TLS files" in caught.value.wrong) == ("tls" not in given)
    assert caught.value.mend


def test_with_token_and_tls_any_host_is_listened_on(tmp_path):
    served = make_certificate(tmp_path)
    listener = listen(Endpoint(host="0.0.0.0", token=TOKEN, certificate_file=served.certificate, key_file=served.key))
    assert (listener.address.scheme, listener.token) == ("tls", TOKEN)
    assert listener.address.port > 0
    listener.close()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"token": "short"}, "token"),
        ({"token": "x" * 1_025}, "token"),
        ({"certificate_file": "a"}, "two files"),
        ({"key_file": "a"}, "two files"),
        ({"certificate_file": "/nowhere/a", "key_file": "/nowhere/b"}, "/nowhere/a"),
    ],
)
def test_wrong_protection_is_named(given, named):
    with pytest.raises(UsageError, match=named):
        listen(Endpoint(**given))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(tmp_path):
    served = make_certificate(tmp_path)
    plain = load_pem_private_key(Path(served.key).read_bytes(), None)
    locked = BestAvailableEncryption(b"password")
    Path(served.key).write_bytes(plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    master, terminal = pty.openpty()
    try:
        code = "import sys; from periplus.server.listeners import server_tls; server_tls(*sys.argv[1:])"
        done = subprocess.run(
            [sys.executable, "-c", code, served.certificate, served.key],
            stdin=terminal, capture_output=True, text=True, timeout=60, start_new_session=True, check=False,
        )  # fmt: skip
    finally:
        os.close(terminal)
        os.close(master)
    assert "UsageError: certificate" in done.stderr


def test_a_port_in_use_is_an_error_of_the_machine():
    first = listen(Endpoint())
    try:
        with pytest.raises(EnvironmentFailure, match=str(first.address.port)):
            listen(Endpoint(port=first.address.port))
    finally:
        first.close()
    with pytest.raises(EnvironmentFailure, match="cannot reach the context server at tcp://127"):
        connect(first.address, Trust(), 10)
