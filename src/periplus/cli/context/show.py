"""``periplus context show``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from itertools import islice

from periplus.cli.common.face import Face, counted, number, plain, visible
from periplus.cli.context.text import (
    SHORT,
    atom_lines,
    atom_out,
    context_argument,
    line_out,
    molecule_lines,
    molecule_out,
    refs_at,
)


def configure(parser: argparse.ArgumentParser) -> None:
    context_argument(parser)
    parser.add_argument("--limit", type=number(0), default=20, metavar="N", help="show at most N atoms (default: 20)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context.schemas import ContextShowOut
    from periplus.context.deltas.log import TIME_KEY
    from periplus.context.model import atom_digest

    with face.open() as project:
        contexts = project.contexts
        digest = contexts.resolve(plain(arguments.context, "CONTEXT"))
        header = contexts.library.header(digest)
        delta = contexts.library.context(digest)
        refs = refs_at(contexts.table.all())
    line = line_out(header, refs)
    result = ContextShowOut(
        line, header.atoms_root.hex(), dict(header.metadata),
        [atom_out(atom_digest(atom), atom) for atom in islice(delta.atoms, arguments.limit)],
        [one.hex() for one in delta.removed], [molecule_out(one) for one in delta.molecules],
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        names = f" ({', '.join(map(visible, line.refs))})" if line.refs else ""
        yield f"{paint.name}context {line.context}{paint.end}{paint.warn}{names}{paint.end}"
        yield f"base    {line.base or 'none: it is a root'}"
        for one in line.merged:
            yield f"merged  {one}"
        yield f"depth   {line.depth:,}, {counted(line.live, 'atoms')} live"
        if line.time:
            yield f"time    {line.time}"
        for name, value in header.metadata.items():
            if name == TIME_KEY and line.time:
                continue
            yield f"{visible(name, 40):7} {visible(str(value), lines=True)}"
        for atom in result.atoms:
            yield from atom_lines(face, atom, f"{paint.good}+{paint.end} ")
        if header.atom_count > len(result.atoms):
            yield f"  and {header.atom_count - len(result.atoms):,} more: --limit shows them"
        for removed in result.removed:
            yield f"{paint.bad}-{paint.end} {removed[:SHORT]}"
        for molecule in result.molecules:
            yield from molecule_lines(face, molecule, f"{paint.good}+{paint.end} ")

    face.emit(result, lines)
    return 0
