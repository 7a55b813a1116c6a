"""A local store as one side of a transfer (``transfer.Peer``)."""

from __future__ import annotations

__all__ = ["LocalPeer", "objects_below"]

from collections.abc import Generator, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from periplus.base.encoding.container import KIND_CONTEXT, kind_of
from periplus.base.errors import FormatError, NotFoundError, PeriplusError
from periplus.context.model import ContextHeader
from periplus.context.records import record
from periplus.context.records.record import GetObject, RecordView
from periplus.context.remotes.transfer import WALKED_PER_REST, Listed, between_sliced
from periplus.context.stores.library import ContextLibrary
from periplus.context.time_slices import run_to_end

LEVELS_MAX: Final = 3  # an index, its pages, their contents
WHOLE_MAX: Final = 1_000_000  # number of contexts remembered as whole


def objects_below(view: RecordView, get: GetObject) -> Iterator[Listed]:
    """Yield the objects of a context below its record, without its ancestors, each after the objects that it names.

    Raises FormatError for an object that no context has, and what ``get`` raises.
    """
    for part in view.parts():
        yield from _tree(part, get, LEVELS_MAX)


def _tree(digest: bytes, get: GetObject, levels: int) -> Iterator[Listed]:
    data = get(digest)
    if kind_of(data) == KIND_CONTEXT or not levels:
        raise FormatError(f"object {digest.hex()} cannot be a part of a context")
    for child in record.children_of(data):
        yield from _tree(child, get, levels - 1)
    yield Listed(digest, len(data))


class LocalPeer:
    """``library`` as a side of a transfer, for one user at a time."""

    def __init__(self, library: ContextLibrary) -> None:
        self._library = library
        self._whole: set[bytes] = set()

    def refs(self) -> dict[str, bytes]:
        return self._library.refs()

    def header(self, digest: bytes) -> ContextHeader:
        return self._library.header(digest)

    def listing(self, head: bytes, known: Sequence[bytes]) -> Iterator[Listed]:
        return (row for row in self.listing_steps(head, known) if row is not None)

    def listing_steps(self, head: bytes, known: Sequence[bytes]) -> Iterator[Listed | None]:
        """Yield the listing, with None as a rest while a long history is walked before the first object is known."""
        get = self._library.source.get
        found = yield from between_sliced(self._library.header, head, known)
        for digest in found:
            data = get(digest)
            yield from objects_below(record.read_header(data), get)
            yield Listed(digest, len(data))

    def lacking(self, digests: Sequence[bytes]) -> list[bytes]:
        return run_to_end(self.lacking_steps(digests))

    def lacking_steps(self, digests: Sequence[bytes]) -> Generator[None, None, list[bytes]]:
        """Return the lacking objects, with rests while long histories are walked."""
        has = self._library.source.has
        refs = set(self._library.refs().values())
        lacking: list[bytes] = []
        broken: set[bytes] = set()
        for digest in digests:
            if not has(digest) or not (yield from self._is_sound(digest, refs, broken)):
                lacking.append(digest)  # noqa: PERF401 - a comprehension cannot yield
        return lacking

    def objects(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        return self._library.objects(digests)

    def keep(self, objects: Iterable[tuple[bytes, bytes]]) -> int:
        source = self._library.source
        count = 0
        try:
            for digest, data in objects:
                if sha256(data).digest() != digest:
                    raise FormatError(f"object {digest.hex()} came with other bytes than its own")
                if not record.is_of_contexts(data):
                    raise FormatError(
                        f"object {digest.hex()} is none of contexts"
                    )  # garbage collection would never remove it
                source.take(data)
                count += 1
        finally:
            source.settle()  # also after an interrupted transfer, whose objects are kept
        return count

    def adopt(self, digest: bytes) -> None:
        self._library.admit(digest)

    def _is_sound(self, digest: bytes, refs: set[bytes], broken: set[bytes]) -> Generator[None, None, bool]:
        """Return whether an object is usable here: a context only with all its objects."""
        try:
            data = self._library.source.get(digest)
        except PeriplusError:
            return False  # damaged, or just removed: it is transferred again
        return kind_of(data) != KIND_CONTEXT or (yield from self._is_whole(digest, refs, broken))

    def _is_whole(self, head: bytes, refs: set[bytes], broken: set[bytes]) -> Generator[None, None, bool]:
        """Return whether a context is whole. Whole contexts are remembered, so that a long history is walked once in
        all; ``broken`` collects the contexts above a hole, for one question.
        """
        get = self._library.source.get
        waiting = [(head, False)]
        walked = 0
        while waiting:
            digest, is_seen = waiting.pop()
            if digest in self._whole or digest in refs:
                continue
            try:
                if digest in broken:
                    raise NotFoundError(f"context {digest.hex()} is not here whole")
                view = record.read_header(get(digest))
                if is_seen:
                    for _ in objects_below(view, get):
                        walked += 1  # reading them is enough
                        if walked % WALKED_PER_REST == 0:
                            yield
            except PeriplusError:
                broken |= {digest, *(above for above, is_above in waiting if is_above)}
                return False
            walked += 1
            if walked % WALKED_PER_REST == 0:
                yield
            if not is_seen:
                waiting.append((digest, True))
                waiting += [(parent, False) for parent in view.contexts()]
                continue
            if len(self._whole) >= WHOLE_MAX:
                self._whole.clear()
            self._whole.add(digest)
        return True
