"""The journal: records, segments, batches, projections, proofs. See docs/formats/journal.md."""

from typing import TYPE_CHECKING

from periplus.base.lazy import lazily

if TYPE_CHECKING:
    from periplus.journal.creation import Created, create_store
    from periplus.journal.index import Index
    from periplus.journal.index_file import Indexer, discard_indexes
    from periplus.journal.index_record import IndexedRecord
    from periplus.journal.journal import Journal
    from periplus.journal.layout import STORE_FOLDER, Layout, find_root, project_root
    from periplus.journal.state import Conflict, ConflictValue, Entity, EntityType, MergeRules
    from periplus.journal.transaction import ABSENT, Receipt, Said, Transaction, Writer
else:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("Created", "create_store"), "creation"),
            "Index": "index",
            "IndexedRecord": "index_record",
            **dict.fromkeys(("Indexer", "discard_indexes"), "index_file"),
            "Journal": "journal",
            **dict.fromkeys(("STORE_FOLDER", "Layout", "find_root", "project_root"), "layout"),
            **dict.fromkeys(("Conflict", "ConflictValue", "Entity", "EntityType", "MergeRules"), "state"),
            **dict.fromkeys(("ABSENT", "Receipt", "Said", "Transaction", "Writer"), "transaction"),
        },
    )

__all__ = [
    "ABSENT",
    "STORE_FOLDER",
    "Conflict",
    "ConflictValue",
    "Created",
    "Entity",
    "EntityType",
    "Index",
    "IndexedRecord",
    "Indexer",
    "Journal",
    "Layout",
    "MergeRules",
    "Receipt",
    "Said",
    "Transaction",
    "Writer",
    "create_store",
    "discard_indexes",
    "find_root",
    "project_root",
]
