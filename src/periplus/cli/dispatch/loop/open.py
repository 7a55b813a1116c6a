"""``periplus loop open``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse

from periplus.cli.common.changes import add_insist, check_typed
from periplus.cli.common.face import Face
from periplus.cli.dispatch.limits import add_limits, limits_of

_KINDS = ("review", "ideation", "debug", "research")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kind", choices=_KINDS, metavar="KIND", help="review, ideation, debug or research")
    add("text", metavar="TEXT", help="what it is about: the fault, the question, what the change is for")
    add("--agent", action="append", dest="agents", default=[], metavar="NAME",
        help="an agent that takes part (repeatable: so many work apart); of a review the first is the author, who answers")  # fmt: skip
    add("--command", dest="check", metavar="COMMAND",
        help="the command that answers and repairs have to pass (default: the setting `oracle`, or none)")  # fmt: skip
    add("--branch", metavar="BRANCH", help="the work that it is about (default: the commit that is checked out)")
    add(
        "--base",
        metavar="COMMIT",
        help="where the change under discussion begins (default: the commit that is checked out)",
    )
    add(
        "--setup",
        metavar="COMMAND",
        help="a command that prepares a new worktree, such as one that installs dependencies",
    )
    add("--link", action="append", dest="links", default=[], metavar="DIR",
        help="a folder of the checkout that worktrees get as a link, such as node_modules (repeatable)")  # fmt: skip
    add("--model", metavar="NAME", help="the model that the agents use, by their own name for it")
    add_limits(parser)
    add_insist(parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    check_typed(arguments)
    from periplus.cli.dispatch.loop.loop_view import show_lines, show_out
    from periplus.cli.dispatch.surroundings import surroundings_of, words_of
    from periplus.dispatch.loops.runner import LoopOrder, open_loop

    with face.open(allow_secrets=arguments.insist) as project:
        around = surroundings_of(face, project)
        typed = arguments.check if arguments.check is not None else around.settings.text("oracle")
        setup = arguments.setup if arguments.setup is not None else around.settings.text("setup")
        order = LoopOrder(
            arguments.kind, arguments.text, tuple(arguments.agents), words_of(typed, "--command"), arguments.branch or "", arguments.base or "",
            words_of(setup, "--setup"), tuple(one.rstrip("/") for one in arguments.links), arguments.model or "", limits_of(arguments),
        )  # fmt: skip
        loop = open_loop(project, order, around.options)
        result = show_out(project.journal, loop)
    return face.emit(result, lambda: show_lines(result, face.palette, face.width))
