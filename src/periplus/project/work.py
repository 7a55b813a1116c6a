"""``Project.work``: who works on what, so that agents do not get in each other's way.

Everything here is said of one project and one writer; what it does is ``memory``'s.
"""

from __future__ import annotations

__all__ = ["ProjectWork"]

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from periplus.base.canonical import JSONValue
from periplus.base.errors import UsageError
from periplus.journal import project_root
from periplus.memory.lifecycle import Changed, change_state, evolve, link, merge, split, update

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.memory.check import Checked
    from periplus.memory.claims import Acquired, Asked
    from periplus.project.project import Project


class ProjectWork:
    """Reached as ``project.work``."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._journal = project.journal

    def path(self, path: str, *, cwd: str = "") -> str:
        """A path as the project names it: from its folder. Raises UsageError for one that lies outside of it."""
        if not path or "\0" in path:
            raise UsageError(f"the path {path!r} is empty or no path", safe="Nothing was written.", mend="Name a path.")
        whole = os.path.normpath(os.path.join(self._from(cwd), path))
        inside = os.path.relpath(whole, self._top(whole))
        if inside == ".." or inside.startswith("../"):
            raise UsageError(f"{path!r} lies outside of the project", safe="Nothing was written.",
                             mend="Name a path within it.")  # fmt: skip
        return inside

    def scope(self, word: str, *, cwd: str = "") -> str:
        """A scope as people type it in the folder ``cwd``, from the project's folder. What is there under that very name is taken
        for it, whatever its characters mean in a glob. Raises UsageError.
        """
        from periplus.memory.scopes import escaped, parse_scope

        head, colon, symbol = word.rpartition(":")
        start = self._from(cwd)
        if not word or "\0" in word:
            return word  # refused where scopes are read
        if os.path.lexists(os.path.join(start, word)):
            is_folder = os.path.isdir(os.path.join(start, word))
            scope = escaped(self.path(word, cwd=cwd))
            return parse_scope(f"{scope}/").text if is_folder else scope
        if head and os.path.isfile(os.path.join(start, head)):
            return f"{escaped(self.path(head, cwd=cwd))}{colon}{symbol}"
        inside, before = self.path(word, cwd=cwd), self.path(".", cwd=cwd)
        if before != "." and inside.startswith(f"{before}/"):
            return escaped(before) + inside[len(before) :]
        return inside

    def _from(self, cwd: str) -> str:
        """Where paths are typed: ``cwd``, or the project's folder for who is not in the project at all."""
        folder = self._project.folder
        if not cwd or cwd == folder or cwd.startswith(folder + os.sep) or self._top(cwd) != folder:
            return cwd or folder
        return folder

    def _top(self, whole: str) -> str:
        """The worktree of the project that ``whole`` lies in: what is said there is about the same path of the project."""
        folder = at = self._project.folder
        if whole == folder or whole.startswith(folder + os.sep):
            return folder
        at = whole
        while os.path.dirname(at) != at:
            if os.path.isfile(os.path.join(at, ".git")):
                return at if project_root(at) == folder else folder
            at = os.path.dirname(at)
        return folder

    # -- claims -------------------------------------------------------------------------------------------------------

    def claim(
        self, asked: Asked, *, wait_s: float = 0, wait: Callable[[float], bool] | None = None, key: str = ""
    ) -> Acquired:
        """Claim scopes, waiting up to ``wait_s`` seconds for who holds them. Raises ClaimedError."""
        from periplus.memory.claims import acquire, wait_for

        if wait_s > 0 and wait is not None:
            return wait_for(self._journal, self._project.writer, asked, wait_s=wait_s, wait=wait, key=key)
        return acquire(self._journal, self._project.writer, asked, key=key)

    def claims(self) -> list[Entity]:
        """The claims that hold now, the oldest first."""
        from periplus.memory.claims import live_claims

        self._journal.refresh()
        found = live_claims(self._journal, self._journal.clock.now_ms())
        return sorted(found, key=lambda claim: (str(claim.value.get("created")), claim.item_id))

    def is_own(self, claim: Entity) -> bool:
        from periplus.memory.claims import holds

        return holds(self._project.writer, claim)

    def release(
        self, references: Sequence[str] = (), *, force: bool = False, reason: str = "", key: str = ""
    ) -> Changed:
        """Let go of claims by id; without ids of all one's own."""
        from periplus.memory.claims import release

        return release(self._journal, self._project.writer, references, force=force, reason=reason, key=key)

    def check(self, paths: Sequence[str]) -> Checked:
        """Whose claim paths of the project are now, and which constraints and traps are about them."""
        from periplus.memory.check import check_paths

        folders = frozenset(path for path in paths if os.path.isdir(os.path.join(self._project.folder, path)))
        return check_paths(self._journal, self._project.writer, paths, folders)

    # -- any entity ---------------------------------------------------------------------------------------------------

    def set_fields(
        self, reference: str, fields: Mapping[str, JSONValue], *, expect: str = "", key: str = ""
    ) -> Changed:
        self._journal.refresh()
        return update(self._journal, self._project.writer, reference, fields, expect=expect, key=key)

    def change_state(self, references: Sequence[str], state: str, *, reason: str = "", key: str = "") -> Changed:
        self._journal.refresh()
        return change_state(self._journal, self._project.writer, references, state, reason=reason, key=key)

    def evolve(
        self, reference: str, text: str, fields: Mapping[str, JSONValue] | None = None, *, key: str = ""
    ) -> Changed:
        self._journal.refresh()
        return evolve(self._journal, self._project.writer, reference, text, fields, key=key)

    def merge(
        self, references: Sequence[str], text: str, fields: Mapping[str, JSONValue] | None = None, *, key: str = ""
    ) -> Changed:
        self._journal.refresh()
        return merge(self._journal, self._project.writer, references, text, fields, key=key)

    def split(self, reference: str, texts: Sequence[str], *, key: str = "") -> Changed:
        self._journal.refresh()
        return split(self._journal, self._project.writer, reference, texts, key=key)

    def link(self, reference: str, kind: str, target: str, *, key: str = "") -> Changed:
        self._journal.refresh()
        return link(self._journal, self._project.writer, reference, kind, target, key=key)
