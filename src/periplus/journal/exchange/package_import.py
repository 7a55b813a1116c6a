"""Import of a store from a package file: see ``package``.

The file is not trusted. Only plain files at places that a store has are accepted, each within its limit and all together within the free
disk space, each as the manifest states. The store is examined record by record in a temporary folder before it is renamed into place.
"""

from __future__ import annotations

__all__ = ["import_store", "unpacked"]

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Final

import msgspec

from periplus.base.clock import Clock
from periplus.base.errors import (
    EnvironmentFailure,
    FormatError,
    NotFoundError,
    PeriplusError,
    RefusedError,
    UsageError,
    environment_failure,
)
from periplus.base.files import TEMPORARY_SUFFIX, Files, PassingFiles, read_plain
from periplus.journal.checkpoints.format import decode_header_line
from periplus.journal.exchange.package import (
    FORMAT,
    FORMAT_OF_REST,
    MANIFEST,
    MANIFEST_BYTES_MAX,
    TOP,
    Flaw,
    Manifest,
    Packed,
    PackedFile,
    PackedHead,
    limit_of,
)
from periplus.journal.exchange.package_salvage import DamagedPackage, has_members, salvage
from periplus.journal.index.row_recovery import IndexRows
from periplus.journal.recovery.missing_records import Gaps, Missing, known_last, write_missing
from periplus.journal.recovery.store_rescue import rescue
from periplus.journal.storage.layout import STORE_FOLDER, Layout
from periplus.journal.storage.lineage import START, LineageReader
from periplus.journal.storage.progress import Progress, no_progress
from periplus.journal.storage.settings import read_settings
from periplus.journal.storage.store_creation import create_store
from periplus.merkle.tree import Tree

_PIECE: Final = 1 << 20
_SYNC_EACH_MAX: Final = 64  # more files are synced together, after all were found sound
_TOLD_MAX: Final = 3
_HEADER_BYTES_MAX: Final = 1 << 24
# The methods that zipfile unpacks in bounded pieces; with others, one compressed piece may fill the memory.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LEFT: Final = re.compile(rf"\.periplus-[0-9a-f]{{8}}{re.escape(TEMPORARY_SUFFIX)}")


class DamagedFileError(FormatError):
    """A package file that differs from what was written."""


def import_store(
    path: str,
    folder: str,
    *,
    check: Callable[[str], list[str]],
    clock: Clock,
    files: Files | None = None,
    dry_run: bool = False,
    damaged: bool = False,
    progress: Progress = no_progress,
) -> Packed:
    """Make the store of ``folder`` from the file at ``path``; with ``dry_run`` only verify it.

    ``check(root)`` opens and examines the unpacked store and returns its defects. Raises RefusedError if ``folder`` has a store, or if the
    file holds the remains of a damaged one and ``damaged`` is not set; FormatError if the file is not a package or contradicts its
    manifest.
    """
    target = os.path.join(folder, STORE_FOLDER)
    if os.path.lexists(target) and not dry_run and not _is_empty(target):
        raise RefusedError(
            f"{folder} has a store",
            safe="It was not touched.",
            mend="Import into another folder, then in this one: periplus sync --with THAT_FOLDER",
        )
    files = files or (PassingFiles() if dry_run else Files())
    try:
        with _place_in(folder, files) as place:
            packed = _taken(path, place, files, clock, damaged=damaged, progress=progress)
            create_store(place, files, clock)  # this clone's own files: lineage, keys, .gitignore
            problems = check(place)
            if problems and packed.is_whole:
                raise FormatError(f"the store in it is not sound: {problems[0]}", path=path, safe=_UNTOUCHED)
            if not dry_run:
                if packed.files > _SYNC_EACH_MAX:
                    _sync_all(place, files)
                files.replace(place, target)
                files.sync_folder(folder)
    except OSError as error:
        raise environment_failure(error, "import into", folder) from error
    return packed


def _sync_all(place: str, files: Files) -> None:
    """Sync all unpacked files to the disk. Raises OSError."""
    if files.sync_everything(place):
        return
    for folder, _, names in os.walk(place):
        for name in names:
            fd = files.open(os.path.join(folder, name), os.O_RDONLY)
            try:
                files.sync(fd)
            finally:
                files.close(fd)
        files.sync_folder(folder)


def _is_empty(folder: str) -> bool:
    """Return True if this is an empty folder, which a rename may replace."""
    try:
        return not os.path.islink(folder) and not os.listdir(folder)
    except OSError:
        return False


def _taken(path: str, place: str, files: Files, clock: Clock, *, damaged: bool, progress: Progress) -> Packed:
    """Unpack the file at ``path`` in ``place`` and verify it against its manifest; with ``damaged`` keep as much as can be read."""
    try:
        packed, manifest = _unpack(path, place, files, progress)
    except DamagedFileError as error:
        if damaged:
            _clear(place)
            wreck = salvage(path, place, files, progress)
            if wreck.manifest is None or wreck.flaws:
                return _taken_from_wreck(path, wreck, place, files, clock)
            packed, manifest = (
                _packed(wreck.manifest, wreck.names, wreck.bytes),
                wreck.manifest,
            )  # only its directory was damaged
        else:
            name = shlex.quote(path)
            error.mend = (
                "Take another copy of the file. If there is none: "
                f"`periplus doctor --repair --from {name}` completes a store from it, "
                f"`periplus import --damaged {name} FOLDER` makes a store of what is left (with --dry-run it shows what that is)."
            )
            raise
    if not packed.is_whole and not damaged:
        raise _refused_rest(path, packed)
    _check_heads(place, manifest, path, files)
    return packed


@contextmanager
def unpacked(
    path: str, folder: str, *, files: Files | None = None, progress: Progress = no_progress
) -> Iterator[tuple[str, Sequence[Flaw]]]:
    """Unpack a package, whole or not, in a temporary folder below ``folder``; give that folder and the defects of a damaged file.

    Raises NotFoundError, UsageError, FormatError for a file without any part of a store, EnvironmentFailure.
    """
    files = files or PassingFiles()
    with _place_in(folder, files) as place:
        yield place, _unpacked_as_it_goes(path, place, files, progress)


def _unpacked_as_it_goes(path: str, place: str, files: Files, progress: Progress) -> Sequence[Flaw]:
    try:
        try:
            _unpack(path, place, files, progress)
        except DamagedFileError:
            _clear(place)
            return salvage(path, place, files, progress).flaws
    except OSError as error:
        raise environment_failure(error, "unpack into", place) from error
    return ()


@contextmanager
def _place_in(folder: str, files: Files) -> Iterator[str]:
    """Make a temporary folder in ``folder``, removed at the end unless it was renamed. Folders left by killed processes are removed first.

    The folder is locked meanwhile, so that other calls see that it is in use; shared, because opening the store in it takes a shared lock
    too.
    """
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if _LEFT.fullmatch(name):
            _remove_left(os.path.join(folder, name))
    place = os.path.join(folder, f".periplus-{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    fd = -1
    try:
        try:
            files.make_folder(place, 0o755)
            fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(fd, fcntl.LOCK_SH)
            files.make_folder(place, 0o755)  # another call may have removed it just before the lock was taken
        except OSError as error:
            raise environment_failure(error, "unpack into", folder) from error
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if fd >= 0:
            os.close(fd)


def _remove_left(place: str) -> None:
    try:
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
    except OSError:
        pass  # in use
    finally:
        os.close(fd)


def _clear(place: str) -> None:
    for entry in os.scandir(place):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _refused_rest(path: str, packed: Packed) -> RefusedError:
    told: Sequence[object] = packed.missing or [one.what for one in packed.flaws]
    more = f" and {len(told) - _TOLD_MAX:,} more" if len(told) > _TOLD_MAX else ""
    what = "; ".join(str(one) for one in told[:_TOLD_MAX]) + more
    name = shlex.quote(path)
    verb = "missing: " if packed.missing else ""
    return RefusedError(
        f"{path} holds only the remains of a damaged store; {verb}{what[:600]}",
        safe="Nothing was created.",
        mend=f"To complete a store from it: `periplus doctor --repair --from {name}`. "
        f"To make a store of what is left: `periplus import --damaged {name} FOLDER`.",
    )


def _unpack(path: str, place: str, files: Files, progress: Progress) -> tuple[Packed, Manifest]:
    held: dict[str, PackedFile] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(members, place, path)
            manifest = _decoded(_manifest_bytes(archive), path)
            syncs = len(members) <= _SYNC_EACH_MAX
            for number, member in enumerate(members):
                progress(number, len(members))
                name = member.filename.removeprefix(TOP)
                if name != MANIFEST:
                    with archive.open(member) as source:
                        held[name] = _unpack_file(
                            source, name, os.path.join(place, *name.split("/")), files, syncs=syncs
                        )
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}", safe="Nothing was changed.", mend="Check the name.") from error
    except IsADirectoryError as error:
        raise UsageError(f"{path} is a folder, not a file", safe="Nothing was changed.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        kind = DamagedFileError if has_members(path) else FormatError
        raise kind(f"not an exported store, or damaged: {error}", path=path, safe=_UNTOUCHED) from error
    for one in manifest.files:
        if held.get(one.path) != one:
            raise DamagedFileError(f"{one.path[:200]} does not match the manifest", path=path, safe=_UNTOUCHED)
    if len(held) != len(manifest.files):
        raise DamagedFileError("it holds files that its manifest does not name", path=path, safe=_UNTOUCHED)
    if manifest.format == FORMAT and (manifest.missing or manifest.flaws):
        raise FormatError("its manifest states that it is whole, but lists missing parts", path=path, safe=_UNTOUCHED)
    if manifest.format == FORMAT_OF_REST and not (manifest.missing or manifest.flaws):
        raise FormatError(
            "its manifest states that it is not whole, but lists no missing parts", path=path, safe=_UNTOUCHED
        )
    return _packed(manifest, tuple(held), sum(one.bytes for one in held.values())), manifest


def _packed(manifest: Manifest, names: Sequence[str], size: int) -> Packed:
    gone = sum(one.last_seq - one.first_seq + 1 for one in manifest.missing)
    records = sum(head.size for head in manifest.heads) - gone
    broken = {flaw.path for flaw in manifest.flaws}
    objects = sum(name.startswith("objects/") and name not in broken for name in names)
    return Packed(manifest.store, len(names), size, records, objects, tuple(manifest.missing), tuple(manifest.flaws))


def _check_members(members: list[zipfile.ZipInfo], place: str, path: str) -> None:
    """Check names, sizes and free space before anything is unpacked. Raises FormatError, EnvironmentFailure."""
    names = set()
    for member in members:
        name = member.filename.removeprefix(TOP)
        limit = MANIFEST_BYTES_MAX if name == MANIFEST else limit_of(name)
        is_known = name != member.filename and limit > 0 and member.compress_type in _METHODS
        if not is_known or member.file_size > limit or name in names:
            raise DamagedFileError(
                f"not a file of a store: {member.filename[:200]!r}, {member.file_size:,} bytes",
                path=path,
                safe=_UNTOUCHED,
            )
        if member.header_offset < 0:
            raise DamagedFileError("its beginning is missing", path=path, safe=_UNTOUCHED)
        names.add(name)
    if MANIFEST not in names or "config.toml" not in names:
        kind = DamagedFileError if names else FormatError
        raise kind("not an exported store: it has no manifest or no settings", path=path, safe=_UNTOUCHED)
    wanted = sum(member.file_size for member in members)
    free = shutil.disk_usage(place).free
    if wanted > free:
        raise EnvironmentFailure(
            f"it unpacks to {wanted:,} bytes; the disk has room for {free:,}", safe="Nothing was changed.",
            mend="Free some space, then repeat the command.",
        )  # fmt: skip


_UNTOUCHED: Final = "Nothing was created."


def _manifest_bytes(archive: zipfile.ZipFile) -> bytes:
    """Read the manifest, at most as many bytes as its member states; an unbounded read would unpack everything into memory."""
    with archive.open(TOP + MANIFEST) as source:
        return source.read(archive.getinfo(TOP + MANIFEST).file_size)


def _unpack_file(source: IO[bytes], name: str, target: str, files: Files, *, syncs: bool) -> PackedFile:
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
        if syncs:
            files.sync(fd)
    finally:
        files.close(fd)
    return PackedFile(name, size, digest.hexdigest())


def _decoded(data: bytes, path: str) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(f"the manifest cannot be read: {error}", path=path, safe=_UNTOUCHED) from error
    if manifest.format not in (FORMAT, FORMAT_OF_REST):
        raise FormatError(f"exported in format {manifest.format}; this Periplus reads {FORMAT} and {FORMAT_OF_REST}", path=path,
                          safe=_UNTOUCHED, mend="Update Periplus, then repeat the command.")  # fmt: skip
    return manifest


def _check_heads(place: str, manifest: Manifest, path: str, files: Files) -> None:
    """Check the roots of the records' trees against the manifest; for a damaged store, that no more is missing than it states, and note
    that.
    """
    layout = Layout(place)
    found = (
        sorted(name for name in os.listdir(layout.journal) if name.startswith("lin_"))
        if os.path.isdir(layout.journal)
        else []
    )
    named = {head.lineage for head in manifest.heads}
    gone = {one.lineage for one in manifest.missing}
    if not named.issuperset(found) or not {head.lineage for head in manifest.heads if head.size} - gone <= set(found):
        raise FormatError("it holds other lineages than its manifest names", path=path, safe=_UNTOUCHED)
    try:
        stores = read_settings(layout).store.ids | {manifest.store}
    except PeriplusError as error:
        raise FormatError(f"its settings cannot be read: {error.wrong}", path=path, safe=_UNTOUCHED) from error
    for head in manifest.heads:
        tree = Tree()
        is_rest = manifest.format == FORMAT_OF_REST and not head.root
        reader = LineageReader(layout.lineage_folder(head.lineage), stores, head.lineage)
        gaps = Gaps(layout, reader, head.size)
        try:
            for chunk in reader.read_from(START, head.size if is_rest else 0, salvage=is_rest):
                gaps.take(chunk)
                tree.extend([entry.leaf for entry in chunk.entries])
        except PeriplusError as error:
            raise FormatError(f"a segment in it is damaged: {error}", path=path, safe=_UNTOUCHED) from error
        if is_rest:
            _check_rest(layout, head, gaps, manifest, path, files)
        elif (tree.size, tree.root().hex()) != (head.size, head.root):
            raise FormatError(f"the records of {head.lineage} do not match the manifest", path=path, safe=_UNTOUCHED)


def _taken_from_wreck(path: str, wreck: DamagedPackage, place: str, files: Files, clock: Clock) -> Packed:
    """Make a store in ``place`` of the readable part of a damaged file; determine what is missing and note it."""
    layout = Layout(place)
    try:
        rescue(place, files, clock)  # settings or other files needed to open the store may be damaged
        settings = read_settings(layout)
    except PeriplusError as error:
        raise FormatError(f"no store can be made of what is left: {error.wrong}", path=path, safe=_UNTOUCHED) from error
    heads = _sizes_in(layout.checkpoints)
    for head in () if wreck.manifest is None else wreck.manifest.heads:
        heads[head.lineage] = max(head.size, heads.get(head.lineage, 0))
    below = os.listdir(layout.journal) if os.path.isdir(layout.journal) else []
    missing: list[Missing] = []
    records = 0
    rows = IndexRows(layout.index)
    try:
        for lineage in sorted({*heads, *(name for name in below if name.startswith("lin_"))}):
            last = max(heads.get(lineage, 0), known_last(layout, lineage, rows))
            reader = LineageReader(layout.lineage_folder(lineage), settings.store.ids, lineage)
            gaps = Gaps(layout, reader, last)
            for chunk in reader.read_from(START, last, salvage=True):
                gaps.take(chunk)
                records += len(chunk.entries)
            if found := gaps.end():
                write_missing(layout, files, lineage, gaps.size, found)
            missing += found
    finally:
        rows.close()
    if not records and (missing or wreck.manifest is None):
        raise FormatError(
            "it contains no readable record of a store",
            path=path,
            safe=_UNTOUCHED,
            mend="Take another copy of the file.",
        )
    flaws = wreck.flaws if wreck.manifest is None else (*wreck.manifest.flaws, *wreck.flaws)
    broken = {flaw.path for flaw in flaws}
    objects = sum(name.startswith("objects/") and name not in broken for name in wreck.names)
    return Packed(settings.store.id, len(wreck.names), wreck.bytes, records, objects, tuple(missing), tuple(flaws))


def _sizes_in(folder: str) -> dict[str, int]:
    """Return the minimal size of each lineage according to the checkpoints in ``folder``."""
    sizes: dict[str, int] = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            data = read_plain(os.path.join(folder, name), _HEADER_BYTES_MAX)
            header = decode_header_line(data.partition(b"\n")[0])
        except (OSError, FormatError):
            continue
        for lineage, (_, _, next_seq, _) in header.positions.items():
            sizes[lineage] = max(next_seq - 1, sizes.get(lineage, 0))
    return sizes


def _check_rest(layout: Layout, head: PackedHead, gaps: Gaps, manifest: Manifest, path: str, files: Files) -> None:
    """Raise FormatError if other records are missing than the manifest states; otherwise note them in the store."""
    stated = [(one.first_seq, one.last_seq) for one in manifest.missing if one.lineage == head.lineage]
    missing = gaps.end()
    is_stated = all(any(first <= one.first_seq and one.last_seq <= last for first, last in stated) for one in missing)
    if not is_stated or gaps.size != head.size:
        raise FormatError(
            f"other records of {head.lineage} are missing than its manifest says", path=path, safe=_UNTOUCHED
        )
    if missing:
        write_missing(layout, files, head.lineage, head.size, missing)
