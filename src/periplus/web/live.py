"""Changes of the journal for open pages, as server-sent events (HTML Living Standard, section 9.2).

One task compares the signature of the journal's files twice a second while somebody watches; a run in this process reports its
changes with ``wake``. An event has no content: the page asks again for the parts of itself that are live.
"""

from __future__ import annotations

__all__ = ["Live"]

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Final

WATCHERS_MAX: Final = 64
_LOOK_S: Final = 0.5
_PAUSE_S: Final = 0.3  # between two events
_HEARTBEAT_S: Final = 15.0


class Live:
    """``signature`` is called in a thread; another value means that something changed."""

    def __init__(self, signature: Callable[[], Hashable]) -> None:
        self._signature = signature
        self._version = 0
        self._watchers = 0
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    @property
    def is_full(self) -> bool:
        return self._watchers >= WATCHERS_MAX

    def wake(self) -> None:
        """Report a change, from any thread."""
        if self._loop is not None and not self.is_closed:
            try:
                self._loop.call_soon_threadsafe(self._move)
            except RuntimeError:
                pass  # the server has ended

    def close(self) -> None:
        """End all streams. Called in the loop."""
        self.is_closed = True
        self._move()

    def mark(self) -> str:
        """Return a mark of the journal as it is now, for a page that is about to be made. Called in any thread."""
        return hashlib.sha256(repr((self._version, self._signature())).encode()).hexdigest()[:16]

    async def events(self, mark: str = "") -> AsyncIterator[bytes]:
        """Yield events for one reader until the server ends. A reader whose page has another ``mark`` than the journal now gets one at
        once: it changed before the stream began, or while the page was in the background.
        """
        self._loop = asyncio.get_running_loop()
        self._watchers += 1
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look())
            told = self._version
            yield b"retry: 1000\nevent: watching\ndata: \n\n"
            if mark and mark != await asyncio.to_thread(self.mark):
                yield b"event: changed\ndata: %d\n\n" % told
            while not self.is_closed:
                changed = self._changed
                if told != self._version:
                    told = self._version
                    yield b"event: changed\ndata: %d\n\n" % told
                    await asyncio.sleep(_PAUSE_S)
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), _HEARTBEAT_S)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._watchers -= 1

    def _move(self) -> None:
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def _look(self) -> None:
        last = await asyncio.to_thread(self._signature)
        while self._watchers and not self.is_closed:
            await asyncio.sleep(_LOOK_S)
            now = await asyncio.to_thread(self._signature)
            if now != last:
                last = now
                self._move()
