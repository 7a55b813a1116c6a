"""Keep a v1 folder and the journal the same: changes there are imported, changes here are written.

Rules kept here:

* the journal comes first: a file is written only for a version that the journal holds;
* the steps of a plan that came from a file stand in that file: plan and steps are compared, imported and written as one;
* a file that somebody changed is never overwritten: it is imported where the journal had not changed since, else reported as
  a conflict; both stay until a person decides which is taken, and the other one is kept aside;
* a missing file says nothing: it is reported, and written again when asked for (``heal``), or in ``primary``; one that never
  was here, of an entity that came from elsewhere, is written;
* the last seen state of a file, and its version, tell which side changed (``seen.json``). A text that the journal had later
  than that version is nobody's edit; any other one is, also an old one. Without ``seen.json`` every file is read again, and
  compared with the text that its entity was last imported with.
"""

from __future__ import annotations

__all__ = ["Keeper", "Kept", "MigrationPlaces", "Mode", "ModeFile", "Take", "make_folder", "read_mode", "write_mode"]

import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from periplus.base.encoding.canonical import JSONValue
from periplus.base.encoding.digests import sha256
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    NewerFormatError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.files import TEMPORARY_SUFFIX, Files, read_plain, write_atomic
from periplus.base.process.locks import Lock
from periplus.interop.version1.documents import (
    FILE_BYTES_MAX,
    FOREIGN_PREFIX,
    Key,
    foreign_check,
    has_parts,
    part_ids,
    render_file,
)
from periplus.interop.version1.folder import (
    FOLDERS_DEEP_MAX,
    Finding,
    Listing,
    Stat,
    V1File,
    V1Folder,
    list_folder,
    read_as,
    read_folder,
    read_history,
)
from periplus.journal import Entity, EntityType, Journal, Transaction, Writer
from periplus.memory import TYPES
from periplus.memory.entities.schemas import Common, Step
from periplus.memory.entities.types import DISPATCHED
from periplus.memory.fulltext.links import linked
from periplus.project.v1_folder.folder_history import Ended, History, Version
from periplus.project.v1_folder.folder_pass import Kept, Mode, Pass, Seen, SeenFile, Take

_FORMAT: Final = 1
_STATE_BYTES_MAX: Final = 1 << 28
_BATCH: Final = 50
_BATCH_BYTES: Final = 2 << 20
_PATIENCE_S: Final = 5.0
_NAME_BYTES_MAX: Final = (
    255 - len(".") - len(".4194304.01234567") - len(TEMPORARY_SUFFIX)
)  # as it is while it is written
_GRAIN_NS: Final = 100_000_000  # granularity of file times
_OURS: Final = re.compile(rf"\..+\.\d+\.[0-9a-f]{{8}}{re.escape(TEMPORARY_SUFFIX)}")


class MigrationPlaces:
    """The paths of a migration in a store; ``root`` is the ``.periplus`` folder."""

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
    """``migration/mode.json``. ``place`` is (device, inode) of ``source``: another folder under its name is not
    trusted. In the file a byte of ``source`` that is not UTF-8 is a NUL and its two hexadecimal digits, as no path
    has a NUL. ``folders`` says in which folder the files of each type lie, for those that are yet to be made.
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


def read_mode(root: str) -> ModeFile:
    """Read the mode of a store. Raises DamageError for an invalid file, NewerFormatError for one of a later Periplus."""
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
        raise DamageError(f"not a migration mode: {error}", path=places.mode, safe="The journal is untouched.",
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
        self._parts: dict[str, dict[str, Entity]] = {}  # of each plan that came from a file, its steps
        self._apart: frozenset[str] = frozenset()  # steps that have files of their own
        self._history = History({}, types)
        self._history_count = 0
        for name in mode.types:
            self.know(name)

    def know(self, name: str) -> None:
        """Let the journal take entities of a type without a schema."""

        def check(payload: dict[str, JSONValue]) -> None:
            if not self._allow_secrets:
                foreign_check(payload)

        if name.startswith(FOREIGN_PREFIX) and name not in self._types:
            self._types[name] = EntityType(name, "v1", is_projected=False, check=check)

    def after_change(self) -> None:
        """Run a pass where the mode asks for one. An error is kept in ``failure``: the journal holds the change."""
        if self._is_running or self.mode.mode == "off" or self._journal.damage is not None:
            return
        try:
            self.run(heal=self.mode.mode == "primary", is_whole=False)
            self.failure = ""
        except (PeriplusError, OSError) as error:
            self.failure = str(error)

    def run(self, *, take: Take = "", heal: bool = False, is_dry: bool = False, is_whole: bool = True) -> Kept:
        """Run one pass over folder and journal. Raises what reading and writing raise; repeating it continues.

        A pass with ``is_dry`` changes nothing and counts what one would do; one that is not ``is_whole`` reads only
        what changed since the last one, and reports on that alone.
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
        self._apart = frozenset(one.item_id for one in seen.files.values() if one.item_type == "step")
        live = self._live()
        known = {} if is_whole else self._known(seen, listing, live)
        changed = listing._replace(candidates={p: at for p, at in listing.candidates.items() if p not in known})
        folder = read_folder(
            self.mode.source, self._types, listing=changed, allow_secrets=self._allow_secrets,
            known={path: one.digest for path, one in seen.files.items() if one.version},
            names=_labels(live), now_ms=journal.clock.now_ms(),
            present={key[1] for key in live}.union(*self._parts.values()),
        )  # fmt: skip
        for name in sorted(
            {*self._kept_whole(folder), *(item_type for item_type, _ in folder.files)} - self._types.keys()
        ):
            self.know(name)  # a run that was stopped before the mode was written may have imported some of them
            live.update({(one.item_type, one.item_id): one for one in journal.entities(name)})
        folder, converted = self._as_before(folder, live)
        settled = {(one.item_type, one.item_id) for one in known.values() if one.version}
        names = {(one.name, one.old_id) for one in known.values() if one.version}
        work = Pass(folder, listing, seen, self.mode.folders, self)
        work.converted = converted
        for key in sorted({*folder.files, *live} - settled):
            if key in folder.files and (folder.files[key].entity.name, folder.files[key].entity.old_id) in names:
                continue  # a duplicate of one that was not read again
            work.judge(key, folder.files.get(key), live.get(key), take=take, heal=heal, mode=self.mode.mode)
        if is_dry:
            gone = len(work.ours)
            writes = sum(not self._is_in_the_way(key, work) for key in work.writes)
            return work.kept(len(work.imports) - gone, len(work.edits), writes, gone)
        told = read_history(self.mode.source, listing.logs) if is_whole and not self.mode.genesis else {}
        self._history = History(told, self._types)
        self._history_count = 0
        imported, taken = self._take_in(work, take)
        self._take_deleted(folder)
        try:
            if work.writes or work.parks:  # make durable first what an interrupted writer did not sync
                self._journal.mutate(lambda _: None, self._writer)
            written = sum(self._write(key, work) for key in work.writes)
            parked = sum(self._park(key, work) for key in work.parks)
        except (PeriplusError, OSError):
            with suppress(PeriplusError, OSError):  # report the first error
                self._remember(work, listing, is_done=False)  # where one file fails, the others are known
            raise
        self._remember(work, listing, is_done=written == len(work.writes) and parked == len(work.parks))
        self.findings = work.findings
        return work.kept(imported, taken, written, parked)._replace(history=self._history_count)

    def check_place(self) -> None:
        """Raise EnvironmentFailure where the folder is missing or cannot be read, UsageError where it is another one."""
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

    def _is_unchanged(self, seen: SeenFile, listing: Listing) -> bool:
        return (
            seen.ends == self._ends()
            and seen.files.keys() == listing.candidates.keys()
            and all(one.stat == listing.candidates[path] for path, one in seen.files.items())
        )

    def _ends(self) -> dict[str, int]:
        return {lineage: self._journal.end(lineage).next_seq for lineage in self._journal.lineages()}

    def _known(self, seen: SeenFile, listing: Listing, live: Mapping[Key, Entity]) -> dict[str, Seen]:
        """Return the unchanged files of unchanged entities, and those of no entity."""
        return {
            path: one
            for path, one in seen.files.items()
            if one.stat == listing.candidates.get(path)
            and (not one.item_id or self.version_of(live.get((one.item_type, one.item_id))) == one.version)
        }

    def version_of(self, entity: Entity | None) -> str:
        """Return the version of the content of an entity's file: its own, and those of its steps."""
        if entity is None:
            return ""
        parts = self._parts.get(entity.item_id) if entity.item_type == "plan" else None
        if not parts:
            return entity.version
        steps = "".join(f"{one.item_id}{one.version}" for one in parts.values())
        return f"{entity.version}+{sha256(steps.encode()).hex()[:16]}"

    def render(self, entity: Entity) -> bytes:
        """Return the file of an entity as the journal has it."""
        key = (entity.item_type, entity.item_id)
        if not has_parts(entity.item_type, entity.value):
            return render_file(*key, entity.value)
        live = self._parts.get(entity.item_id, {})
        held: dict[str, Mapping[str, JSONValue] | None] = {one: step.value for one, step in live.items()}
        for item_id in part_ids(entity.item_id, entity.value):
            if item_id not in held and self._is_deleted(("step", item_id)):
                held[item_id] = None
        return render_file(*key, entity.value, held)

    def _is_deleted(self, key: Key) -> bool:
        return key in self._journal.ids_with_prefix(key[1]) and self._journal.get(*key) is None

    def is_held_since(self, entity: Entity, text: bytes, version: str) -> bool:
        """Return True where the journal had this text as the entity in a version after ``version``, as far as is
        known.
        """
        version = version.partition("+")[0]
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
            if payload and self.render(entity._replace(payload=payload)) == text:
                return True
        return False

    def _live(self) -> dict[Key, Entity]:
        """Return the entities that have a file. Trails and dispatched work have none in v1, nor has an entity without a text
        of its own, unless it came from a file. Steps in a plan's file are listed with it.
        """
        ours = [
            row.name
            for row in TYPES
            if issubclass(row.schema, Common) and row.schema is not Step and row.name not in DISPATCHED
        ]
        foreign = {name for name in self._types if name.startswith(FOREIGN_PREFIX)}
        live = {
            (one.item_type, one.item_id): one
            for name in sorted({*ours, *foreign})
            for one in self._journal.entities(name)
        }
        for name in ("candidate", "message"):
            found = self._journal.entities(name)
            live |= {(name, one.item_id): one for one in found if isinstance(one.value.get("v1"), dict)}
        self._parts = {
            item_id: {} for (name, item_id), one in live.items() if name == "plan" and has_parts(name, one.value)
        }
        for step in self._journal.entities("step"):
            plan = str(step.value.get("plan", ""))
            if self._stands_in_plan(step, plan in self._parts):
                self._parts.setdefault(plan, {})[step.item_id] = step
            else:
                live["step", step.item_id] = step
        return live

    def _stands_in_plan(self, step: Entity, is_of_file: bool) -> bool:  # noqa: FBT001 - inner
        origin = step.value.get("v1")
        if isinstance(origin, dict):
            return "text" not in origin
        return is_of_file and step.item_id not in self._apart

    def _look_at_steps(self, plan: Entity) -> None:
        found = linked(self._journal, "step", "plan", plan.item_id)
        if has_parts("plan", plan.value):
            self._parts[plan.item_id] = {one.item_id: one for one in found if self._stands_in_plan(one, True)}

    def _kept_whole(self, folder: V1Folder) -> set[str]:
        """Return unknown types of which an earlier version imported files and was interrupted."""
        found: set[str] = set()
        for file in folder.files.values():
            for key in file.entity.before:
                if key[0] not in self._types and key[0] not in found and key in self._journal.ids_with_prefix(key[1]):
                    found.add(key[0])
        return found

    def _as_before(self, folder: V1Folder, live: dict[Key, Entity]) -> tuple[V1Folder, dict[Key, Key]]:
        """Return files that an earlier version imported as something else, with what they become and were. Where
        neither side changed since they are converted. Where one did, the file is read as before, until both are
        the same again.
        """
        files = dict(folder.files)
        converted: dict[Key, Key] = {}
        for key, file in folder.files.items():
            was = next((one for one in file.entity.before if one in live), None)
            if was is None or key in live:
                continue
            origin = live[was].value.get("v1")
            is_same = isinstance(origin, dict) and origin.get("path") == file.path
            is_same = is_same and self.render(live[was]) == file.text.encode()
            if is_same and was[0].startswith(FOREIGN_PREFIX) and not self._is_deleted(key):
                converted[key] = was
                del live[was]
            else:
                read = read_as(file, self._types, was[0])
                if (read.entity.item_type, read.entity.item_id) == was:
                    del files[key]
                    files[was] = read
        return folder._replace(files=files), converted

    def _sweep(self, listing: Listing) -> None:
        """Remove our own leftovers of an interrupted write; every writer holds the lock, so nobody needs them."""
        for one in list(listing.findings):
            if one.kind == "other" and _OURS.fullmatch(os.path.basename(one.path)):
                self._journal.files.unlink(os.path.join(self.mode.source, one.path))
                listing.findings.remove(one)

    # -- into the journal --------------------------------------------------------------------------------------------

    def _take_in(self, work: Pass, take: Take) -> tuple[int, int]:
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
            if entity is not None and entity.item_type == "plan":
                self._look_at_steps(entity)
            if entity is not None and self.render(entity) == file.text.encode():
                work.settle(file.path, key, entity, file.stat, file.digest)
        return imported, taken

    def _keep_types(self) -> None:
        names = tuple(sorted(name for name in self._types if name.startswith(FOREIGN_PREFIX)))
        stored = read_mode(self._journal.layout.root)
        if stored.mode != "off" and names != stored.types:
            self.mode = msgspec.structs.replace(self.mode, types=names)
            write_mode(self._journal.layout.root, self._journal.files, msgspec.structs.replace(stored, types=names))

    def _take_batch(self, batch: list[tuple[Key, str]], work: Pass, take: Take) -> tuple[int, int]:
        counts = [0, 0]

        def write(transaction: Transaction) -> None:
            for key, expected in batch:
                file = work.folder.files[key]
                held = transaction.get(*key)
                if held is not None and held.deleted and (key in work.ours or take == "journal"):
                    work.parks.append(key)  # the tombstone is the proof; a missing entity is none
                elif held is None or (held.deleted and take == "files"):
                    if self._put(transaction, key, file, "import", take=take, was=work.converted.get(key)):
                        counts[0] += 1
                    else:
                        work.note("conflict", file.path, "changed in the journal while it was taken in")
                elif held.deleted:
                    work.note("deleted", file.path, "deleted in the journal, changed in the folder")
                elif self._version_in(transaction, held) == expected:
                    self._put(transaction, key, file, "external_edit", take=take)
                    counts[1] += 1
                elif self.render(held) != file.text.encode():
                    work.note("conflict", file.path, "changed in the journal while it was taken in")

        self._journal.mutate(write, self._writer, project=False)
        return counts[0], counts[1]

    def _version_in(self, transaction: Transaction, held: Entity) -> str:
        if held.item_type == "plan":
            self._look_at_steps(held)
        return self.version_of(transaction.get(held.item_type, held.item_id))

    def _put(
        self, transaction: Transaction, key: Key, file: V1File, action: str, *, take: Take, was: Key | None = None
    ) -> bool:  # fmt: skip
        """Write the content of a file: its entity with the steps in it. Steps that are no longer in it are deleted.
        False where what it ``was`` is gone, or has changed by now.
        """
        summary = f"v1: {file.path}" if action == "import" else f"v1: {file.path} edited"
        if was is not None:
            before = transaction.get(*was)
            if before is None or before.deleted or self.render(before) != file.text.encode():
                return False
            transaction.delete(*was, summary=f"v1: {file.path} is now {key[1]}")
        elif action == "import" and transaction.get(*key) is None:
            self._put_history(transaction, key, self._history.before(file))
        transaction.put(*key, file.entity.payload, action=action, summary=summary)
        for part in file.entity.parts:
            held = transaction.get("step", part.item_id)
            if part.item_id in self._apart or (held is not None and held.value.get("plan", key[1]) != key[1]):
                continue  # it has a file of its own, or stands in that of another plan
            if (
                held is None
                or (held.deleted and action == "external_edit")
                or (not held.deleted and held.value != part.payload)
            ):
                transaction.put("step", part.item_id, part.payload, action=action, summary=summary)
        if action == "external_edit" and take != "files":
            named = {part.item_id for part in file.entity.parts}
            for item_id in sorted(self._parts.get(key[1], {}).keys() - named):
                transaction.delete("step", item_id, summary=f"v1: not in {file.path} any more")
        return True

    def _take_deleted(self, folder: V1Folder) -> None:
        """Delete here what the history says was deleted; the last content is kept."""
        ended = self._history.ended(folder)
        for start in range(0, len(ended), _BATCH):
            batch = ended[start : start + _BATCH]

            def write(transaction: Transaction, batch: list[Ended] = batch) -> None:
                for one in batch:
                    if transaction.get(*one.key) is None:
                        self._put_history(transaction, one.key, one.versions)
                        transaction.delete(*one.key, summary=one.summary)

            self._journal.mutate(write, self._writer, project=False)
        if ended:
            self._journal.project()

    def _put_history(self, transaction: Transaction, key: Key, versions: list[Version]) -> None:
        for version in versions:
            transaction.put(*key, version.payload, action="import", summary=version.summary)
            self._history_count += 1

    # -- into the folder ---------------------------------------------------------------------------------------------

    def _write(self, key: Key, work: Pass) -> bool:
        entity, path = work.live[key], work.writes[key]
        target = os.path.join(self.mode.source, path)
        data = self.render(entity)
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

    def _is_in_the_way(self, key: Key, work: Pass) -> bool:
        """Return True where an entity's file may not be written; the reason is noted."""
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

    def _park(self, key: Key, work: Pass) -> bool:
        """Keep the file of a deleted entity aside, then take it out of the folder."""
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
        """Return why nothing may be written at ``path``, which somebody else's record may name; empty where it may."""
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

    def _read_seen(self) -> SeenFile:
        nothing = SeenFile(self.mode.source, {}, {})
        try:
            found = msgspec.json.decode(read_plain(self._places.seen, _STATE_BYTES_MAX), type=SeenFile)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return nothing  # derived: every file is read again
        return found if found.source == _text_of(self.mode.source) else nothing

    def _remember(self, work: Pass, before: Listing, *, is_done: bool) -> None:
        """Write ``seen.json``. ``before`` is the listing from before anything was read: the next pass reads what
        changed since.
        """
        self._journal.refresh()
        now_ns = self._journal.clock.now_ms() * 1_000_000
        files: dict[str, Seen] = {}
        for path in list_folder(self.mode.source).candidates:
            one = work.settled.get(path) or work.last_of(path)
            known = one.stat if path in work.settled else before.candidates.get(path, (0, 0, 0))
            if now_ns - known[0] < _GRAIN_NS and path not in work.writes.values():
                known = (0, 0, 0)  # it may change again without a change of its times
            files[path] = msgspec.structs.replace(one, stat=known)
        there = {(one.item_type, one.item_id) for one in files.values()}
        missing = tuple(sorted(key for key in work.missing if key not in there))
        ends = self._ends() if is_done else {"": 0}  # no journal's: the next pass looks again
        data = msgspec.json.encode(SeenFile(_text_of(self.mode.source), ends, files, missing))
        write_atomic(self._journal.files, self._places.seen, data, durable=False)


def _labels(live: Mapping[Key, Entity]) -> dict[str, str]:
    """Return the labels of imported entities with their ids."""
    found: dict[str, str] = {}
    for key in sorted(live, reverse=True):
        origin = live[key].value.get("v1")
        label = origin.get("label") if isinstance(origin, dict) else None
        if isinstance(label, str):
            found[label] = key[1]
    return found


def _batches(items: list[tuple[Key, str]], folder: V1Folder) -> Iterator[list[tuple[Key, str]]]:
    """Split into batches that hold the lock only for a short time."""
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
