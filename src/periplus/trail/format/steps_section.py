"""The steps section with its times and sources: checked in one pass, decoded in another.

``check_steps`` reads every byte of the steps and builds nothing; after it, ``decode_steps`` need not check again. Both
loops have their own copy of the varint reader, because a call for each number would double their time; a number cut off
by the end of its step is detected because the step then does not end where it said.
"""

from __future__ import annotations

__all__ = [
    "ANY_FORM",
    "DIGEST_FORMS",
    "TEXT_FORMS",
    "CheckedSteps",
    "check_ref",
    "check_sources",
    "check_steps",
    "check_times",
    "decode_steps",
    "digest_at",
    "text_at",
]

from array import array
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from periplus.base.encoding.varint import read_uint, unzigzag
from periplus.base.errors import FormatError
from periplus.base.speed import IS_NATIVE, record, sound_steps, take_steps
from periplus.trail.format import layout
from periplus.trail.format.batch_decoding import are_sound_sources, are_sound_times, entries_of_sound_steps
from periplus.trail.format.string_table import StringTable
from periplus.trail.model import (
    OUTCOMES,
    Digest,
    OperandValue,
    Signed,
    Step,
    Text,
    TextObject,
    Withheld,
)
from periplus.trail.opcodes import OPCODES, OperandKind, opcode_name

_CACHED_VALUES_MAX: Final = 4096
_TAKEN_AT_ONCE: Final = 256  # steps decoded in one call of the loop

# Permitted kinds of an operand, one bit each: absent, an entry of form 0 … 3, unsigned, signed.
_ABSENT: Final = 1
TEXT_FORMS: Final = 2 << layout.FORM_TEXT | 2 << layout.FORM_TEXT_OBJECT | 2 << layout.FORM_WITHHELD
DIGEST_FORMS: Final = 2 << layout.FORM_DIGEST | 2 << layout.FORM_WITHHELD
ANY_FORM: Final = TEXT_FORMS | DIGEST_FORMS
_UNSIGNED: Final = 32
_SIGNED: Final = 64
_ANYTHING: Final = 127
_MASKS: Final[dict[OperandKind, int]] = {
    "str": TEXT_FORMS,
    "path": TEXT_FORMS,
    "json": TEXT_FORMS,
    "bytes": TEXT_FORMS,
    "digest": DIGEST_FORMS,
    "uint": _UNSIGNED,
    "int": _SIGNED,
}
_LARGEST: Final = 1 << 54  # bound for the numbers of times and sources; each has a closer check of its own
_UNKNOWN: Final = 0xFF  # in place of the length of a row: an unknown opcode


def _flat_table() -> tuple[bytes, bytes, bytes]:
    """Return the permitted kinds of each operand of each code, and the least and most operands; codes without a row
    allow anything.
    """
    masks = bytearray([_ANYTHING]) * (256 * layout.OPERANDS_MAX)
    least = bytearray(256)
    most = bytearray([_UNKNOWN]) * 256
    for opcode in OPCODES:
        begin = opcode.code * layout.OPERANDS_MAX
        for at, operand in enumerate(opcode.operands):
            masks[begin + at] = _MASKS[operand.kind] | (_ABSENT if operand.optional else 0)
            least[opcode.code] = least[opcode.code] if operand.optional else at + 1
        most[opcode.code] = len(opcode.operands)
    return bytes(masks), bytes(least), bytes(most)


_ROWS: Final = _flat_table()
_ROW_MASKS: Final[bytes] = _ROWS[0]
_ROW_LEAST: Final[bytes] = _ROWS[1]
_ROW_MOST: Final[bytes] = _ROWS[2]


class CheckedSteps(NamedTuple):
    step_count: int
    entries_used: int
    unknown: dict[int, int]  # code → number of steps, for codes of a newer version
    unknown_at: int | None  # offset of the first of these


def check_steps(data: bytes, start: int, end: int, forms: bytes) -> CheckedSteps:
    """Check the steps section at ``start … end``; ``forms`` are those of the string table."""
    count, at = read_uint(data, start, end)
    if count > layout.STEPS_MAX or count > (end - at) // 4:
        raise FormatError(f"{count:,} steps announced, more than there is room for", offset=start)
    if IS_NATIVE:
        used = sound_steps(data, at, end, count, forms, _ROW_MASKS, _ROW_LEAST, _ROW_MOST)
    else:
        used = entries_of_sound_steps(data, at, end, count, forms)
    if used is not None:
        return CheckedSteps(count, used, {}, None)
    check = _StepsCheck(data, at, end, forms)
    try:
        check.pass_over(count)
    except IndexError:  # a number runs over the end of the file
        raise FormatError("step cut off", offset=check.step) from None
    if check.at != end:
        raise FormatError("bytes after the last step", offset=check.at)
    return CheckedSteps(count, check.used, check.unknown, check.unknown_at)


class _StepsCheck:
    """The state of a check: the current step begins at ``step``, the next at ``at``."""

    def __init__(self, data: bytes, at: int, end: int, forms: bytes) -> None:
        self._data = data
        self._end = end
        self._forms = forms
        self.at = at
        self.step = at
        self.used = 0
        self.unknown: dict[int, int] = {}
        self.unknown_at: int | None = None

    def pass_over(self, steps: int) -> None:
        data, forms, end = self._data, self._forms, self._end
        form_count = len(forms)
        at = self.at
        used = self.used
        for _ in range(steps):
            step = at
            self.step = at
            code = data[at]
            length = data[at + 1]
            at += 2
            if length > 127:
                length, at = _length_of_step(data, step, end)
            stop = at + length
            if stop > end or length < 2:
                raise FormatError("step cut off", offset=step)
            meta = data[at]
            count = data[at + 1]
            at += 2
            most = _ROW_MOST[code]
            if most == _UNKNOWN:
                self._carry(code, count)
            elif count > most:
                raise _odd_head(code, meta, count, step)
            if meta & 0x80 or meta & 7 > 4 or count < _ROW_LEAST[code]:
                raise _odd_head(code, meta, count, step)
            kind = _UNSIGNED
            row = code * layout.OPERANDS_MAX
            # The varint reader is repeated here and in _made for speed, as in identity: it runs once for each number of a trail.
            for place in range(row, row + count):
                byte = data[at]
                at += 1
                wire = byte & 3
                number = (byte & 127) >> 2
                if byte > 127:
                    shift = 5
                    while True:
                        byte = data[at]
                        at += 1
                        number |= (byte & 127) << shift
                        if byte < 128:
                            break
                        shift += 7
                        if shift > 61:
                            raise FormatError("number over 10 bytes", offset=step)
                    if byte == 0 or (shift == 61 and byte > 1):
                        raise FormatError("number not in its shortest form, or over 64 bits", offset=step)
                if wire == 1:
                    if number >= used:
                        if number > used or number >= form_count:
                            raise FormatError(f"entry {number} is not in the order of first use", offset=step)
                        used += 1
                    kind = 2 << forms[number]
                elif wire:
                    kind = 8 << wire
                else:
                    if number:
                        raise FormatError("absent operand with a number", offset=step)
                    kind = _ABSENT
                if not kind & _ROW_MASKS[place]:
                    raise FormatError(f"{opcode_name(code)}: operand of the wrong kind", offset=step)
            if kind == _ABSENT:
                raise FormatError("absent operand at the end", offset=step)
            if meta > 7:
                at, used = _check_tail(data, at, stop, meta, forms, used)
            if at != stop:
                wrong = "step is longer than what it holds" if meta > 7 else "step is not as long as it says"
                raise FormatError(wrong, offset=step)
        self.at = at
        self.used = used

    def _carry(self, code: int, count: int) -> None:
        """Count a step whose opcode this version does not know."""
        if code in layout.NEVER_STEPS:
            raise FormatError(f"opcode {code:#04x} is not a step", offset=self.step)
        if count > layout.OPERANDS_MAX:
            raise FormatError(f"{opcode_name(code)} with {count} operands", offset=self.step)
        if self.unknown_at is None:
            self.unknown_at = self.step
        self.unknown[code] = self.unknown.get(code, 0) + 1


def _length_of_step(data: bytes, step: int, end: int) -> tuple[int, int]:
    """Return the length of the step at ``step``, of two bytes or more, and the offset of its body."""
    length, at = read_uint(data, step + 1, end)
    if length > layout.STEP_BYTES_MAX:
        raise FormatError(f"step of {length:,} bytes", offset=step)
    return length, at


def _odd_head(code: int, meta: int, count: int, offset: int) -> FormatError:
    if meta & 0x80 or meta & 7 >= len(OUTCOMES):
        return FormatError(f"outcome or flags {meta:#04x} unknown", offset=offset)
    return FormatError(f"{opcode_name(code)} with {count} operands", offset=offset)


def _check_tail(data: bytes, begin: int, stop: int, meta: int, forms: bytes, used: int) -> tuple[int, int]:
    at = begin
    if meta & layout.HAS_EXIT_CODE:
        number, at = read_uint(data, at, stop)
        if abs(unzigzag(number)) > layout.INTEGER_MAX:
            raise FormatError("exit code over 53 bits", offset=begin)
    if meta & layout.HAS_ERROR:
        at, used = check_ref(data, at, stop, forms, used, TEXT_FORMS)
    if meta & layout.HAS_RESULT:
        at, used = check_ref(data, at, stop, forms, used, DIGEST_FORMS)
        number, at = read_uint(data, at, stop)
        if number > layout.INTEGER_MAX:
            raise FormatError("result size over 53 bits", offset=begin)
    if meta & layout.HAS_NOTE:
        at, used = check_ref(data, at, stop, forms, used, TEXT_FORMS)
    return at, used


def check_ref(data: bytes, at: int, stop: int, forms: bytes, used: int, mask: int) -> tuple[int, int]:
    """Check one ref and return ``(next offset, entries used)``; ``mask`` holds the permitted forms."""
    begin = at
    number, at = read_uint(data, at, stop)
    if number >= used:
        if number > used or number >= len(forms):
            raise FormatError(f"entry {number} is not in the order of first use", offset=begin)
        used += 1
    if not 2 << forms[number] & mask:
        raise FormatError(f"entry {number} is of the wrong form here", offset=begin)
    return at, used


def check_times(data: bytes, start: int, end: int, count: int) -> int:
    """Check the times section against the number of steps; return the start of the trail in ms."""
    first, begin = read_uint(data, start, end)
    started = unzigzag(first)
    if not layout.CLOCK_MS_MIN <= started <= layout.CLOCK_MS_MAX:
        raise FormatError("time of the beginning outside the years 1 to 9999", offset=start)
    if are_sound_times(data, begin, end, started, count):
        return started
    now = started
    at = begin
    stop = end
    seen = 0
    while at < stop:
        place = at
        number = data[at]
        at += 1
        if number > 127:
            number, at = _large(data, place, end)
        if seen & 1:
            if number > layout.INTEGER_MAX + 1:
                raise FormatError("duration over 53 bits", offset=place)
        else:
            now += -((number + 1) >> 1) if number & 1 else number >> 1
            if not layout.CLOCK_MS_MIN <= now <= layout.CLOCK_MS_MAX:
                raise FormatError("time outside the years 1 to 9999", offset=place)
        seen += 1
    if seen != 2 * count:
        raise FormatError(f"{seen:,} numbers for the times of {count:,} steps, two each", offset=start)
    return started


def check_sources(data: bytes, start: int, end: int, count: int) -> None:
    """Check the sources section against the number of steps."""
    if are_sound_sources(data, start, end, count):
        return
    source = 0
    at = start
    stop = end
    seen = 0
    has_any = False
    while at < stop:
        place = at
        number = data[at]
        at += 1
        if number > 127:
            number, at = _large(data, place, end)
        if number:
            has_any = True
            source += -((number + 1) >> 1) if number & 1 else number >> 1
            if not 0 <= source <= layout.INTEGER_MAX:
                raise FormatError(f"source number {source}", offset=place)
        seen += 1
    if seen != count:
        raise FormatError(f"sources of {seen:,} steps, and there are {count:,}", offset=start)
    if not has_any:
        raise FormatError("sources without any source", offset=start)


def _large(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number of two bytes or more that is a time, a duration or a source difference, and the offset behind it."""
    byte = data[at + 1] if at + 1 < end else 128
    if 0 < byte < 128:
        return data[at] & 127 | byte << 7, at + 2
    number, after = read_uint(data, at, end)
    if number > _LARGEST:
        raise FormatError(f"number {number}: a time, duration or source outside its bounds", offset=at)
    return number, after


def decode_steps(
    data: bytes,
    steps: tuple[int, int],
    times: tuple[int, int],
    sources: tuple[int, int] | None,
    strings: StringTable,
) -> Iterator[Step]:
    """Yield the steps of checked sections, one at a time."""
    return chain.from_iterable(_batches(data, steps, times, sources, strings))


def _batches(
    data: bytes,
    steps: tuple[int, int],
    times: tuple[int, int],
    sources: tuple[int, int] | None,
    strings: StringTable,
) -> Iterator[list[Step]]:
    left, at = read_uint(data, *steps)
    _, clock = read_uint(data, *times)
    decoder = _Decoder(data, at, clock, -1 if sources is None else sources[0], strings)
    while left:
        taken = decoder.take(min(left, _TAKEN_AT_ONCE))
        left -= len(taken)
        yield taken


class _Decoder:
    """The position of a reader of steps: ``at`` in the steps, ``clock`` in the times, ``record`` in the sources (-1
    without them).
    """

    def __init__(self, data: bytes, at: int, clock: int, record: int, strings: StringTable) -> None:
        self._data = data
        self._at = at
        self._clock = clock
        self._record = record
        self._source = 0
        self._strings = strings
        self._values: dict[int, OperandValue] = {}
        slots = 1 << min(len(strings), _CACHED_VALUES_MAX - 1).bit_length()
        self._keys = array("Q", bytes(8 * slots if IS_NATIVE else 0))  # keys of the values that the C loop caches
        self._held: list[OperandValue] = [None] * slots if IS_NATIVE else []

    def take(self, steps: int) -> list[Step]:
        """Return the next steps: ``steps`` of them or fewer, at least one. There must be ``steps`` left."""
        strings = self._strings
        found = take_steps(
            self._data, Step, strings.forms, strings.contents, OUTCOMES, _ROW_MOST, self._keys, self._held,
            strings.value, self._at, self._clock, self._record, self._source, steps,
        )  # fmt: skip
        if found is None:
            return self._made(steps)
        out, self._at, self._clock, self._record, self._source = found
        return out or self._made(1)

    def _made(self, steps: int) -> list[Step]:
        """Decode the next ``steps`` steps in Python: without the C loop, and for steps that the C loop does not handle."""
        data, values, made, outcomes, step = self._data, self._values, record, OUTCOMES, Step
        end = len(data)
        at = self._at
        clock = self._clock
        out: list[Step] = []
        for _ in range(steps):
            code = data[at]
            length = data[at + 1]
            at += 2
            if length > 127:
                length, at = read_uint(data, at - 1, end)
            stop = at + length
            meta = data[at]
            count = data[at + 1]
            at += 2
            most = _ROW_MOST[code]
            operands: list[OperandValue] = []
            # The varint reader without the checks of pass_over, which have succeeded; repeated for speed, too.
            for _ in range(count):
                byte = data[at]
                at += 1
                wire = byte & 3
                number = (byte & 127) >> 2
                if byte > 127:
                    shift = 5
                    while True:
                        byte = data[at]
                        at += 1
                        number |= (byte & 127) << shift
                        if byte < 128:
                            break
                        shift += 7
                if wire == 1:
                    value = values.get(number)
                    operands.append(self._value(number) if value is None else value)
                elif wire == 2:
                    operands.append(number)
                elif wire == 3 and most == _UNKNOWN:
                    operands.append(Signed(unzigzag(number)))
                elif wire:
                    operands.append(unzigzag(number))
                else:
                    operands.append(None)
            if count < most and most != _UNKNOWN:
                operands.extend([None] * (most - count))
            tail = _NO_TAIL if meta < 8 else self._tail(at, stop, meta)
            at = stop
            delta = data[clock]
            clock += 1
            if delta > 127:
                delta, clock = _large(data, clock - 1, end)
            duration = data[clock]
            clock += 1
            if duration > 127:
                duration, clock = _large(data, clock - 1, end)
            out.append(made(step, (
                code, tuple(operands), outcomes[meta & 7], tail[0], tail[1], tail[2], tail[3], tail[4],
                -((delta + 1) >> 1) if delta & 1 else delta >> 1, duration - 1 if duration else None,
                self._next_source() if self._record >= 0 else None,
            )))  # fmt: skip
        self._at = at
        self._clock = clock
        return out

    def _next_source(self) -> int | None:
        data = self._data
        at = self._record
        number = data[at]
        at += 1
        if number > 127:
            number, at = _large(data, at - 1, len(data))
        self._record = at
        if number:
            self._source += -((number + 1) >> 1) if number & 1 else number >> 1
        return self._source or None

    def _value(self, index: int) -> OperandValue:
        value = self._strings.value(index)
        if len(self._values) >= _CACHED_VALUES_MAX:
            self._values.clear()
        self._values[index] = value
        return value

    def _tail(self, at: int, stop: int, meta: int) -> _Tail:
        data, strings = self._data, self._strings
        exit_code = error = result = note = None
        size = 0
        if meta & layout.HAS_EXIT_CODE:
            number, at = read_uint(data, at, stop)
            exit_code = unzigzag(number)
        if meta & layout.HAS_ERROR:
            number, at = read_uint(data, at, stop)
            error = text_at(strings, number)
        if meta & layout.HAS_RESULT:
            number, at = read_uint(data, at, stop)
            result = digest_at(strings, number)
            size, at = read_uint(data, at, stop)
        if meta & layout.HAS_NOTE:
            number, at = read_uint(data, at, stop)
            note = text_at(strings, number)
        return exit_code, error, result, size, note


_Tail: TypeAlias = tuple[int | None, Text | None, Digest | Withheld | None, int, Text | None]
_NO_TAIL: Final[_Tail] = (None, None, None, 0, None)


def text_at(strings: StringTable, index: int) -> Text:
    value = strings.value(index)
    assert isinstance(value, (str, TextObject, Withheld)), index
    return value


def digest_at(strings: StringTable, index: int) -> Digest | Withheld:
    value = strings.value(index)
    assert isinstance(value, (Digest, Withheld)), index
    return value
