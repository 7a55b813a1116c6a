"""Connections of the server, bounded: many, silent and slow ones cost a bounded part of it.

A connection has REQUEST_S for a whole request, and a reader has WRITE_S to take what was sent. Beyond CONNECTIONS_MAX the oldest
connection without a request gives way, so that silent ones cannot keep a browser out.
"""

from __future__ import annotations

__all__ = ["CONNECTIONS_MAX", "bounded_protocol"]

import asyncio
from typing import Any, Final

CONNECTIONS_MAX: Final = 200
REQUEST_S: Final = 10.0
WRITE_S: Final = 20.0
HEAD_BYTES_MAX: Final = 16_384


def bounded_protocol(request_s: float = REQUEST_S, write_s: float = WRITE_S) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol of HTTP/1.1 with limits."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    silent: dict[Any, None] = {}  # connections without a whole request, the oldest first

    class BoundedProtocol(H11Protocol):  # type: ignore[misc]  # untyped where the extra is missing
        deadline: asyncio.TimerHandle | None = None
        stalled: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # so that pause_writing tells of every unread byte
            if len(self.connections) > CONNECTIONS_MAX:
                oldest = next(iter(silent), self)
                oldest.transport.abort()
                silent.pop(oldest, None)
                if oldest is self:
                    return
            self._await_request()

        def connection_lost(self, exc: Exception | None) -> None:
            self._is_whole()
            self._stop(self.stalled)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.deadline is None and self.conn.their_state is h11.IDLE:
                self._await_request()
            super().data_received(data)
            if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR):
                self._is_whole()

        def pause_writing(self) -> None:
            self.flow.pause_writing()
            if self.stalled is None:
                self.stalled = self.loop.call_later(write_s, self.transport.abort)

        def resume_writing(self) -> None:
            self._stop(self.stalled)
            self.stalled = None
            self.flow.resume_writing()

        def _await_request(self) -> None:
            silent[self] = None
            self.deadline = self.loop.call_later(request_s, self.transport.abort)

        def _is_whole(self) -> None:
            silent.pop(self, None)
            self._stop(self.deadline)
            self.deadline = None

        @staticmethod
        def _stop(timer: asyncio.TimerHandle | None) -> None:
            if timer is not None:
                timer.cancel()

    return BoundedProtocol
