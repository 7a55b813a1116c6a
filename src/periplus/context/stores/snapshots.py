"""Snapshots: runs stored in files, so that a long chain is not folded again. Derived, disposable, and checked before
use.

A file of the cache is ``<context digest>.run`` (a run whose newest delta is that context) or ``<context digest>.set``
(the sorted identities of one large delta). Both have one form::

    "PPLSRUN1" · pages · blocks of identities · blocks of removals · molecules · footer · footer length u64 · SHA-256 of the footer

The footer has the place and hash of every part. A file appears under its name whole; it is not synced, because after a
power cut the hashes detect missing parts. A fault raises StaleCacheError, upon which the library drops the file and
reads the objects. The hashes do not detect a forged file: a process that can write into the store's cache can write
into the store as well, and proofs are made from records, never from here.
"""

from __future__ import annotations

__all__ = ["FolderCache", "MemoryCache", "RunCache", "Sets", "StaleCacheError", "StoredRun", "merge_runs"]

import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError, EnvironmentFailure, environment_failure
from periplus.base.files import TEMPORARY_SUFFIX, Files, write_all
from periplus.context.model import Atom, BrokenMolecule, Molecule, OrderKey, order_key
from periplus.context.records.pages import MOLECULES_PER_PAGE, decode_molecules, encode_molecules
from periplus.context.stores.delta_runs import Change, HeldRun, MoleculeState, Row, Run, combine_runs, visible_rows
from periplus.context.stores.digest_sets import Fence, FenceBuilder, SortedDigests, indices_not_in
from periplus.context.stores.external_sort import Scratch
from periplus.context.streams.chunks import Columns, Tallies

PAGE_ROWS: Final = 256
PAGE_BYTES: Final = 1 << 20
_MAGIC: Final = b"PPLSRUN1"
_TAIL_BYTES: Final = 8 + 32
_FOOTER_BYTES_MAX: Final = 1 << 28
_RUN_SUFFIX: Final = ".run"
_SET_SUFFIX: Final = ".set"
_OPEN_MAX: Final = 64
_T = TypeVar("_T")


class StaleCacheError(DamageError):
    """A file of the cache cannot be used. The objects are not affected; the caller makes the file anew."""

    code = "stale_cache"

    def __init__(self, wrong: str, path: str) -> None:
        super().__init__(
            wrong,
            path=path,
            safe="It is derived from the objects, which are sound.",
            mend="Delete it: it is made anew.",
        )


class _Part(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    length: int
    hash: bytes


class _PagePart(msgspec.Struct, frozen=True, array_like=True):
    first: OrderKey
    part: _Part


class _Page(msgspec.Struct, frozen=True, array_like=True):
    """Rows: the origins that occur, the origin of each row, its place there, its identity, and the atom."""

    origins: list[bytes]
    origin_numbers: list[int]
    places: list[int]
    identities: bytes
    atoms: list[Atom]


class _Molecules(msgspec.Struct, frozen=True, array_like=True):
    """Molecules in pages, like in records."""

    changes: list[tuple[list[bytes], list[bytes]]]
    molecules: list[bytes]
    broken: list[tuple[bytes, list[bytes]]]


class _Footer(msgspec.Struct, frozen=True, array_like=True):
    head: bytes
    base: bytes | None
    count: int
    weight: int
    pages: list[_PagePart]
    identities: Fence
    removed: Fence
    molecules: _Part


class Sets(NamedTuple):
    """The identities that a large delta adds and removes."""

    adds: Container[bytes]
    removes: Container[bytes]


class RunCache(Protocol):
    """A store of runs, which may lose any of them at any time."""

    def run(self, head: bytes) -> Run | None:
        """Return the stored run whose newest delta is ``head``."""
        ...

    def keep(self, runs: Sequence[Run]) -> Run:
        """Store one run that replaces neighbouring ``runs``, newest first; those of them that were stored are dropped."""
        ...

    def sets(self, digest: bytes) -> Sets | None:
        """Return the sets of the large delta ``digest``, if they are stored."""
        ...

    def keep_sets(self, digest: bytes, adds: Iterable[bytes], removes: Iterable[bytes]) -> Sets: ...

    def scratch(self) -> Scratch | None:
        """Return a temporary file; None for a cache without files."""
        ...

    def drop(self, digest: bytes) -> None:
        """Drop everything stored for ``digest``."""
        ...

    def drop_file(self, error: StaleCacheError) -> None:
        """Drop the damaged file."""
        ...

    def close(self) -> None: ...


class MemoryCache:
    """Runs in memory."""

    def __init__(self) -> None:
        self._runs: dict[bytes, HeldRun] = {}
        self._sets: dict[bytes, Sets] = {}

    def run(self, head: bytes) -> Run | None:
        return self._runs.get(head)

    def keep(self, runs: Sequence[Run]) -> Run:
        removed, changes, molecules = combine_runs(runs)
        rows = {row.key[2]: row for row in visible_rows(runs)}
        kept = HeldRun(runs[0].head, runs[-1].base, rows, tuple(removed), changes, molecules)
        for run in runs:
            self._runs.pop(run.head, None)
        self._runs[kept.head] = kept
        return kept

    def sets(self, digest: bytes) -> Sets | None:
        return self._sets.get(digest)

    def keep_sets(self, digest: bytes, adds: Iterable[bytes], removes: Iterable[bytes]) -> Sets:
        self._sets[digest] = found = Sets(frozenset(adds), frozenset(removes))
        return found

    def scratch(self) -> Scratch | None:
        return None

    def drop(self, digest: bytes) -> None:
        self._runs.pop(digest, None)
        self._sets.pop(digest, None)

    def drop_file(self, error: StaleCacheError) -> None:
        raise error  # there are no files here

    def close(self) -> None:
        self._runs.clear()
        self._sets.clear()


class StoredRun:
    """A run in a file, or the sets of a delta: only the footer is read at once."""

    _fd = -1

    def __init__(self, path: str) -> None:
        self.path = path
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        self._fd = fd
        try:
            self._footer = self._read_footer()
        except BaseException:  # on any failure, close the descriptor
            self.close()
            raise
        footer = self._footer
        self.head, self.base, self.count, self.weight = footer.head, footer.base, footer.count, footer.weight
        self._tallies = Tallies()
        self.adds = SortedDigests(self._read, footer.identities, self._wrong)
        self.removes = SortedDigests(self._read, footer.removed, self._wrong)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def rows(self) -> Iterator[Row]:
        for entry in self._footer.pages:
            page = self._page(entry.part)
            joined = page.identities
            for at, (number, place, atom) in enumerate(zip(page.origin_numbers, page.places, page.atoms, strict=True)):
                yield Row(order_key(joined[32 * at : 32 * at + 32], atom), atom, page.origins[number], place)

    def pages(self) -> Iterator[tuple[OrderKey, Callable[[], Columns]]]:
        for entry in self._footer.pages:
            yield entry.first, partial(self._columns, entry.part)

    def _columns(self, part: _Part) -> Columns:
        page = self._page(part)
        joined = page.identities
        digests = [joined[at : at + 32] for at in range(0, len(joined), 32)]
        tally = self._tallies.of(part.hash, len(page.atoms))
        return Columns(page.atoms, digests, [page.origins[one] for one in page.origin_numbers], tally)

    def _page(self, part: _Part) -> _Page:
        page = self._decoded(part, _PAGES)
        if not 0 < len(page.origin_numbers) == len(page.places) == len(page.atoms) == len(page.identities) // 32:
            raise self._wrong("a page does not fit together")
        return page

    def state(self, identity: bytes) -> bool | None:
        if identity in self.adds:
            return True
        return False if identity in self.removes else None

    def unspoken(self, digests: Sequence[bytes]) -> Sequence[int] | None:
        return indices_not_in(digests, self.adds, self.removes)

    def removed(self) -> Iterable[bytes]:
        return self.removes

    def changes(self) -> Sequence[Change]:
        return [Change(tuple(removed), _unpaged(pages)) for removed, pages in self._molecules().changes]

    def molecule_state(self) -> MoleculeState:
        held = self._molecules()
        broken = tuple(BrokenMolecule(digest, tuple(atoms)) for digest, atoms in held.broken)
        return MoleculeState(_unpaged(held.molecules), broken)

    def _molecules(self) -> _Molecules:
        return self._decoded(self._footer.molecules, _MOLECULES)

    def _decoded(self, part: _Part, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
        data = self._read(part.offset, part.length)
        if sha256(data).digest() != part.hash:
            raise self._wrong(f"{part.length:,} bytes from byte {part.offset:,} do not match their hash")
        try:
            return decoder.decode(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._wrong(f"a part at byte {part.offset:,} cannot be read") from error

    def _read(self, offset: int, length: int) -> bytes:
        if self._fd < 0:
            raise self._wrong("closed while it was read")
        try:
            data = os.pread(self._fd, length, offset)
            while len(data) < length and (more := os.pread(self._fd, length - len(data), offset + len(data))):
                data += more
        except OSError as error:
            raise self._wrong(f"cannot be read: {error.strerror}") from error
        return data

    def _wrong(self, wrong: str) -> StaleCacheError:
        return StaleCacheError(wrong, self.path)

    def _read_footer(self) -> _Footer:
        size = os.fstat(self._fd).st_size
        tail = self._read(max(size - _TAIL_BYTES, 0), _TAIL_BYTES)
        length = int.from_bytes(tail[:8], "big")
        if len(tail) < _TAIL_BYTES or self._read(0, 8) != _MAGIC or not 0 < length <= min(size, _FOOTER_BYTES_MAX):
            raise self._wrong("no snapshot, or cut off")
        data = self._read(size - _TAIL_BYTES - length, length)
        if sha256(data).digest() != tail[8:]:
            raise self._wrong("its footer does not match its hash")
        try:
            return _FOOTERS.decode(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._wrong("its footer cannot be read") from error


class _Writer:
    """Write one file of the cache, part by part, under a temporary name."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        name = f".{os.path.basename(path)}.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}"
        self._temporary = os.path.join(os.path.dirname(path), name)
        self._fd = files.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._held = bytearray(_MAGIC)
        self.offset = len(_MAGIC)

    def add(self, data: bytes) -> None:
        self._held += data
        self.offset += len(data)
        if len(self._held) >= PAGE_BYTES:
            self._flush()

    def part(self, data: bytes) -> _Part:
        part = _Part(self.offset, len(data), sha256(data).digest())
        self.add(data)
        return part

    def digests(self, digests: Iterable[bytes]) -> Fence:
        maker = FenceBuilder(self.offset)
        for block in maker.blocks(iter(digests)):
            self.add(block)
        return maker.fence()

    def finish(self, footer: _Footer) -> None:
        data = _ENCODER.encode(footer)
        self.add(data + len(data).to_bytes(8, "big") + sha256(data).digest())
        self._flush()
        self._close()
        self._files.replace(self._temporary, self._path)

    def abandon(self) -> None:
        self._close()
        try:
            os.unlink(self._temporary)
        except OSError:
            pass  # it has its final name already, or the next sweep removes it

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._files.close(fd)

    def _flush(self) -> None:
        write_all(self._files, self._fd, self._held)
        self._held.clear()


class FolderCache:
    """Runs in the files of ``folder``, which is created on demand. Other processes may use it concurrently.

    If the folder cannot be written, runs are held in memory, and ``failure`` has the reason.
    """

    def __init__(self, folder: str, files: Files) -> None:
        self._folder = folder
        self._files = files
        self._memory = MemoryCache()
        self._open: dict[str, StoredRun] = {}
        self._mutex = threading.Lock()
        self.failure: EnvironmentFailure | None = None

    def run(self, head: bytes) -> Run | None:
        return self._memory.run(head) or self._opened(head, _RUN_SUFFIX)

    def keep(self, runs: Sequence[Run]) -> Run:
        def write(writer: _Writer) -> _Footer:
            return _write_run(writer, runs)

        kept = self._written(runs[0].head, _RUN_SUFFIX, write)
        if kept is None:
            return self._memory.keep(runs)
        for run in runs[1:]:
            self._memory.drop(run.head)
            if isinstance(run, StoredRun):
                self._remove(run.path)
        return kept

    def sets(self, digest: bytes) -> Sets | None:
        held = self._memory.sets(digest)
        if held is not None:
            return held
        found = self._opened(digest, _SET_SUFFIX)
        return None if found is None else Sets(found.adds, found.removes)

    def keep_sets(self, digest: bytes, adds: Iterable[bytes], removes: Iterable[bytes]) -> Sets:
        def write(writer: _Writer) -> _Footer:
            identities = writer.digests(adds)
            removed = writer.digests(removes)
            nothing = writer.part(_ENCODER.encode(_Molecules([], [], [])))
            return _Footer(digest, None, 0, 0, [], identities, removed, nothing)

        kept = self._written(digest, _SET_SUFFIX, write)
        return self._memory.keep_sets(digest, adds, removes) if kept is None else Sets(kept.adds, kept.removes)

    def scratch(self) -> Scratch | None:
        try:
            return Scratch(self._folder, self._files)
        except EnvironmentFailure as failure:
            self.failure = failure  # continue in memory
            return None

    def drop(self, digest: bytes) -> None:
        self._memory.drop(digest)
        for suffix in (_RUN_SUFFIX, _SET_SUFFIX):
            self._remove(self._path(digest, suffix))

    def drop_file(self, error: StaleCacheError) -> None:
        assert error.path is not None
        self._remove(error.path)

    def close(self) -> None:
        with self._mutex:
            for run in self._open.values():
                run.close()
            self._open.clear()
            self._memory.close()

    def sweep(self) -> int:
        """Remove files that are not of this cache, such as those of interrupted writers; return their number."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise environment_failure(error, "list", self._folder) from error
        left = [name for name in names if name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)]
        for name in left:
            self._remove(os.path.join(self._folder, name))
        return len(left)

    def digests(self) -> set[bytes]:
        """Return the contexts with a file in the folder."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return set()
        stems = (name.partition(".")[0] for name in names)
        return {bytes.fromhex(stem) for stem in stems if is_digest_text(stem)}

    def _path(self, digest: bytes, suffix: str) -> str:
        return os.path.join(self._folder, digest.hex() + suffix)

    def _opened(self, digest: bytes, suffix: str) -> StoredRun | None:
        path = self._path(digest, suffix)
        with self._mutex:
            found = self._open.get(path)
            if found is not None:
                return found
            try:
                found = StoredRun(path)
            except StaleCacheError:
                self._remove_file(path)
                return None
            except OSError:
                return None  # missing or unreadable: it is made anew, or not used
            if found.head != digest:
                found.close()
                self._remove_file(path)
                return None
            if len(self._open) >= _OPEN_MAX:  # a reader keeps it open; it is closed with the last reader
                self._open.pop(next(iter(self._open)))
            self._open[path] = found
            return found

    def _remove(self, path: str) -> None:
        with self._mutex:
            self._open.pop(path, None)
            self._remove_file(path)

    def _remove_file(self, path: str) -> None:
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.failure = environment_failure(error, "remove", path)

    def _written(self, digest: bytes, suffix: str, write: Callable[[_Writer], _Footer]) -> StoredRun | None:
        path = self._path(digest, suffix)
        try:
            self._files.make_folder(self._folder)
            writer = _Writer(self._files, path)
            try:
                writer.finish(write(writer))
            finally:
                writer.abandon()
        except OSError as error:
            self.failure = environment_failure(error, "write", path)
            return None
        with self._mutex:
            self._open.pop(path, None)
        return self._opened(digest, suffix)


def merge_runs(cache: RunCache, runs: Sequence[Run]) -> list[Run]:
    """Return ``runs``, newest first, with the newest ones merged into one as long as together they weigh as much as the
    next older run.

    So every run is heavier than all newer ones together, there are at most as many as the weight has binary digits, and
    a row is rewritten only into a run of at least twice the weight: the logarithmic method (Bentley and Saxe 1980).
    """
    total = runs[0].weight
    take = 1
    for number in range(1, len(runs)):
        if runs[number].weight <= total:
            take = number + 1
        total += runs[number].weight
    return [cache.keep(runs[:take]), *runs[take:]] if take > 1 else list(runs)


def _write_run(writer: _Writer, runs: Sequence[Run]) -> _Footer:
    pages = []
    identities: list[bytes] = []
    held: list[Row] = []
    size = 0
    for row in visible_rows(runs):
        held.append(row)
        identities.append(row.key[2])
        size += len(row.atom.content)
        if len(held) == PAGE_ROWS or size >= PAGE_BYTES:
            pages.append(_PagePart(held[0].key, writer.part(_packed_page(held))))
            held, size = [], 0
    if held:
        pages.append(_PagePart(held[0].key, writer.part(_packed_page(held))))
    identities.sort()
    adds = writer.digests(identities)
    gone, changes, state = combine_runs(runs)
    removes = writer.digests(gone)
    molecules = _Molecules(
        [(list(change.removed), _paged(change.molecules)) for change in changes],
        _paged(state.molecules),
        [(digest, list(atoms)) for digest, atoms in state.broken],
    )
    weight = (
        1 + adds.count + removes.count + len(state.molecules) + sum(1 + len(change.molecules) for change in changes)
    )
    return _Footer(
        runs[0].head, runs[-1].base, adds.count, weight, pages, adds, removes, writer.part(_ENCODER.encode(molecules))
    )


def _packed_page(rows: Sequence[Row]) -> bytes:
    origins: dict[bytes, int] = {}
    numbers = [origins.setdefault(row.origin, len(origins)) for row in rows]
    identities = b"".join(row.key[2] for row in rows)
    return _ENCODER.encode(
        _Page(list(origins), numbers, [row.place for row in rows], identities, [row.atom for row in rows])
    )


def _paged(molecules: Sequence[Molecule]) -> list[bytes]:
    return [
        encode_molecules(molecules[at : at + MOLECULES_PER_PAGE]) for at in range(0, len(molecules), MOLECULES_PER_PAGE)
    ]


def _unpaged(pages: Sequence[bytes]) -> tuple[Molecule, ...]:
    return tuple(molecule for page in pages for molecule in decode_molecules(page))


_ENCODER: Final = msgspec.msgpack.Encoder()
_FOOTERS: Final = msgspec.msgpack.Decoder(_Footer)
_PAGES: Final = msgspec.msgpack.Decoder(_Page)
_MOLECULES: Final = msgspec.msgpack.Decoder(_Molecules)
