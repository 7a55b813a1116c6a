"""Build a trail file, one step at a time.

The builder keeps the string table and the bytes of the steps, never a step as an object, so the memory for a session of
any length is that of its bytes. Three rules make the bytes canonical:

* an entry gets its place at its first use: first the steps in their order, then the header;
* the entries that a refused step brought in are removed before the next step, because a reader refuses an entry that no step uses;
* numbers have one form, the shortest.

``_append`` is the hot loop of every importer. A known string costs one look-up; new strings and unusual values take the
slower methods below it.
"""

from __future__ import annotations

__all__ = ["TrailBuilder"]

from collections.abc import Callable, Mapping
from typing import Final

from periplus.base.encoding.container import KIND_TRAIL, pack
from periplus.base.encoding.varint import append_uint, uint_bytes, zigzag
from periplus.base.errors import UsageError
from periplus.trail.format import layout
from periplus.trail.format.identity import identify
from periplus.trail.model import (
    DIGEST_SIZES,
    OUTCOMES,
    STATUSES,
    Digest,
    Header,
    Signed,
    Status,
    Step,
    TextObject,
    Withheld,
)
from periplus.trail.opcodes import BY_CODE, OPCODES, Opcode, Operand, OperandKind

_TEXT: Final = 0
_DIGEST: Final = 1
_UINT: Final = 2
_INT: Final = 3
_CARRIED: Final[dict[OperandKind, int]] = {
    "str": _TEXT,
    "path": _TEXT,
    "json": _TEXT,
    "bytes": _TEXT,
    "digest": _DIGEST,
    "uint": _UINT,
    "int": _INT,
}
_ONE_BYTE: Final = [bytes((number,)) for number in range(128)]
_SETTLED_AT_ONCE: Final = 1024
_DIGEST_HEADS: Final[dict[str, bytes]] = {
    name: bytes((layout.FORM_DIGEST, code)) for name, code in layout.CODE_BY_ALGORITHM.items()
}
_META: Final[dict[object, int]] = {outcome: code for code, outcome in enumerate(OUTCOMES)}


class _Slot:
    """The place of one operand, prepared for the loop: its encoding, and its name in errors."""

    __slots__ = ("carried", "is_optional", "where")

    def __init__(self, opcode: str, operand: Operand) -> None:
        self.carried: int = _CARRIED[operand.kind]
        self.is_optional: bool = operand.optional
        self.where: str = f"{opcode}: operand {operand.name}"


class _Shape:
    """A row of the opcode table, prepared for the loop."""

    __slots__ = ("code", "name", "opcode", "required", "slots")

    def __init__(self, opcode: Opcode) -> None:
        self.opcode: Opcode = opcode
        self.code: int = opcode.code
        self.name: str = opcode.name
        self.slots: tuple[_Slot, ...] = tuple([_Slot(opcode.name, operand) for operand in opcode.operands])
        # Number of operands up to the last required one, inclusive.
        self.required: int = max(
            (at + 1 for at, operand in enumerate(opcode.operands) if not operand.optional), default=0
        )


_SHAPES: Final[dict[str | int, _Shape]] = {key: _Shape(row) for row in OPCODES for key in (row.name, row.code)}


class TrailBuilder:
    """Build one trail. ``secret`` is its 32-byte trail secret; ``put_text`` stores a text over 4,096 bytes as an object
    and returns its SHA-256.
    """

    def __init__(self, secret: bytes, put_text: Callable[[bytes], bytes] | None = None) -> None:
        self._secret = _checked_secret(secret)
        self._put_text = put_text
        self._texts: dict[object, int] = {}
        self._digests: dict[object, int] = {}
        self._wires: list[bytes] = []  # for each entry, the encoded operand that refers to it
        self._entries = bytearray()
        self._steps = bytearray()
        self._times = bytearray()
        self._heads: dict[int, bytes] = {}  # cache of the bytes before the operands of a step; few differ
        self._sources = bytearray()
        self._has_sources = False
        self._new_steps: list[bytes] = []  # steps that _settle has not yet joined to the earlier ones
        self._new_times: list[bytes] = []
        self._new_sources: list[bytes] = []
        self._step_count = 0
        self._first_ms: int | None = None
        self._first_at = 0  # offset in the times at which the difference to the start of the trail is inserted
        self._now_ms = 0
        self._source = 0
        self._mark_step = -1
        # Sizes of texts, digests, entries and entry bytes before the current step, for _roll_back.
        self._mark: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._finished = False

    @property
    def step_count(self) -> int:
        return self._step_count

    def add(
        self,
        op: str | int,
        *operands: object,
        outcome: object = "ok",
        exit_code: object = None,
        error: object = None,
        result: object = None,
        result_size: object = 0,
        note: object = None,
        at_ms: object = None,
        duration_ms: object = None,
        source: object = None,
    ) -> int:
        """Add a step of opcode ``op`` (name or code) and return its index.

        ``at_ms`` is the time at which it began, in ms since 1970-01-01 UTC (None: the time of the step before);
        ``source`` is the number of its record in the imported file, from 1. Raises UsageError, naming opcode and
        operand, for any value that the table or the format does not allow; the trail is unchanged then. The parameters
        are typed as objects because values from outside are checked here: operands as ``OperandValue``, outcome as
        ``Outcome``, error and note as ``Text``.
        """
        shape = _SHAPES.get(op)
        if shape is None:
            raise UsageError(f"unknown opcode {op!r}", mend="Use TOOL_CALL for a tool that has no opcode of its own.")
        return self._append(
            shape, operands, outcome, exit_code, error, result, result_size, note, at_ms, duration_ms, source
        )

    # The keywords of add and add_unknown are written out: passing them on as **keywords would build a dict for each step.
    def add_unknown(
        self,
        code: int,
        *operands: object,
        outcome: object = "ok",
        exit_code: object = None,
        error: object = None,
        result: object = None,
        result_size: object = 0,
        note: object = None,
        at_ms: object = None,
        duration_ms: object = None,
        source: object = None,
    ) -> int:
        """Add a step of an opcode of a newer version; its operands are stored unchanged. Otherwise like ``add``."""
        return self._append(
            _carrying(code, operands),
            operands, outcome, exit_code, error, result, result_size, note, at_ms, duration_ms, source,
        )  # fmt: skip

    def add_step(self, step: Step, at_ms: int) -> int:
        """Add a ``Step`` as a reader returns it, known opcode or not; it began at ``at_ms``."""
        code, operands, outcome, exit_code, error, result, result_size, note, _, duration_ms, source = step
        shape = _SHAPES.get(code)
        if shape is None:
            shape = _carrying(code, operands)
        return self._append(
            shape, operands, outcome, exit_code, error, result, result_size, note, at_ms, duration_ms, source
        )

    def finish(self, header: Header, status: Status = "success", secret: bytes | None = None) -> bytes:
        """Return the bytes of the trail. ``header.started_ms`` of 0 stands for the time of the first step that has one.

        ``secret`` replaces the secret given to the constructor: an importer knows the digest of its source only at the
        end.
        """
        if secret is not None:
            self._secret = _checked_secret(secret)
        started_ms = header.started_ms
        if not started_ms and self._first_ms is not None:
            started_ms = self._first_ms
        return self.seal(header, status, started_ms)

    def seal(self, header: Header, status: Status, started_ms: int, extra: Mapping[int, bytes] | None = None) -> bytes:
        """Finish like ``finish``, with the start time used as given and with ``extra`` sections of other tags appended."""
        if self._finished:
            raise UsageError("the trail is finished already")
        if status not in STATUSES:
            raise UsageError(f"unknown status {status!r}", mend=f"One of: {', '.join(STATUSES)}.")
        if type(started_ms) is not int or not layout.CLOCK_MS_MIN <= started_ms <= layout.CLOCK_MS_MAX:
            raise _wrong_clock(started_ms, "started_ms")
        if extra and not {*extra}.isdisjoint({*layout.REQUIRED_TAGS, layout.TAG_SOURCES}):
            raise UsageError("an extra section has the tag of one that the trail writes itself")
        if self._mark_step == self._step_count:
            self._roll_back()
        head = self._header(header)
        self._settle()
        self._finished = True
        steps = uint_bytes(self._step_count) + self._steps
        self._steps.clear()
        strings = bytearray((layout.MODE_FULL,)) + self._secret + uint_bytes(len(self._wires)) + self._entries
        identity = identify(head, bytes(strings), bytes(steps), STATUSES.index(status))
        sections: dict[int, bytes | bytearray] = dict(extra or {})
        sections[layout.TAG_HEADER] = head
        sections[layout.TAG_STRINGS] = strings
        sections[layout.TAG_STEPS] = steps
        sections[layout.TAG_TIMES] = self._times_section(started_ms)
        if self._has_sources:
            sections[layout.TAG_SOURCES] = self._sources
        sections[layout.TAG_RECEIPTS] = identity.receipts_section()
        return pack(KIND_TRAIL, sections)

    # Steps

    def _append(
        self,
        shape: _Shape,
        operands: tuple[object, ...],
        outcome: object,
        exit_code: object,
        error: object,
        result: object,
        result_size: object,
        note: object,
        at_ms: object,
        duration_ms: object,
        source: object,
    ) -> int:
        index = self._step_count
        if self._mark_step == index:
            self._roll_back()
        if self._finished:
            raise UsageError("the trail is finished already")
        slots = shape.slots
        count = len(operands)
        while count and operands[count - 1] is None:
            count -= 1
        if not shape.required <= count <= len(slots):
            raise _wrong_count(shape, count)
        try:
            body = self._operands(slots, operands, count)
        except TypeError as failure:
            _explain(shape, operands, failure)
            raise
        meta = _META.get(outcome, -1)
        if meta < 0:
            raise UsageError(f"{shape.name}: unknown outcome {outcome!r}")
        if exit_code is not None or error is not None or result is not None or note is not None or result_size:
            flags, tail = self._tail(shape, exit_code, error, result, result_size, note)
            meta |= flags
            body += tail
        times = self._time(shape, at_ms, duration_ms)
        if index >= layout.STEPS_MAX:
            raise UsageError(f"over {layout.STEPS_MAX:,} steps in a trail")
        if source is not None or self._has_sources:
            self._add_source(shape, source)
        length = len(body) + 2
        head_key = shape.code | meta << 8 | count << 16 | length << 24
        head = self._heads.get(head_key)
        if head is None:
            head = self._heads[head_key] = bytes((shape.code, *uint_bytes(length), meta, count))
        self._new_steps.append(head)
        self._new_steps.append(body)
        if isinstance(at_ms, int):
            if self._first_ms is None:
                self._settle()
                self._first_ms = at_ms
                self._first_at = len(self._times)
            self._now_ms = at_ms
        self._new_times.append(times)
        if len(self._new_times) >= _SETTLED_AT_ONCE:
            self._settle()
        self._step_count = index + 1
        return index

    def _operands(self, slots: tuple[_Slot, ...], operands: tuple[object, ...], count: int) -> bytes:
        """Encode the first ``count`` operands. Raises UsageError naming the operand, or TypeError for a value that
        cannot be hashed.
        """
        body = b""
        texts, wires = self._texts, self._wires
        for place in range(count):
            slot = slots[place]
            value = operands[place]
            carried = slot.carried
            if carried == _TEXT:
                known = texts.get(value)
                body += wires[known] if known is not None else self._text_operand(slot, value)
            elif carried == _UINT and type(value) is int and 0 <= value < 32:
                body += _ONE_BYTE[value << 2 | layout.WIRE_UNSIGNED]
            else:
                body += self._other_operand(slot, value)
        return body

    def _settle(self) -> None:
        """Join the bytes of the newest steps to those of the earlier ones."""
        self._steps += b"".join(self._new_steps)
        self._times += b"".join(self._new_times)
        self._sources += b"".join(self._new_sources)
        self._new_steps.clear()
        self._new_times.clear()
        self._new_sources.clear()

    def _text_operand(self, slot: _Slot, value: object) -> bytes:
        if value is None and slot.is_optional:
            return _ONE_BYTE[0]
        return self._wires[self._text(value, slot.where)]

    def _other_operand(self, slot: _Slot, value: object) -> bytes:
        if value is None and slot.is_optional:
            return _ONE_BYTE[0]
        if slot.carried == _DIGEST:
            return self._wires[self._digest(value, slot.where)]
        if value is None:
            raise UsageError(f"{slot.where}: required")
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{slot.where}: a whole number was expected, not {type(value).__name__}")
        if slot.carried == _UINT:
            if value < 0:
                raise UsageError(f"{slot.where}: {value} is below 0")
            number, wire = value, layout.WIRE_UNSIGNED
        else:
            number, wire = zigzag(value), layout.WIRE_SIGNED
        if number > layout.OPERAND_NUMBER_MAX:
            raise UsageError(f"{slot.where}: {value} has over 62 bits")
        return uint_bytes(number << 2 | wire)

    def _tail(
        self,
        shape: _Shape,
        exit_code: object,
        error: object,
        result: object,
        result_size: object,
        note: object,
    ) -> tuple[int, bytes]:
        out = b""
        flags = 0
        if exit_code is not None:
            flags |= layout.HAS_EXIT_CODE
            if type(exit_code) is not int or not -layout.INTEGER_MAX <= exit_code <= layout.INTEGER_MAX:
                raise _wrong_integer(exit_code, -layout.INTEGER_MAX, f"{shape.name}: exit_code")
            out += uint_bytes(zigzag(exit_code))
        if error is not None:
            flags |= layout.HAS_ERROR
            out += uint_bytes(self._text(error, f"{shape.name}: error"))
        if result is not None:
            flags |= layout.HAS_RESULT
            out += uint_bytes(self._digest(result, f"{shape.name}: result"))
            if type(result_size) is not int or not 0 <= result_size <= layout.INTEGER_MAX:
                raise _wrong_integer(result_size, 0, f"{shape.name}: result_size")
            out += uint_bytes(result_size)
        elif result_size:
            raise UsageError(f"{shape.name}: result_size without a result")
        if note is not None:
            flags |= layout.HAS_NOTE
            out += uint_bytes(self._text(note, f"{shape.name}: note"))
        return flags, out

    # Times and sources

    def _time(self, shape: _Shape, at_ms: object, duration_ms: object) -> bytes:
        duration = _ONE_BYTE[0]
        if duration_ms is not None:
            if type(duration_ms) is not int or not 0 <= duration_ms <= layout.INTEGER_MAX:
                raise _wrong_integer(duration_ms, 0, f"{shape.name}: duration_ms")
            duration = uint_bytes(duration_ms + 1)
        if at_ms is None:
            return _ONE_BYTE[0] + duration
        if type(at_ms) is not int or not layout.CLOCK_MS_MIN <= at_ms <= layout.CLOCK_MS_MAX:
            raise _wrong_clock(at_ms, f"{shape.name}: at_ms")
        if self._first_ms is None:
            return duration  # _times_section adds the difference once the start time is known
        return uint_bytes(zigzag(at_ms - self._now_ms)) + duration

    def _times_section(self, started_ms: int) -> bytes:
        started = uint_bytes(zigzag(started_ms))
        if self._first_ms is None:
            return started + self._times
        first = uint_bytes(zigzag(self._first_ms - started_ms))
        return b"".join((started, self._times[: self._first_at], first, self._times[self._first_at :]))

    def _add_source(self, shape: _Shape, source: object) -> None:
        number = 0
        if source is not None:
            if type(source) is not int or not 1 <= source <= layout.INTEGER_MAX:
                raise _wrong_integer(source, 1, f"{shape.name}: source")
            number = source
        if not self._has_sources:
            self._has_sources = True
            self._new_sources.append(bytes(self._step_count))
        self._new_sources.append(uint_bytes(zigzag(number - self._source)))
        self._source = number

    # Entries

    def _text(self, value: object, where: str) -> int:
        """Return the index of a text among the entries; add it if it is new."""
        if isinstance(value, str):
            return self._inline_text(value, where)
        if isinstance(value, TextObject):
            known = self._texts.get(value)
            if known is not None:
                return known
            if len(value.sha256) != 32 or not layout.INLINE_TEXT_BYTES_MAX < value.length <= layout.INTEGER_MAX:
                raise UsageError(f"{where}: a text object has a SHA-256 and over 4,096 bytes")
            entry = bytes((layout.FORM_TEXT_OBJECT,)) + value.sha256 + uint_bytes(value.length)
            return self._place(self._texts, value, entry)
        raise _not_a("text", value, where)

    def _inline_text(self, text: str, where: str) -> int:
        known = self._texts.get(text)
        if known is not None:
            return known
        try:
            data = text.encode()
        except UnicodeEncodeError:
            whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            index = self._inline_text(whole, where)
            if len(whole) <= layout.INLINE_TEXT_BYTES_MAX:
                self._texts[text] = index
            return index
        if len(data) > layout.INLINE_TEXT_BYTES_MAX:
            if self._put_text is None:
                raise UsageError(f"{where}: {len(data):,} bytes of text, and no object store to keep them")
            return self._text(TextObject(self._put_text(data), len(data)), where)
        return self._place(self._texts, text, _ONE_BYTE[layout.FORM_TEXT] + uint_bytes(len(data)) + data)

    def _digest(self, value: object, where: str) -> int:
        if not isinstance(value, Digest):
            raise _not_a("digest", value, where)
        known = self._digests.get(value)
        if known is not None:
            return known
        if len(value.value) != DIGEST_SIZES.get(value.algorithm):
            raise UsageError(f"{where}: not a digest of {value.algorithm!r}: {len(value.value)} bytes")
        return self._place(self._digests, value, _DIGEST_HEADS[value.algorithm] + value.value)

    def _place(self, table: dict[object, int], value: object, entry: bytes) -> int:
        if self._mark_step != self._step_count:
            self._mark_step = self._step_count
            self._mark = (len(self._texts), len(self._digests), len(self._wires), len(self._entries))
        index = len(self._wires)
        if index >= layout.STRINGS_MAX:
            raise UsageError(f"over {layout.STRINGS_MAX:,} different strings in a trail")
        table[value] = index
        self._wires.append(uint_bytes(index << 2 | layout.WIRE_ENTRY))
        self._entries += entry
        return index

    def _roll_back(self) -> None:
        """Remove the entries that a refused step or header brought in."""
        texts, digests, entries, entry_bytes = self._mark
        for table, size in ((self._texts, texts), (self._digests, digests)):
            while len(table) > size:
                table.popitem()
        del self._wires[entries:]
        del self._entries[entry_bytes:]
        self._mark_step = -1

    def _header(self, header: Header) -> bytes:
        out = bytearray((layout.FORMAT_VERSION,))
        for name in ("agent", "trail_id", "tool", "tool_version"):
            append_uint(out, self._text(getattr(header, name), f"header: {name}"))
        refs = bytearray()
        present = 0
        if header.base is not None:
            present |= layout.HAS_BASE
            is_digest = isinstance(header.base, Digest)
            append_uint(refs, (self._digest if is_digest else self._text)(header.base, "header: base"))
        for name, flag in (("model", layout.HAS_MODEL), ("host", layout.HAS_HOST)):
            if getattr(header, name) is not None:
                present |= flag
                append_uint(refs, self._text(getattr(header, name), f"header: {name}"))
        if header.source is not None:
            present |= layout.HAS_SOURCE
            append_uint(refs, self._digest(header.source, "header: source"))
        if header.title is not None:
            present |= layout.HAS_TITLE
            append_uint(refs, self._text(header.title, "header: title"))
        out.append(present)
        out += refs
        if len(header.parents) > layout.PARENTS_MAX:
            raise UsageError(f"header: over {layout.PARENTS_MAX:,} parents")
        append_uint(out, len(header.parents))
        for parent in header.parents:
            if isinstance(parent, Digest) and parent.algorithm != "sha256":
                raise UsageError(f"header: parents: a trail digest was expected, not one of {parent.algorithm}")
            append_uint(out, self._digest(parent, "header: parents"))
        return bytes(out)


def _checked_secret(secret: bytes) -> bytes:
    if len(secret) != layout.SECRET_BYTES:
        raise UsageError(f"a trail secret has {layout.SECRET_BYTES} bytes, not {len(secret)}")
    return bytes(secret)


def _kind_of(value: object) -> OperandKind:
    if isinstance(value, Digest):
        return "digest"
    if isinstance(value, Signed):
        return "int"
    return "uint" if isinstance(value, int) else "str"


def _carrying(code: int, operands: tuple[object, ...]) -> _Shape:
    """Return the shape of a step of a newer version, whose operands are stored unchanged."""
    if code in BY_CODE or code in layout.NEVER_STEPS or not 0 <= code <= 0xFF:
        raise UsageError(f"{code:#04x} is not the code of an opcode that this version does not know")
    if len(operands) > layout.OPERANDS_MAX:
        raise UsageError(f"OP_{code:02X}: over {layout.OPERANDS_MAX} operands")
    row = tuple([Operand(str(at), _kind_of(value), optional=True) for at, value in enumerate(operands)])
    return _Shape(Opcode(code, f"OP_{code:02X}", row, ""))


def _wrong_integer(value: object, least: int, where: str) -> UsageError:
    if type(value) is not int:
        return UsageError(f"{where}: a whole number was expected, not {type(value).__name__}")
    return UsageError(f"{where}: {value} is not within {least} and 2^53 - 1")


def _wrong_clock(value: object, where: str) -> UsageError:
    if type(value) is not int:
        return UsageError(f"{where}: a whole number was expected, not {type(value).__name__}")
    return UsageError(f"{where}: {value} ms lies outside the years 1 to 9999")


def _wrong_count(shape: _Shape, count: int) -> UsageError:
    opcode = shape.opcode
    if count > len(opcode.operands):
        return UsageError(f"{opcode.name}: {count} operands, and there are {len(opcode.operands)}")
    missing = next(operand for operand in opcode.operands[count:] if not operand.optional)
    return UsageError(f"{opcode.name}: operand {missing.name}: required")


def _not_a(kind: str, value: object, where: str) -> UsageError:
    if value is None:
        return UsageError(f"{where}: required")
    if isinstance(value, Withheld):
        return UsageError(f"{where}: withheld; only a whole trail can be written")
    return UsageError(f"{where}: a {kind} was expected, not {type(value).__name__}")


def _explain(shape: _Shape, operands: tuple[object, ...], failure: TypeError) -> None:
    """Raise UsageError if the failure came from a value that cannot be hashed."""
    for slot, value in zip(shape.slots, operands, strict=False):
        if isinstance(value, (list, dict, set, bytearray)):
            raise UsageError(f"{slot.where}: {type(value).__name__} cannot be carried") from failure
