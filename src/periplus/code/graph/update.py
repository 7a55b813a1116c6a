"""The graph of a view brought up to date.

While a file is resolved, everything that was asked is recorded (`code.resolution.dependencies`). When files change, those whose answers
may change are found by it, and only they are resolved again; an edit within a body concerns one file. A change of the resolver itself,
or of the rules of a language, has the graph made anew.

The writers' lock of the index is held, so no file changes meanwhile. Files are written in batches: what a process has done when it is
stopped need not be done again.
"""

from __future__ import annotations

__all__ = ["GraphUpdate", "ensure_graph", "is_current", "resolver_version"]

import os
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from periplus.base.errors import LockTimeoutError
from periplus.base.process.locks import Lock
from periplus.code.graph.encoding import (
    FILE,
    NAMED_FILE,
    SYMBOLS_MAX,
    Edge,
    FileSymbols,
    asked_keys,
    encode_asked,
)
from periplus.code.graph.file_symbols import first_symbols, renewed_symbols
from periplus.code.graph.interface import interface_difference
from periplus.code.graph.store import GraphStore
from periplus.code.index.database import Database, stored_path
from periplus.code.index.view_sources import ViewSources
from periplus.code.model import ROLES, Reference, decode_facts
from periplus.code.resolution.dependencies import Recorder
from periplus.code.resolution.file_imports import file_imports
from periplus.code.resolution.resolver import Grade, Resolution, Resolver
from periplus.code.resolution.sources import KnownFile

GRAPH_VERSION: Final = 1
GRADES: Final[tuple[Grade, ...]] = ("proven", "likely", "named")
FILE_S: Final = 0.004  # what a file takes, for the estimate
_NAME_CHARACTERS_MAX: Final = 200
_FILES_PER_WRITE: Final = 200
_IMPORT: Final = ROLES.index("import")
_GRADE_NUMBERS: Final = {grade: number for number, grade in enumerate(GRADES)}
_BY_NAMES: Final = frozenset({"python"})


@cache
def resolver_version() -> str:
    """Return the version of what makes edges of facts: of this module, and of the resolver and its rules by their files."""
    import periplus.code.resolution

    folder = os.path.dirname(periplus.code.resolution.__file__)
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                state = os.stat(os.path.join(place, name))
                found.append(f"{name}.{state.st_size}.{state.st_mtime_ns}")
    return f"{GRAPH_VERSION}-{zlib.crc32(' '.join(found).encode()):x}"


def is_current(database: Database, view: int) -> bool:
    """Return True where the graph is that of the files of the view."""
    store = GraphStore(database, view)
    return store.version() == resolver_version() and not store.is_touched() and not store.stale_count()


def ensure_graph(database: Database, view: int, root: str, budget_s: float, *, is_patient: bool = False) -> bool:
    """Bring the graph up to date; return True where it is. Without ``is_patient`` nothing is begun that ``budget_s`` will hardly suffice for."""
    if is_current(database, view):
        return True
    deadline = time.monotonic() + budget_s
    try:
        with Lock(f"{database.path}.lock", is_guard=False).holding(max(0.0, budget_s)):
            update = GraphUpdate(database, view, root)
            if not is_patient and update.store.version() != resolver_version():
                files = database.execute("SELECT count(*) FROM entry WHERE view = ? AND blob IS NOT NULL", (view,))
                if files.fetchone()[0] * FILE_S > budget_s:
                    return False
            update.note_changes()
            if not is_patient and update.store.stale_count() * FILE_S > deadline - time.monotonic():
                return False
            return update.resolve_stale(deadline)
    except LockTimeoutError:
        return False


class GraphUpdate:
    """One update, under the lock of the index."""

    def __init__(self, database: Database, view: int, root: str) -> None:
        self.store = GraphStore(database, view)
        self._database = database
        self._view = view
        self._sources = ViewSources(database, view, root)
        self._first: dict[str, tuple[int, FileSymbols, dict[str, int]] | None] = {}
        self._name_ids: dict[str, int] = {}

    # -- what changed --------------------------------------------------------------------------------------------------

    def note_changes(self) -> None:
        """Mark the files whose edges may have changed."""
        store = self.store
        with self._database.write():
            if store.version() != resolver_version():
                store.begin(resolver_version())
                return
            touched = store.touched()
            if not touched:
                return
            alone: set[int] = set()
            within: list[tuple[int, frozenset[int]]] = []
            for path, existed in touched:
                if not self._note_change(path, alone, within, existed=existed):
                    store.begin(resolver_version())
                    return
            alone |= self._folder_keys(touched)
            if alone or within:
                store.mark_stale(list(self._concerned(alone, within)))
            store.clear_touched()

    def _note_change(
        self, path: str, alone: set[int], within: list[tuple[int, frozenset[int]]], *, existed: bool
    ) -> bool:
        """Take in the change of one file: add the keys that it concerns. Return False where its former content is not known."""
        folder, _, base = path.rpartition("/")
        if existed != self._sources.exists(path):
            alone |= {
                Recorder.path[path],
                Recorder.base[base],
                Recorder.folder[folder],
            }
        alone.add(Recorder.contents[path])
        row, new, blob = self.store.row(path), self._sources.file(path), self._blob(path)
        old = self._known(path, row.blob) if row is not None else None
        if row is None:
            if new is not None:
                self.store.add(path, blob)
                alone.add(Recorder.visited[path])
                alone |= {Recorder.defining[one.name] for one in new.definitions}
            return True
        if old is None:
            return False
        if new is None:
            self.store.remove(row)
            alone.add(Recorder.visited[path])
            alone |= {Recorder.defining[one.name] for one in old.definitions}
            return True
        if row.blob == blob:
            return True
        symbols = renewed_symbols(self.store.symbols(row.id) or first_symbols(old), new)
        if symbols.next > SYMBOLS_MAX:
            return False
        self.store.replace(row, blob, symbols)
        difference = interface_difference(old, new)
        if difference.is_whole:
            alone |= {Recorder.defining[one.name] for file in (old, new) for one in file.definitions}
        alone |= {Recorder.defining[name] for name in difference.names}
        if difference.is_whole or (difference and new.facts.language not in _BY_NAMES):
            alone.add(Recorder.visited[path])
        elif difference:
            within.append((Recorder.visited[path], frozenset(Recorder.name[name] for name in difference.names)))
        return True

    def _folder_keys(self, touched: Sequence[tuple[str, bool]]) -> set[int]:
        """Return the keys of the folders that are new, and of those that are gone."""
        before = {path for path, existed in touched if existed}
        changed = {path for path, _ in touched}
        keys: set[int] = set()
        for folder in {path.rpartition("/")[0] for path in changed}:
            now = self._sources.in_folder(folder)
            was_there = any(path not in changed for path in now) or any(
                path.rpartition("/")[0] == folder for path in before
            )
            if was_there != bool(now):
                keys.add(Recorder.folder_base[folder.rpartition("/")[2]])
        return keys

    def _concerned(self, alone: set[int], within: Sequence[tuple[int, frozenset[int]]]) -> Iterable[int]:
        """Iterate over the files that asked for what changed."""
        wanted = alone | {file for file, _ in within}
        for number, data in self.store.asked():
            keys = asked_keys(data)
            if wanted.isdisjoint(keys):
                continue
            if not alone.isdisjoint(keys):
                yield number
                continue
            known = set(keys)
            if any(file in known and not names.isdisjoint(known) for file, names in within):
                yield number

    def _blob(self, path: str) -> int:
        folder, _, name = path.rpartition("/")
        found = self._database.execute(
            "SELECT e.blob FROM folder f JOIN entry e ON e.view = f.view AND e.folder = f.id AND e.name = ? WHERE f.view = ? AND f.path = ?",
            (stored_path(name), self._view, stored_path(folder)),
        ).fetchone()
        return int(found[0]) if found is not None and found[0] is not None else -1

    def _known(self, path: str, blob: int) -> KnownFile | None:
        found = self._database.execute("SELECT facts FROM blob WHERE id = ?", (blob,)).fetchone()
        return KnownFile(path, decode_facts(found[0])) if found is not None and found[0] is not None else None

    # -- resolution ----------------------------------------------------------------------------------------------------

    def resolve_stale(self, deadline: float) -> bool:
        """Resolve the files that are marked, until ``deadline``; return True where none is left."""
        recorder = Recorder()
        resolver = Resolver(self._sources, recorder)
        waiting = self.store.stale()
        for start in range(0, len(waiting), _FILES_PER_WRITE):
            with self._database.write():
                for number, path in waiting[start : start + _FILES_PER_WRITE]:
                    if time.monotonic() > deadline:
                        return False
                    if not self._resolve(number, path, resolver, recorder):
                        return False
        return True

    def _resolve(self, number: int, path: str, resolver: Resolver, recorder: Recorder) -> bool:
        file = self._sources.file(path)
        known = self._symbols(path)
        if file is None or known is None or known[1].next > SYMBOLS_MAX:
            return False
        recorder.asked = set()
        counts: Counter[str] = Counter()
        best: dict[tuple[int, int, int, int, int], int] = {}
        references = file.references_by_target
        owners = [FILE, *(known[2][one.qualified] for one in file.definitions)]
        for at, target in enumerate(file.facts.targets):
            places = references.get(at)
            if places is None:
                continue
            resolution = resolver.resolve(path, target)
            if resolution.grade is None:
                counts["external" if resolution.is_external else "unknown"] += len(places)
                continue
            counts[resolution.grade] += len(places)
            name = file.facts.final_name(target)
            self._add(best, places, owners, resolution, name)
        for one in file_imports(resolver, file):
            target_file = self.store.file_id(one.path)
            if target_file is not None:
                best[FILE, one.line, _IMPORT, target_file, FILE] = _GRADE_NUMBERS[one.grade]
        edges = [Edge(owner, line, role, grade, to, local) for (owner, line, role, to, local), grade in best.items()]
        self.store.put(number, known[1], edges, encode_asked(recorder.asked), counts)
        return True

    def _add(
        self,
        best: dict[tuple[int, int, int, int, int], int],
        places: Sequence[Reference],
        owners: Sequence[int],
        resolution: Resolution,
        name: str,
    ) -> None:
        assert resolution.grade is not None
        grade = _GRADE_NUMBERS[resolution.grade]
        ends: list[tuple[int, int]] = []
        if resolution.grade == "named":
            ends.append((NAMED_FILE, self._name_id(name)))
        else:
            for entity in resolution.found:
                known = self._symbols(entity.path) if entity.symbol >= 0 else None
                file = self._sources.file(entity.path) if known is not None else None
                if known is not None and file is not None:
                    ends.append((known[0], known[2][file.definitions[entity.symbol].qualified]))
        for place in places:
            role = ROLES.index(place.role)
            owner = owners[place.owner + 1]
            for to, local in ends:
                key = (owner, place.line, role, to, local)
                if grade < best.get(key, len(GRADES)):
                    best[key] = grade

    def _symbols(self, path: str) -> tuple[int, FileSymbols, dict[str, int]] | None:
        """Return number and symbols of a file, and the numbers of the symbols by name."""
        if path not in self._first:
            number, file = self.store.file_id(path), self._sources.file(path)
            if number is None or file is None:
                self._first[path] = None
            else:
                symbols = self.store.symbols(number) or first_symbols(file)
                self._first[path] = (number, symbols, dict(zip(symbols.names, symbols.locals, strict=True)))
        return self._first[path]

    def _name_id(self, name: str) -> int:
        if name not in self._name_ids:
            found = self._database.execute(
                "SELECT id FROM name WHERE text = ?", (name[:_NAME_CHARACTERS_MAX],)
            ).fetchone()
            self._name_ids[name] = found[0] if found is not None else 0
        return self._name_ids[name]
