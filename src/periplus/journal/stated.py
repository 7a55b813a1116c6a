"""Whether a foreign lineage is as long here as the head says that was taken in with it: what is cut off its end leaves no gap."""

from __future__ import annotations

__all__ = ["cut_short", "is_sound", "stated_size"]

import os
from typing import Final

import msgspec

from periplus.base.errors import DamageError
from periplus.base.files import read_plain
from periplus.journal.layout import Layout
from periplus.journal.lineage import START, LineageReader, Position

_HEAD_BYTES_MAX: Final = 65_536


class _Size(msgspec.Struct):
    size: int


class _Stated(msgspec.Struct):
    head: _Size


def stated_size(layout: Layout, lineage: str) -> int:
    """How many records ``head.json`` says there are, cheaply had and proved by nothing; 0 where it says nothing."""
    try:
        data = read_plain(os.path.join(layout.lineage_folder(lineage), "head.json"), _HEAD_BYTES_MAX)
        return msgspec.json.decode(data, type=_Stated).head.size
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return 0


def cut_short(layout: Layout, reader: LineageReader, end: Position) -> DamageError | None:
    """What is wrong where the lineage ends at ``end``: fewer records than a head covers, whose signature is looked at then."""
    if end.next_seq > stated_size(layout, reader.lineage):
        return None
    from periplus.journal.plain import seen_size

    if end.next_seq > seen_size(layout, reader.lineage):
        return None
    return DamageError(
        "cut short: records that were taken in are missing", path=reader.path_of(max(end.segment, 1)), offset=end.offset,
        seq=end.next_seq, safe="Other records stay readable.", mend="Run `periplus doctor`.",
    )  # fmt: skip


def is_sound(layout: Layout, reader: LineageReader, durable_seq: int | None) -> bool:
    """Whether the lineage is sound from its beginning; ``durable_seq`` is None for a foreign one."""
    end = START
    try:
        for chunk in reader.read_from(START, durable_seq or 0):
            end = chunk.end
    except DamageError:
        return False
    return durable_seq is not None or cut_short(layout, reader, end) is None
