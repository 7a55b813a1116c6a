"""The result file of a run: the agent's own account of its work, at the top of its worktree.

Theory of operation
-------------------
The file is written by a process that is not trusted, in a folder that it controls. It is opened without following a link, must be a plain
file with one name, and is measured before it is parsed. Its ``run`` must be the id that the run was started with: the file of an earlier
run, or of another worktree, is not an answer, and is told as such. Known fields are checked; unknown ones are left behind. Every text loses
control characters and has its secrets masked, and is cut to its limit; what was cut or left out stands in ``notes``.

Nothing in the file counts as evidence that the work is right: the supervisor runs the check itself.
"""

from __future__ import annotations

__all__ = [
    "RESULT_BYTES_MAX",
    "RESULT_NAME",
    "AnswerKind",
    "Finding",
    "HandedIn",
    "Proposal",
    "Refusal",
    "Result",
    "Severity",
    "parse_result",
    "read_result",
]

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from periplus.base.errors import ConfinementError, FormatError, NewerFormatError, PeriplusError, RefusedError
from periplus.base.files import read_at
from periplus.base.filesystem.confined_folder import judge_path
from periplus.dispatch.handover.foreign_text import plain_line, plain_text

RESULT_NAME: Final = ".periplus-result.json"
RESULT_BYTES_MAX: Final = 512 * 1024
TEXT_CHARACTERS_MAX: Final = 8_000
ARTIFACT_CHARACTERS_MAX: Final = 200_000
LINE_CHARACTERS_MAX: Final = 1_000
OPTIONS_MAX: Final = 10
LESSONS_MAX: Final = 20
FINDINGS_MAX: Final = 200
PROPOSALS_MAX: Final = 200
EVIDENCE_MAX: Final = 20
LINE_NUMBER_MAX: Final = 10_000_000
_NOTES_MAX: Final = 20
VERSION: Final = 1

Severity: TypeAlias = Literal["blocking", "minor"]
Status: TypeAlias = Literal["done", "failed", "question"]
AnswerKind: TypeAlias = Literal["result", "review", "proposals"]
ProposalKind: TypeAlias = Literal[
    "constraint", "dead_code", "decision", "fault", "lesson", "note", "stale_memory", "trap"
]
Refusal: TypeAlias = Literal["", "absent", "format", "kind", "other_run", "too_large", "unreadable"]


_Kind = TypeVar("_Kind")
_Item = TypeVar("_Item")


class Finding(msgspec.Struct, frozen=True):
    """A finding of a review. ``path`` is relative to the repository, or empty; ``line`` counts from 1, 0 where none was named."""

    severity: Severity
    text: str
    path: str = ""
    line: int = 0


class Proposal(msgspec.Struct, frozen=True):
    """A candidate for memory or for work. ``evidence`` are places (``path:line``) or commits; ``about`` paths or ids of entities."""

    kind: ProposalKind
    text: str
    evidence: tuple[str, ...]
    reason: str = ""
    about: tuple[str, ...] = ()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A checked result. ``verdict`` is empty but for a review. ``masked`` counts secrets, ``notes`` say what was changed or left out."""

    run: str
    status: Status
    summary: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    artifact: str = ""
    verdict: Literal["", "approve", "changes"] = ""
    findings: tuple[Finding, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    masked: int = 0
    notes: tuple[str, ...] = ()


class HandedIn(NamedTuple):
    """The result of a run, or why there is none: ``refusal`` for programs, ``problem`` for people and for the agent."""

    result: Result | None
    refusal: Refusal = ""
    problem: str = ""


class _Finding(msgspec.Struct):
    severity: Severity
    text: str
    path: str | None = None
    line: int | None = None


class _Proposal(msgspec.Struct):
    kind: ProposalKind
    text: str
    evidence: list[str]
    reason: str | None = None
    about: list[str] | None = None


class _File(msgspec.Struct):
    """The file as it is written; fields that are not named here are not read."""

    v: int
    run: str
    status: Status
    summary: str | None = None
    question: str | None = None
    options: list[str] | None = None
    lessons: list[str] | None = None
    artifact: msgspec.Raw = msgspec.Raw(b"null")
    verdict: Literal["approve", "changes"] | None = None
    findings: list[_Finding] | None = None
    proposals: list[_Proposal] | None = None


class _Bound(msgspec.Struct):
    """The fields that are judged before all others."""

    v: int = VERSION
    run: str = ""


class _OtherRunError(RefusedError):
    code = "other_run"


def read_result(worktree: str, run: str, answer: AnswerKind = "result") -> HandedIn:
    """Read the result file of ``run`` at the top of ``worktree``. Faults of the file are returned, never raised."""
    path = os.path.join(worktree, RESULT_NAME)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return HandedIn(None, "absent", f"there is no {RESULT_NAME}")
    except OSError as error:
        if error.errno == errno.ELOOP:
            return HandedIn(None, "kind", f"{RESULT_NAME} is a link, and links are not followed")
        kind: Refusal = "kind" if error.errno == errno.ENXIO else "unreadable"  # ENXIO: a socket
        return HandedIn(None, kind, f"{RESULT_NAME} cannot be read: {error.strerror}")
    try:
        held = os.fstat(fd)
        if not stat.S_ISREG(held.st_mode) or held.st_nlink > 1:
            return HandedIn(None, "kind", f"{RESULT_NAME} is not a plain file of its own")
        data = read_at(fd, RESULT_BYTES_MAX + 1, 0)
    except OSError as error:
        return HandedIn(None, "unreadable", f"{RESULT_NAME} cannot be read: {error.strerror}")
    finally:
        os.close(fd)
    if len(data) > RESULT_BYTES_MAX:
        return HandedIn(None, "too_large", f"{RESULT_NAME} has more than {RESULT_BYTES_MAX:,} bytes")
    try:
        return HandedIn(parse_result(data, run, answer))
    except _OtherRunError as error:
        return HandedIn(None, "other_run", str(error))
    except PeriplusError as error:
        return HandedIn(None, "format", str(error))


def parse_result(data: bytes, run: str, answer: AnswerKind = "result") -> Result:
    """Check the bytes of a result file. Raises RefusedError for another run's, NewerFormatError for a later version, else FormatError."""
    if len(data) > RESULT_BYTES_MAX:
        raise _wrong(f"it has more than {RESULT_BYTES_MAX:,} bytes")
    bound = _decoded(data, _Bound)
    if bound.run != run:
        named = plain_line(bound.run, 80) or "no run"
        raise _OtherRunError(
            f"{RESULT_NAME} is an answer for {named}, not for run {run}", safe="It was not taken as an answer."
        )
    if bound.v > VERSION:
        raise NewerFormatError(f"version {bound.v} is newer than {VERSION}", path=RESULT_NAME)
    if bound.v != VERSION:
        raise _wrong(f"v: it must be {VERSION}")
    return _Checker().result(_decoded(data, _File), answer)


def _decoded(data: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else plain_line(str(error), 200)
        raise _wrong(why) from error


class _Checker:
    """Makes plain values of a file's fields; counts masked secrets and collects notes on the way."""

    def __init__(self) -> None:
        self.masked = 0
        self.notes: list[str] = []

    def result(self, file: _File, answer: AnswerKind) -> Result:
        question = self._text(file.question, "question")
        if file.status == "question" and not question:
            raise _wrong("status: it is question, and question is empty")
        findings = self._findings(file.findings or []) if answer == "review" else ()
        made = Result(
            run=file.run, status=file.status, summary=self._text(file.summary, "summary"), question=question,
            options=self._lines(file.options or [], "options", OPTIONS_MAX), lessons=self._lines(file.lessons or [], "lessons", LESSONS_MAX),
            artifact=self._artifact(bytes(file.artifact)), findings=findings,
            verdict=self._verdict(file, findings) if answer == "review" and file.status == "done" else "",
            proposals=self._proposals(file.proposals or []) if answer == "proposals" else (),
        )  # fmt: skip
        return msgspec.structs.replace(made, masked=self.masked, notes=tuple(self.notes[:_NOTES_MAX]))

    def _verdict(self, file: _File, findings: Sequence[Finding]) -> Literal["approve", "changes"]:
        is_blocked = any(one.severity == "blocking" for one in findings)
        if file.verdict is None:
            raise _wrong("verdict: a review ends with approve or changes")
        if file.verdict == "changes" and not findings:
            raise _wrong("findings: it asks for changes, and names none")
        if file.verdict == "approve" and is_blocked:
            self._note("it approves, and has blocking findings: taken as changes")
            return "changes"
        return file.verdict

    def _findings(self, given: Sequence[_Finding]) -> tuple[Finding, ...]:
        found = []
        ranked = sorted(given, key=lambda one: one.severity != "blocking")  # a cut never loses a blocking one first
        for one in self._first(ranked, "findings", FINDINGS_MAX):
            text = self._text(one.text, "findings")
            if not text:
                self._note("a finding without text is left out")
                continue
            line = one.line if one.line is not None and 0 < one.line <= LINE_NUMBER_MAX else 0
            found.append(Finding(one.severity, text, self._path(one.path or ""), line))
        return tuple(found)

    def _proposals(self, given: Sequence[_Proposal]) -> tuple[Proposal, ...]:
        found = []
        for one in self._first(given, "proposals", PROPOSALS_MAX):
            text = self._text(one.text, "proposals")
            evidence = self._lines(one.evidence, "evidence", EVIDENCE_MAX)
            if not text or not evidence:
                self._note(f"a proposal without {'evidence' if text else 'text'} is left out")
                continue
            about = self._lines(one.about or [], "about", EVIDENCE_MAX)
            found.append(Proposal(one.kind, text, evidence, self._text(one.reason, "reason"), about))
        return tuple(found)

    def _path(self, given: str) -> str:
        shown = given.strip().removeprefix("./")
        if not shown:
            return ""
        try:
            return "/".join(judge_path(shown))
        except ConfinementError:
            self._note(f"a finding names {plain_line(given, 100)!r}, which is no path of a repository")
            return ""

    def _artifact(self, raw: bytes) -> str:
        """A text, or any other JSON value as its text."""
        if raw.lstrip()[:1] == b'"':
            return self._text(_decoded(raw, str), "artifact", ARTIFACT_CHARACTERS_MAX)
        value = self._cleaned(_decoded(raw, object))
        text = "" if value is None else msgspec.json.encode(value).decode()
        if len(text) > ARTIFACT_CHARACTERS_MAX:
            raise _wrong(f"artifact: it has more than {ARTIFACT_CHARACTERS_MAX:,} characters")
        return text

    def _cleaned(self, value: object) -> object:
        """Clean every text in a JSON value; escapes of JSON hide nothing from it."""
        match value:
            case str():
                return self._text(value, "artifact")
            case list():
                return [self._cleaned(one) for one in value]
            case dict():
                return {self._text(str(key), "artifact"): self._cleaned(one) for key, one in value.items()}
            case _:
                return value

    def _lines(self, given: Sequence[str], name: str, most: int) -> tuple[str, ...]:
        shown = (self._text(one, name, LINE_CHARACTERS_MAX) for one in self._first(given, name, most))
        return tuple(one for one in shown if one)

    def _text(self, given: str | None, name: str, most: int = TEXT_CHARACTERS_MAX) -> str:
        text, masked = plain_text(given or "")
        self.masked += masked
        text = text.strip()
        if len(text) > most:
            self._note(f"{name}: {len(text) - most:,} characters are left out")
            text = text[:most] + "…"
        return text

    def _first(self, given: Sequence[_Item], name: str, most: int) -> Sequence[_Item]:
        if len(given) > most:
            self._note(f"{name}: {len(given) - most:,} of {len(given):,} are left out")
        return given[:most]

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _wrong(why: str) -> FormatError:
    return FormatError(why, path=RESULT_NAME, mend="Write the file as the prompt of the run shows it.")
