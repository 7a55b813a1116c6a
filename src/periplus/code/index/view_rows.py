"""The files of one worktree in the index: what is in it, and what a listing says has changed."""

from __future__ import annotations

__all__ = ["Change", "ViewRows"]

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from periplus.code.index.database import Database, joined_path, stored_path
from periplus.code.index.parsing import extractor_version
from periplus.code.languages.registry import language_key, row_keyed
from periplus.code.languages.table import Language
from periplus.code.listing import IndexState, Listing, Stamp

_KNOWN: Final = "known"
_WAITING: Final = "waiting"
_GONE: Final = "gone"
_DIRTY: Final = "SELECT f.path, e.name, e.oid, e.stamp, e.state, e.blob FROM entry e JOIN folder f ON f.id = e.folder WHERE e.view = ?"


class Change(NamedTuple):
    """The new state of one file. ``oid`` is git's for a tracked file; ``stamp`` that of one that differs or is untracked; ``is_gone`` for
    one that is tracked and not there.
    """

    path: str
    oid: bytes
    stamp: str | None
    is_gone: bool = False


class _Entry(NamedTuple):
    oid: bytes | None
    stamp: str | None
    state: str
    blob: int | None


class ViewRows:
    """The view of the worktree ``root``. Methods that change it need the transaction of the caller."""

    def __init__(self, database: Database, root: str) -> None:
        self._database = database
        self.root = root
        self.id = -1
        self.indexes: tuple[IndexState, ...] = ()
        self.extractors: dict[str, str] = {}
        self.generation = 0
        self.looked_ms = 0
        self.why = ""
        self._has_graph = False
        self._folders: dict[str, int] = {}
        self.load()

    def load(self) -> None:
        found = self._database.execute(
            "SELECT id, stamp, generation, looked_ms, why, graph != '' FROM view WHERE root = ?",
            (stored_path(self.root),),
        ).fetchone()
        if found is None:
            return
        self.id, stamp, self.generation, self.looked_ms, self.why, self._has_graph = found
        known = msgspec.json.decode(stamp, type=tuple[list[_Index], dict[str, str]])
        self.indexes = tuple(IndexState(*one) for one in known[0])
        self.extractors = known[1]

    # -- what changed --------------------------------------------------------------------------------------------------

    def changes(self, listing: Listing) -> tuple[list[Change], list[str]]:
        """Return the files that are new or changed, and the paths of those that are no longer in the worktree."""
        if listing.base is None:
            return self._dirty_changes(listing.dirty)
        known = self._entries(_DIRTY)
        changed: list[Change] = []
        for path, hexadecimal in listing.base.items():
            entry = known.pop(path, None)
            oid = bytes.fromhex(hexadecimal)
            if path in listing.dirty:
                changed += self._dirty_change(path, oid, listing.dirty[path], entry)
            elif entry is None or entry.oid != oid or entry.stamp is not None or entry.state == _GONE:
                changed.append(Change(path, oid, None))
        for path, stamp in listing.dirty.items():
            if path not in listing.base and stamp is not None:
                changed += self._dirty_change(path, b"", stamp, known.pop(path, None))
        return changed, list(known)

    def _dirty_changes(self, dirty: Mapping[str, Stamp | None]) -> tuple[list[Change], list[str]]:
        known = self._entries(f"{_DIRTY} AND (e.stamp IS NOT NULL OR e.state = 'gone')")
        changed: list[Change] = []
        for path, stamp in dirty.items():
            entry = known.pop(path, None) or self.entry(path)
            changed += self._dirty_change(path, entry.oid or b"" if entry is not None else b"", stamp, entry)
        gone: list[str] = []
        for path, entry in known.items():
            if entry.oid:
                changed.append(Change(path, entry.oid, None))
            else:
                gone.append(path)
        return changed, gone

    @staticmethod
    def _dirty_change(path: str, oid: bytes, stamp: Stamp | None, entry: _Entry | None) -> list[Change]:
        if stamp is None:
            is_new = entry is not None and entry.state != _GONE
            return [Change(path, oid, None, is_gone=True)] if oid and (is_new or entry is None) else []
        text = ",".join(map(str, stamp))
        if entry is not None and entry.stamp == text and entry.state != _GONE:
            return []
        return [Change(path, oid, text)]

    def entry(self, path: str) -> _Entry | None:
        folder, _, name = path.rpartition("/")
        found = self._database.execute(
            "SELECT oid, stamp, state, blob FROM entry WHERE view = ? AND name = ? AND folder ="
            " (SELECT id FROM folder WHERE view = ? AND path = ?)",
            (self.id, stored_path(name), self.id, stored_path(folder)),
        ).fetchone()
        return _Entry(*found) if found is not None else None

    def _entries(self, query: str) -> dict[str, _Entry]:
        return {
            joined_path(folder, name): _Entry(*rest)
            for folder, name, *rest in self._database.execute(query, (self.id,))
        }

    def outdated_languages(self) -> list[str]:
        """Return the languages whose parser has changed since the view was written."""
        found: list[str] = []
        for key, version in self.extractors.items():
            row = row_keyed(key)
            if row is None or extractor_version(row) != version:
                found.append(key)
        return found

    # -- writing -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the view, if it is new, and take in what others wrote since it was loaded."""
        self.load()
        if self.id < 0:
            number = self._database.execute(
                "INSERT INTO view (root, kind, stamp, generation, looked_ms, why) VALUES (?, '', '[[],{}]', 0, 0, '')",
                (stored_path(self.root),),
            ).lastrowid
            assert number is not None
            self.id = number

    def put(self, path: str, change: Change, state: str, blob: int | None) -> None:
        folder, _, name = path.rpartition("/")
        self._touch(path)
        self._database.execute(
            "INSERT OR REPLACE INTO entry (view, folder, name, oid, stamp, state, blob) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self.id, self._folder(folder), stored_path(name), change.oid or None, change.stamp, state, blob),
        )

    def parsed(self, path: str, state: str, blob: int | None, stamp: str | None) -> None:
        """Note the blob of a file that waited, and the stamp that it had then."""
        folder, _, name = path.rpartition("/")
        self._touch(path)
        self._database.execute(
            "UPDATE entry SET state = ?, blob = ?, stamp = ? WHERE view = ? AND folder = ? AND name = ?"
            " AND state IN ('waiting', 'waiting_own')",
            (state, blob, stamp, self.id, self._folder(folder), stored_path(name)),
        )

    def remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            folder, _, name = path.rpartition("/")
            self._touch(path)
            self._database.execute(
                "DELETE FROM entry WHERE view = ? AND folder = ? AND name = ?",
                (self.id, self._folder(folder), stored_path(name)),
            )

    def reparse(self, languages: Sequence[str]) -> None:
        """Have all files of ``languages`` wait for their parser."""
        for key in languages:
            if self._has_graph:
                self._database.execute(
                    "INSERT OR IGNORE INTO touched SELECT view, folder, name, 1 FROM entry WHERE view = ? AND blob IN"
                    " (SELECT id FROM blob WHERE language = ?)",
                    (self.id, key),
                )
            self._database.execute(
                "UPDATE entry SET state = (SELECT iif(extractor LIKE '%+own', 'waiting_own', 'waiting') FROM blob WHERE id = entry.blob),"
                " blob = NULL WHERE view = ? AND blob IN (SELECT id FROM blob WHERE language = ?)",
                (self.id, key),
            )
            row = row_keyed(key)
            if row is None:
                self.extractors.pop(key)
            else:
                self.extractors[key] = extractor_version(row)

    def finish(self, listing: Listing, now_ms: int, *, is_changed: bool) -> None:
        self.indexes = listing.indexes
        self.generation += is_changed
        self.looked_ms = now_ms
        self.why = listing.why
        stamp = msgspec.json.encode(([list(one) for one in self.indexes], self.extractors)).decode()
        self._database.execute(
            "UPDATE view SET kind = ?, stamp = ?, generation = ?, looked_ms = ?, why = ? WHERE id = ?",
            (listing.kind, stamp, self.generation, now_ms, listing.why, self.id),
        )

    def paths_named(self, name: str) -> list[str]:
        """Return the paths of the files called ``name``."""
        rows = self._database.execute(
            "SELECT f.path, e.name FROM entry e JOIN folder f ON f.id = e.folder WHERE e.view = ? AND e.name = ? AND e.state != 'gone'",
            (self.id, name),
        )
        return sorted(joined_path(folder, found) for folder, found in rows)

    def with_all(self, changed: Sequence[Change], gone: Sequence[str]) -> list[Change]:
        """Return ``changed`` and, unchanged, all other files that are there."""
        known = {change.path for change in changed} | set(gone)
        rest = [
            Change(path, entry.oid or b"", entry.stamp.rstrip("?") if entry.stamp else None)
            for path, entry in self._entries(_DIRTY).items()
            if path not in known and entry.state != _GONE
        ]
        return [*changed, *rest]

    def waiting(self) -> list[tuple[str, str | None, bool]]:
        """Return path and stamp of the files that wait to be parsed, those that somebody edits first, and whether the project says that a
        file is not generated.
        """
        rows = self._database.execute(
            "SELECT f.path, e.name, e.stamp, e.state FROM entry e JOIN folder f ON f.id = e.folder"
            " WHERE e.view = ? AND e.state IN ('waiting', 'waiting_own') ORDER BY e.stamp IS NULL, f.path, e.name", (self.id,)
        )  # fmt: skip
        return [(joined_path(folder, name), stamp, state == "waiting_own") for folder, name, stamp, state in rows]

    def waiting_count(self) -> int:
        found: int = self._database.execute(
            "SELECT count(*) FROM entry WHERE view = ? AND state IN ('waiting', 'waiting_own')", (self.id,)
        ).fetchone()[0]
        return found

    def note_language(self, row: Language) -> None:
        """Note the parser of a language that the view has files of."""
        self.extractors.setdefault(language_key(row), extractor_version(row))

    def _touch(self, path: str) -> None:
        """Note that a file changes, for the graph."""
        if not self._has_graph:
            return
        folder, _, name = path.rpartition("/")
        key = (self.id, self._folder(folder), stored_path(name))
        self._database.execute(
            "INSERT OR IGNORE INTO touched SELECT ?, ?, ?, coalesce(max(state != 'gone'), 0) FROM entry"
            " WHERE view = ? AND folder = ? AND name = ?",
            (*key, *key),
        )

    def _folder(self, path: str) -> int:
        known = self._folders.get(path)
        if known is None:
            values = (self.id, stored_path(path))
            found = self._database.execute("SELECT id FROM folder WHERE view = ? AND path = ?", values).fetchone()
            if found is None:
                number = self._database.execute(
                    "INSERT INTO folder (view, path, base) VALUES (?, ?, ?)",
                    (*values, stored_path(path.rpartition("/")[2])),
                ).lastrowid
                assert number is not None
                known = number
            else:
                known = found[0]
            self._folders[path] = known
        return known


class _Index(NamedTuple):
    prefix: str
    stamp: tuple[int, ...]
    watched: tuple[str, ...]
    modules: tuple[str, ...]
    file_count: int
    last: str
