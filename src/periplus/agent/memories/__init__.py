"""Implementations of the memory contract: none at all, in this process, and in the store of a project."""

from __future__ import annotations

__all__ = ["InProcessMemory", "NullMemory", "StoreMemory"]

from periplus.agent.memories.in_process import InProcessMemory
from periplus.agent.memories.null import NullMemory
from periplus.agent.memories.store import StoreMemory
