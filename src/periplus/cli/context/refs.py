"""``periplus context refs``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face, counted, plain, visible
from periplus.cli.context.text import SHORT


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--set", nargs=2, default=[], metavar=("NAME", "CONTEXT"), help="set the ref NAME to CONTEXT")
    what.add_argument("--end", metavar="NAME", help="remove a ref; its contexts stay until `periplus context gc`")
    add("--force", action="store_true", help="with --set: even if CONTEXT does not build on the ref's current context")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.context.schemas import ContextRefOut, ContextRefsOut, PlaceOut

    if arguments.force and not (arguments.set or arguments.end is not None):
        raise UsageError("--force goes with --set or --end", safe="Nothing was changed.")
    with face.open() as project:
        contexts = project.contexts
        if arguments.set:
            name, reference = plain(arguments.set[0], "NAME"), plain(arguments.set[1], "CONTEXT")
            contexts.set_ref(name, contexts.resolve(reference), force=arguments.force)
        elif arguments.end is not None:
            contexts.set_ref(plain(arguments.end, "--end"), None, force=arguments.force)
        result = ContextRefsOut([
            ContextRefOut(
                one.name, one.target.hex(), one.writer, one.ts, contexts.live(one.target),
                [PlaceOut(target.hex(), writer, ts) for target, writer, ts in one.apart], one.is_ended_apart,
            )
            for one in contexts.refs()
        ])  # fmt: skip

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        longest = max((len(one.name) for one in result.refs), default=0)
        room = min(longest, max(8, (width or 100) - 50))
        for one in result.refs:
            told = f"{visible(one.name, room):{room}}  {paint.name}{one.context[:SHORT]}{paint.end}  {one.time[:16]}  {visible(one.writer, 20)}"
            yield f"{told}  {counted(one.live, 'atoms') if one.live >= 0 else f'{paint.bad}incomplete{paint.end}'}"
            if len(one.apart) > 1:
                yield f"  {paint.warn}diverged between two clones{paint.end}: periplus context merge --ref {visible(one.name)}"
                for place in one.apart:
                    yield f"    {place.context[:SHORT]}  {place.time[:16]}  {visible(place.writer, 40)}"
            if one.ended_apart:
                name = visible(one.name)
                yield f"  {paint.warn}removed in another clone{paint.end}: `periplus context merge --ref {name}` keeps it, `periplus context refs --end {name}` removes it here, too"
        if not result.refs:
            yield "No refs yet. Next: periplus context commit --from memory, or FILE.jsonl"

    face.emit(result, lines)
    return 0 if result.refs or arguments.end is not None else 1
