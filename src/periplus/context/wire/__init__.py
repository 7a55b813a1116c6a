"""The wire protocol of contexts, versions 2 and 1: state machines for both sides, bytes in, events out, no I/O."""

from __future__ import annotations

__all__ = [
    "ERRORS", "FRAMES", "REDACTED_FIELD", "Acknowledged", "Answered", "Authority", "Cancelled", "ChunkCame", "ClientMachine", "Closed", "CreditCame",
    "Ended", "ErrorCode", "Event", "Failed", "FrameType", "Limits", "ObjectCame", "Opened", "Policy", "Ponged", "ProtocolError",
    "RemoteError", "Requested", "ServerMachine", "ShuttingDown", "UploadEnded", "V1Requested", "WireError", "code_of", "error_of",
    "token_authority",
]  # fmt: skip

from periplus.context.wire.client_machine import ClientMachine
from periplus.context.wire.error_codes import (
    ERRORS,
    REDACTED_FIELD,
    ErrorCode,
    ProtocolError,
    RemoteError,
    WireError,
    code_of,
    error_of,
)
from periplus.context.wire.events import (
    Acknowledged,
    Answered,
    Cancelled,
    ChunkCame,
    Closed,
    CreditCame,
    Ended,
    Event,
    Failed,
    ObjectCame,
    Opened,
    Ponged,
    Requested,
    ShuttingDown,
    UploadEnded,
    V1Requested,
)
from periplus.context.wire.frames import FRAMES, FrameType
from periplus.context.wire.limits import Limits, Policy
from periplus.context.wire.server_machine import Authority, ServerMachine, token_authority
