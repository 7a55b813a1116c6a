"""Notes of imports, so that an unchanged file need not be read again.

A note lies in ``cache/imports``, belongs to nobody, and may be deleted, lost or wrong at any time: it is trusted only
where all that it was made of is unchanged. That is

* the note itself, by a code made with the store's trail key: a damaged one, one of another store or one that came with a
  repository does not count;
* the importing code, by the digest of its files, and the Python that runs it: there is no version number that somebody could
  forget to raise;
* the session's files, by their ``footprint``, taken before the first byte was read and found the same after the last; and old
  enough then that no later write could leave no trace;
* the trails that the journal holds of them, by their versions, in no conflict;
* every object that the import kept or would have, by the bytes in its file: an import heals lost and damaged objects, so it
  must still happen;
* the last redaction of this store.

So following a note has the same result as an import: nothing is written by either. See
docs/decisions/0043-transcript-import.md.
"""

from __future__ import annotations

__all__ = ["ImportNotes", "forget_notes", "importing_code"]

import hashlib
import hmac
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from periplus import base
from periplus.base.clock import STARTED_MS
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import PeriplusError
from periplus.base.files import TEMPORARY_SUFFIX, read_plain, write_atomic
from periplus.project.redaction_mark import redaction_mark

if TYPE_CHECKING:
    from periplus.base.files import Files
    from periplus.project.store import ProjectStore
    from periplus.project.trail_store.cards import ImportedTrail
    from periplus.project.trail_store.withholding import Withholding

_VERSION: Final = 1
_FOLDER: Final = os.path.join("cache", "imports")
_NOTES_MAX: Final = 8192
_NOTE_BYTES_MAX: Final = 32 << 20
_CODE_DIGITS: Final = 64
_CODE: Final = ("base", "objects", "trail", "interop")  # packages whose code imports files
_CODE_HERE: Final = ("project/trail_store/cards.py", "project/trail_store/import_notes.py", "project/trail_store/lookup.py", "project/trail_store/keys.py",
                     "project/trail_store/session_import.py", "project/trail_store/withholding.py")  # fmt: skip


class _Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    version: str
    heads: tuple[str, ...]
    digest: str
    withheld: int
    children: tuple[_Session, ...]


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    v: int
    format: str
    inputs: str
    sessions: tuple[_Session, ...]
    objects: tuple[str, ...]
    at_rest: str


class ImportNotes:
    """The note of the import of one file, with sessions of ``folders`` only where any are given."""

    def __init__(self, project: ProjectStore, path: str, folders: tuple[str, ...], trail_key: bytes) -> None:
        self._project = project
        self._path = path
        self._folders = folders
        self._key = hmac.digest(trail_key, b"periplus: notes of imports", hashlib.sha256)
        named = self._mac("\0".join((path, *folders)).encode("utf-8", "surrogatepass"))
        self._place = os.path.join(project.root, _FOLDER, named[:32])
        self._began_ms = project.journal.clock.now_ms()
        self._format = ""
        self._inputs = ""

    def known(self, source_format: str | None) -> list[ImportedTrail] | None:
        """Return what an import of the file would give, if it would change nothing; None where that is unknown
        without one.
        """
        try:
            note = self._read()
            if note is None or source_format not in (None, note.format):
                return None
            if self._inputs_now(note.format, settled_ms=None) != note.inputs:
                return None
            journal = self._project.journal
            journal.refresh()
            found = [self._standing(one) for one in note.sessions] if journal.damage is None else [None]
            trails = [one for one in found if one is not None]
            if len(trails) < len(found) or self._at_rest(note.objects) != note.at_rest:
                return None
        except (PeriplusError, OSError):
            return None  # the import reports it, or heals it
        return trails

    def begin(self, source_format: str) -> None:
        """Prepare a note. To be called before the file is read, once its format is known."""
        from periplus.interop.file_footprint import SETTLED_MS

        self._format = source_format
        try:
            self._inputs = self._inputs_now(source_format, settled_ms=self._began_ms - SETTLED_MS)
        except OSError:
            self._inputs = ""

    def keep(self, trails: Sequence[ImportedTrail], withholding: Withholding) -> None:
        """Note the result of the import, unless a repeated import would give another, or another file was read."""
        if not self._inputs or not all(map(_is_settled, trails)):
            return
        try:
            if self._inputs_now(self._format, settled_ms=None) != self._inputs:
                return
            objects = {*withholding.kept, *_objects_of(trails)}
            held = [one.hex() for one in sorted(objects) if self._is_held(one, withholding)]
            sessions, at_rest = tuple(map(_session_of, trails)), self._at_rest(held)
            if at_rest and _is_code_that_runs():
                note = _Note(_VERSION, self._format, self._inputs, sessions, tuple(held), at_rest)
                self._write(msgspec.json.encode(note))
        except (PeriplusError, OSError):
            pass  # the import is done; the next one reads the file again

    def _is_held(self, digest: bytes, withholding: Withholding) -> bool:
        return self._project.journal.objects.has(digest) or not withholding.is_out(digest)

    def _inputs_now(self, source_format: str, *, settled_ms: int | None) -> str:
        """Return a code of all inputs of an import except the store; empty where it is unknown, or one changed after
        ``settled_ms``.
        """
        from periplus.interop.file_footprint import footprint

        found, code = footprint(self._path, source_format), importing_code()
        if found is None or not code or (settled_ms is not None and found.newest_ms > settled_ms):
            return ""
        mark = redaction_mark(self._project.root)
        parts = [_VERSION, code, self._path, self._folders, found.digest.hex(), mark]
        return self._mac(repr(parts).encode("utf-8", "surrogatepass"))

    def _standing(self, session: _Session) -> ImportedTrail | None:
        """Return the trail as an import without changes gives it; None where it has changed."""
        from periplus.project.trail_store.cards import ImportedTrail

        entity = self._project.journal.get("trail", session.id)
        if entity is None or (entity.version, entity.heads) != (session.version, session.heads):
            return None
        children = [self._standing(one) for one in session.children]
        whole = tuple(one for one in children if one is not None)
        if entity.is_in_conflict or len(whole) < len(children):
            return None
        return ImportedTrail(entity, changed=False, children=whole, withheld=session.withheld, digest=session.digest)

    def _at_rest(self, objects: Collection[str]) -> str:
        """Return a code of the files of objects; empty where one of them is missing."""
        state = hashlib.sha256()
        for name in objects:
            found = self._project.journal.objects.at_rest(bytes.fromhex(name))
            if found is None:
                return ""
            state.update(found)
        return state.hexdigest()

    def _mac(self, data: bytes) -> str:
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()

    def _read(self) -> _Note | None:
        try:
            data = read_plain(self._place, _NOTE_BYTES_MAX)
            code, body = data[:_CODE_DIGITS].decode("ascii", "replace"), data[_CODE_DIGITS:]
            if not hmac.compare_digest(code.encode(), self._mac(body).encode()):
                return None
            note = msgspec.json.decode(body, type=_Note)
        except (OSError, msgspec.MsgspecError):
            return None
        return note if note.v == _VERSION and note.inputs and note.at_rest else None

    def _write(self, body: bytes) -> None:
        folder, files = os.path.dirname(self._place), self._project.journal.files
        if len(body) >= _NOTE_BYTES_MAX - _CODE_DIGITS or os.path.islink(folder):
            return
        files.make_folder(folder)
        _make_room(folder, files)
        write_atomic(files, self._place, self._mac(body).encode() + body, durable=False)


def forget_notes(project: ProjectStore) -> None:
    """Remove all notes: the next import reads each file again. Raises EnvironmentFailure."""
    folder = os.path.join(project.root, _FOLDER)
    for name in os.listdir(folder) if os.path.isdir(folder) and not os.path.islink(folder) else ():
        _remove(os.path.join(folder, name), project.journal.files)


@cache
def importing_code() -> str:
    """Return a digest of the code that imports: our modules for it, and the Python that runs them; empty where they
    are no files.
    """
    state = hashlib.sha256(sys.version.encode())
    above = _package()
    try:
        for path in _modules():
            with open(path, "rb") as file:
                data = file.read()
            state.update(f"{len(data)} {os.path.relpath(path, above)}\n".encode())
            state.update(data)
    except OSError:
        return ""
    return state.hexdigest()


def _is_code_that_runs() -> bool:
    """Return True where none of our modules was replaced since this process loaded the first of them."""
    return max(os.stat(path).st_ctime_ns for path in _modules()) // 1_000_000 < STARTED_MS


@cache
def _modules() -> tuple[str, ...]:
    package = _package()
    own = [os.path.join(package, name) for name in _CODE_HERE]
    return (*own, *(path for name in _CODE for path in _modules_below(os.path.join(package, name))))


def _package() -> str:
    """Return the folder of the package ``periplus``."""
    return os.path.dirname(os.path.dirname(os.path.abspath(base.__file__ or "")))


def _modules_below(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(where, name) for name in sorted(names))


def _is_settled(trail: ImportedTrail) -> bool:
    return trail.is_settled and not trail.entity.is_in_conflict and all(map(_is_settled, trail.children))


def _session_of(trail: ImportedTrail) -> _Session:
    entity, children = trail.entity, tuple(map(_session_of, trail.children))
    return _Session(entity.item_id, entity.version, entity.heads, trail.digest, trail.withheld, children)


def _objects_of(trails: Sequence[ImportedTrail]) -> Iterator[bytes]:
    """Yield the objects that the journal names: of another trail than the imported one, where that was not taken."""
    for trail in trails:
        name = str(trail.entity.value.get("object", ""))
        if is_digest_text(name):
            yield bytes.fromhex(name)
        yield from _objects_of(trail.children)


def _make_room(folder: str, files: Files) -> None:
    """Remove the older half of too many notes; nothing reports that a session's file is gone."""
    names = os.listdir(folder)
    if len(names) < _NOTES_MAX:
        return
    for name in names:
        if name.endswith(TEMPORARY_SUFFIX):
            _remove(os.path.join(folder, name), files)
    notes = [os.path.join(folder, name) for name in names if not name.endswith(TEMPORARY_SUFFIX)]
    for path in sorted(notes, key=_written)[: len(notes) // 2]:
        _remove(path, files)


def _written(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _remove(path: str, files: Files) -> None:
    try:
        files.unlink(path)
    except OSError:
        pass  # gone already, or it stays: it is trusted no more than before
