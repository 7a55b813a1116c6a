"""A turn as a page: request, answers, calls and changes, from its episodes alone.

Long outputs of calls are shortened there; each is a page of its own in full.
"""

from __future__ import annotations

__all__ = ["RECORD_TOPIC", "call_text", "is_over", "patch_text", "title_of", "turn_text"]

from collections.abc import Sequence
from typing import Final

import msgspec

from periplus.agent.episodes import Answered, Ended, Episode, Fed, Noted, Requested, Resulted
from periplus.agent.tape.entries import ROOT, call_handle, patch_handle
from periplus.agent.tape.fence import cut_lines, cut_text, one_line
from periplus.agent.tape_notes import FilePatch, InstructionsNote, SealNote, TailNote, note_in
from periplus.base.errors import NotFoundError

RECORD_TOPIC: Final = "record"
"""Topic of a ``Noted`` episode with a record that a host gave to ``Memory.append_episode``."""
_HEAD_LINES: Final = 12
_TAIL_LINES: Final = 8
_OUTPUT_CHARACTERS: Final = 1_200
_ARGS_CHARACTERS: Final = 300


def turn_text(episodes: Sequence[Episode], root: str = ROOT) -> str:
    """The page of a turn. Raises NotFoundError without episodes."""
    if not episodes:
        raise NotFoundError("no such turn in this session", mend="list(path='@periplus/turns/') shows what there is.")
    turn = episodes[0].turn
    ended = next((one for one in reversed(episodes) if isinstance(one, Ended)), None)
    lines = [f"# Turn {turn} ({ended.reason if ended is not None else 'in progress'})"]
    results = {one.call_id: one for one in episodes if isinstance(one, Resulted)}
    for episode in episodes:
        match episode:
            case Requested():
                lines += ["", "## Asked", episode.text]
            case Noted(topic=topic) if topic == RECORD_TOPIC:
                lines += ["", msgspec.json.encode(episode.data.get("record"), order="sorted").decode()]
            case Noted():
                note = note_in(episode)
                if isinstance(note, TailNote):
                    lines += _tail_lines(note)
                elif isinstance(note, InstructionsNote):
                    lines += [
                        "",
                        "## Told by the project",
                        *(f"{one.path} {one.remark}".rstrip() for one in note.files),
                    ]
                elif isinstance(note, SealNote):
                    lines += _seal_lines(turn, note, root)
            case Answered():
                lines += _step_lines(episode, results, root)
            case Fed():
                lines += ["", f"## Said in between ({episode.source})", episode.text]
            case _:
                pass
    if ended is not None and ended.note:
        lines += ["", f"[{ended.note}]"]
    return "\n".join(lines) + "\n"


def _tail_lines(note: TailNote) -> list[str]:
    lines = [f"{fact.name}: {fact.text} {one_line(fact.quoted, 200)}".rstrip() for fact in note.facts]
    lines += [f"known: {one.handle} ({one.kind}): {one_line(one.preview, 200)}" for one in note.knowledge]
    return ["", "## Beside it", *lines] if lines else []


def _step_lines(episode: Answered, results: dict[str, Resulted], root: str) -> list[str]:
    message = episode.message
    lines = ["", f"## Step {episode.step}"]
    if message.content.strip():
        lines.append(message.content.strip())
    for place, call in enumerate(message.tool_calls, 1):
        result = results.get(call.id)
        handle = call_handle(episode.turn, episode.step, place, root)
        args = one_line(call.raw or msgspec.json.encode(call.args).decode(errors="replace"), _ARGS_CHARACTERS)
        outcome = result.result.outcome if result is not None else "no outcome is known"
        lines += ["", f"{call.name} {args}: {outcome}"]
        if result is not None and result.result.output:
            lines += [_in_short(result.result.output.rstrip("\n"), handle), f"[{handle}]"]
    return lines


def _in_short(text: str, handle: str) -> str:
    return cut_text(cut_lines(text, _HEAD_LINES, _TAIL_LINES, handle), _OUTPUT_CHARACTERS, handle)


def _seal_lines(turn: int, note: SealNote, root: str) -> list[str]:
    lines = [_change_line(turn, patch, root) for patch in note.patches]
    lines += [f"{_change_line(turn, patch, root)} (by somebody else)" for patch in note.outside]
    return ["", "## Changed", *lines] if lines else []


def _change_line(turn: int, patch: FilePatch, root: str) -> str:
    what = "removed" if not patch.after else f"+{patch.added} -{patch.removed}" if patch.diff else patch.note
    return f"{patch.path} {what} [{patch_handle(turn, patch.path, root)}]"


def call_text(episodes: Sequence[Episode], step: int, place: int) -> str:
    """The exact output of a call. Raises NotFoundError."""
    calls = next((one.message.tool_calls for one in episodes if isinstance(one, Answered) and one.step == step), ())
    if 0 < place <= len(calls):
        for episode in episodes:
            if isinstance(episode, Resulted) and episode.call_id == calls[place - 1].id and episode.step == step:
                return episode.result.output
    raise NotFoundError(f"no call {place} with an outcome in step {step}")


def patch_text(episodes: Sequence[Episode], path: str) -> str:
    """The diffs of a file in a turn. Raises NotFoundError."""
    found = []
    for episode in episodes:
        note = note_in(episode) if isinstance(episode, Noted) else None
        if isinstance(note, SealNote | TailNote):
            ours = note.patches if isinstance(note, SealNote) else ()
            found += [patch.diff or patch.note for patch in (*ours, *note.outside) if patch.path == path]
    if not found:
        raise NotFoundError(f"no change of {path} in that turn")
    return "".join(found)


def title_of(episodes: Sequence[Episode]) -> str:
    """The request in one line."""
    return next((one_line(one.text, 120) for one in episodes if isinstance(one, Requested)), "")


def is_over(episodes: Sequence[Episode]) -> bool:
    return any(isinstance(one, Ended) or (isinstance(one, Noted) and one.topic == RECORD_TOPIC) for one in episodes)
