"""Take a trail apart into the columns of ``trail.columns.packed_trail``, and into the bytes that cannot be packed.

Columns, in this order (numbers are varints):

* flags u8 · status u8 · number of steps
* the shape of each step, counted from 0 in order of appearance; a new one is followed by its description: opcode
  u8, meta u8, number of operands u8, how each operand is used, how error, result and note are (u8 each)
* for strings used before, how many strings ago each was new; the numbers of operands and exit codes; the sizes of results
* the time at which the run began; the time difference of each step, halved if none is negative; the durations
* the differences of sources; the header; the lengths of text objects; the texts, an FF behind each

Not packed: the secret, the receipts if they are kept, a signature, digests in the order of the strings.
"""

from __future__ import annotations

__all__ = [
    "DIGEST",
    "FLAGS_ALL",
    "GOES_BACK",
    "HAS_RECEIPTS",
    "HAS_SIGNATURE",
    "HAS_SOURCES",
    "KINDS",
    "NEW",
    "OLD",
    "TAIL_FLAGS",
    "TEXT",
    "TEXT_END",
    "TEXT_OBJECT",
    "ColumnWriter",
]

from typing import Final, NamedTuple

from periplus.base.encoding.varint import append_uint, read_uint, uint_bytes
from periplus.base.errors import FormatError
from periplus.trail.format import layout
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import DIGEST_SIZES

_HASHED_STEPS_MAX: Final = 1024  # a longer trail keeps its receipts, which are small beside the rest

HAS_SOURCES: Final = 1
HAS_SIGNATURE: Final = 2
HAS_RECEIPTS: Final = 4
GOES_BACK: Final = 8  # some step began before the one in front of it: differences are zigzag
FLAGS_ALL: Final = 15

# Use of a string by a step: one used before, or a new one of this kind. Wire types 0, 2 and 3 of operands are kept.
OLD: Final = 1
NEW: Final = 4
TEXT: Final = 0
TEXT_OBJECT: Final = 1
DIGEST: Final = 2  # DIGEST + algorithm code − 1
KINDS: Final = 5
TAIL_FLAGS: Final = (layout.HAS_ERROR, layout.HAS_RESULT, layout.HAS_NOTE)
TEXT_END: Final = 0xFF  # no byte of UTF-8


class _Entry(NamedTuple):
    kind: int
    content: bytes  # bytes of a text or digest; for a text object the length as a varint
    sha256: bytes = b""  # of a text object


class ColumnWriter:
    """The columns of a trail. Irregular trails need no check here, because ``pack`` compares its result."""

    def __init__(self, data: bytes) -> None:
        self._reader = TrailReader(data)
        if self._reader.extra or self._reader.is_redacted:
            raise FormatError("not as trails of this version are, or redacted", offset=0)
        self._entries: list[_Entry] = []
        self._next = 0  # entries used so far

    def section(self, tag: int) -> bytes:
        return self._reader.section(tag) or b""

    def columns(self) -> tuple[bytes, bytes]:
        """Return the bytes to pack, and the bytes that cannot be packed."""
        strings = self.section(layout.TAG_STRINGS)
        secret = self._read_entries(strings)
        flags = 0
        raw = bytearray(secret)
        receipts = self.section(layout.TAG_RECEIPTS)
        steps = self.section(layout.TAG_STEPS)
        header = self.section(layout.TAG_HEADER)
        count, at = read_uint(steps, 0, len(steps))
        if count > _HASHED_STEPS_MAX or self._reader.computed_identity() != self._reader.stored_identity:
            flags |= HAS_RECEIPTS
            raw += receipts[1:]
        if self._reader.signature is not None:
            flags |= HAS_SIGNATURE
            raw += self._reader.signature
        programs = self._steps(steps, at, count)
        goes_back, times = self._times(count)
        sources = self._reader.section(layout.TAG_SOURCES)
        if sources is not None:
            flags |= HAS_SOURCES
        flags |= GOES_BACK if goes_back else 0
        head = self._header(header)
        texts = bytearray()
        lengths = bytearray()
        for entry in self._entries:
            if entry.kind == TEXT:
                texts += entry.content
                texts.append(TEXT_END)
            elif entry.kind == TEXT_OBJECT:
                lengths += entry.content
                raw += entry.sha256
            else:
                raw += entry.content
        begin = bytes((flags, receipts[0])) + uint_bytes(count)
        return b"".join((begin, *programs, times, sources or b"", head, lengths, texts)), bytes(raw)

    def _read_entries(self, data: bytes) -> bytes:
        """Read the entries; return the secret."""
        end = len(data)
        secret = data[1 : 1 + layout.SECRET_BYTES]
        count, at = read_uint(data, 1 + layout.SECRET_BYTES, end)
        entries = self._entries
        for _ in range(count):
            form = data[at]
            at += 1
            if form == layout.FORM_TEXT:
                length, at = read_uint(data, at, end)
                entries.append(_Entry(TEXT, data[at : at + length]))
                at += length
            elif form == layout.FORM_TEXT_OBJECT:
                _, after = read_uint(data, at + 32, end)
                entries.append(_Entry(TEXT_OBJECT, data[at + 32 : after], data[at : at + 32]))
                at = after
            else:
                code = data[at]
                size = DIGEST_SIZES[layout.ALGORITHM_BY_CODE[code]]
                entries.append(_Entry(DIGEST - 1 + code, data[at + 1 : at + 1 + size]))
                at += 1 + size
        return secret

    def _use(self, ref: int, old: bytearray) -> int:
        """Return how the string is used; for one that was used before, append its distance to ``old``."""
        if ref == self._next:
            self._next = ref + 1
            return NEW + self._entries[ref].kind
        append_uint(old, self._next - ref)
        return OLD

    def _steps(self, data: bytes, start: int, count: int) -> tuple[bytes, bytes, bytes, bytes]:
        """Return the shapes of the steps, each described at its first use; the uses of old strings; numbers; sizes of
        results.
        """
        end = len(data)
        at = start
        shapes: dict[bytes, int] = {}
        shape_of, old, numbers, sizes = bytearray(), bytearray(), bytearray(), bytearray()
        use = self._use
        for _ in range(count):
            opcode = data[at]
            _, at = read_uint(data, at + 1, end)
            meta = data[at]
            operands = data[at + 1]
            at += 2
            shape = bytearray((opcode, meta, operands))
            for _ in range(operands):
                number, at = read_uint(data, at, end)
                wire = number & 3
                if wire == layout.WIRE_ENTRY:
                    wire = use(number >> 2, old)
                elif wire:
                    append_uint(numbers, number >> 2)
                shape.append(wire)
            if meta & layout.HAS_EXIT_CODE:
                number, at = read_uint(data, at, end)
                append_uint(numbers, number)
            for flag in TAIL_FLAGS:
                if meta & flag:
                    number, at = read_uint(data, at, end)
                    shape.append(use(number, old))
                    if flag == layout.HAS_RESULT:
                        number, at = read_uint(data, at, end)
                        append_uint(sizes, number)
            known = bytes(shape)
            place = shapes.get(known)
            if place is None:
                append_uint(shape_of, len(shapes))
                shapes[known] = len(shapes)
                shape_of += known
            else:
                append_uint(shape_of, place)
        return bytes(shape_of), bytes(old), bytes(numbers), bytes(sizes)

    def _times(self, count: int) -> tuple[bool, bytes]:
        """Return whether the time ever goes back, and the column of start time, differences and durations."""
        data = self.section(layout.TAG_TIMES)
        end = len(data)
        started, at = read_uint(data, 0, end)
        deltas: list[int] = []
        durations = bytearray()
        for _ in range(count):
            delta, at = read_uint(data, at, end)
            duration, at = read_uint(data, at, end)
            deltas.append(delta)
            append_uint(durations, duration)
        goes_back = any(delta & 1 for delta in deltas)
        out = bytearray()
        append_uint(out, started)
        for delta in deltas:
            append_uint(out, delta if goes_back else delta >> 1)
        return goes_back, bytes(out + durations)

    def _header(self, data: bytes) -> bytes:
        """Return the header, in which 0 … 4 stands for a new string of that kind, and a larger number is the distance +
        4.
        """
        end = len(data)
        version, at = read_uint(data, 0, end)
        out = bytearray(uint_bytes(version))

        def refs(count: int, at: int) -> int:
            for _ in range(count):
                ref, at = read_uint(data, at, end)
                distance = self._next - ref
                append_uint(out, distance + KINDS - 1 if distance else self._use(ref, out) - NEW)
            return at

        at = refs(4, at)
        present = data[at]
        out.append(present)
        at = refs(present.bit_count(), at + 1)
        parents, at = read_uint(data, at, end)
        append_uint(out, parents)
        refs(parents, at)
        return bytes(out)
