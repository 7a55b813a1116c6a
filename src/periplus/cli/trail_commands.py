"""``periplus trail ACTION``: one table; an action's module is imported when it is the one that was typed, or for help."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
import importlib
from typing import Any, Final

from periplus.cli.face import Face

# Name, help, module of this package: it has ``configure(parser)`` and ``execute(face, arguments)``.
ACTIONS: Final[tuple[tuple[str, str, str], ...]] = (
    ("compile", "make a trail of a worklog, the steps of a run in JSON", "trail_compile"),
    ("encode", "write a trail, or what `decode` wrote, in version 2 or 1", "trail_encode"),
    ("decode", "write a trail of version 2 or 1 as a worklog, and tell what is damaged", "trail_decode"),
    ("concat", "one file of several trails, in order", "trail_concat"),
    ("import", "make trails of agents' session files, or of git history", "trail_import"),
    ("list", "the trails of this store", "trail_list"),
    (
        "record",
        "record a run: its steps as lines of JSON on standard input, each acknowledged when it is durable",
        "trail_record",
    ),
    ("seal", "end a run that is open and make its trail; or of every run that was left", "trail_seal"),
    (
        "redact",
        "write a trail that withholds what should not be shared; digest and signature still hold",
        "trail_redact",
    ),
    ("diff", "compare two trails: what both did, and where they part", "trail_diff"),
    ("prove", "write a proof of one step that needs no trail to check", "trail_prove"),
    ("show", "the listing of a trail", "trail_show"),
    ("export", "write a trail in another format: a report, spans, an attestation", "trail_export"),
    ("replay", "carry a trail out again, dry or in a folder of its own, and compare", "trail_replay"),
    ("sign", "sign a trail by the key of this store", "trail_sign"),
    ("verify", "check trails, byte by byte", "trail_verify"),
)


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "trail"
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
