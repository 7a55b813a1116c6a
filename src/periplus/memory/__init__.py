"""Memory: entities of a project's knowledge, search, recall and briefs. See docs/architecture.md."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.memory.anchors import Anchor, Ground, Standing, evidence_of, stale_paths
    from periplus.memory.brief import Brief
    from periplus.memory.brief_lines import BriefLine, BriefSection
    from periplus.memory.files import FileVote, likely_files
    from periplus.memory.index import MemoryIndexer
    from periplus.memory.recall import Hit, Recall
    from periplus.memory.remember import Memory, Remembered
    from periplus.memory.search import Filters
    from periplus.memory.types import MEMORY_TYPES, TYPES, MemoryType, memory_types
else:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("Anchor", "Ground", "Standing", "evidence_of", "stale_paths"), "anchors"),
            "Brief": "brief",
            **dict.fromkeys(("BriefLine", "BriefSection"), "brief_lines"),
            **dict.fromkeys(("FileVote", "likely_files"), "files"),
            "MemoryIndexer": "index",
            **dict.fromkeys(("Hit", "Recall"), "recall"),
            **dict.fromkeys(("Memory", "Remembered"), "remember"),
            "Filters": "search",
            **dict.fromkeys(("MEMORY_TYPES", "TYPES", "MemoryType", "memory_types"), "types"),
        },
    )

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
    "evidence_of",
    "likely_files",
    "memory_types",
    "stale_paths",
]
