"""What a repair is about to give up: written down before its stubs are, and kept for when a copy turns up."""

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
    """What a lost record said, as something else than the record holds it; ``payload`` is canonical JSON."""

    item_type: str
    item_id: str
    version: str
    parents: tuple[str, ...]
    payload: str
    seq: int = 0
    writer: str = ""  # this and what follows: who said it when; unknown in what earlier versions wrote down
    session: str = ""
    ts: str = ""

    @classmethod
    def of(cls, row: Known, payload: bytes) -> Self:
        named = (row.item_type, row.item_id, row.version, row.parents, payload.decode())
        return cls(*named, row.seq, row.writer, row.session, row.ts)


class LostPlan(msgspec.Struct):
    """Records whose content was lost: named in a file before their stubs are written, audited after."""

    lineage: str
    records: list[tuple[int, str, str]]
    contents: list[LostContent]
    payloads: list[int] = []  # of the records, those whose payload was lost with its object
    objects: list[str] = []  # those objects


def lost_plans(journal: Journal, *, audited: bool = False) -> list[tuple[str, LostPlan]]:
    """Path and plan of those that are parked, as they were made; ``audited``: those whose audit records were written."""
    yard = os.path.join(journal.layout.root, PARKED_FOLDER)
    found = []
    for folder in sorted(os.listdir(yard)) if os.path.isdir(yard) else []:
        for name in sorted(os.listdir(os.path.join(yard, folder))):
            if name.startswith("lost") and name.endswith(".json") and name.endswith(".audited.json") == audited:
                path = os.path.join(yard, folder, name)
                try:
                    found.append((path, msgspec.json.decode(read_plain(path, _PLAN_BYTES_MAX), type=LostPlan)))
                except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                    continue  # its stubs were never written: the file comes first, whole
    return found


def park_checkpoints(journal: Journal, yard: Parking) -> Iterator[Repair]:
    """Those from before something was given up name records that say nothing any more: from the records another state would come."""
    for _, path in checkpoint_files(journal):
        yard.move(path)
        yield Repair("a checkpoint from before that is parked: the next one takes its place", path)


def counted_records(records: Sequence[object]) -> str:
    return f"{len(records)} record{'s' if len(records) != 1 else ''}"
