"""Memory: entities of a project's knowledge, search, recall and briefs. See docs/architecture.md."""

from periplus.memory.anchors import Anchor, Ground, Standing, evidence_of, stale_paths
from periplus.memory.brief import Brief, BriefLine, BriefSection, brief
from periplus.memory.files import FileVote, likely_files
from periplus.memory.index import MemoryIndexer
from periplus.memory.recall import Hit, Recall, recall
from periplus.memory.remember import Memory, Remembered, remember
from periplus.memory.search import Filters
from periplus.memory.types import MEMORY_TYPES, TYPES, MemoryType, memory_types

__all__ = [
    "MEMORY_TYPES",
    "TYPES",
    "Anchor",
    "Brief",
    "BriefLine",
    "BriefSection",
    "FileVote",
    "Filters",
    "Ground",
    "Hit",
    "Memory",
    "MemoryIndexer",
    "MemoryType",
    "Recall",
    "Remembered",
    "Standing",
    "brief",
    "evidence_of",
    "likely_files",
    "memory_types",
    "recall",
    "remember",
    "stale_paths",
]
