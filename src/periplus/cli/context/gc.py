"""``periplus context gc``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face, counted, number

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--grace",
        type=number(0, 100_000),
        default=24,
        metavar="HOURS",
        help="leave objects that are younger than this (default: 24)",
    )
    add("--prune", type=number(1, 100_000), nargs="?", const=30, metavar="DAYS", help="delete what was parked at least DAYS ago (default for DAYS: 30)")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context.schemas import ContextGcOut

    prune = arguments.prune * _DAY_MS if arguments.prune is not None else None
    with face.open() as project:
        done = project.contexts.library.gc(grace_ms=arguments.grace * _HOUR_MS, prune_after_ms=prune)
    result = ContextGcOut(
        done.reached, done.young, done.parked, done.parked_bytes, done.restored, done.pruned, done.pruned_bytes
    )

    def lines() -> Iterator[str]:
        yield f"{counted(done.reached, 'objects')} in use, {done.young:,} too recent to park"
        if done.parked:
            yield f"{counted(done.parked, 'objects')} parked ({counted(done.parked_bytes, 'bytes')}): a read brings an object back"
        if done.restored:
            yield f"{counted(done.restored, 'objects')} brought back: they are in use again"
        if prune is not None:
            yield f"{counted(done.pruned, 'objects')} deleted ({counted(done.pruned_bytes, 'bytes')})"
        elif not done.parked:
            yield "Nothing to park."

    face.emit(result, lines)
    return 0
