"""How a context came to be what it is: ``log``, ``blame`` and ``bisect``.

Who committed, when and why is in the metadata of a context, under the keys of ``Said``. All walks go from the newest to the oldest,
one header at a time; nothing recurses, and no list is longer than the answer, but for ``bisect``, which holds the digests of the
chain between its ends.
"""

from __future__ import annotations

__all__ = [
    "AUTHOR_KEY",
    "MESSAGE_KEY",
    "TIME_KEY",
    "Bisected",
    "Bisection",
    "Blame",
    "Event",
    "Logged",
    "Said",
    "begin_bisection",
    "bisect",
    "blame",
    "has_atom",
    "has_text",
    "log",
    "removal_of",
    "said",
]

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Literal, NamedTuple

import msgspec

from periplus.base.errors import NotFoundError, UsageError
from periplus.context.deltas.ancestry import Headers, chain, descent
from periplus.context.deltas.atom_lookup import Reader, find
from periplus.context.deltas.comparison import changed_fields
from periplus.context.model import Atom, ContextHeader, Entry
from periplus.context.store_protocol import Store

MESSAGE_KEY: Final = "message"
AUTHOR_KEY: Final = "author"
TIME_KEY: Final = "time_ms"


class Said(NamedTuple):
    """What the metadata of ``context`` say of its coming: empty or None where they do not."""

    context: bytes
    message: str
    author: str
    time_ms: int | None


def said(header: ContextHeader) -> Said:
    message, author, time_ms = (header.metadata.get(key) for key in (MESSAGE_KEY, AUTHOR_KEY, TIME_KEY))
    return Said(
        header.digest,
        message if isinstance(message, str) else "",
        author if isinstance(author, str) else "",
        time_ms if isinstance(time_ms, int) and not isinstance(time_ms, bool) else None,
    )


# --- log ---


class Logged(NamedTuple):
    header: ContextHeader
    said: Said

    @property
    def is_merge(self) -> bool:
        return bool(self.header.merged)


def log(store: Headers, head: bytes, *, limit: int | None = None, first_parent: bool = False) -> Iterator[Logged]:
    """``head`` and what it stands on, newest first, read as it is asked for.

    A context comes after all that descend from it, those merged among the others; with ``first_parent`` only the chain of bases.
    """
    headers = chain(store, head) if first_parent else descent(store, head)
    for header in islice(headers, limit):
        yield Logged(header, said(header))


# --- blame ---


class Event(NamedTuple):
    """What one context did to an atom.

    ``brought`` it, ``annotated`` it anew (``fields`` differ from before), ``removed`` it, or ``merged`` it: took over what another
    branch had said, whose own events follow. ``atom`` is as it was after; its ``source`` says where it is from.
    """

    kind: Literal["brought", "annotated", "removed", "merged"]
    said: Said
    atom: Atom | None
    fields: tuple[str, ...] = ()


class Blame(NamedTuple):
    """All that was done to an atom since it was brought last, newest first. ``entry`` is None where the context has it no more."""

    digest: bytes
    entry: Entry | None
    events: tuple[Event, ...]


def blame(store: Reader, head: bytes, digest: bytes) -> Blame:
    """Which delta brought the atom ``digest`` to ``head``, why and from where, and who annotated it since.

    Raises NotFoundError where the context never had it.
    """
    entry = find(store, head, [digest]).get(digest)
    events: list[Event] = []
    at: bytes | None = head
    if entry is None:
        removal = removal_of(store, head, digest)
        if removal is None:
            raise NotFoundError(
                f"context {head.hex()[:16]} has no atom {digest.hex()}, and had none",
                mend="Look for it with expand or select.",
            )
        events.append(Event("removed", said(removal), None))
        at = removal.base
    current = entry if entry is not None else find(store, at, [digest]).get(digest)
    while current is not None:
        header = store.header(current.origin)
        before, is_merged = _before(store, header, current)
        events.append(_event(said(header), current.atom, before, is_merged=is_merged))
        current = before
    return Blame(digest, entry, tuple(events))


def removal_of(store: Reader, head: bytes, digest: bytes) -> ContextHeader | None:
    """The newest delta of the chain of ``head`` that removed ``digest``."""
    for header in chain(store, head):
        if header.removed_count and digest in store.context(header.digest).removed:
            return header
    return None


def _before(store: Reader, header: ContextHeader, current: Entry) -> tuple[Entry | None, bool]:
    """The entry before the delta of ``header``, which brought or annotated ``current``; and whether that was by merging it."""
    for other in header.merged:
        theirs = find(store, other, [current.digest]).get(current.digest)
        if theirs is not None and theirs.atom == current.atom:
            return theirs, True
    return find(store, header.base, [current.digest]).get(current.digest), False


def _event(by: Said, atom: Atom, before: Entry | None, *, is_merged: bool) -> Event:
    if is_merged:
        return Event("merged", by, atom)
    if before is None:
        return Event("brought", by, atom)
    return Event("annotated", by, atom, changed_fields(before.atom, atom))


# --- bisect ---


class Bisection(msgspec.Struct, frozen=True):
    """Where a search stands: ``holds`` is the oldest context known to hold, ``lacks`` the newest known not to (None: before the root).

    Can be kept between commands: it is all that the search knows.
    """

    head: bytes
    holds: bytes
    lacks: bytes | None
    asked: int = 0

    def next(self, store: Headers) -> bytes | None:
        """The context to be judged next, half-way between; None where the search is at its end and ``holds`` is the answer."""
        between = []
        for header in chain(store, store.header(self.holds).base):
            if header.digest == self.lacks:
                break
            between.append(header.digest)
        return between[(len(between) - 1) // 2] if between else None

    def told(self, context: bytes, *, holds: bool) -> Bisection:
        """The search when ``context``, which was ``next``, was judged."""
        changed = {"holds": context} if holds else {"lacks": context}
        return msgspec.structs.replace(self, asked=self.asked + 1, **changed)


class Bisected(NamedTuple):
    """``first`` is the oldest context from which on it holds, as far as what it was asked tells; ``asked`` is how many were judged."""

    first: Said
    before: bytes | None
    asked: int


def begin_bisection(store: Headers, head: bytes, *, lacks: bytes | None = None) -> Bisection:
    """A search along the bases of ``head``, which holds, back to ``lacks``, which does not (None: to before the root).

    Raises UsageError where ``lacks`` is not in that chain.
    """
    if lacks is not None:
        depth = store.header(lacks).depth
        for header in chain(store, head):
            if header.digest == lacks:
                break
            if header.depth <= depth:
                raise UsageError(
                    f"lacks: context {lacks.hex()[:16]} is not among the bases of {head.hex()[:16]}",
                    mend="Take a context that `periplus context log --base-only` shows.",
                )
        if lacks == head:
            raise UsageError("lacks: the same context as the head, which holds")
    return Bisection(head, head, lacks)


def bisect(
    store: Headers, head: bytes, holds: Callable[[bytes], bool], *, lacks: bytes | None = None
) -> Bisected | None:
    """When ``holds`` began to be true on the way to ``head``; None where it is not true of ``head``.

    Judges about log2 of the length of the chain. Where it was true, then not, then true again, one of the beginnings is found.
    """
    begin_bisection(store, head, lacks=lacks)  # for its checks
    if not holds(head):
        return None
    between = []
    for header in chain(store, store.header(head).base):
        if header.digest == lacks:
            break
        between.append(header.digest)
    low, high = -1, len(between)  # between[low] holds, between[high] does not
    asked = 1
    while high - low > 1:
        middle = (low + high) // 2
        asked += 1
        if holds(between[middle]):
            low = middle
        else:
            high = middle
    first = head if low < 0 else between[low]
    return Bisected(said(store.header(first)), store.header(first).base, asked)


def has_atom(store: Reader, digest: bytes) -> Callable[[bytes], bool]:
    """Judges a context by whether it has the atom ``digest``."""
    return lambda context: digest in find(store, context, [digest])


def has_text(store: Store, text: str) -> Callable[[bytes], bool]:
    """Judges a context by whether an atom of it has ``text``, upper and lower case alike."""
    wanted = text.casefold()

    def holds(context: bytes) -> bool:
        return any(
            wanted in entry.atom.content.casefold() for chunk in store.stream(context) for entry in chunk.entries
        )

    return holds
