"""Encode and decode payloads: canonical msgpack or JSON, and zstd if both sides have it.

msgpack is canonical: a payload that does not encode to itself again is refused. JSON is written in canonical form, but
read in any order and with any white space, because people write it. zstd comes from the package ``zstandard`` (an
extra); without it the capability is not offered. The size in the header of compressed data is checked first, so that no
more than a frame is ever allocated.
"""

from __future__ import annotations

__all__ = ["Codec", "Encoding", "has_zstd"]

from typing import Any, Final, Literal, TypeAlias

import msgspec

from periplus.context.wire.error_codes import ProtocolError, WireError
from periplus.context.wire.frames import FLAG_ZSTD, FRAMES, FrameType, frame_header

Encoding: TypeAlias = Literal["msgpack", "json"]
COMPRESS_BYTES_MIN: Final = 1_024
_ZSTD_LEVEL: Final = 1
_HANDSHAKE: Final = frozenset({FrameType.HELLO, FrameType.WELCOME})


def has_zstd() -> bool:
    """Return whether the extra for zstd is installed."""
    from importlib.util import find_spec

    return find_spec("zstandard") is not None


_MSGPACK_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_JSON_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_MSGPACK_DECODERS: Final[dict[int, msgspec.msgpack.Decoder[Any]]] = {}
_JSON_DECODERS: Final[dict[int, msgspec.json.Decoder[Any]]] = {}


class Codec:
    """The encoding of one connection. It starts with JSON and no compression; ``agree`` sets the result of HELLO."""

    __slots__ = ("_compressor", "_unpacks", "encoding")

    def __init__(self) -> None:
        self.encoding: Encoding = "json"
        self._unpacks = False
        self._compressor: Any = None

    def agree(self, encoding: Encoding, *, unpacks: bool, packs: bool) -> None:
        """Set the ``encoding``; ``unpacks`` if zstd was agreed, ``packs`` if this side uses it as well."""
        self.encoding = encoding
        self._unpacks = unpacks
        if packs and unpacks:
            import zstandard

            self._compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)

    def payload(self, value: msgspec.Struct) -> bytes:
        """Return the bytes of ``value`` before any compression. Raises WireError for text that UTF-8 cannot encode."""
        try:
            return (_MSGPACK_ENCODER if self.encoding == "msgpack" else _JSON_ENCODER).encode(value)
        except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError) as error:
            raise WireError(f"a {type(value).__name__} cannot be written: {error}") from error

    def frame(self, kind: FrameType, stream: int, payload: bytes) -> bytes:
        """Return the frame around ``payload``, compressed if that helps."""
        flags = 0
        if self._compressor is not None and len(payload) >= COMPRESS_BYTES_MIN and kind not in _HANDSHAKE:
            packed = self._compressor.compress(payload)
            if len(packed) < len(payload):
                payload, flags = packed, FLAG_ZSTD
        return frame_header(len(payload), kind, flags, stream) + payload

    def unpacked(self, data: bytes, flags: int, bytes_max: int) -> bytes:
        """Return the payload of a frame, decompressed if necessary. Raises ProtocolError, also before it would exceed
        ``bytes_max``.
        """
        if not flags & FLAG_ZSTD:
            return data
        if not self._unpacks:
            raise ProtocolError("a compressed frame, and no compression was agreed")
        return _unpack(data, bytes_max)

    def value(self, kind: int, payload: bytes) -> Any:
        """Decode and check the payload of a frame of type ``kind``. Raises ProtocolError with the fault."""
        try:
            if self.encoding == "json":
                return _json_decoder(kind).decode(payload)
            value = _msgpack_decoder(kind).decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"{FRAMES[kind].name}: {error}") from error
        try:
            again = _MSGPACK_ENCODER.encode(value)
        except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError) as error:
            raise ProtocolError(f"{FRAMES[kind].name}: {error}") from error
        if again != payload:
            raise ProtocolError(f"{FRAMES[kind].name}: the payload is not canonical")
        return value


def _msgpack_decoder(kind: int) -> msgspec.msgpack.Decoder[Any]:
    decoder = _MSGPACK_DECODERS.get(kind)
    if decoder is None:
        decoder = _MSGPACK_DECODERS[kind] = msgspec.msgpack.Decoder(FRAMES[kind].payload)
    return decoder


def _json_decoder(kind: int) -> msgspec.json.Decoder[Any]:
    decoder = _JSON_DECODERS.get(kind)
    if decoder is None:
        decoder = _JSON_DECODERS[kind] = msgspec.json.Decoder(FRAMES[kind].payload)
    return decoder


def _unpack(data: bytes, bytes_max: int) -> bytes:
    import zstandard

    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= bytes_max:
            raise ProtocolError(
                "a compressed frame that is too large, or does not say how large it is", "frame_too_large"
            )
        window = zstandard.get_frame_parameters(data).window_size
        if window > max(bytes_max, 1 << 20):
            raise ProtocolError("a compressed frame wants too large a window", "frame_too_large")
        unpacked: bytes = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompress(
            data, max_output_size=bytes_max, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise ProtocolError(f"a compressed frame is broken: {error}") from error
    if len(unpacked) != size:
        raise ProtocolError("a compressed frame is not as large as it says")
    return unpacked
