"""Written form of the working state and of a turn's tail."""

from __future__ import annotations

__all__ = ["commitments", "sections", "tail_text"]

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from periplus.agent.episodes import Requested
from periplus.agent.tape.entries import OutsideEntry
from periplus.agent.tape.fence import cut_text, fence
from periplus.agent.tape.slice import MAIN_TOPIC, Topics
from periplus.agent.tape.slice_fields import FIELDS
from periplus.agent.tape_notes import Fact, FilePatch, Known, TailNote

_KEPT: Final = frozenset(field.name for field in FIELDS if field.is_kept)
_KNOWN_CHARACTERS: Final = 600


def sections(topics: Topics) -> dict[str, str]:
    """The non-empty parts of the working state by field name, as the model sees them."""
    now = topics.current
    found = {
        "topic": f"topic: {now.topic}{f' ({now.title})' if now.title else ''}" if now.topic != MAIN_TOPIC else "",
        "mission": f"mission: {now.mission}" if now.mission else "",
        "rules": _listed("rules (these hold for the whole session)", topics.rules),
        "requirements": _listed(
            "requirements", [f"[{'x' if done else ' '}] {text}" for text, done in now.requirements.items()]
        ),
        "plan": _listed("plan", [f"[{state}] {text}" for text, state in now.plan.items()]),
        "findings": _listed("findings", [f"({tier}) {text}" for text, tier in now.findings.items()]),
        "world": _listed("known of the world", [f"{name}: {value}" for name, value in now.world.items()]),
        "skills": f"skills in use: {', '.join(topics.skills)}" if topics.skills else "",
        "open_report": f"still failing:\n{fence(now.open_report, 'check')}" if now.open_report else "",
        "last_error": f"last error:\n{fence(now.last_error, 'tool')}" if now.last_error else "",
    }
    return {name: text for name, text in found.items() if text}


def commitments(topics: Topics) -> str:
    """The parts that a fold must keep word for word."""
    return "\n".join(text for name, text in sections(topics).items() if name in _KEPT)


def tail_text(
    request: Requested,
    tail: TailNote,
    outside: Sequence[FilePatch],
    changed: Mapping[str, str],
    gone: Sequence[str],
    instructions: Sequence[str] = (),
) -> str:
    """The message that begins a turn: the present state, then the request."""
    lines = [_fact(fact) for fact in tail.facts]
    lines += instructions
    lines += changed.values()
    lines += [f"{name}: none any more" for name in gone]
    lines += [OutsideEntry(turn=request.turn, patch=patch).text() for patch in outside]
    lines += [_knowledge(one) for one in tail.knowledge]
    if not lines:
        return request.text
    return f"<context>\n{chr(10).join(lines)}\n</context>\n\n{request.text}"


def _fact(fact: Fact) -> str:
    quoted = f"\n{fence(fact.quoted, fact.name)}" if fact.quoted else ""
    return f"{fact.name}: {fact.text}{quoted}"


def _knowledge(known: Known) -> str:
    text = cut_text(known.preview, _KNOWN_CHARACTERS, known.handle)
    return fence(text, f"{known.handle} ({known.kind})") if known.untrusted else f"{known.kind} {known.handle}: {text}"


def _listed(name: str, items: Iterable[str]) -> str:
    lines = [f"- {item}" for item in items]
    return "\n".join([f"{name}:", *lines]) if lines else ""
