"""The context server: one store served over TCP, with TLS, and over a Unix socket, to many clients at once.

Theory of operation
-------------------
One event loop has all sockets (``server.connection``) and never blocks. Bytes pass through the machines of ``context.wire``; the
work on the store is done step by step in a few threads (``server.workers``). Everything that a client can make the server hold is
bounded: connections, the time for a handshake, streams of a connection, frames and bytes in flight on each, and unsent data. A
slow reader costs one waiting chunk and the system's buffers; a dead one is dropped when its time is up.

Other processes use the store at the same time, and the server may be killed at any moment. What was acknowledged is on disk. What
was not is visible to nobody, because a ref moves only to complete contexts.
"""

from __future__ import annotations

__all__ = ["ContextServer", "ServerLimits", "fetch_stats", "serve"]

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from periplus.context.remotes.address import Address, Trust, connect
from periplus.context.remotes.calls import LIMITS
from periplus.context.stores.library import ContextLibrary
from periplus.context.wire import Limits, Policy, ServerMachine
from periplus.context.wire.connection import refusal_bytes
from periplus.server.connection import STATS_ASKED, Connection
from periplus.server.listeners import Endpoint, Listener, listen, token_matches
from periplus.server.quota import Unreferenced
from periplus.server.request_handlers import Bench, Step
from periplus.server.stats import Stats
from periplus.server.workers import Job, Lane, Workers

ACCEPT_PAUSE_S: Final = 0.2  # pause after the system ran out of descriptors
FLUSH_PATIENCE_S: Final = 2.0
STATS_BYTES_MAX: Final = 1 << 20
TURNED_AWAY_BYTES: Final = 16_384
_FULL: Final = refusal_bytes("busy")
_DEFAULT_LIMITS: Final = Limits(frame_bytes=LIMITS.frame_bytes, streams=32, request_rate=1_000)
_DEFAULT_POLICY: Final = Policy(request_burst=1_000, output_bytes_max=8 << 20, assembly_bytes_max=64 << 20)


class ServerLimits(NamedTuple):
    """``wire`` is the most that is agreed with a client; ``policy`` is enforced without telling the client.

    ``grace_s`` is how long streams may continue when the server stops; ``watch_s`` is the interval at which watched refs are
    checked. ``workers`` are threads with a store each, the last one for long jobs. ``unreferenced_bytes`` limits objects that one
    connection may send without a ref to them, ``unreferenced_bytes_all`` those of all connections (``server.quota``).
    """

    connections: int = 256
    workers: int = 3
    grace_s: float = 10.0
    watch_s: float = 0.5
    unreferenced_bytes: int = 1 << 30
    unreferenced_bytes_all: int = 2 << 30
    wire: Limits = _DEFAULT_LIMITS
    policy: Policy = _DEFAULT_POLICY


DEFAULT_SERVER_LIMITS: Final = ServerLimits()


class ContextServer:
    """Serves the store that ``open_store`` opens, once in each worker's thread. ``can_push`` lets clients change it.

    ``on_error`` gets internal errors; clients learn only that there was one.
    """

    def __init__(
        self,
        open_store: Callable[[], ContextLibrary],
        endpoints: Sequence[Endpoint],
        *,
        limits: ServerLimits = DEFAULT_SERVER_LIMITS,
        can_push: bool = True,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._open_store = open_store
        self._endpoints = endpoints
        self._limits = limits
        self._capabilities = ("prove", "watch", "zstd", *(("push",) if can_push else ()))
        self.can_push = can_push
        self._on_error = on_error
        self.unreferenced = Unreferenced(limits.unreferenced_bytes, limits.unreferenced_bytes_all)
        self.stats = Stats(self.unreferenced)
        self._connections: set[Connection] = set()
        self._opening = 0  # accepted, but not yet a connection
        self._listeners: list[Listener] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._watchers: set[Callable[[], None]] = set()
        self._refs: dict[str, bytes] | None = None
        self._look_job: Job[Bench, Step] | None = None
        self._look_again = False
        self._look_error = ""
        self._watch_timer: asyncio.TimerHandle | None = None
        self._began_s = time.monotonic()
        self._lane = Lane()
        self._gone = asyncio.Event()

    @property
    def addresses(self) -> list[Address]:
        """The addresses that it listens on, with actual ports."""
        return [listener.address for listener in self._listeners]

    async def start(self) -> None:
        """Listen. Raises UsageError, RefusedError, EnvironmentFailure, and then listens on nothing."""
        self._began_s = time.monotonic()
        try:
            for endpoint in self._endpoints:
                self._listeners.append(listen(endpoint))
        except BaseException:  # close what was opened, then raise again
            self._close_listeners()
            raise
        self.workers: Workers[Bench, Step] = Workers(self._bench, self._limits.workers)
        for listener in self._listeners:
            self._spawn(self._accept(listener))

    def _bench(self) -> Bench:
        return Bench(self._open_store, self.unreferenced)

    async def stop(self) -> None:
        """Accept nothing more, let open streams finish within the grace period, notify the rest, close."""
        self._close_listeners()
        for connection in list(self._connections):
            connection.shut_down()
        await self._all_gone(self._limits.grace_s)
        for connection in list(self._connections):
            connection.tell_and_close()
        await self._all_gone(FLUSH_PATIENCE_S)
        self.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        await self.workers.stop()

    def abort(self) -> None:
        """End all connections at once, without notice."""
        for connection in list(self._connections):
            connection.abort()

    async def _all_gone(self, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                while self._connections:
                    self._gone.clear()
                    await self._gone.wait()
        except TimeoutError:
            pass  # notify the rest

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    # Accepting

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener.socket)
            except OSError as error:
                if listener.socket.fileno() < 0:
                    return  # the server is stopping
                self.log(error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            self.stats.connections += 1
            if len(self._connections) + self._opening >= self._limits.connections:
                self.stats.refused["connections"] += 1
                _turn_away(accepted, is_told=listener.tls is None)
                continue
            self._opening += 1
            self._spawn(self._open(listener, accepted))

    async def _open(self, listener: Listener, accepted: socket.socket) -> None:
        """Prepare a connection up to the first byte of the protocol. The TLS handshake has the same deadline as ours."""
        import ssl

        loop = asyncio.get_running_loop()
        connection = Connection(_Side(self, listener), is_local=listener.is_local)
        self._connections.add(connection)
        self.stats.connections_open += 1
        self._opening -= 1  # from here on it counts as a connection
        patience = {"ssl_handshake_timeout": self._limits.policy.handshake_s} if listener.tls is not None else {}
        try:
            if not listener.is_local:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await loop.connect_accepted_socket(lambda: connection, accepted, ssl=listener.tls, **patience)
        except (OSError, ssl.SSLError):
            self.stats.refused["tls"] += 1
            accepted.close()
            self.closed(connection)
        except BaseException:  # close what was opened, then raise again
            accepted.close()
            self.closed(connection)
            raise

    # What connections need

    def machine(self, listener: Listener) -> ServerMachine:
        token = listener.token
        return ServerMachine(
            time.monotonic(),
            limits=self._limits.wire,
            policy=self._limits.policy,
            authority=None if token is None else lambda given: token_matches(given, token),
            capabilities=self._capabilities,
            compress=listener.address.is_far,
        )

    def closed(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self.stats.connections_open -= 1
            self._gone.set()

    def log(self, error: BaseException) -> None:
        if self._on_error is not None:
            self._on_error(error)

    def document(self) -> dict[str, Any]:
        """Return the statistics for ``--stats``."""
        return self.stats.document(int((time.monotonic() - self._began_s) * 1_000))

    # Refs that move

    def refs(self) -> dict[str, bytes]:
        return self._refs or {}

    def watch(self, told: Callable[[], None]) -> Callable[[], None]:
        self._watchers.add(told)
        self.refs_changed()
        return lambda: self._watchers.discard(told)

    def refs_changed(self) -> None:
        """Check the refs if anybody watches them; check again if a check is running."""
        if not self._watchers:
            return
        if self._look_job is not None:
            self._look_again = True
            return
        found: list[dict[str, bytes]] = []

        def begin(bench: Bench) -> Any:
            bench.renew()
            found.append(bench.library.refs())
            return iter(())

        self._look_job = Job(self._lane, begin, lambda _: True, lambda error: self._looked(found, error))
        self.workers.submit(self._look_job)

    def _looked(self, found: list[dict[str, bytes]], error: BaseException | None) -> None:
        self._look_job = None
        if error is not None and str(error) != self._look_error:
            self.log(error)  # report a repeated failure once
        self._look_error = "" if error is None else str(error)
        for now in found:
            is_new = now != self._refs
            self._refs = now
            for told in list(self._watchers):
                if is_new or error is None:
                    told()
        if self._look_again:
            self._look_again = False
            self.refs_changed()
        elif self._watchers and self._watch_timer is None:
            self._watch_timer = asyncio.get_running_loop().call_later(self._limits.watch_s, self._look_on)

    def _look_on(self) -> None:
        self._watch_timer = None
        self.refs_changed()


def _turn_away(accepted: socket.socket, *, is_told: bool) -> None:
    """Close a connection for which there is no room. Without TLS, send the reason if that does not block."""
    try:
        if is_told:
            accepted.setblocking(False)
            accepted.send(_FULL)
            accepted.shutdown(socket.SHUT_WR)
            accepted.recv(
                TURNED_AWAY_BYTES
            )  # read what has arrived: unread data would make the system discard our answer
    except OSError:
        pass  # the peer is gone, or has sent nothing
    finally:
        accepted.close()


class _Side:
    """The server, as a connection of one listener sees it."""

    def __init__(self, server: ContextServer, listener: Listener) -> None:
        self._listener = listener
        self._server = server
        self.stats = server.stats
        self.workers = server.workers
        self.can_push = server.can_push
        self.refs = server.refs
        self.watch = server.watch
        self.refs_changed = server.refs_changed
        self.log = server.log
        self.document = server.document
        self.closed = server.closed

    def machine(self) -> ServerMachine:
        return self._server.machine(self._listener)


async def serve(server: ContextServer, on_ready: Callable[[list[Address]], None]) -> None:
    """Serve until SIGTERM or SIGINT, then stop as ``stop`` does; a second signal stops at once. For a separate process."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    hurried = asyncio.Event()

    def ask() -> None:
        (hurried if asked.is_set() else asked).set()

    await server.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    try:
        on_ready(server.addresses)
        await asked.wait()
    finally:
        stopping = asyncio.ensure_future(server.stop())
        hurry = asyncio.ensure_future(hurried.wait())
        await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not stopping.done():
            server.abort()
        await stopping
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def fetch_stats(address: Address, timeout_s: float = 10.0) -> dict[str, Any]:
    """Fetch the statistics of the server on a Unix socket. Raises EnvironmentFailure, FormatError."""
    import json

    from periplus.base.errors import FormatError
    from periplus.context.remotes.address import connection_failure

    data = b""
    try:
        with connect(address, Trust(), timeout_s) as opened:
            opened.sendall(STATS_ASKED)
            while len(data) < STATS_BYTES_MAX and (piece := opened.recv(65_536)):
                data += piece
    except OSError as error:
        raise connection_failure(address, error) from error
    try:
        document = json.loads(data)
    except ValueError as error:
        raise FormatError(f"{address}: no statistics were received") from error
    if not isinstance(document, dict):
        raise FormatError(f"{address}: no statistics were received")
    return document
