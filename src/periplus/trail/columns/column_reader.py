"""Rebuild a trail from its columns, which ``trail.columns.column_writer`` lists. The columns may be hostile."""

from __future__ import annotations

__all__ = ["ColumnReader"]

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from periplus.base.encoding.varint import UINT_MAX, append_uint, read_uint, uint_bytes
from periplus.base.errors import FormatError
from periplus.trail.columns.column_writer import (
    DIGEST,
    FLAGS_ALL,
    GOES_BACK,
    HAS_RECEIPTS,
    HAS_SIGNATURE,
    HAS_SOURCES,
    KINDS,
    NEW,
    OLD,
    TAIL_FLAGS,
    TEXT,
    TEXT_END,
    TEXT_OBJECT,
)
from periplus.trail.format import layout
from periplus.trail.model import DIGEST_SIZES


class ColumnReader:
    """The sections of a trail, rebuilt from columns that may be hostile: nothing grows beyond ``length``."""

    def __init__(self, columns: bytes, raw: bytes, length: int) -> None:
        self._columns = columns
        self._raw = raw
        self._length = length
        self._at = 0
        self._raw_at = 0
        self._flags = 0
        self._status = 0
        self.kinds = bytearray()
        self._header = b""
        self._strings = bytearray()
        self._steps = bytearray()
        self._times = bytearray()
        self._sources = b""
        self._signature = b""
        self.receipts = b""

    def read(self) -> None:
        """Read everything. Raises FormatError or IndexError; what was read before stays available."""
        self._secret = self._take(layout.SECRET_BYTES)
        self._flags, self._status = self._byte(), self._byte()
        if self._flags & ~FLAGS_ALL:
            raise FormatError("trail at rest with flags of a later version", offset=0)
        if self._flags & HAS_RECEIPTS:
            self.receipts = self._take(layout.RECEIPTS_BYTES - 1)
        if self._flags & HAS_SIGNATURE:
            self._signature = self._take(layout.SIGNATURE_BYTES)
        count = self._uint()
        if count > min(len(self._columns), layout.STEPS_MAX):
            raise FormatError(f"{count:,} steps announced, more than there is room for", offset=0)
        self._read_steps(count)
        self._read_times(count)
        if self._flags & HAS_SOURCES:
            start = self._at
            for _ in range(count):
                self._uint()
            self._sources = self._columns[start : self._at]
        self._read_header()
        self._read_strings()
        if self._at != len(self._columns) or self._raw_at != len(self._raw):
            raise FormatError("bytes after the last string", offset=0)

    def sections(self) -> dict[int, bytes | bytearray]:
        """Return the sections read so far, with zeros for receipts that are to be computed."""
        found: dict[int, bytes | bytearray] = {
            layout.TAG_HEADER: self._header,
            layout.TAG_STRINGS: self._strings,
            layout.TAG_STEPS: self._steps,
            layout.TAG_TIMES: self._times,
            layout.TAG_RECEIPTS: bytes((self._status,)) + (self.receipts or bytes(layout.RECEIPTS_BYTES - 1)),
        }
        if self._flags & HAS_SOURCES:
            found[layout.TAG_SOURCES] = self._sources
        if self._flags & HAS_SIGNATURE:
            found[layout.TAG_SIGNATURE] = self._signature
        return found

    def _byte(self) -> int:
        self._at += 1
        return self._columns[self._at - 1]

    def _uint(self) -> int:
        value, self._at = read_uint(self._columns, self._at, len(self._columns))
        return value

    def _take(self, count: int) -> bytes:
        """Return the next bytes of the unpacked part."""
        found = self._raw[self._raw_at : self._raw_at + count]
        if len(found) != count:
            raise FormatError("digests cut off", offset=0)
        self._raw_at += count
        return found

    def _uints(self, count: int) -> array[int]:
        found = array("Q")
        data, at, end = self._columns, self._at, len(self._columns)
        for _ in range(count):
            value, at = read_uint(data, at, end)
            found.append(value)
        self._at = at
        return found

    def _read_steps(self, count: int) -> None:
        shapes: list[_Shape] = []
        shape_of = array("L")
        counts = [0, 0, 0]
        for _ in range(count):
            place = self._uint()
            if place == len(shapes):
                shapes.append(self._read_shape())
            elif place > len(shapes):
                raise FormatError(f"shape {place} before it was described", offset=0)
            shape_of.append(place)
            shape = shapes[place]
            counts[0] += shape.olds
            counts[1] += shape.numbers
            counts[2] += shape.sizes
        columns = [iter(self._uints(count)) for count in counts]
        self._steps += uint_bytes(count)
        for place in shape_of:
            self._add_step(shapes[place], *columns)

    def _read_shape(self) -> _Shape:
        opcode, meta, operands = self._byte(), self._byte(), self._byte()
        if operands > layout.OPERANDS_MAX:
            raise FormatError(f"a step of {operands} operands", offset=0)
        wires = bytes([self._byte() for _ in range(operands)])
        tail = bytes([self._byte() for flag in TAIL_FLAGS if meta & flag])
        if any(wire >= NEW + KINDS for wire in wires) or any(not _is_use(use) for use in tail):
            raise FormatError("a use of a string that is unknown", offset=0)
        numbers = sum(wire in (layout.WIRE_UNSIGNED, layout.WIRE_SIGNED) for wire in wires)
        return _Shape(
            opcode,
            meta,
            wires,
            tail,
            wires.count(OLD) + tail.count(OLD),
            numbers + bool(meta & layout.HAS_EXIT_CODE),
            int(bool(meta & layout.HAS_RESULT)),
        )

    def _add_step(self, shape: _Shape, olds: Iterator[int], numbers: Iterator[int], sizes: Iterator[int]) -> None:
        body = bytearray((shape.meta, len(shape.wires)))
        for wire in shape.wires:
            if wire == layout.WIRE_ABSENT:
                body.append(0)
            elif _is_use(wire):
                append_uint(body, self._ref(wire, olds) << 2 | layout.WIRE_ENTRY)
            else:
                append_uint(body, (next(numbers) << 2 | wire) & UINT_MAX)
        if shape.meta & layout.HAS_EXIT_CODE:
            append_uint(body, next(numbers))
        uses = iter(shape.tail)
        for flag in TAIL_FLAGS:
            if shape.meta & flag:
                append_uint(body, self._ref(next(uses), olds))
                if flag == layout.HAS_RESULT:
                    append_uint(body, next(sizes))
        self._steps.append(shape.opcode)
        append_uint(self._steps, len(body))
        self._steps += body
        if len(self._steps) > self._length:
            raise FormatError("more steps than the trail has room for", offset=0)

    def _ref(self, use: int, olds: Iterator[int]) -> int:
        if use == OLD:
            return self._old(next(olds))
        self.kinds.append(use - NEW)
        return len(self.kinds) - 1

    def _old(self, distance: int) -> int:
        if not 1 <= distance <= len(self.kinds):
            raise FormatError("a string used before there was one", offset=0)
        return len(self.kinds) - distance

    def _read_times(self, count: int) -> None:
        out = self._times
        append_uint(out, self._uint())
        deltas, durations = self._uints(count), self._uints(count)
        shift = 0 if self._flags & GOES_BACK else 1
        for delta, duration in zip(deltas, durations, strict=True):
            append_uint(out, delta << shift & UINT_MAX)
            append_uint(out, duration)

    def _read_header(self) -> None:
        out = bytearray(uint_bytes(self._uint()))

        def refs(count: int) -> None:
            for _ in range(count):
                told = self._uint()
                if told >= KINDS:
                    append_uint(out, self._old(told - KINDS + 1))
                else:
                    self.kinds.append(told)
                    append_uint(out, len(self.kinds) - 1)

        refs(4)
        present = self._byte()
        out.append(present)
        refs(present.bit_count())
        parents = self._uint()
        if parents > layout.PARENTS_MAX:
            raise FormatError(f"{parents:,} parents", offset=0)
        append_uint(out, parents)
        refs(parents)
        self._header = bytes(out)

    def _read_strings(self) -> None:
        kinds = self.kinds
        out = self._strings
        out.append(layout.MODE_FULL)
        out += self._secret
        append_uint(out, len(kinds))
        lengths = iter(self._uints(kinds.count(TEXT_OBJECT)))
        columns = self._columns
        for kind in kinds:
            if kind == TEXT:
                end = columns.find(TEXT_END, self._at)
                if end < 0:
                    raise FormatError("texts cut off", offset=0)
                out.append(layout.FORM_TEXT)
                append_uint(out, end - self._at)
                out += memoryview(columns)[self._at : end]
                self._at = end + 1
            elif kind == TEXT_OBJECT:
                out.append(layout.FORM_TEXT_OBJECT)
                out += self._take(32)
                append_uint(out, next(lengths))
            else:
                code = kind - DIGEST + 1
                out += bytes((layout.FORM_DIGEST, code))
                out += self._take(DIGEST_SIZES[layout.ALGORITHM_BY_CODE[code]])


class _Shape(NamedTuple):
    """The common part of steps of one kind, and the number of values that each takes from the columns."""

    opcode: int
    meta: int
    wires: bytes
    tail: bytes  # uses of error, result and note
    olds: int
    numbers: int
    sizes: int


def _is_use(wire: int) -> bool:
    """Return whether the wire type refers to a string."""
    return wire == OLD or NEW <= wire < NEW + KINDS
