"""Overview of a trail, made in one pass: its totals, its outline, the files that it changed, its tokens and costs.

The outline has the prompts and the steps at which the course of a session turned: the first failure of several, tests
that fail and that pass again, commits, agents that were started, plans, questions, and calls to memory.
"""

from __future__ import annotations

__all__ = ["Overview", "Totals", "overview_of"]

from collections import Counter
from typing import Final, NamedTuple

from periplus.interop.exports.trail_source import ExportSource, Moment
from periplus.web.sessions.texts import Texts
from periplus.web.sessions.timeline import item_of
from periplus.web.sessions.values import Kind, Limits, Mark, Usage

MARKS_MAX: Final = 400
FILES_MAX: Final = 200
BINS_MAX: Final = 120
_PROMPTS_MAX: Final = 20_000
_TEXT: Final = Limits(400, 4, 0)
_WRONG: Final = frozenset({"failed", "denied", "cancelled"})
_TURNS: Final = frozenset({"GIT_COMMIT", "AGENT_SPAWN", "PLAN_UPDATE", "ASK", "LABEL"})
_FILES: Final = frozenset({"FILE_WRITE", "FILE_EDIT", "FILE_DELETE", "FILE_MOVE"})
# Of a long outline the marks of these kinds are left out first.
_LESS: Final[tuple[tuple[Kind, ...], ...]] = (("command", "call", "edit", "read", "search", "web", "memory", "other"), ("plan", "branch"), ("question", "agent"), ("test", "commit"))  # fmt: skip


class Totals(NamedTuple):
    """Counts of a session. Of steps without a known time ``begin_ms`` and ``end_ms`` are 0."""

    steps: int
    by_op: tuple[tuple[str, int], ...]
    passed: int
    failed: int
    wrong: int
    usage: Usage
    model_calls: int
    begin_ms: int
    end_ms: int

    def count(self, op: str) -> int:
        return dict(self.by_op).get(op, 0)


class Bin(NamedTuple):
    """Tokens and cost of some successive model calls, from step ``number`` on."""

    number: int
    usage: Usage


class Overview(NamedTuple):
    """``left_out`` counts marks that the outline has no room for, ``files`` are paths with the number of their changes."""

    totals: Totals
    marks: tuple[Mark, ...]
    left_out: int
    files: tuple[tuple[str, int], ...]
    files_left_out: int
    costs: tuple[Bin, ...]


def overview_of(source: ExportSource) -> Overview:
    """Read a trail once. Raises FormatError at damage."""
    gathered = _Gathered(source)
    for moment in source.moments():
        gathered.take(moment)
    return gathered.overview()


class _Gathered:
    def __init__(self, source: ExportSource) -> None:
        self._source = source
        self._texts = Texts(source, _TEXT)
        self._ops: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self._marks: list[Mark] = []
        self._calls: list[tuple[int, Usage]] = []
        self._passed = self._failed = self._wrong = self._dropped = 0
        self._begin_ms = self._end_ms = 0
        self._is_failing = False
        self._tests = ""  # outcome of the last tests

    def take(self, moment: Moment) -> None:
        step, op = moment.step, moment.op
        self._ops[op] += 1
        if moment.at_ms:
            self._begin_ms = self._begin_ms or moment.at_ms
            self._end_ms = max(self._end_ms, moment.at_ms + (step.duration_ms or 0))
        is_wrong = step.outcome in _WRONG
        self._wrong += is_wrong
        if op == "MODEL_CALL":
            counts = [value if isinstance(value := moment.operand(place), int) else 0 for place in (1, 2, 3, 4)]
            self._calls.append((moment.number, Usage(*counts)))
            return
        if op in _FILES:
            self._files[self._source.path(moment.operand(0))] += 1
        if op == "TEST_RUN":
            self._test(moment)
        elif op == "PROMPT" or op in _TURNS or (is_wrong and not self._is_failing) or self._may_be_memory(moment):
            self._mark(moment)
        if op not in ("SAY", "COMMENT", "LABEL", "NOP"):
            self._is_failing = is_wrong

    def _test(self, moment: Moment) -> None:
        outcome = moment.step.outcome
        self._passed += outcome == "ok"
        self._failed += outcome == "failed"
        if outcome != self._tests:
            self._mark(moment)
        self._tests = outcome

    def _may_be_memory(self, moment: Moment) -> bool:
        if moment.op not in ("TOOL_CALL", "COMMAND_RUN"):
            return False
        text = moment.operand(0)
        return isinstance(text, str) and "periplus" in text[:2_000] and item_of(moment, self._texts).kind == "memory"

    def _mark(self, moment: Moment) -> None:
        if len(self._marks) >= _PROMPTS_MAX:
            self._dropped += 1
            return
        item = item_of(moment, self._texts)
        text = item.head or (item.op if item.kind != "prompt" else "")
        if item.is_wrong and item.kind not in ("test", "prompt") and item.error is not None and item.error.text:
            text = f"{text}: {' '.join(item.error.text.split())}"[:200]
        self._marks.append(Mark(item.number, item.kind, text, item.outcome, item.at_ms))

    def overview(self) -> Overview:
        marks, left_out = _fewer(self._marks)
        sums = Usage(*(sum(one[place] for _, one in self._calls) for place in range(4)))
        totals = Totals(
            sum(self._ops.values()), tuple(self._ops.most_common()), self._passed, self._failed, self._wrong, sums,
            len(self._calls), self._begin_ms, self._end_ms,
        )  # fmt: skip
        files = sorted(self._files.items(), key=lambda one: (-one[1], one[0]))
        return Overview(totals, tuple(marks), left_out + self._dropped, tuple(files[:FILES_MAX]),
                        max(0, len(files) - FILES_MAX), _bins(self._calls))  # fmt: skip


def _fewer(marks: list[Mark]) -> tuple[list[Mark], int]:
    """Return at most ``MARKS_MAX`` marks: the less important kinds are left out first, then those in the middle."""
    count = len(marks)
    for kinds in _LESS:
        if len(marks) <= MARKS_MAX:
            break
        marks = [mark for mark in marks if mark.kind not in kinds]
    if len(marks) > MARKS_MAX:
        marks = marks[: MARKS_MAX // 2] + marks[len(marks) - MARKS_MAX // 2 :]
    return marks, count - len(marks)


def _bins(calls: list[tuple[int, Usage]]) -> tuple[Bin, ...]:
    size = max(1, -(-len(calls) // BINS_MAX))
    bins = []
    for at in range(0, len(calls), size):
        some = calls[at : at + size]
        bins.append(Bin(some[0][0], Usage(*(sum(one[place] for _, one in some) for place in range(4)))))
    return tuple(bins)
