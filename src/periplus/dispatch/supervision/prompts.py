"""Prompts of agents: the order for a run, from the plan, the brief, the role and what came back before."""

from __future__ import annotations

__all__ = ["prompt_of"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.dispatch.handover.result_file import Finding
from periplus.dispatch.handover.returns import AnsweredQuestion, ReviewFindings, UnusableResult
from periplus.dispatch.handover.review_prompt import Review, ReviewRound, review_prompt
from periplus.dispatch.handover.work_prompt import PROMPT_TOKENS, Limits, Work, round_prompt, work_prompt
from periplus.dispatch.roles.role_files import SECTIONS
from periplus.dispatch.supervision.workplace import Workplace, shape
from periplus.memory.coordination.assignments import is_at_work
from periplus.memory.coordination.plans import scopes_of_step

if TYPE_CHECKING:
    from periplus.dispatch.handover.returns import Return
    from periplus.journal import Entity
    from periplus.memory.entities.schemas import Assignment, Attempt

BRIEF_TOKENS: Final = 2_500
DIFF_BYTES_MAX: Final = 400_000
_OTHERS_MAX: Final = 20
MATERIAL_TOKENS: Final = 24_000
_TITLES: Final = {
    "rules": "Rules to obey",
    "traps": "Traps",
    "files": "Files likely to change",
    "tests": "Tests to run",
}  # of a brief


def prompt_of(at: Workplace, assignment: Entity, run: Attempt, *, is_resumed: bool) -> str:
    """Return the prompt of a run. One that goes on in a session that has read the order is told only what is new."""
    value = shape(assignment)
    return _review(at, value, run) if run.purpose == "review" else _work(at, value, run, is_resumed=is_resumed)


def _work(at: Workplace, value: Assignment, run: Attempt, *, is_resumed: bool) -> str:
    order, role = at.order, at.options.roles.get(value.kind)
    sections = role.sections if role is not None else SECTIONS
    step = at.journal.get("step", value.step)
    paths = [scope.text for scope in scopes_of_step(step)] if step is not None else []
    work = Work(
        run=run.id, branch=value.branch, task=value.text, plan=_plan(at, value) if "plan" in sections else "", role=at.role(value.kind),
        paths=paths if "paths" in sections else (), others=_others(at, value) if "others" in sections and not order.loop else (),
        oracle=() if order.read_only else order.oracle, limits=_limits(at), returns=_returns(at, value), material=_material(at, value),
        answer=order.answer, artifact=order.artifact, is_read_only=order.read_only, commits=at.options.adapters[run.agent].commits,
    )  # fmt: skip
    budget = (role.budget_tokens if role is not None else PROMPT_TOKENS) + (MATERIAL_TOKENS if work.material else 0)
    # A run that was cut short may have ended before its session kept the order.
    is_known = is_resumed and not (value.returns and value.returns[-1].why == "attempt")
    return round_prompt(work, budget) if is_known else work_prompt(_briefed(at, work, sections), budget)


def _briefed(at: Workplace, work: Work, sections: Sequence[str]) -> Work:
    """Add what is known about the task: the whole brief, or those of its sections that the role wants."""
    brief = at.project.brief(work.task, budget_tokens=BRIEF_TOKENS)
    if "brief" in sections:
        return work._replace(brief=brief.text)
    lines = {one.title: [line.text for line in one.lines] for one in brief.sections}
    rules, traps, files, tests = (lines.get(_TITLES[name], []) if name in sections else [] for name in _TITLES)
    return work._replace(rules=rules, traps=traps, files=files, tests=tests)


def _material(at: Workplace, value: Assignment) -> str:
    """Return what the loop gives to this step of earlier phases."""
    digest = next((one.object for one in at.order.materials if one.step == value.step), "")
    return at.journal.load_object(digest).decode("utf-8", "replace") if digest else ""


def _review(at: Workplace, value: Assignment, run: Attempt) -> str:
    limits = at.order.limits
    rounds = [ReviewRound(_findings(value), value.summary)] if value.findings else []
    return review_prompt(
        Review(
            run=run.id, base=at.base_of(value, value.tip), tip=value.tip, task=value.text, plan=_plan(at, value), summary=value.summary,
            diff=at.repository.diff(at.base_of(value, value.tip), value.tip, DIFF_BYTES_MAX), role=at.role("reviewer"), brief=_brief(at, value.text),
            oracle=at.order.oracle, rounds=rounds, rounds_max=limits.rounds, limits=_limits(at),
        )
    )  # fmt: skip


def _brief(at: Workplace, task: str) -> str:
    return at.project.brief(task, budget_tokens=BRIEF_TOKENS).text


def _plan(at: Workplace, value: Assignment) -> str:
    plan = at.journal.get("plan", value.plan) if value.plan else None
    if plan is None:
        return ""
    rationale = str(plan.value.get("rationale", ""))
    return f"{plan.value.get('text', '')}{f': {rationale}' if rationale else ''}"


def _others(at: Workplace, value: Assignment) -> list[str]:
    """Return what others do now, a line each."""
    others = [one for one in map(shape, filter(is_at_work, at.assignments())) if one.step != value.step]
    return [f"{one.agent}: {one.text}" for one in others[:_OTHERS_MAX]]


def _limits(at: Workplace) -> Limits:
    limits = at.order.limits
    return Limits(limits.wall_s, limits.silence_s, limits.tokens, limits.cents)


def _findings(value: Assignment) -> tuple[Finding, ...]:
    return tuple(Finding(one.severity, one.text, one.path, one.line) for one in value.findings)


def _returns(at: Workplace, value: Assignment) -> Sequence[Return]:
    """Return why the work came back, the latest last, and how the attempt before this one ended."""
    made: list[Return] = []
    number = 0
    for one in value.returns:
        if one.why == "review":
            number += 1
            made.append(ReviewFindings(_findings(value), number, at.order.limits.rounds))
        elif one.why == "answer":
            question, _, answer = one.text.partition("\n")
            made.append(AnsweredQuestion(question, answer, ""))
        elif one.why == "attempt":
            made.append(
                UnusableResult(
                    f"An earlier attempt did not succeed; what it did is on this branch. It ended so: {one.text}"
                )
            )
        else:
            made.append(UnusableResult(one.text))
    return made
