"""All files of a view with their sizes, for pictures of a whole repository."""

from __future__ import annotations

__all__ = ["FILES_MAX", "FileSize", "file_sizes", "view_mark"]

import os
from typing import Final, NamedTuple

from periplus.code.index.database import shown_path
from periplus.code.queries.view import CodeView

FILES_MAX: Final = 400_000
_STATS_MAX: Final = 20_000


class FileSize(NamedTuple):
    """``lines`` is 0 for a file that is not parsed; ``state`` says why it is not. ``is_changed`` where git has other contents, or none."""

    path: str
    bytes: int
    lines: int
    language: str
    state: str
    is_changed: bool


def view_mark(view: CodeView) -> tuple[int, int, int]:
    """Return numbers that change when a file of the view does, or when a waiting one was parsed: a key of what is kept."""
    found = view.database.execute("SELECT generation FROM view WHERE id = ?", (view.id,)).fetchone()
    waiting = view.database.execute(
        "SELECT count(*) FROM entry WHERE view = ? AND state IN ('waiting', 'waiting_own')", (view.id,)
    ).fetchone()
    return view.id, found[0] if found is not None else -1, waiting[0]


def file_sizes(view: CodeView) -> list[FileSize]:
    """Return the files of ``view``, at most FILES_MAX, in no order. The size of one that is not parsed is that on the disk; beyond the first
    20,000 such files it is 0.
    """
    before = {
        number: f"{shown_path(path)}/" if path else ""
        for number, path in view.database.execute("SELECT id, path FROM folder WHERE view = ?", (view.id,))
    }
    rows = view.database.execute(
        "SELECT e.folder, e.name, coalesce(b.size, -1), coalesce(b.lines, 0), coalesce(b.language, ''), coalesce(b.state, e.state),"
        " e.stamp IS NOT NULL FROM entry e LEFT JOIN blob b ON b.id = e.blob WHERE e.view = ? AND e.state != 'gone' LIMIT ?",
        (view.id, FILES_MAX),
    )
    found: list[FileSize] = []
    stats = 0
    for folder, name, size, lines, language, state, is_changed in rows:
        path = before.get(folder, "") + shown_path(name)
        known = size
        if size < 0:
            stats += 1
            known = _size_on_disk(view.root, path) if stats <= _STATS_MAX else 0
        found.append(
            FileSize(path, known, lines, language.partition(":")[0], state.removesuffix("_own"), bool(is_changed))
        )
    return found


def _size_on_disk(root: str, path: str) -> int:
    try:
        return os.lstat(os.path.join(root, path)).st_size
    except (OSError, ValueError):  # gone meanwhile, or a name that no file can have
        return 0
