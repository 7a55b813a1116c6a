"""Connections of the server, bounded: many, silent and slow ones cost a bounded part of it.

A connection has REQUEST_S for a whole request, and a reader has WRITE_S to take what was sent. Beyond CONNECTIONS_MAX the connection
that has waited for its peer the longest gives way to the next one, or else the oldest: neither silent nor busy ones can keep a browser
out, and a browser whose stream of events ends opens another one.
"""

from __future__ import annotations

__all__ = ["CONNECTIONS_MAX", "HEAD_BYTES_MAX", "REQUEST_S", "WRITE_S", "bounded_protocol"]

import asyncio
import contextlib
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

CONNECTIONS_MAX: Final = 200
REQUEST_S: Final = 10.0
WRITE_S: Final = 20.0
HEAD_BYTES_MAX: Final = 16_384
_NO_LINGER: Final = struct.pack("ii", 1, 0)


def bounded_protocol(
    headers: Sequence[tuple[bytes, bytes]] = (), request_s: float = REQUEST_S, write_s: float = WRITE_S
) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol of HTTP/1.1 with limits. ``headers`` are those of the answer to what is no HTTP."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    limits = {
        "headers_of_refusal": tuple(headers), "request_s": request_s, "write_s": write_s, "opened": {}, "waiting": {},
    }  # fmt: skip
    return type("BoundedProtocol", (_Bounds, H11Protocol), limits)


class _Bounds:
    """What bounds a connection: the methods of asyncio's protocol and of uvicorn's that see it begin, wait and end."""

    headers_of_refusal: tuple[tuple[bytes, bytes], ...]
    request_s: float
    write_s: float
    opened: dict[Any, None]  # all connections, the oldest first
    waiting: dict[Any, None]  # those of them that wait for their peer, the longest first
    deadline: asyncio.TimerHandle | None = None
    stalled: asyncio.TimerHandle | None = None
    conn: Any  # these are uvicorn's
    transport: Any
    flow: Any
    loop: asyncio.AbstractEventLoop

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[misc]  # uvicorn's, as all below
        transport.set_write_buffer_limits(high=0)  # so that pause_writing tells of every unread byte
        if len(self.opened) >= CONNECTIONS_MAX:
            oldest = next(iter(self.waiting or self.opened))
            oldest.drop()
            oldest.forget()
        self.opened[self] = None
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self.stalled)
        _stop(self.deadline)
        self.forget()
        super().connection_lost(exc)  # type: ignore[misc]

    def forget(self) -> None:
        """Count the connection no longer: it has ended, or will in a moment."""
        self.opened.pop(self, None)
        self.waiting.pop(self, None)

    def drop(self) -> None:
        """End the connection at once. The system then keeps nothing of what its peer did not read, which would be megabytes each."""
        with contextlib.suppress(OSError):
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def handle_events(self) -> None:
        """Take what was read, also of a request that came behind another."""
        super().handle_events()  # type: ignore[misc]
        self._watch()

    def pause_writing(self) -> None:
        self.flow.pause_writing()
        if self.stalled is None:
            self.stalled = self.loop.call_later(self.write_s, self.drop)
        self._watch()

    def resume_writing(self) -> None:
        _stop(self.stalled)
        self.stalled = None
        self._watch()
        self.flow.resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP with the headers of every other answer."""
        import h11

        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # an answer is under way: nothing can be said in the middle of it
            return
        body = msg.encode("ascii", "replace")
        head = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *self.headers_of_refusal,
        ]
        for event in (
            h11.Response(status_code=400, headers=head, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _watch(self) -> None:
        """Note if something is awaited of the peer: the rest of a request, the next one, or that it reads."""
        import h11

        state = self.conn.their_state
        is_whole = self.transport.is_closing() or state not in (h11.IDLE, h11.SEND_BODY)
        is_idle = not is_whole and state is h11.IDLE and not self.conn.trailing_data[0]  # uvicorn's own timer ends it
        if is_whole or is_idle:
            _stop(self.deadline)
            self.deadline = None
        elif self.deadline is None and self in self.opened:
            self._await_request()
        if is_whole and self.stalled is None:
            self.waiting.pop(self, None)
        elif self in self.opened:
            self.waiting.setdefault(self)

    def _await_request(self) -> None:
        self.waiting[self] = None
        self.deadline = self.loop.call_later(self.request_s, self.drop)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
