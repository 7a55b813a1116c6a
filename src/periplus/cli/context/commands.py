"""``periplus context ACTION``: the table of its actions."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
from typing import Final

from periplus.cli.common.actions import Action, add_actions, run_action
from periplus.cli.common.face import Face

ACTIONS: Final = (
    Action("commit", "add atoms from a file, from memory or from a trail to a context, or remove atoms", "periplus.cli.context.commit"),
    Action("log", "list the history of a context, newest first", "periplus.cli.context.log"),
    Action("show", "show one context: atoms added, annotated and removed", "periplus.cli.context.show"),
    Action("diff", "compare the atoms of two contexts", "periplus.cli.context.diff"),
    Action("merge", "merge two contexts, or the two ends of a ref that clones moved apart", "periplus.cli.context.merge"),
    Action("blame", "show which context added an atom, who wrote it, and its source", "periplus.cli.context.blame"),
    Action("bisect", "find the first context that passes a test", "periplus.cli.context.bisect"),
    Action("expand", "list all atoms of a context, the most relevant first", "periplus.cli.context.expand"),
    Action("select", "select atoms that answer a question, within a token budget", "periplus.cli.context.select"),
    Action("stream", "stream the atoms of a context in chunks", "periplus.cli.context.stream"),
    Action("refs", "list the refs (names of contexts); set or end one", "periplus.cli.context.refs"),
    Action("push", "send a context to another store", "periplus.cli.context.push"),
    Action("pull", "fetch a context from another store and verify it", "periplus.cli.context.pull"),
    Action("clone", "fetch all refs of another store, into a new store if needed", "periplus.cli.context.clone"),
    Action("serve", "serve contexts to others, on a Unix socket or over TCP", "periplus.cli.context.serve"),
    Action("gc", "park objects that no ref reaches; with --prune, delete what was parked long ago", "periplus.cli.context.gc"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "context"
    add_actions(parser, ACTIONS)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return run_action(face, arguments, ACTIONS)
