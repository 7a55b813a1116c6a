"""The asynchronous client of a context server::

    async with ContextClient(parse_address("tls://example.org:7600"), token=token, trust=trust) as client:
        refs = await client.refs()
        async for chunk in client.stream(refs["main"], prove=True):
            ...

Calls may run concurrently on one client, up to half the agreed number of streams; further calls wait. Each is one of
``context.remotes.calls``. A stream that is left early (``break``, ``aclose``) is cancelled, and the server frees its
state; a slow reader costs either side no more than the credit of the stream. For pushes and pulls, which work on files,
use the blocking ``RemoteStore``.
"""

from __future__ import annotations

__all__ = ["ContextClient"]

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, Self, TypeVar

from periplus.base.errors import PeriplusError
from periplus.context.model import DEFAULT_LIMITS, Chunk, ChunkLimits, Context, ContextHeader, Expansion, StreamEnd
from periplus.context.remotes import calls
from periplus.context.remotes.address import (
    Address,
    Trust,
    certificate_failure,
    check_fingerprint,
    check_token_stays_secret,
    client_tls,
    connection_failure,
    socket_path,
)
from periplus.context.remotes.calls import Call, Link, Pause, Wait
from periplus.context.selection.filters import Query, QueryResult
from periplus.context.store_protocol import ANY, Expected
from periplus.context.wire import ClientMachine, Closed, Limits
from periplus.context.wire.payloads import QueryRequest, RefUpdate, StreamRequest, entries_of, filter_of

T = TypeVar("T")
R = TypeVar("R")
CONNECT_PATIENCE_S: Final = 10.0
_READ_BYTES: Final = 256 << 10
_DEFAULT_TRUST: Final = Trust()


class ContextClient:
    """Connects on entry. ``limits`` bound what the server may send; ``token`` and ``trust`` are of
    ``context.remotes.address``. Raises RefusedError if the token would travel unencrypted.
    """

    # The parameters of RemoteStore.__init__ again: both are public, and a reader of either sees its defaults here.
    def __init__(
        self,
        address: Address,
        *,
        token: str = "",
        trust: Trust = _DEFAULT_TRUST,
        limits: Limits = calls.LIMITS,
        patience_s: float = CONNECT_PATIENCE_S,
    ) -> None:
        check_token_stays_secret(address, token)
        self._address = address
        self._token = token
        self._trust = trust
        self._limits = limits
        self._patience_s = patience_s
        self._came: dict[int, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._writing = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await self._connect()
        machine = ClientMachine(time.monotonic(), limits=self._limits, token=self._token, compress=self._address.is_far)
        self._link = Link(machine, time.monotonic)
        self._opened = asyncio.Event()
        self._tasks = [asyncio.create_task(work()) for work in (self._read, self._write, self._keep_alive)]
        self._writing.set()
        try:
            await self._opened.wait()
            self._check_open()
        except BaseException:  # on any failure: close the connection and re-raise
            await self.close()
            raise
        # Half of the agreed streams: a cancelled stream counts until the server has confirmed it.
        self._slots = asyncio.Semaphore(max(1, self._link.machine.limits.streams // 2))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection and the calls in progress."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._over(Closed("", False, "the client was closed"))
        self._link.machine.close()
        await _closed(self._writer)

    # Calls

    async def refs(self, prefix: str = "") -> dict[str, bytes]:
        """Return all refs whose names begin with ``prefix``, sorted by name."""
        return await self._run(lambda link: calls.list_refs(link, prefix))

    async def set_ref(self, name: str, target: bytes | None, *, expected: Expected = ANY, force: bool = False) -> None:
        """Set a ref; see the store protocol."""
        update = RefUpdate(name, target, None if expected is ANY else expected, expected is ANY, force)
        await self._run(lambda link: calls.change_ref(link, update))

    async def header(self, digest: bytes) -> ContextHeader:
        """Return the header of a context. Raises NotFoundError."""
        view = await self._run(lambda link: calls.record_of(link, digest))
        return view.header

    async def context(self, digest: bytes) -> Context:
        """Return the whole delta in canonical form."""
        view = await self._run(lambda link: calls.record_of(link, digest))
        return await self._run(lambda link: calls.context(link, view))

    async def expand(self, digest: bytes, *, prove: bool = False) -> Expansion:
        """Return the whole expansion in order: unverified, or with ``prove`` verified first. Raises FormatError."""
        return await self._run(lambda link: (calls.expand_proved if prove else calls.expand)(link, digest))

    async def stream(
        self, digest: bytes, *, limits: ChunkLimits = DEFAULT_LIMITS, resume: int = 0, prove: bool = False
    ) -> AsyncGenerator[Chunk, None]:
        """Yield the expansion in chunks, best first, read on demand.

        With ``prove`` every chunk is verified before it is yielded, and completeness is verified at the end. Raises
        FormatError.
        """
        from periplus.context.streams.chunk_proof import ChunkVerifier

        verifier = ChunkVerifier(digest, limits) if prove and not resume else None
        ends: list[StreamEnd] = []
        body = StreamRequest(digest, resume, *limits, prove=prove)
        chunks = self._each(lambda link: calls.chunks(link, body), ends.append)
        try:
            async for chunk in chunks:
                if verifier is not None:
                    verifier.feed(chunk)
                yield chunk
            if verifier is not None:
                verifier.finish(ends[0])
        finally:
            await chunks.aclose()

    async def query(self, digest: bytes, asked: Query) -> QueryResult:
        """Return a page of a search that the server makes."""
        body = QueryRequest(
            digest, asked.text, filter_of(asked.filters), asked.limit, page=asked.page, at_ms=asked.at_ms or 0
        )
        answer = await self._run(lambda link: calls.query(link, body))
        entries = entries_of(answer.atoms, answer.origins, answer.origin_of)
        return QueryResult(entries, answer.scores, answer.total, answer.page_next, answer.at_ms)

    def objects(self, digests: Sequence[bytes]) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Yield the verified bytes of objects, in the order asked for."""
        return self._each(lambda link: calls.fetch(link, digests), _ignore)

    def watch(self, prefix: str = "") -> AsyncGenerator[tuple[dict[str, bytes], tuple[str, ...]], None]:
        """Yield all refs whose names begin with ``prefix``, then those that move and the names of those that are
        removed.
        """
        return self._each(lambda link: calls.watch(link, prefix), _ignore)

    # Internals

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        import ssl

        address, trust = self._address, self._trust
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self._patience_s):
                if address.scheme == "unix":
                    with socket_path(address.path) as path:
                        return await asyncio.open_unix_connection(path)
                tls = client_tls(trust) if address.scheme == "tls" else None
                reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
                if tls is not None:
                    found = writer.get_extra_info("ssl_object")
                    check_fingerprint(address, trust, found.getpeercert(binary_form=True))
                return reader, writer
        except ssl.SSLCertVerificationError as error:
            raise certificate_failure(address, trust, error.verify_message) from error
        except TimeoutError as error:
            raise connection_failure(address, OSError("there was no answer in time")) from error
        except OSError as error:
            raise connection_failure(address, error) from error
        except PeriplusError:
            if writer is not None:
                await _closed(writer)
            raise

    async def _read(self) -> None:
        try:
            while self._link.closed is None:
                data = await self._reader.read(_READ_BYTES)
                self._sort(self._link.receive(data, time.monotonic()))
        except OSError as error:
            self._over(Closed("", True, str(error)))

    async def _write(self) -> None:
        try:
            while True:
                await self._writing.wait()
                self._writing.clear()
                data = self._link.machine.data_to_send()
                if data:
                    self._writer.write(data)
                    await self._writer.drain()
        except OSError as error:
            self._over(Closed("", True, str(error)))

    async def _keep_alive(self) -> None:
        while self._link.closed is None:
            deadline = self._link.machine.next_deadline()
            if deadline is None:
                return
            await asyncio.sleep(max(0.0, deadline - time.monotonic()) + 0.001)
            self._sort(self._link.sort(self._link.machine.tick(time.monotonic())))

    def _sort(self, streams: list[int]) -> None:
        for stream in streams:
            if stream in self._came:
                self._came[stream].set()
        if self._link.machine.is_open:
            self._opened.set()
        if self._link.closed is not None:
            self._over(self._link.closed)
        self._writing.set()

    def _over(self, closed: Closed) -> None:
        self._link.closed = self._link.closed or closed
        self._opened.set()
        for event in self._came.values():
            event.set()

    def _check_open(self) -> None:
        closed = self._link.closed
        if closed is None:
            return
        raise calls.connection_ended(self._address, closed)

    async def _next(self, stream: int) -> Any:
        came = self._came.setdefault(stream, asyncio.Event())
        while True:
            event = self._link.next_of(stream)
            if event is not None:
                return event
            self._check_open()
            came.clear()
            self._writing.set()
            await came.wait()

    async def _run(self, begin: Callable[[Link], Call[Any, R]]) -> R:
        results: list[R] = []
        async for _ in self._each(begin, results.append):
            pass
        return results[0]

    async def _each(
        self, begin: Callable[[Link], Call[T, R]], end_with: Callable[[R], object]
    ) -> AsyncGenerator[T, None]:
        """Run a call and yield its values; its result goes to ``end_with``."""
        await self._slots.acquire()
        waited: set[int] = set()
        call: Call[T, R] | None = None
        try:
            self._check_open()
            call = begin(self._link)
            step = next(call)
            while True:
                if isinstance(step, Wait):
                    waited.add(step.stream)
                    step = call.send(await self._next(step.stream))
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = call.send(None)
                else:
                    yield step
                    step = call.send(None)
        except StopIteration as end:
            end_with(end.value)
        finally:
            if call is not None:
                call.close()
            for stream in waited:
                self._came.pop(stream, None)
            self._writing.set()
            self._slots.release()


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close at once: unsent bytes are of no use any more."""
    writer.transport.abort()
    try:
        await writer.wait_closed()
    except OSError:
        pass  # the connection is over in any case


def _ignore(_: object) -> None:
    """Ignore the result of a call."""
