"""``periplus trail list``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import Final

from periplus.cli.common.face import Face, visible

_NARROW: Final = 80


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.conversion import entity_out
    from periplus.cli.trail.documents import run_out
    from periplus.cli.trail.schemas import TrailListOut

    del arguments
    with face.open() as project:
        troubles = [one for one in project.seal_abandoned() if one.trouble is not None]
        trails = list(project.trails())
        runs = [run_out(run) for run in project.unsealed_runs()]
        face.warn(project.journal.damage)
    for one in troubles:
        face.stderr.write(
            f"periplus: run {one.run.id} was abandoned and cannot be sealed: {visible(str(one.trouble))}\n"
        )
    result = TrailListOut([entity_out(trail) for trail in trails], runs)

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for trail in trails:
            value = trail.value
            counts = value.get("counts")
            told = counts.get("steps") if isinstance(counts, dict) else 0
            steps = told if isinstance(told, int) else 0
            started, source = visible(str(value.get("started", ""))[:16]), visible(str(value.get("format")))
            title = str(value.get("title", ""))
            if width is not None and width < _NARROW:
                yield f"{paint.name}{trail.item_id}{paint.end}  {steps:>7,} step{'' if steps == 1 else 's'}"
                yield f"  {started:16}  {visible(title, width - 20)}"
                continue
            rest = f"  {started:16}  {source:11} {steps:>7,} step{' ' if steps == 1 else 's'}  "
            room = width - len(trail.item_id) - len(rest) if width else None
            yield f"{paint.name}{trail.item_id}{paint.end}{rest}{visible(title, room)}"
        for run in runs:
            label = f"{paint.warn}{run.state}{paint.end}"
            yield f"{paint.name}{run.id}{paint.end}  {run.started[:16]}  {label} run of {visible(run.agent, 40)}  {visible(run.title, 60)}".rstrip()
        if not trails and not runs:
            yield "No trails yet. Next: periplus trail import FILE, or --git, or --all"

    face.emit(result, lines)
    return 0
