"""A store in one file: everything needed to go on from it, verified when it is written and again when it is read.

The file is a zip archive (PKWARE APPNOTE 6.3) of plain files under ``periplus/``: settings, every record that is durable
with its segments as they are, checkpoints, objects, public keys, what is pinned of others. Its last member is the
manifest: canonical JSON that names each file with size and SHA-256, and each lineage's tree head. What is derived stays
out, and so do private keys: who takes the file in writes a lineage of his own.

Reading believes nothing: only plain files at places that a store has, none over its limit and all of them together no
more than the disk has room for, each as the manifest says; and the whole is examined record by record in a folder of
its own before it takes the name of a store.
"""

from __future__ import annotations

__all__ = ["MANIFEST", "Packed", "export_store", "import_store"]

import hashlib
import io
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Final

import msgspec

from periplus.base.canonical import canonical
from periplus.base.clock import Clock, format_ms
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    FormatError,
    NotFoundError,
    PeriplusError,
    RefusedError,
    UsageError,
    environment_failure,
)
from periplus.base.files import TEMPORARY_SUFFIX, Files, name_new, read_plain, write_all
from periplus.base.tuples import NamedTuple
from periplus.journal.creation import create_store
from periplus.journal.journal import Journal
from periplus.journal.layout import STORE_FOLDER, Layout
from periplus.journal.lineage import SEGMENT_READ_MAX, START, LineageReader
from periplus.journal.reading import Progress, no_progress
from periplus.journal.settings import read_settings
from periplus.merkle.tree import Tree
from periplus.objects.packing import is_packed
from periplus.objects.store import OBJECT_BYTES_MAX

if TYPE_CHECKING:
    from typing_extensions import Buffer

MANIFEST: Final = "MANIFEST.json"
_TOP: Final = "periplus/"
_FORMAT: Final = 1
_MANIFEST_BYTES_MAX: Final = 1 << 30
_CHECKPOINT_BYTES_MAX: Final = 1 << 33
_SMALL: Final = 1 << 20
_LINEAGE: Final = r"lin_[0-9a-z]{16,32}"
_PIECE: Final = 1 << 20
# What may be in the file: where, and how many bytes at the most.
_PLACES: Final = (
    (re.compile(r"config\.toml"), _SMALL),
    (re.compile(rf"journal/{_LINEAGE}/(archive/)?\d{{12}}\.jsonl"), SEGMENT_READ_MAX),
    (re.compile(r"journal/checkpoints/\d{12}\.jsonl"), _CHECKPOINT_BYTES_MAX),
    (re.compile(rf"journal/keys/{_LINEAGE}\.public"), _SMALL),
    (re.compile(rf"journal/peers/{_LINEAGE}\.json"), _SMALL),
    (re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{62}(\.[zt])?"), OBJECT_BYTES_MAX + _SMALL),
)


class _File(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    sha256: str


class _Head(msgspec.Struct, frozen=True):
    lineage: str
    size: int
    root: str


class _Manifest(msgspec.Struct, frozen=True):
    format: int
    store: str
    lineage: str
    made: str
    files: list[_File]
    heads: list[_Head]


class Packed(NamedTuple):
    """What went into a file, or came out of it: ``bytes`` is the sum of the files' sizes, not of the archive."""

    store_id: str
    files: int
    bytes: int
    records: int
    objects: int


def export_store(journal: Journal, path: str, *, progress: Progress = no_progress) -> Packed:
    """Write the store to a new file ``path``. Raises RefusedError where there is one, DamageError for a damaged store."""
    if os.path.lexists(path):
        raise RefusedError(f"{path} is there already", safe="It was not touched.", mend="Name another file.")
    journal.refresh()
    if journal.damage is not None:
        raise journal.damage
    files = journal.files
    temporary = f"{path}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}"
    try:
        fd = files.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            packed = _write(journal, _Sink(files, fd), progress)
            files.sync(fd)
        finally:
            files.close(fd)
        name_new(files, temporary, path)
        files.sync_folder(os.path.dirname(os.path.abspath(path)))
    except FileExistsError as error:
        raise RefusedError(f"{path} is there already", safe="It was not touched.", mend="Name another file.") from error
    except OSError as error:
        raise environment_failure(error, "write", path) from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return packed


class _Sink(io.RawIOBase):
    """An open file as ``zipfile`` writes to it, by way of ``Files``."""

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


def _write(journal: Journal, raw: _Sink, progress: Progress) -> Packed:
    files: list[_File] = []
    heads: list[_Head] = []
    with zipfile.ZipFile(raw, "w") as archive:

        def add(name: str, data: bytes) -> None:
            archive.writestr(*_member(name, data))
            files.append(_File(name, len(data), hashlib.sha256(data).hexdigest()))

        for name, data in _settings_of(journal):
            add(name, data)
        for lineage in journal.lineages():
            tree = Tree()
            for name, data, leaves in _segments_of(journal, lineage):
                add(name, data)
                tree.extend(leaves)
            heads.append(_Head(lineage, tree.size, tree.root().hex()))
        held = list(journal.objects.digests())
        for number, digest in enumerate(held):
            progress(number, len(held))
            journal.objects.get(digest)  # raises for one that is not sound: it would be refused on the other side
            place = journal.objects.path_of(digest)
            add(_name_of(journal, place), _read(place, OBJECT_BYTES_MAX + _SMALL))
        made = format_ms(journal.clock.now_ms())
        manifest = _Manifest(_FORMAT, journal.store_id, journal.lineage, made, files, heads)
        archive.writestr(*_member(MANIFEST, canonical(msgspec.to_builtins(manifest))))
    records = sum(head.size for head in heads)
    return Packed(journal.store_id, len(files), sum(one.bytes for one in files), records, len(held))


def _member(name: str, data: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    member = zipfile.ZipInfo(_TOP + name)  # dated 1980: the same store gives the same bytes
    member.external_attr = 0o100644 << 16
    member.compress_type = zipfile.ZIP_STORED if is_packed(name) else zipfile.ZIP_DEFLATED
    return member, data


def _name_of(journal: Journal, path: str) -> str:
    return os.path.relpath(path, journal.layout.root).replace(os.sep, "/")


def _settings_of(journal: Journal) -> Iterator[tuple[str, bytes]]:
    layout = journal.layout
    yield "config.toml", _read(layout.config, _SMALL)
    for folder in ("checkpoints", "keys", "peers"):
        at = os.path.join(layout.journal, folder)
        for name in sorted(os.listdir(at)) if os.path.isdir(at) else []:
            limit = _limit(f"journal/{folder}/{name}")
            if limit:
                yield f"journal/{folder}/{name}", _read(os.path.join(at, name), limit)


def _segments_of(journal: Journal, lineage: str) -> Iterator[tuple[str, bytes, list[bytes]]]:
    """Name, bytes and leaves of each segment; of our own newest one no more than what is durable."""
    durable = journal.durable_seq if lineage == journal.lineage else None
    for chunk in journal.reader(lineage).read_from(START):
        entries = chunk.entries if durable is None else [one for one in chunk.entries if one.record.seq <= durable]
        data = _read(chunk.path, SEGMENT_READ_MAX)
        if chunk.tail is not None or len(entries) < len(chunk.entries):
            data = data[: entries[-1].offset + entries[-1].length if entries else data.find(b"\n") + 1]
        yield _name_of(journal, chunk.path), data, [one.leaf for one in entries]


def _read(path: str, limit: int) -> bytes:
    try:
        data = read_plain(path, limit + 1)
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if len(data) > limit:
        raise DamageError(f"a file over {limit:,} bytes", path=path, safe="Nothing was written.")
    return data


def _limit(name: str) -> int:
    """How large the file ``name`` may be; 0 for a name that no store has."""
    return next((limit for pattern, limit in _PLACES if pattern.fullmatch(name)), 0)


# -- reading ---------------------------------------------------------------------------------------------------------


def import_store(
    path: str,
    folder: str,
    *,
    check: Callable[[str], list[str]],
    clock: Clock,
    files: Files | None = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> Packed:
    """Make the store of ``folder`` from the file at ``path``; with ``dry_run`` only verify it.

    ``check(root)`` opens what was unpacked, examines it and says what is wrong with it. Raises RefusedError where
    ``folder`` has a store, FormatError for a file that is none of ours or not what its manifest says.
    """
    target = os.path.join(folder, STORE_FOLDER)
    if os.path.lexists(target) and not dry_run:
        raise RefusedError(
            f"{folder} has a store",
            safe="It was not touched.",
            mend="Import into another folder, then exchange the two with `periplus sync --with`.",
        )
    files = files or Files()
    place = os.path.join(folder, f".periplus-{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    try:
        files.make_folder(place, 0o755)
        try:
            packed, manifest = _unpack(path, place, files, progress)
            _check_heads(place, manifest, path)
            create_store(place, files, clock)  # what is this clone's own: a lineage, keys, what git is to ignore
            problems = check(place)
            if problems:
                raise FormatError(
                    f"the store in it is not sound: {problems[0]}", path=path, safe="Nothing was made of it."
                )
            if not dry_run:
                files.replace(place, target)
                files.sync_folder(folder)
        finally:
            if os.path.isdir(place):
                shutil.rmtree(place)
    except OSError as error:
        raise environment_failure(error, "import into", folder) from error
    return packed


def _unpack(path: str, place: str, files: Files, progress: Progress) -> tuple[Packed, _Manifest]:
    held: dict[str, _File] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(members, place, path)
            manifest = _decoded(archive.read(_TOP + MANIFEST), path)
            for number, member in enumerate(members):
                progress(number, len(members))
                name = member.filename.removeprefix(_TOP)
                if name != MANIFEST:
                    with archive.open(member) as source:
                        held[name] = _unpack_file(source, name, os.path.join(place, *name.split("/")), files)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}", safe="Nothing was changed.", mend="Check the name.") from error
    except IsADirectoryError as error:
        raise UsageError(f"{path} is a folder, not a file", safe="Nothing was changed.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise FormatError(f"not an exported store, or damaged: {error}", path=path, safe=_UNTOUCHED) from error
    for one in manifest.files:
        if held.get(one.path) != one:
            raise FormatError(f"{one.path[:200]} is not what the manifest says", path=path, safe=_UNTOUCHED)
    if len(held) != len(manifest.files):
        raise FormatError("it holds files that its manifest does not name", path=path, safe=_UNTOUCHED)
    records = sum(head.size for head in manifest.heads)
    objects = sum(name.startswith("objects/") for name in held)
    return Packed(manifest.store, len(held), sum(one.bytes for one in held.values()), records, objects), manifest


def _check_members(members: list[zipfile.ZipInfo], place: str, path: str) -> None:
    """Before anything is unpacked: names, sizes, and whether there is room. Raises FormatError, EnvironmentFailure."""
    names = set()
    for member in members:
        name = member.filename.removeprefix(_TOP)
        limit = _MANIFEST_BYTES_MAX if name == MANIFEST else _limit(name)
        if name == member.filename or not limit or member.file_size > limit or name in names:
            raise FormatError(
                f"no file of a store: {member.filename[:200]!r}, {member.file_size:,} bytes", path=path, safe=_UNTOUCHED
            )
        names.add(name)
    if MANIFEST not in names or "config.toml" not in names:
        raise FormatError("not an exported store: it has no manifest or no settings", path=path, safe=_UNTOUCHED)
    wanted = sum(member.file_size for member in members)
    free = shutil.disk_usage(place).free
    if wanted > free:
        raise EnvironmentFailure(
            f"unpacked it has {wanted:,} bytes; the disk has room for {free:,}", safe="Nothing was changed.",
            mend="Free some space, then repeat the command.",
        )  # fmt: skip


_UNTOUCHED: Final = "Nothing was made of it."


def _unpack_file(source: IO[bytes], name: str, target: str, files: Files) -> _File:
    files.make_folder(os.path.dirname(target))
    digest, size = hashlib.sha256(), 0
    fd = files.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        while piece := source.read(_PIECE):
            view = memoryview(piece)
            while view:
                view = view[files.write(fd, view) :]
            digest.update(piece)
            size += len(piece)
        files.sync(fd)
    finally:
        files.close(fd)
    return _File(name, size, digest.hexdigest())


def _decoded(data: bytes, path: str) -> _Manifest:
    try:
        manifest = msgspec.json.decode(data, type=_Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"the manifest cannot be read: {error}", path=path, safe=_UNTOUCHED) from error
    if manifest.format != _FORMAT:
        raise FormatError(f"exported in format {manifest.format}; this Periplus reads {_FORMAT}", path=path,
                          safe=_UNTOUCHED, mend="Update Periplus, then repeat the command.")  # fmt: skip
    return manifest


def _check_heads(place: str, manifest: _Manifest, path: str) -> None:
    """Whether the records' trees have the roots that the manifest states."""
    layout = Layout(place)
    found = (
        sorted(name for name in os.listdir(layout.journal) if name.startswith("lin_"))
        if os.path.isdir(layout.journal)
        else []
    )
    named = {head.lineage for head in manifest.heads}
    if not named.issuperset(found) or not {head.lineage for head in manifest.heads if head.size} <= set(found):
        raise FormatError("it holds other lineages than its manifest names", path=path, safe=_UNTOUCHED)
    try:
        stores = read_settings(layout).store.ids | {manifest.store}
    except PeriplusError as error:
        raise FormatError(f"its settings cannot be read: {error.wrong}", path=path, safe=_UNTOUCHED) from error
    for head in manifest.heads:
        tree = Tree()
        try:
            reader = LineageReader(layout.lineage_folder(head.lineage), stores, head.lineage)
            for chunk in reader.read_from(START):
                tree.extend([entry.leaf for entry in chunk.entries])
        except PeriplusError as error:
            raise FormatError(f"a segment in it is damaged: {error}", path=path, safe=_UNTOUCHED) from error
        if (tree.size, tree.root().hex()) != (head.size, head.root):
            raise FormatError(
                f"the records of {head.lineage} are not those of the manifest", path=path, safe=_UNTOUCHED
            )
