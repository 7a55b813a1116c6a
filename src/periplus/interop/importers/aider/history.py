"""Importer of aider's chat history: a Markdown file in the project folder that holds all sessions.

Format: a line that aider wrote begins with ``> ``, a line that a person typed with ``#### ``. Both end in two spaces,
which distinguishes them from headings and quotations in an answer. The output of a command has the mark on its first
line and the two spaces on its last line only. All other lines are the model's answer. An answer contains the edits as
blocks or as whole files; a line after it tells whether an edit was made. Only the start of a session has a
time, without a zone; it is read as UTC.

Each session becomes a trail, whose source is its part of the file: when the history grows, the trails of earlier
sessions stay the same.
"""

from __future__ import annotations

__all__ = ["AiderImporter", "is_mine", "read"]

import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.interop.conversion.claude_tools import shell_steps, tool_call
from periplus.interop.conversion.intake import Call, Intake, Planned
from periplus.interop.importers.aider.edit_blocks import Edit, edits_of
from periplus.interop.readers.json_values import Moment
from periplus.interop.readers.line_reader import LineReader

if TYPE_CHECKING:
    from periplus.interop.conversion.source import Head, Source
    from periplus.interop.model import Imported
    from periplus.trail.model import Status

TEXT_CHARS_MAX: Final = 4 << 20  # of one answer or output; longer text is split
_EDITS_WAITING_MAX: Final = 512
_START: Final = re.compile(rb"^# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[ \t]*$", re.MULTILINE)
_START_MARK: Final = b"# aider chat started at "
_MODEL: Final = re.compile(r"(?:Main model|Models?): (\S{1,200}?),? with ")
_VERSION: Final = re.compile(r"Aider v(\S{1,80})")
_ADDED: Final = re.compile(r"Added (.{1,1000}?) to (?:the chat|read-only files)\.?")
_COMMIT: Final = re.compile(r"Commit [0-9a-f]{7,40} (.{1,2000})")
_APPLIED: Final = re.compile(r"Applied edit to (.{1,1000})")
_REFUSED: Final = re.compile(r"(?:Skipping edits to|Did not apply edit to) (.{1,1000}?)(?: \(.{0,200}\))?")
_TOKENS: Final = re.compile(
    r"Tokens: ([\d.,]{1,15}[kM]?) sent"
    r"(?:, ([\d.,]{1,15}[kM]?) cache write)?(?:, ([\d.,]{1,15}[kM]?) cache hit)?"
    r"(?:, ([\d.,]{1,15}[kM]?) received)?\.(?: Cost: \$([\d.,]{1,15}))?"
)
_ASKED: Final = re.compile(
    r"(.{3,300}\?)(?: \([^()]{1,40}\)[^\[\]:]{0,80}(?:\[[^\[\]]{1,40}\])?:)? (y|n|yes|no|a|all|s|skip|d|don't)",
    re.IGNORECASE,
)
_UNMATCHED: Final = re.compile(r"# \d{1,6} SEARCH/REPLACE blocks? failed to match")
_NO_CONFORM: Final = "The LLM did not conform to the"
_PROGRAM_PROMPTS: Final = ("# Fix any errors below", "# Fix any linting errors below", "The LLM did not conform to the")
_ASKING: Final = ("/architect ", "/ask ", "/code ", "/context ", "/help ")  # aider answers the other commands itself
_COMMANDS: Final = ("/run ", "/test ", "/git ", "!")
_FAILURES: Final = ("Unexpected error:", "Traceback (most recent call last)", "The API provider", "litellm.")


def is_mine(head: Head) -> bool:
    return _START_MARK in head.data and _START.search(head.data) is not None


def read(source: Source) -> Iterator[Imported]:
    lines = LineReader(source.path, source.progress)
    names: dict[bytes, int] = {}
    part: _Part | None = None
    empty = 0
    last = 0
    for number, line in lines:
        start = _START.match(line) if line.startswith(_START_MARK) else None
        if part is None or start is not None:
            if part is not None:
                if part.intake.planned_count or part.importer.is_waiting:
                    yield part.finish(empty, is_last=False)
                    empty = 0
                else:
                    empty += part.name != b""
            name = start.group(1) if start is not None else b""
            names[name] = names.get(name, 0) + 1
            part = _Part(source, name, names[name])
            last = number - 1
        part.feed(number, line, number - last - 1)
        last = number
    if part is not None:
        yield part.finish(empty, is_last=True)


class _Part:
    """The part of the file with one session."""

    def __init__(self, source: Source, name: bytes, repetition: int) -> None:
        self.name = name
        self.intake = source.intake()
        self.importer = AiderImporter(self.intake)
        self._source = source
        self._repetition = repetition
        self._sha256 = hashlib.sha256()
        self._lines = 0

    def feed(self, number: int, line: bytes, blank_lines: int) -> None:
        self._sha256.update(b"\n" * blank_lines + line + b"\n")
        self._lines += 1
        self.importer.feed(number, line, is_behind_blank=blank_lines > 0)

    def finish(self, empty: int, *, is_last: bool) -> Imported:
        status = self.importer.finish(is_last=is_last)
        digest = self._sha256.digest()
        intake = self.intake
        if empty:
            intake.skip("session in which nothing was said", empty)
        intake.count("lines", self._lines)
        name = self.name.decode().replace(" ", "T") or digest.hex()[:16]
        if self._repetition > 1:
            name += f"-{self._repetition}"
        intake.session_id = f"aider-{name}"
        return intake.finish(
            "aider",
            secret=self._source.secret(digest),
            source=digest,
            agent="aider",
            trail_id=intake.session_id,
            status=status,
            tool="aider",
        )


class AiderImporter:
    """Turns the lines of one session into steps."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._model = "unknown"
        self._kind = ""  # of the block being read: prompt, output, answer
        self._lines: list[str] = []
        self._chars = 0
        self._first_line = 0
        self._edits: list[tuple[Edit, Call]] = []
        self._command: Call | None = None
        self._printed: list[str] = []
        self._is_answering = False
        self._is_asked: bool | None = None  # the model was asked and has not answered; None before the first question
        self._last: Status = "success"

    @property
    def is_waiting(self) -> bool:
        """True while lines were read that no step covers yet."""
        return self._kind in ("prompt", "answer")

    def feed(self, number: int, line: bytes, *, is_behind_blank: bool) -> None:
        text = line.decode("utf-8", "replace").removesuffix("\r")
        if line.startswith(_START_MARK) and (start := _START.match(line)) is not None:
            self._intake.note_time(Moment().read(start.group(1).decode()))
            return
        is_own = text.endswith("  ")
        if is_own and text.startswith("####") and text[4:5] in (" ", ""):
            if self._kind != "prompt" or is_behind_blank:
                self._begin("prompt", number)
            self._add(text[5:].rstrip())
        elif text.startswith("> ") and (is_own or self._kind not in ("answer", "output")):
            self._begin("output", number)
            self._add(text[2:].rstrip())
            if is_own:
                self._end()
        elif self._kind == "output":
            self._add(("\n" if is_behind_blank else "") + text.rstrip())
            if is_own:
                self._end()
        elif text.rstrip() != ">":
            if self._kind != "answer":
                self._begin("answer", number)
                is_behind_blank = False
            self._add(("\n" if is_behind_blank else "") + text)

    def finish(self, *, is_last: bool) -> Status:
        """End the session. ``is_last``: the file may still grow, so its last answer may be incomplete."""
        is_partial = is_last and self._kind == "answer"
        self._end()
        self._end_command()
        self._give_up_edits()
        if is_partial and self._last == "success":
            return self._intake.partial("its last answer may go on")
        if self._is_asked is False:
            self._intake.note_turn_ended()
        return self._intake.ending(self._last)

    # Blocks of lines

    def _begin(self, kind: str, number: int) -> None:
        self._end()
        self._kind = kind
        self._first_line = number

    def _add(self, text: str) -> None:
        self._lines.append(text)
        self._chars += len(text)
        if self._chars > TEXT_CHARS_MAX:
            kind, number = self._kind, self._first_line
            self._end()
            self._kind, self._first_line = kind, number

    def _end(self) -> None:
        kind, lines = self._kind, self._lines
        self._kind, self._lines, self._chars = "", [], 0
        if not lines:
            return
        self._intake.source = self._first_line
        text = "\n".join(lines)
        if kind == "prompt":
            self._end_command()
            self._prompt(text.strip())
        elif kind == "answer":
            self._end_command()
            self._answer(text)
        else:
            self._output(text)

    # Messages

    def _prompt(self, text: str) -> None:
        intake = self._intake
        if not text:
            intake.skip("user: nothing in it")
            return
        if _UNMATCHED.match(text) or text.startswith(_PROGRAM_PROMPTS):
            intake.skip("user: written by the program")
            self._fail_edits(text)
            return
        self._give_up_edits()
        masked = intake.mask(text)
        intake.count("prompts")
        intake.note_prompt(masked)
        intake.step("PROMPT", masked)
        self._last = "success"
        if not text.startswith(("/", "!")) or text.startswith(_ASKING):
            self._is_asked = True
        elif self._is_asked is None:
            intake.note_answered()
        mark = next((mark for mark in _COMMANDS if text.startswith(mark)), None)
        if mark is not None and "\n" not in text:
            command = text[len(mark) :].strip()
            if command:
                self._run(f"git {command}" if mark == "/git " else command, is_test=mark == "/test ")

    def _answer(self, text: str) -> None:
        intake = self._intake
        text = text.strip("\n")
        self._give_up_edits()
        intake.count("says")
        intake.step("SAY", intake.mask(text))
        self._is_answering = True
        self._is_asked = False
        for edit in edits_of(text):
            if len(self._edits) >= _EDITS_WAITING_MAX:
                self._give_up_edits()
            path = intake.mask(edit.path)
            if edit.old is None:
                step = Planned("FILE_WRITE", [path, intake.keep(edit.new)])
            else:
                step = Planned("FILE_EDIT", [path, intake.mask(edit.old), intake.mask(edit.new)])
            self._edits.append((edit, intake.call([step])))

    def _run(self, command: str, *, is_test: bool) -> None:
        intake = self._intake
        steps = shell_steps(intake, command, None)
        if is_test and steps[0].op == "COMMAND_RUN":
            steps = [Planned("TEST_RUN", [intake.mask(command), None], intake.mask(command))]
        self._command = intake.call(steps)

    def _end_command(self) -> None:
        """End the open command: its output is all text up to the next speaker. Its exit code is unknown."""
        if self._command is not None:
            call, self._command = self._command, None
            printed, self._printed = "\n".join(self._printed), []
            self._intake.resolve(call, "unknown", printed, error="")

    # Lines of aider

    def _output(self, text: str) -> None:
        intake = self._intake
        text = text.strip()
        if not text:
            return
        if text.startswith("Running ") and self._command is None and not text.startswith("Running pip"):
            self._run(text.removeprefix("Running ").strip(), is_test=False)
        elif match := _TOKENS.match(text):
            self._model_call(match)
        elif match := _APPLIED.fullmatch(text):
            self._applied(match.group(1))
        elif match := _REFUSED.fullmatch(text):
            self._settle(match.group(1), "denied", text)
        elif _UNMATCHED.match(text) or text.startswith(_NO_CONFORM):
            self._fail_edits(text)
        elif match := _COMMIT.fullmatch(text):
            self._end_command()
            intake.count("commits")
            intake.step("GIT_COMMIT", "", intake.mask(match.group(1)), None, note=intake.mask(text.split(" ", 2)[1]))
        elif match := _ADDED.fullmatch(text):
            step = Planned("FILE_READ", [intake.mask(match.group(1)), None], "added to the chat")
            intake.note_files(step.op, step.operands)
            intake.step(step.op, *step.operands, note=step.note)
        elif match := _ASKED.fullmatch(text):
            self._end_command()
            intake.step("ASK", intake.mask(match.group(1)), intake.mask(match.group(2)))
        elif text.startswith("^C"):
            if self._is_answering:
                self._last = "cancelled"
            intake.skip("interruption")
        else:
            self._remark(text)

    def _remark(self, text: str) -> None:
        intake = self._intake
        if match := _VERSION.fullmatch(text):
            intake.version = match.group(1)
        elif match := _MODEL.match(text):
            self._model = intake.model = match.group(1)
        elif text.startswith(_FAILURES):
            self._last = "error"
        elif self._command is not None:
            self._printed.append(text)
            return
        intake.skip("output of aider")

    def _model_call(self, match: re.Match[str]) -> None:
        sent, written, hit, received, cost = match.groups()
        fresh, cached = _number(sent) + _number(written), _number(hit)
        call = self._intake.hold_model(self._model)
        cost_millionths = round(float(cost.replace(",", "")) * 1_000_000) if cost and _is_number(cost) else None
        self._intake.release_model(call, fresh, cached, _number(received), cost_millionths)
        self._is_answering = False
        self._last = "success"

    # Outcomes of edits

    def _applied(self, path: str) -> None:
        if not self._settle(path, "ok", f"Applied edit to {path}"):
            # The answer contains the edit in a form that is not parsed, perhaps a diff; it was made all the same.
            intake = self._intake
            call = intake.call([tool_call(intake, "", "edit", {"path": path})])
            intake.resolve(call, "ok", f"Applied edit to {path}")

    def _settle(self, path: str, outcome: str, text: str) -> bool:
        mine = [one for one in self._edits if _is_path(one[0].path, path)]
        for one in mine:
            self._intake.resolve(one[1], "denied" if outcome == "denied" else "ok", text)
            self._edits.remove(one)
        return bool(mine)

    def _fail_edits(self, report: str) -> None:
        """Mark the edits quoted in the report as failed; without quotes, all of them."""
        quoted = [one for one in self._edits if one[0].old and one[0].old.strip("\n") in report]
        for one in quoted or list(self._edits):
            self._intake.resolve(one[1], "failed", report)
            self._edits.remove(one)

    def _give_up_edits(self) -> None:
        for _, call in self._edits:
            self._intake.release(call)
        self._edits.clear()


def _is_path(named: str, applied: str) -> bool:
    return named == applied or applied.endswith("/" + named) or named.endswith("/" + applied)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).isdigit()


def _number(text: str | None) -> int:
    """Parse ``5,244``, ``12k``, ``1.5k``."""
    if not text or not _is_number(text.rstrip("kM")):
        return 0
    scale = {"k": 1000, "M": 1_000_000}.get(text[-1], 1)
    return min(round(float(text.rstrip("kM").replace(",", "")) * scale), 2**53 - 1)
