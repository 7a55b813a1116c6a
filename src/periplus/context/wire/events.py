"""What a machine tells its transport: one union, a Struct each. A transport answers them; it knows nothing of bytes."""

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
    """Frozen, equal by its fields."""


class Opened(_Event, frozen=True):
    """The handshake is done. ``version`` 1 has no limits of its own, no capabilities and no name."""

    version: int
    capabilities: tuple[str, ...]
    limits: Limits
    agent: str


class Requested(_Event, frozen=True):
    """To the server: a request came on ``stream``. It is answered by the ``send_…`` that fits it, or by ``send_error``."""

    stream: int
    body: Request


class V1Requested(_Event, frozen=True):
    """To the server: a request of a version 1 peer, which knows short hashes only; answered by the same ``send_…``."""

    stream: int
    body: V1Request


class CreditCame(_Event, frozen=True):
    """Whoever waits for ``ready(stream)`` may look again."""

    stream: int


class Cancelled(_Event, frozen=True):
    """To the server: the client wants no more of ``stream``; all that belongs to it can go. The machine has answered."""

    stream: int


class ObjectCame(_Event, frozen=True):
    """A whole object, its digest verified. ``frames`` and ``size_bytes`` are to be granted again when it was put away."""

    stream: int
    digest: bytes
    data: bytes
    frames: int
    size_bytes: int


class UploadEnded(_Event, frozen=True):
    """To the server: all objects of ``stream`` came; it is answered by ``send_ack``."""

    stream: int


class ChunkCame(_Event, frozen=True):
    """To the client. Its credit is given back by ``grant``, when it was used up."""

    stream: int
    chunk: Chunk
    frames: int
    size_bytes: int
    molecules: tuple[WireMolecule, ...] = ()
    broken: tuple[WireBroken, ...] = ()


class Answered(_Event, frozen=True):
    """To the client: an answer. With WANT and CHANGED more may follow, see ``is_last``; ``size_bytes`` is what it cost of the window."""

    stream: int
    body: ExpandResponse | QueryResponse | Proof | RefsResponse | Want | Changed
    is_last: bool
    size_bytes: int


class Ended(_Event, frozen=True):
    """To the client: a stream of chunks, or of objects (then without ``end``), is complete."""

    stream: int
    end: StreamEnd | None


class Acknowledged(_Event, frozen=True):
    """To the client: a push, or an upload, is done."""

    stream: int
    ack: Ack


class Failed(_Event, frozen=True):
    """To the client: a request failed, see ``codes.error_of``. A stream that was cancelled ends with code ``cancelled``.

    To the server: what it was sending could not be read; the client was told. ``detail`` is for its log.
    """

    stream: int
    code: str
    field: str
    is_retryable: bool
    retry_after_ms: int
    detail: str = ""


class ShuttingDown(_Event, frozen=True):
    """To the client: the server takes no more requests; what is open goes on, or is told."""


class Ponged(_Event, frozen=True):
    token: bytes


class Closed(_Event, frozen=True):
    """The connection is over: send what ``data_to_send`` still has, then close. ``code`` is empty for an orderly end.

    ``detail`` is for the log of this side and never crosses the wire.
    """

    code: str
    by_peer: bool
    detail: str


Event: TypeAlias = (
    Opened | Requested | V1Requested | CreditCame | Cancelled | ObjectCame | UploadEnded | ChunkCame | Answered | Ended | Acknowledged
    | Failed | ShuttingDown | Ponged | Closed
)  # fmt: skip
