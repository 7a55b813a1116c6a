"""One record the short way: what ``mutate`` does as long as nothing unusual happens, with the native build.

``_append.c`` takes the lock, finds all as it was left, writes the line and has it synced; what it meets that is not
usual it leaves to the long way, before anything is changed. Both ways write the same bytes, use the same locks and the
same flush map, so that processes with and without the native build write one journal together.

What was written is stepped over as what others write: taken in when somebody asks for it.
"""

from __future__ import annotations

__all__ = ["QuickWay", "quick_way"]

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from periplus.base.clock import Clock, SystemClock
from periplus.base.files import Files
from periplus.base.locks import Lock, signature
from periplus.journal.lineage import Position
from periplus.journal.native import APPEND
from periplus.journal.overlay import Added
from periplus.journal.transaction import Draft, Receipt, Writer

if TYPE_CHECKING:
    import weakref

    from periplus.journal.flush import FlushMap
    from periplus.journal.writing import SegmentWriter

_SIGNED_MAX: Final = 150  # bytes
Random: TypeAlias = Callable[[int], bytes]
Made: TypeAlias = tuple[Added, Position, Receipt]  # of one record that was written


class QuickWay:
    """The short way to the end of one segment, for as long as the folders list the names that were validated."""

    def __init__(self, native: ModuleType, lock: Lock, flush: FlushMap, writer: SegmentWriter, bytes_max: int) -> None:
        """Raises OSError, ValueError where it cannot be had."""
        found = writer.validated
        if found is None:
            raise ValueError("nothing is validated")
        self.token = found.token
        self.segment = found.segment
        self.inode = found.place[1]
        self.lineage = writer.lineage
        who, command = (text[:_SIGNED_MAX] for text in signature())
        self.native = native.Appender(
            lock.path, lock.place, flush.path, flush.place, found.fd, found.segment, found.path, found.place,
            found.mark_fd, found.folders, writer.lineage, bytes_max, who, command, (Added, Position, Receipt),
        )  # fmt: skip
        self.has_room = flush.has_room  # for the map that this writes to as well
        self._bytes_max = bytes_max
        self._heads: tuple[Writer | None, bytes, bytes] = (None, b"", b"")
        _made().add(self)

    def close(self) -> None:
        self.native.close()

    def append(self, draft: Draft, writer: Writer, key: str, random: Random, clock: Clock) -> Made | int | None:
        """Under the lock: write ``draft``. None where that takes the long way, a number of bytes after a short write.

        Raises OSError.
        """
        if not draft.version:
            return None
        known, head, session = self._heads
        if writer is not known:
            name, writer_id, named = (msgspec.json.encode(text) for text in writer[:3])
            head = b'"writer":%b,"writer_id":%b,"pid":%d' % (name, writer_id, writer.pid or os.getpid())
            session = b',"session":%b' % named if writer.session else b""
            self._heads = (writer, head, session)
        salt, now_ms = None, 0
        if random is not os.urandom or type(clock) is not SystemClock:  # else both are had where the line is made
            now_ms, key, salt = clock.now_ms(), key or random(10).hex(), random(16)
        made: Made | int | None = self.native.append(head, session, draft, salt, key, now_ms)
        return made


def quick_way(lock: Lock, writer: SegmentWriter, files: Files, bytes_max: int) -> QuickWay | None:
    """The short way for what ``writer`` has validated; None where there is no native build, or it cannot be had."""
    if APPEND is None or type(files) is not Files:
        return None
    try:
        return QuickWay(APPEND, lock, writer.bell, writer, bytes_max)
    except (OSError, ValueError, MemoryError):
        return None


@functools.cache
def _made() -> weakref.WeakSet[QuickWay]:
    import weakref

    os.register_at_fork(after_in_child=_close_in_child)
    return weakref.WeakSet()


def _close_in_child() -> None:
    """A forked child must not keep the parent's locks."""
    for one in _made():
        one.close()
