r"""The table of frame types, the source of documentation, checks and the dictionary of the fuzz test.

::

    preface: "PERIPLUS/2\n", once, from each side (the server's comes before its first frame)
    frame:   length u32 · type u8 · flags u8 · stream u32 · payload of ``length`` bytes          (big-endian)

Streams: 0 is the connection. A request opens a stream with a number above all before it; its answers have that number.
"""

from __future__ import annotations

__all__ = [
    "COUNTED", "FLAGS_KNOWN", "FLAG_ZSTD", "FRAMES", "HEADER_BYTES", "OPENERS", "PREFACE", "STREAM_MAX", "FrameRow", "FrameType",
    "Place", "frame_header", "read_header",
]  # fmt: skip

import struct
from enum import IntEnum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from periplus.context.wire import payloads
from periplus.context.wire.error_codes import ProtocolError

PREFACE: Final = b"PERIPLUS/2\n"
FLAG_ZSTD: Final = 1
FLAGS_KNOWN: Final = FLAG_ZSTD
STREAM_MAX: Final = 2**32 - 1
_HEADER: Final = struct.Struct(">IBBI")
HEADER_BYTES: Final = _HEADER.size

Place: TypeAlias = Literal["connection", "opens", "continues", "opens or continues", "anywhere"]


class FrameType(IntEnum):
    """The codes of the specification's table."""

    HELLO = 0x00
    EXPAND_REQUEST = 0x01
    STREAM_REQUEST = 0x02
    QUERY_REQUEST = 0x03
    PUSH_CONTEXT = 0x04
    CREDIT = 0x05
    CANCEL = 0x06
    HAVE = 0x07
    OBJECTS = 0x08
    PROVE = 0x09
    REFS = 0x0A
    WATCH = 0x0B
    PING = 0x0C
    WELCOME = 0x80
    EXPAND_RESPONSE = 0x81
    STREAM_CHUNK = 0x82
    STREAM_END = 0x83
    QUERY_RESPONSE = 0x84
    ACK = 0x85
    WANT = 0x86
    OBJECTS_SENT = 0x87
    PROOF = 0x88
    REFS_RESPONSE = 0x89
    CHANGED = 0x8A
    PONG = 0x8B
    ERROR = 0xFF


class FrameRow(NamedTuple):
    """A row of the table. ``payload`` is a Struct or a union of Structs; ``answers`` may follow on a stream that this
    frame opened; ``needs`` is a capability.

    ``ends``: the frame ends its stream always, never, or if its ``is_final`` is set. ``is_counted``: it costs credit.
    """

    type: FrameType
    name: str
    sender: Literal["client", "server", "both"]
    place: Place
    payload: Any
    answers: tuple[FrameType, ...] = ()
    ends: Literal["always", "never", "final"] = "never"
    is_counted: bool = False
    needs: str = ""
    help: str = ""


_T: Final = FrameType
_ROWS: Final = (
    FrameRow(_T.HELLO, "HELLO", "client", "connection", payloads.Hello,
             help="versions, encodings, capabilities, limits, token; always JSON"),
    FrameRow(_T.EXPAND_REQUEST, "EXPAND_REQUEST", "client", "opens", payloads.ExpandRequest,
             (_T.EXPAND_RESPONSE, _T.STREAM_CHUNK, _T.STREAM_END), help="the whole expansion of a context"),
    FrameRow(_T.STREAM_REQUEST, "STREAM_REQUEST", "client", "opens", payloads.StreamRequest, (_T.STREAM_CHUNK, _T.STREAM_END),
             help="the expansion in chunks, best first"),
    FrameRow(_T.QUERY_REQUEST, "QUERY_REQUEST", "client", "opens", payloads.QueryRequest, (_T.QUERY_RESPONSE,),
             help="the best atoms by type, text, relevance, age, source"),
    FrameRow(_T.PUSH_CONTEXT, "PUSH_CONTEXT", "client", "opens", payloads.PushContext, (_T.ACK,), needs="push",
             help="takes in a context whose objects were uploaded; idempotent"),
    FrameRow(_T.CREDIT, "CREDIT", "both", "continues", payloads.Credit, help="grants more frames and bytes"),
    FrameRow(_T.CANCEL, "CANCEL", "client", "continues", payloads.Cancel, help="ends a stream and frees its resources"),
    FrameRow(_T.HAVE, "HAVE", "client", "opens", payloads.Have, (_T.WANT,), help="names offered objects, or wanted heads and known contexts"),
    FrameRow(_T.OBJECTS, "OBJECTS", "client", "opens or continues", payloads.ObjectsGet | payloads.ObjectsPut,
             (_T.OBJECTS_SENT, _T.ACK), is_counted=True, help="requests objects, which is free, or uploads them"),
    FrameRow(_T.PROVE, "PROVE", "client", "opens", payloads.Prove, (_T.PROOF,), needs="prove",
             help="requests a proof of inclusion or consistency"),
    FrameRow(_T.REFS, "REFS", "client", "opens", payloads.RefsRequest, (_T.REFS_RESPONSE,),
             help="lists refs; changes one, if it stands where expected"),
    FrameRow(_T.WATCH, "WATCH", "client", "opens", payloads.Watch, (_T.CHANGED,), needs="watch", help="requests new heads as they come"),
    FrameRow(_T.PING, "PING", "both", "connection", payloads.Ping, help="requests a PONG"),
    FrameRow(_T.WELCOME, "WELCOME", "server", "connection", payloads.Welcome, help="the agreement; always JSON"),
    FrameRow(_T.EXPAND_RESPONSE, "EXPAND_RESPONSE", "server", "continues", payloads.ExpandResponse, ends="always",
             help="an expansion that fits a frame"),
    FrameRow(_T.STREAM_CHUNK, "STREAM_CHUNK", "server", "continues", payloads.StreamChunk, is_counted=True, help="the next best atoms"),
    FrameRow(_T.STREAM_END, "STREAM_END", "server", "continues", payloads.StreamEnd, ends="always", help="totals and the tree head"),
    FrameRow(_T.QUERY_RESPONSE, "QUERY_RESPONSE", "server", "continues", payloads.QueryResponse, ends="always", help="a page of atoms"),
    FrameRow(_T.ACK, "ACK", "server", "continues", payloads.Ack, ends="always", help="a push is done"),
    FrameRow(_T.WANT, "WANT", "server", "continues", payloads.Want, ends="final", is_counted=True, help="objects to transfer"),
    FrameRow(_T.OBJECTS_SENT, "OBJECTS", "server", "continues", payloads.ObjectsSent, ends="final", is_counted=True,
             help="objects, whole or in parts"),
    FrameRow(_T.PROOF, "PROOF", "server", "continues", payloads.Proof, ends="always", help="a proof"),
    FrameRow(_T.REFS_RESPONSE, "REFS_RESPONSE", "server", "continues", payloads.RefsResponse, ends="always", help="refs by name"),
    FrameRow(_T.CHANGED, "CHANGED", "server", "continues", payloads.Changed, is_counted=True, help="refs that moved"),
    FrameRow(_T.PONG, "PONG", "both", "connection", payloads.Pong, help="answers a PING"),
    FrameRow(_T.ERROR, "ERROR", "both", "anywhere", payloads.ErrorReport, ends="always",
             help="a code, a safe message, whether to try again; on stream 0 it is about the connection"),
)  # fmt: skip
FRAMES: Final[dict[int, FrameRow]] = {row.type: row for row in _ROWS}
OPENERS: Final = frozenset(row.type for row in _ROWS if row.place.startswith("opens"))
COUNTED: Final = frozenset(row.type for row in _ROWS if row.is_counted)


def frame_header(length: int, kind: int, flags: int, stream: int) -> bytes:
    return _HEADER.pack(length, kind, flags, stream)


class Header(NamedTuple):
    length: int
    kind: int
    flags: int
    stream: int


def read_header(data: bytes | bytearray | memoryview, offset: int = 0) -> Header:
    """Read the header at ``offset``. Raises ProtocolError for an unknown type or flag; nothing more is read then."""
    length, kind, flags, stream = _HEADER.unpack_from(data, offset)
    if kind not in FRAMES:
        raise ProtocolError(f"a frame of unknown type {kind:02x}")
    if flags & ~FLAGS_KNOWN:
        raise ProtocolError(f"unknown flags {flags:02x}")
    return Header(length, kind, flags, stream)
