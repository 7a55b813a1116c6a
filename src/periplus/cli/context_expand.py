"""``periplus context expand``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from functools import partial
from itertools import islice

from periplus.cli.context_text import (
    SHORT,
    atom_lines,
    context_argument,
    entry_out,
    molecule_lines,
    molecule_out,
)
from periplus.cli.face import Face, number, plain


def configure(parser: argparse.ArgumentParser) -> None:
    context_argument(parser)
    parser.add_argument("--limit", type=number(1), metavar="N", help="the first N atoms, and no molecules")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context_schemas import ContextExpandOut

    with face.open() as project:
        contexts = project.contexts
        digest = contexts.resolve(plain(arguments.context, "CONTEXT"))
        if arguments.limit is not None:
            for entry in islice(contexts.entries(digest), arguments.limit):
                known = entry_out(entry)
                face.emit(ContextExpandOut(atom=known), partial(atom_lines, face, known))
            return 0
        expansion = contexts.library.expand(digest)
    for entry in expansion.entries:
        known = entry_out(entry)
        face.emit(ContextExpandOut(atom=known), partial(atom_lines, face, known))
    for molecule in expansion.molecules:
        shown = molecule_out(molecule)
        face.emit(ContextExpandOut(molecule=shown), partial(molecule_lines, face, shown))
    for broken in expansion.broken:
        lost = [atom.hex() for atom in broken.atoms]
        told = f"{broken.digest.hex()[:SHORT]}  a molecule that broke: it lost {', '.join(one[:SHORT] for one in lost)}"
        face.emit(ContextExpandOut(broken=[broken.digest.hex(), *lost]), partial(list, [told]))
    if not expansion.entries and not face.as_json:
        face.out("No atoms.")
    return 0
