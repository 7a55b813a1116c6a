"""``periplus trail ACTION``: the table of its actions."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
from typing import Final

from periplus.cli.common.actions import Action, add_actions, run_action
from periplus.cli.common.face import Face

ACTIONS: Final = (
    Action("compile", "make a trail of a worklog, the steps of a run in JSON", "periplus.cli.trail.conversion.compile"),
    Action("encode", "write a trail, or what `decode` wrote, in version 2 or 1", "periplus.cli.trail.conversion.encode"),
    Action("decode", "write a trail of version 2 or 1 as a worklog, and tell what is damaged", "periplus.cli.trail.conversion.decode"),
    Action("concat", "one file of several trails, in order", "periplus.cli.trail.conversion.concat"),
    Action("import", "make trails of agents' session files, or of git history", "periplus.cli.trail.conversion.session_import"),
    Action("list", "the trails of this store", "periplus.cli.trail.list"),
    Action("record", "record a run: its steps as lines of JSON on standard input, each acknowledged when it is durable", "periplus.cli.trail.record"),
    Action("seal", "end a run that is open and make its trail; or of every run that was left", "periplus.cli.trail.seal"),
    Action("redact", "write a trail that withholds what should not be shared; digest and signature still hold", "periplus.cli.trail.redact"),
    Action("diff", "compare two trails: what both did, and where they part", "periplus.cli.trail.diff"),
    Action("prove", "write a proof of one step that needs no trail to check", "periplus.cli.trail.prove"),
    Action("show", "the listing of a trail", "periplus.cli.trail.show"),
    Action("export", "write a trail in another format: a report, spans, an attestation", "periplus.cli.trail.conversion.export"),
    Action("replay", "carry a trail out again, dry or in a folder of its own, and compare", "periplus.cli.trail.replay"),
    Action("sign", "sign a trail by the key of this store", "periplus.cli.trail.sign"),
    Action("verify", "check trails, byte by byte", "periplus.cli.trail.verify"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "trail"
    add_actions(parser, ACTIONS)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return run_action(face, arguments, ACTIONS)
