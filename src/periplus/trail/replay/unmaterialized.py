"""Entries of a replay's trees that its folder does not have: links, submodules, nested stores, and names like
``:memory:``.

None of them is ever created: a link would lead steps and commands elsewhere, the content of a submodule is not
available, a replay must not write a store, and a name may look like an option or be a pattern to a shell. But they are
entries of the trees that recorded commits and checkpoints name. So each is kept by path, as mode and id, starting with
the base and through the steps that make, move and remove one.
"""

from __future__ import annotations

__all__ = ["UnmaterializedEntries", "UnmaterializedEntry", "is_left_out", "judge_unmaterialized", "unmaterialized_mode"]

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import ConfinementError
from periplus.base.filesystem.confined_folder import judge_path
from periplus.journal import STORE_FOLDER
from periplus.trail.checkpoints.git_tree import EXECUTABLE, FILE, LINK, SUBMODULE

if TYPE_CHECKING:
    from periplus.trail.model import Digest
    from periplus.trail.replay.values import FileKind

_WORDS: Final = {LINK: "a link", SUBMODULE: "a submodule"}


class UnmaterializedEntry(NamedTuple):
    """A tree entry that is no file in the folder: mode, id and path."""

    mode: str
    id: str
    path: str

    @property
    def why(self) -> str:
        other = (
            "a file of a store"
            if STORE_FOLDER in self.path.split("/")
            else "a name for an option or a pattern, or too large"
        )
        return f"{self.path[:200]} is {_WORDS.get(self.mode, other)}, which a replay does not create"


class UnmaterializedEntries:
    """The entries by path. ``changed`` is called with each new entry, and, without mode and id, with each removed one."""

    def __init__(
        self,
        entries: Iterable[UnmaterializedEntry] = (),
        changed: Callable[[UnmaterializedEntry], object] = lambda _entry: None,
    ) -> None:
        self._entries = {entry.path: entry for entry in entries}
        self._changed = changed

    def all(self) -> list[UnmaterializedEntry]:
        return [self._entries[path] for path in sorted(self._entries)]

    def get(self, path: str) -> UnmaterializedEntry | None:
        return self._entries.get(_name(path))

    def on(self, path: str) -> UnmaterializedEntry | None:
        """Return the entry that is ``path`` or lies on the way to it."""
        if not self._entries:
            return None
        name = _name(path)
        ends = [at for at, char in enumerate(name) if char == "/"]
        return next((found for end in (*ends, None) if (found := self._entries.get(name[:end])) is not None), None)

    def under(self, path: str) -> list[UnmaterializedEntry]:
        """Return the entries in a folder."""
        start = _name(path) + "/"
        return [entry for entry in self._entries.values() if entry.path.startswith(start)]

    def put(self, path: str, mode: str, identity: str) -> None:
        entry = UnmaterializedEntry(mode, identity, _name(path))
        self._entries[entry.path] = entry
        self._changed(entry)

    def drop(self, path: str) -> None:
        if self._entries.pop(_name(path), None) is not None:
            self._changed(UnmaterializedEntry("", "", _name(path)))

    def move(self, source: str, target: str) -> None:
        """Rename the entry ``source``, or the entries in the folder of that name."""
        start = _name(source)
        own = self.get(source)
        for entry in [own] if own is not None else self.under(source):
            self.drop(entry.path)
            self.put(_name(target) + entry.path[len(start) :], entry.mode, entry.id)


def unmaterialized_mode(path: str, content: Digest, kind: FileKind) -> str:
    """Return the mode of the entry that such a write makes, if it is not created as a file; empty for a file."""
    if kind in ("link", "submodule"):
        return LINK if kind == "link" else SUBMODULE
    if content.algorithm == "sha256" or not is_left_out(path):
        return ""
    return EXECUTABLE if kind == "executable" else FILE


def is_left_out(path: str) -> bool:
    """Return whether a path of git is not created for its name alone, although it leads nowhere else."""
    try:
        judge_unmaterialized(path)
    except ConfinementError:
        return False
    return STORE_FOLDER in path.split("/")[1:] or _spoken(path) != path


def judge_unmaterialized(path: str) -> None:
    """Check a path that is not created, like ``judge_path``; it may be in a store or have a meaning to a shell. Raises
    ConfinementError.
    """
    judge_path("/".join(f"x{name}" if name == STORE_FOLDER else name for name in _spoken(path).split("/")))


def _spoken(path: str) -> str:
    """Return the path without the parts that git or a shell would interpret."""
    harmless = path.replace("*", "x").replace("?", "x")
    return f"x{harmless}" if harmless[:1] in ("-", "~", ":") else harmless


def _name(path: str) -> str:
    return "/".join(name for name in path.split("/") if name != ".")
