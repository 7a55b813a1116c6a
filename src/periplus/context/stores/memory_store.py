"""A context store in memory: for tests, for relaying, and for programs without a folder."""

from __future__ import annotations

__all__ = ["MemoryObjects", "MemoryStore"]

from hashlib import sha256

from periplus.base.errors import NotFoundError
from periplus.context.stores.library import ContextLibrary
from periplus.context.stores.refs import MemoryRefs


class MemoryObjects:
    """Objects in a dict."""

    def __init__(self) -> None:
        self._objects: dict[bytes, bytes] = {}

    def get(self, digest: bytes) -> bytes:
        try:
            return self._objects[digest]
        except KeyError:
            raise NotFoundError(f"no object {digest.hex()}") from None

    def has(self, digest: bytes) -> bool:
        return digest in self._objects

    def put(self, data: bytes) -> bytes:
        digest = sha256(data).digest()
        self._objects[digest] = bytes(data)
        return digest

    def take(self, data: bytes) -> bytes:
        return self.put(data)

    def settle(self) -> None:
        """Do nothing: memory is not durable."""


class MemoryStore(ContextLibrary):
    """Contexts, refs and everything derived from them, in memory."""

    def __init__(self) -> None:
        super().__init__(MemoryObjects(), MemoryRefs())
