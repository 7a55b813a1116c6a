"""``related`` and ``changed``: memory and work related to files or a task, and changes since a point in time."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.changes import check_typed
from periplus.cli.common.face import Face, cut_short, number, visible

if TYPE_CHECKING:
    from periplus.cli.common.schemas import HitOut
    from periplus.cli.memory.relevance_schemas import ChangedItemOut, LikelyFileOut

_FILES_SHOWN: Final = 20


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    if command == "related":
        add("files", nargs="*", metavar="FILE", help="a file or folder of the project (repeatable)")
        add("--task", default="", metavar="TEXT", help="the task, in a sentence")
        add("--limit", type=number(1), default=10, metavar="N", help="at most N of each part (default: 10)")
    else:
        add("--since", default="", metavar="WHEN",
            help="a record number, a time, an age (30m, 2h, 3d, 1w), or a session's name or id (default: your last session)")  # fmt: skip
        add("--limit", type=number(1), default=50, metavar="N", help="at most N changes (default: 50)")
    add("--budget", type=number(1), metavar="TOKENS", help="at most this many tokens of text (default: no limit)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    check_typed(arguments)
    return {"related": _related, "changed": _changed}[arguments.command](face, arguments)


def _related(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.conversion import hit_out
    from periplus.cli.memory.relevance_schemas import LikelyFileOut, RelatedOut

    with face.open() as project:
        paths = [project.work.path(path, cwd=face.cwd) for path in arguments.files]
        found = project.related(paths, arguments.task, limit=arguments.limit, budget_tokens=arguments.budget)
        face.warn_of_search(project.journal)
    result = RelatedOut(
        list(found.paths), found.task,
        [LikelyFileOut(one.path, one.score, list(one.why), one.source) for one in found.files],
        [hit_out(hit) for hit in found.memory], [hit_out(hit) for hit in found.work], found.left_out,
        list(found.tests), list(found.commands),
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        if result.files:
            yield f"{paint.dim}files that may change, too{paint.end}"
            for one in result.files:
                yield _file_line(face, one)
        for title, hits in (("related memory", result.memory), ("work", result.work)):
            if hits:
                yield f"{paint.dim}{title}{paint.end}"
            for hit in hits:
                yield from _hit_lines(face, hit)
        if result.commands:
            yield f"{paint.dim}tests to run{paint.end}"
            yield from (f"  {visible(command, face.width and face.width - 2)}" for command in result.commands)
        if result.left_out:
            yield f"{result.left_out:,} more: --limit {arguments.limit * 2}"
        if not (result.files or result.memory or result.work):
            yield "No related files, memory or work were found."

    face.emit(result, lines)
    return 0 if result.files or result.memory or result.work else 1


def _file_line(face: Face, one: LikelyFileOut) -> str:
    paint = face.palette
    source = f" [{one.source}]" if one.source else ""
    return f"  {paint.name}{visible(one.path)}{paint.end}  {paint.dim}{visible('; '.join(one.why) + source)}{paint.end}"


def _hit_lines(face: Face, hit: HitOut) -> Iterator[str]:
    paint, width = face.palette, face.width
    where = hit.id if hit.part < 0 else f"{hit.id}#{hit.part}"
    yield f"  {paint.name}{visible(hit.kind)}{paint.end} {where}  {paint.dim}{visible(hit.ts[:10])}; {visible(cut_short('; '.join(hit.why)))}{paint.end}"
    yield "    " + visible(" ".join(hit.text.split()), width - 4 if width else None)
    for stale in hit.standing:
        yield f"    {paint.warn}stale{paint.end}: {visible(stale)}"


def _changed(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.memory.relevance_schemas import ChangedFileOut, ChangedItemOut, ChangesOut

    with face.open() as project:
        found = project.changed(arguments.since, limit=arguments.limit, budget_tokens=arguments.budget)
        face.warn_of_search(project.journal)
    result = ChangesOut(
        found.origin.what, found.origin.seq, found.origin.ts,
        [ChangedItemOut(one.item_type, one.item_id, one.what, one.state, one.text, list(one.by), one.ts, one.records, one.more)
         for one in found.items],
        [ChangedFileOut(*one) for one in found.files], found.matched, found.left_out,
    )  # fmt: skip

    def lines() -> Iterator[str]:
        yield f"Since {visible(result.since)}:"
        for item in result.items:
            yield _item_line(face, item)
        if result.left_out:
            yield f"  {result.left_out:,} more: --limit {result.matched}"
        for one in result.files[:_FILES_SHOWN]:
            often = f", {one.times} times" if one.times > 1 else ""
            yield f"  {visible(one.path)}  {face.palette.dim}{visible(one.ts[:16])}Z{often} [{one.source}]{face.palette.end}"
        if len(result.files) > _FILES_SHOWN:
            yield f"  {len(result.files) - _FILES_SHOWN} more files: --json lists them"
        if not result.items and not result.files:
            yield "  no changes by others."

    face.emit(result, lines)
    return 0 if result.items or result.files else 1


def _item_line(face: Face, item: ChangedItemOut) -> str:
    paint = face.palette
    state = f" {item.state}" if item.state and item.what in ("changed", "ended") else ""
    by = f" by {', '.join(item.by)}" if item.by else ""
    told = f"{item.what}{state}{by}, {item.ts[:16].replace('T', ' ')}Z"
    return f"  {item.type} {paint.name}{item.id}{paint.end} {paint.dim}{visible(told)}{paint.end}: {visible(item.text)}"
