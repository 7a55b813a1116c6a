"""Values of a replay: a call, its result, and the difference from the record."""

from __future__ import annotations

__all__ = [
    "ABSENT",
    "BACKGROUND",
    "EVERY",
    "Call",
    "Difference",
    "Fate",
    "FileKind",
    "ReadContent",
    "State",
    "StepResult",
    "Verdict",
    "digest_text",
    "prepare_call",
]

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.trail.checkpoints.file_notes import (
    NOTE_CHECKED_OUT,
    NOTE_EXECUTABLE,
    NOTE_LINK,
    NOTE_MERGED,
    NOTE_NOT_EXECUTABLE,
    NOTE_SUBMODULE,
)
from periplus.trail.model import Digest, Outcome, Step, TextObject, Withheld
from periplus.trail.opcodes import BY_CODE, opcode_name

State: TypeAlias = Literal["done", "would", "skipped", "denied"]
Verdict: TypeAlias = Literal["same", "diverged", "paused", "limit"]
Fate: TypeAlias = Literal["done", "not_done", "unknown"]
FileKind: TypeAlias = Literal["kept", "executable", "plain", "link", "submodule"]
ReadContent: TypeAlias = Callable[[Digest], bytes | None]

ABSENT: Final = ""  # in place of a digest: no file
TEXT_BYTES_MAX: Final = 64 << 20
EVERY: Final = "every occurrence"  # note of an edit that replaces all occurrences
BACKGROUND: Final = "in the background"  # note of a command that ran in the background
_KINDS: Final[dict[str, FileKind]] = {
    NOTE_LINK: "link", NOTE_SUBMODULE: "submodule", NOTE_EXECUTABLE: "executable", NOTE_NOT_EXECUTABLE: "plain",
}  # fmt: skip


class Call(NamedTuple):
    """Step ``at`` of the trail with its operands prepared for a world: texts as text, paths of the world.

    ``missing`` names the operands without which the step cannot be carried out: they are withheld or not available.
    """

    at: int
    op: str
    operands: tuple[str | Digest | int | None, ...]
    note: str
    step: Step
    missing: str = ""

    @property
    def notes(self) -> list[str]:
        return self.note.split("; ")

    @property
    def kind(self) -> FileKind:
        """The kind of file that a write makes; ``kept`` keeps the executable bit."""
        return next((_KINDS[note] for note in self.notes if note in _KINDS), "kept")

    @property
    def is_taking_over(self) -> bool:
        """True if a CHECKPOINT states files that come from a checkout or a merge, not from steps."""
        return self.op == "CHECKPOINT" and not {NOTE_CHECKED_OUT, NOTE_MERGED}.isdisjoint(self.notes)

    def text(self, place: int) -> str:
        value = self.operands[place] if place < len(self.operands) else None
        return value if isinstance(value, str) else ""

    def digest(self, place: int) -> Digest | None:
        value = self.operands[place] if place < len(self.operands) else None
        return value if isinstance(value, Digest) else None

    def number(self, place: int) -> int | None:
        value = self.operands[place] if place < len(self.operands) else None
        return value if isinstance(value, int) else None


class Difference(NamedTuple):
    """A difference between a replay and its record: step, opcode, subject, and both values for people."""

    at: int
    op: str
    what: str
    expected: str
    found: str


class StepResult(NamedTuple):
    """The result of a call in a world.

    ``state``: ``done``; ``would`` be done (dry); ``skipped``, because replays never perform it or not here; ``denied``.
    ``outcome`` is that of the step; ``unknown`` or ``denied`` if it was not done. ``detail`` is for people. ``differs``
    names a difference that the world itself found: a tree, the number of tests.
    """

    state: State
    outcome: Outcome = "ok"
    exit_code: int | None = None
    error: str = ""
    output: bytes | None = None
    detail: str = ""
    differs: tuple[str, str, str] | None = None

    @classmethod
    def skipped(cls, why: str) -> StepResult:
        return cls("skipped", "unknown", detail=why)

    @classmethod
    def denied(cls, why: str) -> StepResult:
        return cls("denied", "denied", error=why, detail=why)

    @classmethod
    def failed(cls, why: str, exit_code: int | None = None) -> StepResult:
        return cls("done", "failed", exit_code, error=why, detail=why)


def digest_text(digest: Digest) -> str:
    return f"{digest.algorithm}:{digest.value.hex()}"


def prepare_call(
    at: int, step: Step, local: Callable[[str], str], read_content: ReadContent, *, is_performed: bool
) -> Call:
    """Return the call for a step; ``local`` turns a recorded path into one of the world. Long texts are left out unless
    the step ``is_performed``.
    """
    row = BY_CODE.get(step.code)
    values: list[str | Digest | int | None] = []
    missing = ""
    for place, value in enumerate(step.operands):
        ready: str | Digest | int | None
        if isinstance(value, Withheld | TextObject):
            ready, trouble = _fetched(value, read_content) if is_performed else (None, "")
            if trouble:
                missing = f"{row.operands[place].name if row is not None else place}: {trouble}"
        else:
            ready = value
        is_path = row is not None and row.operands[place].kind == "path"
        values.append(local(ready) if is_path and isinstance(ready, str) else ready)
    note = step.note if isinstance(step.note, str) else ""
    return Call(at, opcode_name(step.code), tuple(values), note, step, missing)


def _fetched(value: Withheld | TextObject, read_content: ReadContent) -> tuple[str | None, str]:
    """Return the text of an operand, or the reason why it is not available."""
    if isinstance(value, Withheld):
        return None, "withheld"
    if value.length > TEXT_BYTES_MAX:
        return None, f"over {TEXT_BYTES_MAX:,} bytes"
    data = read_content(Digest("sha256", value.sha256))
    return (data.decode("utf-8", "replace"), "") if data is not None else (None, "its object is not available")
