"""The documents of ``periplus trail … --json``."""

from __future__ import annotations

__all__ = [
    "TRAIL_SCHEMAS",
    "FailureOut",
    "FileOut",
    "TrailCheckOut",
    "TrailConcatOut",
    "TrailImportOut",
    "TrailListOut",
    "TrailOut",
    "TrailPartOut",
    "TrailVerifyOut",
]

from typing import Any, Final

import msgspec

from periplus.cli.schemas import EntityOut


class TrailOut(msgspec.Struct):
    """``value`` is the trail's card: what the journal announced of it."""

    id: str
    changed: bool
    value: dict[str, Any]
    children: list[TrailOut]


class FailureOut(msgspec.Struct):
    """A file that could not be imported; the others were."""

    path: str
    wrong: str
    next: str


class TrailImportOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.import/1"):
    """``left_out``: how many more sessions ``--found`` found than it imports at a time."""

    trails: list[TrailOut]
    failed: list[FailureOut]
    left_out: int


class TrailListOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.list/1"):
    trails: list[EntityOut]


class TrailCheckOut(msgspec.Struct):
    """``verdict`` is ok, error, warning or skipped."""

    name: str
    verdict: str
    detail: str


class FileOut(msgspec.Struct):
    """A trail; ``digest`` is empty where its bytes could not be had."""

    name: str
    digest: str
    ok: bool
    summary: str
    first_bad_offset: int | None
    checks: list[TrailCheckOut]


class TrailVerifyOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.verify/1"):
    ok: bool
    trails: list[FileOut]


class TrailPartOut(msgspec.Struct):
    """A part of a concatenation; ``name`` is what it was taken from."""

    name: str
    digest: str
    steps: int
    status: str


class TrailConcatOut(msgspec.Struct, tag_field="schema", tag="periplus.trail.concat/1"):
    path: str
    digest: str
    signed: bool
    bytes: int
    parts: list[TrailPartOut]


TRAIL_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "trail concat": TrailConcatOut,
    "trail import": TrailImportOut,
    "trail list": TrailListOut,
    "trail verify": TrailVerifyOut,
}
