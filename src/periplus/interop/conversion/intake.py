"""Collection of steps from a foreign record: calls wait for their results, secrets are masked, records are counted.

A call's step is written when its outcome is known, and steps stay in the order of the calls. So all that follows an
open call waits in a queue behind it. The queue is bounded: when it is full, its oldest call is written with the
outcome ``unknown``, and a later result for it is counted and not used.
"""

from __future__ import annotations

__all__ = ["KINDS_MAX", "PENDING_BYTES_MAX", "PENDING_CALLS_MAX", "Call", "Intake", "Planned"]

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from periplus.base.encoding.container import KIND_TRAIL, unpack
from periplus.interop.conversion.hook_blocks import strip_hook_blocks
from periplus.interop.conversion.session_titles import Done, better_title, is_meaningful
from periplus.interop.model import Imported, SourceFormat, Tokens
from periplus.interop.shell_commands.actions import commit_digest, passed_count
from periplus.interop.shell_commands.outcomes import Planned, endings_of_parts
from periplus.trail.format.builder import TrailBuilder
from periplus.trail.format.layout import TAG_RECEIPTS
from periplus.trail.model import Digest, Header, OperandValue, Outcome, Status

PENDING_CALLS_MAX: Final = 1024
PENDING_BYTES_MAX: Final = 16 << 20
ERROR_CHARS_MAX: Final = 2000
_HEAD_CHARS: Final = 500
_CUT: Final = "\n…\n"
TITLE_CHARS_MAX: Final = 120
FILES_MAX: Final = 10_000
KINDS_MAX: Final = 256
KIND_CHARS_MAX: Final = 80
UNREADABLE_MAX: Final = 1000
_BRANCH_CHARACTERS_MAX: Final = 200
_REMEMBERED_CHARS_MAX: Final = 256
_REMEMBERED_MAX: Final = 4096
_STEP_WEIGHT: Final = 200  # bytes that a waiting step takes beside its texts
_UNSET_SECRET: Final = bytes(32)
_SILENT: Final = "nothing was said in it"
_BEHIND_PROMPT: Final = "it ends behind the person's prompt"
_BEHIND_CALL: Final = "it ends behind a call without its result"
_BEHIND_RESULT: Final = "it ends behind a tool's result"
# Prompts that a client answers itself, and calls by which an agent ends its turn.
_CLIENTS_OWN: Final = frozenset({"/clear", "/exit", "/new", "/q", "/quit", ":q", "exit", "quit"})
_LAST_CALLS: Final = frozenset({
    "attempt_completion", "complete", "complete_task", "finish", "submit", "submit_and_exit", "task_complete",
})  # fmt: skip
_FILE_OPERATIONS: Final = {"FILE_READ": 1, "FILE_WRITE": 1, "FILE_EDIT": 1, "FILE_DELETE": 1, "FILE_MOVE": 2}


# A step that waits only for calls before it: op, operands, note, time, source, weight.
_Ready: TypeAlias = tuple[str, tuple[OperandValue, ...], str | None, int | None, int, int]


class Call:
    """Steps that wait for the result of their call, or for the calls before them."""

    __slots__ = (
        "at_ms",
        "duration_ms",
        "error",
        "exit_code",
        "is_ready",
        "outcome",
        "result",
        "result_size",
        "source",
        "steps",
        "weight",
    )

    def __init__(self, steps: list[Planned], at_ms: int | None, source: int) -> None:
        self.steps = steps
        self.at_ms = at_ms
        self.source = source
        self.is_ready = False
        self.outcome: Outcome = "unknown"
        self.exit_code: int | None = None
        self.error: str | None = None
        self.result: Digest | None = None
        self.result_size = 0
        self.duration_ms: int | None = None
        self.weight = 0


def _put_counted(counts: dict[str, int], kind: str, number: int = 1) -> None:
    """Count ``kind``; the number of kinds is limited against hostile files."""
    kind = kind[:KIND_CHARS_MAX].encode("utf-8", "replace").decode()
    if kind not in counts and len(counts) >= KINDS_MAX:
        kind = "other"
    counts[kind] = counts.get(kind, 0) + number


class Intake:
    """Takes the steps of one foreign record in the order in which they began.

    The importer sets ``at_ms`` and ``source`` (the number of the record) before it passes the contents of a record,
    and sets facts about the session; the last value counts.
    """

    def __init__(self, put_object: Callable[[bytes], bytes]) -> None:
        from periplus.base.text.secrets import mask_secrets

        self.at_ms: int | None = None
        self.source = 0
        self.session_id: str | None = None
        self.agent_id: str | None = None
        self.cwd: str | None = None
        self.branch: str | None = None
        self.model: str | None = None
        self.version: str | None = None
        self.title: str | None = None
        self.started_ms: int | None = None
        self.ended_ms: int | None = None
        self._fresh = self._cached = self._out = 0
        self.masked = 0
        self.counts: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        self.unreadable_lines: list[int] = []
        self.planned_count = 0  # steps added so far, written or waiting: the index of the next one
        self._mask_secrets = mask_secrets
        self._remembered: dict[str, tuple[str, int]] = {}
        self._builder = TrailBuilder(_UNSET_SECRET, put_object)
        self._put_object = put_object
        self._queue: deque[Call | _Ready] = deque()
        self._queue_bytes = 0
        self._left = self._left_before = _SILENT  # why the agent did not have the last word; empty if it had
        self._why_partial = ""
        self._files: dict[str, None] = {}
        self._done = Done()

    # Counts

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def skip(self, kind: str, number: int = 1) -> None:
        _put_counted(self.skipped, kind if kind in self.skipped else self.mask(kind), number)

    def note_unknown(self, kind: str) -> None:
        _put_counted(self.unknown, kind if kind in self.unknown else self.mask(kind))

    def note_unreadable(self, number: int) -> None:
        if len(self.unreadable_lines) < UNREADABLE_MAX:
            self.unreadable_lines.append(number)
        else:
            self.skip("unreadable line")

    def note_time(self, at_ms: int | None) -> None:
        self.at_ms = at_ms
        if at_ms is not None:
            if self.started_ms is None or at_ms < self.started_ms:
                self.started_ms = at_ms
            if self.ended_ms is None or at_ms > self.ended_ms:
                self.ended_ms = at_ms

    def note_prompt(self, text: str) -> None:
        """Let the first meaningful prompt name the session."""
        line = _title(text)
        if self.title is None or better_title(self.title, line) != self.title:
            self.title = line

    # Texts

    def typed(self, text: str) -> str:
        """Return the text that a person typed, without additions of hooks; count these."""
        text, found = strip_hook_blocks(text)
        if found:
            self.skip("text of a hook", found)
        return text

    def mask(self, text: str) -> str:
        """Mask secrets in ``text`` and replace lone surrogates by U+FFFD."""
        if len(text) > _REMEMBERED_CHARS_MAX:
            masked, found = self._mask_secrets(text)
        else:
            known = self._remembered.get(text)
            if known is None:
                if len(self._remembered) >= _REMEMBERED_MAX:
                    self._remembered.clear()
                known = self._remembered[text] = self._mask_secrets(text)
            masked, found = known
        self.masked += found
        return masked

    def keep(self, text: str) -> Digest:
        """Store the contents of a file as an object and return its digest."""
        return Digest("sha256", self._put_object(self.mask(text).encode("utf-8", "replace")))

    # Steps

    def step(self, op: str, *operands: OperandValue, note: str | None = None) -> None:
        """Add a step that has no outcome of its own. Texts must be masked already."""
        self.planned_count += 1
        if op == "PROMPT":
            text = operands[0]
            is_own = isinstance(text, str) and text.strip().casefold() in _CLIENTS_OWN
            self._left_before = self._left
            self._left = self._left if is_own else _BEHIND_PROMPT
        elif op == "SAY":
            self._left = ""
        if not self._queue:
            self._builder.add(op, *operands, note=note, at_ms=self.at_ms, source=self.source)
            return
        text = operands[0]
        weight = _STEP_WEIGHT + len(text) if isinstance(text, str) else _STEP_WEIGHT
        self._queue.append((op, operands, note, self.at_ms, self.source, weight))
        self._queue_bytes += weight
        if len(self._queue) > PENDING_CALLS_MAX or self._queue_bytes > PENDING_BYTES_MAX:
            self._give_up()

    def call(self, steps: list[Planned]) -> Call:
        """Add the steps of one call; they wait until ``resolve``."""
        self.count("tools")
        for step in steps:
            self.note_files(step.op, step.operands)
        self._left = "" if _is_last(steps) else _BEHIND_CALL
        return self.hold(steps)

    def note_files(self, op: str, operands: Sequence[OperandValue]) -> None:
        """Remember the files that a step touches."""
        self._done.note(op, operands)
        for path in operands[: _FILE_OPERATIONS.get(op, 0)]:
            if isinstance(path, str) and len(self._files) < FILES_MAX:
                self._files[path] = None

    def hold(self, steps: list[Planned]) -> Call:
        """Add steps that wait until ``release``."""
        self.planned_count += len(steps)
        return self._wait(steps)

    def hold_model(self, model: str) -> Call:
        """Add a model call whose usage is written into its operands until ``release_model``."""
        self.count("model_calls")
        return self.hold([Planned("MODEL_CALL", [self.mask(model), 0, 0, 0])])

    def release_model(
        self,
        call: Call,
        fresh: int,
        cached: int,
        out: int,
        cost_millionths: int | None = None,
        *,
        outcome: Outcome = "ok",
    ) -> None:
        self._fresh += fresh
        self._cached += cached
        self._out += out
        if not call.is_ready:
            call.outcome = outcome
            call.steps[0].operands[1:] = (fresh, cached, out, cost_millionths)
            self.release(call)

    def resolve(
        self,
        call: Call,
        outcome: Outcome,
        text: str | None,
        *,
        exit_code: int | None = None,
        error: str | None = None,
        duration_ms: int | None = None,
        is_exact: bool = True,
    ) -> bool:
        """Set the outcome and result of a call; return False where it has one already. ``text`` is the result as the
        model saw it; where it is not ``is_exact``, only similar to it, and no digest is stored.
        """
        if call.is_ready:
            self.skip("result too late")
            return False
        self.count("tools_paired")
        self._left = "" if _is_last(call.steps) else _BEHIND_RESULT
        call.outcome = outcome
        call.exit_code = exit_code
        masked = self.mask(text) if text is not None else ""
        if text is not None:
            data = masked.encode("utf-8", "replace")
            if is_exact:
                call.result = Digest("sha256", hashlib.sha256(data).digest())
                call.result_size = len(data)
            if outcome != "ok" and error is None:
                error = masked.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip()
                error = _in_short(error)
        self._refine(call, masked, error)
        if error:
            call.error = _in_short(self.mask(error))
        if duration_ms is None and call.at_ms is not None and self.at_ms is not None:
            duration_ms = self.at_ms - call.at_ms
        if duration_ms is not None and duration_ms >= 0:
            call.duration_ms = duration_ms
        self.release(call)
        return True

    def release(self, call: Call) -> None:
        call.is_ready = True
        self._write_ready()

    def _refine(self, call: Call, text: str, error: str | None) -> None:
        """Fill in facts from the result: passed tests, the commit made, the outcome of each part."""
        is_alone = (
            sum(step.op == "TEST_RUN" for step in call.steps) == 1
        )  # with several runs, the passing one is unknown
        for step in call.steps:
            if step.op == "TEST_RUN" and step.operands[1] is None and is_alone:
                step.operands[1] = passed_count(text)
            elif step.op == "GIT_COMMIT" and step.operands[2] is None:
                step.operands[2] = commit_digest(text, step.note or "")
        if any(step.is_hidden or step.rivals for step in call.steps) or call.outcome == "failed":
            code = f" with exit code {call.exit_code}" if call.exit_code is not None else ""
            why = f"a part of the command failed{code}, which one is not known" + (f": {error}" if error else "")
            ends = endings_of_parts(call.steps, call.outcome, _in_short(self.mask(why)), text)
            call.steps = [step._replace(ending=end) for step, end in zip(call.steps, ends, strict=True)]

    def _wait(self, steps: list[Planned]) -> Call:
        call = Call(steps, self.at_ms, self.source)
        weight = 0
        for step in steps:
            weight += _STEP_WEIGHT
            for operand in step.operands:
                if isinstance(operand, str):
                    weight += len(operand)
        call.weight = weight
        self._queue.append(call)
        self._queue_bytes += weight
        if len(self._queue) > PENDING_CALLS_MAX or self._queue_bytes > PENDING_BYTES_MAX:
            self._give_up()
        return call

    def _give_up(self) -> None:
        """Write the oldest call without its result, and the steps that waited for it."""
        while len(self._queue) > PENDING_CALLS_MAX or self._queue_bytes > PENDING_BYTES_MAX:
            first = self._queue[0]
            if isinstance(first, Call):
                first.is_ready = True
            self._write_ready()

    def _write_ready(self) -> None:
        queue = self._queue
        add = self._builder.add
        while queue:
            entry = queue[0]
            if isinstance(entry, tuple):
                op, operands, note, at_ms, source, weight = entry
                add(op, *operands, note=note, at_ms=at_ms, source=source)
            elif entry.is_ready:
                weight = entry.weight
                last = len(entry.steps) - 1
                for at, step in enumerate(entry.steps):
                    outcome, error = step.ending or (entry.outcome, entry.error)
                    add(
                        step.op,
                        *step.operands,
                        outcome=outcome,
                        exit_code=entry.exit_code
                        if step.ending is None
                        else None,  # the exit code belongs to another program
                        error=error,
                        result=entry.result if at == last else None,
                        result_size=entry.result_size if at == last else 0,
                        note=step.note,
                        at_ms=entry.at_ms,
                        duration_ms=entry.duration_ms,
                        source=entry.source,
                    )
            else:
                return
            queue.popleft()
            self._queue_bytes -= weight

    # The end

    def note_answered(self) -> None:
        """Note that the client answered the last prompt itself."""
        if self._left == _BEHIND_PROMPT:
            self._left = self._left_before

    def note_turn_ended(self) -> None:
        """Note that the agent ended its turn according to the record, whatever its last step was."""
        self._left = ""

    def note_unfinished(self, why: str) -> None:
        """Note that the agent's last words did not end its turn."""
        self._left = why

    def ending(self, status: Status, *, is_waiting: bool = False) -> Status:
        """Return the end of the run by the order of its steps: ``success`` only if the agent ended its turn itself.
        ``is_waiting`` means that a call has no result.
        """
        if status == "success" and (is_waiting or self._left):
            return self.partial(_BEHIND_CALL if is_waiting else self._left)
        return status

    def partial(self, why: str) -> Status:
        self._why_partial = self._why_partial or why
        return "partial"

    def finish(
        self,
        source_format: SourceFormat,
        *,
        secret: bytes,
        source: bytes,
        agent: str,
        trail_id: str,
        status: Status,
        tool: str,
        base: Digest | None = None,
        children: tuple[Imported, ...] = (),
    ) -> Imported:
        for entry in self._queue:
            if isinstance(entry, Call):
                entry.is_ready = True
        self._write_ready()
        said = self.title or ""
        if not is_meaningful(said):
            said = _title(self._done.title(self.cwd or "")) or said
        title = self.mask(said) if said else None
        model = self.mask(self.model) if self.model else None
        header = Header(
            agent=self.mask(agent),
            trail_id=self.mask(trail_id),
            tool=tool,
            tool_version=self.mask(self.version or "unknown"),
            base=base,
            model=model,
            source=Digest("sha256", source),
            title=title,
            started_ms=self.started_ms or 0,
        )
        trail = self._builder.finish(header, status, secret)
        self.counts["steps"] = self._builder.step_count
        self.counts["files"] = len(self._files)
        return Imported(
            trail=trail,
            trail_digest=_trail_digest(trail),
            format=source_format,
            agent=header.agent if isinstance(header.agent, str) else agent,
            session_id=self.mask(self.session_id or trail_id),
            agent_id=self.mask(self.agent_id) if self.agent_id else None,
            cwd=self.mask(self.cwd) if self.cwd else None,
            branch=self.mask(self.branch[:_BRANCH_CHARACTERS_MAX]) if self.branch else "",
            started_ms=self.started_ms,
            ended_ms=self.ended_ms,
            model=model,
            title=title,
            source_sha256=source,
            counts=self.counts,
            skipped=self.skipped,
            unknown=self.unknown,
            unreadable_lines=self.unreadable_lines,
            masked=self.masked,
            tokens=Tokens(self._fresh, self._cached, self._out),
            files=tuple(self._files),
            children=children,
            ending=self._why_partial if status == "partial" else "",
        )


def _title(text: str) -> str:
    line = " ".join(text[: 4 * TITLE_CHARS_MAX].split())
    return line if len(line) <= TITLE_CHARS_MAX else line[: TITLE_CHARS_MAX - 1] + "…"


def _in_short(text: str) -> str:
    """Shorten a text to its beginning and end, at line ends if possible: programs report failures at the end."""
    if len(text) <= ERROR_CHARS_MAX:
        return text
    head, tail = text[:_HEAD_CHARS], text[_HEAD_CHARS + len(_CUT) - ERROR_CHARS_MAX :]
    for mark in ("\n", " "):
        if mark in head and mark in tail[: len(tail) // 2]:
            return f"{head.rpartition(mark)[0]}{_CUT}{tail.partition(mark)[2]}"
    return f"{head}{_CUT}{tail}"


def _is_last(steps: Sequence[Planned]) -> bool:
    """Detect a call by which an agent ends its turn."""
    return len(steps) == 1 and steps[0].op == "TOOL_CALL" and steps[0].operands[1] in _LAST_CALLS


def _trail_digest(trail: bytes) -> bytes:
    """Return the digest in a trail's receipts, their last 32 bytes."""
    _, end = unpack(trail, KIND_TRAIL)[TAG_RECEIPTS]
    return trail[end - 32 : end]
