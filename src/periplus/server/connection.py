"""One connection of a context server: received bytes go to its protocol machine, events become jobs, and the machine's output is
written.

Rules:

* Nothing is computed that could not be sent: the next step of a job starts when its stream has credit and the transport is not
full.
* A peer that sends requests but does not read is not read from until it does.
* The machine's deadlines are the only clock; they end an unfinished handshake, a silent peer and a dead one.
* When the connection ends, all its jobs end.
"""

from __future__ import annotations

__all__ = ["Connection", "Hub"]

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from periplus.context.model import DEFAULT_LIMITS, ChunkLimits
from periplus.context.wire import (
    ERRORS,
    Cancelled,
    Closed,
    CreditCame,
    Event,
    ObjectCame,
    Opened,
    Requested,
    ServerMachine,
    UploadEnded,
    V1Requested,
    WireError,
)
from periplus.context.wire.limits import ATOMS_MAX, FRAME_BYTES_MAX
from periplus.context.wire.payloads import PushContext, RefsRequest, StreamRequest, Watch
from periplus.context.wire.v1_payloads import V1Push, V1Request
from periplus.server.quota import Share
from periplus.server.refusal import field_of, told_code
from periplus.server.request_handlers import Bench, Keeping, Step, answers, changes, is_long, is_search, refs_per_frame
from periplus.server.request_handlers_v1 import answers_v1
from periplus.server.stats import Stats
from periplus.server.workers import Job, Lane, Workers

WRITE_HIGH_BYTES: Final = 256 << 10
CLOSE_PATIENCE_S: Final = 5.0
PING_SHARE: Final = 3  # the fraction of the allowed silence after which a peer is pinged
STATS_ASKED: Final = b"STATS\n"
_Job: TypeAlias = Job[Bench, Step]


class Hub(Protocol):
    """The parts of a server that its connections use."""

    stats: Stats
    workers: Workers[Bench, Step]
    can_push: bool

    def machine(self) -> ServerMachine: ...

    def refs(self) -> dict[str, bytes]:
        """The refs as of the last look."""
        ...

    def watch(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call ``told`` when refs have moved. Calling the result ends that."""
        ...

    def refs_changed(self) -> None:
        """Report that a ref has moved, or may have."""
        ...

    def log(self, error: BaseException) -> None: ...

    def document(self) -> dict[str, Any]: ...

    def closed(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """``is_local``: only this user of this machine can have opened the connection."""

    def __init__(self, hub: Hub, *, is_local: bool) -> None:
        self._hub = hub
        self._is_local = is_local
        self._loop = asyncio.get_running_loop()
        self._lane = Lane()
        self._share = Share()
        self._machine: ServerMachine | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._jobs: dict[int, _Job] = {}
        self._keeping: dict[int, Keeping] = {}
        self._watching: dict[int, tuple[Callable[[], None], dict[str, bytes] | None, str]] = {}
        self._is_full = False
        self._is_stopping = False
        self._pinged_at = 0.0
        self._heard_at = 0.0

    # The transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self._heard_at = time.monotonic()
        self._machine = self._hub.machine()
        self._rearm()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio calls it with it
        self._end()

    def pause_writing(self) -> None:
        self._is_full = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        for stream in list(self._jobs):
            self._resume(stream)
        for stream in list(self._watching):
            self._tell_changes(stream)
        self._flush()

    def data_received(self, data: bytes) -> None:
        machine = self._machine
        if machine is None:
            return
        self._hub.stats.bytes_in += len(data)
        self._heard_at = time.monotonic()
        if self._is_local and not machine.is_open and data.startswith(STATS_ASKED):
            self._send_stats()
            return
        self._handle(machine.receive(data, self._heard_at))

    def eof_received(self) -> bool:
        """Close. A peer that wants answers has to keep its side open, so pending ones are dropped."""
        if self._machine is not None:
            self._handle(self._machine.receive_eof(time.monotonic()))
        return False

    def _flush(self) -> None:
        machine, transport = self._machine, self._transport
        if machine is None or transport is None:
            return
        data = machine.data_to_send()
        if data:
            self._hub.stats.bytes_out += len(data)
            transport.write(data)
        if machine.is_closed or (self._is_stopping and machine.is_drained):
            self._close()

    def _close(self) -> None:
        """Close after the written data went out, or when the peer's time is up."""
        transport = self._transport
        self._end()
        if transport is not None and not transport.is_closing():
            transport.close()
            self._timer = self._loop.call_later(CLOSE_PATIENCE_S, transport.abort)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._machine is None:
            return
        self._machine.close()
        self._machine = None
        for stream in list(self._jobs):
            self._drop(stream)
        for unwatch, _, _ in self._watching.values():
            unwatch()
        self._watching.clear()
        self._hub.closed(self)

    def _send_stats(self) -> None:
        assert self._transport is not None
        self._transport.write(json.dumps(self._hub.document()).encode() + b"\n")
        self._close()

    # Time

    def _rearm(self) -> None:
        machine = self._machine
        if machine is None:
            return
        deadline = machine.next_deadline()
        if deadline is None:
            return
        if machine.is_open and machine.version == 2:
            deadline = min(deadline, self._ping_at(machine))
        wait_s = max(0.0, deadline - time.monotonic())
        self._timer = self._loop.call_later(wait_s + 0.001, self._tick)

    def _ping_at(self, machine: ServerMachine) -> float:
        pause_s = machine.limits.idle_ms / 1_000 / PING_SHARE
        return max(self._heard_at, self._pinged_at) + pause_s

    def _tick(self) -> None:
        machine = self._machine
        if machine is None:
            return
        now = time.monotonic()
        self._handle(machine.tick(now))
        if self._machine is None:
            return
        if machine.is_open and machine.version == 2 and now >= self._ping_at(machine) and not self._is_full:
            self._pinged_at = now
            machine.ping()
            self._flush()
        self._rearm()

    # Events

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            self._on_event(event)
            if self._machine is None:
                return
        self._flush()

    def _on_event(self, event: Event) -> None:
        match event:
            case Requested():
                self._on_request(event)
            case V1Requested():
                self._on_v1_request(event.stream, event.body)
            case CreditCame():
                self._resume(event.stream)
                self._tell_changes(event.stream)
            case ObjectCame():
                self._keep(event.stream).waiting.append((event.data, event.frames, event.size_bytes))
                self._hub.stats.objects_in += 1
                self._resume(event.stream)
            case UploadEnded():
                self._keep(event.stream).is_ended = True
                self._resume(event.stream)
            case Cancelled():
                self._hub.stats.cancelled += 1
                self._drop(event.stream)
            case Opened():
                self._restart_timer()
            case Closed():
                if event.code:  # a peer may send any text, so its codes are not counted one by one
                    self._hub.stats.errors[event.code if event.code in ERRORS else "other"] += 1
            case _:
                pass  # a ping

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rearm()

    def _on_request(self, event: Requested) -> None:
        machine, stream, body = self._machine, event.stream, event.body
        assert machine is not None
        self._hub.stats.requests[type(body).__name__] += 1
        if not machine.is_stream_open(stream):
            return  # a later frame in the same bytes has cancelled it
        if isinstance(body, Watch):
            unwatch = self._hub.watch(lambda: self._changed(stream))
            self._watching[stream] = (unwatch, None, body.prefix)
            return
        limits, chunk_limits = machine.limits, machine.chunk_limits(stream, _most(body))
        self._begin(
            stream, lambda bench: bench.guarded(lambda: answers(bench, stream, body, limits, chunk_limits)), body
        )

    def _on_v1_request(self, stream: int, body: V1Request) -> None:
        machine = self._machine
        assert machine is not None
        self._hub.stats.requests[type(body).__name__] += 1
        if not machine.is_stream_open(stream):
            return
        if isinstance(body, V1Push) and not self._hub.can_push:
            self._fail(stream, "refused")
            return
        chunk_limits = machine.chunk_limits(stream)
        self._begin(stream, lambda bench: bench.guarded(lambda: answers_v1(bench, stream, body, chunk_limits)), body)

    def _keep(self, stream: int) -> Keeping:
        keeping = self._keeping.get(stream)
        if keeping is None:
            keeping = self._keeping[stream] = Keeping(self._share)
            self._hub.stats.requests["ObjectsPut"] += 1
            self._begin(
                stream, lambda bench: keeping.steps(bench, stream, lambda *credit: self._grant(stream, *credit)), None
            )
        return keeping

    def _begin(self, stream: int, begin: Callable[[Bench], Any], body: Any) -> None:
        job: _Job = Job(
            self._lane,
            begin,
            lambda step: self._on_step(stream, step),
            lambda error: self._on_end(stream, body, error),
            is_long=body is not None and is_long(body),
            is_search=body is not None and is_search(body),
        )
        self._jobs[stream] = job
        self._hub.stats.requests_open += 1
        self._hub.workers.submit(job)

    def _grant(self, stream: int, frames: int, size_bytes: int) -> None:
        if self._machine is not None:
            self._machine.grant(stream, frames, size_bytes)

    # Jobs

    def _on_step(self, stream: int, step: Step) -> bool:
        machine = self._machine
        if machine is None:
            return False
        if not machine.is_stream_open(stream):
            self._drop(stream)
            return False
        try:
            step.send(machine)
        except WireError as error:
            self._hub.log(error)
            self._fail(stream, "too_large")
            return False
        self._hub.stats.chunks += step.chunks
        self._hub.stats.objects_out += step.objects
        if step.is_work:
            return True  # a search frees its place before its answer is read, because others wait
        self._hub.workers.searched(self._jobs.get(stream))
        self._flush()
        return self._may_go_on(stream)

    def _may_go_on(self, stream: int) -> bool:
        machine = self._machine
        if machine is None or self._is_full:
            return False
        keeping = self._keeping.get(stream)
        if keeping is not None:
            return keeping.has_work
        return machine.ready(stream) or not machine.is_stream_open(stream)

    def _resume(self, stream: int) -> None:
        job = self._jobs.get(stream)
        if job is not None and job.is_waiting and self._may_go_on(stream):
            self._hub.workers.resume(job)

    def _on_end(self, stream: int, body: Any, error: BaseException | None) -> None:
        self._forget(stream)
        if isinstance(body, PushContext | V1Push) or (isinstance(body, RefsRequest) and body.update is not None):
            self._hub.refs_changed()
        machine = self._machine
        if machine is None:
            return
        if error is not None:
            code = told_code(error)
            if code in {"internal", "damaged"}:
                self._hub.log(error)
            self._fail(stream, code, field_of(error))
        self._flush()

    def _fail(self, stream: int, code: Any, field: str = "") -> None:
        machine = self._machine
        self._drop(stream)
        if machine is not None and machine.is_stream_open(stream):
            self._hub.stats.errors[code] += 1
            machine.send_error(stream, code, field=field)
            self._flush()

    def _drop(self, stream: int) -> None:
        job = self._jobs.get(stream)
        if job is not None:
            self._hub.workers.end(job)
        self._forget(stream)
        watching = self._watching.pop(stream, None)
        if watching is not None:
            watching[0]()

    def _forget(self, stream: int) -> None:
        if self._jobs.pop(stream, None) is not None:
            self._hub.stats.requests_open -= 1
        self._keeping.pop(stream, None)

    # Refs that move

    def _changed(self, stream: int) -> None:
        self._tell_changes(stream)
        self._flush()

    def _tell_changes(self, stream: int) -> None:
        """Send the refs that moved since the last message, at first all. Changes are merged while they cannot be sent."""
        watching, machine = self._watching.get(stream), self._machine
        if watching is None or machine is None or self._is_full or not machine.ready(stream):
            return
        unwatch, told, prefix = watching
        now = self._hub.refs()
        moved, gone = changes(told or {}, now, prefix)
        if not moved and not gone and told is not None:
            return
        most = refs_per_frame(machine.limits)
        moved, gone = moved[:most], gone[:most]
        after = dict(told or {}) | dict(moved)
        for name in gone:
            after.pop(name, None)
        self._watching[stream] = (unwatch, after, prefix)
        machine.send_changed(stream, moved, gone)
        if len(moved) == most or len(gone) == most:
            self._loop.call_soon(self._changed, stream)

    # The end

    def shut_down(self) -> None:
        """Accept no more requests; close when open ones have ended."""
        self._is_stopping = True
        machine = self._machine
        if machine is None:
            return
        machine.shut_down()
        for stream in list(self._watching):
            self._fail(stream, "shutting_down")
        if not machine.is_open:
            machine.close()
        self._flush()

    def tell_and_close(self) -> None:
        """Report the end to all open streams, and close."""
        machine = self._machine
        if machine is not None:
            for _ in machine.abort_streams():
                self._hub.stats.errors["shutting_down"] += 1
            machine.close()
            self._flush()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end()


def _most(body: Any) -> ChunkLimits:
    """Return the limits of a chunk. The limits of the request win, so that equal requests give equal chunks everywhere."""
    if not isinstance(body, StreamRequest):
        return DEFAULT_LIMITS
    return ChunkLimits(
        ATOMS_MAX if body.atoms else DEFAULT_LIMITS.atoms,
        body.tokens or DEFAULT_LIMITS.tokens,
        FRAME_BYTES_MAX if body.size_bytes else DEFAULT_LIMITS.size_bytes,
    )
