"""``periplus context clone``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator

from periplus.cli.common.face import Face, counted, plain, visible
from periplus.cli.context.remote import next_merge, other_store, place_arguments, told_progress
from periplus.cli.context.text import SHORT

_APART = 5  # the exit code of a conflict


def configure(parser: argparse.ArgumentParser) -> None:
    place_arguments(parser)
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="the project to fetch into; a store is created if it has none (default: this one)")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.context.schemas import ContextCloneOut
    from periplus.project import Project
    from periplus.project.context_store.exchange import clone_contexts, understood

    folder = os.path.join(face.cwd, plain(arguments.folder, "FOLDER"))
    if not os.path.isdir(folder):
        raise UsageError(
            f"{arguments.folder[:200]} is not a folder", safe="Nothing was changed.", mend="Create it first."
        )
    with other_store(face, arguments) as other:
        with understood(other):
            other.peer.refs()  # connect first: a failure must not leave an empty store
        made = Project.init(folder, store=face.store)
        with Project(made.root, face.writer(), progress=face.progress("rebuilding the index")) as project:
            done = clone_contexts(project.contexts, other, tell=told_progress(face, "cloning"))
            apart_here = {name for name in done.refs if len(project.contexts.table.standing(name)) > 1}
    face.clear_progress()
    result = ContextCloneOut(
        other.place, made.root, made.is_new, {name: head.hex() for name, (head, _) in done.refs.items()},
        [name for name, (_, outcome) in done.refs.items() if outcome == "apart"],
        sum(one.sent for one in done.sent), sum(one.size_bytes for one in done.sent),
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        if result.made:
            yield f"Made the store {visible(result.store)}"
        longest = max(map(len, result.refs), default=0)
        for name, context in result.refs.items():
            merge = next_merge(name, context[:SHORT], is_apart_here=name in apart_here)
            apart = f"  {paint.warn}diverged{paint.end}: {merge}"
            yield f"{visible(name):{longest}}  {paint.name}{context[:SHORT]}{paint.end}{apart if name in result.apart else ''}"
        yield f"{counted(len(result.refs), 'refs')} of {visible(result.place)}; {counted(result.objects, 'objects')} received, {counted(result.bytes, 'bytes')}, verified"

    return face.emit(result, lines, _APART if result.apart else 0)
