"""Plans of repairs that give up records: written before the stubs, and kept in case a copy turns up later."""

from __future__ import annotations

__all__ = ["LostContent", "LostPlan", "counted_records", "lost_plans", "park_checkpoints"]

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Self

import msgspec

from periplus.base.files import read_plain
from periplus.journal.checkpoints.checkpoint_files import checkpoint_files
from periplus.journal.journal import Journal
from periplus.journal.storage.layout import PARKED_FOLDER
from periplus.journal.storage.parking import Parking, Repair

if TYPE_CHECKING:
    from periplus.journal.records.segment_repair import Known

_PLAN_BYTES_MAX: Final = 1 << 26


class LostContent(msgspec.Struct):
    """Content of a lost record, recovered from elsewhere; ``payload`` is canonical JSON."""

    item_type: str
    item_id: str
    version: str
    parents: tuple[str, ...]
    payload: str
    seq: int = 0
    writer: str = ""  # this and the following fields are empty in plans of earlier versions
    session: str = ""
    ts: str = ""

    @classmethod
    def of(cls, row: Known, payload: bytes) -> Self:
        named = (row.item_type, row.item_id, row.version, row.parents, payload.decode())
        return cls(*named, row.seq, row.writer, row.session, row.ts)


class LostPlan(msgspec.Struct):
    """Records whose content was lost; written to a file before their stubs, audited afterwards."""

    lineage: str
    records: list[tuple[int, str, str]]
    contents: list[LostContent]
    payloads: list[int] = []  # seqs of records whose payload object was lost
    objects: list[str] = []  # digests of those objects


def lost_plans(journal: Journal, *, audited: bool = False) -> list[tuple[str, LostPlan]]:
    """Return path and plan of the parked plans; with ``audited`` those whose audit records were written."""
    yard = os.path.join(journal.layout.root, PARKED_FOLDER)
    found = []
    for folder in sorted(os.listdir(yard)) if os.path.isdir(yard) else []:
        for name in sorted(os.listdir(os.path.join(yard, folder))):
            if name.startswith("lost") and name.endswith(".json") and name.endswith(".audited.json") == audited:
                path = os.path.join(yard, folder, name)
                try:
                    found.append((path, msgspec.json.decode(read_plain(path, _PLAN_BYTES_MAX), type=LostPlan)))
                except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                    continue  # its stubs were never written: the complete file comes first
    return found


def park_checkpoints(journal: Journal, yard: Parking) -> Iterator[Repair]:
    """Park checkpoints from before records were given up: they name lost records and would lead to another state than the records do."""
    for _, path in checkpoint_files(journal):
        yard.move(path)
        yield Repair("an earlier checkpoint is parked: the next one replaces it", path)


def counted_records(records: Sequence[object]) -> str:
    return f"{len(records)} record{'s' if len(records) != 1 else ''}"
