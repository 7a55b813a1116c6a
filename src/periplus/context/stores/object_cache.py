"""A cache of objects in memory, which spares repeated reads the unpacking and the hashing.

An object is cached at its second read: a single read of a context, as in most commands, caches nothing. When the cache
is full a random object is evicted, not the least recently used: a stream reads from front to end, and for a context
larger than the cache LRU would always evict the object needed next. The digests, which are evenly distributed, supply
the randomness. An object named by its digest cannot become stale.
"""

from __future__ import annotations

__all__ = ["HELD_BYTES_MAX", "ObjectCache"]

from collections.abc import Callable
from threading import Lock
from typing import Final

HELD_BYTES_MAX: Final = 48 << 20
_MET_MAX: Final = 65_536


class ObjectCache:
    """A cache of the objects of ``source``, of at most ``bytes_max`` bytes; for several threads."""

    def __init__(self, source: Callable[[bytes], bytes], bytes_max: int = HELD_BYTES_MAX) -> None:
        self._source = source
        self._bytes_max = bytes_max
        self._held: dict[bytes, bytes] = {}
        self._order: list[bytes] = []
        self._size = 0
        self._met: set[bytes] = set()
        self._mutex = Lock()

    def get(self, digest: bytes) -> bytes:
        found = self._held.get(digest)
        if found is not None:
            return found
        found = self._source(digest)
        with self._mutex:
            if digest in self._met:
                self._hold(digest, found)
            else:
                if len(self._met) >= _MET_MAX:
                    self._met.clear()
                self._met.add(digest)
        return found

    def clear(self) -> None:
        with self._mutex:
            self._held.clear()
            self._order.clear()
            self._met.clear()
            self._size = 0

    def _hold(self, digest: bytes, data: bytes) -> None:
        if digest in self._held or len(data) > self._bytes_max // 8:
            return
        self._held[digest] = data
        self._order.append(digest)
        self._size += len(data)
        chance = int.from_bytes(digest[-8:], "big")
        while self._size > self._bytes_max:
            place = chance % len(self._order)
            gone, self._order[place] = self._order[place], self._order[-1]
            self._order.pop()
            self._size -= len(self._held.pop(gone))
