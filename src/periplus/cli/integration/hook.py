"""``periplus hook`` for help and reference. ``hook_entry`` handles the real calls."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse

from periplus.cli.common.face import Face
from periplus.interop.hooks.events import AGENTS


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    add = parser.add_argument
    add("event", metavar="EVENT", help="the agent's name of the event, such as SessionStart, PostToolUse, BeforeTool; its JSON on standard input")  # fmt: skip
    add("--agent", default="claude-code", metavar="AGENT",
        help=f"one of {', '.join(AGENTS)} (default: claude-code)")  # fmt: skip
    add("--wait", action="store_true", help="process the event before exiting, for machines that stop with their agent")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.hook_entry import tell_hook

    words = [arguments.event, f"--agent={arguments.agent}"]
    words += ["--wait"] if arguments.wait else []
    words += [f"--store={face.store_option}"] if face.store_option else []
    tell_hook(words)
    return 0
