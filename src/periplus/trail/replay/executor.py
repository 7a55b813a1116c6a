"""Replay a trail: execute its steps one after the other in a world, and compare each with its record.

For each step: prepare its operands, check capabilities, write the intent of a change to disk, let the world act, write
the outcome to disk. After a pause or a crash the log is read to its end and the replay continues with the next step. A
step with an intent and no outcome is settled by the state of the files: the digests tell whether a file step or a
commit was done, so it is never done twice; whether a command ran cannot be told, and it is not run again unless
``is_rerun`` is set.

A step that the record marks as denied or cancelled had no effect, or an unknown one: it is not performed. Nor is a step
on the store's own files, which Periplus writes beside a run: they are in no base and in no compared tree. BRANCH jumps
to the first LABEL of its name if its register is not zero. Register 0 is the exit code of the last step that has an
outcome (1 for a failure without a code, 0 otherwise); for a step that was not performed, the recorded one. Other
registers are given by the caller, or zero.
"""

from __future__ import annotations

__all__ = ["STEPS_MAX", "Replay", "ReplayOptions", "ReplayReport", "StepCursor"]

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from periplus.base.clock import Clock
from periplus.base.errors import RefusedError, UsageError
from periplus.journal import STORE_FOLDER
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import Digest, Step
from periplus.trail.opcodes import BY_NAME, opcode_name
from periplus.trail.recording.live_step import NOTE_AFTER
from periplus.trail.replay.capability import Action, Capabilities, CommandForm, Grant
from periplus.trail.replay.command_text import Sibling, part_for_tests
from periplus.trail.replay.log import Intent, Log, MemoryLog, Outcome
from periplus.trail.replay.values import BACKGROUND, Call, Difference, ReadContent, StepResult, Verdict, prepare_call
from periplus.trail.replay.world import PERFORMED, World, perform

STEPS_MAX: Final = 10_000  # each may be a command: an endless loop is detected within minutes
_DIFFERENCES_MAX: Final = 100
_ERROR_CHARS_MAX: Final = 2_000
_CONTROL: Final = frozenset({"LABEL", "BRANCH", "NOP", "COMMENT", "CAP_ISSUE"})
_NEEDS: Final[
    dict[str, tuple[tuple[Action, int | None], ...]]
] = {  # opcode → actions, each with the index of its path operand
    "FILE_READ": (("read", 0),),
    "FILE_WRITE": (("write", 0),),
    "FILE_EDIT": (("write", 0),),
    "FILE_DELETE": (("delete", 0),),
    "FILE_MOVE": (("delete", 0), ("write", 1)),
    "FILE_LIST": (("list", 0),),
    "SEARCH_CODE": (("search", 1),),
    "GIT_COMMIT": (("commit", None),),
}
_ACTED: Final = _CONTROL | PERFORMED
_TEST_RUN: Final = BY_NAME["TEST_RUN"].code
_OF_COMMANDS: Final = frozenset(BY_NAME[name].code for name in ("TEST_RUN", "GIT_COMMIT", "GIT_PUSH"))
_SIBLINGS_MAX: Final = 24
_WINDOW_STEPS: Final = 64
_LABEL: Final = BY_NAME["LABEL"].code
_CAP_ISSUE: Final = BY_NAME["CAP_ISSUE"].code


class ReplayOptions(NamedTuple):
    """``first`` and ``end`` are a slice of the steps. Absolute paths of the record lie in ``recorded_root``.
    ``steps_max`` is the number of steps that branches may add to those of the trail. ``is_strict`` compares results
    too; ``pause_after`` stops after that many steps of this call.
    """

    capabilities: Capabilities
    first: int = 0
    end: int | None = None
    recorded_root: str = ""
    is_stopping: bool = False
    is_strict: bool = False
    is_rerun: bool = False
    pause_after: int | None = None
    steps_max: int = STEPS_MAX
    registers: Mapping[int, int] = {}


class ReplayReport(NamedTuple):
    """``states`` counts the steps by state; ``next`` is the step to continue with; ``differences`` are the first of
    ``difference_count``.
    """

    verdict: Verdict
    steps: int
    states: dict[str, int]
    denied: int
    difference_count: int
    differences: tuple[Difference, ...]
    next: int

    @property
    def first(self) -> Difference | None:
        return self.differences[0] if self.differences else None


class Replay:
    """One replay of the trail that ``readers`` read, the parts of a concatenation in order."""

    def __init__(
        self,
        readers: Sequence[TrailReader],
        world: World,
        options: ReplayOptions,
        *,
        clock: Clock,
        read_content: ReadContent,
        log: Log | None = None,
        put_output: Callable[[bytes], object] | None = None,
        observe: Callable[[Call, StepResult], object] = lambda _call, _did: None,
    ) -> None:
        """``put_output`` receives the output of commands before the step that names it is logged; ``observe`` is called
        with each step that this call carries out. Raises RefusedError for a world that needs more than ``options``
        allow.
        """
        beyond = [action for action in world.reaches if not options.capabilities.allows(action)]
        if beyond:
            raise RefusedError(f"the world needs more than the replay may do: {', '.join(sorted(beyond))}",
                               safe="Nothing was replayed.", mend=f"Allow {beyond[0]}, or open it without.")  # fmt: skip
        self._steps = StepCursor(readers)
        self._count = sum(reader.step_count for reader in readers)
        self._first, self._end, _ = slice(options.first, options.end).indices(self._count)
        self._world = world
        self._options = options
        self._clock = clock
        self._read_content = read_content
        self._log: Log = log if log is not None else MemoryLog()
        self._put_output = put_output
        self._observe = observe
        self._labels: dict[str, int] | None = None
        self._states: Counter[str] = Counter()
        self._denied = 0
        self._differences: list[Difference] = []
        self._difference_count = 0
        self._issued: dict[str, list[Grant]] = {}
        self._next = self._first
        self._register = 0
        for outcome in self._log.outcomes:
            self._account(outcome)

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome of each step, in the order of execution."""
        return self._log.outcomes

    def delegated(self, holder: str) -> Capabilities:
        """Return the capabilities that CAP_ISSUE steps delegated to ``holder``, within those of this replay."""
        return self._options.capabilities.narrowed(self._issued.get(holder, ()))

    def run(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> ReplayReport:
        """Execute the steps up to the end, a pause or a limit. The log stays valid whatever is raised."""
        done = 0
        verdict: Verdict | None = None
        while self._first <= self._next < self._end:
            if self._options.is_stopping and self._differences:
                break
            if self._options.pause_after is not None and done >= self._options.pause_after:
                verdict = "paused"
                break
            if self._is_endless():
                verdict = "limit"
                break
            self._step(self._next)
            done += 1
            progress(self._next - self._first, self._end - self._first)
        if verdict is None:
            verdict = "diverged" if self._difference_count else "same"
        return self.report(verdict)

    def report(self, verdict: Verdict) -> ReplayReport:
        return ReplayReport(
            verdict, len(self._log.outcomes), dict(self._states), self._denied, self._difference_count,
            tuple(self._differences), self._next,
        )  # fmt: skip

    def _is_endless(self) -> bool:
        """Return whether branches led to more steps, or to more reading of steps, than a replay may take."""
        beyond = self._options.steps_max
        return len(self._log.outcomes) >= self._count + beyond or self._steps.decoded >= 4 * self._count + 10 * beyond

    # One step

    def _step(self, index: int) -> None:
        step = self._steps.at(index)
        call = prepare_call(index, step, self._local, self._read_content, is_performed=opcode_name(step.code) in _ACTED)
        if call.op == "TEST_RUN" and call.note:
            call = call._replace(note=part_for_tests(call.note, call.text(0), self._siblings(index, step)))
        begun_ms = self._clock.now_ms()
        following, is_change = index + 1, False
        if call.op in _CONTROL:
            did, following = self._control(call)
        else:
            form, refusal = self._judged(call)
            if refusal is not None:
                did = refusal
            else:
                did, is_change = self._performed(call, form)
        outcome = self._outcome(call, did, following, begun_ms)
        self._log.settle(outcome, is_durable=is_change)
        self._account(outcome)
        self._observe(call, did)

    def _siblings(self, index: int, step: Step) -> list[Sibling]:
        """Return the other steps of the command of which ``step`` is a part: adjacent steps with the same text and
        source.
        """
        found: list[Sibling] = []
        for way in (-1, 1):
            at = index + way
            while 0 <= at < self._count and abs(at - index) < _SIBLINGS_MAX:
                other = self._steps.at(at)
                if other.code not in _OF_COMMANDS or (other.note, other.source) != (step.note, step.source):
                    break
                place = 1 if opcode_name(other.code) == "GIT_COMMIT" else 0
                what = other.operands[place]
                has_failed = other.outcome not in ("ok", "unknown")
                found.append(Sibling(opcode_name(other.code), what if isinstance(what, str) else "", has_failed))
                at += way
        return found

    def _performed(self, call: Call, form: CommandForm) -> tuple[StepResult, bool]:
        """Return the world's StepResult, and whether the step was to change something."""
        begun = self._log.intent
        if begun is not None:
            fate = self._world.fate(call, begun.foreseen)
            if fate == "done":
                return self._world.recall(call), True
            if fate == "unknown" and not self._options.is_rerun:
                why = "it was interrupted, and it is unknown whether it was done"
                return StepResult("done", "unknown", error=why, detail=f"{why}; --rerun does it again"), True
        foreseen = self._world.foresee(call)
        if foreseen and begun is None:
            self._log.intend(Intent(len(self._log.outcomes), call.at, foreseen))
        return perform(self._world, call, form), bool(foreseen)

    def _judged(self, call: Call) -> tuple[CommandForm, StepResult | None]:
        """Return how a command may run, and the StepResult of a step for which no world is asked."""
        recorded = call.step.outcome
        if recorded in ("denied", "cancelled"):
            return "denied", StepResult.skipped(f"the record says that it was {recorded}")
        if call.missing:
            return "denied", StepResult.skipped(call.missing)
        if call.op == "COMMAND_RUN" and BACKGROUND in call.notes:
            return "denied", StepResult.skipped("it ran in the background, without its result")
        needs = _NEEDS.get(call.op, ())
        if any(place is not None and _is_of_store(call.text(place)) for _, place in needs):
            return "denied", StepResult.skipped("the files of the store are not part of the run")
        may = self._options.capabilities
        if call.is_taking_over and not (may.allows_everywhere("write") and may.allows_everywhere("delete")):
            return "denied", StepResult.denied("files are taken over only if all of them may be written and deleted")
        for action, place in needs:
            path = (call.text(place) or ".") if place is not None else None
            if not may.allows(action, path):
                return "denied", StepResult.denied(f"{action} is not allowed" + (f" on {path[:200]}" if path else ""))
        if call.op not in ("COMMAND_RUN", "TEST_RUN"):
            return "denied", None
        action = "command" if call.op == "COMMAND_RUN" else "test"
        form = may.command_form(action, call.text(0) if action == "command" else call.note or call.text(0))
        return form, StepResult.denied(f"this {action} is not allowed") if form == "denied" else None

    def _control(self, call: Call) -> tuple[StepResult, int]:
        """Execute a step of the executor itself; return its StepResult and the next step."""
        following = call.at + 1
        if call.op == "CAP_ISSUE":
            return self._issue(call.text(0), call.text(1)), following
        if call.op != "BRANCH":
            return StepResult("done"), following
        if call.missing:
            return StepResult.skipped(call.missing), following
        register = call.number(0) or 0
        value = self._options.registers.get(register, 0) if register else self._register
        if not value:
            return StepResult("done", detail=f"register {register} is zero"), following
        target = self._label(call.text(1))
        if target is None or not self._first <= target < self._end:
            return StepResult.failed(f"there is no label {call.text(1)[:80]!r} among the steps"), following
        return StepResult("done", detail=f"went to step {target:,}"), target

    def _issue(self, action: str, holder: str) -> StepResult:
        """Delegate a capability of this replay. An unknown action is only recorded."""
        try:
            grant = Grant.read(action)
        except UsageError:
            return StepResult.skipped("not an action of a replay")
        if not self._options.capabilities.allows(grant.action):
            return StepResult.denied(f"{grant.action} is not allowed to this replay, so it cannot be delegated")
        return StepResult("done", detail=f"{holder} may {action}, within what this replay may")

    def _label(self, name: str) -> int | None:
        if self._labels is None:
            self._labels = {}
            for index in range(self._first, self._end):
                step = self._steps.at(index)
                if step.code == _LABEL and isinstance(step.operands[0], str):
                    self._labels.setdefault(step.operands[0], index)
        return self._labels.get(name)

    def _local(self, path: str) -> str:
        root = self._options.recorded_root.rstrip("/")
        if root and path == root:
            return "."
        return path[len(root) + 1 :] if root and path.startswith(root + "/") else path

    # Outcomes

    def _outcome(self, call: Call, did: StepResult, following: int, begun_ms: int) -> Outcome:
        result = b""
        if did.output is not None and (call.op != "FILE_EDIT" or NOTE_AFTER in call.notes):
            result = hashlib.sha256(did.output).digest()
            if self._put_output is not None and did.output:
                self._put_output(did.output)
        step = call.step
        register = self._register
        if call.op not in _CONTROL:
            code, outcome = (
                (did.exit_code, did.outcome) if did.state in ("done", "denied") else (step.exit_code, step.outcome)
            )
            register = code if code is not None else int(outcome in ("failed", "denied"))
        return Outcome(
            number=len(self._log.outcomes),
            index=call.at,
            next=following,
            register=register,
            state=did.state,
            outcome=did.outcome,
            exit_code=did.exit_code,
            error=did.error[:_ERROR_CHARS_MAX].encode("utf-8", "replace").decode(),
            result=result.hex(),
            size=len(did.output or b"") if result else 0,
            differs=did.differs,
            at_ms=begun_ms,
            duration_ms=max(0, self._clock.now_ms() - begun_ms),
        )

    def _account(self, outcome: Outcome) -> None:
        """Count the outcome of a step, and compare it with its record."""
        step = self._steps.at(outcome.index)
        self._next, self._register = outcome.next, outcome.register
        self._states[outcome.state] += 1
        if step.code == _CAP_ISSUE and outcome.state == "done":
            action, holder = step.operands
            if isinstance(action, str) and isinstance(holder, str):
                self._issued.setdefault(holder, []).append(Grant.read(action))
        found = _difference(outcome, step, is_strict=self._options.is_strict)
        self._denied += outcome.state == "denied" and step.outcome != "denied"
        if found is not None:
            self._difference_count += 1
            if len(self._differences) < _DIFFERENCES_MAX:
                self._differences.append(found)


def _difference(outcome: Outcome, step: Step, *, is_strict: bool) -> Difference | None:
    """Return the difference between a step's outcome and its record; None if there is none, or nothing to compare."""

    def differs(what: str, expected: object, found: object) -> Difference:
        return Difference(outcome.index, opcode_name(step.code), what, str(expected), str(found))

    if outcome.state == "denied":
        return None if step.outcome == "denied" else differs("outcome", step.outcome, f"denied: {outcome.error}")
    if outcome.state != "done":
        return None
    if outcome.differs is not None:
        return differs(*outcome.differs)
    if outcome.outcome == "unknown" and not outcome.error:
        return None  # it was done, but its outcome is unknown here
    if step.outcome not in ("unknown", outcome.outcome):
        why = f": {outcome.error}" if outcome.error else ""
        return differs("outcome", step.outcome, f"{outcome.outcome}{why}")
    if step.exit_code is not None and outcome.exit_code is not None and step.exit_code != outcome.exit_code:
        return differs("exit code", step.exit_code, outcome.exit_code)
    is_file = isinstance(step.note, str) and NOTE_AFTER in step.note.split("; ")
    if (
        ((is_strict and step.code != _TEST_RUN) or is_file)  # the output of tests contains durations
        and outcome.result
        and isinstance(step.result, Digest)
        and step.result.algorithm == "sha256"
    ):
        recorded = step.result.value.hex()
        if recorded != outcome.result:
            return differs("file" if is_file else "result", f"{recorded[:16]}, {step.result_size:,} bytes",
                           f"{outcome.result[:16]}, {outcome.size:,} bytes")  # fmt: skip
    return None


def _is_of_store(path: str) -> bool:
    """Return whether a path of a world is the store or in it. Other spellings of that name are refused by the world."""
    names = [name for name in path.split("/") if name != "."]
    return names[:1] == [STORE_FOLDER] and ".." not in names


class StepCursor:
    """Access to steps by number. Steps are decoded in order: going forward, or back a little, is cheap; further back
    starts again.
    """

    def __init__(self, readers: Sequence[TrailReader]) -> None:
        self._readers = readers
        self._next = 0
        self._iterator: Iterator[Step] = iter(())
        self._window: deque[Step] = deque(maxlen=_WINDOW_STEPS)
        self._begin()
        self.decoded = 0

    def at(self, index: int) -> Step:
        first = self._next - len(self._window)
        if first <= index < self._next:
            return self._window[index - first]
        if index < first:
            self._begin()
        self.decoded += index + 1 - self._next
        self._window.extend(islice(self._iterator, index + 1 - self._next))
        self._next = index + 1
        return self._window[-1]

    def _begin(self) -> None:
        self._iterator = chain.from_iterable(reader.steps() for reader in self._readers)
        self._next = 0
        self._window.clear()
