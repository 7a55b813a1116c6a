"""Sections of a brief about work in progress: claims, agents at work, mail, handoffs, ready steps, and stuck work."""

from __future__ import annotations

__all__ = ["work_sections"]

from collections.abc import Mapping

from periplus.journal import Entity, Journal, Writer
from periplus.memory.briefing.brief_lines import BriefLine, BriefSection
from periplus.memory.claim_status import holds, live_claims, scopes_of, waiting_claims
from periplus.memory.coordination.claims import claimed_words
from periplus.memory.coordination.dispatch_overview import (
    assigned_steps,
    assignment_words,
    assignments_at_work,
    earlier_attempts,
    is_worker,
    left_assignments,
    left_words,
    paths_of,
)
from periplus.memory.coordination.handoffs import handoffs
from periplus.memory.coordination.mail import mail
from periplus.memory.coordination.plans import ready_steps
from periplus.memory.coordination.stuck_work import Stuck, stuck_work
from periplus.memory.scopes import first_overlap

_MOST = 6
_CHARACTERS = 300
_TEXT_MIN = 12  # a shorter text of a step stands in many a task by chance


def work_sections(journal: Journal, writer: Writer, now_ms: int, task: str = "") -> list[BriefSection]:
    """Return the sections for ``writer``, the most pressing first; empty sections are included. ``task`` says which step
    it is about.
    """
    journal.refresh()
    live = live_claims(journal, now_ms)
    agents = [one for one in assignments_at_work(journal) if not is_worker(journal, writer, one)]
    told = {one.value.get("claim") for one in agents}
    claims = [claim for claim in live if not holds(writer, claim) and claim.item_id not in told]
    mine = [scope for claim in live if holds(writer, claim) for scope in scopes_of(claim)]
    asked = [
        one for one in waiting_claims(journal, now_ms) if not holds(writer, one) and first_overlap(mine, scopes_of(one))
    ]
    passed_on = [one for one in handoffs(journal, recipient=writer.name) if one.value.get("state") == "open"]
    left = left_assignments(journal)
    return [
        _section(
            "Claims of others",
            [(_waits(one), one) for one in asked] + [(_claim(claim), claim) for claim in claims],
            "periplus claim list",
        ),
        _section("Other agents at work", [(_agent(journal, one), one) for one in agents], "periplus who"),
        _section("Earlier attempts at this step", _attempts(journal, writer, task, left), "periplus dispatch list"),
        _section("Mail for you", [(_mail(one), one) for one in mail(journal, writer.name)], "periplus inbox mail"),
        _section("Handoffs", [(_handoff(one), one) for one in passed_on], "periplus handoff list", 1),
        _section("Ready plan steps", [(_ready(one, left), one) for one in ready_steps(journal)], "periplus plan ready"),
        _section("Stuck work", [(_stuck(one), one.entity) for one in stuck_work(journal)], "periplus review"),
    ]


def _attempts(journal: Journal, writer: Writer, task: str, left: Mapping[str, Entity]) -> list[tuple[str, Entity]]:
    """Return how assignments of the steps that ``writer`` does, or that ``task`` names, ended without result: their work
    still lies somewhere.
    """
    found = []
    mine = assigned_steps(journal, writer) if left or task else []
    wanted = " ".join(task.split())
    for step, assignment in left.items():
        text = " ".join(str(assignment.value.get("text", "")).split())
        is_told = text == wanted if len(text) < _TEXT_MIN else text in wanted
        if step in mine or step in wanted or (text and is_told):
            found.append((f"{_text(assignment)}: {left_words(assignment)}", assignment))
    for one in assignments_at_work(journal):
        if is_worker(journal, writer, one):
            found += [(said, one) for said in earlier_attempts(one)]
    return found


def _section(title: str, found: list[tuple[str, Entity]], more: str, most: int = _MOST) -> BriefSection:
    lines = tuple(BriefLine(f"- {text} [{entity.item_id}]", entity.item_id) for text, entity in found[:most])
    return BriefSection(title, lines, max(0, len(found) - most), more)


def _text(entity: Entity) -> str:
    text = " ".join(str(entity.value.get("text", "")).split())
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"


def _claim(claim: Entity) -> str:
    value = claim.value
    scopes = value.get("scopes")
    named = [", ".join(map(str, scopes))[:_CHARACTERS]] if isinstance(scopes, list) and scopes else []
    what = claimed_words(named, str(value.get("step", "")), str(value.get("text", "")))
    return (
        f"{value.get('holder')} ({value.get('mode', 'exclusive')}, until {str(value.get('expires', ''))[:16]}Z): {what}"
    )


def _waits(claim: Entity) -> str:
    scopes = claim.value.get("scopes")
    what = ", ".join(map(str, scopes))[:_CHARACTERS] if isinstance(scopes, list) else ""
    return f"{claim.value.get('holder')} waits for you to release {what}"


def _agent(journal: Journal, assignment: Entity) -> str:
    paths = ", ".join(paths_of(journal, assignment))[:_CHARACTERS]
    where = f" ({paths})" if paths else ""
    return f"{assignment_words(journal, assignment)}: {_text(assignment)}{where}"


def _ready(step: Entity, left: Mapping[str, Entity]) -> str:
    before = left.get(step.item_id)
    return f"{_text(step)}; tried before: {left_words(before)}" if before is not None else _text(step)


def _stuck(work: Stuck) -> str:
    return f"{work.words()}: {work.command}"


def _mail(message: Entity) -> str:
    wants = " (wants an answer)" if message.value.get("needs_answer") is True else ""
    return f"{message.value.get('sender')}{wants}: {_text(message)}"


def _handoff(handoff: Entity) -> str:
    unfinished = handoff.value.get("unfinished")
    left = (
        f"; to do: {'; '.join(map(str, unfinished))[:_CHARACTERS]}"
        if isinstance(unfinished, list) and unfinished
        else ""
    )
    return f"{handoff.value.get('author')}: {_text(handoff)}{left}"
