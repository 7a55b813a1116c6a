"""Values of the index: a record as a row, the row of an entity file, and the rules by which several heads are merged."""

from __future__ import annotations

__all__ = ["NO_VIEW", "FileRow", "HistoryNeededError", "IndexedRecord", "Looked", "View"]

from collections.abc import Callable, Mapping
from typing import Final

from periplus.base.named_tuple import NamedTuple
from periplus.journal.state.entity import MergeRules


class IndexedRecord(NamedTuple):
    """A record without its payload: its place and its fields."""

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
    """An entity file as it was last written or checked.

    ``sha256`` is empty if the file is not known to be as the journal wants it, ``stamp`` if it must be read before it is
    trusted, ``boot`` once it is surely on the disk (else the boot in which it was written).
    """

    sha256: bytes
    stamp: bytes
    boot: str


class View(NamedTuple):
    """Rules for showing entities with several heads: the merge rules of their types, and the payloads of superseded versions."""

    rules: Mapping[str, MergeRules]
    payload_at: Callable[[IndexedRecord], bytes]


NO_VIEW: Final = View({}, lambda _: b"")


class HistoryNeededError(Exception):
    """A record can only be explained by records before the checkpoint. Never leaves this package."""


class Looked(NamedTuple):
    """The files that a look found in order: stamps of unchanged files, of linked worktrees with nothing new, and git's commit.

    ``looked`` says when an expensive look is due again.
    """

    settled: Mapping[tuple[str, str], bytes]
    linked: Mapping[str, bytes]
    commit: str
    looked: str = ""
