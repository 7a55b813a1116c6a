"""Contents of versions, read from all checkpoint files of a store."""

from __future__ import annotations

__all__ = ["payloads_in_checkpoints", "versions_in_checkpoints"]

import os
from collections.abc import Callable, Collection, Iterator

from periplus.base.errors import PeriplusError
from periplus.base.files import open_plain
from periplus.journal.checkpoints.checkpoint_files import checkpoint_files, usable_checkpoints
from periplus.journal.checkpoints.format import KeyLine, decode_checkpoint
from periplus.journal.index.indexed_journal import IndexedJournal
from periplus.journal.state.entity import Ancestor, Head


def versions_in_checkpoints(journal: IndexedJournal) -> Iterator[Head | KeyLine]:
    """Yield the heads, ancestors and keys of all checkpoints. In a valid one, a content whose object is lost is empty."""
    usable = {one.path for one in usable_checkpoints(journal)}

    def load_if_there(sha256: str) -> bytes:
        try:
            return journal.load_object(sha256)
        except PeriplusError:
            return b""

    for _, path in checkpoint_files(journal):
        load: Callable[[str], bytes] = load_if_there if path in usable else journal.load_object
        try:
            with os.fdopen(open_plain(path), "rb") as file:
                for one in decode_checkpoint(file, load, is_known=path in usable):
                    yield one.version if isinstance(one, Ancestor) else one
        except (OSError, PeriplusError):
            continue  # the lines before the damage are used


def payloads_in_checkpoints(journal: IndexedJournal, versions: Collection[str]) -> dict[str, bytes]:
    """Return what checkpoints, valid or not, hold of ``versions``; the version id proves it."""
    return {
        line.version: line.payload
        for line in versions_in_checkpoints(journal)
        if isinstance(line, Head) and line.version in versions and line.payload
    }
