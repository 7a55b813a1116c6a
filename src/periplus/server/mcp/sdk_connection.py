"""A connection over standard input and output, served by the SDK after the handshake."""

from __future__ import annotations

__all__ = ["hand_over"]

import asyncio
import json
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from periplus.server.mcp.handshake import Front
from periplus.server.mcp.message_lines import MESSAGE_BYTES_MAX, Line, LineReader, error_line, write_all
from periplus.server.mcp.sdk_server import Answers, DeskThread, make_server

_T = TypeVar("_T")
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_LAST_ANSWERS_S: Final = 30.0
_TOO_LONG: Final = f"a message has over {MESSAGE_BYTES_MAX:,} bytes; it was not read"


def hand_over(
    thread: DeskThread, connection: str, lines: LineReader, sink: int, front: Front, first: Line, stop_signals: Sequence[signal.Signals]
) -> None:  # fmt: skip
    """Continue a connection with the SDK: it gets what ``front`` heard, then ``first``, then further lines. Raises OSError."""
    asyncio.run(_Handed(thread, connection, lines, sink, front, first).run(stop_signals))


def _has_id(data: bytes) -> bool:
    return b'"id"' in data and "id" in json.loads(data)


class _Daemon:
    """A thread that runs jobs one after another, and does not keep the process from ending: a read may block for ever."""

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
        return  # the loop is closed, so nobody waits


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class _Handed:
    """The connection, served by the SDK."""

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

    async def run(self, stop_signals: Sequence[signal.Signals]) -> None:
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
        for number in stop_signals:
            loop.add_signal_handler(number, serving.cancel)
        try:
            # The first to end stops the others: end of input, closed output, or a signal.
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
                (_INVALID_REQUEST, "this is not a message")
                if is_json
                else (_PARSE_ERROR, "this is not JSON, or it is nested too deeply")
            )
            await self._write(error_line(line.data, code, told))
            return
        if isinstance(message, mcp_types.JSONRPCNotification) and _has_id(
            line.data
        ):  # a sender that gives an id waits for an answer
            await self._write(error_line(line.data, _INVALID_REQUEST, "an id must be a string or an integer"))
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
