"""Transports to MCP servers, a process or an address, with limits on what reaches the SDK.

Theory of operation
-------------------
The SDK's session wants a pair of message streams. Over HTTP the SDK's own transport makes them, over a client of ours that bounds each
answer, accepts no compression and opens no stream that was not asked for. For a process we make them ourselves, because the SDK's transport
accepts lines of any length, passes on the whole environment of this process, and leaves standard error unbounded. Here a line is bounded
before it is stored, so is standard error, and a process leads a group that ends with it.

A filter stands before the session. It stops notifications: a change of the tool list is noted, all others are useless to a model that waits
for an answer. Lines that are not messages, and endless notifications or requests, close the connection.

Sizes are not bounded before allocation in one place: the SDK decodes a message within its bound, into at most some hundred megabytes of
objects for a hostile one (its containers are counted first).
"""

from __future__ import annotations

__all__ = ["ANSWER_LOST", "MESSAGE_BYTES_MAX", "Watch", "http_wire", "process_wire", "sieved"]

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from periplus.agent.tools.shell.processes import MARK, kill_marked

MESSAGE_BYTES_MAX: Final = 8 << 20
ANSWER_LOST: Final = -32950  # an error code that no server sends: the answer arrived and was rejected
_CONTAINERS_MAX: Final = 400_000
_SKIPPED_MAX: Final = 256 << 20
_PIECE_BYTES: Final = 1 << 16
_STDERR_BYTES: Final = 8 << 10
_GARBAGE_MAX: Final = 100
_NOTICES_MAX: Final = 50_000
_REQUESTS_MAX: Final = 1_000
_GRACE_S: Final = 0.5
_KILL_S: Final = 3.0
_POLL_S: Final = 0.01
_NAMED_MAX: Final = 12
_HEAD_BYTES: Final = 4_096
_CHANGED: Final = "notifications/tools/list_changed"
_TOO_MUCH: Final = f"its answer is over the limit ({MESSAGE_BYTES_MAX:,} bytes, {_CONTAINERS_MAX:,} lists and objects)"
_ID: Final = re.compile(rb'"id"\s{0,9}:\s{0,9}(\d{1,15})\b')


class Watch:
    """Observations of a connection: how it ended, whether the tools changed, and which requests of the server were refused."""

    def __init__(self) -> None:
        self.is_over = False
        self.why = ""
        self.is_changed = False
        self.asked_for: set[str] = set()
        self.said = bytearray()  # the end of standard error
        self.pid = 0

    def over(self, why: str) -> None:
        self.why = self.why or why
        self.is_over = True

    @property
    def last_words(self) -> str:
        return bytes(self.said[-2_000:]).decode("utf-8", "replace")


class _Sieve:
    """Decide for each message whether the session gets it, and when the connection has to be closed."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._garbage = self._notices = self._requests = 0

    @property
    def is_enough(self) -> bool:
        why = (
            "it does not speak the protocol" if self._garbage > _GARBAGE_MAX
            else "it sends too many notifications" if self._notices > _NOTICES_MAX
            else "it sends too many requests" if self._requests > _REQUESTS_MAX
            else ""
        )  # fmt: skip
        if why:
            self._watch.over(why)
        return bool(why)

    def noticed(self, *, is_changed: bool) -> None:
        self._notices += 1
        self._watch.is_changed |= is_changed

    def passes(self, item: Any) -> bool:
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        if isinstance(item, Exception):
            self._garbage += 1
            return False
        message = item.message
        if isinstance(message, JSONRPCNotification):
            self.noticed(is_changed=message.method == _CHANGED)
            return False
        if isinstance(message, JSONRPCRequest):
            self._requests += 1
            if message.method != "ping" and len(self._watch.asked_for) < _NAMED_MAX:
                self._watch.asked_for.add(message.method[:60])
        else:
            self._notices = self._requests = 0
        return True


@asynccontextmanager
async def sieved(wire: Any, watch: Watch) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of ``wire``, filtered for the session."""
    import anyio

    async with wire as (read, write):
        send, receive = anyio.create_memory_object_stream[Any](0)
        async with anyio.create_task_group() as group:
            group.start_soon(_sieve, read, send, watch)
            try:
                yield receive, write
            finally:
                group.cancel_scope.cancel()
                await receive.aclose()


async def _sieve(read: Any, send: Any, watch: Watch) -> None:
    import anyio

    sieve = _Sieve(watch)
    async with send:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session is gone
            async for item in read:
                if sieve.passes(item):
                    await send.send(item)
                if sieve.is_enough:
                    return
        watch.over("it closed the connection")


# -- a process ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def process_wire(
    words: Sequence[str], folder: str, environment: Mapping[str, str], watch: Watch
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server and talk to it over standard input and output. Raises OSError if it cannot be started."""
    import anyio

    mark = f"{os.urandom(12).hex()}.s."
    process = subprocess.Popen(  # noqa: S603, ASYNC220 - a list of words, no shell; it returns at exec
        list(words), cwd=folder, env={**environment, MARK: mark}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, bufsize=0,
    )  # fmt: skip
    watch.pid = process.pid
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    for pipe in (process.stdin, process.stdout, process.stderr):
        os.set_blocking(pipe.fileno(), False)
    to_session, read = anyio.create_memory_object_stream[Any](0)
    write, from_session = anyio.create_memory_object_stream[Any](0)
    asked: set[Any] = set()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_lines, process.stdout.fileno(), to_session, asked, watch)
            group.start_soon(_write_lines, process.stdin.fileno(), from_session, to_session, asked)
            group.start_soon(_keep_errors, process.stderr.fileno(), watch)
            try:
                yield read, write
            finally:
                group.cancel_scope.cancel()
    finally:
        try:
            with anyio.CancelScope(shield=True):
                await _end(process, mark, watch)
        finally:
            for one in (to_session, read, write, from_session, process.stdout, process.stderr):
                one.close()


async def _read_lines(fd: int, to_session: Any, asked: set[Any], watch: Watch) -> None:
    import anyio

    held, skipped = bytearray(), 0
    lines = _Lines(to_session, asked, _Sieve(watch))
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_session:
            while piece := await _read(fd):
                *ended, rest = piece.split(b"\n")
                for line in ended:
                    if not skipped:
                        held += line
                        await lines.take(bytes(held))
                    held.clear()
                    skipped = 0
                if skipped:
                    skipped += len(rest)
                elif len(held) + len(rest) > MESSAGE_BYTES_MAX:
                    await lines.lose(bytes(held[:_HEAD_BYTES]), _TOO_MUCH)
                    held.clear()
                    skipped = 1
                else:
                    held += rest
                if skipped > _SKIPPED_MAX:
                    return watch.over("it sends a line that is too long")
                if lines.sieve.is_enough:
                    return None
            return watch.over("it closed the connection")
    return None


class _Lines:
    """Turn lines into messages for the session; a lost answer becomes an error for its caller."""

    def __init__(self, to_session: Any, asked: set[Any], sieve: _Sieve) -> None:
        self._to_session, self._asked, self.sieve = to_session, asked, sieve

    async def take(self, line: bytes) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

        if not line.strip():
            return
        if b'"id"' not in line and b'"method"' in line:  # a notification; some servers send thousands
            self.sieve.noticed(is_changed=_CHANGED.encode() in line)
            return
        if len(line) > MESSAGE_BYTES_MAX or line.count(b"{") + line.count(b"[") > _CONTAINERS_MAX:
            await self.lose(line[:_HEAD_BYTES], _TOO_MUCH)
            return
        try:
            item = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except (ValueError, RecursionError) as error:
            self.sieve.passes(error)
            if line.startswith(b"{") and b'"method"' not in line[:_HEAD_BYTES] and self._whose(line[:_HEAD_BYTES]):
                await self.lose(line[:_HEAD_BYTES], "its answer is not a valid message, or is nested too deep")
            return
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._asked.discard(item.message.id)
        if self.sieve.passes(item):
            await self._to_session.send(item)

    async def lose(self, head: bytes, why: str) -> None:
        """Report a lost answer to its caller, or to all callers if it does not say whose it is."""
        from mcp.shared.message import SessionMessage
        from mcp_types import ErrorData, JSONRPCError

        for one in self._whose(head) or list(self._asked):
            self._asked.discard(one)
            error = ErrorData(code=ANSWER_LOST, message=why)
            await self._to_session.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=one, error=error)))

    def _whose(self, head: bytes) -> list[int]:
        match = _ID.search(head)
        return [int(match[1])] if match is not None and int(match[1]) in self._asked else []


async def _write_lines(fd: int, from_session: Any, to_session: Any, asked: set[Any]) -> None:
    from mcp_types import JSONRPCRequest

    async with from_session:
        async for item in from_session:
            if isinstance(item.message, JSONRPCRequest):
                asked.add(item.message.id)
            data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(fd, view) :]
                except BlockingIOError:
                    await _until(fd, is_write=True)
                except OSError:
                    to_session.close()  # it reads no more: tell the session that the connection has ended
                    return


async def _keep_errors(fd: int, watch: Watch) -> None:
    while piece := await _read(fd):
        watch.said += piece
        del watch.said[:-_STDERR_BYTES]


async def _read(fd: int) -> bytes:
    """Read the next bytes; empty at the end."""
    while True:
        try:
            return os.read(fd, _PIECE_BYTES)
        except BlockingIOError:
            await _until(fd, is_write=False)
        except OSError:
            return b""


async def _until(fd: int, *, is_write: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if is_write else (loop.add_reader, loop.remove_reader)
    add(fd, _done, ready)
    try:
        await ready
    finally:
        remove(fd)


def _done(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _end(process: subprocess.Popen[bytes], mark: str, watch: Watch) -> None:
    """Let the process end, then kill it with its group and what left the group."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        if not await _has_ended(process.pid, _GRACE_S):
            _signal(process.pid, signal.SIGTERM)
            await _has_ended(process.pid, _GRACE_S)
    finally:
        _signal(process.pid, signal.SIGKILL)  # before it is waited for, so that the number is still its own
        await _has_ended(process.pid, _KILL_S)
        watch.pid = 0  # from here on the number may be another's
        process.poll()
        await asyncio.get_running_loop().run_in_executor(None, kill_marked, mark)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def _has_ended(pid: int, seconds: float) -> bool:
    """Return whether it ends within so many seconds. It is not reaped, so its number stays taken."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:  # noqa: ASYNC222 - it does not wait
        if loop.time() > deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True


# -- an address --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def http_wire(
    url: str, headers: Mapping[str, str], timeout_s: float, tls: Any = None
) -> AsyncIterator[tuple[Any, Any]]:
    """Talk to a server over streamable HTTP. The environment has no effect: no proxies, no stored passwords, no cookies."""
    import ssl

    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    inner = httpx2.AsyncHTTPTransport(verify=tls or ssl.create_default_context(), trust_env=False)
    client = httpx2.AsyncClient(
        transport=_bounded(inner), headers={**headers, "Accept-Encoding": "identity"}, trust_env=False, follow_redirects=False,
        timeout=httpx2.Timeout(30.0, read=timeout_s + 5.0),
    )  # fmt: skip
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=MESSAGE_BYTES_MAX) as streams:
        yield streams


def _bounded(inner: Any) -> Any:
    """A transport that bounds its answers as they arrive."""
    import httpx2

    class Bounded(httpx2.AsyncBaseTransport):  # type: ignore[misc]  # an extra: mypy does not follow it
        async def handle_async_request(self, request: Any) -> Any:
            if request.method == "GET":
                return httpx2.Response(405, request=request)  # no stream that was not asked for, and no resumption
            response = await inner.handle_async_request(request)
            if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
                await response.aclose()
                raise httpx2.ReadError("its answer is compressed, which was not asked for")
            response.stream = _Counted(response.stream)
            return response

        async def aclose(self) -> None:
            await inner.aclose()

    class _Counted(httpx2.AsyncByteStream):  # type: ignore[misc]  # as above
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = containers = 0
            async for piece in self._stream:
                size += len(piece)
                containers += piece.count(b"{") + piece.count(b"[")
                if size > MESSAGE_BYTES_MAX or containers > _CONTAINERS_MAX:
                    raise httpx2.StreamError(_TOO_MUCH)
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Bounded()
