"""Events of a machine for its transport: one union, a Struct each. A transport answers them without any knowledge of
bytes.
"""

from __future__ import annotations

__all__ = [
    "Acknowledged", "Answered", "Cancelled", "ChunkCame", "Closed", "CreditCame", "Ended", "Event", "Failed", "ObjectCame", "Opened",
    "Ponged", "Requested", "ShuttingDown", "UploadEnded", "V1Requested",
]  # fmt: skip

from typing import TypeAlias

import msgspec

from periplus.context.model import Chunk
from periplus.context.wire.limits import Limits
from periplus.context.wire.payloads import (
    Ack,
    Changed,
    ExpandResponse,
    Proof,
    QueryResponse,
    RefsResponse,
    Request,
    StreamEnd,
    Want,
    WireBroken,
    WireMolecule,
)
from periplus.context.wire.v1_payloads import V1Request


class _Event(msgspec.Struct, frozen=True):
    """Frozen, compared by its fields."""


class Opened(_Event, frozen=True):
    """The handshake is done. ``version`` 1 has no limits, no capabilities and no name."""

    version: int
    capabilities: tuple[str, ...]
    limits: Limits
    agent: str


class Requested(_Event, frozen=True):
    """To the server: a request came on ``stream``. Answer it by the matching ``send_…``, or by ``send_error``."""

    stream: int
    body: Request


class V1Requested(_Event, frozen=True):
    """To the server: a request of a version 1 peer, which knows only short hashes; answered by the same ``send_…``."""

    stream: int
    body: V1Request


class CreditCame(_Event, frozen=True):
    """Credit arrived: ``ready(stream)`` may have changed."""

    stream: int


class Cancelled(_Event, frozen=True):
    """To the server: the client cancelled ``stream``; free its resources. The machine has answered."""

    stream: int


class ObjectCame(_Event, frozen=True):
    """A whole object with its verified digest. Grant ``frames`` and ``size_bytes`` again when it is stored."""

    stream: int
    digest: bytes
    data: bytes
    frames: int
    size_bytes: int


class UploadEnded(_Event, frozen=True):
    """To the server: all objects of ``stream`` have arrived; answer by ``send_ack``."""

    stream: int


class ChunkCame(_Event, frozen=True):
    """To the client: a chunk. Give its credit back by ``grant`` when it is processed."""

    stream: int
    chunk: Chunk
    frames: int
    size_bytes: int
    molecules: tuple[WireMolecule, ...] = ()
    broken: tuple[WireBroken, ...] = ()


class Answered(_Event, frozen=True):
    """To the client: an answer. WANT and CHANGED may continue, see ``is_last``; ``size_bytes`` is the credit that it
    used.
    """

    stream: int
    body: ExpandResponse | QueryResponse | Proof | RefsResponse | Want | Changed
    is_last: bool
    size_bytes: int


class Ended(_Event, frozen=True):
    """To the client: a stream of chunks, or of objects (then without ``end``), is complete."""

    stream: int
    end: StreamEnd | None


class Acknowledged(_Event, frozen=True):
    """To the client: a push or an upload is done."""

    stream: int
    ack: Ack


class Failed(_Event, frozen=True):
    """To the client: a request failed, see ``error_codes.error_of``. A cancelled stream ends with code ``cancelled``.

    To the server: the source of its answer failed; the client was told. ``detail`` is for the server's log.
    """

    stream: int
    code: str
    field: str
    is_retryable: bool
    retry_after_ms: int
    detail: str = ""


class ShuttingDown(_Event, frozen=True):
    """To the client: the server takes no more requests; open streams continue, or fail."""


class Ponged(_Event, frozen=True):
    token: bytes


class Closed(_Event, frozen=True):
    """The connection is over: send the rest of ``data_to_send``, then close. ``code`` is empty for an orderly end.

    ``detail`` is for the log of this side and never crosses the wire.
    """

    code: str
    by_peer: bool
    detail: str


Event: TypeAlias = (
    Opened | Requested | V1Requested | CreditCame | Cancelled | ObjectCame | UploadEnded | ChunkCame | Answered | Ended | Acknowledged
    | Failed | ShuttingDown | Ponged | Closed
)  # fmt: skip
