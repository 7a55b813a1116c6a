"""The table of loops: phases with their role, the number of agents apart, the artifact that each hands in, and the gate behind it.

Pure: the supervisor collects evidence, asks ``next_phase``, and goes on where the gate is satisfied. What is missing goes back to the agents
in words. A review that asks for changes leads back to the author; the supervisor bounds the rounds.
"""

from __future__ import annotations

__all__ = ["LOOPS", "Gate", "LoopKind", "Phase", "next_phase", "phase_of"]

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import UsageError
from periplus.dispatch.handover.result_file import AnswerKind
from periplus.dispatch.loops import gates
from periplus.dispatch.loops.artifacts import (
    Answers,
    Artifact,
    Critiques,
    Hypotheses,
    Isolation,
    Proposal,
    Questions,
    Repair,
    Report,
    Reproduction,
    Sources,
    Synthesis,
    Verdict,
)
from periplus.dispatch.loops.evidence import Evidence

LoopKind: TypeAlias = Literal["review", "ideation", "debug", "research"]
AGENTS_MAX: Final = 8
_EDITORS: Final = ("implementer", "tester")


class Phase(NamedTuple):
    """A phase. ``role`` is empty where the order says all. ``agents`` work apart: none sees another's artifact of the phase. ``schema`` tells
    an agent what its artifact holds; ``missing`` is the gate.
    """

    name: str
    role: str
    agents: int
    order: str
    artifact: type[Artifact]
    schema: str
    missing: Callable[[Evidence, int], gates.Missing]
    answer: AnswerKind = "result"

    @property
    def is_read_only(self) -> bool:
        """Return whether the phase changes no file; ``Work.is_read_only`` of the prompt follows it."""
        return self.role not in _EDITORS


class Gate(NamedTuple):
    """The state of a gate: what is missing, in words. ``phase`` is the one that follows, empty at the end of the loop and while it is shut."""

    satisfied: bool
    missing: tuple[str, ...]
    phase: str = ""


_EXAMINED: Final = 'an object {"examined": ["path:line", …]} with a place that you looked at in each changed file'
_REVIEW: Final = (
    Phase("findings", "reviewer", 1, "Review the change.", Verdict, _EXAMINED, gates.review_missing, "review"),
    Phase("answer", "implementer", 1, "Answer each finding of the review: fix it, or decline it with the reason.", Answers,
          'an object {"answers": [{"finding": 1, "answer": "fixed" or "declined", "text": "…"}]} with the numbers of the findings', gates.answers_missing),
    Phase("verdict", "reviewer", 1, "Judge the answers and the changed work: is each blocking finding settled?", Verdict,
          'an object {"settled": [1, …], "examined": ["path:line", …]}: the findings that are settled, and a place that you looked at in each changed file', gates.verdict_missing, "review"),
)  # fmt: skip
_IDEATION: Final = (
    Phase("proposals", "", 3, "Propose one way to do it, on your own: the idea, the steps, what it costs, how it could fail. Change nothing.", Proposal,
          'an object {"title": "…", "text": "…"}', gates.proposals_missing),
    Phase("critiques", "", 3, "Judge each proposal but your own: what is wrong or missing, what would break, what is better than elsewhere. Change nothing.", Critiques,
          'an object {"critiques": [{"proposal": 1, "text": "…"}]} with the numbers of the proposals', gates.critiques_missing),
    Phase("synthesis", "", 1, "Make one proposal of the best parts, and answer the critiques. Change nothing.", Synthesis,
          'an object {"text": "…", "uses": [{"proposal": 1, "use": "taken" or "left", "reason": "…"}]} with each proposal', gates.synthesis_missing),
)  # fmt: skip
_DEBUG: Final = (
    Phase("reproduce", "tester", 1, "Find a command that fails because of the fault, and only because of it. Commit the test that it runs, if it needs one.", Reproduction,
          'an object {"argv": ["pytest", "…"], "symptom": "…"}: the command, and a text of its output by which the fault is known', gates.reproduction_missing),
    Phase("hypotheses", "", 1, "Name possible causes, each with the test that would tell it from the others. Change nothing.", Hypotheses,
          'an object {"hypotheses": [{"cause": "…", "test": "…"}]}, two at least', gates.hypotheses_missing),
    Phase("isolate", "", 1, "Carry out the tests and find the place of the cause. Change nothing.", Isolation,
          'an object {"place": "path:line", "hypothesis": 1, "reason": "…"}: where the cause is, and which hypothesis that proves', gates.isolation_missing),
    Phase("fix", "implementer", 1, "Repair the cause where it is. The command that failed has to pass, unchanged.", Repair,
          'an object {"reason": "…"}: what was wrong, and why this repairs it', gates.fix_missing),
)  # fmt: skip
_RESEARCH: Final = (
    Phase("questions", "", 1, "Split the task into questions that can be answered apart. Change nothing.", Questions,
          'an object {"questions": ["…", "…"]}, two at least', gates.questions_missing),
    Phase("findings", "", 2, "Answer the questions from sources that you have read. Change nothing.", Sources,
          'an object {"findings": [{"question": 1, "claim": "…", "sources": ["path:line", "https://…"]}]}', gates.sources_missing),
    Phase("synthesis", "", 1, "Conclude from the findings, question by question. Say what stays open. Change nothing.", Report,
          'an object {"conclusions": [{"question": 1, "text": "…", "findings": [1, …]}]}; no findings where a question stays open', gates.report_missing),
)  # fmt: skip

LOOPS: Final[Mapping[LoopKind, tuple[Phase, ...]]] = {
    "review": _REVIEW,
    "ideation": _IDEATION,
    "debug": _DEBUG,
    "research": _RESEARCH,
}


def phase_of(kind: LoopKind, name: str) -> Phase:
    """Return a phase of a loop. Raises UsageError."""
    if kind not in LOOPS:
        raise UsageError(f"there is no loop {kind!r}", mend=f"There are {', '.join(LOOPS)}.")
    found = next((one for one in LOOPS[kind] if one.name == name), None)
    if found is None:
        raise UsageError(
            f"the loop {kind} has no phase {name!r}", mend=f"It has {', '.join(one.name for one in LOOPS[kind])}."
        )
    return found


def next_phase(kind: LoopKind, phase: str, evidence: Evidence) -> Gate:
    """Judge the gate of a phase, and say which phase follows. Raises UsageError for a phase that there is not."""
    row = phase_of(kind, phase)
    agents = min(evidence.agents, AGENTS_MAX) if evidence.agents > 0 and row.agents > 1 else row.agents
    missing = row.missing(evidence, agents)
    if missing:
        return Gate(satisfied=False, missing=missing)
    if kind == "review" and not _is_answer_needed(phase, evidence):
        return Gate(satisfied=True, missing=())
    if kind == "review" and phase == "verdict":
        return Gate(satisfied=True, missing=(), phase="answer")
    names = [one.name for one in LOOPS[kind]]
    following = names[names.index(phase) + 1 :]
    return Gate(satisfied=True, missing=(), phase=following[0] if following else "")


def _is_answer_needed(phase: str, evidence: Evidence) -> bool:
    """Test whether a review goes on: after an approval there is nothing to answer."""
    given = [
        one.artifact
        for one in evidence.artifacts
        if one.phase == phase and isinstance(one.artifact, Verdict) and one.agent != evidence.author
    ]
    if phase == "answer":
        return True
    return any(one.verdict == "changes" for one in (given[-1:] if phase == "verdict" else given))
