"""``agents``: the coding agents that can be connected, and how they stand on this machine."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, columns, visible

if TYPE_CHECKING:
    from periplus.cli.integration.agents_schemas import AgentCostOut, AgentOut
    from periplus.project.agent_hooks.agent_survey import Surveyed

_HEADINGS: Final = ("agent", "found", "connected", "hooks heard", "to import", "tried")


def configure(parser: argparse.ArgumentParser, command: str) -> None:  # noqa: ARG001 - as all commands have it
    parser.add_argument("--all", action="store_true", help="also list agents that are neither found nor connected")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.inputs import sessions_of
    from periplus.cli.integration.agents_schemas import AgentsOut
    from periplus.cli.integration.connection import keeping_of, machine_of
    from periplus.project.agent_hooks.agent_survey import survey
    from periplus.project.agent_hooks.connection import for_person

    machine = machine_of(face, "", "user")
    with face.open() as project:
        places = (project.connecting.here(machine), for_person(machine, keeping_of(face)))
        found = survey(project, places, machine, sessions_of(project.root, face.home, face.environment))
    result = AgentsOut([_out(one) for one in found], _cost())

    def lines() -> Iterator[str]:
        shown = [one for one in result.agents if arguments.all or one.found or one.connected or one.heard]
        others = [one.name for one in result.agents if one not in shown]
        if shown:
            yield from _table([_HEADINGS, *map(_cells, shown)])
        tokens = result.tokens
        yield (f"A connected agent spends about {tokens.tools + tokens.instructions + tokens.block + tokens.skill:,} tokens before the first prompt, at most: tools {tokens.tools:,}, "
               f"instructions of the server {tokens.instructions:,}, block in its file {tokens.block:,}, skill in its list {tokens.skill:,}.")  # fmt: skip
        if others:
            yield f"Not found here: {', '.join(others)}"
        if not any(one.connected for one in result.agents):
            yield "No agent is connected. Next: periplus connect"
        elif any(one.waiting for one in result.agents):
            yield "Next, import what waits: periplus trail import --all"

    return face.emit(result, lines)


def _out(one: Surveyed) -> AgentOut:
    from periplus.cli.integration.agents_schemas import AgentOut

    agent = one.agent
    return AgentOut(agent.name, agent.title, one.is_found, one.program, list(one.scopes), list(one.parts), one.heard or None,
                    one.waiting, agent.tried, agent.listed, list(agent.sources), list(agent.lacks))  # fmt: skip


def _cost() -> AgentCostOut:
    from periplus.cli.integration.agents_schemas import AgentCostOut
    from periplus.server.mcp.connection_cost import largest_cost

    return AgentCostOut(*largest_cost())


def _cells(one: AgentOut) -> tuple[str, ...]:
    """Return the cells of a row, in the order of the headings."""
    found = visible(one.program) if one.program else "its files" if one.found else "-"
    heard = f"{one.heard[:16]}Z" if one.heard else "never" if "hooks" in one.parts else "has none"
    waiting = "not read" if one.waiting is None else f"{one.waiting:,}"
    tried = f"version {one.tried}" if one.tried else f"{one.listed} lists it" if one.listed else "by its documentation"
    return one.name, found, ", ".join(one.connected) or "-", heard, waiting, tried


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(columns(row[at]) for row in rows) for at in range(len(_HEADINGS))]
    for row in rows:
        yield "  ".join(cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
