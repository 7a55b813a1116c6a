"""Interface of an open journal as the modules below it use it: its files, its lineages and how far they were read."""

from __future__ import annotations

__all__ = ["StoredJournal"]

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from periplus.base.clock import Clock
    from periplus.base.errors import DamageError
    from periplus.base.files import Files, FolderWatch
    from periplus.journal.storage.layout import Layout
    from periplus.journal.storage.lineage import LineageReader, Position
    from periplus.journal.storage.settings import LineageFile, Settings, StoreIds
    from periplus.objects.store import ObjectStore


class StoredJournal(Protocol):
    """The part of ``Journal`` that needs no index. Each member is described there."""

    layout: Layout
    files: Files
    clock: Clock
    random: Callable[[int], bytes]
    settings: Settings
    stores: StoreIds
    objects: ObjectStore
    damage: DamageError | None
    copied_from: str
    durable_seq: int

    @property
    def own(self) -> LineageFile | None: ...

    @property
    def lineage(self) -> str: ...

    @property
    def syncs(self) -> bool: ...

    @property
    def store_id(self) -> str: ...

    def store_of(self, lineage: str) -> str: ...

    def refresh(self, within_s: float | None = None) -> None: ...

    def end(self, lineage: str | None = None) -> Position: ...

    def durable_end(self) -> int: ...

    def lineages(self) -> list[str]: ...

    def watch(self, lineage: str) -> FolderWatch: ...

    def reader(self, lineage: str) -> LineageReader: ...

    def load_object(self, sha256: str) -> bytes: ...
