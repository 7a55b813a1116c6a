"""Slash commands that change a session: topics, folds, the mode, undoing file changes. They run in the session's thread, between turns."""

from __future__ import annotations

__all__ = ["SESSION_COMMANDS", "do_command"]

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.agent.policies.permission import MODES
from periplus.agent.tape_notes import TopicNote
from periplus.base.errors import UsageError

if TYPE_CHECKING:
    from periplus.agent.assembly import AgentSession

Command: TypeAlias = Callable[["AgentSession", Sequence[str]], list[str]]
_TOPIC: Final = "/topic new NAME [title], /topic switch NAME, /topic park|done|abandon [NAME], /topic list"


def do_command(session: AgentSession, text: str) -> list[str]:
    """Run a slash command and return what to print. Raises PeriplusError, without having changed anything."""
    name, *words = text.split()
    return SESSION_COMMANDS[name](session, words)


def _undo(session: AgentSession, words: Sequence[str]) -> list[str]:
    if not set(words) <= {"all", "merge"}:
        raise UsageError(f"/undo does not take {' '.join(words)!r:.80}", safe="Nothing was changed.",
                         mend="/undo, /undo all (include changes made while commands ran), /undo merge (keep later changes)")  # fmt: skip
    done = session.take_back(with_seen="all" in words, is_merging="merge" in words)
    told = [f"restored: {', '.join(done.paths) or 'nothing'}"]
    if done.merged:
        told.append(f"later changes kept in: {', '.join(done.merged)}")
    if done.left:
        told.append(f"not restored: {', '.join(done.left)}")
        told.append("they changed while a command ran; /undo all restores them, too")
    return told


def _fold(session: AgentSession, words: Sequence[str]) -> list[str]:
    _no_more("/fold", words)
    before = session.tape.state.tokens
    session.fold()
    return [f"folded from about {before:,} to {session.tape.state.tokens:,} tokens; /unfold undoes this"]


def _unfold(session: AgentSession, words: Sequence[str]) -> list[str]:
    _no_more("/unfold", words)
    session.unfold()
    return [f"unfolded: about {session.tape.state.tokens:,} tokens"]


def _mode(session: AgentSession, words: Sequence[str]) -> list[str]:
    if not words:
        return [f"{'*' if name == session.mode else ' '} {name:10} {what}" for name, what in MODES.items()]
    found = next((name for name in MODES if [name] == list(words)), None)
    if found is None:
        raise UsageError(f"unknown mode {' '.join(words)!r:.80}", safe="Nothing was changed.",
                         mend=f"Modes: {', '.join(MODES)}.")  # fmt: skip
    session.set_mode(found)
    return [f"{found}: {MODES[found]}"]


def _topic(session: AgentSession, words: Sequence[str]) -> list[str]:
    action, *rest = words or ["list"]
    topics = session.tape.state.topics
    current = topics.current.topic
    if action == "list" and not rest:
        return [
            f"{'*' if one.task_id == current else ' '} {one.task_id}  {one.status}  {one.title}".rstrip()
            for one in topics.refs()
        ]
    if action == "new" and rest:
        session.note(TopicNote(action="new", topic=rest[0], title=" ".join(rest[1:])))
        return [f"on {rest[0]}; {current} is parked"]
    if action == "switch" and len(rest) == 1:
        session.note(TopicNote(action="switch", topic=rest[0]))
        return [f"on {rest[0]}" + (f"; {current} is parked" if current != rest[0] else "")]
    if action in ("park", "done", "abandon") and len(rest) <= 1:
        session.note(TopicNote(action=action, topic=rest[0] if rest else current))  # type: ignore[arg-type]  # one of the three
        now = session.tape.state.topics
        left = rest[0] if rest else current
        return [f"{left} is {now.slices[left].status}; on {now.current.topic}"]
    raise UsageError("unknown command for topics", safe="Nothing was changed.", mend=_TOPIC)


def _no_more(name: str, words: Sequence[str]) -> None:
    if words:
        raise UsageError(f"{name} takes no arguments", safe="Nothing was changed.")


SESSION_COMMANDS: Final[Mapping[str, Command]] = {
    "/undo": _undo, "/fold": _fold, "/unfold": _unfold, "/mode": _mode, "/topic": _topic,
}  # fmt: skip
