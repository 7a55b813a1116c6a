"""Tokens that a connected agent spends on Periplus before the first prompt of a session, by estimate.

Agents put these in the model's context at the start: the name, description and input schema of each tool (not its annotations and
the schema of its answers), the server's instructions, our block in their file with its marker lines, and the name and description
of our skill, whose text is read only on use. An agent without a part does not pay for it.
"""

from __future__ import annotations

__all__ = ["ConnectionCost", "connection_cost", "largest_cost"]

import json
import re
from collections.abc import Iterable
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.base.text.token_estimate import estimate_tokens
from periplus.interop.agents import GREETING, Site, all_agents
from periplus.interop.agents.config_parts import BlockPart, Part, WholePart, put
from periplus.project.agent_hooks.instructions import USE
from periplus.server.mcp.catalogue import INSTRUCTIONS, tool_documents

_GIVEN: Final = ("name", "description", "inputSchema")
_LISTED: Final = re.compile(r"^(?:name|description): (.*)$", re.MULTILINE)
_SITE: Final = Site("project", "/", "/", "/", "/", False, ("periplus",), USE, GREETING)


class ConnectionCost(NamedTuple):
    """Tokens of the server's ``tools`` and ``instructions``, of the ``block`` in the agent's file, of the ``skill`` in its list."""

    tools: int
    instructions: int
    block: int
    skill: int

    @property
    def total(self) -> int:
        return self.tools + self.instructions + self.block + self.skill


def connection_cost(parts: Iterable[Part]) -> ConnectionCost:
    """Return the cost of what ``connect`` sets up for one agent, in one scope or in both. An agent lists a skill once."""
    parts = tuple(parts)
    tools = instructions = 0
    if any(part.what == "server" for part in parts):
        given = [{name: tool[name] for name in _GIVEN} for tool in tool_documents()]
        tools = estimate_tokens(json.dumps(given, ensure_ascii=False, separators=(",", ":")))
        instructions = estimate_tokens(INSTRUCTIONS)
    blocks = [put(part, None, part.path).decode() for part in parts if isinstance(part, BlockPart)]
    skills = {
        "\n".join(_LISTED.findall(part.text)) for part in parts if isinstance(part, WholePart) and part.what == "skill"
    }
    return ConnectionCost(tools, instructions, sum(map(estimate_tokens, blocks)), sum(map(estimate_tokens, skills)))


def largest_cost() -> ConnectionCost:
    """Return the cost of the agent that gets most in a project."""
    return max((connection_cost(agent.parts(_SITE)) for agent in all_agents()), key=lambda cost: cost.total)
