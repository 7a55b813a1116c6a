"""History of a context: ``log``, ``blame`` and ``bisect``.

Author, time and reason of a commit are in the metadata of a context, under the keys of ``CommitInfo``. All walks go from the
newest to the oldest, one header at a time; nothing recurses, and no list is longer than the answer, except in
``bisect``, which holds the digests of the chain between its ends.
"""

from __future__ import annotations

__all__ = [
    "AUTHOR_KEY",
    "MESSAGE_KEY",
    "TIME_KEY",
    "Bisected",
    "Bisection",
    "Blame",
    "CommitInfo",
    "Event",
    "LogEntry",
    "begin_bisection",
    "bisect",
    "blame",
    "commit_info",
    "has_atom",
    "has_text",
    "log",
    "removal_of",
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


class CommitInfo(NamedTuple):
    """The metadata of ``context`` about its commit; empty or None if absent."""

    context: bytes
    message: str
    author: str
    time_ms: int | None


def commit_info(header: ContextHeader) -> CommitInfo:
    message, author, time_ms = (header.metadata.get(key) for key in (MESSAGE_KEY, AUTHOR_KEY, TIME_KEY))
    return CommitInfo(
        header.digest,
        message if isinstance(message, str) else "",
        author if isinstance(author, str) else "",
        time_ms if isinstance(time_ms, int) and not isinstance(time_ms, bool) else None,
    )


# --- log ---


class LogEntry(NamedTuple):
    header: ContextHeader
    commit_info: CommitInfo

    @property
    def is_merge(self) -> bool:
        return bool(self.header.merged)


def log(store: Headers, head: bytes, *, limit: int | None = None, first_parent: bool = False) -> Iterator[LogEntry]:
    """Yield ``head`` and its ancestors, newest first, read on demand.

    A context comes after all its descendants, merged contexts among the others; ``first_parent`` follows only the chain
    of bases.
    """
    headers = chain(store, head) if first_parent else descent(store, head)
    for header in islice(headers, limit):
        yield LogEntry(header, commit_info(header))


# --- blame ---


class Event(NamedTuple):
    """The change of one context to an atom.

    It ``brought`` the atom, ``annotated`` it anew (``fields`` changed), ``removed`` it, or ``merged`` it: took over the
    value of another branch, whose own events follow. ``atom`` is its state afterwards; its ``source`` is its origin.
    """

    kind: Literal["brought", "annotated", "removed", "merged"]
    commit_info: CommitInfo
    atom: Atom | None
    fields: tuple[str, ...] = ()


class Blame(NamedTuple):
    """All events of an atom since it was last brought, newest first. ``entry`` is None if the context does not have it
    any more.
    """

    digest: bytes
    entry: Entry | None
    events: tuple[Event, ...]


def blame(store: Reader, head: bytes, digest: bytes) -> Blame:
    """Return which delta brought the atom ``digest`` to ``head``, with message and source, and who annotated it since.

    Raises NotFoundError if the context never had it.
    """
    entry = find(store, head, [digest]).get(digest)
    events: list[Event] = []
    at: bytes | None = head
    if entry is None:
        removal = removal_of(store, head, digest)
        if removal is None:
            raise NotFoundError(
                f"context {head.hex()[:16]} never had atom {digest.hex()}",
                mend="Look for it with expand or select.",
            )
        events.append(Event("removed", commit_info(removal), None))
        at = removal.base
    current = entry if entry is not None else find(store, at, [digest]).get(digest)
    while current is not None:
        header = store.header(current.origin)
        before, is_merged = _before(store, header, current)
        events.append(_event(commit_info(header), current.atom, before, is_merged=is_merged))
        current = before
    return Blame(digest, entry, tuple(events))


def removal_of(store: Reader, head: bytes, digest: bytes) -> ContextHeader | None:
    """Return the newest delta of the chain of ``head`` that removed ``digest``."""
    for header in chain(store, head):
        if header.removed_count and digest in store.context(header.digest).removed:
            return header
    return None


def _before(store: Reader, header: ContextHeader, current: Entry) -> tuple[Entry | None, bool]:
    """Return the entry before the delta of ``header``, which set ``current``; and whether that delta set it by a merge."""
    for other in header.merged:
        theirs = find(store, other, [current.digest]).get(current.digest)
        if theirs is not None and theirs.atom == current.atom:
            return theirs, True
    return find(store, header.base, [current.digest]).get(current.digest), False


def _event(by: CommitInfo, atom: Atom, before: Entry | None, *, is_merged: bool) -> Event:
    if is_merged:
        return Event("merged", by, atom)
    if before is None:
        return Event("brought", by, atom)
    return Event("annotated", by, atom, changed_fields(before.atom, atom))


# --- bisect ---


class Bisection(msgspec.Struct, frozen=True):
    """The state of a search: ``holds`` is the oldest context known to hold, ``lacks`` the newest known not to (None:
    before the root).

    It is complete, so it can be stored between commands.
    """

    head: bytes
    holds: bytes
    lacks: bytes | None
    asked: int = 0

    def next(self, store: Headers) -> bytes | None:
        """Return the context to judge next, half-way between; None when the search is finished and ``holds`` is the
        answer.
        """
        between = []
        for header in chain(store, store.header(self.holds).base):
            if header.digest == self.lacks:
                break
            between.append(header.digest)
        return between[(len(between) - 1) // 2] if between else None

    def told(self, context: bytes, *, holds: bool) -> Bisection:
        """Return the search after ``context``, which was ``next``, was judged."""
        changed = {"holds": context} if holds else {"lacks": context}
        return msgspec.structs.replace(self, asked=self.asked + 1, **changed)


class Bisected(NamedTuple):
    """``first`` is the oldest context from which on the condition holds, as far as the answers tell; ``asked`` counts
    the answers.
    """

    first: CommitInfo
    before: bytes | None
    asked: int


def begin_bisection(store: Headers, head: bytes, *, lacks: bytes | None = None) -> Bisection:
    """Start a search along the bases of ``head``, which holds, back to ``lacks``, which does not (None: before the
    root).

    Raises UsageError if ``lacks`` is not in that chain.
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
    """Find the context at which ``holds`` became true on the way to ``head``; None if it is not true of ``head``.

    Makes about log2 of the chain's length judgements. If the condition changed several times, one of the changes is
    found.
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
    return Bisected(commit_info(store.header(first)), store.header(first).base, asked)


def has_atom(store: Reader, digest: bytes) -> Callable[[bytes], bool]:
    """Return a condition for ``bisect``: the context has the atom ``digest``."""
    return lambda context: digest in find(store, context, [digest])


def has_text(store: Store, text: str) -> Callable[[bytes], bool]:
    """Return a condition for ``bisect``: an atom of the context contains ``text``, ignoring case."""
    wanted = text.casefold()

    def holds(context: bytes) -> bool:
        return any(
            wanted in entry.atom.content.casefold() for chunk in store.stream(context) for entry in chunk.entries
        )

    return holds
