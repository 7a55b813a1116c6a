"""Find the paths that a text names, as the project names them, and the memory about them.

People and programs write one path in many ways: at the end of a sentence, with ``./``, absolute, in a diff
(``a/src/x.py``), with a line number, from the folder of another worktree, of a container or of the machine that a
trace comes from. A path within the project's folder is certain. Of any other path each end may be meant
(``/app/src/db/pool.py`` may be ``src/db/pool.py``): such a guess counts where memory is about just that path, not
about a folder.
"""

from __future__ import annotations

__all__ = ["PATHS_MAX", "NamedPath", "about_named", "named_paths"]

import os
import re
from collections.abc import Sequence
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.base.text.search_terms import head_and_tail
from periplus.journal import Journal

PATHS_MAX: Final = 100
_CHARACTERS_MAX: Final = 20_000
_PARTS_MAX: Final = 32
_FOUND_MAX: Final = 100
_IN_DIFFS: Final = frozenset({"a", "b"})
_PATH: Final = re.compile(
    r"(?<![\w./~\-])(?:~?/|(?:\.\.?/)+)?[\w.@+\-]+(?:/[\w.@+\-]+)+|(?<![\w/\-])[\w\-]+\.[a-z]{1,5}\b"
)


class NamedPath(NamedTuple):
    """``path`` as the project names it, where that is known; ``guesses`` are other possible paths, the longest first."""

    path: str
    guesses: tuple[str, ...] = ()


def named_paths(text: str, root: str = "", most: int = PATHS_MAX) -> list[NamedPath]:
    """Return the paths that ``text`` names, each once, in their order; of a long text those near its ends. ``root``
    is the project's folder.
    """
    found: dict[str, NamedPath] = {}
    folders = tuple(dict.fromkeys((root.rstrip("/"), os.path.realpath(root)))) if root else ()
    for said in _PATH.findall(head_and_tail(text, _CHARACTERS_MAX)):
        one = _named(said.rstrip("."), folders)
        if one is not None:
            found.setdefault(one.path, one)
    kept = list(found.values())
    return kept if len(kept) <= most else kept[: most // 2] + kept[len(kept) - (most - most // 2) :]


def about_named(journal: Journal, named: Sequence[NamedPath], item_type: str = "") -> dict[tuple[str, str], str]:
    """Return the memories (of ``item_type``) about ``named``, or about a folder that such a path lies in, with the
    path or folder; the paths themselves first, then the nearest folder, the newest of each.
    """
    at: dict[str, int] = {}  # distance between a path that memory is about and the named one
    for one in named:
        at.setdefault(one.path, 0)
        at.update((guess, 0) for guess in one.guesses)
    for one in named:
        for path in (one.path, *one.guesses) if not one.path.startswith(("/", "~")) else ():
            parts = path.split("/")
            for end in range(len(parts), 0, -1):
                whole, far = "/".join(parts[:end]), len(parts) - end
                for folder in (whole, f"{whole}/"):
                    at[folder] = min(far, at.get(folder, far))
    found: list[tuple[int, str, str, tuple[str, str]]] = []
    names = list(at)
    for begin in range(0, len(names), 400):
        some = names[begin : begin + 400]
        rows = journal.index.db.execute(
            f"SELECT path, item_type, item_id, ts FROM touched WHERE {'item_type = ?' if item_type else 'item_type <> ?'}"  # noqa: S608
            f" AND path IN ({', '.join('?' * len(some))}) ORDER BY ts DESC, item_id LIMIT ?",
            (item_type or "trail", *some, _FOUND_MAX),
        ).fetchall()
        found += [(at[row[0]], str(row[3]), str(row[0]), (str(row[1]), str(row[2]))) for row in rows]
    for path in [
        name for name, far in at.items() if not far and not name.endswith("/")
    ]:  # a symbol is written FILE:SYMBOL
        rows = journal.index.db.execute(
            "SELECT item_type, item_id, ts FROM touched WHERE path > ? AND path < ? LIMIT ?",
            (f"{path}:", f"{path};", _FOUND_MAX),
        ).fetchall()
        keys = [(row[2], (str(row[0]), str(row[1]))) for row in rows]
        found += [
            (0, str(ts), path, key) for ts, key in keys if (key[0] == item_type if item_type else key[0] != "trail")
        ]
    found.sort(key=lambda one: one[3])
    found.sort(key=lambda one: one[1], reverse=True)
    found.sort(key=lambda one: one[0])
    about: dict[tuple[str, str], str] = {}
    for _, _, path, key in found:
        about.setdefault(key, path)
    return about


def _named(said: str, folders: tuple[str, ...]) -> NamedPath | None:
    parts = [part for part in said.split("/") if part not in ("", ".")][:_PARTS_MAX]
    while parts and parts[0] == "..":
        parts = parts[1:]  # from an unknown folder
    if not parts or ".." in parts or not any(character.isalnum() for character in parts[-1]):
        return None
    path = "/".join(parts)
    if said.startswith("/"):
        inside = next((path[len(one) :] for one in folders if f"/{path}".startswith(f"{one}/")), "")
        if inside:
            return NamedPath(inside)
    if said.startswith(("/", "~")):
        ends = tuple("/".join(parts[begin:]) for begin in range(1, len(parts) - 1))
        return NamedPath(f"/{path}" if said.startswith("/") else path, ends)
    if parts[0] in _IN_DIFFS and len(parts) > 1:
        return NamedPath(path, ("/".join(parts[1:]),))
    return NamedPath(path)
