"""The one protocol of context stores: in memory, in a project's store, and behind a wire.

What holds for each is one suite of tests. Everything in ``context`` that needs more than one context (log, diff, merge, blame,
bisect, selection) is written against this protocol.
"""

from __future__ import annotations

__all__ = ["ANY", "AnyTarget", "ChunkStream", "Expected", "ObjectSource", "Store"]

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias

from periplus.context.model import DEFAULT_LIMITS, Chunk, ChunkLimits, Context, ContextHeader, Expansion, StreamEnd


class AnyTarget(Enum):
    """Says that a ref may stand anywhere before it is set."""

    ANY = "any"


ANY: Final = AnyTarget.ANY
Expected: TypeAlias = bytes | None | Literal[AnyTarget.ANY]


class ObjectSource(Protocol):
    """Immutable bytes by their SHA-256."""

    def get(self, digest: bytes) -> bytes:
        """The object, verified. Raises NotFoundError or DamageError."""
        ...

    def has(self, digest: bytes) -> bool: ...

    def put(self, data: bytes) -> bytes: ...


class ChunkStream(Iterator[Chunk], Protocol):
    """The chunks of a stream; equal questions get equal chunks. ``close`` frees whatever it holds, at any time and repeatedly."""

    @property
    def end(self) -> StreamEnd | None:
        """What the whole came to; None until the last chunk is out."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """Contexts and the refs that name them."""

    def commit(self, context: Context) -> bytes:
        """Keep ``context`` and give its digest; the same context twice is one. Raises UsageError naming the field."""
        ...

    def context(self, digest: bytes) -> Context:
        """The delta, whole and in canonical form. Raises NotFoundError, DamageError."""
        ...

    def header(self, digest: bytes) -> ContextHeader:
        """Raises NotFoundError, DamageError."""
        ...

    def has(self, digest: bytes) -> bool:
        """Whether the context and all that it stands on are here."""
        ...

    def expand(self, digest: bytes) -> Expansion:
        """All that the context stands for, in order."""
        ...

    def stream(
        self, digest: bytes, *, limits: ChunkLimits = DEFAULT_LIMITS, resume: int = 0, prove: bool = False
    ) -> ChunkStream:
        """The expansion in chunks, best first, read as it is asked for. ``resume`` is the first chunk that is wanted.

        Raises UsageError for limits below 1 and where the stream has no chunk ``resume``, NotFoundError, DamageError.
        """
        ...

    def refs(self) -> dict[str, bytes]:
        """All refs, by name ascending."""
        ...

    def set_ref(self, name: str, target: bytes | None, *, expected: Expected = ANY, force: bool = False) -> None:
        """Let ``name`` stand for ``target``; None ends it. ``expected`` is where it has to stand now, None for nowhere.

        Raises ConflictError where it stands elsewhere, and where ``target`` does not descend from where it stands, unless
        ``force``; NotFoundError where ``target`` is not here.
        """
        ...

    def objects(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """The bytes of objects, verified, in the order asked for, for exchange. Raises NotFoundError."""
        ...

    def missing(self, digests: Iterable[bytes]) -> list[bytes]:
        """Those of ``digests`` that are not here."""
        ...

    def close(self) -> None: ...
