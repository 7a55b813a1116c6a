"""The files of a view as the resolver reads them, from the index."""

from __future__ import annotations

__all__ = ["DEFINING_MAX", "ViewSources"]

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from periplus.code.index.database import Database, joined_path, shown_path, stored_path
from periplus.code.index.file_reader import FileReader
from periplus.code.model import decode_facts
from periplus.code.resolution.sources import KnownFile

DEFINING_MAX: Final = 400
FACTS_BYTES_KEPT_MAX: Final = 5 << 20  # compressed; decoded they take about twelve times as much
_NO_FILE_BYTES: Final = 50
_READ_BYTES_MAX: Final = 1 << 20
# CROSS JOIN keeps the order: without statistics SQLite would walk all files of the view for one name.
_DEFINED: Final = (
    "name n CROSS JOIN definition d ON d.name = n.id CROSS JOIN entry e ON e.blob = d.blob AND e.view = ?"
    " CROSS JOIN folder f ON f.id = e.folder"
)
_ENTRY: Final = "SELECT f.path, e.name FROM entry e JOIN folder f ON f.id = e.folder WHERE e.view = ?"


class ViewSources:
    """Sources over the index, as of one moment: make a new one after a refresh."""

    def __init__(self, database: Database, view: int, root: str, *, bytes_kept: int = FACTS_BYTES_KEPT_MAX) -> None:
        self._database = database
        self._view = view
        self._root = root
        self._files: OrderedDict[str, tuple[KnownFile | None, int]] = OrderedDict()
        self._bytes_left = bytes_kept
        self.with_name = lru_cache(16_384)(self._with_name)
        self.folders_named = lru_cache(16_384)(self._folders_named)
        self.in_folder = lru_cache(1_024)(self._in_folder)
        self.defining = lru_cache(16_384)(self._defining)
        self.in_package = lru_cache(4_096)(self._in_package)
        self.exists = lru_cache(65_536)(self._exists)
        self.read = lru_cache(64)(self._read)
        self.mentioning = lru_cache(1_024)(self._mentioning)

    def file(self, path: str) -> KnownFile | None:
        if path in self._files:
            self._files.move_to_end(path)
            return self._files[path][0]
        folder, _, name = path.rpartition("/")
        row = self._database.execute(
            "SELECT b.facts FROM folder f JOIN entry e ON e.view = f.view AND e.folder = f.id AND e.name = ? JOIN blob b ON b.id = e.blob"
            " WHERE f.view = ? AND f.path = ?",
            (stored_path(name), self._view, stored_path(folder)),
        ).fetchone()
        found = KnownFile(path, decode_facts(row[0])) if row is not None and row[0] is not None else None
        size = len(row[0]) if found is not None else _NO_FILE_BYTES
        self._files[path] = (found, size)
        self._bytes_left -= size
        while self._bytes_left < 0 and len(self._files) > 1:
            self._bytes_left += self._files.popitem(last=False)[1][1]
        return found

    def _exists(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return (
            self._database.execute(
                "SELECT 1 FROM folder f JOIN entry e ON e.view = f.view AND e.folder = f.id AND e.name = ?"
                " WHERE f.view = ? AND f.path = ? AND e.state != 'gone'",
                (stored_path(name), self._view, stored_path(folder)),
            ).fetchone()
            is not None
        )

    def _with_name(self, name: str) -> Sequence[str]:
        return self._paths(f"{_ENTRY} AND e.name = ? AND e.state != 'gone'", (self._view, stored_path(name)))

    def _in_folder(self, folder: str) -> Sequence[str]:
        return self._paths(
            f"{_ENTRY} AND f.view = e.view AND f.path = ? AND e.state != 'gone'", (self._view, stored_path(folder))
        )

    def _folders_named(self, name: str) -> Sequence[str]:
        rows = self._database.execute(
            "SELECT path FROM folder f WHERE view = ? AND base = ?"
            " AND EXISTS (SELECT 1 FROM entry e WHERE e.view = f.view AND e.folder = f.id AND e.state != 'gone')",
            (self._view, stored_path(name)),
        )
        return sorted(shown_path(row[0]) for row in rows)

    def _defining(self, name: str) -> Sequence[tuple[str, int]]:
        rows = self._database.execute(
            f"SELECT f.path, e.name, d.number FROM {_DEFINED} WHERE n.text = ? ORDER BY f.path, e.name, d.number LIMIT ?",  # noqa: S608 - ours
            (self._view, name, DEFINING_MAX),
        )
        return sorted((joined_path(folder, base), number) for folder, base, number in rows)

    def _in_package(self, package: str, name: str) -> Sequence[tuple[str, int]]:
        rows = self._database.execute(
            f"SELECT f.path, e.name, d.number FROM {_DEFINED} CROSS JOIN package p ON p.blob = d.blob"  # noqa: S608 - ours
            " AND p.name = (SELECT id FROM name WHERE text = ?) WHERE n.text = ? ORDER BY f.path, e.name, d.number LIMIT ?",
            (self._view, package, name, DEFINING_MAX),
        )
        return sorted((joined_path(folder, base), number) for folder, base, number in rows)

    def _mentioning(self, name: str) -> Sequence[str]:
        """Return the paths of the files that mention or define ``name``."""
        return self._paths(
            "SELECT f.path, e.name FROM entry e JOIN folder f ON f.id = e.folder WHERE e.view = ? AND e.blob IN"
            " (SELECT blob FROM mention WHERE name = (SELECT id FROM name WHERE text = ?)"
            " UNION SELECT blob FROM definition WHERE name = (SELECT id FROM name WHERE text = ?))",
            (self._view, name, name),
        )

    def _read(self, path: str) -> bytes | None:
        if not self.exists(path):
            return None
        try:
            with FileReader(self._root) as reader:
                return reader.read(path, _READ_BYTES_MAX)
        except OSError:
            return None

    def _paths(self, query: str, values: tuple[object, ...]) -> list[str]:
        return sorted(joined_path(folder, name) for folder, name in self._database.execute(query, values))
