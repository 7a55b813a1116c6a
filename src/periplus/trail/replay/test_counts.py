"""The result of a test run, from its exit code and the counts of its report, never from its output."""

from __future__ import annotations

__all__ = ["Counts", "judge_tests", "read_junit", "why_unclear"]

from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.trail.model import Outcome
from periplus.trail.replay.values import StepResult
from periplus.trail.shell_words import SURE, extract_heredocs, flattened, program_of, split_segments

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

REPORT_BYTES_MAX: Final = 64 << 20
_COMMAND_CHARS_MAX: Final = 64 << 10
_BAD: Final = frozenset({"failure", "error", "skipped"})


class Counts(NamedTuple):
    passed: int
    total: int


def judge_tests(exit_code: int, passed: int | None, expected: int | None, output: bytes) -> StepResult:
    """Return the StepResult of the step. If tests were expected to pass and the count is known, another count is a failure."""
    outcome: Outcome = "failed" if exit_code else "ok"
    if expected is None:
        return StepResult("done", outcome, exit_code, output=output)
    if passed is None:
        return StepResult(
            "done",
            outcome,
            exit_code,
            output=output,
            detail="the number of passed tests is unknown: no report was read",
        )
    if passed == expected:
        return StepResult("done", outcome, exit_code, output=output, detail=f"{passed:,} passed, as expected")
    why = f"{expected:,} tests were expected to pass and {passed:,} did"
    differs = ("tests passed", f"{expected:,}", f"{passed:,}")
    return StepResult("done", "failed", exit_code, error=why, output=output, detail=why, differs=differs)


def why_unclear(command: str, target: str, exit_code: int) -> str:
    """Return why the exit code of a recorded command does not tell how its tests ended; empty if it does.

    ``target`` is the part of the command that runs the tests, if the record has it. A record of an unclear command
    holds the result that the tests reported, or nothing; printed output is never believed here.
    """
    if len(command) > _COMMAND_CHARS_MAX:
        return "the command is too long to tell which part of it the exit code belongs to"
    segments = flattened(split_segments(extract_heredocs(command)[0]))
    parts = [(segment, words) for segment in segments if (words := program_of(segment.words))]
    named = [segment for segment, _ in parts if segment.text == target or segment.text.endswith(f" {target}")]
    acting = [(segment, words) for segment, words in parts if words[0].rsplit("/", 1)[-1] not in SURE]
    tests = named[:1] or [segment for segment, _ in acting]
    if any(segment.is_hidden for segment in tests):
        return "later parts of the command hide how the tests ended"
    if not exit_code:
        is_left_out = any(segment.is_optional for segment in tests)
        return "it is unknown whether the command ran the tests" if is_left_out else ""
    others = [segment for segment, _ in acting if segment not in tests[:1] and not segment.is_hidden]
    return "another part of the command may be why it failed" if others else ""


def read_junit(data: bytes) -> Counts | None:
    """Return the counts of a JUnit XML report, which most test runners can write; None for any other document.

    The tests wrote it, so nothing in it is resolved: a document with a DOCTYPE, and so with entities, is refused.
    """
    from xml.parsers import expat

    if len(data) > REPORT_BYTES_MAX:
        return None
    state = _Cases()
    parser: XMLParserType = expat.ParserCreate()
    parser.StartElementHandler = state.start
    parser.EndElementHandler = state.end
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, _DoctypeError):
        return None
    return Counts(state.passed, state.total) if state.is_report else None


class _DoctypeError(Exception):
    pass


class _Cases:
    def __init__(self) -> None:
        self.passed = self.total = 0
        self.is_report = False
        self._is_good: bool | None = None  # state of the open test case

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self.is_report = self.is_report or name in ("testsuites", "testsuite")
        if name == "testcase":
            self._is_good = True
        elif name in _BAD and self._is_good:
            self._is_good = False

    def end(self, name: str) -> None:
        if name == "testcase" and self._is_good is not None:
            self.total += 1
            self.passed += self._is_good
            self._is_good = None


def _refuse(*_: object) -> None:
    raise _DoctypeError
