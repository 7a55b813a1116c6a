"""``periplus context push``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face, counted, plain, visible
from periplus.cli.context.remote import other_store, place_arguments, told_progress
from periplus.cli.context.text import SHORT, context_argument


def configure(parser: argparse.ArgumentParser) -> None:
    place_arguments(parser)
    context_argument(parser)
    parser.add_argument(
        "--to",
        default="",
        metavar="NAME",
        help="the ref to move in the other store (default: the ref that is pushed)",
    )
    parser.add_argument(
        "--force", action="store_true", help="even if the new context does not build on the ref's current one there"
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.context.schemas import ContextPushOut
    from periplus.project.context_store.exchange import push_context

    reference = plain(arguments.context, "CONTEXT")
    with face.open() as project, other_store(face, arguments) as other:
        name = plain(arguments.to, "--to") or reference
        if not arguments.to and project.contexts.table.get(reference) is None:
            project.contexts.resolve(reference)
            raise UsageError(f"{reference[:80]!r} is not a ref, so the other store needs a name for it", safe="Nothing was changed.",
                             mend="Name it with --to.")  # fmt: skip
        done = push_context(
            project.contexts, other, reference, name, force=arguments.force, tell=told_progress(face, "pushing")
        )
    face.clear_progress()
    before = done.previous.hex() if done.previous is not None else ""
    result = ContextPushOut(other.place, done.head.hex(), done.ref, before, done.sent.sent, done.sent.size_bytes)

    def lines() -> Iterator[str]:
        paint = face.palette
        name = f"{visible(result.ref)} of {visible(result.place)}"
        if result.previous == result.context:
            yield f"Nothing new: {name} is already at {result.context[:SHORT]}."
            return
        way = f"{result.previous[:SHORT]} -> " if result.previous else ""
        sent = f"{counted(result.objects, 'objects')} sent, {counted(result.bytes, 'bytes')}"
        yield f"{name}: {way}{paint.name}{result.context[:SHORT]}{paint.end} ({sent})"

    face.emit(result, lines)
    return 0
