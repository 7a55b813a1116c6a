"""Connections to MCP servers. One thread runs asyncio for all of them; the agent's threads submit work to it and wait."""

from __future__ import annotations

__all__ = ["Answer", "AnswerLostError", "Asked", "Link", "LinkError", "LinkThread", "ToolListing"]

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from periplus import __version__
from periplus.agent.mcpclient.server_entry import ServerRow
from periplus.base.errors import EnvironmentFailure, PeriplusError

if TYPE_CHECKING:
    from periplus.agent.mcpclient.transports import Watch

START_SECONDS: Final = 20.0
_END_SECONDS: Final = 8.0
TOOLS_MAX: Final = 512
_PAGES_MAX: Final = 64
_LIST_CHARS_MAX: Final = 4 << 20
T = TypeVar("T")


class LinkError(EnvironmentFailure):
    """A server that does not start, does not answer, or reported an error."""

    code = "server"


class AnswerLostError(LinkError):
    """A call was sent and its answer was lost or unreadable, so it is not known whether the call took effect."""


class Answer(NamedTuple):
    """The answer of a call, as documents of the protocol."""

    content: list[dict[str, Any]]
    structured: Any
    is_error: bool


class ToolListing(NamedTuple):
    """The tools as the server lists them; ``left_out`` says why the list is incomplete."""

    tools: list[dict[str, Any]]
    left_out: str = ""


class Asked(NamedTuple):
    """Start parameters of a server: command or address, environment, and time limit."""

    row: ServerRow
    words: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    start_s: float = START_SECONDS
    tls: Any = None


class LinkThread:
    """The asyncio thread. ``ask`` may be called from any other thread; ``cancel`` ends all current requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._asked: set[Future[Any]] = set()
        self._is_closed = False

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` in the thread and return its result. Raises concurrent.futures.CancelledError if it was cancelled."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise LinkError("the session has ended", safe="Nothing was called.")
            future = asyncio.run_coroutine_threadsafe(work, self._begun())
            self._asked.add(future)
        try:
            return future.result()
        finally:
            with self._lock:
                self._asked.discard(future)

    def cancel(self) -> None:
        with self._lock:
            asked = list(self._asked)
        for future in asked:
            future.cancel()

    def soon(self, work: Callable[[], None]) -> None:
        """Run ``work`` in the thread without waiting."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(work)

    def close(self) -> None:
        self.cancel()
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            self._is_closed = True
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_settled(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _begun(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            log = logging.getLogger("mcp")  # it would print untrusted text; problems are raised as errors
            log.addHandler(logging.NullHandler())
            log.propagate = False
            loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_run, args=(loop,), name="servers", daemon=True)
            self._thread.start()
            self._loop = loop
        return self._loop


async def _settled() -> None:
    """Wait until cancelled tasks have ended, which ends their processes."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=2 * _END_SECONDS)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class Link:
    """One connection, from start to end. It belongs to the asyncio thread; its task holds the transport and the session."""

    def __init__(self, asked: Asked) -> None:
        from periplus.agent.mcpclient.transports import Watch

        self._asked = asked
        self.watch: Watch = Watch()
        self._session: Any = None
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._is_cancelled = False
        self.server = ""
        self.in_flight = 0

    @property
    def is_over(self) -> bool:
        return self.watch.is_over or self._task is None or self._task.done()

    async def start(self) -> None:
        """Connect. Raises LinkError."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve(ready))
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())  # the watch reports it
        try:
            async with asyncio.timeout(self._asked.start_s):
                await asyncio.wait([self._task, ready], return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                await self._task
        except TimeoutError:
            await self.close()
            raise self._failed(f"it did not start within {self._asked.start_s:g} s") from None
        except asyncio.CancelledError:
            await self.close()
            raise
        except BaseException as error:  # of the task itself: any error is reported in words
            self.watch.over("it did not start")
            raise self._failed(_told(error)) from error
        ready.cancel()
        if self._session is None:
            raise self._failed("it did not start")

    async def close(self) -> None:
        """Close the connection in bounded time."""
        self._closing.set()
        self.watch.over("it was closed")
        if self._task is None:
            return
        if self._session is None and not self._is_cancelled:
            self._is_cancelled = True  # once: a second time would interrupt the end of the process
            self._task.cancel()
        done, _ = await asyncio.wait([self._task], timeout=_END_SECONDS)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_END_SECONDS)

    def kill(self) -> None:
        """Kill the server's process before this returns. May be called from any thread."""
        import os
        import signal
        from contextlib import suppress

        if self.watch.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.watch.pid, signal.SIGKILL)
        self.watch.over("it was ended")

    def finish(self) -> None:
        """Wait for the task to end, in the asyncio thread."""
        self._closing.set()

    async def tools(self) -> ToolListing:
        """List all tools, page by page. Raises LinkError."""
        from mcp_types import PaginatedRequestParams

        found: list[dict[str, Any]] = []
        cursor: str | None = None
        size = 0
        self.watch.is_changed = False
        for _ in range(_PAGES_MAX):
            params = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            listed = await self._sent(self._session.list_tools(params=params), self._asked.start_s)
            for tool in listed.tools:
                document = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
                size += len(str(document))
                if len(found) >= TOOLS_MAX or size > _LIST_CHARS_MAX:
                    return ToolListing(found, f"it has more than {len(found):,} tools; the rest is left out")
                found.append(document)
            cursor = listed.next_cursor
            if not cursor:
                return ToolListing(found)
        return ToolListing(found, f"its list goes on after page {_PAGES_MAX}; the rest is left out")

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool. Raises LinkError; AnswerLostError if the call was sent and its result is not known."""
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult
        from pydantic import TypeAdapter

        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        adapter = TypeAdapter(CallToolResult | InputRequiredResult)
        self.in_flight += 1
        try:
            result = await self._sent(
                self._session.send_request(request, adapter, request_read_timeout_seconds=self._asked.row.timeout_s),
                self._asked.row.timeout_s + 5.0,
            )
        finally:
            self.in_flight -= 1
        if not isinstance(result, CallToolResult):
            raise LinkError(
                "it requests input (a form, the model), which is not supported here",
                safe="Nothing was sent to it.",
            )
        return Answer(
            [one.model_dump(by_alias=True, mode="json", exclude_none=True) for one in result.content],
            result.structured_content, bool(result.is_error),
        )  # fmt: skip

    async def _sent(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
        from pydantic import ValidationError

        from periplus.agent.mcpclient.transports import ANSWER_LOST

        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise AnswerLostError(f"it did not answer within {seconds:g} s") from None
        except ValidationError as error:
            raise AnswerLostError(f"its answer is not valid: {error.error_count()} fields are wrong") from error
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise AnswerLostError(f"it did not answer within {seconds:g} s") from error
            if error.code == CONNECTION_CLOSED:
                why = self.watch.why or "it closed the connection"
                self.watch.over(why)
                raise AnswerLostError(f"{why} in the middle of the call") from error
            if error.code in (ANSWER_LOST, -32700):
                raise AnswerLostError(str(error.message)[:500]) from error
            if error.message == "Session terminated":
                self.watch.over("it no longer knows the session")  # started again at the next use
            raise LinkError(f"it says: {str(error.message)[:2_000]}") from error
        except PeriplusError:
            raise
        except Exception as error:  # any error of the SDK about received data: the answer is lost
            raise AnswerLostError(f"its answer cannot be read: {_told(error)}") from error

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        from mcp.shared.exceptions import MCPError
        from mcp_types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

        try:
            try:
                await self._hold("legacy", ready)
            except* MCPError as group:
                codes = {error.code for error in _leaves(group) if isinstance(error, MCPError)}
                if ready.done() or not codes & {METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION}:
                    raise
                await self._hold("auto", ready)  # of the protocol version without a handshake
        finally:
            self._session = None
            self.watch.over("it closed the connection")

    async def _hold(self, mode: str, ready: asyncio.Future[None]) -> None:
        from mcp import Client
        from mcp_types import Implementation

        from periplus.agent.mcpclient.transports import http_wire, process_wire, sieved

        asked = self._asked
        if asked.row.url:
            wire = sieved(http_wire(asked.row.url, asked.row.headers, asked.row.timeout_s, asked.tls), self.watch)
        else:
            wire = process_wire(asked.words, asked.folder, asked.environment, self.watch)
        self.watch.is_over, self.watch.why = False, ""
        client = Client(
            sieved(wire, self.watch),
            mode=mode,
            cache=None,
            client_info=Implementation(name="periplus", version=__version__),
        )
        async with client:
            self._session = client.session
            info = client.server_info
            self.server = f"{info.name} {info.version}"[:200] if info is not None else ""
            ready.set_result(None)
            await self._closing.wait()

    def _failed(self, why: str) -> LinkError:
        said = self.watch.last_words.strip()
        return LinkError(
            why, safe="Nothing was called.", mend=f"Its standard error ends with: {said[-1_000:]}" if said else ""
        )


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


def _told(error: BaseException) -> str:
    """Describe an error in one line without object addresses."""
    for leaf in _leaves(error):
        if isinstance(leaf, asyncio.CancelledError | CancelledError):
            continue
        if isinstance(leaf, FileNotFoundError):
            return f"there is no program {leaf.filename!r}"
        text = " ".join(str(leaf).split())[:300]
        return f"{type(leaf).__name__}: {text}" if text else type(leaf).__name__
    return "it was cancelled"
