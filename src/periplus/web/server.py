"""The server of the page: uvicorn on loopback or a Unix socket, in the foreground or beside a run.

Nothing listens on another interface. Connections, requests and readers are bounded (`safety.connections`, `desk`, `live`); a signal ends it
within about a second, open streams included.
"""

from __future__ import annotations

__all__ = ["WebOptions", "WebServer", "missing_extra"]

import asyncio
import contextlib
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Self

from periplus.base.errors import PeriplusError, RefusedError, UsageError, environment_failure
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    import uvicorn

    from periplus.journal import Writer
    from periplus.project import Project
    from periplus.web.application import Application
    from periplus.web.live import Live
    from periplus.web.pages.model import LiveRun

_HOST: Final = "127.0.0.1"
_GRACE_S: Final = 1
_BACKLOG: Final = 128
_PROBE_S: Final = 2.0
_PACKAGES: Final = ("starlette", "uvicorn", "jinja2", "pygments")


class WebOptions(NamedTuple):
    """How the page is served. ``opening`` opens the project for one thread; ``root`` is the store. With ``socket_path`` it listens
    there, else on ``port`` of 127.0.0.1, 0 for a free one. ``told`` gets each address that lets somebody in; ``on_defect`` gets
    errors that are ours.
    """

    opening: Callable[[], Project]
    root: str
    writer: Writer
    version: str
    environment: Mapping[str, str]
    home: str
    cwd: str
    told: Callable[[str], None]
    on_defect: Callable[[BaseException], None]
    port: int = 0
    socket_path: str = ""
    is_read_only: bool = False
    run: LiveRun | None = None


class WebServer:
    """One server. ``serve`` runs it until a signal; as a context manager it runs in a thread of its own."""

    def __init__(self, options: WebOptions) -> None:
        """Listen. Raises EnvironmentFailure where the port or socket cannot be had."""
        from periplus.web.safety.access import Access

        self._options = options
        self._listener = _listener(options)
        self._port = None if options.socket_path else int(self._listener.getsockname()[1])
        self.access = Access(self._port)
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._application: Application | None = None
        self._wake: Callable[[], None] = lambda: None
        self._started = threading.Event()

    @property
    def url(self) -> str:
        """The address that lets somebody in, once."""
        return f"http://{_HOST if self._port else 'localhost'}{f':{self._port}' if self._port else ''}/open/{self.access.token}"

    def address(self, page: str) -> str:
        """The address that lets somebody in, once, and leads to ``page``, which begins with ``/``."""
        return self.url + page

    def wake(self) -> None:
        """Report that there is something new, from any thread."""
        self._wake()

    def serve(self) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(
                number, lambda *_: None
            )  # uvicorn has handlers of its own, and raises the signal again at its end
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else it should outlive the terminal
            signal.signal(signal.SIGHUP, lambda *_: self._end())  # uvicorn does not handle it
        try:
            asyncio.run(self._serve())
        finally:
            self._close_socket()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._in_thread, name="web", daemon=True)
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        if self._thread is not None:
            self._thread.join()
        self._close_socket()

    def _end(self) -> None:
        if self._server is not None:
            self._server.should_exit = True

    def _in_thread(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._started.set()

    async def _serve(self) -> None:
        from periplus.web.application import Application
        from periplus.web.background import Background
        from periplus.web.cache import Cache
        from periplus.web.desk import Desk
        from periplus.web.live import Live
        from periplus.web.pages.model import Context

        options = self._options
        live = Live(lambda: _signature(options.root))
        cache = Cache()
        desk, background = Desk(options.opening, on_replaced=cache.clear), Background(options.opening, live.wake)
        self._wake = live.wake
        is_read_only = options.is_read_only or not os.access(options.root, os.W_OK)
        context = Context(
            options.writer, is_read_only, lambda: time.time_ns() // 1_000_000, options.environment, options.home, options.cwd, cache,
            background, options.run,
        )  # fmt: skip
        self._application = Application(
            desk, live, self.access, context, project_name=os.path.basename(os.path.dirname(options.root)) or options.root,
            version=options.version, on_enter=lambda: options.told(self.url), on_defect=options.on_defect,
        )  # fmt: skip
        try:
            await self._run(live)
        finally:
            background.close()
            await asyncio.to_thread(desk.close)

    async def _run(self, live: Live) -> None:
        import logging

        import uvicorn

        from periplus.web.safety.connections import HEAD_BYTES_MAX, bounded_protocol
        from periplus.web.safety.headers import HEADERS, PRIVATE

        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what strangers send wrong is no news
        config = uvicorn.Config(
            self._application, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False, http=bounded_protocol((*HEADERS, PRIVATE)),
            timeout_graceful_shutdown=_GRACE_S, timeout_keep_alive=15, h11_max_incomplete_event_size=HEAD_BYTES_MAX, proxy_headers=False,
            backlog=_BACKLOG,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        serving = asyncio.ensure_future(self._serving(self._server))
        while not serving.done():
            if self._server.started and not self._started.is_set():
                self._started.set()
                if self._thread is None:
                    self._options.told(self.url)
            await asyncio.wait({serving}, timeout=0.2 if self._started.is_set() else 0.01)
            if self._server.should_exit:
                live.close()
        await serving

    async def _serving(self, server: uvicorn.Server) -> None:
        if self._thread is None:
            await server.serve(sockets=[self._listener])
            return
        with _without_signals(server):
            await server.serve(sockets=[self._listener])

    def _close_socket(self) -> None:
        self._listener.close()
        if self._options.socket_path:
            with contextlib.suppress(OSError):
                os.unlink(self._options.socket_path)


def missing_extra() -> PeriplusError | None:
    """Return the error for packages of the extra `web` that are not installed; None where all are."""
    from importlib.util import find_spec

    absent = [name for name in _PACKAGES if find_spec(name) is None]
    if not absent:
        return None
    return UsageError(
        f"the page needs {', '.join(absent)}",
        safe="Nothing was changed.",
        mend="Install the extra: pip install 'periplus[web]'",
    )


def _listener(options: WebOptions) -> socket.socket:
    if options.socket_path:
        return _unix_listener(options.socket_path)
    # The protocol is named: asyncio sets TCP_NODELAY only then, without which a page waits 40 ms for an acknowledgement.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((_HOST, options.port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise environment_failure(error, "listen on", f"{_HOST}:{options.port}") from error
    return made


def _unix_listener(path: str) -> socket.socket:
    """Listen on a socket that this user alone may use. A socket that nobody listens on is replaced."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.lexists(path):
            _remove_dead_socket(path)
        before = os.umask(0o177)
        try:
            made.bind(path)
        finally:
            os.umask(before)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise environment_failure(error, "listen on", path) from error
    except PeriplusError:
        made.close()
        raise
    return made


def _remove_dead_socket(path: str) -> None:
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise RefusedError(f"{path} exists and is no socket", safe="Nothing was changed.", mend="Name another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except TimeoutError:
            pass  # somebody listens, and does not answer
    raise RefusedError(
        f"another server listens on {path}", safe="Nothing was changed.", mend="Stop it, or name another path."
    )


@contextlib.contextmanager
def _without_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let uvicorn leave the signals of the process alone: beside a run they belong to the run."""
    server.capture_signals = contextlib.nullcontext  # there is no setting for it
    yield


def _signature(root: str) -> object:
    """Return a value that changes whenever a record is written to the store."""
    from periplus.journal.history.follow import store_signature

    return store_signature(root)
