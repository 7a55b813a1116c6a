"""Contexts: typed, content-addressed pieces of knowledge, committed as deltas like commits in git."""

from __future__ import annotations

__all__ = [
    "Atom", "Chunk", "ChunkLimits", "ChunkStream", "Context", "ContextHeader", "Entry", "Expansion", "Molecule",
    "Oversize", "Store", "StreamEnd",
]  # fmt: skip

from periplus.context.model import (
    Atom,
    Chunk,
    ChunkLimits,
    Context,
    ContextHeader,
    Entry,
    Expansion,
    Molecule,
    Oversize,
    StreamEnd,
)
from periplus.context.store_protocol import ChunkStream, Store
