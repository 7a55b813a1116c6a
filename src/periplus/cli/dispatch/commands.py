"""``periplus dispatch ACTION``: the table of its actions."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
from typing import Final

from periplus.cli.common.actions import Action, add_actions, run_action
from periplus.cli.common.face import Face

ACTIONS: Final = (
    Action("list", "list the dispatches of this store", "periplus.cli.dispatch.list"),
    Action("show", "show a dispatch with all its steps, or one assignment with its runs and returns", "periplus.cli.dispatch.show"),
    Action("answer", "answer a question that an agent asked", "periplus.cli.dispatch.answer"),
    Action("retry", "let steps that failed or were cancelled be tried once more", "periplus.cli.dispatch.retry"),
    Action("stop", "stop a dispatch; what its agents did stays in their worktrees", "periplus.cli.dispatch.stop"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "dispatch"
    add_actions(parser, ACTIONS)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return run_action(face, arguments, ACTIONS)
