"""Interface of an open journal with its index, for the modules that fill, check and replace what is derived from the records."""

from __future__ import annotations

__all__ = ["IndexedJournal", "MutableJournal"]

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from periplus.base.process.locks import LOCK_PATIENCE_S
from periplus.journal.storage.stored_journal import StoredJournal

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from periplus.journal.index.tables import Index
    from periplus.journal.state.entity import Entity, EntityType, Head
    from periplus.journal.state.index_values import IndexedRecord, Looked, View
    from periplus.journal.state.transaction import Receipt, Transaction, Writer


class IndexedJournal(StoredJournal, Protocol):
    """The part of ``JournalReader`` that reads and replaces its index. Each member is described there."""

    types: Mapping[str, EntityType]
    view: View
    index: Index
    is_hurried: bool
    is_one_question: bool
    kept_payloads: dict[str, bytes]

    @property
    def index_path(self) -> str: ...

    @property
    def unwritten(self) -> dict[str, str]: ...

    def get(self, item_type: str, item_id: str) -> Entity | None: ...

    def ids_with_prefix(self, prefix: str) -> list[tuple[str, str]]: ...

    def holds(self, item_type: str, item_id: str, version: str, *, durably: bool = False) -> bool: ...

    def is_superseded(self, item_type: str, item_id: str, version: str) -> bool: ...

    def heads_of(self, item_type: str, item_id: str) -> list[Head]: ...

    def unindexed(self) -> list[tuple[str, str]]: ...

    def need_history(self) -> None: ...

    def line_at(self, record: IndexedRecord) -> bytes: ...

    def project(
        self, patience_s: float = 0.0, *, rewrite: Collection[tuple[str, str]] = (), looked: Looked | None = None, spared: int = 0
    ) -> bool: ...  # fmt: skip

    def empty_index(self) -> Index: ...

    def projecting_alone(self, patience_s: float) -> AbstractContextManager[None]: ...

    def serve_by(self, path: str) -> None: ...

    def serve_scratch(self, *, is_memory: bool) -> None: ...

    def fill_whole(self, *patience_s: float) -> bool: ...

    def fill_index(self, *, is_beside: bool = False) -> None: ...


class MutableJournal(IndexedJournal, Protocol):
    """An ``IndexedJournal`` that can be written to."""

    def mutate(
        self,
        fn: Callable[[Transaction], object],
        writer: Writer,
        *,
        key: str = "",
        key_ms: int | None = None,
        durable: bool = True,
        project: bool = True,
        patience_s: float = LOCK_PATIENCE_S,
    ) -> Receipt: ...
