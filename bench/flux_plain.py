"""Version 1 of trails (Trail-FLUX) as one writes it down from its description: the baseline of the codec's measures.

A step is an object, a slot is one ``struct`` call, the string table is a dict by the first four bytes of SHA-256, and
verifying decodes and checks again what was decoded. Nothing is made slow on purpose and nothing is tuned; like version
1 it has no times, outcomes or results of the steps, and no hash binds them together.
"""

from __future__ import annotations

__all__ = ["KEYS", "FluxProgram", "FluxStep", "Opcode", "decode", "encode", "verify"]

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Final


class Opcode:
    # Plain numbers: as an IntEnum each step costs a call more, and the baseline shall not be slow for want of care.
    GIT_COMMIT = 0x90
    GIT_PUSH = 0x91
    FILE_READ = 0x92
    FILE_WRITE = 0x93
    FILE_EDIT = 0x94
    TEST_RUN = 0x95
    SEARCH_CODE = 0x96
    BOTTLE_DROP = 0x97
    BOTTLE_READ = 0x98
    LEVEL_UP = 0x99
    SPELL_CAST = 0x9A
    ROOM_ENTER = 0x9B
    TRUST_UPDATE = 0x9C
    CAP_ISSUE = 0x9D
    BRANCH = 0x9E
    NOP = 0x9F
    TRAIL_BEGIN = 0xA0
    TRAIL_END = 0xA1
    COMMENT = 0xA2
    LABEL = 0xA3
    STRING_TABLE = 0xB0


# The keys of each opcode, and what stands there: a text of two slots or a number of one.
KEYS: Final[dict[int, tuple[tuple[str, str], ...]]] = {
    Opcode.GIT_COMMIT: (("repo", "number"), ("message", "text")),
    Opcode.GIT_PUSH: (("repo", "number"),),
    Opcode.FILE_READ: (("path", "text"),),
    Opcode.FILE_WRITE: (("path", "text"), ("content", "text")),
    Opcode.FILE_EDIT: (("path", "text"), ("old", "text"), ("new", "text")),
    Opcode.TEST_RUN: (("path", "text"), ("count", "number")),
    Opcode.SEARCH_CODE: (("pattern", "text"),),
    Opcode.BOTTLE_DROP: (("target", "text"), ("content", "text")),
    Opcode.BOTTLE_READ: (("source", "text"),),
    Opcode.LEVEL_UP: (("level", "number"),),
    Opcode.SPELL_CAST: (("spell", "text"),),
    Opcode.ROOM_ENTER: (("room", "text"),),
    Opcode.TRUST_UPDATE: (("target", "text"), ("delta", "number")),
    Opcode.CAP_ISSUE: (("action", "text"), ("holder", "text")),
    Opcode.BRANCH: (("register", "number"),),
    Opcode.NOP: (),
    Opcode.COMMENT: (("text", "text"),),
    Opcode.LABEL: (("name", "text"),),
}


@dataclass
class FluxStep:
    op: int
    arguments: dict[str, str | int] = field(default_factory=dict)


@dataclass
class FluxProgram:
    agent_byte: int
    trail_id: str
    timestamp: int
    steps: list[FluxStep] = field(default_factory=list)
    status: int = 0


def string_key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8")).digest()[:4]


def encode(program: FluxProgram) -> bytes:
    strings: dict[bytes, str] = {}

    def slots_of(text: str) -> tuple[int, int]:
        key = string_key(text)
        if strings.setdefault(key, text) != text:
            raise ValueError(f"two strings have the key {key.hex()}")
        high, low = struct.unpack(">HH", key)
        return high, low

    out = bytearray()
    out += struct.pack("<BBHH", Opcode.TRAIL_BEGIN, program.agent_byte, *slots_of(program.trail_id))
    out += struct.pack("<HH", program.timestamp >> 16, program.timestamp & 0xFFFF)
    for step in program.steps:
        if step.op == Opcode.NOP:
            out.append(Opcode.NOP)
            continue
        slots: list[int] = []
        for key, kind in KEYS[step.op]:
            value = step.arguments[key]
            if kind == "text":
                slots.extend(slots_of(str(value)))
            else:
                slots.append(int(value) & 0xFFFF)
        out += struct.pack(f"<BB{len(slots)}H", step.op, len(slots), *slots)
    out += struct.pack("<BHB", Opcode.TRAIL_END, len(program.steps) + 2, program.status)
    out += struct.pack("<BH", Opcode.STRING_TABLE, len(strings))
    for key in sorted(strings):
        data = strings[key].encode("utf-8")
        if len(data) > 255:
            raise ValueError(f"a string of {len(data)} bytes")
        out += struct.pack("<HHB", *struct.unpack(">HH", key), len(data))
        out += data
    return bytes(out)


@dataclass
class _RawStep:
    op: int
    slots: list[int]


@dataclass
class _Raw:
    agent_byte: int
    trail_key: tuple[int, int]
    timestamp: int
    steps: list[_RawStep]
    total: int
    status: int
    strings: dict[tuple[int, int], str]


def _read(data: bytes) -> _Raw:
    op, agent_byte, id_high, id_low, ts_high, ts_low = struct.unpack_from("<BBHHHH", data, 0)
    if op != Opcode.TRAIL_BEGIN:
        raise ValueError("no header")
    at = 10
    steps: list[_RawStep] = []
    while True:
        op = data[at]
        if op == Opcode.TRAIL_END:
            break
        if op == Opcode.NOP:
            steps.append(_RawStep(op, []))
            at += 1
            continue
        if op not in KEYS:
            raise ValueError(f"opcode {op:#04x} unknown")
        count = data[at + 1]
        at += 2
        slots = []
        for _ in range(count):
            (slot,) = struct.unpack_from("<H", data, at)
            slots.append(slot)
            at += 2
        steps.append(_RawStep(op, slots))
    _, total, status = struct.unpack_from("<BHB", data, at)
    at += 4
    marker, count = struct.unpack_from("<BH", data, at)
    if marker != Opcode.STRING_TABLE:
        raise ValueError("no string table")
    at += 3
    strings: dict[tuple[int, int], str] = {}
    for _ in range(count):
        high, low, length = struct.unpack_from("<HHB", data, at)
        at += 5
        strings[high, low] = data[at : at + length].decode("utf-8")
        at += length
    if at != len(data):
        raise ValueError("bytes after the string table")
    return _Raw(agent_byte, (id_high, id_low), ts_high << 16 | ts_low, steps, total, status, strings)


def _resolve(step: _RawStep, strings: dict[tuple[int, int], str]) -> FluxStep:
    arguments: dict[str, str | int] = {}
    at = 0
    for key, kind in KEYS[step.op]:
        if kind == "text":
            arguments[key] = strings[step.slots[at], step.slots[at + 1]]
            at += 2
        else:
            number = step.slots[at]
            if step.op == Opcode.TRUST_UPDATE and number >= 0x8000:
                number -= 0x10000
            arguments[key] = number
            at += 1
    if at != len(step.slots):
        raise ValueError(f"opcode {step.op:#04x} with {len(step.slots)} slots")
    return FluxStep(step.op, arguments)


def decode(data: bytes) -> FluxProgram:
    return _program(_read(data))


def _program(raw: _Raw) -> FluxProgram:
    steps = [_resolve(step, raw.strings) for step in raw.steps]
    return FluxProgram(raw.agent_byte, raw.strings[raw.trail_key], raw.timestamp, steps, raw.status)


def verify(data: bytes) -> list[str]:
    """What is wrong with the trail; nothing where it is sound."""
    try:
        raw = _read(data)
        program = _program(raw)
    except (ValueError, KeyError, IndexError, struct.error) as error:
        return [str(error)]
    found = []
    if raw.total != len(raw.steps) + 2:
        found.append(f"{raw.total} steps announced, {len(raw.steps) + 2} found")
    for (high, low), text in raw.strings.items():
        if struct.pack(">HH", high, low) != string_key(text):
            found.append(f"the key {high:04x}{low:04x} is not that of its string")
    if list(raw.strings) != sorted(raw.strings):
        found.append("the keys do not ascend")
    if encode(program) != data:
        found.append("the trail does not encode to the same bytes")
    return found
