"""JSON document of ``agents``."""

from __future__ import annotations

__all__ = ["AGENTS_SCHEMAS", "AgentCostOut", "AgentOut", "AgentSaidOut", "AgentsOut"]

from typing import Final

import msgspec


class AgentOut(msgspec.Struct):
    """A coding agent that can be connected. ``program`` is the path of its program, empty if it was found by its files or
    not at all. ``connected`` are the scopes that it is connected in. ``parts`` are what `connect` sets up for it. ``heard``
    is the last sign of life of a session that its hooks began here, null if there is none. ``waiting`` counts its sessions in
    this project without a trail, null if its sessions cannot be imported. ``tried`` is the version that was driven with these
    files, ``listed`` the version that was seen to list our server from them; without both they are by its documentation, which
    ``sources`` name. ``lacks`` lists its limits. ``tokens`` is its cost before the first prompt, null if it is not connected.
    ``said`` counts the words of hooks to it in this store, null if there are none. ``version`` is that of the
    program, empty if it was not found or tells none.
    """

    name: str
    title: str
    found: bool
    program: str
    connected: list[str]
    parts: list[str]
    heard: str | None
    waiting: int | None
    tried: str
    listed: str
    sources: list[str]
    lacks: list[str]
    tokens: AgentCostOut | None
    said: AgentSaidOut | None
    version: str


class AgentCostOut(msgspec.Struct):
    """Estimated tokens that a connected agent spends before the first prompt: the ``tools`` of the server and its ``instructions``,
    the ``block`` in its file of instructions, and the name and description of the ``skill``. Of all agents together, it is the
    cost of the one that gets most.
    """

    tools: int
    instructions: int
    block: int
    skill: int


class AgentSaidOut(msgspec.Struct):
    """Estimated tokens that hooks of this machine said to an agent: in the last of its ``sessions`` to which they said anything, and
    in all of them; ``last`` is when that was.
    """

    last_session: int
    all_sessions: int
    sessions: int
    last: str


class AgentsOut(msgspec.Struct, tag_field="schema", tag="periplus.agents/1"):
    agents: list[AgentOut]
    tokens: AgentCostOut


AGENTS_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"agents": AgentsOut}
