"""What a run of tests comes to: by its exit code and by the counts of its report, never by what it printed."""

from __future__ import annotations

__all__ = ["Counts", "judge_tests", "read_junit"]

from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.trail.model import Outcome
from periplus.trail.replay.model import Did

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

REPORT_BYTES_MAX: Final = 64 << 20
_BAD: Final = frozenset({"failure", "error", "skipped"})


class Counts(NamedTuple):
    passed: int
    total: int


def judge_tests(exit_code: int, passed: int | None, expected: int | None, output: bytes) -> Did:
    """The step's Did. Where tests were expected to pass and the count is known, another count is a failure."""
    outcome: Outcome = "failed" if exit_code else "ok"
    if expected is None:
        return Did("done", outcome, exit_code, output=output)
    if passed is None:
        return Did("done", outcome, exit_code, output=output, detail="how many passed is not known: no report was read")
    if passed == expected:
        return Did("done", outcome, exit_code, output=output, detail=f"{passed:,} passed, as expected")
    why = f"{expected:,} tests were expected to pass and {passed:,} did"
    differs = ("tests passed", f"{expected:,}", f"{passed:,}")
    return Did("done", "failed", exit_code, error=why, output=output, detail=why, differs=differs)


def read_junit(data: bytes) -> Counts | None:
    """The counts of a JUnit XML report, which most test runners can write; None for what is none.

    The tests wrote it, so nothing in it is resolved: a document with a DOCTYPE, and so with entities, is none.
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
        self._is_good: bool | None = None  # of the test case that is open

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
