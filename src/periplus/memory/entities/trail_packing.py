"""The compression of trails in the object store: the journal gets it with the type of trails. The code is loaded where there
is a trail.
"""

from __future__ import annotations

__all__ = ["TRAILS_AT_REST"]

from collections.abc import Iterator
from typing import Final

from periplus.objects.object_forms import Packing

_BYTES_MAX: Final = 8 << 20


def _pack(data: bytes) -> bytes | None:
    from periplus.base.encoding.container import KIND_TRAIL, kind_of

    if kind_of(data) != KIND_TRAIL:
        return None
    from periplus.trail.columns.packed_trail import pack

    return pack(data)


def _unpack(packed: bytes) -> bytes:
    from periplus.trail.columns.packed_trail import unpack

    return unpack(packed)


def _remains(packed: bytes) -> bytes:
    from periplus.trail.columns.packed_trail import readable_part

    return readable_part(packed)


def _mended(packed: bytes) -> Iterator[bytes]:
    from periplus.trail.columns.packed_trail import repair_candidates

    return repair_candidates(packed)


TRAILS_AT_REST: Final = Packing(_pack, _unpack, _remains, _mended, _BYTES_MAX)
