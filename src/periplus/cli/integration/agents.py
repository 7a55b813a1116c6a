"""``agents``: the coding agents that can be connected, and how they stand on this machine."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, columns, visible

if TYPE_CHECKING:
    from periplus.cli.integration.agents_schemas import AgentCostOut, AgentOut, AgentsOut
    from periplus.project.agent_hooks.agent_survey import Surveyed
    from periplus.project.agent_hooks.said_tokens import SaidTokens

_HEADINGS: Final = ("agent", "found", "version", "connected", "hooks heard", "to import", "tried")


def configure(parser: argparse.ArgumentParser, command: str) -> None:  # noqa: ARG001 - as all commands have it
    parser.add_argument("--all", action="store_true", help="also list agents that are neither found nor connected")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.inputs import sessions_of
    from periplus.cli.integration.agents_schemas import AgentCostOut, AgentsOut
    from periplus.cli.integration.connection import keeping_of, machine_of
    from periplus.project.agent_hooks.agent_survey import program_versions, survey
    from periplus.project.agent_hooks.connection import for_person
    from periplus.server.mcp.connection_cost import largest_cost

    machine = machine_of(face, "", "user")
    with face.open() as project:
        places = (project.connecting.here(machine), for_person(machine, keeping_of(face)))
        found = survey(project, places, machine, sessions_of(project.root, face.home, face.environment))
        said = project.hooks.said()
    versions = program_versions(found, machine, places[0].site.folder)
    result = AgentsOut(
        [_out(one, said.get(one.agent.name), versions.get(one.agent.name, "")) for one in found],
        AgentCostOut(*largest_cost()),
    )

    def lines() -> Iterator[str]:
        shown = [one for one in result.agents if arguments.all or one.found or one.connected or one.heard]
        others = [one.name for one in result.agents if one not in shown]
        if shown:
            yield from _table([_HEADINGS, *map(_cells, shown)])
        yield from _spent(result)
        if others:
            yield f"Not found here: {', '.join(others)}"
        if not any(one.connected for one in result.agents):
            yield "No agent is connected. Next: periplus connect"
        elif any(one.waiting for one in result.agents):
            yield "Next, import what waits: periplus trail import --all"

    return face.emit(result, lines)


def _out(one: Surveyed, said: SaidTokens | None, version: str) -> AgentOut:
    from periplus.base.clock import format_ms
    from periplus.cli.integration.agents_schemas import AgentCostOut, AgentOut, AgentSaidOut
    from periplus.server.mcp.connection_cost import connection_cost

    agent = one.agent
    return AgentOut(
        agent.name, agent.title, one.is_found, one.program, list(one.scopes), list(one.parts), one.heard or None, one.waiting, agent.tried,
        agent.listed, list(agent.sources), list(agent.lacks), AgentCostOut(*connection_cost(one.set_up)) if one.scopes else None,
        AgentSaidOut(said.last_tokens, said.tokens, said.sessions, format_ms(said.last_ms)) if said is not None else None, version,
    )  # fmt: skip


def _spent(result: AgentsOut) -> Iterator[str]:
    """Yield what being connected costs, and what hooks said."""
    most = result.tokens
    here = ", ".join(f"{one.name} {_total(one.tokens):,}" for one in result.agents if one.tokens is not None)
    yield (f"A connected agent spends at most about {_total(most):,} tokens before the first prompt: tools {most.tools:,}, instructions of the server "
           f"{most.instructions:,}, block in its file {most.block:,}, skill in its list {most.skill:,}.{f' Here: {here}.' if here else ''}")  # fmt: skip
    for one in result.agents:
        if one.said is not None:
            several = f", {one.said.all_sessions:,} in {one.said.sessions:,} sessions" if one.said.sessions > 1 else ""
            yield f"Hooks said to {one.name} about {one.said.last_session:,} tokens in its last session{several}."


def _total(cost: AgentCostOut) -> int:
    return cost.tools + cost.instructions + cost.block + cost.skill


def _cells(one: AgentOut) -> tuple[str, ...]:
    """Return the cells of a row, in the order of the headings."""
    found = visible(one.program) if one.program else "its files" if one.found else "-"
    heard = f"{one.heard[:16]}Z" if one.heard else "never" if "hooks" in one.parts else "has none"
    waiting = "not read" if one.waiting is None else f"{one.waiting:,}"
    tried = f"{one.tried} tried" if one.tried else f"{one.listed} lists it" if one.listed else "by its documentation"
    return one.name, found, one.version or "-", ", ".join(one.connected) or "-", heard, waiting, tried


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(columns(row[at]) for row in rows) for at in range(len(_HEADINGS))]
    for row in rows:
        yield "  ".join(cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
