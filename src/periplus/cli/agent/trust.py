"""``trust``: list or change the folders whose own settings the agent follows."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from typing import TYPE_CHECKING

from periplus.cli.agent.environment import leave_out_relative_folders, user_folder
from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from collections.abc import Iterator


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "trust"
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)

    action("list", "list trusted folders")
    for name, what in (
        ("give", "trust a folder: follow its own settings, instructions and skills"),
        ("withdraw", "stop trusting a folder"),
    ):
        action(name, what).add_argument(
            "folder", nargs="?", default=".", metavar="FOLDER", help="the folder (default: this one)"
        )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.trust import SPEAKING, Trust
    from periplus.base.errors import NotFoundError
    from periplus.cli.agent.schemas import TrustOut

    leave_out_relative_folders()
    trust = Trust(user_folder(face))
    changed = ""
    if arguments.action != "list":
        folder = os.path.realpath(os.path.join(face.cwd, arguments.folder))
        if not os.path.isdir(folder) and arguments.action == "give":
            raise NotFoundError(f"there is no folder {folder}", safe="Nothing was changed.", mend="Check the name.")
        if arguments.action == "give":
            trust.give(folder)
        elif not trust.take(folder):
            raise NotFoundError(
                f"{folder} is not trusted", safe="Nothing was changed.", mend="See `periplus trust list`."
            )
        changed = folder
    folders = trust.folders()

    def lines() -> Iterator[str]:
        if changed:
            yield f"{visible(changed)} is {'trusted in its current state' if changed in folders else 'no longer trusted'}."
            if changed in folders:
                speaks = [name for name in SPEAKING if os.path.lexists(os.path.join(changed, name))]
                yield f"Files that the agent follows there: {', '.join(speaks) or 'none yet'}." + (
                    " To review: periplus run --dry-run x, periplus servers list, periplus skills list."
                    if speaks
                    else ""
                )
        else:
            yield from map(visible, folders or ["There are no trusted folders."])

    face.emit(TrustOut(folders), lines)
    return 0 if folders or changed else 1
