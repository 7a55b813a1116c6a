"""Memory: entities of a project's knowledge, search, recall and briefs. See docs/architecture.md."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.memory.briefing.brief import Brief
    from periplus.memory.briefing.brief_lines import BriefLine, BriefSection
    from periplus.memory.code_anchors.anchors import Anchor, Ground, Standing, evidence_of, stale_paths
    from periplus.memory.entities.types import MEMORY_TYPES, TYPES, MemoryType, memory_types
    from periplus.memory.fulltext.indexer import MemoryIndexer
    from periplus.memory.retrieval.file_votes import FileVote, likely_files
    from periplus.memory.retrieval.recall import Hit, Recall
    from periplus.memory.retrieval.search import Filters
    from periplus.memory.writing.remember import Memory, Remembered
else:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("Anchor", "Ground", "Standing", "evidence_of", "stale_paths"), "code_anchors.anchors"),
            "Brief": "briefing.brief",
            **dict.fromkeys(("BriefLine", "BriefSection"), "briefing.brief_lines"),
            **dict.fromkeys(("FileVote", "likely_files"), "retrieval.file_votes"),
            "MemoryIndexer": "fulltext.indexer",
            **dict.fromkeys(("Hit", "Recall"), "retrieval.recall"),
            **dict.fromkeys(("Memory", "Remembered"), "writing.remember"),
            "Filters": "retrieval.search",
            **dict.fromkeys(("MEMORY_TYPES", "TYPES", "MemoryType", "memory_types"), "entities.types"),
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
