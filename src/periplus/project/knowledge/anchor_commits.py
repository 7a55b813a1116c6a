"""Find the commit that changed what a memory is about, by git."""

from __future__ import annotations

__all__ = ["CommitsOfGit"]

from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.memory.code_anchors.anchors import Anchor, is_intact

if TYPE_CHECKING:
    pass

_COMMITS_MAX: Final = 60
_GIT_S: Final = 5.0


class _Change(NamedTuple):
    commit: str
    is_merge: bool
    before: bytes
    after: bytes


class CommitsOfGit:
    """Find the commit that changed anchored code, among the last that changed its file; each anchor is looked up
    once.

    It asks git twice: for those commits with the names of the contents before and after each, and for the contents.
    The commit is the newest before which the anchored lines stood there, and after which they do not. Where git is
    missing, too slow or refuses, the commit is unknown: the memory is shown all the same.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._found: dict[Anchor, str | None] = {}

    def changed_in(self, anchor: Anchor) -> str | None:
        """Return the commit; empty where the change is not committed, None where it is unknown."""
        if anchor not in self._found:
            try:
                self._found[anchor] = self._look(anchor)
            except PeriplusError:
                self._found[anchor] = None  # the commit is optional: staleness is reported without it
        return self._found[anchor]

    def _look(self, anchor: Anchor) -> str | None:
        from periplus.interop.git_history.git_process import run_git
        from periplus.project.worktree import read_blobs

        done = run_git(
            self._folder, "log", f"--max-count={_COMMITS_MAX}", "--format=%H %P", "--raw", "--no-abbrev", "--no-renames",
            "--diff-merges=first-parent", "--end-of-options", "HEAD", "--", f":(literal){anchor.path}", timeout_s=_GIT_S,
        )  # fmt: skip
        if done.returncode != 0:
            return None
        changes = _changes(done.stdout)
        names = {
            bytes.fromhex(name.decode()) for one in changes for name in (one.before, one.after) if name.strip(b"0")
        }
        contents = read_blobs(self._folder, names)
        intact: dict[bytes, bool] = {}

        def stood(name: bytes) -> bool:
            if name not in intact:
                data = contents.get(bytes.fromhex(name.decode()))
                intact[name] = data is not None and is_intact(anchor, data)
            return intact[name]

        if changes and stood(changes[0].after):
            return ""
        found = [one for one in changes if stood(one.before) and not stood(one.after)]
        # A merge brings the change of a commit on its other side: name that one, if it is among these.
        return next((one.commit for one in sorted(found, key=lambda one: one.is_merge)), None)


def _changes(said: bytes) -> list[_Change]:
    """Parse the output of ``git log --raw``, newest first."""
    found: list[_Change] = []
    commit = ""
    parents: list[str] = []
    for line in said.splitlines():
        if line.startswith(b":"):
            fields = line.split(b" ")
            if len(fields) >= 5 and commit:
                found.append(_Change(commit, len(parents) > 1, fields[2], fields[3]))
        elif line:
            commit, *parents = line.decode("ascii", "replace").split()
    return found
