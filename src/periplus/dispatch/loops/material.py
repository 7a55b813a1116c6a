"""Material of a phase: what earlier phases of its loop gave, as text for a prompt, with the numbers by which artifacts refer to it.

The text is of others and belongs in a fence. The numbers are those that ``gates`` count by.
"""

from __future__ import annotations

__all__ = ["material_for"]

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from periplus.dispatch.handover.returns import command_line, finding_lines
from periplus.dispatch.loops.artifacts import (
    Answers,
    Critiques,
    Hypotheses,
    Isolation,
    Proposal,
    Questions,
    Reproduction,
    Sources,
)
from periplus.dispatch.loops.evidence import Evidence
from periplus.dispatch.loops.gates import findings_of
from periplus.dispatch.loops.table import LoopKind, phase_of

OUTPUT_CHARACTERS_MAX: Final = 8_000


def material_for(kind: LoopKind, phase: str, evidence: Evidence, agent: str = "") -> str:
    """Return what ``agent`` has to know of earlier phases; of its own proposals it sees none. Empty for a first phase. Raises UsageError."""
    phase_of(kind, phase)
    pieces = [piece(evidence, agent) for piece in _PIECES.get((kind, phase), ())]
    return "\n\n".join(one for one in pieces if one)


def _findings(evidence: Evidence, agent: str) -> str:
    del agent
    return _titled("Findings", [finding_lines(findings_of(evidence))])


def _answers(evidence: Evidence, agent: str) -> str:
    del agent
    answers = [
        one.artifact for one in evidence.artifacts if one.phase == "answer" and isinstance(one.artifact, Answers)
    ]
    return _titled(
        "Answers of the author",
        [f"{one.finding}. {one.answer}: {_line(one.text)}" for one in answers[-1].answers] if answers else [],
    )


def _proposals(evidence: Evidence, agent: str) -> str:
    handed = [one for one in evidence.artifacts if one.phase == "proposals" and isinstance(one.artifact, Proposal)]
    rows = [
        f"{number}. {_line(one.artifact.title)}\n{one.artifact.text.strip()}"
        for number, one in enumerate(handed, 1)
        if isinstance(one.artifact, Proposal) and (not agent or one.agent != agent)
    ]
    return _titled("Proposals", rows, "\n\n")


def _all_proposals(evidence: Evidence, agent: str) -> str:
    del agent
    return _proposals(evidence, "")


def _critiques(evidence: Evidence, agent: str) -> str:
    del agent
    handed = [
        one.artifact for one in evidence.artifacts if one.phase == "critiques" and isinstance(one.artifact, Critiques)
    ]
    return _titled(
        "Critiques", [f"of proposal {one.proposal}: {_line(one.text)}" for many in handed for one in many.critiques]
    )


def _failure(evidence: Evidence, agent: str) -> str:
    del agent
    handed = [
        one.artifact
        for one in evidence.artifacts
        if one.phase == "reproduce" and isinstance(one.artifact, Reproduction)
    ]
    run = evidence.ran("reproduce", handed[-1].argv) if handed else None
    if run is None:
        return ""
    return _titled(
        f"This command fails (exit code {run.exit_code})",
        [command_line(run.argv), run.output[-OUTPUT_CHARACTERS_MAX:].strip("\n")],
    )


def _hypotheses(evidence: Evidence, agent: str) -> str:
    del agent
    handed = [
        one.artifact for one in evidence.artifacts if one.phase == "hypotheses" and isinstance(one.artifact, Hypotheses)
    ]
    causes = [one for many in handed for one in many.hypotheses]
    return _titled(
        "Hypotheses", [f"{number}. {_line(one.cause)} Test: {_line(one.test)}" for number, one in enumerate(causes, 1)]
    )


def _isolation(evidence: Evidence, agent: str) -> str:
    del agent
    handed = [
        one.artifact for one in evidence.artifacts if one.phase == "isolate" and isinstance(one.artifact, Isolation)
    ]
    return _titled(
        "Place of the cause",
        [f"{_line(one.place)} (hypothesis {one.hypothesis}): {_line(one.reason)}" for one in handed[-1:]],
    )


def _questions(evidence: Evidence, agent: str) -> str:
    del agent
    handed = [
        one.artifact for one in evidence.artifacts if one.phase == "questions" and isinstance(one.artifact, Questions)
    ]
    rows = handed[-1].questions if handed else ()
    return _titled("Questions", [f"{number}. {_line(one)}" for number, one in enumerate(rows, 1)])


def _sources(evidence: Evidence, agent: str) -> str:
    del agent
    handed = [
        one.artifact for one in evidence.artifacts if one.phase == "findings" and isinstance(one.artifact, Sources)
    ]
    found = [one for many in handed for one in many.findings]
    rows = [
        f"{number}. on question {one.question}: {_line(one.claim)} ({', '.join(map(_line, one.sources))})"
        for number, one in enumerate(found, 1)
    ]
    return _titled("Findings", rows)


_PIECES: Final[Mapping[tuple[LoopKind, str], Sequence[Callable[[Evidence, str], str]]]] = {
    ("review", "answer"): (_findings,),
    ("review", "verdict"): (_findings, _answers),
    ("ideation", "critiques"): (_proposals,),
    ("ideation", "synthesis"): (_all_proposals, _critiques),
    ("debug", "hypotheses"): (_failure,),
    ("debug", "isolate"): (_failure, _hypotheses),
    ("debug", "fix"): (_failure, _hypotheses, _isolation),
    ("research", "findings"): (_questions,),
    ("research", "synthesis"): (_questions, _sources),
}


def _titled(title: str, rows: Sequence[str], between: str = "\n") -> str:
    kept = [one for one in rows if one]
    return f"{title}:\n{between.join(kept)}" if kept else ""


def _line(text: str) -> str:
    return " ".join(text.split())
