"""``periplus context log``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, number, plain, visible
from periplus.cli.context.text import context_argument, line_out, line_text, refs_at

if TYPE_CHECKING:
    from periplus.cli.context.schemas import RefMoveOut
    from periplus.project import Project


def configure(parser: argparse.ArgumentParser) -> None:
    context_argument(parser)
    add = parser.add_argument
    add("--limit", type=number(1), default=20, metavar="N", help="at most N (default: 20)")
    add("--base-only", action="store_true", help="only the chain of deltas, without merged contexts")
    add(
        "--ref-moves",
        action="store_true",
        help="list the journal records that moved the ref instead of contexts",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context.schemas import ContextLogOut
    from periplus.context.deltas.ancestry import chain, descent

    reference, limit = plain(arguments.context, "CONTEXT"), arguments.limit
    with face.open() as project:
        contexts = project.contexts
        if arguments.ref_moves:
            moves, has_more = _moves(project, reference, limit)
            result = ContextLogOut([], moves, has_more)
        else:
            refs = refs_at(contexts.table.all())
            walk = chain if arguments.base_only else descent
            headers = list(islice(walk(contexts.library, contexts.resolve(reference)), limit + 1))
            result = ContextLogOut([line_out(one, refs) for one in headers[:limit]], [], len(headers) > limit)

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        for line in result.contexts:
            yield line_text(face, line)
        for move in result.moves:
            told = f"{move.time[:16]}  {visible(move.writer, 20)}  "
            room = width - len(told) - len(str(move.seq)) - 2 if width is not None else None
            yield f"{paint.dim}{move.seq}  {told}{paint.end}{visible(move.what, max(8, room) if room is not None else None)}"
        if result.more:
            yield f"{paint.dim}There is more: --limit{paint.end}"

    face.emit(result, lines)
    return 0


def _moves(project: Project, name: str, limit: int) -> tuple[list[RefMoveOut], bool]:
    from periplus.base.errors import NotFoundError
    from periplus.cli.context.schemas import RefMoveOut
    from periplus.context.stores.refs import check_ref_name
    from periplus.journal.history.log import RecordFilter
    from periplus.memory.entities.types import CONTEXT_REF
    from periplus.project.context_store.refs import ref_id

    check_ref_name(name)
    wanted = RecordFilter(types=(CONTEXT_REF,), item_id=ref_id(name))
    page = project.log(wanted, limit=limit, lineages=project.journal.lineages())
    if not page.records:
        raise NotFoundError(f"there has never been a ref {name!r}", mend="See `periplus context refs`.")
    moves = [RefMoveOut(one.lineage, one.seq, one.ts, one.writer, one.summary) for one in page.records]
    return moves, bool(page.before)
