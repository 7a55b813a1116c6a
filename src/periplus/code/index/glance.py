"""Questions to the file of an index that its other readers would load much for. Loaded by hooks: it imports nothing expensive.

The file is read as it is; where it cannot be, the answer is no.
"""

from __future__ import annotations

__all__ = ["HEADED", "defines", "defining", "has_view"]

import os
from collections.abc import Sequence
from typing import Any, Final

_WAIT_S: Final = 0.05
_WORDS_MAX: Final = 400
# Positions in ``model.KINDS``: function, method, class, interface, struct, trait, macro, record, constructor, object, protocol.
HEADED: Final = frozenset({0, 1, 2, 3, 11, 12, 13, 14, 19, 20, 21})
_VIEW: Final = "SELECT 1 FROM view WHERE root = ?"
_DEFINING: Final = (
    "SELECT DISTINCT n.text, f.path, e.name FROM name n JOIN definition d ON d.name = n.id JOIN entry e ON e.blob = d.blob"
    " JOIN folder f ON f.id = e.folder JOIN view v ON v.id = e.view WHERE n.text IN ({}) AND v.root = ? LIMIT 1000"
)
_DEFINES: Final = (
    "SELECT d.flags FROM view v JOIN folder f ON f.view = v.id AND f.path = ? JOIN entry e ON e.view = v.id AND e.folder = f.id AND e.name = ?"
    " JOIN definition d ON d.blob = e.blob AND d.name IN (SELECT id FROM name WHERE text IN ({}))"
    " WHERE v.root = ?"
)


def has_view(index: str, root: str) -> bool:
    """Return True where the index at ``index`` has a view of the worktree ``root``."""
    return bool(_ask(index, _VIEW, (root,)))


def defines(index: str, root: str, path: str, words: Sequence[str]) -> bool:
    """Return True where the file ``path`` of ``root`` defined something with a signature under one of ``words`` at the last look."""
    folder, _, name = path.rpartition("/")
    some = words[:_WORDS_MAX]
    if not some:
        return False
    rows = _ask(index, _DEFINES.format(", ".join("?" * len(some))), (folder, name, *some, root))
    return any(int(row[0]) >> 3 in HEADED for row in rows)


def defining(index: str, root: str, names: Sequence[str], files_max: int) -> dict[str, list[str]]:
    """Return for each of ``names`` (simple ones) the files of ``root`` that defined it at the last look; none for a name of over ``files_max``."""
    some = list(names)[:_WORDS_MAX]
    rows = _ask(index, _DEFINING.format(", ".join("?" * len(some))), (*some, root)) if some else []
    found: dict[str, list[str]] = {}
    for name, folder, base in rows:
        if isinstance(folder, str) and isinstance(base, str):
            found.setdefault(str(name), []).append(f"{folder}/{base}" if folder else base)
    return {name: paths for name, paths in found.items() if len(paths) <= files_max}


def _ask(index: str, query: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
    if not os.path.exists(index):
        return []
    import sqlite3

    escaped = index.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        db = sqlite3.connect(f"file:{escaped}?mode=ro", uri=True, timeout=_WAIT_S, isolation_level=None)
    except sqlite3.Error:
        return []
    try:
        db.execute("PRAGMA trusted_schema = 0")
        return db.execute(query, values).fetchall()
    except (sqlite3.Error, UnicodeEncodeError):  # another version, damage, or a path that is no UTF-8
        return []
    finally:
        db.close()
