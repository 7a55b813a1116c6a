"""Memory: entities of a project's knowledge, search, recall and briefs. See docs/architecture.md."""

from periplus.memory.brief import Brief, BriefLine, BriefSection, brief
from periplus.memory.index import MemoryIndexer
from periplus.memory.recall import Filters, Hit, Recall, evidence_of, recall, stale_paths
from periplus.memory.remember import Memory, Remembered, remember
from periplus.memory.types import MEMORY_TYPES, TYPES, MemoryType, memory_types

__all__ = [
    "MEMORY_TYPES",
    "TYPES",
    "Brief",
    "BriefLine",
    "BriefSection",
    "Filters",
    "Hit",
    "Memory",
    "MemoryIndexer",
    "MemoryType",
    "Recall",
    "Remembered",
    "brief",
    "evidence_of",
    "memory_types",
    "recall",
    "remember",
    "stale_paths",
]
