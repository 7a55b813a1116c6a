"""Values of the index: a record as a row, the row of an entity file, and the rules by which several heads are merged."""

from __future__ import annotations

__all__ = ["NO_VIEW", "FileRow", "HistoryNeededError", "IndexedRecord", "Looked", "View"]

from collections.abc import Callable, Mapping
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.journal.state.entity import MergeRules


class IndexedRecord(NamedTuple):
    """Where a record lies and what it says of itself, without its payload."""

    lineage: str
    seq: int
    segment: int
    offset: int
    length: int
    leaf: bytes
    ts: str
    writer: str
    session: str
    action: str
    item_type: str
    item_id: str
    version: str
    rev: int
    key: str
    summary: str
    parents: tuple[str, ...]


class FileRow(NamedTuple):
    """An entity's file as it was left: digest (empty where it is not known to be as the journal wants it), stamp (empty
    where it must be read before it is believed), and the boot it was written in (empty once it is surely on the disk).
    """

    sha256: bytes
    stamp: bytes
    boot: str


class View(NamedTuple):
    """How entities with several heads are shown: the rules of their types, and what superseded versions said."""

    rules: Mapping[str, MergeRules]
    payload_at: Callable[[IndexedRecord], bytes]


NO_VIEW: Final = View({}, lambda _: b"")


class HistoryNeededError(Exception):
    """A record came that only the records before the checkpoint explain. Never leaves this package."""


class Looked(NamedTuple):
    """What a look at the files found in order: stamps of files that are as they were left, those of linked worktrees
    that hold nothing new, and the commit that git had checked out. ``looked`` says when a look that was dear is due again.
    """

    settled: Mapping[tuple[str, str], bytes]
    linked: Mapping[str, bytes]
    commit: str
    looked: str = ""
