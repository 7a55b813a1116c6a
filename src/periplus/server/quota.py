"""Limits on received objects that no ref reaches yet. Objects are stored before anything refers to them, so their amount is
bounded.

Each connection has a *share*, and all objects since the start of the server count together. Objects that a push or a move of a
ref makes reachable no longer count, whichever connection sent them. Objects left behind by a connection keep counting: they are
on disk until a collection (``periplus context gc``) removes them, and the next server starts at 0.
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

OBJECT_OVERHEAD_BYTES: Final = 4_096  # about the disk space of a small file
OBJECTS_PER_REST: Final = 256


class Share:
    """Objects that one connection sent and no ref reaches."""

    __slots__ = ("used_bytes",)

    def __init__(self) -> None:
        self.used_bytes = 0


class Unreferenced:
    """Received objects that no ref reaches, and the share of each; shared by the threads of all workers."""

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
        """Count an object before it is stored, unless it is here already. Raises Refused over the limit, without counting."""
        digest = sha256(data).digest()
        if has(digest):
            return
        size = len(data) + OBJECT_OVERHEAD_BYTES
        with self._mutex:
            if digest in self._held:
                return
            if share.used_bytes + size > self.share_bytes_max or self.used_bytes + size > self.bytes_max:
                raise Refused(
                    "too_large", "the limit of received objects without a ref is reached", field="unreferenced"
                )
            self._held[digest] = (size, share)
            share.used_bytes += size
            self.used_bytes += size

    def reached(self, head: bytes, get: Callable[[bytes], bytes]) -> Iterator[None]:
        """Stop counting objects that the ref to ``head`` reaches. Yields a rest every OBJECTS_PER_REST objects.

        Older objects are not followed: everything new below them was requested separately.
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
                continue  # missing or damaged: it keeps counting
            with self._mutex:
                found = self._held.pop(digest, None)
                if found is not None:
                    found[1].used_bytes -= found[0]
                    self.used_bytes -= found[0]
            try:
                waiting += children_of(data)
            except PeriplusError:
                continue  # an atom's text
