"""``periplus context ACTION``: one table; an action's module is imported when it is the one that was typed, or for help."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
import importlib
from typing import Any, Final

from periplus.cli.face import Face

# Name, help, module of this package: it has ``configure(parser)`` and ``execute(face, arguments)``.
ACTIONS: Final[tuple[tuple[str, str, str], ...]] = (
    ("commit", "add atoms of a file, of memory or of a trail to a context, or remove some", "context_commit"),
    ("log", "the contexts that one stands on, newest first", "context_log"),
    ("show", "one context: what it added, annotated anew and removed", "context_show"),
    ("diff", "what one context has beside another, and what it lacks", "context_diff"),
    ("merge", "bring two contexts together, or a ref that clones moved apart", "context_merge"),
    ("blame", "which context brought an atom, who and from where", "context_blame"),
    ("bisect", "find the first context for which something holds", "context_bisect"),
    ("expand", "all atoms that a context stands for, most relevant first", "context_expand"),
    ("select", "the atoms that answer a question within a budget of tokens", "context_select"),
    ("stream", "the expansion in chunks, as they come; whoever stops reading pays no more", "context_stream"),
    ("refs", "the names of contexts; set, move or end one", "context_refs"),
    ("push", "send a context to another store", "context_push"),
    ("pull", "fetch a context of another store, verified", "context_pull"),
    ("clone", "fetch all refs of another store, into a new one where there is none", "context_clone"),
    ("serve", "answer others' requests for contexts, on a socket of this machine or over TCP", "context_serve"),
    ("gc", "park what no ref reaches, and with --prune remove what was parked long ago", "context_gc"),
)


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "context"
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text, module in ACTIONS:
        description = text[0].upper() + text[1:] + "."
        action = commands.add_parser(name, help=text, description=description, allow_abbrev=False)
        _module(module).configure(action)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    module = next(module for name, _, module in ACTIONS if name == arguments.action)
    code: int = _module(module).execute(face, arguments)
    return code


def _module(name: str) -> Any:
    return importlib.import_module(f"periplus.cli.{name}")
