"""The protocol of context stores: in memory, in a project's store, and behind a wire.

One suite of tests holds for all of them. Everything in ``context`` that needs more than one context (log, diff, merge,
blame, bisect, selection) is written against this protocol.
"""

from __future__ import annotations

__all__ = ["ANY", "AnyTarget", "ChunkStream", "Expected", "ObjectSource", "Store"]

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias

from periplus.context.model import DEFAULT_LIMITS, Chunk, ChunkLimits, Context, ContextHeader, Expansion, StreamEnd


class AnyTarget(Enum):
    """The marker for a ref that may have any target before it is set."""

    ANY = "any"


ANY: Final = AnyTarget.ANY
Expected: TypeAlias = bytes | None | Literal[AnyTarget.ANY]


class ObjectSource(Protocol):
    """Immutable bytes by their SHA-256."""

    def get(self, digest: bytes) -> bytes:
        """Return the verified object. Raises NotFoundError or DamageError."""
        ...

    def has(self, digest: bytes) -> bool: ...

    def put(self, data: bytes) -> bytes: ...


class ChunkStream(Iterator[Chunk], Protocol):
    """The chunks of a stream; equal requests give equal chunks. ``close`` frees its resources, at any time and
    repeatedly.
    """

    @property
    def end(self) -> StreamEnd | None:
        """The totals of the stream; None until the last chunk is out."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """Contexts and the refs that name them."""

    def commit(self, context: Context) -> bytes:
        """Store ``context`` and return its digest; an equal context is stored once. Raises UsageError naming the field."""
        ...

    def context(self, digest: bytes) -> Context:
        """Return the whole delta in canonical form. Raises NotFoundError, DamageError."""
        ...

    def header(self, digest: bytes) -> ContextHeader:
        """Return the header. Raises NotFoundError, DamageError."""
        ...

    def has(self, digest: bytes) -> bool:
        """Return whether the context and all its ancestors are here."""
        ...

    def expand(self, digest: bytes) -> Expansion:
        """Return the whole expansion in order."""
        ...

    def stream(
        self, digest: bytes, *, limits: ChunkLimits = DEFAULT_LIMITS, resume: int = 0, prove: bool = False
    ) -> ChunkStream:
        """Return the expansion in chunks, best first, read on demand. ``resume`` is the first chunk to return.

        Raises UsageError for limits below 1 and if the stream has no chunk ``resume``, NotFoundError, DamageError.
        """
        ...

    def refs(self) -> dict[str, bytes]:
        """Return all refs, sorted by name."""
        ...

    def set_ref(self, name: str, target: bytes | None, *, expected: Expected = ANY, force: bool = False) -> None:
        """Set ``name`` to ``target``; None removes it. ``expected`` is its present target, None if it must not exist.

        Raises ConflictError if the ref has another target, or if ``target`` does not descend from it, unless ``force``;
        NotFoundError if ``target`` is not here.
        """
        ...

    def objects(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the verified bytes of objects, in the order asked for, for exchange. Raises NotFoundError."""
        ...

    def missing(self, digests: Iterable[bytes]) -> list[bytes]:
        """Return those of ``digests`` that are not here."""
        ...

    def close(self) -> None: ...
