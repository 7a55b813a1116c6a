"""How much a context server takes in that no ref reaches yet: what is received is kept before anything names it, so it has to have an end.

Each connection has a *share*, and all that were received since the server began count together. What a ref comes to reach through a
push, or a move of a ref, no longer counts, whichever connection brought it. What a connection left behind goes on counting: it lies on
the disk until a collection (``periplus context gc``) takes it, and the next server begins to count anew.
"""

from __future__ import annotations

__all__ = ["OBJECT_OVERHEAD_BYTES", "Share", "Unreferenced"]

from collections.abc import Callable, Iterator
from hashlib import sha256
from threading import Lock
from typing import Final

from periplus.base.errors import PeriplusError
from periplus.context.records.record import children_of
from periplus.server.refusal import Refused

OBJECT_OVERHEAD_BYTES: Final = 4_096  # what a small file takes of a disk, about
OBJECTS_PER_REST: Final = 256


class Share:
    """What one connection has brought that no ref reaches."""

    __slots__ = ("used_bytes",)

    def __init__(self) -> None:
        self.used_bytes = 0


class Unreferenced:
    """Objects received and not reached by a ref, with whose share they count in; for the threads of all workers."""

    def __init__(self, share_bytes_max: int, bytes_max: int) -> None:
        self.share_bytes_max = share_bytes_max
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self._held: dict[bytes, tuple[int, Share]] = {}
        self._mutex = Lock()

    @property
    def objects(self) -> int:
        return len(self._held)

    def take(self, share: Share, data: bytes, has: Callable[[bytes], bool]) -> None:
        """Count an object before it is kept, unless it is here. Raises Refused where that is too much; nothing is counted then."""
        digest = sha256(data).digest()
        if has(digest):
            return
        size = len(data) + OBJECT_OVERHEAD_BYTES
        with self._mutex:
            if digest in self._held:
                return
            if share.used_bytes + size > self.share_bytes_max or self.used_bytes + size > self.bytes_max:
                raise Refused("too_large", "more was received than may wait for a ref", field="unreferenced")
            self._held[digest] = (size, share)
            share.used_bytes += size
            self.used_bytes += size

    def reached(self, head: bytes, get: Callable[[bytes], bytes]) -> Iterator[None]:
        """A ref reaches ``head``: what counted of it and below it counts no more. A rest every OBJECTS_PER_REST objects.

        What was here before is not gone into: below that nothing new can be that was not asked for by itself.
        """
        waiting = [head]
        looked = 0
        while waiting:
            digest = waiting.pop()
            if digest not in self._held:
                continue
            looked += 1
            if looked % OBJECTS_PER_REST == 0:
                yield
            try:
                data = get(digest)
            except PeriplusError:
                continue  # it is not here any more, or is damaged: it goes on counting
            with self._mutex:
                found = self._held.pop(digest, None)
                if found is not None:
                    found[1].used_bytes -= found[0]
                    self.used_bytes -= found[0]
            try:
                waiting += children_of(data)
            except PeriplusError:
                continue  # the text of an atom
