"""Problems around the store, for ``doctor``: unjoined lineages in git remotes, journals elsewhere in the repository,
and sparse checkouts.

Git remotes may hold lineages of stores that the settings here do not name, by the last fetch; other places of the
repository may have journals that share the store; and git may remove the store's folder.
"""

from __future__ import annotations

__all__ = ["stray_journal_problems", "unjoined_lineage_problems"]

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.filesystem.git_files import pointed
from periplus.journal.projections.git_state import read_git, sparse_checkout
from periplus.journal.storage.layout import Layout
from periplus.journal.storage.settings import read_lineage

if TYPE_CHECKING:
    from periplus.journal.care.doctor import Problem
    from periplus.project.store import ProjectStore

_PREFIX: Final = "refs/periplus/"
_LINEAGES_MAX: Final = 10_000
_TIMEOUT_S: Final = 10.0


def unjoined_lineage_problems(project: ProjectStore) -> Iterator[Problem]:
    """Yield the lineages of stores that nobody has joined to this one here; nothing is fetched."""
    from periplus.journal.care.doctor import Problem

    folder = os.path.join(project.root, "remotes")
    held = set(project.journal.lineages())
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if not name.endswith(".git"):
            continue  # the lock beside it
        path = os.path.join(folder, name)
        stated = {lineage: store for lineage, store in _stated(path).items() if lineage not in held}
        for store, count in sorted(Counter(stated.values()).items()):
            if store not in project.journal.stores:
                yield Problem(
                    "note", f"{count:,} lineage{'s wait' if count != 1 else ' waits'} in a git remote: of store {store}, which config.toml "
                    "here does not name", path, mend="If it was made for this project, too: `git pull` brings the settings that join the two "
                    "stores, then `periplus sync` brings the lineages.",
                )  # fmt: skip


def stray_journal_problems(project: ProjectStore) -> Iterator[Problem]:
    """Yield journals of this repository that lie where an earlier Periplus did not find this store, and that are not
    held here; and a store that git would remove.
    """
    from periplus.journal.care.doctor import Problem

    sparse = sparse_checkout(project.root)
    if sparse.state == "outside":
        yield Problem(
            "warning", "git's sparse-checkout excludes .periplus: its next run deletes the folder, with the journal", project.root,
            mend=f"To keep it: `{sparse.add}`.",
        )  # fmt: skip

    for place, root, serves in _other_places(project.root):
        layout = Layout(root)
        if not os.path.isdir(layout.journal):
            continue
        try:
            own = read_lineage(layout)
        except PeriplusError:
            own = None
        if own is None:
            continue
        is_held = own.lineage in project.journal.lineages()
        if is_held and not serves:
            continue
        seen = (
            "worktrees that lead there do not see what is here"
            if is_held
            else "nothing that was written there is found"
        )
        mend = f"`periplus sync --with {shlex.quote(os.path.dirname(root))}` brings it here."
        if own.store not in project.journal.stores:
            mend = f'If it was made for this project, write `joined = ["{own.store}"]` under [store] in config.toml. {mend}'
        if serves:
            mend += " Then move that folder away: all worktrees lead to this one."
        yield Problem(
            "warning", f"a journal lies in {place}, which shares this store: {seen}", layout.journal, mend=mend
        )


def _other_places(root: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the other places where a store of the repository may have been made: a description, its ``.periplus``,
    and whether some worktrees use it as their store.
    """
    git = read_git(root)
    if git is None:
        return
    for worktree in git.linked:
        yield "a linked worktree", os.path.dirname(worktree.entities), False
    common, name = git.main.git_folder, os.path.basename(root)
    beside = os.path.dirname(common)
    if git.main.folder == common and pointed(os.path.join(beside, ".git")) == common:
        yield "the folder beside the bare repository", os.path.join(beside, name), True
    elif os.path.basename(common) != ".git" and os.path.join(common, name) != root:
        yield "the repository's git folder", os.path.join(common, name), True


def _stated(git_dir: str) -> dict[str, str]:
    """Return the store that each lineage's head names, where it can be read."""
    from periplus.interop.git_history.git_process import run_git
    from periplus.journal.storage.tree_head import decode_head
    from periplus.project.store_creation import batch_contents

    try:
        listed = run_git(
            git_dir, "for-each-ref", f"--count={_LINEAGES_MAX}", "--format=%(refname)", _PREFIX, timeout_s=_TIMEOUT_S
        )
        refs = listed.stdout.split()
        asked = b"".join(b"%b:head.json\n" % ref for ref in refs)
        said = run_git(git_dir, "cat-file", "--batch", said=asked, timeout_s=_TIMEOUT_S)
    except PeriplusError:
        return {}  # no git: nothing was fetched, or it is unknown
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
