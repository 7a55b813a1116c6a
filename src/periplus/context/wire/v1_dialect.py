"""Version 1 of the protocol: requests become events, and the answers of version 2 are written in the old forms.

::

    frame: type u8 · sequence u32 · length u16 · JSON payload      (big-endian; an answer has the sequence of its request)

There is no handshake, no credit and no way to cancel; the transport limits the rate of chunks (``buffered``). Version 1
knows only 16 digits of a hash, which the caller must resolve.
"""

from __future__ import annotations

__all__ = ["V1_FIRST_BYTES", "V1Side"]

import struct
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from periplus.context.model import RELEVANCE_MAX, Atom, Chunk, Entry
from periplus.context.v1_names import atom_alias, context_alias
from periplus.context.wire.error_codes import ErrorCode, ProtocolError, WireError, message_of
from periplus.context.wire.events import Event, V1Requested
from periplus.context.wire.limits import Limits
from periplus.context.wire.v1_forms import (
    FormError,
    atom_form,
    chunk_atom_form,
    read_push,
    read_query,
    read_target,
    tokens_of,
)
from periplus.context.wire.v1_payloads import V1Expand, V1Push, V1Query, V1Request, V1Stream

V1_FIRST_BYTES: Final = frozenset({1, 2, 3, 4})
_HEADER: Final = struct.Struct(">BIH")
_PAYLOAD_MAX: Final = 65_535
_CHUNK_ATOMS: Final = 10
_CHUNK_TOKENS: Final = 500
_CHUNK_BYTES: Final = _PAYLOAD_MAX - 512
_EXPAND, _STREAM, _QUERY, _PUSH = 0x01, 0x02, 0x03, 0x04
_EXPANDED, _CHUNK, _END, _FOUND, _ACK, _ERROR = 0x81, 0x82, 0x83, 0x84, 0x85, 0xFF
_TOO_LARGE: Final = "The answer is larger than 65,535 bytes; ask for a stream."
_ATOM_TOO_LARGE: Final = "An atom is larger than 65,535 bytes, which version 1 cannot carry; ask with version 2."


class _Open:
    """A request without an answer yet, and the content so far of the next chunk of its stream."""

    __slots__ = ("atoms", "body", "chunk_id", "cumulative", "seen", "sequence", "size_bytes", "tokens", "total")

    def __init__(self, sequence: int, body: V1Request) -> None:
        self.sequence = sequence
        self.body = body
        self.atoms: list[msgspec.Raw] = []
        self.tokens = 0
        self.size_bytes = 0
        self.cumulative = 0
        self.chunk_id = 0
        self.seen = 0
        self.total = 0


class V1Side:
    """The server's side of a version 1 connection; ``emit`` takes the bytes of each frame."""

    def __init__(self, limits: Limits, emit: Callable[[bytes], None], may_ask: Callable[[], ErrorCode | None]) -> None:
        self._limits = limits
        self._emit = emit
        self._may_ask = may_ask
        self._open: dict[int, _Open] = {}
        self._last = 0

    @property
    def streams(self) -> list[int]:
        return list(self._open)

    def body_of(self, stream: int) -> V1Request:
        return self._of(stream).body

    def read(self, buffer: bytearray, events: list[Event]) -> int:
        """Read the whole frames of ``buffer`` and return their number of bytes. Raises ProtocolError for anything but a
        request.
        """
        position = 0
        while len(buffer) - position >= 1:
            if buffer[position] not in V1_FIRST_BYTES:
                raise ProtocolError(f"a version 1 frame of unknown type {buffer[position]:02x}")
            if len(buffer) - position < _HEADER.size:
                break
            kind, sequence, length = _HEADER.unpack_from(buffer, position)
            end = position + _HEADER.size + length
            if len(buffer) < end:
                break
            payload = bytes(memoryview(buffer)[position + _HEADER.size : end])
            position = end
            self._on_request(kind, sequence, payload, events)
        return position

    def _on_request(self, kind: int, sequence: int, payload: bytes, events: list[Event]) -> None:
        refused = self._may_ask()
        if refused is None and len(self._open) >= self._limits.streams:
            refused = "too_many_streams"
        if refused is not None:
            self._put_error(sequence, message_of(refused))
            return
        try:
            body = self._read_body(kind, msgspec.json.decode(payload))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._put_error(sequence, "The request is not JSON.")
            return
        except FormError as error:
            self._put_error(sequence, f"The request is not of the form of version 1: {error.field}.")
            return
        self._last += 1
        self._open[self._last] = _Open(sequence, body)
        events.append(V1Requested(self._last, body))

    def _read_body(self, kind: int, form: object) -> V1Request:
        if kind == _QUERY:
            return read_query(form)
        if kind == _PUSH:
            return read_push(form, atoms_max=self._limits.atoms)
        context, least = read_target(form, atoms_max=self._limits.atoms)
        return V1Expand(context, least) if kind == _EXPAND else V1Stream(context, least)

    # Answers

    def send_expansion(self, stream: int, entries: Sequence[Entry], path: Sequence[str]) -> None:
        state = self._of(stream, V1Expand)
        assert isinstance(state.body, V1Expand)
        atoms = [entry.atom for entry in entries if entry.atom.relevance >= state.body.min_relevance]
        if sum([len(atom.content) for atom in atoms]) > _PAYLOAD_MAX:  # check before encoding all of it
            self._fail(stream, _TOO_LARGE)
            return
        types: dict[str, int] = {}
        for atom in atoms:
            types[atom.type] = types.get(atom.type, 0) + 1
        form = {
            "atoms": [atom_form(atom) for atom in atoms],
            "expansion_path": list(path),
            "total_tokens": sum([tokens_of(atom.content) for atom in atoms]),
            "type_summary": types,
        }
        self._answer(stream, _EXPANDED, form)

    def send_query(self, stream: int, entries: Sequence[Entry], total: int) -> None:
        self._of(stream, V1Query)
        self._answer(stream, _FOUND, {"atoms": [atom_form(entry.atom) for entry in entries], "total": total})

    def send_ack(self, stream: int) -> None:
        """Send the short hash of the pushed context, over its atoms in the order in which they came."""
        push = self._of(stream, V1Push).body
        assert isinstance(push, V1Push)
        self._answer(stream, _ACK, {"hash": context_alias(push.base, [atom_alias(atom) for atom in push.atoms])})

    def send_chunk(self, stream: int, chunk: Chunk) -> None:
        """Send the atoms of ``chunk``, split again: 10 atoms and at most 500 tokens. A larger atom gets a chunk of its
        own.
        """
        state = self._of(stream, V1Stream)
        assert isinstance(state.body, V1Stream)
        if chunk.over:
            self._fail(stream, _ATOM_TOO_LARGE)
            return
        reached = chunk.start + len(chunk.entries)
        if chunk.progress_millionths:
            state.total = max(reached, round(reached * RELEVANCE_MAX / chunk.progress_millionths))
        for entry in chunk.entries:
            if entry.atom.relevance >= state.body.min_relevance and not self._add(stream, state, entry.atom):
                return
            state.seen += 1

    def _add(self, stream: int, state: _Open, atom: Atom) -> bool:
        data = msgspec.json.encode(chunk_atom_form(atom))
        tokens = tokens_of(atom.content)
        if len(data) > _CHUNK_BYTES:
            self._fail(stream, _ATOM_TOO_LARGE)
            return False
        if state.atoms and (
            len(state.atoms) >= _CHUNK_ATOMS
            or state.tokens + tokens > _CHUNK_TOKENS
            or state.size_bytes + len(data) + 1 > _CHUNK_BYTES
        ):
            self._flush(state, is_final=False)
        state.atoms.append(msgspec.Raw(data))
        state.tokens += tokens
        state.size_bytes += len(data) + 1
        return True

    def send_end(self, stream: int) -> None:
        """Send the last chunk, which was held back until the end was known, and the end."""
        state = self._of(stream, V1Stream)
        self._flush(state, is_final=True)
        self._answer(stream, _END, {"status": "complete"})

    def _flush(self, state: _Open, *, is_final: bool) -> None:
        state.cumulative += state.tokens
        progress = 1.0 if is_final else round(min(1.0, state.seen / max(state.total, state.seen, 1)), 6)
        form = {
            "chunk_id": state.chunk_id,
            "atoms": state.atoms,
            "is_final": is_final,
            "cumulative_tokens": state.cumulative,
            "progress": progress,
        }
        self._put(_CHUNK, state.sequence, msgspec.json.encode(form))
        state.chunk_id += 1
        state.atoms, state.tokens, state.size_bytes = [], 0, 0

    def send_error(self, stream: int, code: ErrorCode, field: str) -> None:
        if stream in self._open:
            self._fail(stream, f"{message_of(code)} ({field})" if field else message_of(code))

    def put_fatal(self, code: ErrorCode) -> None:
        """Send an ERROR that belongs to no request."""
        self._put_error(0, message_of(code))

    def _of(self, stream: int, kind: type[V1Request] | None = None) -> _Open:
        state = self._open.get(stream)
        if state is None:
            raise WireError(f"stream {stream} is not open")
        if kind is not None and not isinstance(state.body, kind):
            raise WireError(f"that does not answer a {type(state.body).__name__}")
        return state

    def _answer(self, stream: int, kind: int, form: object) -> None:
        payload = msgspec.json.encode(form)
        if len(payload) > _PAYLOAD_MAX:
            self._fail(stream, _TOO_LARGE)
            return
        self._put(kind, self._open.pop(stream).sequence, payload)

    def _fail(self, stream: int, text: str) -> None:
        self._put_error(self._open.pop(stream).sequence, text)

    def _put_error(self, sequence: int, text: str) -> None:
        self._put(_ERROR, sequence, msgspec.json.encode({"error": text}))

    def _put(self, kind: int, sequence: int, payload: bytes) -> None:
        self._emit(_HEADER.pack(kind, sequence, len(payload)) + payload)
