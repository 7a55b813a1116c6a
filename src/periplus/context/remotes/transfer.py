"""Transfers between two stores: push, pull and clone are one transfer, seen from either side.

Both sides are a ``Peer``: a local store, or one behind a wire. The source lists the objects of the contexts that the
target lacks, bases first, so that any prefix of the list is useful; the target names those that it lacks; these are
sent, each checked against its digest and stored on arrival. When all have arrived the target takes the context in: only
then does it count as whole, and only then may a ref move to it. An interrupted transfer only has to be repeated:
nothing is sent twice.

All reading and writing goes through the two peers. The list is only a hint: whatever it says, the target stores no
wrong bytes and takes in no context that is not whole and valid.
"""

from __future__ import annotations

__all__ = [
    "ASKED_MAX",
    "LISTED_MAX",
    "WALKED_PER_REST",
    "Listed",
    "Peer",
    "Progress",
    "Transferred",
    "between",
    "between_sliced",
    "clone",
    "known_below",
    "transfer",
]

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from periplus.base.errors import DamageError, FormatError, NotFoundError, RefusedError
from periplus.context.model import ContextHeader
from periplus.context.time_slices import run_to_end

ASKED_MAX: Final = 4_096  # digests in one question
LISTED_MAX: Final = 16_000_000
WALKED_PER_REST: Final = 1_024
_FIRST_ROUND: Final = 16


class Listed(NamedTuple):
    """An object to transfer, and its size (0 if the source does not state it)."""

    digest: bytes
    size_bytes: int


class Peer(Protocol):
    """One side of a transfer."""

    def refs(self) -> dict[str, bytes]: ...

    def header(self, digest: bytes) -> ContextHeader:
        """Return the header of a context. Raises NotFoundError, DamageError."""
        ...

    def listing(self, head: bytes, known: Sequence[bytes]) -> Iterator[Listed]:
        """Yield the objects of ``head`` and of its ancestors, without those of ``known`` contexts (which are here) and
        theirs.

        Ancestors come first. Raises NotFoundError.
        """
        ...

    def lacking(self, digests: Sequence[bytes]) -> list[bytes]:
        """Return the digests that are not here, or not here whole for contexts, in the order asked; at most
        ``ASKED_MAX``.
        """
        ...

    def objects(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the verified bytes of objects, in the order asked for. Raises NotFoundError."""
        ...

    def keep(self, objects: Iterable[tuple[bytes, bytes]]) -> int:
        """Store objects as they arrive, each checked against its digest; return their number. Raises FormatError for
        other bytes.
        """
        ...

    def adopt(self, digest: bytes) -> None:
        """Take in the context, whose objects are here; check it and all its ancestors. Raises UsageError,
        NotFoundError.
        """
        ...


class Progress(NamedTuple):
    """``listed`` objects were examined so far, ``sent`` of them transferred, with ``size_bytes`` bytes."""

    listed: int
    sent: int
    size_bytes: int


class Transferred(NamedTuple):
    """The result of a transfer. ``listed`` less ``sent`` objects were already there."""

    head: bytes
    listed: int
    sent: int
    size_bytes: int


def between(header: Callable[[bytes], ContextHeader], head: bytes, known: Iterable[bytes]) -> list[bytes]:
    """Return ``head`` and its ancestors, without ``known`` contexts and their ancestors; bases first.

    Every ancestor is less deep, so the deepest context in the walk has already been reached from all its descendants.
    """
    return run_to_end(between_sliced(header, head, known))


def between_sliced(
    header: Callable[[bytes], ContextHeader], head: bytes, known: Iterable[bytes]
) -> Generator[None, None, list[bytes]]:
    """Compute ``between`` with a rest every WALKED_PER_REST contexts, for a caller that serves others."""
    walk = _Walk(header)
    walk.reach(head, is_known=False)
    for digest in known:
        try:
            walk.reach(digest, is_known=True)
        except (NotFoundError, DamageError):
            continue  # the other side knows contexts that this side does not
    found: list[tuple[int, bytes]] = []
    for number, row in enumerate(walk.run(), 1):
        if row is not None:
            found.append(row)
        if number % WALKED_PER_REST == 0:
            yield
    return [digest for _, digest in sorted(found)]


class _Walk:
    """A walk; ``rows`` are the contexts reached and not yet passed, in a heap by depth."""

    def __init__(self, header: Callable[[bytes], ContextHeader]) -> None:
        self._header = header
        self._rows: dict[bytes, ContextHeader] = {}
        self._is_known: dict[bytes, bool] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._unknown = 0  # number of unknown contexts in the heap; at 0 the walk is complete

    def reach(self, digest: bytes, *, is_known: bool, below: int | None = None) -> None:
        if digest not in self._rows:
            row = self._header(digest)
            self._rows[digest] = row
            self._is_known[digest] = is_known
            heapq.heappush(self._heap, (-row.depth, digest))
            self._unknown += not is_known
        elif is_known and not self._is_known[digest]:
            self._is_known[digest] = True
            self._unknown -= 1
        if below is not None and self._rows[digest].depth >= below:
            raise FormatError(f"context {digest.hex()}: a context that descends from it is not deeper")

    def run(self) -> Iterator[tuple[int, bytes] | None]:
        """Yield depth and digest of contexts that no known context descends from; None for each of the others."""
        while self._unknown:
            depth, digest = heapq.heappop(self._heap)
            row = self._rows.pop(digest)
            is_known = self._is_known.pop(digest)
            if not is_known:
                self._unknown -= 1
            yield None if is_known else (-depth, digest)
            for parent in (row.base, *row.merged):
                if parent is None:
                    continue
                try:
                    self.reach(parent, is_known=is_known, below=row.depth)
                except (NotFoundError, DamageError):
                    if not is_known:
                        raise
                    # A known context stands on one that is not here any more, as after a redaction: the list is longer than necessary.


def known_below(source: Peer, target: Peer, head: bytes) -> list[bytes]:
    """Return the nearest contexts below ``head`` that ``target`` has whole, found in growing rounds."""
    known: list[bytes] = []
    seen = {head}
    frontier = deque((head,))
    wanted = {head}  # head, and the parents of contexts that the target lacks
    size = _FIRST_ROUND
    while frontier:
        links: dict[bytes, tuple[bytes, ...]] = {}
        while frontier and len(links) < size:
            digest = frontier.popleft()
            row = source.header(digest)
            links[digest] = tuple(parent for parent in (row.base, *row.merged) if parent is not None)
            frontier.extend(parent for parent in links[digest] if parent not in seen)
            seen.update(links[digest])
        lacks = set(target.lacking(list(links)))
        for digest in lacks:
            wanted.update(links[digest])
        known += [digest for digest in links if digest not in lacks and digest in wanted]
        frontier = deque(digest for digest in frontier if digest in wanted)
        size = min(2 * size, ASKED_MAX)
    return known


def transfer(
    source: Peer,
    target: Peer,
    head: bytes,
    *,
    known: Sequence[bytes] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Transferred:
    """Transfer ``head`` and its ancestors to ``target``. ``known`` are contexts that the target has whole; with None
    they are searched from ``head`` down (``known_below``), which suits a near source.

    Raises what either peer raises; nothing is taken in then, and a later call continues from there.
    """
    if known is None:
        known = known_below(source, target, head)
    if head in known:
        return Transferred(head, 0, 0, 0)
    listed = sent = size_bytes = 0

    def counted(objects: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        nonlocal sent, size_bytes
        for digest, data in objects:
            yield digest, data
            sent += 1
            size_bytes += len(data)
            if on_progress is not None:
                on_progress(Progress(listed, sent, size_bytes))

    listing = source.listing(head, known)
    while batch := [row.digest for row in islice(listing, ASKED_MAX)]:
        listed += len(batch)
        if listed > LISTED_MAX:
            raise RefusedError(
                f"the other side lists over {LISTED_MAX:,} objects for one context",
                safe="The objects received so far are kept; no context was taken in.",
            )
        lacks = target.lacking(batch)
        if lacks:
            target.keep(counted(source.objects(lacks)))
        elif on_progress is not None:
            on_progress(Progress(listed, sent, size_bytes))
    target.adopt(head)
    return Transferred(head, listed, sent, size_bytes)


def clone(
    source: Peer, target: Peer, *, on_progress: Callable[[Progress], None] | None = None
) -> tuple[dict[str, bytes], list[Transferred]]:
    """Transfer all refs of ``source`` with their contexts; the caller sets the refs at the end."""
    refs = source.refs()
    heads = list(dict.fromkeys(refs.values()))
    done: list[Transferred] = []
    for head in heads:
        done.append(
            transfer(source, target, head, known=[row.head for row in done][-ASKED_MAX:], on_progress=on_progress)
        )
    return refs, done
