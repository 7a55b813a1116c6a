"""Worktrees as agents find them: on a branch of their own, with links to what the checkout has, connected to the store."""

from __future__ import annotations

__all__ = ["bring_folders", "placed_paths", "prepare"]

import os
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError, environment_failure
from periplus.dispatch.places import RESULT_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from periplus.dispatch.adapters import Adapter
    from periplus.dispatch.supervision.workplace import Workplace
    from periplus.memory.entities.schemas import Assignment


_PART: Final = ".periplus-part"


def prepare(at: Workplace, value: Assignment, adapter: Adapter) -> list[str]:
    """Make the worktree of an assignment ready for its agent, and return what a person should know. Idempotent."""
    path = at.worktree(value)
    at.repository.add_worktree(path, value.branch, value.base)
    bring_folders(at, path)
    remarks = _connect(at, path, adapter)
    at.repository.hide(path, placed_paths(at, path, adapter))
    return remarks


def bring_folders(at: Workplace, path: str) -> None:
    """Bring folders of the checkout into a worktree, as links or as copies, where it has nothing of that name."""
    for names, bring in ((at.linked(), os.symlink), (at.copied(), _copy)):
        for name in names:
            place = os.path.join(path, name)
            if os.path.lexists(place):
                continue
            try:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                bring(os.path.join(at.project.folder, name), place)
            except OSError as error:
                raise environment_failure(error, f"bring {name} into", path) from error


def _copy(source: str, place: str) -> None:
    """Copy a file or a folder; a copy that was interrupted is begun anew."""
    import shutil

    part = f"{place}{_PART}"
    if os.path.isdir(part):
        shutil.rmtree(part)
    if os.path.isdir(source):
        shutil.copytree(source, part, symlinks=True)
    else:
        shutil.copy2(source, part)
    os.rename(part, place)


def placed_paths(at: Workplace, path: str, adapter: Adapter | None) -> list[str]:
    """Return the paths of a worktree that are ours, and no work of an agent: those that are there."""
    import glob

    names = [RESULT_FILE, *at.linked(), *at.copied()]
    if adapter is not None and adapter.connects:
        names += [os.path.relpath(one, path) for one in _connected_files(at, path, adapter)]
    for pattern in adapter.leaves if adapter is not None else ():
        names += glob.glob(pattern, root_dir=path, include_hidden=True)
    return [name for name in dict.fromkeys(names) if os.path.lexists(os.path.join(path, name))]


def _connect(at: Workplace, path: str, adapter: Adapter) -> list[str]:
    """Give the agent hooks, server and instructions of Periplus in its worktree; return why that could not be done."""
    if not adapter.connects:
        return []
    from periplus.interop.agents import agent_named

    try:
        connecting = at.connecting(path)
        connecting.apply(connecting.plan([agent_named(adapter.connects)]))
    except PeriplusError as error:
        return [f"{adapter.title} works without hooks: {error}"]
    return []


def _connected_files(at: Workplace, path: str, adapter: Adapter) -> Sequence[str]:
    """Return the files that connecting the agent writes in a worktree."""
    from periplus.interop.agents import agent_named

    connecting = at.connecting(path)
    return [part.path for part in agent_named(adapter.connects).parts(connecting.site)]
