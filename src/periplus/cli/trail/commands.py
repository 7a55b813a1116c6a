"""``periplus trail ACTION``: the table of its actions."""

from __future__ import annotations

__all__ = ["ACTIONS", "configure", "execute"]

import argparse
from typing import Final

from periplus.cli.common.actions import Action, add_actions, run_action
from periplus.cli.common.face import Face

ACTIONS: Final = (
    Action("compile", "compile a worklog (the steps of a run as JSON) to a trail", "periplus.cli.trail.conversion.compile"),
    Action("encode", "write a trail, or the output of `decode`, in version 2 or 1", "periplus.cli.trail.conversion.encode"),
    Action("decode", "write a trail as a worklog, and report damage", "periplus.cli.trail.conversion.decode"),
    Action("concat", "write several trails to one file", "periplus.cli.trail.conversion.concat"),
    Action("import", "import session files of agents, or git history, as trails", "periplus.cli.trail.conversion.session_import"),
    Action("list", "list the trails of this store", "periplus.cli.trail.list"),
    Action("record", "record a run: read its steps as lines of JSON, and acknowledge each when it is durable", "periplus.cli.trail.record"),
    Action("seal", "end an open run and make its trail, or all runs that their processes left", "periplus.cli.trail.seal"),
    Action("redact", "write a copy of a trail without what should not be shared; digest and signature stay valid", "periplus.cli.trail.redact"),
    Action("diff", "compare two trails: common steps and differences", "periplus.cli.trail.diff"),
    Action("prove", "write a proof of one step that can be checked without the trail", "periplus.cli.trail.prove"),
    Action("show", "list the steps of a trail", "periplus.cli.trail.show"),
    Action("export", "export a trail to another format: a report, spans, an attestation", "periplus.cli.trail.conversion.export"),
    Action("replay", "replay a trail, dry or in a separate folder, and compare the results", "periplus.cli.trail.replay"),
    Action("sign", "sign a trail with the key of this store", "periplus.cli.trail.sign"),
    Action("verify", "verify trails byte by byte", "periplus.cli.trail.verify"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "trail"
    add_actions(parser, ACTIONS)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    return run_action(face, arguments, ACTIONS)
