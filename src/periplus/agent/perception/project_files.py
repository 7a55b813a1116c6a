"""Files of a project, listed within limits and breadth first, so that an interrupted walk has seen the top of everything.

No link is followed, nothing outside is seen, and ignored files and build products are skipped. Every limit is a number here; what a limit
hid is named.
"""

from __future__ import annotations

__all__ = ["Bounds", "Tree", "look_at"]

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from periplus.agent.tools.files.ignore_rules import Ignores, parse_rules
from periplus.base.errors import PeriplusError
from periplus.base.filesystem.confined_folder import Confined, Entry, Limits

IGNORE_BYTES_MAX: Final = 64 << 10
RULES_MAX: Final = 400  # for one folder: each entry is matched against each rule
_LOOK_EVERY: Final = 64


class Bounds(NamedTuple):
    """Limits of a walk. ``folder_entries``: a folder with more is named and not entered."""

    entries: int = 30_000
    folder_entries: int = 5_000
    depth: int = 24
    seconds: float = 3.0


@dataclass(slots=True)
class Tree:
    """The result of a walk. ``files`` are in the order of the walk, ``counts`` has the files seen below each folder. ``unseen`` says what
    was skipped and why, ``stopped`` why the walk ended early (empty: it did not).
    """

    files: list[Entry] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    stopped: str = ""
    kept_back: int = 0
    """Entries that a rule keeps from being read."""

    def inner(self, folder: str) -> list[str]:
        """The direct subfolders of ``folder``."""
        lead = f"{folder}/" if folder else ""
        return sorted(one for one in self.counts if one and one.startswith(lead) and "/" not in one[len(lead) :])


class _TimeIsUpError(Exception):
    """The walk ran out of time."""


class _Waiting(NamedTuple):
    path: str
    ignores: Ignores
    rules: int


def look_at(
    root: str,
    folder: str = "",
    bounds: Bounds | None = None,
    *,
    unread: Callable[[str], bool] = lambda _: False,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> Tree:
    """List ``folder`` of the project ``root``, without what ``unread`` keeps back. Raises NotFoundError, ConfinementError for a path that
    is not a folder.
    """
    bounds = bounds or Bounds()
    deadline = monotonic_s() + bounds.seconds
    tree = Tree()

    def look() -> None:
        if monotonic_s() > deadline:
            raise _TimeIsUpError

    with Confined(root, limits=Limits(entries_max=bounds.folder_entries)) as held:
        waiting = deque([_above(held, folder)])
        seen = 0
        while waiting and not tree.stopped:
            at = waiting.popleft()
            tree.counts.setdefault(at.path, 0)
            try:
                entries = _listed(held, at.path, folder, tree, look)
            except _TimeIsUpError:
                tree.stopped = f"over {bounds.seconds:g} s"
                break
            at = _within(held, at, entries)
            for number, entry in enumerate(entries):
                seen += 1
                if seen > bounds.entries:
                    tree.stopped = f"over {bounds.entries:,} entries"
                elif number % _LOOK_EVERY == 0 and monotonic_s() > deadline:
                    tree.stopped = f"over {bounds.seconds:g} s"
                if tree.stopped:
                    break
                names = tuple(entry.path.split("/"))
                if at.ignores.leaves_out(names, is_folder=entry.kind == "folder"):
                    continue
                if unread(entry.path):
                    tree.kept_back += 1
                elif entry.kind == "file":
                    tree.files.append(entry)
                    _count(tree.counts, entry.path, folder)
                elif entry.kind == "folder" and len(names) >= bounds.depth:
                    tree.unseen.append(f"{entry.path}/ lies over {bounds.depth} folders deep")
                elif entry.kind == "folder":
                    tree.counts.setdefault(entry.path, 0)
                    waiting.append(_Waiting(entry.path, at.ignores, at.rules))
    return tree


def is_kept_back(path: str, unread: Callable[[str], bool]) -> bool:
    """Return True for a hidden file, such as one of settings and secrets, and for one that ``unread`` keeps back, itself or a folder around it."""
    names = path.split("/")
    return names[-1].startswith(".") or any(unread("/".join(names[:end])) for end in range(1, len(names) + 1))


def _count(counts: dict[str, int], path: str, top: str) -> None:
    while path != top:
        path = path.rpartition("/")[0]
        counts[path] = counts.get(path, 0) + 1
        if not path:
            return


def _above(held: Confined, folder: str) -> _Waiting:
    """The first folder to visit, with the rules of the ``.gitignore`` files above it."""
    at = _Waiting("", Ignores(), 0)
    for name in folder.split("/") if folder else ():
        at = _within(held, at, None)
        at = at._replace(path=f"{at.path}/{name}" if at.path else name)
    return at


def _within(held: Confined, at: _Waiting, entries: Sequence[Entry] | None) -> _Waiting:
    path = f"{at.path}/.gitignore" if at.path else ".gitignore"
    try:
        entry = held.stat(path) if entries is None else next((one for one in entries if one.path == path), None)
        if entry is None or entry.kind != "file" or entry.size > IGNORE_BYTES_MAX or at.rules >= RULES_MAX:
            return at
        text = held.read(path).decode("utf-8", "replace")
    except PeriplusError:
        return at  # an unreadable ignore file excludes nothing
    rules = parse_rules(text, tuple(at.path.split("/")) if at.path else ())[: RULES_MAX - at.rules]
    return at._replace(ignores=at.ignores.within(rules), rules=at.rules + len(rules))


def _listed(held: Confined, path: str, asked: str, tree: Tree, look: Callable[[], None]) -> list[Entry]:
    try:
        return held.list(path or ".", look)
    except PeriplusError as error:
        if path == asked and path:
            raise
        why = "has too many entries to look at" if getattr(error, "reason", "") == "too_large" else "cannot be listed"
        tree.unseen.append(f"{path or '.'}/ {why}")
        return []
