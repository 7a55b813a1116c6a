"""Commands that have actions (``periplus trail ACTION``): a table of them, each with a module of its own."""

from __future__ import annotations

__all__ = ["Action", "add_actions", "run_action"]

import argparse
import importlib
from collections.abc import Sequence
from typing import Any

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face


class Action(NamedTuple):
    """A row of the table: ``module`` has ``configure(parser)`` and ``execute(face, arguments)``."""

    name: str
    help: str
    module: str


def add_actions(parser: argparse.ArgumentParser, actions: Sequence[Action]) -> None:
    """Add a parser for each action. This imports the modules of all of them."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for row in actions:
        description = row.help[0].upper() + row.help[1:] + "."
        action = commands.add_parser(row.name, help=row.help, description=description, allow_abbrev=False)
        _module(row.module).configure(action)


def run_action(face: Face, arguments: argparse.Namespace, actions: Sequence[Action]) -> int:
    """Run the action that was typed and return its exit code."""
    module = next(row.module for row in actions if row.name == arguments.action)
    code: int = _module(module).execute(face, arguments)
    return code


def _module(name: str) -> Any:
    return importlib.import_module(name)
