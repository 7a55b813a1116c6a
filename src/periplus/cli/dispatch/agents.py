"""``periplus dispatch agents``: the agents that can do steps, and whether they work on this machine."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.dispatch.schemas import AgentsOut, TrialFindingOut
    from periplus.dispatch.adapters import Adapter


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these agents (default: all)")
    parser.add_argument("--check", action="store_true",
                        help="start each program that is found, without a request to a model, and report what does not work")  # fmt: skip


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.settings import load_settings
    from periplus.base.errors import NotFoundError
    from periplus.cli.agent.environment import leave_out_relative_folders, user_folder
    from periplus.cli.common.changes import check_typed
    from periplus.cli.dispatch.schemas import AgentsOut, DispatchAgentOut
    from periplus.cli.dispatch.surroundings import found_program
    from periplus.dispatch.adapters import ADAPTERS, adapters_with

    check_typed(arguments)
    leave_out_relative_folders()
    settings = load_settings(user_folder(face), face.cwd, trusted=False, environment=face.environment, flags={})
    known = adapters_with(settings.agents)
    for name in arguments.names:
        if name not in known:
            raise NotFoundError(f"there is no agent {name[:80]!r}", mend=f"Known are: {', '.join(known)}; for another one add [agents.NAME] to your agent.toml.")  # fmt: skip
    shipped = {adapter.name for adapter in ADAPTERS}
    found = []
    for adapter in known.values():
        if arguments.names and adapter.name not in arguments.names:
            continue
        path = found_program(face, adapter)
        trial = _trial(face, adapter) if arguments.check and (path or arguments.names) else []
        found.append(DispatchAgentOut(
            adapter.name, adapter.title, list(adapter.programs), path, adapter.versions, adapter.name not in shipped, adapter.can_resume, trial,
        ))  # fmt: skip
    result = AgentsOut(found, arguments.check)
    is_wrong = any(finding.wrong for one in found for finding in one.findings) or not any(one.path for one in found)
    return face.emit(result, lambda: _lines(face, result), 1 if is_wrong else 0)


def _trial(face: Face, adapter: Adapter) -> list[TrialFindingOut]:
    import os
    import sys
    import tempfile

    from periplus.cli.dispatch.schemas import TrialFindingOut
    from periplus.cli.dispatch.surroundings import own_command
    from periplus.dispatch.adapters import check
    from periplus.dispatch.adapters.environment import program_folders
    from periplus.project.agent_hooks.connection import Machine

    environment = face.environment
    machine = Machine(
        face.home, environment.get("XDG_CONFIG_HOME") or os.path.join(face.home, ".config"),
        environment.get("CODEX_HOME") or os.path.join(face.home, ".codex"), sys.platform == "darwin", program_folders(environment),
        own_command(face), environment,
    )  # fmt: skip
    face.tell_terminal(f"trying {adapter.name}")
    with tempfile.TemporaryDirectory(prefix="periplus-trial-") as scratch:
        return [TrialFindingOut(one.what, one.says, one.wrong, one.mend) for one in check(adapter, machine, scratch)]


def _lines(face: Face, result: AgentsOut) -> Iterator[str]:
    paint, width = face.palette, face.width
    for one in result.agents:
        programs = " or ".join(one.programs) or "periplus"
        state = (
            visible(one.path) if one.path else f"{paint.dim}not found: no {visible(programs)} on the PATH{paint.end}"
        )
        tried = f"  tried with {visible(one.versions)}" if one.versions else "  from your agent.toml" if one.own else ""
        yield f"{paint.name}{visible(one.name):14}{paint.end} {state}{tried}"
        for finding in one.findings:
            if finding.wrong:
                yield f"  {paint.bad}{visible(finding.what)}{paint.end}: {visible(finding.wrong)}"
            else:
                yield f"  {paint.good}{visible(finding.what)}{paint.end}: {visible(finding.says)}"
            if finding.mend:
                yield f"    {visible(finding.mend, width and width - 4)}"
    if not result.checked:
        yield "To try them: periplus dispatch agents --check"
