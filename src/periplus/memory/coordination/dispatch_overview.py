"""The state of dispatched work, derived from its records: who works on which step, what it costs, who carries it.

An assignment is at work here while its own state and that of its dispatch are open and this clone wrote it last: only the
clone whose supervisor carries a dispatch changes the state of its assignments. Those of other clones are told as theirs.
"""

from __future__ import annotations

__all__ = [
    "DispatchProgress",
    "Spent",
    "assigned_steps",
    "assignment_words",
    "assignments_at_work",
    "assignments_by_step",
    "earlier_attempts",
    "is_of_another_clone",
    "is_worker",
    "left_assignments",
    "left_words",
    "newest_assignment",
    "open_progress",
    "paths_of",
    "since",
    "spent_of",
    "supervisor_of",
]

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from periplus.base.encoding.canonical import JSONValue
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, Journal, Writer
from periplus.memory.coordination.assignments import OPEN_STATES, is_at_work
from periplus.memory.coordination.dispatches import open_dispatches
from periplus.memory.coordination.plans import steps_of
from periplus.memory.entities.types import MEMORY_TYPES, is_ended
from periplus.memory.fulltext.links import linked

Supervisor: TypeAlias = Literal["alive", "gone", "elsewhere"]
_LEFT: Final = MEMORY_TYPES["assignment"].ended_states - {"integrated"}
_REASON_CHARACTERS: Final = 200
_SUMMED: Final = ("tokens_in", "cached", "out", "cost", "wall_ms")


class Spent(NamedTuple):
    """Sums of work: tokens, cost in millionths of a dollar, and time."""

    tokens_in: int = 0
    cached: int = 0
    out: int = 0
    cost: int = 0
    wall_ms: int = 0

    def plus(self, other: Spent) -> Spent:
        return Spent(*(one + more for one, more in zip(self, other, strict=True)))

    def words(self) -> str:
        """Return the sums as text for people; parts that are 0 are left out."""
        tokens = self.tokens_in + self.cached + self.out
        dollars = self.cost / 1_000_000
        seconds = self.wall_ms // 1000
        time = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
        if seconds >= 7200:
            time = f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
        parts = [f"{tokens:,} tokens"] if tokens else []
        parts += [f"${dollars:,.{2 if dollars >= 1 else 4}f}"] if self.cost else []
        return ", ".join(parts + ([time] if self.wall_ms else []))


class DispatchProgress(NamedTuple):
    """An open dispatch: how many of its steps are done, and its supervisor; ``elsewhere`` is one on another machine or of
    another clone, ``alive`` also one that cannot be judged from here.
    """

    dispatch: Entity
    done: int
    steps: int
    supervisor: Supervisor

    def words(self) -> str:
        """Return the progress as text, with the command that goes on with what nobody carries."""
        said = f"{self.done} of {self.steps} steps done"
        if self.supervisor == "gone":
            return f"{said}, supervisor gone: periplus dispatch start --resume {self.dispatch.item_id}"
        return f"{said}, supervisor {'of another clone' if self.supervisor == 'elsewhere' else 'alive'}"


def assignments_at_work(journal: Journal) -> list[Entity]:
    """Return the assignments at work in all clones, whose dispatch is open; the oldest first."""
    journal.refresh()
    found = [one for one in linked(journal, "assignment", "state", *sorted(OPEN_STATES)) if _is_carried(journal, one)]
    return sorted(found, key=_by_age)


def assignments_by_step(journal: Journal, plans: Iterable[str]) -> dict[str, list[Entity]]:
    """Return the assignments of plans by the id of their step, of all dispatches, the oldest first."""
    found: dict[str, list[Entity]] = {}
    for plan in dict.fromkeys(plans):
        for dispatch in linked(journal, "dispatch", "plan", plan):
            for one in linked(journal, "assignment", "dispatch", dispatch.item_id):
                found.setdefault(str(one.value.get("step", "")), []).append(one)
    return {step: sorted(of_it, key=_by_age) for step, of_it in found.items()}


def newest_assignment(assignments: Sequence[Entity]) -> Entity | None:
    """Return the assignment of a step that is at work, else the newest; None where there is none."""
    return max(assignments, key=lambda one: (is_at_work(one), *_by_age(one)), default=None)


def open_progress(journal: Journal) -> list[DispatchProgress]:
    """Return the open dispatches of all clones, the oldest first."""
    found = []
    for dispatch in open_dispatches(journal):
        steps = steps_of(journal, str(dispatch.value.get("plan", "")))
        done = sum(step.value.get("state") == "done" for step in steps)
        found.append(DispatchProgress(dispatch, done, len(steps), supervisor_of(journal, dispatch)))
    return found


def is_of_another_clone(journal: Journal, entity: Entity) -> bool:
    """Return True where another clone wrote an assignment or a dispatch last: it is theirs."""
    return entity.lineage != journal.lineage


def is_worker(journal: Journal, writer: Writer, assignment: Entity) -> bool:
    """Return True where ``writer`` is the agent that works on an assignment: the holder of its claim."""
    claim = journal.as_read("claim", str(assignment.value.get("claim", "")))
    return claim is not None and writer.name == claim.value.get("holder")


def assigned_steps(journal: Journal, writer: Writer) -> list[str]:
    """Return the ids of the steps that ``writer`` works on, by its assignments at work and by its claims."""
    steps = [str(one.value.get("step", "")) for one in assignments_at_work(journal) if is_worker(journal, writer, one)]
    claims = [one for one in linked(journal, "claim", "holder_id", writer.id) if one.value.get("state") == "held"]
    return list(dict.fromkeys([*steps, *(str(one.value.get("step", "")) for one in claims if one.value.get("step"))]))


def since(assignment: Entity) -> str:
    """Return the time at which the present run began; of an assignment without one, that of its last change."""
    value = assignment.value
    runs = [one for one in _objects(value.get("runs")) if one.get("id") == value.get("run")]
    return str((runs[-1].get("started") if runs else "") or value.get("updated", ""))


def paths_of(journal: Journal, assignment: Entity) -> list[str]:
    """Return the scopes that an assignment has claimed."""
    claim = journal.as_read("claim", str(assignment.value.get("claim", "")))
    scopes = claim.value.get("scopes") if claim is not None else None
    return list(map(str, scopes)) if isinstance(scopes, list) else []


def spent_of(assignment: Entity) -> Spent:
    """Return the sums that an assignment states."""
    held = [assignment.value.get(name, 0) for name in _SUMMED]
    return Spent(*(one if isinstance(one, int) else 0 for one in held))


def assignment_words(journal: Journal, assignment: Entity) -> str:
    """Return who does a step and how far it is, as text: ``codex running since …, attempt 2``."""
    value = assignment.value
    attempt = value.get("attempt", 1)
    again = f", attempt {attempt}" if isinstance(attempt, int) and attempt > 1 else ""
    state = str(value.get("state", "")).replace("_", " ")
    began = f" since {since(assignment)[:16]}Z" if is_at_work(assignment) and since(assignment) else ""
    whose = " in another clone" if is_of_another_clone(journal, assignment) else ""
    reason = f" ({_short(value.get('reason'))})" if value.get("reason") and not is_at_work(assignment) else ""
    return f"{value.get('agent')} {state}{whose}{began}{again}{reason}"


def left_assignments(journal: Journal) -> dict[str, Entity]:
    """Return the newest assignment, by the id of its step, of each open step that no agent is at work on any more."""
    found: dict[str, Entity] = {}
    for one in sorted(linked(journal, "assignment", "state", *sorted(_LEFT)), key=_by_age):
        step = journal.as_read("step", str(one.value.get("step", "")))
        if step is not None and not is_ended("step", step.value.get("state")):
            found[step.item_id] = one
    if found:
        for one in assignments_at_work(journal):
            found.pop(str(one.value.get("step", "")), None)
    return found


def earlier_attempts(assignment: Entity) -> list[str]:
    """Return the attempts at a step that ended without result before the present one, as text."""
    value = assignment.value
    ended = [one for one in _objects(value.get("returns")) if one.get("why") == "attempt"]
    lies = f"; its work is on the branch {value.get('branch')}" if value.get("branch") else ""
    return [
        f"attempt {number} ended: {_short(one.get('text') or 'no reason is known')}{lies}"
        for number, one in enumerate(ended, 1)
    ]


def left_words(assignment: Entity) -> str:
    """Return how an assignment ended without result and where its work lies, as text; empty for any other."""
    value = assignment.value
    if value.get("state") not in _LEFT:
        return ""
    ended = str(value.get("state", "")).replace("_", " ")
    why = f" ({_short(value.get('reason'))})" if value.get("reason") else ""
    places = [f"the {name} {value[name]}" for name in ("branch", "worktree") if value.get(name)]
    lies = f"; its work is on {', in '.join(places)}" if places else ""
    return f"{value.get('agent')} {ended}{why}{lies}: periplus dispatch show {assignment.item_id}"


def supervisor_of(journal: Journal, dispatch: Entity) -> Supervisor:
    """Return the state of the process that carries a dispatch: ``alive`` also where that cannot be judged from here."""
    from periplus.base.process.process_marks import ProcessMark, is_gone

    held = dispatch.value.get("process")
    process = held if isinstance(held, dict) else {}
    pid, host = process.get("pid"), process.get("host")
    if is_of_another_clone(journal, dispatch) or host not in (None, os.uname().nodename):
        return "elsewhere"
    if not isinstance(pid, int):
        return "gone"
    mark = ProcessMark(pid, *(str(process.get(name, "")) for name in ("started", "boot", "host", "space")))
    return "gone" if is_gone(mark, journal.files) else "alive"


# -- inside -------------------------------------------------------------------------------------------------------------


def _is_carried(journal: Journal, assignment: Entity) -> bool:
    dispatch = journal.as_read("dispatch", str(assignment.value.get("dispatch", "")))
    return dispatch is not None and dispatch.value.get("state") == "open"


def _by_age(one: Entity) -> tuple[str, str]:
    return str(one.value.get("created", "")), one.item_id


def _objects(held: JSONValue) -> list[Mapping[str, JSONValue]]:
    return [one for one in held if isinstance(one, dict)] if isinstance(held, list) else []


def _short(text: object) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _REASON_CHARACTERS else f"{line[: _REASON_CHARACTERS - 1]}…"
