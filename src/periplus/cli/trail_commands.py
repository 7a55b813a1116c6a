"""``periplus trail ACTION``: the table of its actions."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
from typing import Final

from periplus.cli.actions import Action, add_actions, run_action
from periplus.cli.face import Face

ACTIONS: Final = (
    Action("compile", "make a trail of a worklog, the steps of a run in JSON", "periplus.cli.trail_compile"),
    Action("encode", "write a trail, or what `decode` wrote, in version 2 or 1", "periplus.cli.trail_encode"),
    Action("decode", "write a trail of version 2 or 1 as a worklog, and tell what is damaged", "periplus.cli.trail_decode"),
    Action("concat", "one file of several trails, in order", "periplus.cli.trail_concat"),
    Action("import", "make trails of agents' session files, or of git history", "periplus.cli.trail_import"),
    Action("list", "the trails of this store", "periplus.cli.trail_list"),
    Action("record", "record a run: its steps as lines of JSON on standard input, each acknowledged when it is durable", "periplus.cli.trail_record"),
    Action("seal", "end a run that is open and make its trail; or of every run that was left", "periplus.cli.trail_seal"),
    Action("redact", "write a trail that withholds what should not be shared; digest and signature still hold", "periplus.cli.trail_redact"),
    Action("diff", "compare two trails: what both did, and where they part", "periplus.cli.trail_diff"),
    Action("prove", "write a proof of one step that needs no trail to check", "periplus.cli.trail_prove"),
    Action("show", "the listing of a trail", "periplus.cli.trail_show"),
    Action("export", "write a trail in another format: a report, spans, an attestation", "periplus.cli.trail_export"),
    Action("replay", "carry a trail out again, dry or in a folder of its own, and compare", "periplus.cli.trail_replay"),
    Action("sign", "sign a trail by the key of this store", "periplus.cli.trail_sign"),
    Action("verify", "check trails, byte by byte", "periplus.cli.trail_verify"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "trail"
    add_actions(parser, ACTIONS)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return run_action(face, arguments, ACTIONS)
