"""The config files of coding agents: where they are, what is put into them, and how it gets out again.

One module for each agent says what it reads; ``parts`` puts something into a file and takes it out, as text, so that everything else
keeps its bytes; ``files`` reads and writes them, with what is kept to bring the old bytes back.
"""

from __future__ import annotations

__all__ = ["AGENTS", "GREETING", "Agent", "Scope", "Site", "agent_named"]

from periplus.interop.agents.agent_model import Agent, Scope, Site
from periplus.interop.agents.agent_table import AGENTS, agent_named
from periplus.interop.agents.shared_parts import GREETING
