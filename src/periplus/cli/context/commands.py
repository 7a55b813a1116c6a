"""``periplus context ACTION``: the table of its actions."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
from typing import Final

from periplus.cli.common.actions import Action, add_actions, run_action
from periplus.cli.common.face import Face

ACTIONS: Final = (
    Action("commit", "add atoms of a file, of memory or of a trail to a context, or remove some", "periplus.cli.context.commit"),
    Action("log", "the contexts that one stands on, newest first", "periplus.cli.context.log"),
    Action("show", "one context: what it added, annotated anew and removed", "periplus.cli.context.show"),
    Action("diff", "what one context has beside another, and what it lacks", "periplus.cli.context.diff"),
    Action("merge", "bring two contexts together, or a ref that clones moved apart", "periplus.cli.context.merge"),
    Action("blame", "which context brought an atom, who and from where", "periplus.cli.context.blame"),
    Action("bisect", "find the first context for which something holds", "periplus.cli.context.bisect"),
    Action("expand", "all atoms that a context stands for, most relevant first", "periplus.cli.context.expand"),
    Action("select", "the atoms that answer a question within a budget of tokens", "periplus.cli.context.select"),
    Action("stream", "the expansion in chunks, as they come; whoever stops reading pays no more", "periplus.cli.context.stream"),
    Action("refs", "the names of contexts; set, move or end one", "periplus.cli.context.refs"),
    Action("push", "send a context to another store", "periplus.cli.context.push"),
    Action("pull", "fetch a context of another store, verified", "periplus.cli.context.pull"),
    Action("clone", "fetch all refs of another store, into a new one where there is none", "periplus.cli.context.clone"),
    Action("serve", "answer others' requests for contexts, on a socket of this machine or over TCP", "periplus.cli.context.serve"),
    Action("gc", "park what no ref reaches, and with --prune remove what was parked long ago", "periplus.cli.context.gc"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "context"
    add_actions(parser, ACTIONS)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return run_action(face, arguments, ACTIONS)
