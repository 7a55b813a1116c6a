"""Pure functions that turn turns into entries for a fold, without decisions."""

from __future__ import annotations

__all__ = ["Base", "Bases", "condensed", "entries_of", "recent"]

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from periplus.agent.tape.entries import (
    BaseEntry,
    CommitmentsEntry,
    Entry,
    EpochEntry,
    FindingEntry,
    KnowledgeEntry,
    OutsideEntry,
    PatchEntry,
    ReplyEntry,
    TurnEntry,
)
from periplus.agent.tape.placed_turns import PlacedTurn
from periplus.agent.tape_notes import Anchor, FilePatch, FoldNote

OUTLINE_LINES_MAX: Final = 24
BASES_MAX: Final = 64


class Base(NamedTuple):
    """State of a file according to the entries: its digest, and the turn after which it holds."""

    sha256: str
    turn: int


Bases: TypeAlias = dict[str, Base]


def entries_of(turns: Sequence[PlacedTurn], note: FoldNote, bases: Bases, holds: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries of ending turns, in order; ``bases`` is updated."""
    found: list[Entry] = [*holds]
    anchors = {anchor.path: anchor for anchor in note.anchors}
    for turn in turns:
        found.append(_digest(turn))
        found += [FindingEntry(turn=turn.number, tier=one.tier, found=one.value) for one in turn.findings]
        used = set(turn.seal.used) if turn.seal is not None else set()
        found += [
            KnowledgeEntry(turn=turn.number, handle=one.handle, preview=one.preview)
            for one in turn.note.knowledge
            if one.handle in used
        ]
        for patch in turn.note.outside:
            found += _changed(turn.number, patch, anchors, bases, is_ours=False)
        for patch in turn.seal.patches if turn.seal is not None else ():
            found += _changed(turn.number, patch, anchors, bases, is_ours=True)
        for patch in turn.seal.outside if turn.seal is not None else ():
            found += _changed(turn.number, patch, anchors, bases, is_ours=False)
        if turn.said().strip():
            found.append(ReplyEntry(turn=turn.number, said=turn.said()))
    return tuple(found)


def _digest(turn: PlacedTurn) -> TurnEntry:
    ended = turn.ended.reason if turn.ended is not None else "open"
    return TurnEntry(turn=turn.number, asked=turn.request.text, did=turn.did(), ended=ended)


def _changed(turn: int, patch: FilePatch, anchors: dict[str, Anchor], bases: Bases, *, is_ours: bool) -> list[Entry]:
    """The entries of a file's change, with its base before the first one; none if the base is younger than the change."""
    path = patch.path
    held = bases.get(path)
    if held is not None and held.turn >= turn and held.sha256 != patch.before:
        return []
    found: list[Entry] = []
    anchor = anchors.get(path)
    is_based = not patch.before or (held is not None and held.sha256 == patch.before)
    if not is_based and anchor is not None and anchor.sha256 == patch.before:
        found.append(BaseEntry(turn=turn, anchor=anchor))
        is_based = True
    found.append(PatchEntry(turn=turn, patch=patch) if is_ours else OutsideEntry(turn=turn, patch=patch))
    bases.pop(path, None)
    if patch.after and is_based:
        bases[path] = Base(patch.after, turn)
    while len(bases) > BASES_MAX:
        del bases[next(iter(bases))]
    return found


def recent(entries: Sequence[Entry], holds: str, turn: int) -> tuple[Entry, ...]:
    """Rules and open commitments that the entries do not have yet."""
    last = next((one for one in reversed(entries) if isinstance(one, CommitmentsEntry)), None)
    if (last.body if last is not None else "") == holds:
        return ()
    return (CommitmentsEntry(turn=turn, body=holds or "Nothing is open any more."),)


def condensed(
    entries: Sequence[Entry], turns: Sequence[PlacedTurn], note: FoldNote, bases: Bases, holds: str, turn: int
) -> tuple[Entry, ...]:
    """One batch in place of all: an outline of old turns, commitments, files as they are, and digests of the last turns."""
    digests = [one for one in entries if isinstance(one, TurnEntry)] + [_digest(one) for one in turns]
    replies = {one.turn: one for one in entries if isinstance(one, ReplyEntry)}
    replies |= {one.number: ReplyEntry(turn=one.number, said=one.said()) for one in turns if one.said().strip()}
    cut = max(0, len(digests) - note.digests)
    old, kept = digests[:cut], digests[cut:]
    found: list[Entry] = []
    epoch = next((one for one in entries if isinstance(one, EpochEntry)), None)
    if old or epoch is not None:
        lines = (*(epoch.lines if epoch is not None else ()), *(one.line() for one in old))
        last = old[-1].turn if old else epoch.turn if epoch is not None else 0
        found.append(EpochEntry(turn=last, lines=lines[-OUTLINE_LINES_MAX:]))
    if holds:
        found.append(CommitmentsEntry(turn=turn, body=holds))
    for anchor in note.anchors:
        found.append(BaseEntry(turn=turn, anchor=anchor))
        bases[anchor.path] = Base(anchor.sha256, turn)
    for one in kept:
        found.append(one)
        reply = replies.get(one.turn)
        if reply is not None:
            found.append(reply)
    return tuple(found)
