"""Documents and lines about dispatched work, shared by the commands that show it beside other work."""

from __future__ import annotations

__all__ = [
    "agent_lines",
    "agents_at_work",
    "progress_lines",
    "progress_outs",
    "question_lines",
    "question_outs",
    "spent_out",
    "step_assignment",
]

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from periplus.cli.common.dispatch_schemas import (
    AgentAtWorkOut,
    DispatchProgressOut,
    SpentOut,
    StepAssignmentOut,
    WaitingQuestionOut,
)
from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.memory.coordination.dispatch_overview import DispatchProgress, Spent
    from periplus.project import Project
    from periplus.project.knowledge.dispatched_work import StepWork


def spent_out(spent: Spent) -> SpentOut:
    return SpentOut(*spent)


def step_assignment(project: Project, work: StepWork) -> StepAssignmentOut:
    from periplus.memory.coordination.dispatch_overview import since

    assignment, value = work.assignment, work.assignment.value
    text = {name: str(value.get(name, "")) for name in ("dispatch", "agent", "state", "reason", "branch", "worktree")}
    return StepAssignmentOut(
        assignment.item_id, text["dispatch"], text["agent"], text["state"], _attempt(assignment), since(assignment),
        project.work.dispatched.is_of_another_clone(assignment), text["reason"], text["branch"], text["worktree"],
        spent_out(work.spent),
    )  # fmt: skip


def agents_at_work(project: Project) -> list[AgentAtWorkOut]:
    from periplus.memory.coordination.dispatch_overview import since

    found, work = [], project.work.dispatched
    for one in work.at_work():
        text = {name: str(one.value.get(name, "")) for name in ("dispatch", "step", "text", "agent", "state")}
        found.append(AgentAtWorkOut(
            one.item_id, text["dispatch"], text["step"], text["text"], text["agent"], text["state"], _attempt(one), since(one),
            work.paths(one), work.is_of_another_clone(one),
        ))  # fmt: skip
    return found


def agent_lines(face: Face, agents: Sequence[AgentAtWorkOut]) -> Iterator[str]:
    paint = face.palette
    for one in agents:
        whose = " in another clone" if one.theirs else ""
        began = f" since {one.since[:16]}Z" if one.since else ""
        again = f", attempt {one.attempt}" if one.attempt > 1 else ""
        text = visible(" ".join(one.text.split()))
        where = f" ({visible(', '.join(one.paths))})" if one.paths else ""
        yield f"{paint.name}{visible(one.agent)}{paint.end} {visible(one.state)}{whose}{began}{again}: {text}{where} [{one.id}]"


def progress_outs(progress: Sequence[DispatchProgress]) -> list[DispatchProgressOut]:
    found = []
    for one in progress:
        value, item_id = one.dispatch.value, one.dispatch.item_id
        resume = f"periplus dispatch start --resume {item_id}" if one.supervisor == "gone" else ""
        found.append(DispatchProgressOut(
            item_id, str(value.get("text", "")), str(value.get("plan", "")), one.done, one.steps, one.supervisor, resume,
        ))  # fmt: skip
    return found


def progress_lines(face: Face, progress: Sequence[DispatchProgress]) -> Iterator[str]:
    paint = face.palette
    for one in progress:
        text = visible(" ".join(str(one.dispatch.value.get("text", "")).split()))
        yield f"{paint.name}{one.dispatch.item_id}{paint.end} {text}: {one.words()}"


def question_outs(questions: Sequence[Entity]) -> list[WaitingQuestionOut]:
    found = []
    for one in questions:
        value, held = one.value, one.value.get("options")
        names = ("state", "text", "asker", "dispatch", "assignment", "answer", "answered_by", "created", "expires")
        text = {name: str(value.get(name, "")) for name in names}
        command = f"periplus dispatch answer {one.item_id} TEXT" if text["state"] == "open" else ""
        found.append(WaitingQuestionOut(
            one.item_id, text["state"], text["text"], list(map(str, held)) if isinstance(held, list) else [], text["asker"],
            text["dispatch"], text["assignment"], text["answer"], text["answered_by"], text["created"], text["expires"], command,
        ))  # fmt: skip
    return found


def question_lines(face: Face, questions: Sequence[WaitingQuestionOut]) -> Iterator[str]:
    paint = face.palette
    for one in questions:
        of = f", about {one.assignment}" if one.assignment else ""
        told = f"answered by {visible(one.answered_by)}" if one.state == "answered" else "waits for an answer"
        yield f"{paint.name}{one.id}{paint.end} {visible(one.asker or 'a dispatch')} asks{of}; {told}"
        options = f" ({' / '.join(map(visible, one.options))})" if one.options else ""
        yield f"  {visible(' '.join(one.text.split()))}{options}"
        yield f"  answer: {visible(' '.join(one.answer.split()))}" if one.answer else f"  Next: {one.command}"


def _attempt(assignment: Entity) -> int:
    held = assignment.value.get("attempt", 1)
    return held if isinstance(held, int) else 1
