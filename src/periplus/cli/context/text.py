"""Contexts, atoms and molecules as JSON documents and as text."""

from __future__ import annotations

__all__ = [
    "SHORT",
    "atom_lines",
    "atom_out",
    "context_argument",
    "entry_out",
    "fraction",
    "line_out",
    "line_text",
    "molecule_lines",
    "molecule_out",
    "refs_at",
    "time_text",
]

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, counted, visible

if TYPE_CHECKING:
    from periplus.cli.context.schemas import ContextLineOut, KnownAtomOut, MoleculeOut
    from periplus.context import Atom, ContextHeader, Entry, Molecule

SHORT: Final = 12
_MILLION: Final = 1_000_000
_TIME_MS_MAX: Final = 253_402_300_799_999  # the year 9999


def context_argument(parser: argparse.ArgumentParser, name: str = "context", *, help_: str = "") -> None:
    """Add the argument that names a context, by default the ref ``main``."""
    text = help_ or "a ref, a digest or a prefix of one; a trailing ~N goes N deltas back (default: main)"
    parser.add_argument(name, nargs="?", default="main", metavar="CONTEXT", help=text)


def fraction(text: str) -> int:
    """Parse an argument from 0 to 1 into millionths."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:30]!r} is not a number") from None
    if not 0 <= value <= 1:  # NaN is neither
        raise argparse.ArgumentTypeError(f"{text[:30]} is not between 0 and 1")
    return round(value * _MILLION)


def atom_out(digest: bytes, atom: Atom, origin: bytes = b"") -> KnownAtomOut:
    from periplus.base.clock import format_ms
    from periplus.cli.context.schemas import KnownAtomOut

    return KnownAtomOut(digest.hex(), atom.content, atom.type, atom.relevance / _MILLION, format_ms(atom.time_ms),
                        atom.source, list(atom.tags), origin.hex())  # fmt: skip


def entry_out(entry: Entry) -> KnownAtomOut:
    return atom_out(entry.digest, entry.atom, entry.origin)


def molecule_out(molecule: Molecule) -> MoleculeOut:
    from periplus.cli.context.schemas import MoleculeOut
    from periplus.context.model import molecule_digest

    relations = {name: [[i, j] for i, j in pairs] for name, pairs in molecule.relations.items()}
    return MoleculeOut(molecule_digest(molecule).hex(), [atom.hex() for atom in molecule.atoms], relations,
                       molecule.type, dict(molecule.metadata))  # fmt: skip


def atom_lines(face: Face, atom: KnownAtomOut, mark: str = "") -> Iterator[str]:
    """Yield a line about the atom, then its content."""
    paint, width = face.palette, face.width
    about = f"{atom.relevance:.2f}  {visible(atom.type, 40)}  "
    rest = visible("  ".join([atom.source, *(f"#{tag}" for tag in atom.tags)]).strip())
    if width is not None:
        rest = visible(rest, max(8, width - len(mark) - len(about) - SHORT - 2))
    yield f"{mark}{paint.name}{atom.digest[:SHORT]}{paint.end}  {paint.bold}{about}{paint.end}{paint.dim}{rest}{paint.end}".rstrip()
    for line in visible(atom.content, lines=True).split("\n"):
        yield f"{' ' * len(mark)}  {line}".rstrip()


def molecule_lines(face: Face, molecule: MoleculeOut, mark: str = "") -> Iterator[str]:
    paint = face.palette
    count = counted(len(molecule.atoms), "atoms")
    yield f"{mark}{paint.name}{molecule.digest[:SHORT]}{paint.end}  {visible(molecule.type, 40)} of {count}"
    for name, pairs in molecule.relations.items():
        for i, j in pairs:
            yield f"{' ' * len(mark)}  {molecule.atoms[i][:SHORT]} {visible(name, 40)} {molecule.atoms[j][:SHORT]}"


def time_text(time_ms: int | None) -> str:
    from periplus.base.clock import format_ms

    return format_ms(time_ms) if time_ms is not None and 0 <= time_ms <= _TIME_MS_MAX else ""


def refs_at(refs: Mapping[str, bytes]) -> dict[bytes, list[str]]:
    """Map contexts to the names of the refs that point to them."""
    found: dict[bytes, list[str]] = {}
    for name, target in refs.items():
        found.setdefault(target, []).append(name)
    return found


def line_out(header: ContextHeader, refs: Mapping[bytes, list[str]]) -> ContextLineOut:
    from periplus.cli.context.schemas import ContextLineOut
    from periplus.context.deltas.log import commit_info

    by = commit_info(header)
    return ContextLineOut(
        header.digest.hex(), header.base.hex() if header.base is not None else "", [one.hex() for one in header.merged],
        header.depth, header.live, header.atom_count, header.molecule_count, header.removed_count,
        by.message, by.author, time_text(by.time_ms), refs.get(header.digest, []),
    )  # fmt: skip


def line_text(face: Face, line: ContextLineOut) -> str:
    """Format a context as one line: digest, time, author, message, and the counts of its delta."""
    paint, width = face.palette, face.width
    names = f" ({', '.join(map(visible, line.refs))})" if line.refs else ""
    changes = [f"+{line.atoms:,}"] if line.atoms else []
    changes += [f"-{line.removed:,}"] if line.removed else []
    changes += [counted(line.molecules, "molecules")] if line.molecules else []
    changes += ["merge"] if line.merged else []
    facts = f"  {line.time[:16]:16}  {visible(line.author, 20)}  {' '.join(changes) or 'no change'}  "
    room = width - SHORT - len(names) - len(facts) if width is not None else None
    told = visible(line.message.split("\n")[0], max(1, room) if room is not None else None)
    return f"{paint.name}{line.context[:SHORT]}{paint.end}{paint.warn}{names}{paint.end}{paint.dim}{facts}{paint.end}{told}".rstrip()
