"""The server of the page under slow, silent, many and rude peers, and how it begins and ends."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest

from periplus.project import Project
from periplus.web.safety.connections import CONNECTIONS_MAX, HEAD_BYTES_MAX, REQUEST_S, WRITE_S
from test_architecture import loaded_by
from web_process import PATIENCE_S, Served, forwarding, until
from web_support import Site

WEB_MODULES = ("starlette", "uvicorn", "h11", "jinja2", "pygments", "markupsafe", "periplus.web")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")


@pytest.fixture
def folder(tmp_path):
    Project.init(os.fspath(tmp_path))
    return tmp_path


@pytest.fixture
def served(folder):
    with Served(folder) as made:
        yield made.enter()


@pytest.fixture
def opened():
    """Connections that are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda made: stack.enter_context(contextlib.closing(made))


def is_closed(connection):
    """Whether the server has closed a connection from which everything is read."""
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return not connection.recv(65_536, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


# -- beginning and end ------------------------------------------------------------------------------------------------------


def test_no_other_command_loads_anything_of_the_page(folder):
    for words in (["--help"], ["status"], ["remember", "Say it twice"], ["web", "--help"]):
        modules = loaded_by(*words, *([] if "--help" in words else ["--store", os.fspath(folder)]))
        assert not {name for name in modules if name.startswith(WEB_MODULES)}, words


def test_a_hook_loads_nothing_of_the_page(folder):
    code = (
        "import sys, io, json, os, atexit\n"
        "atexit.register(lambda: sys.stderr.write(' '.join(sys.modules)))\n"
        "from periplus.cli.main import main\n"
        "main(['hook', 'run', 'claude-code'])\n"
    )
    event = b'{"hook_event_name": "SessionStart", "session_id": "s1", "cwd": "%s", "source": "startup"}' % os.fsencode(
        folder
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=event, capture_output=True, cwd=folder, timeout=60, check=False
    )
    loaded = done.stderr.decode().split()
    assert "periplus.cli.main" in loaded, done
    assert not [name for name in loaded if name.startswith(WEB_MODULES)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_it_in_order_with_open_streams_and_unread_pages(served, opened, number):
    live = opened(served.connect(served.head("/live")))
    assert b"watching" in read_until(live, b"watching")
    opened(served.connect(served.head("/static/vendor/htmx/htmx.min.js") * 200, receives=2_048))
    opened(served.connect(b"GET /wo"))
    opened(
        served.connect(
            served.head("/work/mail", "POST", "Content-Type: application/x-www-form-urlencoded", "Content-Length: 100")
            + b"a="
        )
    )
    out, err, code, seconds = served.end(number)
    assert (out, err, code) == (b"", "", 0)
    assert seconds < 5  # about 1.2 where nothing else runs
    with pytest.raises(ConnectionError):
        served.connect()


def read_until(connection, wanted):
    said = b""
    while wanted not in said:
        piece = connection.recv(65_536)
        assert piece, said
        said += piece
    return said


@pytest.mark.slow
def test_the_port_that_another_program_has_is_not_taken(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "periplus", "web", "--port", str(port)],
            cwd=folder,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 3
    assert f"127.0.0.1:{port}".encode() in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_it_listens_on_loopback_alone(served):
    hosts = {row[4][0] for row in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for host in hosts:
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((host, served.port), timeout=5)
    assert served.get("/work").status == 200


# -- a Unix socket ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_unix_socket_is_for_this_user_and_works_through_a_forwarded_port(folder):
    path = folder / "page.sock"
    with Served(folder, "--socket", path) as served:
        assert served.socket_path == os.fspath(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with forwarding(os.fspath(path)) as port:
            served.port = port
            assert served.get("/work").status == 403
            assert served.enter().get("/work").status == 200
            assert served.get("/work", Host="evil.example").status == 403
            assert served.get("/work", Host=f"localhost:{port}").status == 200
        refused = subprocess.run(
            [sys.executable, "-m", "periplus", "web", "--socket", path],
            cwd=folder,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert refused.returncode == 5
        assert b"another server listens" in refused.stderr
        assert served.end()[2] == 0
    assert not path.exists()


@pytest.mark.slow
def test_a_socket_that_nobody_listens_on_is_replaced_and_another_file_is_not(folder):
    dead, foreign, link = folder / "dead.sock", folder / "notes.txt", folder / "link.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(os.fspath(dead))
    foreign.write_text("mine")
    link.symlink_to(foreign)
    with Served(folder, "--socket", dead) as served:
        assert served.end()[2] == 0
    for path in (foreign, link):
        done = subprocess.run(
            [sys.executable, "-m", "periplus", "web", "--socket", path],
            cwd=folder,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, b"is no socket" in done.stderr) == (5, True)
    assert foreign.read_text() == "mine"


# -- shapes of requests -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    Project.init(os.fspath(folder))
    with Site(folder) as made:
        yield made


def head_for(site, path, method="GET", *more, version="1.1"):
    cookie = "; ".join(f"{name}={value}" for name, value in site.cookies.items())
    return "\r\n".join(
        [f"{method} {path} HTTP/{version}", f"Host: 127.0.0.1:{site.port}", f"Cookie: {cookie}", *more, "", ""]
    ).encode()


def said_to(site, request):
    """What the server says until it closes the connection; the last request has to ask for that."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


LAST = b"GET /static/page.js HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"  # refused: it names another host


def statuses(said):
    """The status codes of answers that came one after another."""
    found = []
    stream = Buffered(said)
    while stream.rest():
        answer = http.client.HTTPResponse(stream)
        answer.begin()
        found.append(answer.status)
        answer.read()
    return found


class Buffered:
    """Bytes as the socket of http.client."""

    def __init__(self, data):
        import io

        self._file = io.BytesIO(data)
        self._file.close = lambda: None

    def makefile(self, _):
        return self._file

    def rest(self):
        at = self._file.tell()
        rest = self._file.read()
        self._file.seek(at)
        return rest


def test_requests_one_behind_another_are_answered_in_order(site):
    paths = ["/work", "/nowhere", "/static/page.css", "/leave?to=x", "/work"]
    requests = b"".join(head_for(site, path) for path in paths)
    assert statuses(said_to(site, requests + LAST)) == [200, 404, 200, 400, 200, 403]


def test_an_older_version_of_http_gets_its_page_and_the_end(site):
    said = said_to(site, head_for(site, "/work", version="1.0"))
    assert statuses(said) == [200]
    assert b"</html>" in said


def test_a_head_has_no_body_and_the_length_of_the_page(site):
    said = said_to(site, head_for(site, "/work", "HEAD", "Connection: close"))
    head, _, body = said.partition(b"\r\n\r\n")
    assert (head[:12], body) == (b"HTTP/1.1 200", b"")
    assert int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) > 1_000


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get", "CONNECT"])
def test_another_method_is_refused(site, method):
    said = said_to(site, head_for(site, "/work", method, "Connection: close"))
    assert statuses(said) == [405]
    assert b"access-control" not in said.lower()
    assert site.cookies[f"periplus_{site.port}"].encode() not in said


def test_a_page_is_not_posted_to_and_an_act_is_not_got(site):
    answer = site.ask("POST", "/work", "a=b")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    answer = site.get("/work/mail")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert "does nothing" in answer.text


@on_linux
def test_a_page_does_not_wait_for_an_acknowledgement(site):
    """Nagle's algorithm would hold the end of a page back until the browser acknowledges its beginning, which takes 40 ms."""
    (accepted,) = {one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in accepted_by(site)}
    assert accepted


def accepted_by(site):
    """The server's ends of its connections: it runs in this process."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_S) as connection:
        connection.sendall(head_for(site, "/leave?to=x"))
        connection.recv(1)
        wanted = connection.getsockname()
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                one = socket.socket(fileno=os.dup(int(name)))
                try:
                    if one.family == socket.AF_INET and one.getpeername() == wanted:
                        yield one
                finally:
                    one.close()


def test_a_websocket_is_not_opened(site):
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    for path in ("/live", "/work"):
        with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_S) as connection:
            connection.sendall(head_for(site, path, "GET", *upgrade))
            assert connection.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"), ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 6"), ("Content-Length: 5, 6",), ("Content-Length: +5",), ("Content-Length: -1",),
        ("Content-Length: 0x5",), ("Content-Length: 5 5",), ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: identity, chunked",), ("Transfer-Encoding: chunked, identity",), ("Transfer-Encoding : chunked",),
        ("Transfer-Encoding:\tchunked\x0b",), ("Content-Length : 5",), ("X: a\rTransfer-Encoding: chunked",),
        ("Content-Length:",), ("Content-Length: 99999999999999999999999",), ("X\x00: a",),
    ],
    ids=repr,
)  # fmt: skip
def test_a_request_whose_length_can_be_read_in_two_ways_is_refused(site, lines):
    """Nothing behind it is taken for another request."""
    said = said_to(site, head_for(site, "/work/mail", "POST", *lines) + b"0\r\n\r\n" + LAST)
    found = statuses(said)
    assert found in ([400], [501]), said[:300]
    assert b"connection: close" in said.lower()


def test_one_length_said_twice_is_one_length(site):
    said = said_to(site, head_for(site, "/work/mail", "POST", "Content-Length: 3", "Content-Length: 3") + b"a=b" + LAST)
    assert statuses(said) == [400, 403]


def test_a_head_has_a_limit_and_a_chunk_header_too(site):
    many = [f"X-{number}: {'a' * 100}" for number in range(HEAD_BYTES_MAX // 100)]
    assert statuses(said_to(site, head_for(site, "/work", "GET", *many)[:-2])) == [400]
    assert statuses(said_to(site, head_for(site, "/" + "a" * HEAD_BYTES_MAX)[: HEAD_BYTES_MAX + 10])) == [400]
    chunked = head_for(
        site, "/work/mail", "POST", "Content-Type: application/x-www-form-urlencoded", "Transfer-Encoding: chunked"
    )
    assert statuses(said_to(site, chunked + b"1;" + b"a" * (2 * HEAD_BYTES_MAX))) == [400]


def test_an_endless_body_is_refused_before_it_ends(site):
    chunked = head_for(
        site, "/work/mail", "POST", "Content-Type: application/x-www-form-urlencoded", "Transfer-Encoding: chunked"
    )
    piece = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_S) as connection:
        connection.sendall(chunked)
        sent = 0
        while not select.select([connection], [], [], 0)[0]:
            assert sent < 64 << 20
            connection.sendall(piece)
            sent += len(piece)
        assert b"HTTP/1.1 400" in connection.recv(65_536)


def test_a_body_that_nobody_asked_for_is_left_out(site):
    said = said_to(site, head_for(site, "/work", "GET", "Content-Length: 200000") + b"a" * 200_000 + LAST)
    assert statuses(said) == [200, 403]


# -- slow and silent ones ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_who_does_not_finish_a_request_is_dropped_in_time(served, opened):
    """Silent from the first byte, a head or a body byte by byte, and the same behind a request that was answered."""
    form = ("Content-Type: application/x-www-form-urlencoded", "Content-Length: 1000000")
    body = served.head("/work/mail", "POST", *form)
    dripping = [opened(served.connect()), opened(served.connect(body)), opened(served.connect(served.head("/work"))),
                opened(served.connect(served.head("/work") + body)), opened(served.connect(served.head("/nowhere")))]  # fmt: skip
    silent = [
        opened(served.connect(said))
        for said in (b"", b"G", body, body + b"a", served.head("/work") + b"G", served.head("/work") + body)
    ]
    begun = time.monotonic()
    left = [*dripping, *silent]
    while left:
        assert time.monotonic() - begun < 3 * REQUEST_S, [(dripping + silent).index(one) for one in left]
        for one in dripping:
            with contextlib.suppress(OSError):
                one.send(b"x", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        left = [one for one in left if not is_closed(one)]
        time.sleep(0.1)  # the drip
    assert time.monotonic() - begun >= REQUEST_S * 0.9
    assert served.get("/work").status == 200


@pytest.mark.slow
def test_who_does_not_read_is_dropped_in_time_and_others_get_their_pages(served, opened):
    big = served.head("/static/vendor/htmx/htmx.min.js") * 400
    unread = [opened(served.connect(big, receives=2_048)) for _ in range(20)]
    before = served.resident_mb()
    begun = time.monotonic()
    left = unread
    while left:
        assert time.monotonic() - begun < 3 * WRITE_S
        assert served.get("/work").status == 200
        left = [one for one in left if not is_reset(one)]
        time.sleep(0.5)  # between two visits
    assert served.resident_mb() < before + 60


ANOTHER_WORKER = 15  # descriptors of one more open project


def is_reset(connection):
    """Whether the server has given up, seen without reading."""
    poll = select.poll()
    poll.register(connection, select.POLLOUT)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


@on_linux
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silent", "half a head", "between requests", "answered and unread", "watching"])
def test_five_hundred_connections_leave_room_for_a_browser(served, opened, kind):
    sent = {
        "silent": b"", "half a head": b"GET / HTTP/1.1\r\nHost:", "between requests": served.head("/static/page.js"),
        "answered and unread": served.head("/static/vendor/htmx/htmx.min.js") * 50, "watching": served.head("/live"),
    }[kind]  # fmt: skip
    assert served.get("/work").status == 200
    before = served.descriptors(), served.threads(), served.resident_mb()
    many = []
    for _ in range(500):
        with contextlib.suppress(ConnectionError):
            many.append(opened(served.connect(sent, receives=2_048)))
    begun = time.monotonic()
    for _ in range(5):
        assert served.get("/work").status == 200
    assert time.monotonic() - begun < 20  # well under one second where nothing else runs
    assert served.descriptors() < before[0] + CONNECTIONS_MAX + 20
    assert served.threads() <= before[1] + 4  # another worker, and those that look for changes
    assert served.resident_mb() < before[2] + 60
    for one in many:
        one.close()
    until(lambda: served.descriptors() <= before[0] + ANOTHER_WORKER)
    assert served.get("/work").status == 200


@pytest.mark.slow
def test_five_hundred_requests_at_once_are_answered_or_told_to_come_again(served):
    """All of them have the cookie; those beyond what waits are told so, and none is left without an answer."""
    found, lock = [], threading.Lock()

    def ask():
        try:
            status = served.get("/work").status
        except OSError:
            status = 0
        with lock:
            found.append(status)

    threads = [threading.Thread(target=ask) for _ in range(500)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(found) <= {200, 503, 0}
    assert found.count(200) >= 100
    assert served.get("/work").status == 200
    assert served.end()[1:3] == ("", 0)
