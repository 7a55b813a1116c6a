"""Limits of a connection: those that both sides agree on in the handshake, and those that each side keeps for itself.

Every limit is checked before data is read, decoded or stored. The agreed value is the lesser of both offers, field by
field.
"""

from __future__ import annotations

__all__ = ["ATOMS_MAX", "DIGESTS_MAX", "FRAME_BYTES_MAX", "Limits", "Policy", "agreed"]

from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

FRAME_BYTES_MIN: Final = 4_096
FRAME_BYTES_MAX: Final = 16 << 20
ATOMS_MAX: Final = 16_384
DIGESTS_MAX: Final = 65_536
_HOUR_MS: Final = 3_600_000


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits that a peer accepts: its offer in HELLO, the agreement in WELCOME.

    ``frame_bytes`` bounds a payload, also a decompressed one; ``atoms`` the atoms that one frame may carry or request;
    ``digests`` likewise; ``object_bytes`` an object (or a chunk's proof) assembled from its parts; ``window_frames``
    and ``window_bytes`` are the initial credit of a stream if the request states none, and the maximum of granted and
    unused credit; ``request_rate`` is the number of requests a second beyond a burst.
    """

    frame_bytes: Annotated[int, Meta(ge=FRAME_BYTES_MIN, le=FRAME_BYTES_MAX)] = 1 << 20
    streams: Annotated[int, Meta(ge=1, le=65_536)] = 64
    atoms: Annotated[int, Meta(ge=1, le=ATOMS_MAX)] = 4_096
    digests: Annotated[int, Meta(ge=64, le=DIGESTS_MAX)] = 16_384
    type_depth: Annotated[int, Meta(ge=1, le=1_024)] = 64
    object_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 30)] = 64 << 20
    window_frames: Annotated[int, Meta(ge=1, le=65_536)] = 16
    window_bytes: Annotated[int, Meta(ge=FRAME_BYTES_MIN, le=1 << 30)] = 4 << 20
    idle_ms: Annotated[int, Meta(ge=1_000, le=_HOUR_MS)] = 120_000
    request_rate: Annotated[int, Meta(ge=1, le=1_000_000)] = 200


class Policy(NamedTuple):
    """The limits that a side enforces without telling the peer: times in seconds, rates a second.

    ``request_burst`` requests may come at once; ``frame_rate`` and ``frame_burst`` bound the frames that cost no credit
    and open nothing; ``output_bytes_max`` bounds waiting output before a peer that does not read is disconnected;
    ``assembly_bytes_max`` bounds partly received data.
    """

    handshake_s: float = 10.0
    handshake_bytes_max: int = 16_384
    request_burst: int = 400
    frame_rate: float = 1_000.0
    frame_burst: int = 4_000
    output_bytes_max: int = 64 << 20
    assembly_bytes_max: int = 128 << 20


def agreed(ours: Limits, theirs: Limits) -> Limits:
    """Return the lesser of both, field by field; a window always holds a frame of the agreed size."""
    fields = {name: min(getattr(ours, name), getattr(theirs, name)) for name in Limits.__struct_fields__}
    fields["window_bytes"] = max(fields["window_bytes"], fields["frame_bytes"])
    return Limits(**fields)
