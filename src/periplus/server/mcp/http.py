"""MCP over HTTP, on the loopback interface only.

Any web page can make a browser send requests to this machine. A request is therefore answered only if ``Host`` names the loopback
interface, and ``Origin``, if present, too (both checked by the SDK); if a token is set, only with that token.
"""

from __future__ import annotations

__all__ = ["PATH", "make_app", "serve_http"]

import asyncio
import hmac
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from periplus.base.errors import environment_failure

PATH: Final = "/mcp"
_HOST: Final = "127.0.0.1"
_GRACE_S: Final = 2
_SESSIONS_MAX: Final = 256
_IDLE_S: Final = 4 * 3600.0

App = Callable[[Any, Any, Any], Awaitable[None]]
OnEnd = Callable[[str], Awaitable[None]]


def make_app(server: Any, *, token: str = "", on_end: OnEnd | None = None) -> App:
    """Return the application that serves the SDK's ``server`` at ``PATH``. ``on_end`` gets the ids of sessions that clients end."""
    app: App = server.streamable_http_app(
        streamable_http_path=PATH, host=_HOST, session_idle_timeout=_IDLE_S, max_sessions=_SESSIONS_MAX
    )
    if on_end is not None:
        app = _Ends(app, on_end)
    return _Guard(app, token) if token else app


class _Ends:
    """Notices sessions that clients end, after the SDK has ended them and before the client gets the answer."""

    def __init__(self, app: App, on_end: OnEnd) -> None:
        self._app = app
        self._on_end = on_end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "DELETE":
            await self._app(scope, receive, send)
            return
        ended = [value.decode("latin-1") for name, value in scope["headers"] if name == b"mcp-session-id"]

        async def hearing(message: Any) -> None:
            if message["type"] == "http.response.start" and 200 <= message["status"] < 300:
                for session in ended:
                    await self._on_end(session)
            await send(message)

        await self._app(scope, receive, hearing)


class _Guard:
    """Admits only requests with the token."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._expected = b"bearer " + token.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not self._is_known(scope["headers"]):
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b'Bearer realm="periplus"')]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send(
                {"type": "http.response.body", "body": b"This server wants its token: Authorization: Bearer TOKEN\n"}
            )
            return
        await self._app(scope, receive, send)

    def _is_known(self, headers: list[tuple[bytes, bytes]]) -> bool:
        said = [value for name, value in headers if name == b"authorization"]
        if len(said) != 1:
            return False
        scheme, _, rest = said[0].partition(b" ")
        return hmac.compare_digest(scheme.lower() + b" " + rest.strip(), self._expected)


def serve_http(
    server: Any, port: int, on_ready: Callable[[str], None], *, token: str = "", on_end: OnEnd | None = None
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP. ``on_ready`` gets the address, ``on_end`` is as in ``make_app``. Raises
    EnvironmentFailure if the port is in use.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
        except OSError as error:
            raise environment_failure(error, "listen on", f"{_HOST}:{port}") from error
        listener.listen(128)
        asyncio.run(_serve(make_app(server, token=token, on_end=on_end), listener, on_ready))
    finally:
        listener.close()


async def _serve(app: App, listener: socket.socket, on_ready: Callable[[str], None]) -> None:
    import uvicorn

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=_GRACE_S, server_header=False,
        ws="none",
    )  # fmt: skip
    running = uvicorn.Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(
            number, lambda *_: None
        )  # uvicorn replaces these handlers, and raises the signals again when it has ended
    if (
        signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    ):  # if SIGHUP is ignored, the server should outlive the terminal
        signal.signal(signal.SIGHUP, lambda *_: setattr(running, "should_exit", True))  # uvicorn does not handle it
    task = asyncio.ensure_future(running.serve(sockets=[listener]))
    while not running.started and not task.done():
        await asyncio.wait({task}, timeout=0.01)  # there is no event for it
    if not task.done():
        on_ready(f"http://{_HOST}:{listener.getsockname()[1]}{PATH}")
    await task
