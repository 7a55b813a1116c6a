"""Read version 1, Trail-FLUX: everything that older writers wrote is read, and every fault is reported.

::

    A0 agent:u8 id_hi id_lo ts_hi ts_lo      header, 10 bytes
    op:u8 n:u8 n × slot:u16                  step
    9F                                       NOP
    A1 total:u16 status:u8                   end; total counts all steps, header and end included
    B0 count:u16 { hi lo len:u8 bytes }*     string table, ascending keys

All numbers are little-endian u16; a 32-bit value is two of them, the high half first. The key of a string is the first
4 bytes of the SHA-256 of its UTF-8 text.

Nothing in the format can be skipped by a length, and older writers let keys collide and lengths wrap. So the reader
decodes whatever it can and reports the offset of each fault; it refuses only bytes that do not begin as a trail of
version 1. Two kinds of damage are repaired while reading, because the keys are hashes: a text whose length wrapped at
256 is found by trying longer ones, and texts that changed places are found by their own keys.
``docs/formats/trail-v1.md`` is the reference.
"""

from __future__ import annotations

__all__ = [
    "FAULTS_KEPT_MAX",
    "FLUX_BYTES_MAX",
    "FLUX_STATUSES",
    "Fault",
    "FaultKind",
    "FluxReader",
    "FluxStep",
    "FluxString",
    "agent_byte_of",
    "flux_key",
    "is_flux",
]

import hashlib
from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import FormatError
from periplus.trail.model import STATUSES, Status
from periplus.trail.opcodes import FLUX_BY_CODE, TRAIL_BEGIN, TRAIL_END, opcode_name

FaultKind: TypeAlias = Literal[
    "truncated",  # the bytes end in the middle of something
    "begin",  # a second TRAIL_BEGIN
    "end",  # no TRAIL_END, or a second one
    "after_end",  # a step after TRAIL_END
    "total",  # TRAIL_END counts another number of steps than there are
    "status",  # an unknown status
    "opcode",  # an opcode that version 1 does not have
    "slots",  # a step with more or fewer slots than its opcode has
    "count",  # the string table counts another number of strings than there are
    "order",  # keys of the string table that do not rise
    "key",  # a string under the key of another
    "collision",  # two strings with one key
    "duplicate",  # a string that occurs twice
    "text",  # a string that is not UTF-8
    "wrapped",  # a length or a count that wrapped
    "unresolved",  # a key without a string
    "trailing",  # bytes after the string table
]

FLUX_STATUSES: Final[tuple[Status, ...]] = STATUSES
FLUX_BYTES_MAX: Final = 64 << 20
FAULTS_KEPT_MAX: Final = 1000  # further faults are only counted
_STEPS_MAX: Final = 1 << 18  # far over the 65,535 that the format can count; a file of NOPs must not fill the memory
_WRAPPED_TRIES_MAX: Final = 1 << 16  # per file, of 256 bytes each
_WRAPPED_TRIES_A_STRING_MAX: Final = 256  # so a text of up to 64 KiB is found
_U16: Final = 0xFFFF
_BEGIN: Final = TRAIL_BEGIN.code
_END: Final = TRAIL_END.code
_NOP: Final = 0x9F
_TABLE: Final = 0xB0
_HEADER_BYTES: Final = 10
_END_BYTES: Final = 4
_FOUR: Final = Struct("<4H")
_ONE: Final = Struct("<H")
_ENTRY: Final = Struct("<HHB")
_EMPTY_AGENT: Final = 0xE3  # the first byte of the SHA-256 of nothing
_SHOWN_CHARS: Final = 40


class Fault(NamedTuple):
    """A fault at byte ``offset``; ``step`` counts from 0, which is TRAIL_BEGIN."""

    kind: FaultKind
    offset: int
    text: str
    step: int | None = None


class FluxStep(NamedTuple):
    """Step ``number``, counted from 0, at byte ``offset``. ``operands`` follow version 1's row of the opcode, with None
    for one that is missing or cannot be resolved; ``slots`` are the numbers in the file.
    """

    number: int
    offset: int
    code: int
    slots: tuple[int, ...]
    operands: tuple[str | int | None, ...]


class FluxString(NamedTuple):
    """A string of the table, at bytes ``start`` to ``end``."""

    start: int
    end: int
    key: int
    text: str


class _Table(NamedTuple):
    """For each string: the key in the file, the key of its text, the offset of its text, and its length in bytes."""

    keys: array[int]
    owns: array[int]
    offsets: array[int]
    lengths: array[int]


def is_flux(data: bytes) -> bool:
    """Return whether the bytes begin like those of version 1."""
    return data[:1] == b"\xa0"


def flux_key(text: str) -> int:
    """Return the key of a string as one 32-bit number."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def agent_byte_of(agent: str) -> int:
    """Return the byte that stands for the agent unless a writer drew it at random: the first of SHA-256(agent)."""
    return hashlib.sha256(agent.encode()).digest()[0]


class FluxReader:
    """Read the trail of version 1 in ``data``. Raises FormatError if the bytes do not begin as one. All other faults
    are in ``faults``, ordered by offset; ``fault_count`` includes those that are not kept.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) > FLUX_BYTES_MAX:
            raise FormatError(
                f"over {FLUX_BYTES_MAX:,} bytes, more than a trail of version 1 has", offset=FLUX_BYTES_MAX
            )
        if not is_flux(data):
            raise FormatError("not a trail of version 1, which begins with TRAIL_BEGIN (A0)", offset=0)
        if len(data) < _HEADER_BYTES:
            raise FormatError("header cut off", offset=len(data))
        self._data = data
        self.fault_count = 0
        self._faults: list[Fault] = []
        self.agent_byte = data[1]
        id_hi, id_lo, ts_hi, ts_lo = _FOUR.unpack_from(data, 2)
        self._id_key = id_hi << 16 | id_lo
        self.started_s: int = ts_hi << 16 | ts_lo
        self.stated_total: int | None = None
        self._status: int | None = None
        self._offsets = array("I", (0,))
        self._table = _Table(array("I"), array("I"), array("I"), array("I"))
        self._tries = _WRAPPED_TRIES_MAX
        table = self._scan_steps(_HEADER_BYTES)
        if table is not None:
            self._scan_table(table)
        self._place_by_key = self._places()
        self.trail_id = self._resolved_id()
        self.agent = self._resolved_agent(self._check_keys())
        self._faults.sort(key=lambda fault: fault.offset)

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(self._faults)

    @property
    def is_sound(self) -> bool:
        return not self.fault_count

    @property
    def step_count(self) -> int:
        """The number of all steps, TRAIL_BEGIN and TRAIL_END included."""
        return len(self._offsets)

    @property
    def status(self) -> Status | None:
        """The status, or None if the file has none or an unknown one."""
        return FLUX_STATUSES[self._status] if self._status is not None and self._status < len(FLUX_STATUSES) else None

    @property
    def status_byte(self) -> int | None:
        """The status byte of the file, even an unknown one; None if the file has none."""
        return self._status

    @property
    def lists_empty(self) -> bool:
        """True if the string table holds the empty text."""
        return flux_key("") in self._place_by_key

    def strings(self) -> Iterator[tuple[int, str]]:
        """Yield the strings of the table with their keys, in the order of the file."""
        for place, key in enumerate(self._table.keys):
            yield key, self._text(place)

    def string_spans(self) -> Iterator[FluxString]:
        """Yield the place of each string of the table, its key included."""
        table = self._table
        for place, key in enumerate(table.keys):
            at = table.offsets[place]
            yield FluxString(at - _ENTRY.size, at + table.lengths[place], key, self._text(place))

    def require_sound(self) -> None:
        """Raise FormatError with the offset of the first fault, if there is one."""
        if self._faults:
            first = self._faults[0]
            step = "" if first.step is None else f"step {first.step}: "
            raise FormatError(f"{step}{first.text}", offset=first.offset)

    def steps(self) -> Iterator[FluxStep]:
        """Yield all steps in their order, TRAIL_BEGIN and TRAIL_END included, each made when it is reached."""
        for index, at in enumerate(self._offsets):
            code, slots = self._slots(at)
            yield FluxStep(index, at, code, slots, self._operands(code, slots))

    def step_keys(self, step: FluxStep) -> tuple[int | None, ...]:
        """Return the string key of each operand of ``step``; None for a number, and for one that is missing."""
        return tuple(self._keys(step.code, step.slots))

    # The steps

    def _scan_steps(self, at: int) -> int | None:
        """Find every step; return the offset of the string table, or None if there is none."""
        data, end, offsets = self._data, len(self._data), self._offsets
        end_step = -1
        while at < end:
            step = at
            code = data[at]
            if code == _TABLE:
                break
            index = len(offsets)
            if index >= _STEPS_MAX:
                self._fault("truncated", at, f"over {_STEPS_MAX:,} steps; the others are not read")
                return None
            if code == _NOP:
                at += 1
            elif code == _END:
                at += _END_BYTES
            elif code == _BEGIN:
                at += _HEADER_BYTES
            else:
                at += 2 + 2 * data[at + 1] if at + 1 < end else 2
            if at > end:
                self._fault("truncated", step, f"{opcode_name(code)} is cut off, and what follows is missing", index)
                break
            offsets.append(step)
            if code == _END and end_step < 0:
                end_step = index
                self.stated_total = _ONE.unpack_from(data, step + 1)[0]
                self._status = data[step + 3]
            elif end_step >= 0:
                what = "a second TRAIL_END" if code == _END else f"{opcode_name(code)} after TRAIL_END"
                self._fault("end" if code == _END else "after_end", step, what, index)
            elif code != _NOP:
                self._check_step(code, step, index)
        self._check_end(end_step, min(at, end))
        if at == end:
            self._fault("truncated", end, "the string table is missing")
        return at if at < end else None

    def _check_step(self, code: int, at: int, index: int) -> None:
        if code == _BEGIN:
            self._fault("begin", at, "a second TRAIL_BEGIN", index)
            return
        known = FLUX_BY_CODE.get(code)
        count = self._data[at + 1]
        if known is None:
            self._fault("opcode", at, f"version 1 has no opcode {code:02X}", index)
        elif count != known.flux_slots:
            self._fault("slots", at + 1, f"{known.name} has {known.flux_slots} slots, and here {count}", index)

    def _check_end(self, end_step: int, at: int) -> None:
        if end_step < 0:
            self._fault("end", at, "TRAIL_END is missing")
            return
        place = self._offsets[end_step]
        total, counted = self.stated_total, end_step + 1
        if counted > _U16 and counted & _U16 == total:
            self._fault("wrapped", place + 1, f"the total wrapped: it says {total:,} of {counted:,} steps", end_step)
        elif total != counted:
            self._fault("total", place + 1, f"TRAIL_END counts {total:,} steps, and there are {counted:,}", end_step)
        if self.status is None:
            self._fault("status", place + 3, f"status {self._status} is unknown", end_step)

    def _slots(self, at: int) -> tuple[int, tuple[int, ...]]:
        data = self._data
        code = data[at]
        if code == _NOP:
            return code, ()
        if code == _END:
            return code, (_ONE.unpack_from(data, at + 1)[0], data[at + 3])
        if code == _BEGIN:
            return code, (data[at + 1], *_FOUR.unpack_from(data, at + 2))
        count = data[at + 1]
        slots = array("H", data[at + 2 : at + 2 + 2 * count])
        if _IS_BIG_ENDIAN:
            slots.byteswap()
        return code, tuple(slots)

    def _operands(self, code: int, slots: tuple[int, ...]) -> tuple[str | int | None, ...]:
        if code == _BEGIN:
            if slots[1] == slots[2] == 0:
                trail_id: str | None = ""
            else:
                trail_id = self._by_key(slots[1] << 16 | slots[2])
            agent = self.agent if slots[0] == self.agent_byte else None
            return (agent, trail_id, slots[3] << 16 | slots[4])
        if code == _END:
            return (slots[1],)
        known = FLUX_BY_CODE.get(code)
        if known is None or known.flux is None:
            return ()
        out: list[str | int | None] = []
        at = 0
        for place, operand in enumerate(known.flux):
            if at + operand.slots > len(slots):
                out.append(None)
            elif operand.kind == "s":
                out.append(self._by_key(slots[at] << 16 | slots[at + 1]))
            else:
                number = slots[at]
                is_signed = known.operands[place].kind == "int"
                out.append(number - 0x10000 if is_signed and number > 0x7FFF else number)
            at += operand.slots
        return tuple(out)

    def _keys(self, code: int, slots: tuple[int, ...]) -> Iterator[int | None]:
        known = FLUX_BY_CODE.get(code)
        if known is None or known.flux is None or code in (_BEGIN, _END):
            return
        at = 0
        for operand in known.flux:
            is_key = operand.kind == "s" and at + 1 < len(slots)
            yield slots[at] << 16 | slots[at + 1] if is_key else None
            at += operand.slots

    # The strings

    def _scan_table(self, at: int) -> None:
        data, end, start = self._data, len(self._data), at
        if at + 3 > end:
            self._fault("truncated", at, "the string table is cut off")
            return
        count: int = _ONE.unpack_from(data, at + 1)[0]
        at += 3
        for place in range(count):
            begin = at
            after = self._scan_string(at, place)
            if after is None:
                self._fault(
                    "truncated", begin, f"the string table counts {count:,} strings and is cut off in {place:,}"
                )
                return
            at = after
        more = 0
        while at < end and self._is_string(at):
            after = self._scan_string(at, count + more)
            assert after is not None
            at = after
            more += 1
        if more:
            is_wrapped = not more & _U16
            told = f"the string table counts {count:,} strings, and there are {count + more:,}"
            self._fault("wrapped" if is_wrapped else "count", start + 1, told)
        if at < end:
            self._fault("trailing", at, f"{end - at:,} bytes after the string table")

    def _is_string(self, at: int) -> bool:
        """Return whether a string with its own key begins at ``at``: four bytes of its hash tell."""
        data = self._data
        if at + _ENTRY.size > len(data):
            return False
        hi, lo, length = _ENTRY.unpack_from(data, at)
        key: int = hi << 16 | lo
        at += _ENTRY.size
        return at + length <= len(data) and _key_of(data[at : at + length]) == key

    def _scan_string(self, at: int, place: int) -> int | None:
        """Read string ``place`` at ``at``; return the offset of the next one, or None if it is cut off."""
        data, table = self._data, self._table
        if at + _ENTRY.size > len(data):
            return None
        hi, lo, length = _ENTRY.unpack_from(data, at)
        key: int = hi << 16 | lo
        text: int = at + _ENTRY.size
        if text + length > len(data):
            return None
        own = _key_of(data[text : text + length])
        if own != key:
            whole = self._unwrapped(text, length, key)
            if whole is not None:
                told = f"the length of string {place:,} wrapped: it says {length}, and the text has {whole:,} bytes"
                self._fault("wrapped", at + 4, told)
                length, own = whole, key
            else:
                shown = _shown(data[text : text + length])
                told = f"string {place:,} {shown} stands under the key {key:08x}, and its own is {own:08x}"
                self._fault("key", at, told)
        if table.keys and key < table.keys[-1]:
            self._fault("order", at, f"string {place:,} has a lower key than the one before it")
        if not _is_text(data[text : text + length]):
            self._fault("text", text, f"string {place:,} is not UTF-8")
        table.keys.append(key)
        table.owns.append(own)
        table.offsets.append(text)
        table.lengths.append(length)
        after: int = text + length
        return after

    def _unwrapped(self, at: int, length: int, key: int) -> int | None:
        """Return the length of the text at ``at``, of which the file has only the lowest 8 bits; None if none fits."""
        data = self._data
        hasher = hashlib.sha256(data[at : at + length])
        for _ in range(_WRAPPED_TRIES_A_STRING_MAX):
            if at + length + 256 > len(data) or not self._tries:
                return None
            self._tries -= 1
            hasher.update(data[at + length : at + length + 256])
            length += 256
            if int.from_bytes(hasher.copy().digest()[:4], "big") == key:
                return length
        return None

    def _places(self) -> dict[int, int]:
        """Map each key to the index of its string. A text whose own key it is comes first, wherever it stands."""
        data, table = self._data, self._table
        own: dict[int, int] = {}
        stated: dict[int, int] = {}
        for place, (key, own_key) in enumerate(zip(table.keys, table.owns, strict=True)):
            own.setdefault(own_key, place)
            first = stated.setdefault(key, place)
            if first == place:
                continue
            at = table.offsets[place]
            text = data[at : at + table.lengths[place]]
            other = data[table.offsets[first] : table.offsets[first] + table.lengths[first]]
            if other == text:
                self._fault("duplicate", at - _ENTRY.size, f"string {place:,} {_shown(text)} stands twice")
            else:
                told = f"strings {first:,} {_shown(other)} and {place:,} {_shown(text)} have one key, {key:08x}"
                self._fault("collision", at - _ENTRY.size, f"{told}: which is meant cannot be told")
        return {**stated, **own}

    def _by_key(self, key: int) -> str | None:
        place = self._place_by_key.get(key)
        return None if place is None else self._text(place)

    def _text(self, place: int) -> str:
        at = self._table.offsets[place]
        return self._data[at : at + self._table.lengths[place]].decode("utf-8", "replace")

    # Keys, and the name of the agent

    def _check_keys(self) -> set[int]:
        """Report each key without a string; return the indices of the strings that are referred to."""
        used: set[int] = set()
        if self._id_key:
            self._use(self._id_key, used, 2, 0)
        for index, at in enumerate(self._offsets):
            code = self._data[at]
            if code == _NOP:
                continue
            _, slots = self._slots(at)
            if code == _BEGIN and index and slots[1] | slots[2]:
                self._use(slots[1] << 16 | slots[2], used, at + 2, index)
            place = at + 2
            known = FLUX_BY_CODE.get(code)
            for operand, key in zip(known.flux or () if known else (), self._keys(code, slots), strict=False):
                if key is not None:
                    self._use(key, used, place, index)
                place += 2 * operand.slots
        return used

    def _use(self, key: int, used: set[int], offset: int, step: int) -> None:
        place = self._place_by_key.get(key)
        if place is None:
            self._fault("unresolved", offset, f"no string has the key {key:08x}", step)
        else:
            used.add(place)

    def _resolved_id(self) -> str | None:
        return self._by_key(self._id_key) if self._id_key else ""

    def _resolved_agent(self, used: set[int]) -> str | None:
        """Return the only string that can name the agent; None if several could, or none.

        Only one byte of its hash refers to the agent, and older writers drew that byte at random. So the agent is the
        string that nothing else refers to; if its name is used elsewhere too, it is the string with that byte.
        """
        places = range(len(self._table.keys))
        named = [place for place in places if self._table.owns[place] >> 24 == self.agent_byte]
        unused = [place for place in places if place not in used]
        both = [place for place in named if place not in used]
        # Writers list the text of an empty id, but no key in the header points to it.
        others = unused if self._id_key else [place for place in unused if self._table.lengths[place]]
        for candidates in (both, others, named if not others else [], unused):
            if len({self._text(place) for place in candidates}) == 1:
                return self._text(candidates[0])
        return "" if not unused and not named and self.agent_byte == _EMPTY_AGENT else None

    def _fault(self, kind: FaultKind, offset: int, text: str, step: int | None = None) -> None:
        self.fault_count += 1
        if len(self._faults) < FAULTS_KEPT_MAX:
            self._faults.append(Fault(kind, offset, text, step))


_IS_BIG_ENDIAN: Final = array("H", b"\x01\x00")[0] != 1


def _key_of(text: bytes) -> int:
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(text: bytes) -> str:
    shown = text[: 4 * _SHOWN_CHARS].decode("utf-8", "replace")
    return repr(shown if len(shown) <= _SHOWN_CHARS else shown[: _SHOWN_CHARS - 1] + "…")
