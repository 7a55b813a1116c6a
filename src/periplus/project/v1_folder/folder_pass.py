"""Plan one pass over a v1 folder and a journal: for each entity, which side changed it and what is to be done.
Nothing is changed here.
"""

from __future__ import annotations

__all__ = ["Kept", "Mode", "Pass", "Seen", "SeenFile", "Sides", "Take"]

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from periplus.base.named_tuple import NamedTuple
from periplus.interop.version1.documents import FOREIGN_PREFIX, Key, type_name
from periplus.interop.version1.folder import Finding, Listing, Stat, V1File, V1Folder
from periplus.journal import Entity

Mode: TypeAlias = Literal["off", "dual", "primary"]
Take: TypeAlias = Literal["", "files", "journal"]


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A file at its last look; ``version`` is that of the entity in it, empty for none."""

    stat: Stat
    item_type: str
    item_id: str
    version: str
    digest: str
    name: str = ""  # type and id in v1, by which another file is recognised as a duplicate
    old_id: str = ""


class SeenFile(msgspec.Struct, frozen=True):
    source: str
    ends: dict[str, int]
    files: dict[str, Seen]
    missing: tuple[Key, ...] = ()


class Kept(NamedTuple):
    """The result of one pass; ``entities`` counts those with a place in the folder now."""

    folder: V1Folder
    entities: int
    imported: int
    taken_in: int
    written: int
    parked: int
    findings: list[Finding]
    history: int = 0  # earlier versions from a journal of segments


class Sides(Protocol):
    """Queries of a pass about both sides: the present content of an entity's file, its version, and its former
    content.
    """

    def version_of(self, entity: Entity | None) -> str: ...

    def render(self, entity: Entity) -> bytes: ...

    def is_held_since(self, entity: Entity, text: bytes, version: str) -> bool: ...


class Pass:
    """The findings of one pass before it changes anything."""

    def __init__(
        self, folder: V1Folder, listing: Listing, seen: SeenFile, folders: Mapping[str, str],
        sides: Sides,
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
        self.converted: dict[Key, Key] = {}  # entities that are imported again, with what they were imported as before
        self.asides: set[Key] = set()
        self.ours: set[Key] = set()  # files as they were when the journal had their entity
        self.live: dict[Key, Entity] = {}
        self.settled: dict[str, Seen] = {}
        self.findings: list[Finding] = list(folder.findings)
        several = sorted((one for one in seen.files.values() if one.item_id), key=lambda one: bool(one.version))
        self._was_here = {(one.item_type, one.item_id): one for one in several}
        self._keys = {file.path: key for key, file in folder.files.items()}
        self._was_missing = frozenset(seen.missing)
        self._is_first = not seen.ends
        self._folders = folders
        self._sides = sides

    def note(self, kind: Literal["conflict", "edited", "missing", "deleted"], path: str, why: str) -> None:
        self.findings.append(Finding(kind, path, why))

    def settle(self, path: str, key: Key, entity: Entity, status: Stat, digest: bytes) -> None:
        origin = entity.value.get("v1")
        named = origin if isinstance(origin, dict) else {"type": key[0], "id": key[1]}
        name, old_id = type_name(str(named.get("type"))), str(named.get("id"))
        self.settled[path] = Seen(status, *key, self._sides.version_of(entity), digest.hex(), name, old_id)

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
        self.imports.append(key)  # the journal itself says whether it is new, deleted, or there after all
        if seen is not None and (seen.item_type, seen.item_id) == key and seen.digest == file.digest.hex():
            self.ours.add(key)

    def _judge_missing(self, key: Key, entity: Entity, *, heal: bool) -> None:
        path = self.path_of(entity)
        was_here = key in self._was_here or key in self._was_missing
        if path in self.bad:  # reported as such; an unreadable file is corrected only where the journal counts
            if heal and self.bad[path] == "unreadable" and path in self.stats:
                self.writes[key] = path
                self.asides.add(key)
            elif was_here:
                self.missing.add(key)
            return
        if self._is_first and isinstance(entity.value.get("v1"), dict):
            was_here = True  # it was imported from a folder, and nothing says that it was another one
        if heal or not was_here:
            self.writes[key] = path
        else:
            self.note("missing", path, "the file is gone; the journal has the entity")
        if was_here:
            self.missing.add(key)  # until it is there again

    def _judge_both(self, key: Key, file: V1File, entity: Entity, *, take: Take, mode: Mode) -> None:
        wanted, text, version = self._sides.render(entity), file.text.encode(), self._sides.version_of(entity)
        if wanted == text:
            self.settle(file.path, key, entity, file.stat, file.digest)
            return
        seen = self._last_seen(key, file)
        origin = entity.value.get("v1")
        base = origin.get("text") if isinstance(origin, dict) else None
        if seen is not None:
            is_known = seen.digest == file.digest.hex() or (
                seen.version != version and self._sides.is_held_since(entity, text, seen.version)
            )
            has_only_file_moved = seen.version == version
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
            self.edits[key] = version
        elif take == "journal":
            self.writes[key] = file.path
            self.asides.add(key)
        else:
            self.note("conflict", file.path, "changed in the folder and in the journal")

    def _last_seen(self, key: Key, file: V1File) -> Seen | None:
        """Return the entity's file as it was when it last held a version, at any path; None where it never did."""
        here = self.seen.get(file.path)
        found = here if here is not None and here.digest == file.digest.hex() else self._was_here.get(key)
        return found if found is not None and found.version else None

    def last_of(self, path: str) -> Seen:
        """Return what to remember of a file without a version that the journal has."""
        seen = self.seen.get(path)
        if seen is not None and seen.version:
            return seen
        if seen is not None and path not in self._keys:
            return seen
        return Seen((0, 0, 0), *self._keys.get(path, ("", "")), "", "")

    def path_of(self, entity: Entity) -> str:
        origin = entity.value.get("v1")
        path = origin.get("path") if isinstance(origin, dict) else None
        if isinstance(path, str):
            return path
        folder = self._folders.get(entity.item_type, _plural(entity.item_type))
        return f"{folder}/{entity.item_id}.json" if folder else f"{entity.item_id}.json"


def _plural(name: str) -> str:
    plain = name.removeprefix(FOREIGN_PREFIX)
    return f"{plain[:-1]}ies" if plain.endswith("y") else f"{plain}s"
