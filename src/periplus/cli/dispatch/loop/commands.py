"""``periplus loop ACTION``: the table of its actions."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
from typing import Final

from periplus.cli.common.actions import Action, add_actions, run_action
from periplus.cli.common.face import Face

ACTIONS: Final = (
    Action("open", "open a loop: review, ideation, debug or research; nothing is started yet", "periplus.cli.dispatch.loop.open"),
    Action("next", "let agents do the present phase, until its gate opens", "periplus.cli.dispatch.loop.next"),
    Action("list", "list the loops of this store", "periplus.cli.dispatch.loop.list"),
    Action("show", "show a loop: its phase, what that lacks, what was handed in", "periplus.cli.dispatch.loop.show"),
    Action("close", "close a loop before its end; its branch stays", "periplus.cli.dispatch.loop.close"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "loop"
    add_actions(parser, ACTIONS)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return run_action(face, arguments, ACTIONS)
