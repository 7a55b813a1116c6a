"""The server of the page: HTTP/1.1 on loopback, in a separate thread, GET only.

Anybody with the address can read; its token is new each time. A foreign page in the same browser does not know it, cannot read an
answer (there is no CORS), and cannot use another name (``Host`` and ``Origin`` must be those of the address).

The cost of readers is bounded: CONNECTIONS_MAX connections, DEADLINE_S for a request and for each answer, and one answer in
preparation, in a thread beside the loop. Slow readers are disconnected. The run never waits; it sets a mark (``wake``) and
continues.
"""

from __future__ import annotations

__all__ = ["CONNECTIONS_MAX", "DEADLINE_S", "Monitor"]

import asyncio
import secrets
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec

from periplus.base.errors import EnvironmentFailure, NotFoundError, PeriplusError, UsageError, environment_failure

if TYPE_CHECKING:
    from periplus.agent.events import Event
    from periplus.server.monitor.episode_queries import Desk

CONNECTIONS_MAX: Final = 40
WATCHERS_MAX: Final = 16
DEADLINE_S: Final = 15.0
_HEAD_BYTES_MAX: Final = 8_192
_WAITING_MAX: Final = 32
_LOOK_S: Final = 0.7  # poll interval for sessions written by another process
_LINGER_S: Final = 1.0
_HEARTBEAT_S: Final = 15.0
_PAUSE_S: Final = 0.2  # interval between messages to a watcher
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    f"Content-Security-Policy: {_POLICY}",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
    "Cross-Origin-Opener-Policy: same-origin",
    "Cache-Control: no-store",
)
_FILES: Final = {
    "": ("monitor.html", "text/html; charset=utf-8"),
    "monitor.js": ("monitor.js", "text/javascript; charset=utf-8"),
    "monitor.css": ("monitor.css", "text/css; charset=utf-8"),
}
_STATUS: Final = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip


class _Answer(NamedTuple):
    status: int
    kind: str
    body: bytes


class _Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


class Monitor:
    """``start`` returns the address. ``tell`` and ``wake`` may be called from any thread, and never raise."""

    def __init__(self, desk: Desk, *, port: int = 0, deadline_s: float = DEADLINE_S) -> None:
        self._desk = desk
        self._port, self._deadline_s = port, deadline_s
        self._token = secrets.token_urlsafe(24)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="monitor", daemon=True)
        self._executor = ThreadPoolExecutor(1, "monitor-desk")
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._stop: asyncio.Event | None = None
        self._changed = asyncio.Event()
        self._is_marked = False
        self._version = 0
        self._watchers = 0
        self._waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> str:
        """Start the server. Raises EnvironmentFailure if the port is not available."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise environment_failure(self._failure, "listen on", f"127.0.0.1:{self._port}") from self._failure
        return self.url

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/{self._token}/"

    def tell(self, event: Event) -> None:
        """Pass an event of the run; at worst it is not shown."""
        self._desk.growing.take(event)
        self.wake()

    def wake(self) -> None:
        """Report that there is something new."""
        if not self._is_marked:
            self._is_marked = True
            try:
                self._loop.call_soon_threadsafe(self._look)
            except RuntimeError:
                pass  # the server is closed; the run continues

    def close(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._stopping)
        except RuntimeError:
            return
        self._thread.join()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except OSError as error:
            self._failure = error
        finally:
            self._started.set()
            self._executor.submit(self._desk.close)
            self._executor.shutdown()
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self._port, limit=_HEAD_BYTES_MAX)
        self._port = server.sockets[0].getsockname()[1]
        looking = asyncio.create_task(self._looking())
        self._started.set()
        await self._stop.wait()
        if self._watchers:  # so that they see the end
            self._changed.set()
            await asyncio.sleep(_LINGER_S)
        server.close()
        for task in (*self._tasks, looking):
            task.cancel()
        await asyncio.gather(*self._tasks, looking, return_exceptions=True)
        await asyncio.sleep(0)  # so that aborted connections are closed
        await asyncio.sleep(0)

    def _stopping(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def _look(self) -> None:
        self._is_marked = False
        self._changed.set()

    async def _looking(self) -> None:
        """Look for changes while somebody watches: at a mark, and at intervals for other processes."""
        while True:
            try:
                await asyncio.wait_for(self._changed.wait(), _LOOK_S)
            except TimeoutError:
                pass
            self._changed.clear()
            if self._watchers:
                self._version = await self._ask(self._desk.refresh)
                await asyncio.sleep(_PAUSE_S)

    async def _ask(self, question: Callable[[], int]) -> int:
        return await self._loop.run_in_executor(self._executor, question)

    # -- a connection --------------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writer.transport.set_write_buffer_limits(high=1)  # drain waits until the reader has received everything
        try:
            if len(self._tasks) <= CONNECTIONS_MAX:
                await self._converse(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # it disconnected, was too slow, or does not speak HTTP
        finally:
            self._tasks.discard(task)
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            else:
                writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self._deadline_s)
            request = _parse(head)
            if request is None:
                await self._send(writer, _refusal(400, "this is not an HTTP request"), close=True)
                return
            refusal = self._refused(request)
            if refusal is not None:
                await self._send(writer, refusal, close=True)
                return
            path = request.path.removeprefix(f"/{self._token}/")
            if path == "events" and self._watchers < WATCHERS_MAX:
                await self._watch(writer)
                return
            await self._send(writer, await self._answer(path, request.query), is_head=request.method == "HEAD")

    def _refused(self, request: _Request) -> _Answer | None:
        """Return a refusal for foreign pages and other host names, without details."""
        hosts = (f"127.0.0.1:{self._port}", f"localhost:{self._port}")
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "none")
        if (
            host not in hosts
            or (origin is not None and origin != f"http://{host}")
            or site not in ("none", "same-origin")
        ):
            return _refusal(403, "only the user who started the run can open this page, on this machine")
        if (
            request.method not in ("GET", "HEAD")
            or "transfer-encoding" in request.headers
            or request.headers.get("content-length", "0") != "0"
        ):
            return _refusal(405, "this page is read-only")
        given = request.path.split("/")[1].encode()
        if not secrets.compare_digest(given, self._token.encode()) or not request.path.startswith(f"/{self._token}/"):
            return _refusal(404, "there is no such page; the complete address is in the terminal of the run")
        return None

    async def _answer(self, path: str, query: Mapping[str, str]) -> _Answer:
        if path in _FILES:
            name, kind = _FILES[path]
            return _Answer(200, kind, _page(name))
        if self._waiting >= _WAITING_MAX or path == "events":
            return _refusal(503, "too many requests at once")
        self._waiting += 1
        try:
            return await self._loop.run_in_executor(self._executor, self._asked, path, query)
        finally:
            self._waiting -= 1

    def _asked(self, path: str, query: Mapping[str, str]) -> _Answer:
        """Answer a request in the thread of the desk."""
        desk = self._desk
        out: msgspec.Struct
        try:
            match path:
                case "api/session":
                    desk.refresh()
                    out = desk.overview(_number(query, "first"))
                case "api/step":
                    out = desk.step(_number(query, "turn"), _number(query, "step"))
                case "api/part":
                    out = desk.part(_number(query, "turn"), _number(query, "step"), query.get("what", ""),
                                    _number(query, "place"), _number(query, "start"))  # fmt: skip
                case _:
                    return _refusal(404, "there is no such page")
        except NotFoundError as error:
            return _refusal(404, str(error))
        except UsageError as error:
            return _refusal(400, str(error))
        except PeriplusError as error:
            return _refusal(500, f"{error} {error.mend}")
        return _Answer(200, "application/json", _encoded(out))

    async def _watch(self, writer: asyncio.StreamWriter) -> None:
        """Report changes as they happen, as fast as the reader takes them."""
        self._watchers += 1
        try:
            lines = [
                "HTTP/1.1 200 OK",
                "Content-Type: text/event-stream",
                "Connection: close",
                *_HEADERS,
                "",
                "retry: 2000",
                "",
                "",
            ]
            writer.write("\r\n".join(lines).encode())
            self._changed.set()
            told, silent_s = -1, 0.0
            while True:
                if self._version != told:
                    told, silent_s = self._version, 0.0
                    writer.write(f"event: change\ndata: {told}\n\n".encode())
                elif silent_s >= _HEARTBEAT_S:
                    silent_s = 0.0
                    writer.write(b": still here\n\n")
                await asyncio.wait_for(writer.drain(), self._deadline_s)
                await asyncio.sleep(_PAUSE_S)
                silent_s += _PAUSE_S
                if writer.is_closing():
                    return
        finally:
            self._watchers -= 1

    async def _send(
        self, writer: asyncio.StreamWriter, answer: _Answer, *, close: bool = False, is_head: bool = False
    ) -> None:
        lines = [
            f"HTTP/1.1 {answer.status} {_STATUS[answer.status]}", f"Content-Type: {answer.kind}",
            f"Content-Length: {len(answer.body)}", f"Connection: {'close' if close else 'keep-alive'}", *_HEADERS, "", "",
        ]  # fmt: skip
        writer.write("\r\n".join(lines).encode() + (b"" if is_head else answer.body))
        await asyncio.wait_for(writer.drain(), self._deadline_s)


def _parse(head: bytes) -> _Request | None:
    try:
        first, *lines = head.decode("ascii").split("\r\n")[:-2]
        method, target, version = first.split(" ")
        pairs = [line.split(":", 1) for line in lines]
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
    except ValueError:
        return None
    if not version.startswith("HTTP/1.") or not target.startswith("/") or len(headers) != len(pairs):
        return None
    path, _, text = target.partition("?")
    return _Request(method, path, dict(urllib.parse.parse_qsl(text)), headers)


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise UsageError(f"{name} must be a number")
    return int(text)


def _refusal(status: int, why: str) -> _Answer:
    return _Answer(status, "application/json", msgspec.json.encode({"problem": why}))


def _encoded(out: msgspec.Struct) -> bytes:
    try:
        return msgspec.json.encode(out)
    except UnicodeEncodeError:  # a lone surrogate, which a model may send
        import json

        return json.dumps(msgspec.to_builtins(out)).encode()


def _page(name: str) -> bytes:
    from importlib.resources import files

    try:
        return files(__package__).joinpath("page", name).read_bytes()
    except OSError as error:
        raise EnvironmentFailure(f"{name} of the page is missing: {error}", mend="Install periplus again.") from error
