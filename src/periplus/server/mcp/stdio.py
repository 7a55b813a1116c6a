"""MCP over standard input and output, one client for the life of the process.

The front answers the first requests while a thread loads the SDK; the first line that the front leaves alone is the SDK's, which is told
all that was said before and from then on hears everything. Standard input and output are taken away from the rest of the process, so
that nothing which prints or reads gets between the lines.

The end of the input ends the server, once what was asked is answered; so does SIGTERM, at once.
"""

from __future__ import annotations

__all__ = ["Stopped", "claimed_streams", "serve_stdio"]

import asyncio
import json
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from periplus.server.mcp.front import Front
from periplus.server.mcp.lines import MESSAGE_BYTES_MAX, Line, LineReader, error_line, write_all
from periplus.server.mcp.sdk import Answers, DeskThread, make_server

_T = TypeVar("_T")
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_LAST_ANSWERS_S: Final = 30.0
_TOO_LONG: Final = f"a message has over {MESSAGE_BYTES_MAX:,} bytes; nothing of it was read"


class Stopped(BaseException):
    """SIGTERM, while the front was listening."""


@contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of their own for standard input and output; in their places stand nothing, and standard error, until the end."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)  # the two are left open: a thread may still wait for a line


def serve_stdio(thread: DeskThread, connection: str, source: int, sink: int) -> None:
    """Serve until the client is gone. Raises OSError where its descriptors fail otherwise than by being closed."""
    before = signal.signal(signal.SIGTERM, _stop)
    lines, front = LineReader(source), Front()
    loading: threading.Thread | None = None
    try:
        while True:
            line = lines.read()
            if line is None:
                return
            answer = front.answer(line.data) if line.is_whole else None
            if answer is None:
                break
            write_all(sink, answer)
            if loading is None:
                loading = threading.Thread(target=_load, daemon=True, name="load the SDK")
                loading.start()
        if loading is not None:
            loading.join()  # two threads must not import the same package at once
        asyncio.run(_Handed(thread, connection, lines, sink, front, line).run())
    except (Stopped, BrokenPipeError, ConnectionResetError):
        return
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(*_: object) -> None:
    raise Stopped


def _load() -> None:
    with suppress(ImportError):  # who needs it says so
        import mcp.server.lowlevel  # noqa: F401 - so that it is there when the first call comes


def _has_id(data: bytes) -> bool:
    return b'"id"' in data and "id" in json.loads(data)


class _Daemon:
    """A thread that does one thing after another, and keeps no process from ending: what it waits for may never come."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[[], Any]]] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._work, daemon=True, name=name).start()

    async def run(self, job: Callable[[], _T]) -> _T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        self._jobs.put((loop, future, job))
        return await future

    def _work(self) -> None:
        while True:
            loop, future, job = self._jobs.get()
            try:
                value = job()
            except BaseException as error:  # noqa: BLE001 - it is raised where the job was asked for
                _tell(loop, _fail, future, error)
            else:
                _tell(loop, _settle, future, value)


def _tell(loop: asyncio.AbstractEventLoop, how: Callable[..., None], future: asyncio.Future[Any], what: object) -> None:
    try:
        loop.call_soon_threadsafe(how, future, what)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class _Handed:
    """A connection in the SDK's hands."""

    def __init__(
        self, thread: DeskThread, connection: str, lines: LineReader, sink: int, front: Front, first: Line
    ) -> None:  # fmt: skip
        self._thread = thread
        self._connection = connection
        self._lines = lines
        self._sink = sink
        self._heard = front.heard
        self._first = first
        self._answered_before: set[int | str] = set()
        self._asked: set[int | str] = set()
        self._settled = asyncio.Event()
        self._reading, self._writing = _Daemon("read"), _Daemon("write")

    async def run(self) -> None:
        import anyio

        server = make_server(Answers(self._thread, self._connection))
        to_sdk, reads = anyio.create_memory_object_stream[Any](0)
        writes, from_sdk = anyio.create_memory_object_stream[Any](0)
        task = asyncio.current_task()
        assert task is not None
        serving = asyncio.ensure_future(self._serve(server, reads, writes))
        feeding = asyncio.ensure_future(self._feed(to_sdk))
        draining = asyncio.ensure_future(self._drain(from_sdk))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        try:
            # The one that ends first ends the others: the input is over, the output is gone, or somebody said stop.
            done, _ = await asyncio.wait({serving, draining}, return_when=asyncio.FIRST_COMPLETED)
            if serving in done and not serving.cancelled():
                await asyncio.wait({draining})
        finally:
            for one in (serving, feeding, draining):
                one.cancel()
            found = await asyncio.gather(serving, feeding, draining, return_exceptions=True)
        for error in found:
            if isinstance(error, Exception) and not isinstance(error, (BrokenPipeError, ConnectionResetError)):
                raise error

    async def _serve(self, server: Any, reads: Any, writes: Any) -> None:
        await server.run(reads, writes, server.create_initialization_options())

    async def _feed(self, to_sdk: Any) -> None:
        import mcp_types

        async with to_sdk:
            for heard in self._heard:
                message = mcp_types.jsonrpc_message_adapter.validate_json(heard, by_name=False)
                if isinstance(message, mcp_types.JSONRPCRequest):
                    self._answered_before.add(message.id)
                await self._give(to_sdk, message)
            line: Line | None = self._first
            while line is not None:
                await self._hear(to_sdk, line)
                line = await self._reading.run(self._lines.read)
            if self._asked:
                self._settled.clear()
                try:
                    await asyncio.wait_for(self._settled.wait(), _LAST_ANSWERS_S)
                except TimeoutError:
                    return

    async def _hear(self, to_sdk: Any, line: Line) -> None:
        import mcp_types
        from pydantic import ValidationError

        if not line.is_whole:
            await self._write(error_line(line.data, _INVALID_REQUEST, _TOO_LONG))
            return
        if not line.data.strip():
            return
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line.data, by_name=False)
        except ValidationError as error:
            is_json = all(
                one["type"] != "json_invalid"
                for one in error.errors(include_url=False, include_context=False, include_input=False)
            )
            code, told = (
                (_INVALID_REQUEST, "this is no message")
                if is_json
                else (_PARSE_ERROR, "this is no JSON, or it is nested too deeply")
            )
            await self._write(error_line(line.data, code, told))
            return
        if isinstance(message, mcp_types.JSONRPCNotification) and _has_id(line.data):  # who asks so waits for an answer
            await self._write(error_line(line.data, _INVALID_REQUEST, "an id is a text or a whole number"))
            return
        if isinstance(message, mcp_types.JSONRPCRequest):
            self._asked.add(message.id)
        elif isinstance(message, mcp_types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))
        await self._give(to_sdk, message)

    async def _give(self, to_sdk: Any, message: Any) -> None:
        from mcp.shared.message import SessionMessage

        await to_sdk.send(SessionMessage(message))

    async def _drain(self, from_sdk: Any) -> None:
        import mcp_types

        async with from_sdk:
            async for one in from_sdk:
                message = one.message
                is_answer = isinstance(message, (mcp_types.JSONRPCResponse, mcp_types.JSONRPCError))
                if is_answer and message.id in self._answered_before:
                    self._answered_before.discard(message.id)
                    continue
                await self._write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                if is_answer:
                    self._settle(message.id)

    def _settle(self, request_id: Any) -> None:
        if isinstance(request_id, (int, str)):
            self._asked.discard(request_id)
        if not self._asked:
            self._settled.set()

    async def _write(self, data: bytes) -> None:
        await self._writing.run(lambda: write_all(self._sink, data))
