"""What belongs to a session: trails of its subagents, and memory that it taught, as rows."""

from __future__ import annotations

__all__ = ["Child", "TaughtRow", "children", "journal_mark", "taught"]

from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project

_TEXT_CHARACTERS_MAX: Final = 200


class Child(NamedTuple):
    """The session of a subagent."""

    id: str
    digest: str
    agent: str
    title: str
    steps: int
    status: str


class TaughtRow(NamedTuple):
    """Memory that a session taught; ``is_evidence`` is False where it only was written in the session."""

    id: str
    type: str
    state: str
    text: str
    is_evidence: bool
    steps: tuple[int, ...]


def journal_mark(project: Project) -> str:
    """Return a text that changes with each record that this process has read."""
    journal = project.journal
    return " ".join(f"{name}:{journal.end(name).next_seq}" for name in journal.lineages())


def children(project: Project, trail: Entity) -> tuple[Child, ...]:
    from periplus.project.trail_store.references import subagents_of

    return tuple(_child(one) for one in subagents_of(project, trail))


def _child(trail: Entity) -> Child:
    card = trail.value
    counts = card.get("counts")
    steps = counts.get("steps") if isinstance(counts, dict) else 0
    title, agent = " ".join(str(card.get("title", "")).split()), str(card.get("agent", ""))
    return Child(trail.item_id, str(card.get("digest", "")), agent[:80], title[:_TEXT_CHARACTERS_MAX] or trail.item_id,
                 steps if isinstance(steps, int) else 0, str(card.get("status", ""))[:40])  # fmt: skip


def taught(project: Project, trail: Entity) -> tuple[TaughtRow, ...]:
    from periplus.project.trail_store.references import taught_by

    rows = []
    for one in taught_by(project, trail):
        value = one.entity.value
        text = " ".join(str(value.get("text", "") or value.get("title", "")).split())
        rows.append(TaughtRow(one.entity.item_id, one.entity.item_type, str(value.get("state", ""))[:40],
                              text[:_TEXT_CHARACTERS_MAX], one.why == "evidence", one.steps))  # fmt: skip
    return tuple(rows)
