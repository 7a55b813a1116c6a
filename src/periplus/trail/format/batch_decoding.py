"""Batch decoding of a trail's steps in plain Python, without interpreted code for each step.

The steps section is a sequence of numbers: an opcode has its highest bit set, so an opcode and the length behind it
read as one number, and everything that follows is a number. One iterator yields all of them. The first three numbers of
a step (opcode with length, meta, count) are its *look*. For each look there is one maker: a ``zip`` whose parts take
the numbers of such a step from that same iterator, in their order. So the loop runs inside ``map`` and ``zip``, and
each step is made when it is reached. The parts decide what a step becomes: a ``Step``, the input of its leaf, or the
answer whether it is sound.

Anything irregular, including an opcode of a newer version, is left to the loops of ``steps_section`` and ``identity``: they
alone decide what a fault is and at which offset it lies.
"""

from __future__ import annotations

__all__ = [
    "BatchDecodingError",
    "are_sound_sources",
    "are_sound_times",
    "entries_of_sound_steps",
    "leaf_inputs",
    "made_steps",
]

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate, chain, islice, pairwise, repeat
from itertools import count as count_from
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from periplus.base.encoding.varint import read_uint, uint_bytes, unzigzag
from periplus.base.errors import FormatError
from periplus.trail.format import layout
from periplus.trail.format.varint_vectors import count_numbers, decode_chunk, flat_numbers, number_chunks, unzigzag_all
from periplus.trail.model import OUTCOMES, OperandValue, Step
from periplus.trail.opcodes import BY_CODE, Operand

if TYPE_CHECKING:
    from periplus.trail.format.string_table import StringTable

_CACHED_MAX: Final = 4096
_COMMITTED_MAX: Final = 1 << 16
_LOOKS_MAX: Final = 512  # an ordinary trail has a few dozen
_AHEAD: Final = 64  # entries that are decoded together when the first of them is used
_SUMMED: Final = 1024  # steps that are checked together
_ENTRIES_MAX: Final = 1 << 16  # entries of a trail that is checked in batches: each takes some 150 bytes meanwhile
_SIZES: Final = bytes([1, *(-(-bits // 7) for bits in range(1, 50))])  # by bit length; larger numbers are irregular
_BOUNDS: Final = (0, 1 << 7, 1 << 14, 1 << 21)
_OPERAND_BOUNDS: Final = tuple(bound >> 2 for bound in _BOUNDS)
_END: Final = (-1, -1, -1)  # stands for a look behind the last step
_Look: TypeAlias = tuple[int, int, int]  # opcode and length, meta, count


class BatchDecodingError(Exception):
    """The steps need the loops in ``steps_section`` and ``identity``; caught inside ``trail``."""


class _Makers(dict[_Look, Iterator[Any]]):
    """Map each look to the iterator that takes the next step of that look from the numbers."""

    def __init__(self, numbers: Iterator[int]) -> None:
        super().__init__()
        self.numbers = numbers

    def __missing__(self, look: _Look) -> Iterator[Any]:
        if len(self) >= _LOOKS_MAX:
            self.clear()
        maker = self[look] = self.maker(*look)
        return maker

    def made(self) -> Iterator[Any]:
        """Return an iterator over all steps, each made when it is reached."""
        numbers = self.numbers
        return map(next, map(self.__getitem__, zip(numbers, numbers, numbers, strict=False)))

    @abstractmethod
    def maker(self, head: int, meta: int, count: int) -> Iterator[Any]: ...


# Steps


def made_steps(
    data: bytes,
    steps: tuple[int, int],
    times: tuple[int, int],
    sources: tuple[int, int] | None,
    strings: StringTable,
) -> Iterator[Step]:
    """Return the steps of checked sections; every opcode must be known to this version."""
    _, start = read_uint(data, *steps)
    _, clock = read_uint(data, *times)
    beside = chain.from_iterable(_times(data, clock, times[1]))
    records = repeat(None) if sources is None else chain.from_iterable(_sources(data, *sources))
    return _StepMakers(flat_numbers(data, start, steps[1]), (beside, beside, records), strings).made()


def _times(data: bytes, start: int, end: int) -> Iterator[list[int | None]]:
    """Yield, step by step, the ms since the step before and the duration, one behind the other."""
    spare: list[int] = []
    for piece in number_chunks(data, start, end):
        numbers = spare + decode_chunk(piece)
        spare = [numbers.pop()] if len(numbers) % 2 else []
        found: list[int | None] = [*numbers]
        found[::2] = unzigzag_all(numbers[::2])
        found[1::2] = [number - 1 if number else None for number in numbers[1::2]]
        yield found


def _sources(data: bytes, start: int, end: int) -> Iterator[list[int | None]]:
    source = 0
    for piece in number_chunks(data, start, end):
        _, *found = accumulate(unzigzag_all(decode_chunk(piece)), initial=source)
        source = found[-1]
        yield [number or None for number in found]


class _StepMakers(_Makers):
    def __init__(self, numbers: Iterator[int], beside: tuple[Iterator[Any], ...], strings: StringTable) -> None:
        super().__init__(numbers)
        self._beside = beside
        values = _Values(strings)
        self._operands = map(values.__getitem__, numbers)
        self._entries = map(values.__getitem__, _as_operands(numbers))
        self._signed = map(unzigzag, numbers)

    def maker(self, head: int, meta: int, count: int) -> Iterator[Step]:
        code = head & 127 | 128
        absent = len(BY_CODE[code].operands) - count
        operands: Iterator[tuple[OperandValue, ...]] = repeat((None,) * absent)
        if count:
            operands = zip(*[self._operands] * count, *[repeat(None)] * absent, strict=False)
        nothing = repeat(None)
        has_result = meta & layout.HAS_RESULT
        fields: tuple[Iterator[Any], ...] = (
            repeat(code),
            operands,
            repeat(OUTCOMES[meta & layout.OUTCOME_MASK]),
            self._signed if meta & layout.HAS_EXIT_CODE else nothing,
            self._entries if meta & layout.HAS_ERROR else nothing,
            self._entries if has_result else nothing,
            self.numbers if has_result else repeat(0),
            self._entries if meta & layout.HAS_NOTE else nothing,
            *self._beside,
        )
        return map(tuple.__new__, repeat(Step), zip(*fields, strict=False))


def _as_operands(refs: Iterator[int]) -> Iterator[int]:
    """Return refs in the encoding of operands."""
    return map(layout.WIRE_ENTRY.__add__, map((4).__mul__, refs))


class _Values(dict[int, OperandValue]):
    """A cache of recent operand values, by the encoded number."""

    def __init__(self, strings: StringTable) -> None:
        super().__init__()
        self._strings = strings
        self._used = 0  # entries decoded so far, those ahead of use included

    def __missing__(self, operand: int) -> OperandValue:
        wire = operand & 3
        index = operand >> 2
        if wire == layout.WIRE_UNSIGNED:
            return index
        if wire == layout.WIRE_SIGNED:
            return unzigzag(index)
        if wire == layout.WIRE_ABSENT:
            return None
        if len(self) >= _CACHED_MAX:
            self.clear()
        if index < self._used:
            value = self[operand] = self._strings.value(index)
            return value
        # Entries are ordered by first use, so the following ones will be needed next.
        values = self._strings.values(index, index + _AHEAD)
        self._used = index + len(values)
        self.update(zip(range(operand, operand + 4 * len(values), 4), values, strict=True))
        return values[0]


# Whether they are sound


def entries_of_sound_steps(data: bytes, start: int, end: int, count: int, forms: bytes) -> int | None:
    """Return the number of entries, of these ``forms``, that the ``count`` steps at ``start … end`` use; None if
    anything about them is irregular.
    """
    if len(forms) > _ENTRIES_MAX or (start < end and data[end - 1] > 127):
        return None
    judges = _Judges(chain(flat_numbers(data, start, end), _END), forms)
    surpluses = map(sum, judges.made())
    seen = 0
    try:
        while found := list(islice(surpluses, _SUMMED)):
            if any(found):
                return None
            seen += len(found)
    except (BatchDecodingError, FormatError, IndexError):
        return None
    used = len(judges.places)
    in_order = list(judges.places) == list(range(layout.WIRE_ENTRY, 4 * used, 4))
    return used if in_order and seen == count + 1 else None  # the end marker counts as a step


class _Judges(_Makers):
    """Yield, for each step, its real length and, subtracted, its stated length: 0 together if they agree.

    An entry gets its place in the string table when it is first referred to. At the end one check tells whether the
    places agree with the table and whether each operand had the wire type of an entry.
    """

    def __init__(self, numbers: Iterator[int], forms: bytes) -> None:
        super().__init__(numbers)
        self.places: defaultdict[int, int] = defaultdict(count_from().__next__)  # by encoded operand
        places = map(self.places.__getitem__, numbers)
        self._texts = map(_ref_sizes(forms, _TEXTS, _OPERAND_BOUNDS).__getitem__, places)
        self._digests = map(_ref_sizes(forms, _DIGESTS, _OPERAND_BOUNDS).__getitem__, places)
        places = map(self.places.__getitem__, _as_operands(numbers))
        self._tail_texts = map(_ref_sizes(forms, _TEXTS, _BOUNDS).__getitem__, places)
        self._tail_digests = map(_ref_sizes(forms, _DIGESTS, _BOUNDS).__getitem__, places)
        self._tail_numbers = map(_SIZES.__getitem__, map(int.bit_length, numbers))
        self._uints = map(_Sizes(layout.WIRE_UNSIGNED).__getitem__, numbers)
        self._ints = map(_Sizes(layout.WIRE_SIGNED).__getitem__, numbers)

    def maker(self, head: int, meta: int, count: int) -> Iterator[tuple[int, ...]]:
        if (head, meta, count) == _END:
            return repeat((0,))
        row = BY_CODE.get(head & 127 | 128)
        if row is None or not 128 <= head < 1 << 14 or not 0 <= meta < 128:
            raise BatchDecodingError
        if meta & layout.OUTCOME_MASK >= len(OUTCOMES) or not 0 <= count <= len(row.operands):
            raise BatchDecodingError
        if not all(operand.optional for operand in row.operands[count:]):
            raise BatchDecodingError
        fields = [repeat(2 - (head >> 7)), *map(self._operand, row.operands[:count])]
        if meta & layout.HAS_EXIT_CODE:
            fields.append(self._tail_numbers)
        if meta & layout.HAS_ERROR:
            fields.append(self._tail_texts)
        if meta & layout.HAS_RESULT:
            fields += [self._tail_digests, self._tail_numbers]
        if meta & layout.HAS_NOTE:
            fields.append(self._tail_texts)
        return zip(*fields, strict=False)

    def _operand(self, operand: Operand) -> Iterator[int]:
        match operand.kind:
            case "digest":
                return self._digests
            case "uint":
                return self._uints
            case "int":
                return self._ints
            case _:
                return self._texts


def _ref_sizes(forms: bytes, wanted: list[bytes], bounds: tuple[int, ...]) -> bytes:
    """Return the number of bytes that a ref to each entry takes, or a number above any step's size if the form of the
    entry is not wanted.

    ``bounds`` are the first entries whose refs take one byte more.
    """
    return b"".join(
        [forms[first:last].translate(sizes) for sizes, (first, last) in zip(wanted, pairwise(bounds), strict=True)]
    )


def _sizes_by_form(*wanted: int) -> list[bytes]:
    """Return the ``_ref_sizes`` bytes of each form, for refs of one, two and three bytes."""
    found = [bytearray(b"\xff" * 256) for _ in range(3)]
    for size, sizes in enumerate(found, 1):
        for form in wanted:
            sizes[form] = size
    return [bytes(sizes) for sizes in found]


_TEXTS: Final = _sizes_by_form(layout.FORM_TEXT, layout.FORM_TEXT_OBJECT, layout.FORM_WITHHELD)
_DIGESTS: Final = _sizes_by_form(layout.FORM_DIGEST, layout.FORM_WITHHELD)


class _Sizes(dict[int, int]):
    """The number of bytes of a numeric operand whose wire type is ``wire``."""

    def __init__(self, wire: int) -> None:
        super().__init__()
        self._wire = wire

    def __missing__(self, operand: int) -> int:
        if operand < 0 or operand & 3 != self._wire:
            raise BatchDecodingError
        if len(self) >= _CACHED_MAX:
            self.clear()
        size = self[operand] = _SIZES[operand.bit_length()]
        return size


# Leaves


def leaf_inputs(data: bytes, start: int, end: int, commitments: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield, for each of the checked steps at ``start … end``, the leaf input behind its prefix, and the outcome as a
    byte.

    Raises BatchDecodingError for a step with an opcode below 80, which this version does not know.
    """
    return _LeafMakers(flat_numbers(data, start, end), commitments).made()


class _LeafMakers(_Makers):
    def __init__(self, numbers: Iterator[int], commitments: bytes) -> None:
        super().__init__(numbers)
        committed = _Committed(commitments).__getitem__
        self._operands = map(committed, numbers)
        self._entries = map(itemgetter(slice(1, None)), map(committed, _as_operands(numbers)))
        self._numbers = map(uint_bytes, numbers)

    def maker(self, head: int, meta: int, count: int) -> Iterator[tuple[bytes, bytes]]:
        if head < 128:
            raise BatchDecodingError
        fields: list[Iterator[bytes]] = [repeat(bytes((head & 127 | 128, meta, count))), *[self._operands] * count]
        if meta & layout.HAS_EXIT_CODE:
            fields.append(self._numbers)
        if meta & layout.HAS_ERROR:
            fields.append(self._entries)
        if meta & layout.HAS_RESULT:
            fields += [self._entries, self._numbers]
        if meta & layout.HAS_NOTE:
            fields.append(self._entries)
        outcome = bytes((meta & layout.OUTCOME_MASK,))
        return zip(map(b"".join, zip(*fields, strict=False)), repeat(outcome), strict=False)


class _Committed(dict[int, bytes]):
    """A cache of the bytes that represent an operand in a leaf, by its number."""

    def __init__(self, commitments: bytes) -> None:
        super().__init__()
        self._commitments = commitments
        self._used = 0  # bytes of commitments read so far, those ahead of use included

    def __missing__(self, number: int) -> bytes:
        wire, commitments = number & 3, self._commitments
        if wire != layout.WIRE_ENTRY:
            return bytes((wire,)) + uint_bytes(number >> 2) if wire else b"\0"
        if len(self) >= _COMMITTED_MAX:
            self.clear()
        begin = (number >> 2) * 32
        if begin < self._used:
            found = self[number] = b"\1" + commitments[begin : begin + 32]
            return found
        self._used = min(begin + 32 * _AHEAD, len(commitments))
        ahead = [b"\1" + commitments[at : at + 32] for at in range(begin, self._used, 32)]
        self.update(zip(range(number, number + 4 * len(ahead), 4), ahead, strict=True))
        return ahead[0]


# Times and sources


def are_sound_times(data: bytes, start: int, end: int, started_ms: int, count: int) -> bool:
    """Return whether the times at ``start … end`` belong to ``count`` steps and are within their bounds; False also if
    that cannot be decided without a look at each.
    """
    if start < end and data[end - 1] > 127:
        return False
    seen = reach = 0
    for piece in number_chunks(data, start, end):
        numbers, size = count_numbers(piece)
        if size > 4:
            return False
        seen += numbers
        reach += numbers << 7 * size - 1
    room = min(started_ms - layout.CLOCK_MS_MIN, layout.CLOCK_MS_MAX - started_ms)
    return seen == 2 * count and reach <= room


def are_sound_sources(data: bytes, start: int, end: int, count: int) -> bool:
    """Return whether the sources at ``start … end`` belong to ``count`` steps."""
    if start < end and data[end - 1] > 127:
        return False
    seen = source = most = 0
    try:
        for piece in number_chunks(data, start, end):
            found = list(accumulate(unzigzag_all(decode_chunk(piece)), initial=source))
            if min(found) < 0:
                return False
            source, most = found[-1], max(most, *found)
            seen += len(found) - 1
    except FormatError:
        return False
    return seen == count and 0 < most <= layout.INTEGER_MAX
