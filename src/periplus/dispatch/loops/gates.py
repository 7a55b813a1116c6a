"""Gates of loops: pure predicates over evidence. Each returns what is missing, in words for the agent and for people; nothing means open.

An artifact alone opens no gate that a command or a place could decide: a reproduction counts when the supervisor has seen the command fail,
a fix when it has seen the same command pass. Texts that say nothing (``substance``) count as absent, and two texts that say the same as one.
"""

from __future__ import annotations

__all__ = [
    "Missing",
    "answers_missing",
    "critiques_missing",
    "findings_of",
    "fix_missing",
    "hypotheses_missing",
    "isolation_missing",
    "proposals_missing",
    "questions_missing",
    "report_missing",
    "reproduction_missing",
    "review_missing",
    "sources_missing",
    "synthesis_missing",
    "verdict_missing",
]

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from periplus.dispatch.handover.named_places import parse_place
from periplus.dispatch.handover.result_file import Finding
from periplus.dispatch.loops.artifacts import (
    Answers,
    Cause,
    Critiques,
    Hypotheses,
    Isolation,
    Proposal,
    Questions,
    Repair,
    Report,
    Reproduction,
    Sourced,
    Sources,
    Synthesis,
    Verdict,
    is_url,
)
from periplus.dispatch.loops.evidence import CommandRun, Evidence, Handed, is_in_trace
from periplus.dispatch.loops.substance import LONG, are_alike, first_alike, has_substance

Missing: TypeAlias = tuple[str, ...]

_EXAMINED_MAX: Final = 20
_NOT_STARTED: Final = (126, 127)  # of shells and of env: the program is not there, or is none
_HYPOTHESES_MIN: Final = 2
_QUESTIONS_MIN: Final = 2
_MISSING_MAX: Final = 20
_Kind = TypeVar("_Kind")


# -- review ----------------------------------------------------------------------------------------------------------------


def review_missing(evidence: Evidence, agents: int) -> Missing:
    """Findings of another agent than the author, at places that exist; an approval names places in what was changed."""
    reviews = [(who, one) for who, one in _of(evidence, "findings", Verdict) if who != evidence.author]
    missing = _too_few("reviews by another agent than the author", len({who for who, _ in reviews}), agents)
    for _, one in reviews:
        missing += _faults_of_findings(evidence, one.findings)
        if one.verdict == "changes":
            missing += [] if one.findings else ["it asks for changes and has no finding"]
        else:
            missing += _unexamined(evidence, one)
    return _shown(missing)


def answers_missing(evidence: Evidence, agents: int) -> Missing:
    """An answer to each blocking finding; what is called fixed came with a new commit, and the check passes."""
    del agents
    asked_at = _last(evidence, _is_refusal(evidence))
    later = evidence.artifacts[asked_at + 1 :]
    answers = [one.artifact for one in later if one.phase == "answer" and isinstance(one.artifact, Answers)]
    if not answers:
        return ("the author has answered nothing",)
    given = {one.finding: one for one in answers[-1].answers if has_substance(one.text)}
    blocking = _blocking(findings_of(evidence))
    missing = [f"blocking finding {number} has no answer of substance" for number in blocking if number not in given]
    if first_alike([one.text for one in given.values() if one.answer == "declined"]):
        missing.append("two findings are declined with the same words")
    if any(one.answer == "fixed" for one in given.values()) and evidence.tip == evidence.tip_before:
        missing.append("something is called fixed, and there is no new commit")
    return _shown(missing + _oracle_missing(evidence, "answer"))


def verdict_missing(evidence: Evidence, agents: int) -> Missing:
    """A verdict on the latest answers by another agent than the author: an approval settles each blocking finding and has looked at
    the change, a refusal has a finding with a place.
    """
    del agents
    answered_at = _last(evidence, lambda one: one.phase == "answer" and isinstance(one.artifact, Answers))
    later = [
        one for one in evidence.artifacts[answered_at + 1 :] if one.phase == "verdict" and one.agent != evidence.author
    ]
    verdicts = [one.artifact for one in later if isinstance(one.artifact, Verdict)]
    if answered_at < 0 or not verdicts:
        return ("there is no verdict on the answers by another agent than the author",)
    verdict = verdicts[-1]
    if verdict.verdict == "changes":
        faults = _faults_of_findings(evidence, verdict.findings)
        return _shown(faults if verdict.findings else ["it asks for changes and has no finding"])
    asked = _blocking(findings_of(evidence._replace(artifacts=evidence.artifacts[:answered_at])))
    missing = [f"blocking finding {number} is not called settled" for number in asked if number not in verdict.settled]
    missing += ["it approves, and has blocking findings"] if _blocking(verdict.findings) else []
    return _shown(missing + _unexamined(evidence, verdict))


def findings_of(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the findings to be answered, in the order of their numbers: those of the last verdict that asked for changes, else of the
    reviews.
    """
    asked_at = _last(evidence, _is_refusal(evidence))
    asked = evidence.artifacts[asked_at] if asked_at >= 0 else None
    if asked is not None and asked.phase == "verdict" and isinstance(asked.artifact, Verdict):
        found = list(asked.artifact.findings)
    else:
        found = [
            one
            for who, review in _of(evidence, "findings", Verdict)
            if who != evidence.author
            for one in review.findings
        ]
    return tuple(sorted(found, key=lambda one: one.severity != "blocking"))


def _is_refusal(evidence: Evidence) -> Callable[[Handed], bool]:
    def refuses(one: Handed) -> bool:
        return isinstance(one.artifact, Verdict) and one.artifact.verdict == "changes" and one.agent != evidence.author

    return refuses


def _last(evidence: Evidence, is_meant: Callable[[Handed], bool]) -> int:
    """The place of the last artifact of a sort, -1 where there is none."""
    return max((at for at, one in enumerate(evidence.artifacts) if is_meant(one)), default=-1)


def _blocking(findings: Sequence[Finding]) -> list[int]:
    return [number for number, one in enumerate(findings, 1) if one.severity == "blocking"]


def _faults_of_findings(evidence: Evidence, findings: Sequence[Finding]) -> list[str]:
    missing = []
    for number, one in enumerate(findings, 1):
        if not has_substance(one.text):
            missing.append(f"finding {number} says nothing")
        if one.severity == "blocking" and not evidence.has_place(one.path, one.line):
            missing.append(f"finding {number} is blocking and names no place that exists")
    return missing


def _unexamined(evidence: Evidence, review: Verdict) -> list[str]:
    places = {place for text in review.examined if (place := parse_place(text)) is not None}
    seen = {path for path, line in places if evidence.has_place(path, line) and evidence.is_changed(path, line)}
    changed = list(dict.fromkeys(one.path for one in evidence.changed if one.first > 0))
    if not evidence.changed:
        return ["it approves, and there is no change to look at"]
    if not any(evidence.has_place(*place) for place in places):
        return ["it approves and names no place that was looked at"]
    unseen = [path for path in changed if path not in seen] if len(seen) < _EXAMINED_MAX else []
    return [f"it approves without a place that was looked at in {path}" for path in unseen]


# -- ideation --------------------------------------------------------------------------------------------------------------


def proposals_missing(evidence: Evidence, agents: int) -> Missing:
    """As many proposals as agents were asked, by different agents, of substance, and no two alike."""
    proposals = _of(evidence, "proposals", Proposal)
    texts = [f"{one.title} {one.text}" for _, one in proposals if has_substance(one.text, LONG)]
    missing = _too_few("proposals of substance", len(texts), agents)
    missing += _too_few("different agents that propose", len({who for who, _ in proposals}), agents)
    alike = first_alike([f"{one.title} {one.text}" for _, one in proposals])
    missing += [f"proposals {alike[0] + 1} and {alike[1] + 1} say the same"] if alike else []
    return _shown(missing)


def critiques_missing(evidence: Evidence, agents: int) -> Missing:
    """For each proposal a critique by another agent than its author; each critique names a proposal, and no two of one agent are alike."""
    del agents
    authors = [who for who, _ in _of(evidence, "proposals", Proposal)]
    critiques = [(who, one) for who, handed in _of(evidence, "critiques", Critiques) for one in handed.critiques]
    missing = [
        f"a critique names proposal {one.proposal}, which there is not"
        for _, one in critiques
        if one.proposal > len(authors)
    ]
    for number, author in enumerate(authors, 1):
        if not any(
            one.proposal == number and who != author and has_substance(one.text, LONG // 2) for who, one in critiques
        ):
            missing.append(f"proposal {number} has no critique of substance by another agent")
    critics = {who: [one.text for by, one in critiques if by == who] for who, _ in critiques}
    missing += [f"two critiques of {who} say the same" for who, texts in critics.items() if first_alike(texts)]
    return _shown(missing or ([] if authors else ["there is no proposal"]))


def synthesis_missing(evidence: Evidence, agents: int) -> Missing:
    """A text of substance that says of each proposal why it is taken or left, and takes one at least."""
    del agents
    proposals = _of(evidence, "proposals", Proposal)
    synthesis = _latest(evidence, "synthesis", Synthesis)
    if synthesis is None or not has_substance(synthesis.text, LONG):
        return ("there is no synthesis of substance",)
    used = {one.proposal: one for one in synthesis.uses if has_substance(one.reason)}
    missing = [
        f"it does not say why proposal {number} is taken or left"
        for number in range(1, len(proposals) + 1)
        if number not in used
    ]
    missing += [f"it names proposal {number}, which there is not" for number in used if number > len(proposals)]
    if not any(one.use == "taken" for one in used.values()):
        missing.append("it takes nothing of any proposal")
    reasons = [one.reason for one in used.values()]
    missing += ["it gives two proposals the same reason"] if first_alike(reasons) else []
    return _shown(missing)


# -- debug -----------------------------------------------------------------------------------------------------------------


def reproduction_missing(evidence: Evidence, agents: int) -> Missing:
    """A command that the supervisor ran and that failed, with the symptom in its output."""
    del agents
    reproduction = _latest(evidence, "reproduce", Reproduction)
    if reproduction is None:
        return ("there is no command that reproduces the fault",)
    run = evidence.ran("reproduce", reproduction.argv)
    if run is None:
        return ("the supervisor has not run the command",)
    if run.exit_code is None:
        return ("the command was stopped at its time limit: give one that fails and ends",)
    if run.exit_code in _NOT_STARTED:
        return (f"the command could not be started (exit code {run.exit_code})",)
    missing = ["the command passes"] if run.exit_code == 0 else []
    symptom = " ".join(reproduction.symptom.split())
    if not has_substance(symptom, 1) or symptom not in " ".join(run.output.split()):
        missing.append("its output does not show the symptom that was named")
    elif any(symptom in " ".join(one.split()) for one in reproduction.argv):
        missing.append("the command itself contains the symptom")
    return _shown(missing)


def hypotheses_missing(evidence: Evidence, agents: int) -> Missing:
    """Two different causes at least, each with a test of its own."""
    del agents
    handed = [one for _, one in _of(evidence, "hypotheses", Hypotheses)]
    causes = [one for many in handed for one in many.hypotheses if _is_tested(one)]
    missing = _too_few("hypotheses with a cause and a test", len(causes), _HYPOTHESES_MIN)
    for words, texts in (
        ("name the same cause", [one.cause for one in causes]),
        ("have the same test", [one.test for one in causes]),
    ):
        alike = first_alike(texts)
        missing += [f"hypotheses {alike[0] + 1} and {alike[1] + 1} {words}"] if alike else []
    return _shown(missing)


def isolation_missing(evidence: Evidence, agents: int) -> Missing:
    """A place that exists, in the trace of the failing command or in the diff, for a hypothesis that there is."""
    del agents
    isolation = _latest(evidence, "isolate", Isolation)
    place = parse_place(isolation.place) if isolation is not None else None
    if isolation is None or place is None:
        return ("there is no place of the form path:line",)
    count = sum(len(one.hypotheses) for _, one in _of(evidence, "hypotheses", Hypotheses))
    missing = [] if evidence.has_place(*place) else [f"{place[0]}:{place[1]} does not exist"]
    failed = _failed_run(evidence)
    if not evidence.is_changed(*place) and not (failed and is_in_trace(failed.output, *place)):
        missing.append(f"{place[0]}:{place[1]} is neither in the trace of the failing command nor in the diff")
    missing += [] if isolation.hypothesis <= count else [f"there is no hypothesis {isolation.hypothesis}"]
    missing += [] if has_substance(isolation.reason) else ["it does not say how the place was found"]
    return _shown(missing)


def fix_missing(evidence: Evidence, agents: int) -> Missing:
    """The command that failed passes on another commit, by a change of more than the command itself; and so does the check."""
    del agents
    failed = _failed_run(evidence)
    if failed is None:
        return ("there is no command that failed before",)
    repair = _latest(evidence, "fix", Repair)
    missing = [] if repair is not None and has_substance(repair.reason) else ["it does not say what was repaired"]
    run = evidence.ran("fix", failed.argv)
    if run is None or run.exit_code != 0 or run.tip != evidence.tip:
        missing.append("the command that failed has not passed on the present commit")
    elif run.tip == failed.tip:
        missing.append("the command passed on the commit on which it failed: it does not reproduce the fault")
    paths = {one.path for one in evidence.changed}
    if not paths:
        missing.append("nothing was changed")
    elif all(_is_named(path, failed.argv) for path in paths) and not _is_isolated_in(evidence, paths):
        missing.append("only files that the command itself names were changed")
    return _shown(missing + _oracle_missing(evidence, "fix"))


def _is_tested(one: Cause) -> bool:
    return has_substance(one.cause) and has_substance(one.test) and not are_alike(one.cause, one.test)


def _failed_run(evidence: Evidence) -> CommandRun | None:
    reproduction = _latest(evidence, "reproduce", Reproduction)
    run = evidence.ran("reproduce", reproduction.argv) if reproduction is not None else None
    return run if run is not None and run.exit_code else None


def _is_named(path: str, argv: Sequence[str]) -> bool:
    return any(one == path or one.removeprefix("./").startswith(f"{path}:") for one in argv)


def _is_isolated_in(evidence: Evidence, paths: set[str]) -> bool:
    isolation = _latest(evidence, "isolate", Isolation)
    place = parse_place(isolation.place) if isolation is not None else None
    return place is not None and place[0] in paths


# -- research --------------------------------------------------------------------------------------------------------------


def questions_missing(evidence: Evidence, agents: int) -> Missing:
    """Two different questions at least."""
    del agents
    questions = [one for one in _questions(evidence) if has_substance(one)]
    alike = first_alike(questions)
    missing = _too_few("questions of substance", len(questions), _QUESTIONS_MIN)
    return _shown(missing + ([f"questions {alike[0] + 1} and {alike[1] + 1} are the same"] if alike else []))


def sources_missing(evidence: Evidence, agents: int) -> Missing:
    """For each question a claim with a source that exists: a place the supervisor found, or an address of the web."""
    handed = _of(evidence, "findings", Sources)
    missing = _too_few("different agents that report", len({who for who, _ in handed}), agents)
    findings = _sourced(evidence)
    count = len(_questions(evidence))
    for number, one in enumerate(findings, 1):
        if not has_substance(one.claim):
            missing.append(f"finding {number} claims nothing")
        unfound = [source for source in one.sources if not _is_source(evidence, source)]
        missing += [
            f"finding {number}: the source {source[:100]} is no place that exists and no address" for source in unfound
        ]
        missing += [] if one.sources else [f"finding {number} has no source"]
        missing += (
            [] if one.question <= count else [f"finding {number} answers question {one.question}, which there is not"]
        )
    answered = {one.question for one in findings}
    missing += [f"question {number} has no finding" for number in range(1, count + 1) if number not in answered]
    return _shown(missing or ([] if count else ["there is no question"]))


def report_missing(evidence: Evidence, agents: int) -> Missing:
    """A conclusion for each question, which rests on findings for that question, or says in words that it stays open."""
    del agents
    report = _latest(evidence, "synthesis", Report)
    if report is None:
        return ("there is no synthesis",)
    findings = _sourced(evidence)
    missing = []
    for one in report.conclusions:
        missing += [] if has_substance(one.text) else [f"the conclusion on question {one.question} says nothing"]
        wrong = [at for at in one.findings if at > len(findings) or findings[at - 1].question != one.question]
        missing += [
            f"the conclusion on question {one.question} rests on finding {at}, which does not answer it" for at in wrong
        ]
    concluded = {one.question for one in report.conclusions}
    missing += [
        f"question {number} has no conclusion"
        for number in range(1, len(_questions(evidence)) + 1)
        if number not in concluded
    ]
    if not any(one.findings for one in report.conclusions):
        missing.append("no conclusion rests on a finding")
    alike = first_alike([one.text for one in report.conclusions if one.findings])
    missing += ["two conclusions say the same"] if alike else []
    return _shown(missing)


def _questions(evidence: Evidence) -> tuple[str, ...]:
    questions = _latest(evidence, "questions", Questions)
    return questions.questions if questions is not None else ()


def _sourced(evidence: Evidence) -> list[Sourced]:
    return [one for _, handed in _of(evidence, "findings", Sources) for one in handed.findings]


def _is_source(evidence: Evidence, source: str) -> bool:
    place = parse_place(source) if not is_url(source) else None
    return is_url(source) or (place is not None and evidence.has_place(*place))


# -- of all ----------------------------------------------------------------------------------------------------------------


def _of(evidence: Evidence, phase: str, kind: type[_Kind]) -> list[tuple[str, _Kind]]:
    """The artifacts of a phase, with their agents; one of another kind is none."""
    return [
        (one.agent, one.artifact) for one in evidence.artifacts if one.phase == phase and isinstance(one.artifact, kind)
    ]


def _latest(evidence: Evidence, phase: str, kind: type[_Kind]) -> _Kind | None:
    found = _of(evidence, phase, kind)
    return found[-1][1] if found else None


def _oracle_missing(evidence: Evidence, phase: str) -> list[str]:
    if not evidence.oracle:
        return []
    run = evidence.ran(phase, evidence.oracle)
    is_passed = run is not None and run.exit_code == 0 and run.tip == evidence.tip
    return [] if is_passed else ["the plan's check has not passed on the present commit"]


def _too_few(what: str, count: int, least: int) -> list[str]:
    return [f"{count} of {least} {what}"] if count < least else []


def _shown(missing: Sequence[str]) -> Missing:
    return tuple(dict.fromkeys(missing))[:_MISSING_MAX]
