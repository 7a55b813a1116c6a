"""Copies that a migration keeps in the store's ``archive/``: the v1 folder before each step, and the log when parked.

A copy counts when it was read back and has the digest of its source; a backup when its ``MANIFEST.json`` is there,
which is written last. An interrupted backup is kept, and continued where the same content is to be copied again.
Nothing in the archive is ever changed or removed by us; a parked log that the old program had open may still grow
there.
"""

from __future__ import annotations

__all__ = ["back_up", "check_backups", "park_logs", "rescue_migration", "restore_logs"]

import errno
import fcntl
import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.base.errors import DamageError, EnvironmentFailure, NewerFormatError, PeriplusError, environment_failure
from periplus.base.files import Files, is_temporary, read_plain, write_atomic, write_pieces
from periplus.interop.version1.folder import list_folder
from periplus.journal.storage.layout import COPIES_FOLDER
from periplus.project.v1_folder.folder_keeper import MigrationPlaces, make_folder, read_mode

if TYPE_CHECKING:
    from periplus.base.clock import Clock
    from periplus.journal.care.doctor import Problem
    from periplus.journal.storage.parking import Parking, Repair

Progress = Callable[[int, int], None]
MANIFEST: Final = "MANIFEST.json"
_PIECE: Final = 1 << 20


def back_up(files: Files, source: str, root: str, progress: Progress) -> str:
    """Copy ``source`` aside; returns the backup's folder within the store. The same content is copied once."""
    found = _walk(source)
    digests = {path: _digest(os.path.join(source, path)) for path in found}
    name = f"archive/{_name_of(digests)}"
    folder = os.path.join(root, name)
    manifest = os.path.join(folder, MANIFEST)
    if os.path.lexists(manifest):
        return name
    link = _link_in(folder)
    if link:
        raise _linked(link)
    make_folder(files, MigrationPlaces(root).archive)
    make_folder(files, folder)
    with _at_work(folder, fcntl.LOCK_SH):
        for number, path in enumerate(sorted(digests)):
            progress(number, len(digests))
            target = os.path.join(folder, COPIES_FOLDER, path)
            if _is_digest(target, digests[path].hex()):
                continue  # of a backup that was not finished
            make_folder(files, os.path.dirname(target))
            _copy(files, os.path.join(source, path), target, digests[path], is_synced=False)
        for at in sorted({os.path.dirname(os.path.join(folder, COPIES_FOLDER, path)) for path in digests}):
            _sync_folder(files, at)
        progress(len(digests), max(1, len(digests)))
        _write_manifest(files, manifest, source, digests)
    return name


@contextmanager
def _at_work(folder: str, how: int) -> Iterator[bool]:
    """Lock a backup while files are copied into it (LOCK_SH), so that nobody removes them as leftovers (LOCK_EX):
    before its list is written a file of the source may look like a temporary one of ours. Yields whether the lock
    was had; LOCK_EX does not wait.
    """
    fd = -1
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, how if how == fcntl.LOCK_SH else how | fcntl.LOCK_NB)  # a reader is soon done
        is_had = True
    except BlockingIOError:
        is_had = False
    except OSError:
        is_had = True  # a file system without such locks
    try:
        yield is_had
    finally:
        if fd >= 0:
            os.close(fd)


def _write_manifest(files: Files, path: str, source: str, digests: dict[str, bytes]) -> None:
    listed = [{"path": one, "sha256": digests[one].hex()} for one in sorted(digests)]
    document = {"format": 1, "source": source, "files": listed}
    write_atomic(files, path, (json.dumps(document, indent=1) + "\n").encode(), mode=0o600)


def _name_of(digests: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path in sorted(digests):
        whole.update(os.fsencode(path) + b"\0" + digests[path])
    return f"v1-{whole.hexdigest()[:16]}"


def park_logs(files: Files, source: str, root: str) -> None:
    """Move the log into the archive: by a rename where folder and store lie on one file system, so that a process
    that has it open writes into the parked file; otherwise it is copied, read back, and removed from the folder.
    """
    places = MigrationPlaces(root)
    for name in sorted(name for name in list_folder(source).logs if "/" not in name):  # a journal of segments stays
        path, target = os.path.join(source, name), os.path.join(places.parked_log, name)
        make_folder(files, places.archive)
        make_folder(files, places.parked_log)
        digest = _digest(path)
        if os.path.lexists(target) and _digest(target) != digest:
            older = _digest(target)
            make_folder(files, os.path.join(places.parked_log, "older"))
            _copy(files, target, os.path.join(places.parked_log, "older", f"{older.hex()[:12]}-{name}"), older)
        if _is_renamed(files, path, target):
            continue
        if not os.path.lexists(target) or _digest(target) != digest:
            _copy(files, path, target, digest)
        _take_out(files, path, target, digest)


def _is_renamed(files: Files, path: str, target: str) -> bool:
    """Rename the plain file at ``path`` to ``target``; False where that lies on another file system."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as held:
            files.sync(held.fileno())  # the writer need not have synced it
        files.replace(path, target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise environment_failure(error, "park", path) from error
    _sync_folder(files, os.path.dirname(target))
    _sync_folder(files, os.path.dirname(path))
    return True


def _take_out(files: Files, path: str, copy: str, digest: bytes) -> None:
    """Unlink ``path``, of which ``copy`` is a copy on another file system. A process that has it open may write into
    it until then: that is put back, or into ``copy`` where there is another file by then.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as held:
            status = os.fstat(held.fileno())  # before it is compared: a later write makes it larger
            if _digest(path) != digest:
                raise _moved(path)
            files.unlink(path)
            if os.fstat(held.fileno()).st_size == status.st_size:
                return
            is_begun = os.path.lexists(path)
            mode = 0o600 if is_begun else stat.S_IMODE(status.st_mode)
            write_pieces(files, copy if is_begun else path, iter(lambda: held.read(_PIECE), b""), mode=mode)
    except OSError as error:
        raise environment_failure(error, "park", path) from error
    raise _moved(path)


def restore_logs(files: Files, source: str, root: str) -> None:
    """Put a parked log back where none has been begun since; the archive keeps its copy."""
    parked = MigrationPlaces(root).parked_log
    try:
        names = sorted(entry.name for entry in os.scandir(parked) if entry.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return
    except OSError as error:
        raise environment_failure(error, "list", parked) from error
    for name in names:
        target = os.path.join(source, name)
        if name.startswith("events") and not os.path.lexists(target):
            _copy(files, os.path.join(parked, name), target, _digest(os.path.join(parked, name)), mode=0o644)


def check_backups(root: str) -> Iterator[Problem]:
    """Compare each file of each backup with the manifest written when it was made."""
    from periplus.journal.care.doctor import Problem

    mend = "Run `periplus doctor --repair --from PATH` with a copy of this store, if there is one."
    listed = _backed_up(root)
    for path, sha256 in listed.items():
        if not sha256:
            yield _without_manifest(root, path, mend)
        elif not os.path.lexists(path):
            yield Problem("warning", "a file of a backup is missing", path, mend=mend)
        elif not _is_digest(path, sha256):
            yield Problem("warning", "a file of a backup is not what was copied", path, mend=mend)
    for folder in _folders_of(root):
        left = _left_in(folder, listed)
        with _at_work(folder, fcntl.LOCK_EX) as is_had:
            is_left = bool(left) and is_had
        if is_left:
            what = "a temporary file of an unfinished copy; it is not used" if len(left) == 1 else \
                f"{len(left):,} temporary files of unfinished copies; they are not used"  # fmt: skip
            yield Problem("note", what, os.path.dirname(left[0]))


def _without_manifest(root: str, path: str, mend: str) -> Problem:
    """Return the problem of a backup whose manifest at ``path`` is missing or wrong."""
    from periplus.journal.care.doctor import Problem

    folder = os.path.dirname(path)
    try:
        copied = _copied_in(folder)
    except (DamageError, EnvironmentFailure) as error:
        why = f"a backup without a manifest that cannot be read: {error.wrong}"
        return Problem("warning", why, _link_in(folder) or folder, mend=error.mend)
    is_damage = os.path.lexists(path) or _was_finished(root, folder)
    if _is_all(folder, copied):
        return Problem("warning" if is_damage else "note", "the manifest of a backup is missing or damaged; all its files are there",
                       path, mend="Run `periplus doctor --repair`: it writes the manifest again.")  # fmt: skip
    if is_damage:
        return Problem("warning", "the manifest of a backup is missing or damaged", path, mend=mend)
    many = "1 file was" if len(copied) == 1 else f"{len(copied):,} files were"
    return Problem("note", f"a backup that was interrupted: {many} copied, and no step relied on it", folder,
                   mend=f"It is not needed; to remove it: rm -r {shlex.quote(folder)}")  # fmt: skip


def _was_finished(root: str, folder: str) -> bool:
    """Return True where a step relied on this backup, as on every finished one."""
    try:
        return f"archive/{os.path.basename(folder)}" in read_mode(root).backups
    except PeriplusError:
        return True  # unknown: report the worse case


def _copied_in(folder: str) -> dict[str, bytes]:
    """Return the files of a backup. Raises EnvironmentFailure where they cannot be read, DamageError for a link."""
    files = os.path.join(folder, COPIES_FOLDER)
    link = _link_in(folder)
    if link:
        raise _linked(link)
    return {path: _digest(os.path.join(files, path)) for path in _walk(files)} if os.path.isdir(files) else {}


def _link_in(folder: str) -> str:
    """Return a link among a backup's folders, which would lead writes elsewhere. Empty where there is none."""
    paths = (os.path.join(at, name) for at, folders, _ in os.walk(folder) for name in folders)
    return next(filter(os.path.islink, (folder, *paths)), "")


def _linked(path: str) -> DamageError:
    return DamageError("a symbolic link; nothing within a store is one", path=path,
                       safe="It was not followed and nothing was changed.",
                       mend="See where it leads and remove it.")  # fmt: skip


def _is_all(folder: str, copied: Mapping[str, bytes]) -> bool:
    return _name_of(copied) == os.path.basename(folder)


def _is_all_there(folder: str) -> bool:
    try:
        return _is_all(folder, _copied_in(folder))
    except (DamageError, EnvironmentFailure):
        return False  # the examination says why


def _left_in(folder: str, listed: Mapping[str, str]) -> list[str]:
    """Return temporary files of ours in a backup: the source may have files of such names, too."""
    found = (os.path.join(at, name) for at, _, names in os.walk(os.path.join(folder, COPIES_FOLDER)) for name in names)
    left = sorted(path for path in found if is_temporary(os.path.basename(path)) and path not in listed)
    return [] if left and not listed[os.path.join(folder, MANIFEST)] and _is_all_there(folder) else left


def rescue_migration(root: str, files: Files, clock: Clock, sources: Sequence[str]) -> Iterator[Repair]:
    """Restore the mode of the migration and its backups: from copies of this store, and what needs none of them."""
    from periplus.journal.recovery.copies import stores_below
    from periplus.journal.recovery.plain_files import PlainFiles
    from periplus.journal.storage.layout import Layout
    from periplus.journal.storage.parking import Parking, Repair
    from periplus.journal.storage.settings import read_settings

    layout = Layout(root)
    yard = Parking(layout, files, clock)
    stores = read_settings(layout).store.ids
    found = [os.path.abspath(copy) for source in sources for copy in stores_below(source)]
    copies = [copy for copy in found if PlainFiles(copy, stores).is_of(stores) and copy != root]
    mode = MigrationPlaces(root).mode
    try:
        read_mode(root)
        is_wrong = False
    except NewerFormatError:
        raise
    except (DamageError, EnvironmentFailure):
        is_wrong = True
        yard.move(mode)
    if is_wrong or not os.path.lexists(mode):
        for copy in copies:
            if _is_mode(copy):
                make_folder(files, os.path.dirname(mode))
                write_atomic(files, mode, read_plain(MigrationPlaces(copy).mode, _PIECE))
                yield Repair("the mode of the migration is restored from a copy", mode)
                break
        else:
            if is_wrong:
                yield Repair("the mode of the migration is parked: it is off until `periplus migrate` goes on", mode)
    for copy in copies:
        for there in _backed_up(copy):
            name = os.path.relpath(there, copy)
            path, sha256 = os.path.join(root, name), _backed_up(copy)[there]
            if not sha256 or not _is_digest(there, sha256) or _is_digest(path, sha256):
                continue
            if _link_in(os.path.join(root, *name.split(os.sep)[:2])):
                continue
            if os.path.lexists(path):
                yard.move(path)
            make_folder(files, os.path.dirname(path))
            _copy(files, there, path, bytes.fromhex(sha256))
            yield Repair("a file of a backup is restored from a copy", path)
    yield from _tidy(root, files, yard)


def _tidy(root: str, files: Files, yard: Parking) -> Iterator[Repair]:
    """Repair what needs no copy: the manifest of a complete backup, and leftovers of copying."""
    for folder in _folders_of(root):
        if not _link_in(folder):
            with _at_work(folder, fcntl.LOCK_EX) as is_had:
                if is_had:
                    yield from _tidy_one(folder, root, files, yard)


def _tidy_one(folder: str, root: str, files: Files, yard: Parking) -> Iterator[Repair]:
    from periplus.journal.storage.parking import Repair

    manifest = os.path.join(folder, MANIFEST)
    listed = _backed_up(root)
    for path in _left_in(folder, listed):
        yard.move(path)
        yield Repair("a temporary file of an unfinished copy is parked", path)
    if not listed[manifest] and _is_all_there(folder):
        if os.path.lexists(manifest):
            yard.move(manifest)
        _write_manifest(files, manifest, _source_of(root), _copied_in(folder))
        yield Repair("the manifest of a backup, whose files are all there, is written again", manifest)


def _source_of(root: str) -> str:
    try:
        return read_mode(root).source
    except PeriplusError:
        return ""


def _folders_of(root: str) -> list[str]:
    archive = MigrationPlaces(root).archive
    names = sorted(os.listdir(archive)) if os.path.isdir(archive) else []
    return [os.path.join(archive, name) for name in names if re.fullmatch("v1-[0-9a-f]{16}", name)]


def _is_mode(root: str) -> bool:
    try:
        return read_mode(root).mode != "off" or os.path.lexists(MigrationPlaces(root).mode)
    except PeriplusError:
        return False


def _backed_up(root: str) -> dict[str, str]:
    """Return the files of the backups with the digest that each must have, manifests included; none for a manifest
    that does not match. A manifest's own digest is in its folder's name.
    """
    found: dict[str, str] = {}
    for folder in _folders_of(root):
        path = os.path.join(folder, MANIFEST)
        data, listed = b"", dict[str, str]()
        try:
            data = read_plain(path, 1 << 28)
            listed = {str(one["path"]): str(one["sha256"]) for one in json.loads(data)["files"]}
            is_whole = os.path.basename(folder) == _name_of({one: bytes.fromhex(listed[one]) for one in listed})
        except (OSError, ValueError, LookupError, TypeError):
            is_whole = False
        found[path] = hashlib.sha256(data).hexdigest() if is_whole else ""
        if is_whole:
            found.update({os.path.join(folder, COPIES_FOLDER, one): listed[one] for one in sorted(listed)})
    return found


def _is_digest(path: str, sha256: str) -> bool:
    try:
        return _digest(path).hex() == sha256
    except (EnvironmentFailure, OSError):
        return False


def _walk(source: str) -> list[str]:
    """Return every plain file below ``source`` without git's own; links and special files are left out."""
    found: list[str] = []

    def raised(error: OSError) -> None:
        raise environment_failure(error, "back up", error.filename) from error

    for folder, folders, names in os.walk(source, onerror=raised):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in names:
            path = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                found.append(os.path.relpath(path, source))
    return found


def _digest(path: str) -> bytes:
    whole = hashlib.sha256()
    try:
        for piece in _pieces(path):
            whole.update(piece)
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    return whole.digest()


def _pieces(path: str) -> Iterator[bytes]:
    """Read a file in pieces. Raises OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _copy(files: Files, source: str, target: str, digest: bytes, *, mode: int = 0o600, is_synced: bool = True) -> None:
    """Copy a file of any size; ``target`` appears when it is whole, and is read back."""
    write_pieces(files, target, _pieces(source), mode=mode, is_name_durable=is_synced)
    if _digest(target) != digest:
        raise _moved(source)


def _sync_folder(files: Files, path: str) -> None:
    try:
        files.sync_folder(path)
    except OSError as error:
        raise environment_failure(error, "write", path) from error


def _moved(path: str) -> EnvironmentFailure:
    return EnvironmentFailure(f"{path} changed while it was copied", safe="Nothing was changed in the folder.",
                              mend="Stop the program that writes there, then repeat the command.")  # fmt: skip
