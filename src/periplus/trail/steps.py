"""The steps section and what runs beside it: checked in one pass, decoded in another.

``check_steps`` reads every byte of the steps and makes nothing of them; after it, ``decode_steps`` need not doubt what
it reads. Both loops have their own copy of the number reader, for a call per number would double their time; a
number cut off by the end of its step is found because the step then does not end where it said.
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
    "numbers",
    "text_at",
]

from collections.abc import Iterator
from itertools import repeat
from typing import Final, NamedTuple

from periplus.base.errors import FormatError
from periplus.base.varint import UINT_MAX, read_uint, unzigzag
from periplus.trail import layout
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
from periplus.trail.strings import StringTable

_CACHED_VALUES_MAX: Final = 4096

# What an operand may be, a bit each: absent, an entry of form 0 … 3, unsigned, signed.
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
_UNKNOWN_ROW: Final = (_ANYTHING,) * layout.OPERANDS_MAX


class _Row(NamedTuple):
    masks: tuple[int, ...]
    required: int


_ROWS: Final = {
    opcode.code: _Row(
        tuple(_MASKS[operand.kind] | (_ABSENT if operand.optional else 0) for operand in opcode.operands),
        max((at + 1 for at, operand in enumerate(opcode.operands) if not operand.optional), default=0),
    )
    for opcode in OPCODES
}
_CARRIED_ROW: Final = _Row(_UNKNOWN_ROW, 0)
_PADS: Final = {opcode.code: (None,) * len(opcode.operands) for opcode in OPCODES}


_TAIL: Final = (
    (layout.HAS_EXIT_CODE, 0),
    (layout.HAS_ERROR, TEXT_FORMS),
    (layout.HAS_RESULT, DIGEST_FORMS),
    (layout.HAS_NOTE, TEXT_FORMS),
)


class CheckedSteps(NamedTuple):
    step_count: int
    entries_used: int


def check_steps(data: bytes, start: int, end: int, forms: bytes | bytearray) -> CheckedSteps:
    """Check the steps section at ``start … end``; ``forms`` are those of the string table."""
    count, at = read_uint(data, start, end)
    if count > layout.STEPS_MAX or count > (end - at) // 4:
        raise FormatError(f"{count:,} steps announced, more than there is room for", offset=start)
    used = 0
    step = at
    try:
        for _ in range(count):
            step = at
            at, used = _check_step(data, at, end, forms, used)
    except IndexError:  # a number that runs over the end of the whole file
        raise FormatError("step cut off", offset=step) from None
    if at != end:
        raise FormatError("bytes after the last step", offset=at)
    return CheckedSteps(count, used)


def _check_step(data: bytes, at: int, end: int, forms: bytes | bytearray, used: int) -> tuple[int, int]:
    step = at
    code = data[at]
    length = data[at + 1]
    at += 2
    if length > 127:
        length, at = read_uint(data, step + 1, end)
        if length > layout.STEP_BYTES_MAX:
            raise FormatError(f"step of {length:,} bytes", offset=step)
    stop = at + length
    if stop > end or length < 2:
        raise FormatError("step cut off", offset=step)
    meta = data[at]
    count = data[at + 1]
    at += 2
    row = _ROWS.get(code, _CARRIED_ROW)
    if meta & 0x80 or meta & 7 >= len(OUTCOMES) or not row.required <= count <= len(row.masks):
        raise _odd_head(code, meta, count, step)
    kind = _UNSIGNED
    for mask in row.masks[:count]:
        number = data[at]
        at += 1
        if number > 127:
            number &= 127
            shift = 7
            while True:
                byte = data[at]
                at += 1
                number |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
                if shift > 63:
                    raise FormatError("number over 10 bytes", offset=step)
            if byte == 0 or number > UINT_MAX:
                raise FormatError("number not in its shortest form, or over 64 bits", offset=step)
        wire = number & 3
        number >>= 2
        if wire == 1:
            if number >= used:
                if number > used or number >= len(forms):
                    raise FormatError(f"entry {number} is not in the order of first use", offset=step)
                used += 1
            kind = 2 << forms[number]
        else:
            if wire == 0 and number:
                raise FormatError("absent operand with a number", offset=step)
            kind = 8 << wire if wire else _ABSENT
        if not kind & mask:
            raise FormatError(f"{opcode_name(code)}: operand of the wrong kind", offset=step)
    if kind == _ABSENT:
        raise FormatError("absent operand at the end", offset=step)
    if code in layout.NEVER_STEPS:
        raise FormatError(f"opcode {code:#04x} is no step", offset=step)
    if meta > 7:
        at, used = _check_tail(data, at, stop, meta, forms, used)
    if at != stop:
        raise FormatError("step is not as long as it says", offset=step)
    return stop, used


def _odd_head(code: int, meta: int, count: int, offset: int) -> FormatError:
    if meta & 0x80 or meta & 7 >= len(OUTCOMES):
        return FormatError(f"outcome or flags {meta:#04x} unknown", offset=offset)
    return FormatError(f"{opcode_name(code)} with {count} operands", offset=offset)


def _check_tail(data: bytes, at: int, stop: int, meta: int, forms: bytes | bytearray, used: int) -> tuple[int, int]:
    begin = at
    stream = numbers(data, at, stop)
    for flag, mask in _TAIL:
        if not meta & flag:
            continue
        number = next(stream, None)
        if number is None:
            raise FormatError("step cut off", offset=begin)
        if not mask:
            if abs(unzigzag(number)) > layout.INTEGER_MAX:
                raise FormatError("exit code over 53 bits", offset=begin)
            continue
        if number >= used:
            if number > used or number >= len(forms):
                raise FormatError(f"entry {number} is not in the order of first use", offset=begin)
            used += 1
        if not 2 << forms[number] & mask:
            raise FormatError(f"entry {number} is of the wrong form here", offset=begin)
        if flag == layout.HAS_RESULT and not 0 <= next(stream, -1) <= layout.INTEGER_MAX:
            raise FormatError("result size cut off, or over 53 bits", offset=begin)
    if next(stream, None) is not None:
        raise FormatError("step is longer than what it holds", offset=begin)
    return stop, used


def numbers(data: bytes, at: int, end: int) -> Iterator[int]:
    """The numbers that fill ``at … end``. Raises FormatError where one is cut off, too long or too large."""
    while at < end:
        begin = at
        number = data[at]
        at += 1
        if number > 127:
            number &= 127
            shift = 7
            while True:
                if at >= end or shift > 63:
                    raise FormatError("number cut off, or over 10 bytes", offset=begin)
                byte = data[at]
                at += 1
                number |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
            if byte == 0 or number > UINT_MAX:
                raise FormatError("number not in its shortest form, or over 64 bits", offset=begin)
        yield number


def check_ref(data: bytes, at: int, stop: int, forms: bytes | bytearray, used: int, mask: int) -> tuple[int, int]:
    """Check one ref: ``(next offset, entries used)``; ``mask`` says which forms may stand there."""
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
    """Check the times section against the number of steps; the beginning of the trail in ms."""
    stream = numbers(data, start, end)
    started = now = unzigzag(next(stream, 1 << 63))
    if not layout.CLOCK_MS_MIN <= now <= layout.CLOCK_MS_MAX:
        raise FormatError("time of the beginning missing, or outside the years 1 to 9999", offset=start)
    seen = 0
    for delta in stream:
        duration = next(stream, -1)
        now += -((delta + 1) >> 1) if delta & 1 else delta >> 1
        if not layout.CLOCK_MS_MIN <= now <= layout.CLOCK_MS_MAX:
            raise FormatError("time outside the years 1 to 9999", offset=_offset_of(data, start, end, 2 * seen + 1))
        if not 0 <= duration <= layout.INTEGER_MAX + 1:
            raise FormatError("duration missing, or over 53 bits", offset=_offset_of(data, start, end, 2 * seen + 2))
        seen += 1
    if seen != count:
        raise FormatError(f"times of {seen:,} steps, and there are {count:,}", offset=start)
    return started


def check_sources(data: bytes, start: int, end: int, count: int) -> None:
    """Check the sources section against the number of steps."""
    source = seen = 0
    has_any = False
    for delta in numbers(data, start, end):
        source += -((delta + 1) >> 1) if delta & 1 else delta >> 1
        if not 0 <= source <= layout.INTEGER_MAX:
            raise FormatError(f"source number {source}", offset=_offset_of(data, start, end, seen))
        if source:
            has_any = True
        seen += 1
    if seen != count:
        raise FormatError(f"sources of {seen:,} steps, and there are {count:,}", offset=start)
    if not has_any:
        raise FormatError("sources without any source", offset=start)


def _offset_of(data: bytes, at: int, end: int, place: int) -> int:
    """Where number ``place`` (from 0) of those that fill ``at … end`` begins."""
    for _ in range(place):
        if at < end:
            _, at = read_uint(data, at, end)
    return at


def decode_steps(
    data: bytes,
    steps: tuple[int, int],
    times: tuple[int, int],
    sources: tuple[int, int] | None,
    strings: StringTable,
) -> Iterator[Step]:
    """The steps of checked sections, one at a time."""
    _, at = read_uint(data, *steps)
    clock = numbers(data, *times)
    next(clock)
    records = repeat(0) if sources is None else numbers(data, *sources)
    source = 0
    values: dict[int, OperandValue] = {}
    new = tuple.__new__
    for delta, duration, record in zip(clock, clock, records, strict=False):
        code = data[at]
        length = data[at + 1]
        at += 2
        if length > 127:
            length, at = read_uint(data, at - 1, steps[1])
        stop = at + length
        meta = data[at]
        count = data[at + 1]
        at += 2
        pad = _PADS.get(code)
        operands: list[OperandValue] = []
        for _ in range(count):
            number = data[at]
            at += 1
            if number > 127:
                number &= 127
                shift = 7
                while True:
                    byte = data[at]
                    at += 1
                    number |= (byte & 127) << shift
                    if byte < 128:
                        break
                    shift += 7
            wire = number & 3
            number >>= 2
            if wire == 1:
                value = values.get(number)
                if value is None:
                    value = strings.value(number)
                    if len(values) >= _CACHED_VALUES_MAX:
                        values.clear()
                    values[number] = value
                operands.append(value)
            elif wire == 2:
                operands.append(number)
            elif wire:
                operands.append(unzigzag(number) if pad is not None else Signed(unzigzag(number)))
            else:
                operands.append(None)
        if pad is not None and count < len(pad):
            operands.extend(pad[count:])
        if record:
            source += -((record + 1) >> 1) if record & 1 else record >> 1
        tail = _NO_TAIL if meta < 8 else _decode_tail(data, at, stop, meta, strings)
        at = stop
        yield new(
            Step,
            (
                code,
                tuple(operands),
                OUTCOMES[meta & 7],
                *tail,
                -((delta + 1) >> 1) if delta & 1 else delta >> 1,
                duration - 1 if duration else None,
                source or None,
            ),
        )


class _Tail(NamedTuple):
    exit_code: int | None
    error: Text | None
    result: Digest | Withheld | None
    result_size: int
    note: Text | None


_NO_TAIL: Final = _Tail(None, None, None, 0, None)


def _decode_tail(data: bytes, at: int, stop: int, meta: int, strings: StringTable) -> _Tail:
    stream = numbers(data, at, stop)
    exit_code = unzigzag(next(stream)) if meta & layout.HAS_EXIT_CODE else None
    error = text_at(strings, next(stream)) if meta & layout.HAS_ERROR else None
    result = None
    size = 0
    if meta & layout.HAS_RESULT:
        result = digest_at(strings, next(stream))
        size = next(stream)
    note = text_at(strings, next(stream)) if meta & layout.HAS_NOTE else None
    return _Tail(exit_code, error, result, size, note)


def text_at(strings: StringTable, index: int) -> Text:
    value = strings.value(index)
    assert isinstance(value, (str, TextObject, Withheld)), index
    return value


def digest_at(strings: StringTable, index: int) -> Digest | Withheld:
    value = strings.value(index)
    assert isinstance(value, (Digest, Withheld)), index
    return value
