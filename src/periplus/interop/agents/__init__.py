"""Configuration files of coding agents: where they are, adding our entries, and removing them.

One module for each agent describes its files; ``config_parts`` adds and removes an entry as text, so that all else keeps its
bytes; ``config_files`` reads and writes the files, and keeps what is needed to restore the old bytes.
"""

from __future__ import annotations

__all__ = ["AGENT_NAMES", "GREETING", "Agent", "Scope", "Site", "agent_named", "all_agents"]

from periplus.interop.agents.agent_model import Agent, Scope, Site
from periplus.interop.agents.agent_table import AGENT_NAMES, agent_named, all_agents
from periplus.interop.agents.shared_parts import GREETING
