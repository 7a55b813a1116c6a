"""Walk over the folder: files in the order of their paths, without ignored ones, within limits.

The clock is checked between entries and within each listing, so that a folder with very many entries overruns the limit by at most
LOOK_EVERY of them; only a single system call that hangs is waited for.
"""

from __future__ import annotations

__all__ = ["WALK_SECONDS_MAX", "Walk"]

import time
from collections.abc import Callable, Iterator
from typing import Final

from periplus.agent.tools.files.ignore_rules import Ignores, parse_rules
from periplus.base.errors import ConfinementError, EnvironmentFailure, NotFoundError
from periplus.base.filesystem.confined_folder import LOOK_EVERY, Confined, Entry

WALK_SECONDS_MAX: Final = 15.0
ENTRIES_MAX: Final = 500_000
_IGNORE_BYTES_MAX: Final = 1 << 20


class Walk:
    """One walk. ``stopped`` says why it is incomplete, ``unread`` lists folders that could not be listed, ``kept_back`` counts entries
    left out because a rule forbids reading them (the contents of such a folder are not counted).
    """

    def __init__(
        self, folder: Confined, *, with_ignored: bool = False, seconds: float = WALK_SECONDS_MAX,
        unread: Callable[[str], bool] = lambda _: False, monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._folder, self._with_ignored, self._seconds, self._unread = folder, with_ignored, seconds, unread
        self._monotonic_s, self._deadline_s = monotonic_s, 0.0
        self.kept_back = 0
        self.stopped = ""
        self.unread: list[str] = []

    def entries(self, path: str = ".", depth: int | None = None) -> Iterator[Entry]:
        """Files and folders below ``path``, a folder before its contents; ``depth`` 1 is its direct contents."""
        self._deadline_s = self._monotonic_s() + self._seconds
        try:
            yield from self._entries(path, depth)
        except _TimeIsUpError:
            self.stopped = f"over {self._seconds:g} s"

    def _entries(self, path: str, depth: int | None) -> Iterator[Entry]:
        names = () if path == "." else tuple(path.split("/"))
        waiting: list[Entry] = []
        seen = 0
        rules = self._rules_above(names)
        known = {"/".join(names) or ".": self._within(rules, names)}
        waiting += reversed(self._inner("/".join(names) or ".", known["/".join(names) or "."], is_asked=True))
        while waiting:
            entry = waiting.pop()
            seen += 1
            if seen > ENTRIES_MAX:
                self.stopped = f"over {ENTRIES_MAX:,} entries"
                return
            self._check_time()
            yield entry
            if entry.kind == "folder" and (depth is None or entry.path.count("/") - len(names) + 1 < depth):
                parent = entry.path.rpartition("/")[0] or "."
                ignores = self._within(known[parent], tuple(entry.path.split("/")))
                known[entry.path] = ignores
                waiting += reversed(self._inner(entry.path, ignores))

    def _check_time(self) -> None:
        if self._monotonic_s() > self._deadline_s:
            raise _TimeIsUpError

    def files(self, path: str = ".") -> Iterator[Entry]:
        """The regular files below ``path``, or ``path`` itself if it is one, ignored or not. Raises NotFoundError."""
        entry = self._folder.stat(path)
        if entry is None:
            raise NotFoundError(f"no file or folder {path}")
        if entry.kind != "folder":
            yield entry
            return
        for inner in self.entries(path):
            if inner.kind == "file":
                yield inner

    def told(self) -> list[str]:
        """Notes on entries that a rule left out."""
        count = self.kept_back
        left_out = "1 entry is" if count == 1 else f"{count:,} entries are"
        return [f"{left_out} left out: a rule forbids reading what is there"] if count else []

    def _rules_above(self, names: tuple[str, ...]) -> Ignores:
        ignores = Ignores()
        for end in range(len(names)):
            ignores = self._within(ignores, names[:end])
        return ignores

    def _within(self, ignores: Ignores, names: tuple[str, ...]) -> Ignores:
        if self._with_ignored:
            return ignores
        path = "/".join((*names, ".gitignore"))
        try:
            entry = self._folder.stat(path)
            if entry is None or entry.kind != "file" or entry.size > _IGNORE_BYTES_MAX:
                return ignores
            return ignores.within(parse_rules(self._folder.read(path).decode("utf-8", "replace"), names))
        except (NotFoundError, ConfinementError, EnvironmentFailure):
            return ignores  # an unreadable ignore file excludes nothing

    def _inner(self, path: str, ignores: Ignores, *, is_asked: bool = False) -> list[Entry]:
        try:
            found = self._folder.list(path, self._check_time)
        except (NotFoundError, ConfinementError, EnvironmentFailure) as error:
            if is_asked:
                raise
            self.unread.append(f"{path}: {error}")
            return []
        kept: list[Entry] = []
        for count, one in enumerate(found):
            if count % LOOK_EVERY == 0:
                self._check_time()  # each entry is matched against each rule
            if self._unread(one.path):
                self.kept_back += 1
            elif self._with_ignored or not ignores.leaves_out(
                tuple(one.path.split("/")), is_folder=one.kind == "folder"
            ):
                kept.append(one)
        return kept


class _TimeIsUpError(Exception):
    """The walk ran out of time."""
