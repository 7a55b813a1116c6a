"""Plans of folds and seals: decided once, at the edge, with file contents, and then noted.

Hysteresis: nothing happens up to the budget; then a fold shortens the tape so far (``fold_to``) that many turns go by until the next. A
fold of turns is tried first, since it leaves the entries in front unchanged; only if that is not enough, the whole is condensed.
"""

from __future__ import annotations

__all__ = ["FileView", "cut_turn", "outside_changes", "plan_fold", "plan_seal"]

import hashlib
from collections.abc import Iterable
from typing import Final, Protocol, runtime_checkable

from periplus.agent.episodes import Ended
from periplus.agent.tape.patches import hunk_lines, patch_of, text_of
from periplus.agent.tape.placed_turns import PlacedTurn
from periplus.agent.tape.state import TapeState
from periplus.agent.tape_notes import Anchor, FilePatch, FoldNote, SealNote, noted
from periplus.base.text.token_estimate import estimate_tokens

_WHOLE_TOKENS_MAX: Final = 1_000
_ANCHOR_SHARE: Final = 3  # files take at most this fraction (1/n) of what a fold leaves
_AROUND_LINES: Final = 25
_DIGESTS_TRIED: Final = (40, 24, 12, 6, 3, 1, 0)
_SAVED_SHARE: Final = 20


@runtime_checkable
class FileView(Protocol):
    """The files of the folder, and stored earlier contents. Neither method raises for what cannot be read."""

    def read(self, path: str) -> bytes | None: ...

    def kept(self, sha256: str) -> bytes | None: ...


def digest_of(data: bytes | None) -> str:
    return hashlib.sha256(data).hexdigest() if data is not None else ""


def outside_changes(state: TapeState, files: FileView | None, but: Iterable[str] = ()) -> list[FilePatch]:
    """Files that we changed once and that somebody else has changed since."""
    passed = set(but)
    found: list[FilePatch] = []
    for path, known in state.known.items():
        if files is None or path in passed:
            continue
        data = files.read(path)
        digest = digest_of(data)
        if digest != known:
            found.append(patch_of(path, (known, files.kept(known)), (digest, data)))
    return found


def plan_seal(state: TapeState, files: FileView | None) -> SealNote:
    """Plan the end of the turn: its patches from the bytes themselves, and files on the disk that differ from them.

    Without ``files`` the patches have digests only, and nothing is checked.
    """
    turn = state.current
    if turn is None:
        return SealNote()
    patches: list[FilePatch] = []
    outside: list[FilePatch] = []
    for path, (before, after) in turn.effects.items():
        if files is None:
            if before != after:
                patches.append(patch_of(path, (before, None), (after, None)))
            continue
        data = files.read(path)
        digest = digest_of(data)
        ours = data if digest == after else files.kept(after) if after else None
        if before != after:
            patches.append(patch_of(path, (before, files.kept(before) if before else None), (after, ours)))
        if digest != after:
            outside.append(patch_of(path, (after, ours), (digest, data)))
    outside += outside_changes(state, files, turn.effects)
    return SealNote(patches=tuple(patches), outside=tuple(outside), used=_used(turn))


def _used(turn: PlacedTurn) -> tuple[str, ...]:
    """Knowledge that was read in full, or that an answer names."""
    found = []
    for one in turn.note.knowledge:
        name = one.handle.rpartition("/")[2].removesuffix(".md")
        for step in turn.steps:
            read = any(one.handle in map(str, call.args.values()) for call in step.answer.tool_calls)
            if read or name in step.answer.content:
                found.append(one.handle)
                break
    return tuple(found)


def plan_fold(state: TapeState, files: FileView | None, *, turns: int, why: str) -> FoldNote | None:
    """Plan a fold of the turns up to ``turns`` that leaves at most ``fold_to``, as far as possible; None if there is nothing to fold. A
    request that was too long is at least halved, since the model's window may be smaller than ``fold_to``.
    """
    most = min(state.fold_to, state.tokens // 2) if why == "overflow" else state.fold_to
    sealed = [turn for turn in state.turns if turn.number <= turns and turn.ended is not None]
    if not sealed and not state.batches:
        return None
    tokens = state.tokens
    note = FoldNote(
        fold=state.fold + 1, why=why, turns=turns, tokens=tokens, anchors=_first_bases(state, sealed, files)
    )
    if sealed and _after(state, note).tokens <= most:
        return note
    anchors = _live(state, files, most)
    for digests in _DIGESTS_TRIED:
        note = FoldNote(fold=state.fold + 1, why=why, turns=turns, tokens=tokens, whole=True, digests=digests,
                        anchors=anchors)  # fmt: skip
        after = _after(state, note).tokens
        if after <= most:
            break
        if digests <= 3:
            anchors = anchors[: len(anchors) // 2]
    else:
        after = _after(state, note).tokens
    least = tokens // _SAVED_SHARE if why == "overflow" else 0
    return note if after < tokens - least else None


def _after(state: TapeState, note: FoldNote) -> TapeState:
    other = state.copied()
    other.take(noted(other.turn, note))
    return other


def _first_bases(state: TapeState, sealed: Iterable[PlacedTurn], files: FileView | None) -> tuple[Anchor, ...]:
    """Files whose first patch is about to become an entry, as they were before it."""
    found: dict[str, Anchor] = {}
    held = {path: base.sha256 for path, base in state.bases.items()}
    for turn in sealed:
        seal = turn.seal or SealNote()
        for patch in (*turn.note.outside, *seal.patches, *seal.outside):
            if patch.before and held.get(patch.path) != patch.before and patch.path not in found:
                found[patch.path] = _anchor(
                    patch.path,
                    patch.before,
                    files.kept(patch.before) if files is not None else None,
                    hunk_lines(patch.diff),
                )
            held[patch.path] = patch.after
    return tuple(found.values())


def _live(state: TapeState, files: FileView | None, tokens: int) -> tuple[Anchor, ...]:
    """The latest files that were worked on, as they are now, for a tape of so many tokens."""
    found: list[Anchor] = []
    room = tokens // _ANCHOR_SHARE
    around = {
        patch.path: hunk_lines(patch.diff, after=True)
        for turn in state.turns
        for patch in (turn.seal or SealNote()).patches
    }
    for path, known in reversed(state.known.items()):
        data = files.read(path) if files is not None else None
        if digest_of(data) != known:
            continue  # changed meanwhile: the next tail will say so
        anchor = _anchor(path, known, data, around.get(path, ()))
        size = sum(estimate_tokens(text) for _, text in anchor.shown)
        if size > room:
            break
        room -= size
        found.append(anchor)
    return tuple(found)


def _anchor(path: str, sha256: str, data: bytes | None, around: Iterable[int]) -> Anchor:
    """A file for the tape: all of it, or the lines around the named ones."""
    text = text_of(data) if data is not None else None
    if text is None:
        return Anchor(
            path=path, sha256=sha256, lines=0, note="no text" if data is not None else "its bytes are not kept"
        )
    lines = text.split("\n")
    count = len(lines) - (1 if lines[-1] == "" else 0)
    if estimate_tokens(text) <= _WHOLE_TOKENS_MAX:
        return Anchor(path=path, sha256=sha256, lines=count, shown=((1, text),) if text else (), is_whole=True)
    shown: list[tuple[int, int]] = []
    room = _WHOLE_TOKENS_MAX
    for line in sorted(set(around)) or [1]:
        first, last = max(1, line - _AROUND_LINES), min(count, line + _AROUND_LINES)
        if shown and first <= shown[-1][1] + 1:
            first = shown[-1][1] + 1
        size = estimate_tokens("\n".join(lines[first - 1 : last]))
        if first > last or size > room:
            continue
        room -= size
        if shown and first == shown[-1][1] + 1:
            shown[-1] = (shown[-1][0], last)
        else:
            shown.append((first, last))
    runs = tuple((first, "\n".join(lines[first - 1 : last]) + "\n") for first, last in shown)
    return Anchor(path=path, sha256=sha256, lines=count, shown=runs)


def cut_turn(state: TapeState) -> FoldNote | None:
    """Plan a fold within the turn in progress: outputs of its older calls go behind handles. None if nothing can go."""
    turn = state.current
    if turn is None or not turn.steps:
        return None
    last = turn.steps[-1].number
    for before in (last // 2 + 1, last - 1, last, last + 1):
        if before <= turn.cut_before:
            continue
        note = FoldNote(fold=state.fold + 1, why="overflow", step=before, tokens=state.tokens)
        if turn.tokens - _cut_tokens(state, before) > state.tokens // _SAVED_SHARE:
            return note
    return None


def _cut_tokens(state: TapeState, before: int) -> int:
    other = state.copied()
    assert other.current is not None
    other.current.cut(before)
    return other.current.tokens


def sealed_state(state: TapeState, seal: SealNote, ended: Ended) -> TapeState:
    """The tape after the end of the turn."""
    other = state.copied()
    other.take(ended)
    other.take(noted(ended.turn, seal))
    return other
