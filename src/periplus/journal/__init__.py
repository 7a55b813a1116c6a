"""The journal: records, segments, batches, projections, proofs. See docs/formats/journal.md."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.journal.index.index_file import Indexer, discard_indexes
    from periplus.journal.index.tables import Index
    from periplus.journal.journal import Journal
    from periplus.journal.state.entity import Conflict, ConflictValue, Entity, EntityType, MergeRules
    from periplus.journal.state.index_values import IndexedRecord
    from periplus.journal.state.transaction import ABSENT, Receipt, Said, Transaction, Writer
    from periplus.journal.storage.layout import STORE_FOLDER, Layout, find_root, project_root
    from periplus.journal.storage.store_creation import Created, create_store
else:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("Created", "create_store"), "storage.store_creation"),
            "Index": "index.tables",
            "IndexedRecord": "state.index_values",
            **dict.fromkeys(("Indexer", "discard_indexes"), "index.index_file"),
            "Journal": "journal",
            **dict.fromkeys(("STORE_FOLDER", "Layout", "find_root", "project_root"), "storage.layout"),
            **dict.fromkeys(("Conflict", "ConflictValue", "Entity", "EntityType", "MergeRules"), "state.entity"),
            **dict.fromkeys(("ABSENT", "Receipt", "Said", "Transaction", "Writer"), "state.transaction"),
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
