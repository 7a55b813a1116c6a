"""Keeping a v1 folder and the journal the same: what somebody changed there is taken in, what changed here is written.

Rules kept here:

* the journal comes first: a file is written only for a version that the journal holds;
* a file that somebody changed is never written over: it is taken in where the journal had not moved since, else
  reported as a conflict; both stand until a person says which is to be taken, and the other one is kept aside;
* a file that is gone says nothing: it is reported, and written again when asked for (``heal``), or in ``primary``; one
  that never was here, of an entity that came from elsewhere, is written;
* what a file was when it was last seen, and which version that was, tells whose change it is (``seen.json``). A text that
  the journal had later than that one is nobody's edit; any other one is, also the one of long ago. Without ``seen.json``
  every file is read again, and held against the text that its entity was last taken in with.
"""

from __future__ import annotations

__all__ = ["Keeper", "Kept", "MigrationPlaces", "Mode", "ModeFile", "Take", "make_folder", "read_mode", "write_mode"]

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import msgspec

from periplus.base.canonical import JSONValue
from periplus.base.digests import sha256
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    NewerFormatError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.files import TEMPORARY_SUFFIX, Files, read_plain, write_atomic
from periplus.base.locks import Lock
from periplus.base.tuples import NamedTuple
from periplus.interop.v1 import FILE_BYTES_MAX, FOREIGN_PREFIX, foreign_check, render_file, type_name
from periplus.interop.v1_folder import (
    FOLDERS_DEEP_MAX,
    Finding,
    Listing,
    Stat,
    V1File,
    V1Folder,
    list_folder,
    read_folder,
)
from periplus.journal import Entity, EntityType, Journal, Transaction, Writer
from periplus.memory import TYPES
from periplus.memory.schemas import Common

Mode: TypeAlias = Literal["off", "dual", "primary"]
Take: TypeAlias = Literal["", "files", "journal"]
Key: TypeAlias = tuple[str, str]
_FORMAT: Final = 1
_STATE_BYTES_MAX: Final = 1 << 28
_BATCH: Final = 50
_BATCH_BYTES: Final = 2 << 20
_PATIENCE_S: Final = 5.0
_NAME_BYTES_MAX: Final = (
    255 - len(".") - len(".4194304.01234567") - len(TEMPORARY_SUFFIX)
)  # as it is while it is written
_GRAIN_NS: Final = 100_000_000  # how coarse the times of files may be
_OURS: Final = re.compile(rf"\..+\.\d+\.[0-9a-f]{{8}}{re.escape(TEMPORARY_SUFFIX)}")


class MigrationPlaces:
    """Where a store keeps what belongs to a migration; ``root`` is the ``.periplus`` folder."""

    def __init__(self, root: str) -> None:
        self.folder = os.path.join(root, "migration")
        self.mode = os.path.join(self.folder, "mode.json")
        self.seen = os.path.join(self.folder, "seen.json")
        self.lock = os.path.join(self.folder, "lock")
        self.archive = os.path.join(root, "archive")
        self.parked_log = os.path.join(self.archive, "v1-log")
        self.aside = os.path.join(self.archive, "v1-aside")

    def refuse_links(self) -> None:
        older = os.path.join(self.parked_log, "older")
        for path in (self.folder, self.archive, self.mode, self.seen, self.lock, self.parked_log, older, self.aside):
            if os.path.islink(path):
                raise DamageError("a symbolic link; nothing within a store is one", path=path,
                                  safe="It was not followed and nothing was changed.",
                                  mend="See where it leads and remove it.")  # fmt: skip


class ModeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """``migration/mode.json``. ``place`` is (device, inode) of ``source``: another folder under its name is not trusted.

    In the file a byte of ``source`` that is no UTF-8 is a NUL and its two hexadecimal digits, as no path has a NUL.

    ``folders`` says in which folder the files of each type lie, for those that are yet to be made.
    """

    format: int = _FORMAT
    mode: Mode = "off"
    source: str = ""
    place: tuple[int, int] = (0, 0)
    types: tuple[str, ...] = ()
    folders: dict[str, str] = {}
    genesis: dict[str, int] = {}
    backups: tuple[str, ...] = ()
    since: str = ""


class _Seen(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was when last looked at; ``version`` is the entity's that it held, empty where it held none."""

    stat: Stat
    item_type: str
    item_id: str
    version: str
    digest: str
    name: str = ""  # type and id as v1 calls them: by these another file is seen to be a duplicate
    old_id: str = ""


class _SeenFile(msgspec.Struct, frozen=True):
    source: str
    ends: dict[str, int]
    files: dict[str, _Seen]
    missing: tuple[Key, ...] = ()


class Kept(NamedTuple):
    """What one pass did; ``entities`` is how many have their place in the folder now."""

    folder: V1Folder
    entities: int
    imported: int
    taken_in: int
    written: int
    parked: int
    findings: list[Finding]


def read_mode(root: str) -> ModeFile:
    """Raises DamageError for a file that is none, NewerFormatError for one of a later Periplus."""
    places = MigrationPlaces(root)
    places.refuse_links()
    try:
        found = msgspec.json.decode(read_plain(places.mode, _STATE_BYTES_MAX), type=ModeFile)
        found = msgspec.structs.replace(found, source=_path_of(found.source))
    except FileNotFoundError:
        return ModeFile()
    except OSError as error:
        raise environment_failure(error, "read", places.mode) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise DamageError(f"not a migration's mode: {error}", path=places.mode, safe="The journal is untouched.",
                          mend="Remove that file: the mode is then off; `periplus migrate --from DIR --to dual` goes on.",
                          ) from error  # fmt: skip
    if found.format > _FORMAT:
        raise NewerFormatError(f"the migration has format {found.format}", path=places.mode,
                               safe="Nothing was changed.", mend="Update Periplus, then repeat the command.")  # fmt: skip
    return found


def write_mode(root: str, files: Files, mode: ModeFile) -> None:
    places = MigrationPlaces(root)
    make_folder(files, places.folder)
    data = msgspec.json.encode(msgspec.structs.replace(mode, source=_text_of(mode.source)))
    write_atomic(files, places.mode, msgspec.json.format(data, indent=2) + b"\n")


def _text_of(path: str) -> str:
    return re.sub("[\udc80-\udcff]", lambda found: f"\0{ord(found[0]) - 0xDC00:02x}", path)


def _path_of(text: str) -> str:
    path = re.sub("\0([89a-f][0-9a-f])", lambda found: chr(0xDC00 + int(found[1], 16)), text)
    if "\0" in path:
        raise ValueError("its source is no path")
    return path


def make_folder(files: Files, path: str) -> None:
    try:
        files.make_folder(path, 0o700)
    except OSError as error:
        raise environment_failure(error, "make", path) from error


class Keeper:
    """One v1 folder and one journal. ``types`` is the table that the journal was opened with; types are added to it."""

    def __init__(
        self, journal: Journal, types: dict[str, EntityType], mode: ModeFile, writer: Writer, *, allow_secrets: bool = False
    ) -> None:  # fmt: skip
        self.mode = mode
        self.findings: list[Finding] = []
        self.failure = ""
        self._journal = journal
        self._types = types
        self._writer = writer
        self._allow_secrets = allow_secrets
        self._places = MigrationPlaces(journal.layout.root)
        self._is_running = False
        for name in mode.types:
            self.know(name)

    def know(self, name: str) -> None:
        """Let the journal take entities of a type that we have no schema for."""

        def check(payload: dict[str, JSONValue]) -> None:
            if not self._allow_secrets:
                foreign_check(payload)

        if name.startswith(FOREIGN_PREFIX) and name not in self._types:
            self._types[name] = EntityType(name, "v1", is_projected=False, check=check)

    def after_change(self) -> None:
        """A pass where the mode asks for one. What fails is kept in ``failure``: the journal holds the change."""
        if self._is_running or self.mode.mode == "off" or self._journal.damage is not None:
            return
        try:
            self.run(heal=self.mode.mode == "primary", is_whole=False)
            self.failure = ""
        except (PeriplusError, OSError) as error:
            self.failure = str(error)

    def run(self, *, take: Take = "", heal: bool = False, is_dry: bool = False, is_whole: bool = True) -> Kept:
        """One pass over folder and journal. Raises what reading and writing raise; repeating it goes on.

        A pass with ``is_dry`` changes nothing and counts what one would do; one that is not ``is_whole`` reads only
        what changed since the last one, and reports of that alone.
        """
        if is_dry:
            return self._pass(take, is_dry=True, heal=heal, is_whole=True)
        make_folder(self._journal.files, self._places.folder)
        lock = Lock(self._places.lock)
        self._is_running = True
        try:
            with lock.holding(_PATIENCE_S):
                return self._pass(take, is_dry=False, heal=heal, is_whole=is_whole)
        finally:
            self._is_running = False
            lock.close()

    # -- a pass ------------------------------------------------------------------------------------------------------

    def _pass(self, take: Take, *, is_dry: bool, heal: bool, is_whole: bool) -> Kept:
        self.check_place()
        journal = self._journal
        journal.refresh()
        listing = list_folder(self.mode.source)
        seen = self._read_seen()
        if not is_whole and self._is_unchanged(seen, listing):
            return Kept(V1Folder({}, 0, []), len(seen.files), 0, 0, 0, 0, self.findings)
        if not is_dry:
            self._sweep(listing)
        live = self._live()
        known = {} if is_whole else self._known(seen, listing, live)
        changed = listing._replace(candidates={p: at for p, at in listing.candidates.items() if p not in known})
        folder = read_folder(
            self.mode.source, self._types, listing=changed, allow_secrets=self._allow_secrets,
            known={path: one.digest for path, one in seen.files.items() if one.version},
        )  # fmt: skip
        for name in sorted({item_type for item_type, _ in folder.files} - self._types.keys()):
            self.know(name)  # who was stopped before the mode was written may have taken in some of them
            live.update({(one.item_type, one.item_id): one for one in journal.entities(name)})
        settled = {(one.item_type, one.item_id) for one in known.values() if one.version}
        names = {(one.name, one.old_id) for one in known.values() if one.version}
        work = _Pass(folder, listing, seen, self.mode.folders, self._is_held_since)
        for key in sorted({*folder.files, *live} - settled):
            if key in folder.files and (folder.files[key].entity.name, folder.files[key].entity.old_id) in names:
                continue  # a duplicate of one that was not read again
            work.judge(key, folder.files.get(key), live.get(key), take=take, heal=heal, mode=self.mode.mode)
        if is_dry:
            gone = len(work.ours)
            writes = sum(not self._is_in_the_way(key, work) for key in work.writes)
            return work.kept(len(work.imports) - gone, len(work.edits), writes, gone)
        imported, taken = self._take_in(work, take)
        try:
            if work.writes or work.parks:  # what somebody wrote and did not live to sync is made durable first
                self._journal.mutate(lambda _: None, self._writer)
            written = sum(self._write(key, work) for key in work.writes)
            parked = sum(self._park(key, work) for key in work.parks)
        except (PeriplusError, OSError):
            with suppress(PeriplusError, OSError):  # the first error is the one to tell
                self._remember(work, listing, is_done=False)  # where one file fails, what is in the others is known
            raise
        self._remember(work, listing, is_done=written == len(work.writes) and parked == len(work.parks))
        self.findings = work.findings
        return work.kept(imported, taken, written, parked)

    def check_place(self) -> None:
        """Raises EnvironmentFailure where the folder is not there or cannot be read, UsageError where it is another one."""
        try:
            status = os.stat(self.mode.source)
        except (FileNotFoundError, NotADirectoryError) as error:
            here = shlex.quote(self.mode.source)
            to = "dual" if self.mode.mode == "off" else self.mode.mode
            raise EnvironmentFailure(
                f"the v1 folder {self.mode.source} is not there",
                safe="The journal has everything.",
                mend=f"If it is elsewhere: periplus migrate --from DIR --to {to}. If it is gone for good, make it again, empty: "
                f"mkdir {here} && periplus migrate --from {here} --to {to} --heal",
            ) from error
        except OSError as error:
            raise environment_failure(error, "read the v1 folder", self.mode.source) from error
        if (status.st_dev, status.st_ino) != self.mode.place:
            raise UsageError(
                f"{self.mode.source} is not the folder that was migrated",
                safe="Nothing in it was changed.",
                mend=f"If it is the right one: periplus migrate --from {self.mode.source} --to {self.mode.mode}",
            )

    def _is_unchanged(self, seen: _SeenFile, listing: Listing) -> bool:
        return (
            seen.ends == self._ends()
            and seen.files.keys() == listing.candidates.keys()
            and all(one.stat == listing.candidates[path] for path, one in seen.files.items())
        )

    def _ends(self) -> dict[str, int]:
        return {lineage: self._journal.end(lineage).next_seq for lineage in self._journal.lineages()}

    def _known(self, seen: _SeenFile, listing: Listing, live: Mapping[Key, Entity]) -> dict[str, _Seen]:
        """The files that are as they were, of entities that are as they were; those of no entity too."""
        return {
            path: one
            for path, one in seen.files.items()
            if one.stat == listing.candidates.get(path)
            and (not one.item_id or _version(live.get((one.item_type, one.item_id))) == one.version)
        }

    def _is_held_since(self, entity: Entity, text: bytes, version: str) -> bool:
        """Whether the journal had this text as the entity in a version that came after ``version``, as far as is known."""
        key, index = (entity.item_type, entity.item_id), self._journal.index

        def behind(heads: Iterable[str], met: set[str]) -> set[str]:
            todo, found = [one for one in heads if one not in met], set[str]()
            while todo:
                one = todo.pop()
                node = index.node(*key, one)
                if node is not None and one not in found:
                    found.add(one)
                    todo += [parent for parent in node.parents if parent not in met]
            return found

        before = behind([version], set())
        for one in behind(entity.heads, before) if before else ():
            payload = index.payload(*key, one)
            if payload and render_file(*key, entity._replace(payload=payload).value) == text:
                return True
        return False

    def _live(self) -> dict[Key, Entity]:
        """Trails are no entities of v1, nor is what has no text of its own."""
        ours = [row.name for row in TYPES if issubclass(row.schema, Common)]
        foreign = {name for name in self._types if name.startswith(FOREIGN_PREFIX)}
        names = sorted({*ours, *foreign})
        return {(one.item_type, one.item_id): one for name in names for one in self._journal.entities(name)}

    def _sweep(self, listing: Listing) -> None:
        """Our own leftovers of a write that was interrupted; whoever writes holds the lock, so nobody needs them."""
        for one in list(listing.findings):
            if one.kind == "other" and _OURS.fullmatch(os.path.basename(one.path)):
                self._journal.files.unlink(os.path.join(self.mode.source, one.path))
                listing.findings.remove(one)

    # -- into the journal --------------------------------------------------------------------------------------------

    def _take_in(self, work: _Pass, take: Take) -> tuple[int, int]:
        imported = taken = 0
        self._keep_types()
        for batch in _batches([*((key, "") for key in work.imports), *work.edits.items()], work.folder):
            done = self._take_batch(batch, work, take)
            imported += done[0]
            taken += done[1]
        if imported or taken:
            self._journal.project()
        for key in [*work.imports, *work.edits]:
            entity = self._journal.get(*key)
            file = work.folder.files[key]
            if entity is not None and render_file(*key, entity.value) == file.text.encode():
                work.settle(file.path, key, entity, file.stat, file.digest)
        return imported, taken

    def _keep_types(self) -> None:
        names = tuple(sorted(name for name in self._types if name.startswith(FOREIGN_PREFIX)))
        stored = read_mode(self._journal.layout.root)
        if stored.mode != "off" and names != stored.types:
            self.mode = msgspec.structs.replace(self.mode, types=names)
            write_mode(self._journal.layout.root, self._journal.files, msgspec.structs.replace(stored, types=names))

    def _take_batch(self, batch: list[tuple[Key, str]], work: _Pass, take: Take) -> tuple[int, int]:
        counts = [0, 0]

        def write(transaction: Transaction) -> None:
            for key, expected in batch:
                file = work.folder.files[key]
                held = transaction.get(*key)
                if held is not None and held.deleted and (key in work.ours or take == "journal"):
                    work.parks.append(key)  # the tombstone is the proof; that the entity is not listed is none
                elif held is None or (held.deleted and take == "files"):
                    transaction.put(*key, file.entity.payload, action="import", summary=f"v1: {file.path}")
                    counts[0] += 1
                elif held.deleted:
                    work.note("deleted", file.path, "deleted in the journal, changed in the folder")
                elif held.version == expected:
                    transaction.put(
                        *key, file.entity.payload, action="external_edit", summary=f"v1: {file.path} edited"
                    )
                    counts[1] += 1
                elif render_file(*key, held.value) != file.text.encode():
                    work.note("conflict", file.path, "changed in the journal while it was taken in")

        self._journal.mutate(write, self._writer, project=False)
        return counts[0], counts[1]

    # -- into the folder ---------------------------------------------------------------------------------------------

    def _write(self, key: Key, work: _Pass) -> bool:
        entity, path = work.live[key], work.writes[key]
        target = os.path.join(self.mode.source, path)
        data = render_file(*key, entity.value)
        if self._is_in_the_way(key, work):
            return False
        before = _stat_of(target)
        if key in work.asides:
            self._set_aside(path, read_plain(target, FILE_BYTES_MAX))
        _make_plain_folder(self._journal.files, os.path.dirname(target))
        mode = stat.S_IMODE(os.stat(target).st_mode) if before is not None else 0o644
        write_atomic(self._journal.files, target, data, mode=mode)
        after = _stat_of(target)
        if after is not None:
            work.settle(path, key, entity, after, sha256(data))
        return True

    def _is_in_the_way(self, key: Key, work: _Pass) -> bool:
        """Whether an entity's file may not be written; why is noted."""
        path = work.writes[key]
        file = work.folder.files.get(key)
        expected = file.stat if file is not None and file.path == path else None
        if key in work.asides:
            expected = work.stats.get(path)
        why = self._unsafe(path)
        if not why and expected != _stat_of(os.path.join(self.mode.source, path)):
            why = "something else lies there" if expected is None else "changed while it was looked at"
        if why:
            work.note("conflict", path, why)
        return bool(why)

    def _park(self, key: Key, work: _Pass) -> bool:
        """The file of an entity that the journal deleted: kept aside, then taken out of the folder."""
        file = work.folder.files[key]
        target = os.path.join(self.mode.source, file.path)
        if _stat_of(target) != file.stat:
            work.note("conflict", file.path, "changed while it was looked at")
            return False
        self._set_aside(file.path, file.text.encode())
        self._journal.files.unlink(target)  # a tombstone is the positive proof, and its bytes were kept
        return True

    def _set_aside(self, path: str, data: bytes) -> None:
        make_folder(self._journal.files, self._places.aside)
        name = f"{sha256(data).hex()[:12]}-{os.path.basename(path)}"
        write_atomic(self._journal.files, os.path.join(self._places.aside, name), data)

    def _unsafe(self, path: str) -> str:
        """Why nothing may be written at ``path``, which a record of somebody else may state; empty where it may."""
        *folders, name = parts = path.split("/")
        if (
            not name.endswith(".json") or name.startswith(".") or ".git" in folders or len(folders) > FOLDERS_DEEP_MAX
            or any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts)
        ):  # fmt: skip
            return "not a path of an entity file"
        if any(len(part.encode()) > _NAME_BYTES_MAX for part in parts):
            return "its name is too long"
        at = self.mode.source
        for part in parts:
            at = os.path.join(at, part)
            if os.path.islink(at):
                return "a link, which is not followed"
            if part is not name and os.path.lexists(at) and not os.path.isdir(at):
                return "a file lies where its folder would be"
        return ""

    # -- what was seen -----------------------------------------------------------------------------------------------

    def _read_seen(self) -> _SeenFile:
        nothing = _SeenFile(self.mode.source, {}, {})
        try:
            found = msgspec.json.decode(read_plain(self._places.seen, _STATE_BYTES_MAX), type=_SeenFile)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return nothing  # derived: every file is read again
        return found if found.source == _text_of(self.mode.source) else nothing

    def _remember(self, work: _Pass, before: Listing, *, is_done: bool) -> None:
        """``before`` is the listing from before anything was read: what changed since is looked at in the next pass."""
        self._journal.refresh()
        now_ns = self._journal.clock.now_ms() * 1_000_000
        files: dict[str, _Seen] = {}
        for path in list_folder(self.mode.source).candidates:
            one = work.settled.get(path) or work.last_of(path)
            known = one.stat if path in work.settled else before.candidates.get(path, (0, 0, 0))
            if now_ns - known[0] < _GRAIN_NS and path not in work.writes.values():
                known = (0, 0, 0)  # it may change again without its times saying so
            files[path] = msgspec.structs.replace(one, stat=known)
        there = {(one.item_type, one.item_id) for one in files.values()}
        missing = tuple(sorted(key for key in work.missing if key not in there))
        ends = self._ends() if is_done else {"": 0}  # no journal's: the next pass looks again
        data = msgspec.json.encode(_SeenFile(_text_of(self.mode.source), ends, files, missing))
        write_atomic(self._journal.files, self._places.seen, data, durable=False)


class _Pass:
    """What one pass finds out before it changes anything."""

    def __init__(
        self, folder: V1Folder, listing: Listing, seen: _SeenFile, folders: Mapping[str, str],
        is_held_since: Callable[[Entity, bytes, str], bool],
    ) -> None:  # fmt: skip
        self.folder = folder
        self.stats = listing.candidates
        self.bad = {one.path: one.kind for one in folder.findings if one.kind in ("unreadable", "refused")}
        self.seen = seen.files
        self.missing: set[Key] = set()  # whose files were here and are not
        self.imports: list[Key] = []
        self.edits: dict[Key, str] = {}  # the version that is expected to be the entity's
        self.writes: dict[Key, str] = {}
        self.parks: list[Key] = []
        self.asides: set[Key] = set()
        self.ours: set[Key] = set()  # files as they were when the journal had their entity
        self.live: dict[Key, Entity] = {}
        self.settled: dict[str, _Seen] = {}
        self.findings: list[Finding] = list(folder.findings)
        several = sorted((one for one in seen.files.values() if one.item_id), key=lambda one: bool(one.version))
        self._was_here = {(one.item_type, one.item_id): one for one in several}
        self._keys = {file.path: key for key, file in folder.files.items()}
        self._was_missing = frozenset(seen.missing)
        self._is_first = not seen.ends
        self._folders = folders
        self._is_held_since = is_held_since

    def note(self, kind: Literal["conflict", "edited", "missing", "deleted"], path: str, why: str) -> None:
        self.findings.append(Finding(kind, path, why))

    def settle(self, path: str, key: Key, entity: Entity, status: Stat, digest: bytes) -> None:
        origin = entity.value.get("v1")
        named = origin if isinstance(origin, dict) else {"type": key[0], "id": key[1]}
        name, old_id = type_name(str(named.get("type"))), str(named.get("id"))
        self.settled[path] = _Seen(status, *key, entity.version, digest.hex(), name, old_id)

    def kept(self, imported: int, taken_in: int, written: int, parked: int) -> Kept:
        count = len({(one.item_type, one.item_id) for one in self.settled.values()})
        return Kept(self.folder, count, imported, taken_in, written, parked, self.findings)

    def judge(
        self, key: Key, file: V1File | None, entity: Entity | None, *, take: Take, heal: bool, mode: Mode
    ) -> None:
        if entity is not None:
            self.live[key] = entity
        if entity is None and file is not None:
            self._judge_file(key, file)
        elif entity is not None and file is None:
            self._judge_missing(key, entity, heal=heal or take == "journal")
        elif entity is not None and file is not None:
            self._judge_both(key, file, entity, take=take, mode=mode)

    def _judge_file(self, key: Key, file: V1File) -> None:
        seen = self._last_seen(key, file)
        self.imports.append(key)  # the journal's own answer says whether it is new, deleted, or there after all
        if seen is not None and (seen.item_type, seen.item_id) == key and seen.digest == file.digest.hex():
            self.ours.add(key)

    def _judge_missing(self, key: Key, entity: Entity, *, heal: bool) -> None:
        path = self.path_of(entity)
        was_here = key in self._was_here or key in self._was_missing
        if path in self.bad:  # reported as such; what cannot be read is put right only where the journal counts
            if heal and self.bad[path] == "unreadable" and path in self.stats:
                self.writes[key] = path
                self.asides.add(key)
            elif was_here:
                self.missing.add(key)
            return
        if self._is_first and isinstance(entity.value.get("v1"), dict):
            was_here = True  # it was taken in from a folder, and nothing tells that it was another one
        if heal or not was_here:
            self.writes[key] = path
        else:
            self.note("missing", path, "the file is gone; the journal has the entity")
        if was_here:
            self.missing.add(key)  # until it is there again

    def _judge_both(self, key: Key, file: V1File, entity: Entity, *, take: Take, mode: Mode) -> None:
        wanted, text = render_file(*key, entity.value), file.text.encode()
        if wanted == text:
            self.settle(file.path, key, entity, file.stat, file.digest)
            return
        seen = self._last_seen(key, file)
        origin = entity.value.get("v1")
        base = origin.get("text") if isinstance(origin, dict) else None
        if seen is not None:
            is_known = seen.digest == file.digest.hex() or (
                seen.version != entity.version and self._is_held_since(entity, text, seen.version)
            )
            has_only_file_moved = seen.version == entity.version
        else:
            is_known = base == file.text
            has_only_file_moved = isinstance(base, str) and wanted == base.encode()
        if is_known:
            self.writes[key] = file.path  # the journal had it, and went on
        elif mode == "primary" and take != "files":
            if take == "journal":
                self.writes[key] = file.path
                self.asides.add(key)
            else:
                self.note("edited", file.path, "changed in the folder; in primary the journal counts")
        elif has_only_file_moved or take == "files":
            self.edits[key] = entity.version
        elif take == "journal":
            self.writes[key] = file.path
            self.asides.add(key)
        else:
            self.note("conflict", file.path, "changed in the folder and in the journal")

    def _last_seen(self, key: Key, file: V1File) -> _Seen | None:
        """How the entity's file was when it was last seen to hold a version, wherever it lay; None where it never was."""
        here = self.seen.get(file.path)
        found = here if here is not None and here.digest == file.digest.hex() else self._was_here.get(key)
        return found if found is not None and found.version else None

    def last_of(self, path: str) -> _Seen:
        """What is to be remembered of a file that holds no version that the journal has."""
        seen = self.seen.get(path)
        if seen is not None and seen.version:
            return seen
        if seen is not None and path not in self._keys:
            return seen
        return _Seen((0, 0, 0), *self._keys.get(path, ("", "")), "", "")

    def path_of(self, entity: Entity) -> str:
        origin = entity.value.get("v1")
        path = origin.get("path") if isinstance(origin, dict) else None
        if isinstance(path, str):
            return path
        folder = self._folders.get(entity.item_type, _plural(entity.item_type))
        return f"{folder}/{entity.item_id}.json" if folder else f"{entity.item_id}.json"


def _version(entity: Entity | None) -> str:
    return "" if entity is None else entity.version


def _plural(name: str) -> str:
    plain = name.removeprefix(FOREIGN_PREFIX)
    return f"{plain[:-1]}ies" if plain.endswith("y") else f"{plain}s"


def _batches(items: list[tuple[Key, str]], folder: V1Folder) -> Iterator[list[tuple[Key, str]]]:
    """Few enough for a mutation that keeps nobody waiting for long."""
    batch: list[tuple[Key, str]] = []
    size = 0
    for item in items:
        batch.append(item)
        size += folder.files[item[0]].stat[1]
        if len(batch) >= _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _stat_of(path: str) -> Stat | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _make_plain_folder(files: Files, path: str) -> None:
    if os.path.isdir(path):
        return
    try:
        files.make_folder(path)
    except OSError as error:
        raise EnvironmentFailure(f"cannot make {path}: {error.strerror}", safe="The journal has it.") from error
