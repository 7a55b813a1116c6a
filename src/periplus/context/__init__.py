"""Contexts: typed, content-addressed pieces of knowledge, committed as deltas like commits in git."""

from __future__ import annotations

__all__ = ["Atom", "Chunk", "ChunkLimits", "Context", "ContextHeader", "Entry", "Expansion", "Molecule", "Store"]

from periplus.context.model import Atom, Chunk, ChunkLimits, Context, ContextHeader, Entry, Expansion, Molecule
from periplus.context.store import Store
