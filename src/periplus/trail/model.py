"""Values of a trail: what a step and a header hold, without any byte of their encoding."""

from __future__ import annotations

__all__ = [
    "DIGEST_SIZES",
    "OUTCOMES",
    "STATUSES",
    "TOOL_VERSION",
    "Digest",
    "DigestAlgorithm",
    "Header",
    "OperandValue",
    "Outcome",
    "Signed",
    "Status",
    "Step",
    "Text",
    "TextObject",
    "Withheld",
]

from typing import Final, Literal, TypeAlias, get_args

from periplus.base.named_tuple import NamedTuple

TOOL_VERSION: Final = "0.2.0"

DigestAlgorithm: TypeAlias = Literal["sha256", "git-sha1", "git-sha256"]
Outcome: TypeAlias = Literal["ok", "failed", "denied", "cancelled", "unknown"]
Status: TypeAlias = Literal["success", "error", "partial", "cancelled"]

OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
DIGEST_SIZES: Final[dict[DigestAlgorithm, int]] = {"sha256": 32, "git-sha1": 20, "git-sha256": 32}


class Digest(NamedTuple):
    algorithm: DigestAlgorithm
    value: bytes


class TextObject(NamedTuple):
    """A text over 4,096 bytes, kept in the object store under its SHA-256; ``length`` in UTF-8 bytes."""

    sha256: bytes
    length: int


class Withheld(NamedTuple):
    """An entry that a redacted trail does not reveal."""

    commitment: bytes


class Signed(int):
    """A signed number among the operands of a step whose opcode this version does not know.

    The table says which numbers are signed; without a row, the number itself must say so.
    """

    __slots__ = ()


Text: TypeAlias = str | TextObject | Withheld
OperandValue: TypeAlias = str | TextObject | Withheld | Digest | int | None


class Header(NamedTuple):
    """The run: agent, tool, model, host, base, parents. ``started_ms`` (since 1970-01-01 UTC) is no part of the trail's
    identity.
    """

    agent: Text
    trail_id: Text
    tool: Text = "periplus"
    tool_version: Text = TOOL_VERSION
    base: Text | Digest | None = None
    model: Text | None = None
    host: Text | None = None
    source: Digest | Withheld | None = None
    title: Text | None = None
    parents: tuple[Digest | Withheld, ...] = ()
    started_ms: int = 0


class Step(NamedTuple):
    """One step. ``operands`` follow the row of the opcode, with None for an absent one.

    ``delta_ms`` counts from the beginning of the previous step (for the first step, from ``Header.started_ms``),
    ``source`` is the number of the imported record that the step came from.
    """

    code: int
    operands: tuple[OperandValue, ...]
    outcome: Outcome = "ok"
    exit_code: int | None = None
    error: Text | None = None
    result: Digest | Withheld | None = None
    result_size: int = 0
    note: Text | None = None
    delta_ms: int = 0
    duration_ms: int | None = None
    source: int | None = None
