"""Values of a session's timeline: what a page and the shared file show of each step, with every text bounded."""

from __future__ import annotations

__all__ = [
    "FULL",
    "IN_PAGE",
    "Diff",
    "DiffRow",
    "Item",
    "Kind",
    "Limits",
    "Mark",
    "Passage",
    "PlanStep",
    "Result",
    "Usage",
]

from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.clock import format_ms

Kind: TypeAlias = Literal[
    "prompt", "words", "thought", "branch", "read", "search", "edit", "test", "command", "commit", "web", "call", "memory",
    "model", "agent", "plan", "question", "state", "other",
]  # fmt: skip
DiffMark: TypeAlias = Literal[" ", "+", "-", "@"]


class Limits(NamedTuple):
    """The most of one text, of one diff and of one line that is shown."""

    characters: int
    lines: int
    diff_rows: int


IN_PAGE: Final = Limits(6_000, 120, 120)
FULL: Final = Limits(400_000, 8_000, 4_000)


class Passage(NamedTuple):
    """A text, or its beginning. ``left_out`` counts the characters that are not in ``text``; where there is no text,
    ``missing`` says why.
    """

    label: str
    text: str
    left_out: int = 0
    missing: str = ""
    sha256: str = ""

    @property
    def size(self) -> int:
        return len(self.text) + self.left_out


class DiffRow(NamedTuple):
    """A line of a diff; ``@`` stands for equal lines that are left out."""

    mark: DiffMark
    text: str


class Diff(NamedTuple):
    """Changed lines with their surroundings. ``left_out`` counts rows over the limit."""

    rows: tuple[DiffRow, ...]
    added: int
    removed: int
    left_out: int = 0


class Result(NamedTuple):
    """The result of a call: its digest and size, and its text where the store has it."""

    digest: str
    size: int
    text: Passage | None = None


class Usage(NamedTuple):
    """Tokens of a model call, and its cost in millionths of a dollar, 0 where it is not known."""

    fresh: int
    cached: int
    out: int
    cost: int

    @property
    def given(self) -> int:
        return self.fresh + self.cached

    @property
    def cached_percent(self) -> int:
        return 100 * self.cached // self.given if self.given else 0


class PlanStep(NamedTuple):
    text: str
    state: str


class Item(NamedTuple):
    """A step of the timeline. ``number`` counts through all parts of the trail; ``at_ms`` is 0 where no time is known.

    ``detail`` stands beside ``head``: the lines that were read, the folder of a command. ``child`` is the digest of the
    trail of an agent that was started here.
    """

    number: int
    kind: Kind
    op: str
    head: str
    detail: str = ""
    at_ms: int = 0
    duration_ms: int | None = None
    outcome: str = "ok"
    exit_code: int | None = None
    error: Passage | None = None
    note: str = ""
    passages: tuple[Passage, ...] = ()
    diff: Diff | None = None
    result: Result | None = None
    usage: Usage | None = None
    plan: tuple[PlanStep, ...] = ()
    child: str = ""
    commit: str = ""

    @property
    def is_wrong(self) -> bool:
        return self.outcome in ("failed", "denied", "cancelled")

    @property
    def at(self) -> str:
        """The time in RFC 3339, empty where it is not known."""
        return format_ms(self.at_ms) if self.at_ms else ""


class Mark(NamedTuple):
    """A line of the outline: a prompt, or a step at which the course of the session turned."""

    number: int
    kind: Kind
    text: str
    outcome: str
    at_ms: int
