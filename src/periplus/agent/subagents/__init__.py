"""Subagents: a task given to another session with a fresh context, whose report comes back. See docs/guides/agent/subagents.md."""

from __future__ import annotations

__all__ = ["lineage_of", "parent_of"]

from periplus.agent.subagents.session_names import lineage_of, parent_of
