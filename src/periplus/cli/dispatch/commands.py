"""``periplus dispatch ACTION``: the table of its actions."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
from typing import Final

from periplus.cli.common.actions import Action, add_actions, run_action
from periplus.cli.common.face import Face

ACTIONS: Final = (
    Action("start", "start a dispatch, or go on with one, and carry it until every step is merged or has ended", "periplus.cli.dispatch.start"),
    Action("watch", "show a dispatch while it changes, or with --json its events", "periplus.cli.dispatch.watch"),
    Action("list", "list the dispatches of this store", "periplus.cli.dispatch.list"),
    Action("show", "show a dispatch with all its steps, or one assignment with its runs and returns", "periplus.cli.dispatch.show"),
    Action("answer", "answer a question that an agent asked", "periplus.cli.dispatch.answer"),
    Action("retry", "let steps that failed or were cancelled be tried once more", "periplus.cli.dispatch.retry"),
    Action("stop", "stop a dispatch; what its agents did stays in their worktrees", "periplus.cli.dispatch.stop"),
    Action("drop", "remove the worktree and the branch of an assignment that ended", "periplus.cli.dispatch.drop"),
    Action("agents", "list the agents that can do steps, and try them with --check", "periplus.cli.dispatch.agents"),
    Action("standing", "compare agents by how their work turned out", "periplus.cli.dispatch.standing"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "dispatch"
    add_actions(parser, ACTIONS)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return run_action(face, arguments, ACTIONS)
