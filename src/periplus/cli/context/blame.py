"""``periplus context blame``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face, plain, visible
from periplus.cli.context.text import SHORT, atom_lines, context_argument, entry_out, time_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("atom", metavar="ATOM", help="the digest of an atom, or a prefix of it; the full digest if the context no longer has the atom")  # fmt: skip
    context_argument(parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.encoding.digests import is_digest_text
    from periplus.cli.context.schemas import BlameEventOut, ContextBlameOut
    from periplus.context.deltas.log import blame

    with face.open() as project:
        contexts = project.contexts
        digest = contexts.resolve(plain(arguments.context, "CONTEXT"))
        named = plain(arguments.atom, "ATOM").lower()
        atom = (
            bytes.fromhex(named)
            if is_digest_text(named)
            else contexts.atom_named(contexts.library.expand(digest), named)
        )
        found = blame(contexts.library, digest, atom)
    events = [
        BlameEventOut(one.kind, one.commit_info.context.hex(), one.commit_info.message, one.commit_info.author, time_text(one.commit_info.time_ms),
                      list(one.fields), one.atom.source if one.atom is not None else "")
        for one in found.events
    ]  # fmt: skip
    result = ContextBlameOut(
        digest.hex(), atom.hex(), entry_out(found.entry) if found.entry is not None else None, events
    )

    def lines() -> Iterator[str]:
        paint, width = face.palette, face.width
        if result.atom is not None:
            yield from atom_lines(face, result.atom)
        else:
            yield f"{paint.name}{result.digest[:SHORT]}{paint.end}  {paint.warn}no longer in the context{paint.end}"
        for one in events:
            what = f"{one.kind} {', '.join(one.fields)}".strip()
            source = f" from {one.source}" if one.source and one.kind == "brought" else ""
            told = f"  {one.time[:16]:16}  {one.author}  {what}{source}  {one.message}".rstrip()
            yield f"{paint.name}{one.context[:SHORT]}{paint.end}{visible(told, max(8, width - SHORT) if width is not None else None)}"

    face.emit(result, lines)
    return 0
