"""``periplus trail list``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import Final

from periplus.cli.face import Face, visible

_NARROW: Final = 80


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.convert import entity_out
    from periplus.cli.trail_schemas import TrailListOut

    del arguments
    with face.open() as project:
        trails = list(project.trails())
        face.warn(project.journal.damage)
    result = TrailListOut([entity_out(trail) for trail in trails])

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for trail in trails:
            value = trail.value
            counts = value.get("counts")
            steps = counts.get("steps", 0) if isinstance(counts, dict) else 0
            started, source = visible(str(value.get("started", ""))[:16]), visible(str(value.get("format")))
            title = str(value.get("title", ""))
            if width is not None and width < _NARROW:
                yield f"{paint.name}{trail.item_id}{paint.end}  {steps:>7,} steps"
                yield f"  {started:16}  {visible(title, width - 20)}"
                continue
            rest = f"  {started:16}  {source:11} {steps:>7,} steps  "
            room = width - len(trail.item_id) - len(rest) if width else None
            yield f"{paint.name}{trail.item_id}{paint.end}{rest}{visible(title, room)}"
        if not trails:
            yield "No trails yet. Next: periplus trail import FILE, or --git, or --found"

    face.emit(result, lines)
    return 0
