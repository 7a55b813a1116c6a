"""``periplus dispatch drop``: remove the worktree and the branch of an assignment that ended."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, counted, visible

if TYPE_CHECKING:
    from periplus.dispatch.control import Loss


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the assignment, or its step, or a unique prefix of the id")
    parser.add_argument("--yes", action="store_true", help="do not ask, also where work is lost")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import RefusedError
    from periplus.cli.common.changes import check_typed
    from periplus.cli.dispatch.schemas import DroppedOut
    from periplus.cli.dispatch.surroundings import state_folder
    from periplus.dispatch.control import drop, loss
    from periplus.dispatch.places import Places
    from periplus.dispatch.repository import Repository

    check_typed(arguments)
    with face.open() as project:
        worktrees = Places.of(state_folder(face), project.root).worktree("")
        repository = Repository(project.folder, face.environment)
        lost = loss(project, repository, arguments.id, worktrees)
        if lost and not arguments.yes and not _agreed(face, lost):
            raise RefusedError(
                f"not removed: {_words(lost)} would be lost", safe="Nothing was removed.",
                mend=f"To remove it all the same: periplus dispatch drop {arguments.id} --yes",
            )  # fmt: skip
        done = drop(project, repository, arguments.id, worktrees)
    result = DroppedOut(
        done.assignment.item_id, done.worktree, done.branch, done.tip, lost.commits, list(lost.uncommitted)
    )

    def lines() -> Iterator[str]:
        if not done.worktree and not done.tip:
            yield f"{result.assignment} has no worktree and no branch."
            return
        yield f"Removed the worktree and the branch of {result.assignment}."
        if done.tip:
            yield f"Its last commit was {done.tip}; git keeps it for some time: git branch NAME {done.tip[:12]}"

    return face.emit(result, lines)


def _agreed(face: Face, lost: Loss) -> bool:
    """Show what would be lost, and ask a person. False where nobody can be asked."""
    if not (sys.stdin.isatty() and face.stderr.isatty()) or face.as_json:
        return False
    face.stderr.write(f"This would lose {_words(lost)}:\n")
    for path in lost.uncommitted:
        face.stderr.write(f"  {visible(path)}\n")
    face.stderr.write("Remove it? [y/N] ")
    face.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _words(lost: Loss) -> str:
    parts = [counted(lost.commits, "commits")] if lost.commits else []
    parts += [f"uncommitted {counted(len(lost.uncommitted), 'files')}"] if lost.uncommitted else []
    return " and ".join(parts)
