"""Report of a subagent: how it ended, its changes and usage, where to read more, and its last answer in full."""

from __future__ import annotations

__all__ = ["Changed", "changes_in", "report_of", "usage_of"]

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from periplus.agent.contracts import Spawned, Usage
from periplus.agent.episodes import Answered, Ended, Episode, Resulted
from periplus.agent.tools.text_pages.command_output import Outputs, shorten

REPORT_CHARACTERS_MAX: Final = 12_000
_PATHS_SHOWN: Final = 40
_HOW: Final = {
    "done": "is done",
    "parked": "stopped before it was done",
    "cancelled": "was cancelled",
    "deadline": "was stopped: it reached its time limit",
    "idle": "was stopped: it showed no progress for too long",
}


class Changed(NamedTuple):
    """A changed file with the digests of its bytes, None without a file."""

    path: str
    before: str | None
    after: str | None

    def effect(self) -> dict[str, Any]:
        return self._asdict()

    def __str__(self) -> str:
        if self.after is None:
            return f"{self.path} (removed)"
        return f"{self.path} ({'new' if self.before is None else self.before[:12]} → {self.after[:12]})"


def changes_in(episodes: Sequence[Episode]) -> tuple[Changed, ...]:
    """Net changes of files from the first step to the last; files that ended as they began are left out."""
    found: dict[str, Changed] = {}
    for episode in episodes:
        for effect in episode.result.effects if isinstance(episode, Resulted) else ():
            path = str(effect["path"])
            before = found[path].before if path in found else effect.get("before")
            found[path] = Changed(path, before, effect.get("after"))
    return tuple(one for _, one in sorted(found.items()) if one.before != one.after)


def usage_of(episodes: Sequence[Episode]) -> Usage:
    """Usage with that of its own subagents."""
    spent = Usage()
    for episode in episodes:
        if isinstance(episode, Answered):
            spent += episode.message.usage
        elif isinstance(episode, Resulted) and isinstance(episode.result.spawned, Spawned):
            spent += episode.result.spawned.usage
    return spent


def report_of(
    who: str, outcome: str, episodes: Sequence[Episode], spawned: Spawned, item_id: str, outputs: Outputs | None, note: str = ""
) -> tuple[str, str]:  # fmt: skip
    """Return the report, and the handle of the last answer if that is too long for the report. ``note`` is added text."""
    ended = next((one for one in reversed(episodes) if isinstance(one, Ended)), None)
    usage = spawned.usage
    cost = f", ${usage.cost / 1e6:.4f}" if usage.cost else ""
    steps = f"{spawned.steps} step{'s' * (spawned.steps != 1)}"
    lines = [f"{who} {_HOW[outcome]}; {steps}, {usage.prompt_tokens + usage.completion_tokens:,} tokens{cost}."]
    if ended is not None and ended.note and outcome in ("parked", "cancelled"):
        lines.append(ended.note)
    lines += [note] if note else []
    changed = changes_in(episodes)
    if changed:
        more = f" and {len(changed) - _PATHS_SHOWN:,} more" if len(changed) > _PATHS_SHOWN else ""
        lines.append(f"changed: {', '.join(map(str, changed[:_PATHS_SHOWN]))}{more}")
    pages = f"@periplus/sessions/{item_id}"
    lines.append(
        f"session {spawned.session}: {pages}/turns/1.md shows what it did, {pages}/trail/1/ the output of its calls"
    )
    text = ended.text.strip() if ended is not None else ""
    if not text:
        return "\n".join([*lines, "It gave no final answer."]), ""
    handle = ""
    if len(text) > REPORT_CHARACTERS_MAX and outputs is not None:
        handle = outputs.keep(text)
        text = shorten(text, handle, REPORT_CHARACTERS_MAX)
    said = "Its report:" if outcome == "done" else "Its last answer, before it was done:"
    return "\n".join([*lines, "", said, text]), handle
