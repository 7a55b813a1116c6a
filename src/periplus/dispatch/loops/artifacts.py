"""Artifacts of loops: one schema for each kind, parsed from the field ``artifact`` of a result.

An artifact is the word of an agent. ``named_places`` and ``named_command`` say what in it the supervisor has to look at and to run before a
gate can count it. Numbers count from 1: findings of a review with the blocking ones first, proposals and sources in the order in which
they were handed in.
"""

from __future__ import annotations

__all__ = [
    "Answer",
    "Answers",
    "Artifact",
    "Cause",
    "Conclusion",
    "Critique",
    "Critiques",
    "Hypotheses",
    "Isolation",
    "Proposal",
    "Questions",
    "Repair",
    "Report",
    "Reproduction",
    "Sourced",
    "Sources",
    "Synthesis",
    "Use",
    "Verdict",
    "is_url",
    "named_command",
    "named_places",
    "parse_artifact",
    "review_of",
]

from typing import Annotated, Final, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from periplus.base.errors import FormatError
from periplus.dispatch.handover.foreign_text import plain_line
from periplus.dispatch.handover.named_places import parse_place
from periplus.dispatch.handover.result_file import Finding, Result

ITEMS_MAX: Final = 100
TEXT_CHARACTERS_MAX: Final = 20_000
ARGUMENTS_MAX: Final = 100
_WEB: Final = ("http", "https")

Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS_MAX)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=ITEMS_MAX)]
Texts: TypeAlias = Annotated[tuple[Text, ...], msgspec.Meta(max_length=ITEMS_MAX)]
Argv: TypeAlias = Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=ARGUMENTS_MAX)]


class Verdict(msgspec.Struct, frozen=True):
    """A review: its findings, and the places that the reviewer has looked at."""

    verdict: Literal["approve", "changes"]
    findings: tuple[Finding, ...] = ()
    examined: Texts = ()
    settled: Annotated[tuple[Number, ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()


class Answer(msgspec.Struct, frozen=True):
    """An author's answer to the finding of that number."""

    finding: Number
    answer: Literal["fixed", "declined"]
    text: Text


class Answers(msgspec.Struct, frozen=True):
    answers: Annotated[tuple[Answer, ...], msgspec.Meta(max_length=ITEMS_MAX)]


class Proposal(msgspec.Struct, frozen=True):
    title: Text
    text: Text


class Critique(msgspec.Struct, frozen=True):
    """A critique of the proposal of that number."""

    proposal: Number
    text: Text


class Critiques(msgspec.Struct, frozen=True):
    critiques: Annotated[tuple[Critique, ...], msgspec.Meta(max_length=ITEMS_MAX)]


class Use(msgspec.Struct, frozen=True):
    """A synthesis's use of a proposal: taken or left, and why."""

    proposal: Number
    use: Literal["taken", "left"]
    reason: Text


class Synthesis(msgspec.Struct, frozen=True):
    text: Text
    uses: Annotated[tuple[Use, ...], msgspec.Meta(max_length=ITEMS_MAX)]


class Reproduction(msgspec.Struct, frozen=True):
    """A command that fails because of the fault, and a text of its output by which the fault is known."""

    argv: Argv
    symptom: Text


class Cause(msgspec.Struct, frozen=True):
    """A supposed cause, and a test that would tell it from the others."""

    cause: Text
    test: Text


class Hypotheses(msgspec.Struct, frozen=True):
    hypotheses: Annotated[tuple[Cause, ...], msgspec.Meta(max_length=ITEMS_MAX)]


class Isolation(msgspec.Struct, frozen=True):
    """The place (path:line) of the cause, and the number of the hypothesis that it proves."""

    place: Text
    hypothesis: Number
    reason: Text


class Repair(msgspec.Struct, frozen=True):
    reason: Text


class Questions(msgspec.Struct, frozen=True):
    questions: Texts


class Sourced(msgspec.Struct, frozen=True):
    """A claim that answers the question of that number, with its sources: path:line or addresses."""

    question: Number
    claim: Text
    sources: Texts


class Sources(msgspec.Struct, frozen=True):
    findings: Annotated[tuple[Sourced, ...], msgspec.Meta(max_length=ITEMS_MAX)]


class Conclusion(msgspec.Struct, frozen=True):
    """An answer to the question of that number; ``findings`` are the numbers of those it rests on, none where it stays open."""

    question: Number
    text: Text
    findings: Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()


class Report(msgspec.Struct, frozen=True):
    conclusions: Annotated[tuple[Conclusion, ...], msgspec.Meta(max_length=ITEMS_MAX)]


class _Extra(msgspec.Struct, frozen=True):
    """The artifact beside a review's findings."""

    examined: Texts = ()
    settled: Annotated[tuple[Number, ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()


Artifact: TypeAlias = (
    Verdict
    | Answers
    | Proposal
    | Critiques
    | Synthesis
    | Reproduction
    | Hypotheses
    | Isolation
    | Repair
    | Questions
    | Sources
    | Report
)
_Kind = TypeVar("_Kind")


def parse_artifact(text: str, kind: type[_Kind]) -> _Kind:
    """Parse the artifact of a result as ``kind``. Raises FormatError."""
    if not text.strip():
        raise FormatError("artifact: it is empty", mend="Write the artifact as the prompt of the run says.")
    try:
        return msgspec.json.decode(text.encode(), type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise FormatError(
            f"artifact: {plain_line(str(error), 200)}", mend="Write the artifact as the prompt of the run says."
        ) from error


def review_of(result: Result) -> Verdict:
    """Return the review in a result whose answer was ``review``. Raises FormatError."""
    if not result.verdict:
        raise FormatError("verdict: a review ends with approve or changes")
    extra = parse_artifact(result.artifact, _Extra) if result.artifact.strip() else _Extra()
    return Verdict(result.verdict, result.findings, extra.examined, extra.settled)


def is_url(text: str) -> bool:
    """Test whether a text is an address of the web, with a dot in its host."""
    try:
        parts = urlsplit(text.strip())
        host = parts.hostname or ""
    except ValueError:
        return False
    return parts.scheme in _WEB and "." in host.strip(".") and not any(char.isspace() for char in text.strip())


def named_places(artifact: Artifact) -> tuple[tuple[str, int], ...]:
    """Return the places that an artifact names, for the supervisor to look at."""
    match artifact:
        case Verdict():
            texts = [*artifact.examined, *(f"{one.path}:{one.line}" for one in artifact.findings)]
        case Isolation():
            texts = [artifact.place]
        case Sources():
            texts = [source for one in artifact.findings for source in one.sources if not is_url(source)]
        case _:
            texts = []
    return tuple(dict.fromkeys(place for text in texts if (place := parse_place(text)) is not None))


def named_command(artifact: Artifact) -> tuple[str, ...]:
    """Return the command that an artifact asks the supervisor to run; empty where it names none."""
    return artifact.argv if isinstance(artifact, Reproduction) else ()
