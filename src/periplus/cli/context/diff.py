"""``periplus context diff``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face, counted, plain, visible
from periplus.cli.context.text import SHORT, atom_lines, entry_out, molecule_lines, molecule_out


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("a", metavar="A", help="the older context: a ref, a digest or a prefix of one, with ~N")
    add("b", metavar="B", nargs="?", default="main", help="the newer context (default: main)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context.schemas import ContextDiffOut, ReannotatedOut
    from periplus.context.deltas.comparison import diff

    with face.open() as project:
        contexts = project.contexts
        before, after = contexts.resolve(plain(arguments.a, "A")), contexts.resolve(plain(arguments.b, "B"))
        found = diff(contexts.library, before, after)
    result = ContextDiffOut(
        before.hex(), after.hex(), [entry_out(one) for one in found.added], [entry_out(one) for one in found.removed],
        [ReannotatedOut(entry_out(one.before), entry_out(one.after)) for one in found.reannotated],
        [molecule_out(one) for one in found.molecules_added], [molecule_out(one) for one in found.molecules_removed],
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        plus, minus, other = f"{paint.good}+{paint.end} ", f"{paint.bad}-{paint.end} ", f"{paint.warn}~{paint.end} "
        for mark, atoms in ((minus, result.removed), (plus, result.added)):
            for atom in atoms:
                yield from atom_lines(face, atom, mark)
        for both in result.annotated:
            yield from atom_lines(face, both.after, other)
            for name in ("relevance", "time", "source", "tags"):
                old, new = getattr(both.before, name), getattr(both.after, name)
                if old != new:
                    yield f"    {name}: {visible(str(old))} -> {visible(str(new))}"
        for mark, molecules in ((minus, result.molecules_removed), (plus, result.molecules_added)):
            for molecule in molecules:
                yield from molecule_lines(face, molecule, mark)
        sums = (
            f"{counted(len(result.added), 'atoms')} more",
            f"{len(result.removed):,} fewer",
            f"{len(result.annotated):,} re-annotated",
        )
        yield f"{paint.dim}{result.a[:SHORT]} -> {result.b[:SHORT]}: {', '.join(sums)}{paint.end}"

    face.emit(result, lines)
    return 0
