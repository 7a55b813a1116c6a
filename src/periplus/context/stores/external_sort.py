"""External sort of any number of atoms into the order of a context, in bounded memory: sorted parts in a file, then a
merge.

A part is as much as is held at once. Its atoms go to the file in their order, a batch at a time, and so do its
identities, in ascending order: merging those finds an atom that was given twice, with any annotations, before anything
is stored. The file has no name and is removed when its last user closes it.
"""

from __future__ import annotations

__all__ = ["HELD_ATOMS_MAX", "Scratch", "Sorter"]

import heapq
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from periplus.base.errors import UsageError, environment_failure
from periplus.base.files import TEMPORARY_SUFFIX, Files, write_all
from periplus.context.model import Atom, Context, OrderKey, order_key
from periplus.context.records.pages import PAGE_ATOMS
from periplus.context.validation import ATOMS_MAX, prepare

HELD_ATOMS_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 64 << 20
_DIGESTS_READ: Final = 1024


class Scratch:
    """An unnamed file in ``folder``. Raises EnvironmentFailure if it cannot be created."""

    def __init__(self, folder: str, files: Files) -> None:
        self._files = files
        self._folder = folder
        path = os.path.join(folder, f".sort.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
        try:
            files.make_folder(folder)
            self._fd = files.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            files.unlink(path)
        except OSError as error:
            raise environment_failure(error, "create", path) from error
        self.size = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Append ``data`` and return offset and length."""
        try:
            write_all(self._files, self._fd, data)
        except OSError as error:
            raise environment_failure(error, "write a temporary file in", self._folder) from error
        place = (self.size, len(data))
        self.size += len(data)
        return place

    def read(self, offset: int, length: int) -> bytes:
        try:
            data = os.pread(self._fd, length, offset)
            while len(data) < length and (more := os.pread(self._fd, length - len(data), offset + len(data))):
                data += more
        except OSError as error:
            raise environment_failure(error, "read a temporary file in", self._folder) from error
        assert len(data) == length
        return data

    def close(self) -> None:
        self._files.close(self._fd)


class _Part(NamedTuple):
    """The spans of the batches of atoms, and of all their identities."""

    batches: list[tuple[int, int]]
    digests: tuple[int, int]


class Sorter:
    """Sort atoms; beyond HELD_ATOMS_MAX of them they go to ``scratch``."""

    def __init__(self, scratch: Scratch, held_max: int = HELD_ATOMS_MAX) -> None:
        self._scratch = scratch
        self._held_max = held_max
        self._size = 0
        self._parts: list[_Part] = []
        self._sorted_before = 0
        self.held: list[Atom] = []

    @property
    def count(self) -> int:
        return self._sorted_before + len(self.held)

    @property
    def is_spilled(self) -> bool:
        """True if some atoms are in the file."""
        return bool(self._parts)

    def extend(self, atoms: Iterable[Atom]) -> None:
        """Add atoms. Raises UsageError naming the place of an atom, counted over all calls."""
        for atom in atoms:
            self.held.append(atom)
            self._size += len(atom.content) if type(atom) is Atom and type(atom.content) is str else 0
            if len(self.held) >= self._held_max or self._size >= HELD_BYTES_MAX:
                self._spill()

    def finish(self) -> None:
        """Finish the input. Raises UsageError for an atom that was added twice."""
        if self.held:
            self._spill()
        last = b""
        for digest in self.digests():
            if digest == last:
                raise UsageError(f"atoms: {digest.hex()} is there twice: the same content and type")
            last = digest

    def digests(self) -> Iterator[bytes]:
        """Yield all identities, ascending."""
        return heapq.merge(*(self._digests_of(part) for part in self._parts))

    def pages(self) -> Iterator[tuple[list[bytes], list[Atom]]]:
        """Yield identities and atoms in the order of a context, PAGE_ATOMS at a time."""
        rows = heapq.merge(*(self._rows_of(part) for part in self._parts))
        while some := list(islice(rows, PAGE_ATOMS)):
            yield [key[2] for key, _ in some], [atom for _, atom in some]

    def _spill(self) -> None:
        try:
            prepared = prepare(Context(atoms=tuple(self.held)))
        except UsageError as error:
            raise _shifted(error, self._sorted_before) from error
        atoms, digests = prepared.context.atoms, prepared.atom_digests
        batches = []
        for at in range(0, len(atoms), PAGE_ATOMS):
            some = (b"".join(digests[at : at + PAGE_ATOMS]), atoms[at : at + PAGE_ATOMS])
            batches.append(self._scratch.append(_ENCODER.encode(some)))
        self._parts.append(_Part(batches, self._scratch.append(b"".join(sorted(digests)))))
        self._sorted_before += len(atoms)
        if self._sorted_before > ATOMS_MAX:
            raise UsageError(f"atoms: over {ATOMS_MAX:,} atoms in one context", mend="Commit the rest over it.")
        self.held = []
        self._size = 0

    def _digests_of(self, part: _Part) -> Iterator[bytes]:
        offset, length = part.digests
        for at in range(0, length, 32 * _DIGESTS_READ):
            data = self._scratch.read(offset + at, min(32 * _DIGESTS_READ, length - at))
            for start in range(0, len(data), 32):
                yield data[start : start + 32]

    def _rows_of(self, part: _Part) -> Iterator[tuple[OrderKey, Atom]]:
        for place in part.batches:
            joined, atoms = _BATCHES.decode(self._scratch.read(*place))
            for at, atom in enumerate(atoms):
                yield order_key(joined[32 * at : 32 * at + 32], atom), atom


def _shifted(error: UsageError, by: int) -> UsageError:
    """Return the error of a part with its places counted over all atoms."""
    pieces = error.wrong.split("atoms[")
    shifted = [pieces[0]]
    for piece in pieces[1:]:
        number, bracket, rest = piece.partition("]")
        shifted.append(f"{int(number) + by}{bracket}{rest}" if number.isdigit() else piece)
    return UsageError("atoms[".join(shifted), safe=error.safe, mend=error.mend)


_ENCODER: Final = msgspec.msgpack.Encoder()
_BATCHES: Final = msgspec.msgpack.Decoder(tuple[bytes, list[Atom]])
