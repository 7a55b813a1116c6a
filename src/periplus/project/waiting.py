"""What lies beside the store and is not served from it, for ``doctor``: what git remotes hold of stores that the settings here do not
name, by what the last sync fetched, and journals in linked worktrees, which share the store of the main one.
"""

from __future__ import annotations

__all__ = ["astray_problems", "waiting_problems"]

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.journal.gitstate import read_git
from periplus.journal.layout import Layout
from periplus.journal.settings import read_lineage

if TYPE_CHECKING:
    from periplus.journal.doctor import Problem
    from periplus.project.project import Project

_PREFIX: Final = "refs/periplus/"
_LINEAGES_MAX: Final = 10_000
_TIMEOUT_S: Final = 10.0


def waiting_problems(project: Project) -> Iterator[Problem]:
    """Lineages of a store that nobody has joined to this one here; nothing is fetched."""
    from periplus.journal.doctor import Problem

    folder = os.path.join(project.root, "remotes")
    held = set(project.journal.lineages())
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        stated = {lineage: store for lineage, store in _stated(path).items() if lineage not in held}
        for store, count in sorted(Counter(stated.values()).items()):
            if store not in project.journal.stores:
                yield Problem(
                    "note", f"{count:,} lineage{'s wait' if count != 1 else ' waits'} in a git remote: of store {store}, which config.toml "
                    "here does not name", path, mend="If it was made for this project, too: git pull brings the settings that join the two, "
                    "`periplus sync` then what waits.",
                )  # fmt: skip


def astray_problems(project: Project) -> Iterator[Problem]:
    """Journals that were written in linked worktrees by a Periplus that did not find the clone, and that are not held here."""
    from periplus.journal.doctor import Problem

    git = read_git(project.root)
    for worktree in git.linked if git is not None else ():
        layout = Layout(os.path.dirname(worktree.entities))
        if not os.path.isdir(layout.journal):
            continue
        try:
            own = read_lineage(layout)
        except PeriplusError:
            own = None
        if own is None or own.lineage in project.journal.lineages():
            continue
        yield Problem(
            "warning", "a journal lies in a linked worktree, which shares this store: nothing that was written there is found",
            layout.journal, mend=f"`periplus sync --with {shlex.quote(worktree.folder)}` brings it here.",
        )  # fmt: skip


def _stated(git_dir: str) -> dict[str, str]:
    """The store that each lineage's head names, as far as that can be read."""
    from periplus.interop.gitrun import run_git
    from periplus.journal.carriers.carrier import decode_head
    from periplus.project.making import batch_contents

    try:
        listed = run_git(
            git_dir, "for-each-ref", f"--count={_LINEAGES_MAX}", "--format=%(refname)", _PREFIX, timeout_s=_TIMEOUT_S
        )
        refs = listed.stdout.split()
        asked = b"".join(b"%b:head.json\n" % ref for ref in refs)
        said = run_git(git_dir, "cat-file", "--batch", said=asked, timeout_s=_TIMEOUT_S)
    except PeriplusError:
        return {}  # no git: then nothing was fetched, or nobody can tell
    found = {}
    for ref, data in zip(refs, batch_contents(said.stdout, len(refs)), strict=True):
        lineage = ref.decode("utf-8", "replace").removeprefix(_PREFIX)
        try:
            head = decode_head(data, lineage).head
        except PeriplusError:
            continue
        if head.lineage == lineage:
            found[lineage] = head.store
    return found
