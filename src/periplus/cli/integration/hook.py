"""``periplus hook`` as the command line sees it: its words, for help and reference. The work is ``hook_entry``'s."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse

from periplus.cli.common.face import Face


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    del command
    add = parser.add_argument
    add("event", metavar="EVENT", help="as the agent calls it, such as SessionStart, PostToolUse, BeforeTool; its JSON on standard input")  # fmt: skip
    add("--agent", default="claude-code", metavar="AGENT",
        help="claude-code, codex, cursor, vscode, gemini or opencode (default: claude-code)")  # fmt: skip
    add("--wait", action="store_true", help="take in what the hook left before leaving, for machines that end with their agent")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.hook_entry import tell_hook

    words = [arguments.event, f"--agent={arguments.agent}"]
    words += ["--wait"] if arguments.wait else []
    words += [f"--store={face.store_option}"] if face.store_option else []
    tell_hook(words)
    return 0
