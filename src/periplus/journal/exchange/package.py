"""Export of a store to one package file, verified when it is written and again when it is read.

The file is a zip archive (PKWARE APPNOTE 6.3) of plain files under ``periplus/``: settings, every durable record in its original segments,
checkpoints, objects, public keys, and pinned peers. Its last member is the manifest: canonical JSON that names each file with size and
SHA-256, and each lineage's tree head. Derived files and private keys are left out: the importer writes a new lineage.

A damaged store is refused unless the export of its remains is requested. Such a file has format 2, which readers of whole stores reject: it
holds the segments as they are, damage included, and the manifest states which records are missing, of which file and why. A store made of
it lacks exactly these records, keeps a note of them, and is made only on explicit request.

See ``package_import`` for reading.
"""

from __future__ import annotations

__all__ = [
    "DAMAGED_MEMBER",
    "FORMAT",
    "FORMAT_OF_REST",
    "MANIFEST",
    "MANIFEST_BYTES_MAX",
    "TOP",
    "Flaw",
    "Manifest",
    "Packed",
    "PackedFile",
    "PackedHead",
    "export_store",
    "limit_of",
]

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import canonical
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    PeriplusError,
    RefusedError,
    environment_failure,
)
from periplus.base.files import TEMPORARY_SUFFIX, Files, name_new, open_plain, read_at, read_plain, write_all
from periplus.base.named_tuple import NamedTuple
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.journal import Journal
from periplus.journal.recovery.missing_records import Gaps, Missing, known_last, lost_lineages
from periplus.journal.state.transaction import Writer
from periplus.journal.storage.lineage import SEGMENT_READ_MAX, START, Chunk, damage_of, is_unreadable
from periplus.journal.storage.parking import read_whole
from periplus.journal.storage.progress import Progress, no_progress
from periplus.merkle.tree import Tree
from periplus.objects.object_forms import is_packed
from periplus.objects.store import OBJECT_BYTES_MAX

if TYPE_CHECKING:
    from typing_extensions import Buffer

MANIFEST: Final = "MANIFEST.json"
TOP: Final = "periplus/"
FORMAT: Final = 1
FORMAT_OF_REST: Final = 2
MANIFEST_BYTES_MAX: Final = 1 << 30
DAMAGED_MEMBER: Final = "damaged in the exported file"  # ``Flaw.what`` of a member that differs from the manifest
_CHECKPOINT_BYTES_MAX: Final = 1 << 33
_SMALL: Final = 1 << 20
_PIECE: Final = 1 << 20
_LINEAGE: Final = r"lin_[0-9a-z]{16,32}"
# Members allowed in the file, with their maximal sizes in bytes.
_PLACES: Final = (
    (re.compile(r"config\.toml"), _SMALL),
    (re.compile(rf"journal/{_LINEAGE}/(archive/)?[0-9]{{12}}\.jsonl"), SEGMENT_READ_MAX),
    (re.compile(r"journal/checkpoints/[0-9]{12}\.jsonl"), _CHECKPOINT_BYTES_MAX),
    (re.compile(rf"journal/keys/{_LINEAGE}\.public"), _SMALL),
    (re.compile(rf"journal/peers/{_LINEAGE}\.json"), _SMALL),
    (re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{62}(\.[zt])?"), OBJECT_BYTES_MAX + _SMALL),
)


class PackedFile(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    sha256: str


class PackedHead(msgspec.Struct, frozen=True):
    lineage: str
    size: int
    root: str


class Flaw(msgspec.Struct, frozen=True):
    """A defect of the store other than missing records: its file and byte offset (−1 if none)."""

    what: str
    path: str
    offset: int


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The manifest of a package. For a damaged store, ``missing`` and ``flaws`` are given, and ``root`` of an incomplete head is empty."""

    format: int
    store: str
    lineage: str
    made: str
    files: list[PackedFile]
    heads: list[PackedHead]
    missing: list[Missing] = []
    flaws: list[Flaw] = []


class Packed(NamedTuple):
    """Summary of an export or import; ``bytes`` is the sum of the files' sizes, not of the archive.

    ``missing`` and ``flaws`` describe a damaged store and are empty for a whole one. ``doubts`` are damaged files in it that no record
    needs.
    """

    store_id: str
    files: int
    bytes: int
    records: int
    objects: int
    missing: tuple[Missing, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    doubts: tuple[Flaw, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.missing and not self.flaws


def _no_flaws() -> list[Flaw]:
    return []


def export_store(
    journal: Journal,
    path: str,
    *,
    damaged: bool = False,
    check: Callable[[], list[Flaw]] = _no_flaws,
    progress: Progress = no_progress,
) -> Packed:
    """Write the store to a new file ``path``; ``check`` examines it and returns its defects.

    Raises RefusedError if the file exists, DamageError for a damaged store. With ``damaged`` the remains of a damaged store are written,
    and the file states what is missing.
    """
    if os.path.lexists(path):
        raise RefusedError(f"{path} is there already", safe="It was not touched.", mend="Name another file.")
    try:
        journal.refresh()
    except EnvironmentFailure as error:
        found = damage_of(error)
        journal.damage = journal.damage or found
    journal.settle(Writer("export", ""))
    rest: list[Flaw] | None = None
    if not damaged:
        _refuse_damaged(journal, check)
        _vouch(journal)
    else:
        rest = check()
        rest = rest if rest or journal.damage is not None or lost_lineages(journal) else None
    files = journal.files
    temporary = f"{path}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}"
    try:
        fd = files.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            packed = _Writing(journal, _Sink(files, fd), rest).write(progress)
            files.sync(fd)
        finally:
            files.close(fd)
        name_new(files, temporary, path)
        files.sync_folder(os.path.dirname(os.path.abspath(path)))
    except FileExistsError as error:
        raise RefusedError(f"{path} is there already", safe="It was not touched.", mend="Name another file.") from error
    except DamageError as error:
        error.mend = _SAVE_REST
        raise
    except OSError as error:
        raise environment_failure(error, "write", path) from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return packed


def _vouch(journal: Journal) -> None:
    """Sign the newest head and note it, since the importer has no key and passes these records on with that head."""
    from periplus.journal.carriers.store import sign_head

    if journal.lineage:
        try:
            sign_head(journal)
        except PeriplusError:
            pass  # without a key or write access, the previously signed head is exported


_SAVE_REST: Final = "`periplus doctor` says what is affected; `periplus export --damaged FILE` saves what is left."


def _refuse_damaged(journal: Journal, check: Callable[[], list[Flaw]]) -> None:
    """Raise DamageError for a store that the importer would refuse."""
    damage = journal.damage
    if damage is None:
        flaws = check()
        if not flaws:
            return
        place = os.path.join(journal.layout.root, flaws[0].path)
        offset = flaws[0].offset if flaws[0].offset >= 0 else None
        damage = DamageError(flaws[0].what, path=place, offset=offset)
    damage.safe, damage.mend = "Nothing was written.", _SAVE_REST
    raise damage


class _Sink(io.RawIOBase):
    """A file object for ``zipfile`` that writes to a descriptor through ``Files``."""

    def __init__(self, files: Files, fd: int) -> None:
        self._files, self._fd = files, fd

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._fd, offset, whence)

    def write(self, data: Buffer) -> int:
        whole = bytes(data)
        write_all(self._files, self._fd, whole)
        return len(whole)


class _OnDisk(NamedTuple):
    """A file to be added unchanged, piece by piece, because it may be larger than memory."""

    path: str
    limit: int

    @property
    def size(self) -> int:
        """The current size in bytes. Raises EnvironmentFailure, DamageError."""
        try:
            size = os.stat(self.path).st_size
        except OSError as error:
            raise environment_failure(error, "read", self.path) from error
        if size > self.limit:
            raise _too_large(self.path, self.limit)
        return size

    def pieces(self) -> Iterator[bytes]:
        """Yield the file's bytes. Raises EnvironmentFailure, DamageError."""
        try:
            fd = open_plain(self.path)
        except OSError as error:
            raise environment_failure(error, "read", self.path) from error
        try:
            at = 0
            while piece := read_at(fd, _PIECE, at):
                at += len(piece)
                if at > self.limit:  # the file grew meanwhile
                    raise _too_large(self.path, self.limit)
                yield piece
        except OSError as error:
            raise environment_failure(error, "read", self.path) from error
        finally:
            os.close(fd)


class _Writing:
    """Writes one package; ``rest`` lists the defects of a damaged store, and is None for a store that must be whole."""

    def __init__(self, journal: Journal, raw: _Sink, rest: list[Flaw] | None) -> None:
        self._journal, self._raw, self._rest = journal, raw, rest
        self._files: list[PackedFile] = []
        self._heads: list[PackedHead] = []
        self._missing: list[Missing] = []
        self._records = 0
        self._objects = 0

    def write(self, progress: Progress) -> Packed:
        journal, rest = self._journal, self._rest
        with zipfile.ZipFile(self._raw, "w") as archive:
            for name, data in self._members(progress):
                self._files.append(_put(archive, name, data))
            made = format_ms(journal.clock.now_ms())
            form = FORMAT if rest is None else FORMAT_OF_REST
            manifest = Manifest(
                form, journal.store_id, journal.lineage, made, self._files, self._heads, self._missing, rest or []
            )
            _put(archive, MANIFEST, canonical(msgspec.to_builtins(manifest)))
        size = sum(one.bytes for one in self._files)
        return Packed(journal.store_id, len(self._files), size, self._records, self._objects, tuple(self._missing),
                      tuple(rest or ()))  # fmt: skip

    def _members(self, progress: Progress) -> Iterator[tuple[str, bytes | _OnDisk]]:
        journal = self._journal
        is_rest = self._rest is not None
        yield "config.toml", _read(journal.layout.config, _SMALL)
        yield from _beside(journal, ("keys", "peers"), is_rest=is_rest)
        if self._rest is None:
            for lineage in journal.lineages():
                yield from self._whole(lineage, progress)
        else:
            yield from self._left()
        held = list(journal.objects.digests())
        for number, digest in enumerate(held):
            progress(number, len(held))
            place = journal.objects.path_of(digest)
            if self._rest is None:
                journal.objects.get(digest)  # raises for a damaged object, which the importer would refuse
            elif journal.objects.check(digest) is not None:
                data = _as_it_is(place)
                if data is not None and len(data) <= OBJECT_BYTES_MAX:
                    yield _name_of(journal, place), data  # a repair can correct one changed byte
                continue
            self._objects += 1
            yield _name_of(journal, place), _read(place, OBJECT_BYTES_MAX + _SMALL)
        yield from _beside(journal, ("checkpoints",), is_rest=is_rest)

    def _whole(self, lineage: str, progress: Progress) -> Iterator[tuple[str, bytes]]:
        tree = Tree()
        journal = self._journal
        reader = journal.reader(lineage)
        segments = len(reader.segments())
        for number, chunk in enumerate(reader.read_from(START)):
            progress(number, segments)
            leaves, data = _durable_part(journal, lineage, chunk)
            tree.extend(leaves)
            yield _name_of(journal, chunk.path), data
        self._heads.append(PackedHead(lineage, tree.size, tree.root().hex()))
        self._records += tree.size

    def _left(self) -> Iterator[tuple[str, bytes]]:
        """Yield the segments of every known lineage as they are, and collect the records missing from them."""
        journal = self._journal
        rows = IndexRows(journal.index_path)
        try:
            for lineage in [*journal.lineages(), *lost_lineages(journal)]:
                reader, tree = journal.reader(lineage), Tree()
                last = known_last(journal.layout, lineage, rows)
                gaps, is_sound = Gaps(journal.layout, reader, last), True
                for chunk in reader.read_from(START, last, salvage=True):
                    gaps.take(chunk)
                    is_sound &= not chunk.damages
                    leaves = [entry.leaf for entry in chunk.entries]
                    data = _as_it_is(chunk.path)
                    if data is not None and not chunk.damages:
                        leaves, data = _durable_part(journal, lineage, chunk)
                    tree.extend(leaves)
                    if data is not None:
                        yield _name_of(journal, chunk.path), data
                missing = gaps.end()
                self._heads.append(
                    PackedHead(lineage, gaps.size, tree.root().hex() if is_sound and not missing else "")
                )
                self._missing += missing
                self._records += tree.size
        finally:
            rows.close()


def _as_it_is(path: str) -> bytes | None:
    """Return the bytes of a file, with zeros in place of unreadable ones; None if nothing can be read."""
    try:
        return read_whole(path, around=True)
    except EnvironmentFailure as error:
        if not is_unreadable(error):
            raise
    except DamageError:
        pass  # larger than any file of a store
    return None


def _put(archive: zipfile.ZipFile, name: str, data: bytes | _OnDisk) -> PackedFile:
    """Write a member; files on disk go through memory in pieces."""
    member = zipfile.ZipInfo(TOP + name)  # dated 1980, so that the same store gives the same bytes
    member.external_attr = 0o100644 << 16
    member.compress_type = zipfile.ZIP_STORED if is_packed(name) else zipfile.ZIP_DEFLATED
    member.file_size = len(data) if isinstance(data, bytes) else data.size  # determines the width of the size fields
    digest, size = hashlib.sha256(), 0
    with archive.open(member, "w") as target:
        for piece in (data,) if isinstance(data, bytes) else data.pieces():
            target.write(piece)
            digest.update(piece)
            size += len(piece)
    return PackedFile(name, size, digest.hexdigest())


def _name_of(journal: Journal, path: str) -> str:
    return os.path.relpath(path, journal.layout.root).replace(os.sep, "/")


def _beside(journal: Journal, folders: Sequence[str], *, is_rest: bool) -> Iterator[tuple[str, bytes | _OnDisk]]:
    """Yield the files in these folders of the journal; for a damaged store only the readable ones.

    Checkpoints come last in a package: a truncated one then loses only what can be made anew.
    """
    layout = journal.layout
    for folder in folders:
        at = os.path.join(layout.journal, folder)
        for name in sorted(os.listdir(at)) if os.path.isdir(at) else []:
            limit = limit_of(f"journal/{folder}/{name}")
            if not limit:
                continue
            if not is_rest:
                yield f"journal/{folder}/{name}", _OnDisk(os.path.join(at, name), limit)
                continue
            try:
                data = _read(os.path.join(at, name), limit)
            except (EnvironmentFailure, DamageError) as error:
                if isinstance(error, EnvironmentFailure) and not is_unreadable(error):
                    raise
                continue  # `check` has reported it
            yield f"journal/{folder}/{name}", data


def _durable_part(journal: Journal, lineage: str, chunk: Chunk) -> tuple[list[bytes], bytes]:
    """Return leaves and bytes of a segment; of our own newest segment only the durable part."""
    durable = journal.durable_end() if lineage == journal.lineage and journal.damage is None else None
    entries = chunk.entries if durable is None else [one for one in chunk.entries if one.record.seq <= durable]
    data = _read(chunk.path, SEGMENT_READ_MAX)
    if chunk.tail is not None or len(entries) < len(chunk.entries):
        data = data[: entries[-1].offset + entries[-1].length if entries else data.find(b"\n") + 1]
    return [one.leaf for one in entries], data


def _read(path: str, limit: int) -> bytes:
    try:
        data = read_plain(path, limit + 1)
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if len(data) > limit:
        raise _too_large(path, limit)
    return data


def _too_large(path: str, limit: int) -> DamageError:
    return DamageError(f"a file over {limit:,} bytes", path=path, safe="Nothing was written.")


def limit_of(name: str) -> int:
    """Return the maximal size of the file ``name``; 0 for a name that no store has."""
    return next((limit for pattern, limit in _PLACES if pattern.fullmatch(name)), 0)
