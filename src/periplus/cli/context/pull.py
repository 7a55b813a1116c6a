"""``periplus context pull``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face, counted, plain, visible
from periplus.cli.context.remote import next_merge, other_store, place_arguments, told_progress
from periplus.cli.context.text import SHORT

_APART = 5  # the exit code of a conflict


def configure(parser: argparse.ArgumentParser) -> None:
    place_arguments(parser)
    parser.add_argument(
        "name", nargs="?", default="main", metavar="NAME", help="the ref of the other store (default: main)"
    )
    parser.add_argument(
        "--to", default="", metavar="NAME", help="the ref to move in this store (default: the same name)"
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context.schemas import ContextPullOut
    from periplus.project.context_store.exchange import pull_context

    name = plain(arguments.name, "NAME")
    into = plain(arguments.to, "--to") or name
    with face.open() as project, other_store(face, arguments) as other:
        done = pull_context(project.contexts, other, name, into, tell=told_progress(face, "pulling"))
        is_apart_here = len(project.contexts.table.standing(into)) > 1
    face.clear_progress()
    before = done.previous.hex() if done.previous is not None else ""
    result = ContextPullOut(
        other.place, done.head.hex(), done.ref, before, done.outcome, done.sent.sent, done.sent.size_bytes
    )

    def lines() -> Iterator[str]:
        paint = face.palette
        came = f"{counted(result.objects, 'objects')} received, {counted(result.bytes, 'bytes')}, verified"
        if result.outcome == "nothing":
            stands = "at" if result.previous == result.context else "on"
            yield f"Nothing new: {visible(result.ref)} is already {stands} {result.context[:SHORT]}."
        elif result.outcome == "moved":
            way = f"{result.previous[:SHORT]} -> " if result.previous else ""
            yield f"{visible(result.ref)}: {way}{paint.name}{result.context[:SHORT]}{paint.end} ({came})"
        else:
            yield f"{paint.warn}{visible(result.ref)} and {visible(result.place)} have diverged{paint.end}; {came}. No ref was moved."
            yield f"Next: {next_merge(result.ref, result.context[:SHORT], is_apart_here=is_apart_here)}"

    return face.emit(result, lines, _APART if result.outcome == "apart" else 0)
