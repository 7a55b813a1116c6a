"""``periplus context expand``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, number, plain
from periplus.cli.context.text import (
    SHORT,
    atom_lines,
    context_argument,
    entry_out,
    molecule_lines,
    molecule_out,
)

if TYPE_CHECKING:
    from periplus.context.model import Entry
    from periplus.context.stores.library import ContextLibrary


def configure(parser: argparse.ArgumentParser) -> None:
    context_argument(parser)
    parser.add_argument("--limit", type=number(1), metavar="N", help="only the first N atoms, and no molecules")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context.schemas import ContextExpandOut

    with face.open() as project:
        contexts = project.contexts
        digest = contexts.resolve(plain(arguments.context, "CONTEXT"))
        if arguments.limit is not None:
            for entry in islice(contexts.entries(digest), arguments.limit):
                _tell_atom(face, entry)
            live = contexts.library.header(digest).live
            is_whole = live <= arguments.limit and not _has_molecules(contexts.library, digest)
            return _end(face, digest, (min(live, arguments.limit), 0, 0), is_whole=is_whole)
        expansion = contexts.library.expand(digest)
    for entry in expansion.entries:
        _tell_atom(face, entry)
    for molecule in expansion.molecules:
        shown = molecule_out(molecule)
        face.emit(ContextExpandOut(molecule=shown), partial(molecule_lines, face, shown))
    for broken in expansion.broken:
        lost = [atom.hex() for atom in broken.atoms]
        told = (
            f"{broken.digest.hex()[:SHORT]}  an incomplete molecule; it lost {', '.join(one[:SHORT] for one in lost)}"
        )
        face.emit(ContextExpandOut(broken=[broken.digest.hex(), *lost]), partial(list, [told]))
    if not expansion.entries and not face.as_json:
        face.out("No atoms.")
    counts = len(expansion.entries), len(expansion.molecules), len(expansion.broken)
    return _end(face, digest, counts, is_whole=True)


def _tell_atom(face: Face, entry: Entry) -> None:
    from periplus.cli.context.schemas import ContextExpandOut

    known = entry_out(entry)
    face.emit(ContextExpandOut(atom=known), partial(atom_lines, face, known))


def _has_molecules(library: ContextLibrary, digest: bytes) -> bool:
    from periplus.context.deltas.atom_lookup import molecule_table

    table = molecule_table(library, digest)
    return bool(len(table) or table.broken())


def _end(face: Face, digest: bytes, counts: tuple[int, int, int], *, is_whole: bool) -> int:
    """Print the last line of JSON output, which proves that no line is missing."""
    if face.as_json:
        from periplus.cli.context.schemas import ContextExpandEndOut

        face.emit(ContextExpandEndOut(digest.hex(), *counts, whole=is_whole), list)
    return 0
