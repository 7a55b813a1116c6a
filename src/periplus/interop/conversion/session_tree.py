"""Sessions that name their parents: those of subagents become children of the trail of the session that began them.

A store is untrusted: its rows may repeat, or name several parents for a session. So each session becomes a child only
once in a store, and the import takes no longer than the store has sessions.
"""

from __future__ import annotations

__all__ = ["CHILDREN_MAX", "DEPTH_MAX", "Branch", "Card", "Sessions", "feed_rows", "import_tree"]

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from periplus.interop.conversion.intake import Intake
from periplus.interop.conversion.source import Source
from periplus.interop.model import Imported
from periplus.interop.readers.json_values import text_of

CHILDREN_MAX: Final = 1000
DEPTH_MAX: Final = 8


class Card(NamedTuple):
    """Facts of a session before its messages, ``id`` among them, and their bytes."""

    values: dict[str, object]
    data: bytes


class Branch(NamedTuple):
    """A session with the trails of its subagents by the ids of their sessions; ``is_child`` for one of a subagent."""

    card: Card
    intake: Intake
    children: dict[str, Imported]
    is_child: bool


class Sessions(Protocol):
    """Sessions of a store: those without a parent, and those that a session began."""

    @property
    def count(self) -> int: ...
    def roots(self) -> Iterator[Card]: ...
    def children(self, session_id: str) -> Iterator[Card]: ...


def feed_rows(
    branch: Branch,
    rows: Iterable[dict[str, object] | None],
    feed: Callable[[int, dict[str, object]], None],
) -> bytes:
    """Pass the messages of a session to ``feed`` with their numbers; None stands for a row that cannot be read. Return
    the SHA-256 of the card and the rows.
    """
    sha256 = hashlib.sha256(branch.card.data)
    count = 0
    for row in rows:
        count += 1
        sha256.update(repr(row).encode("utf-8", "replace"))
        if row is None:
            branch.intake.note_unreadable(count)
        else:
            feed(count, row)
    branch.intake.count("lines", count)
    return sha256.digest()


def import_tree(
    source: Source, sessions: Sessions, folder: str, import_one: Callable[[Branch], Imported]
) -> Iterator[Imported]:
    """Yield the trails of the sessions without a parent. ``folder`` is the member of a card that names the folder of
    its session.
    """
    count = sessions.count
    taken: set[str] = set()
    for number, card in enumerate(sessions.roots(), 1):
        if source.is_elsewhere(card.values.get(folder)):
            continue
        if source.listed is not None:
            source.listed(text_of(card.values.get("id")))
            continue
        yield _import(source, sessions, card, (), taken, import_one)
        if source.progress is not None:
            source.progress(number, max(number, count))


def _import(
    source: Source,
    sessions: Sessions,
    card: Card,
    above: tuple[str, ...],
    taken: set[str],
    import_one: Callable[[Branch], Imported],
) -> Imported:
    """Import the session with this card, after those of its subagents. ``taken`` are the sessions that are children."""
    session_id = text_of(card.values.get("id"))
    lineage = (*above, session_id)
    children: dict[str, Imported] = {}
    left_out = 0
    for child in sessions.children(session_id):
        child_id = text_of(child.values.get("id"))
        is_again = child_id in lineage or child_id in taken
        if is_again or len(lineage) > DEPTH_MAX or len(children) >= CHILDREN_MAX:
            left_out += 1
        else:
            taken.add(child_id)
            children[child_id] = _import(source, sessions, child, lineage, taken, import_one)
    intake = source.intake()
    if left_out:
        intake.skip("session of a subagent that is left out", left_out)
    return import_one(Branch(card, intake, children, bool(above)))
