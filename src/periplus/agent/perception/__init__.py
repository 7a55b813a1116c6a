"""Perception: what the agent sees of a project before it looks: instruction files, kind and checks, a map, symbols, git."""

from __future__ import annotations

__all__ = ["Kind", "Perceived", "find_root", "kind_of", "perceived"]

from periplus.agent.perception.inspection import Perceived, perceived
from periplus.agent.perception.root import Kind, find_root, kind_of
