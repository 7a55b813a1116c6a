"""``periplus dispatch standing``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator

from periplus.cli.common.face import Face, visible


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.dispatch.schemas import StandingOut, StandingsOut
    from periplus.cli.dispatch.table import spent_text
    from periplus.dispatch.reports.standing import standings

    del arguments
    with face.open() as project:
        is_repository = os.path.lexists(os.path.join(project.folder, ".git"))
        found = standings(project.journal, project.folder if is_repository else "")
        face.warn(project.journal.damage)
    result = StandingsOut([StandingOut(*one) for one in found])

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        if not found:
            yield "No agent has done a step yet."
            return
        head = f"{'agent':14} {'kind':12} {'steps':>5} {'first':>5} {'rounds':>6} {'merged':>6} {'undone':>6} {'failed':>6}  spent"
        yield f"{paint.dim}{visible(head, width)}{paint.end}"
        for one in found:
            counts = (
                f"{one.steps:>5} {one.at_first:>5} {one.rounds:>6} {one.integrated:>6} {one.undone:>6} {one.failed:>6}"
            )
            line = f"{visible(one.agent, 14):14} {visible(one.kind, 12):12} {counts}  {spent_text(one.tokens, one.cost, one.wall_ms)}"
            yield visible(line, width)
        yield visible(
            "first: passed the oracle at the first submission; undone: reverted or redone within 14 days", width
        )

    return face.emit(result, lines, 0 if found else 1)
