"""Lines and sections of a brief."""

from __future__ import annotations

__all__ = ["BriefLine", "BriefSection"]

from periplus.base.named_tuple import NamedTuple


class BriefLine(NamedTuple):
    text: str
    source: str


class BriefSection(NamedTuple):
    title: str
    lines: tuple[BriefLine, ...]
    left_out: int
    more: str
