"""Write version 1, Trail-FLUX, byte for byte, and refuse what it cannot store.

Two losses belong to version 1 itself and are reported, not refused, because no trail could be written otherwise: it has
no place for what a step came to (outcome, times, result, note), and it keeps the lowest 16 bits of a number. Anything
else that would be lost or changed is refused, and the error names the step: texts over 255 bytes, texts with colliding
keys, operands without a slot in version 1, over 65,535 steps or strings, a time beyond 32 bits of seconds.
"""

from __future__ import annotations

__all__ = ["FLUX_STEPS_MAX", "FluxFile", "FluxStrings", "concatenate_flux", "flux_seconds", "flux_slots", "write_flux"]

from collections import Counter
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.trail.model import Digest, OperandValue, TextObject, Withheld
from periplus.trail.opcodes import BY_CODE, FLUX_BY_CODE, TRAIL_BEGIN, TRAIL_END, Opcode, opcode_name
from periplus.trail.program import Instruction, Program
from periplus.trail.v1.conversion import for_flux, program_of_flux
from periplus.trail.v1.reader import FLUX_STATUSES, FluxReader, agent_byte_of, flux_key

FLUX_STEPS_MAX: Final = 0xFFFF
_STRINGS_MAX: Final = 0xFFFF
_TEXT_BYTES_MAX: Final = 255
_SECONDS_MAX: Final = 0xFFFFFFFF
_SAFE: Final = "Nothing was written."
_MEND: Final = "Shorten it, or write version 2, which can carry it."
_NOP: Final = 0x9F
_FOUR: Final = Struct("<4H")
_ENTRY: Final = Struct("<HHB")
_LOSSES: Final = ("outcome", "exit_code", "error", "result", "note", "at_ms", "duration_ms", "source")


class FluxFile(NamedTuple):
    """``left_out`` lists, in sentences, what the program holds and the bytes do not."""

    data: bytes
    left_out: tuple[str, ...]


def write_flux(program: Program, *, lenient: bool = False) -> FluxFile:
    """Encode the program as version 1. Steps count from 0, which is TRAIL_BEGIN, in errors as in the format.

    Raises UsageError, naming the step, for what version 1 cannot store. With ``lenient``, operands without a slot are
    left out, a text in place of a number becomes 0, and a step whose opcode version 1 does not have becomes NOP, so
    that all other steps keep their numbers; each of these is reported.
    """
    program = for_flux(program)
    program.require_valid()
    if len(program.steps) > FLUX_STEPS_MAX:
        raise UsageError(
            f"{len(program.steps):,} steps, and version 1 counts 65,535", safe=_SAFE, mend="Write version 2."
        )
    told: list[str] = []
    strings = FluxStrings()
    agent, trail_id = program.agent, program.trail_id
    if not isinstance(agent, str) or not isinstance(trail_id, str):
        raise UsageError(
            "step 0 TRAIL_BEGIN: agent and trail_id: version 1 carries texts of 255 bytes", safe=_SAFE, mend=_MEND
        )
    out = bytearray((TRAIL_BEGIN.code, agent_byte_of(agent) if program.agent_byte is None else program.agent_byte))
    id_key = strings.key(trail_id, "step 0 TRAIL_BEGIN: trail_id") if trail_id or program.lists_empty else 0
    id_key = id_key if trail_id else 0
    if trail_id and not id_key:
        raise UsageError(
            "step 0 TRAIL_BEGIN: trail_id: its key is 0, which stands for none", safe=_SAFE, mend="Change it."
        )
    if agent or program.lists_empty:
        strings.key(agent, "step 0 TRAIL_BEGIN: agent")
    seconds = flux_seconds(program.started_ms or 0, "step 0 TRAIL_BEGIN: ts", told)
    out += _FOUR.pack(id_key >> 16, id_key & 0xFFFF, seconds >> 16, seconds & 0xFFFF)
    for number, step in enumerate(program.steps[1:-1], 1):
        _write_step(out, step, f"step {number} {opcode_name(step.code)}", strings, told, lenient=lenient)
    out.append(TRAIL_END.code)
    out += len(program.steps).to_bytes(2, "little")
    out.append(FLUX_STATUSES.index(program.status) if program.status_byte is None else program.status_byte)
    out += strings.table()
    return FluxFile(bytes(out), (*told, *_losses(program)))


def concatenate_flux(*parts: bytes) -> bytes:
    """Join trails of version 1 in version 1's way: see ``Program.concatenate``. Raises FormatError for a part that is
    not sound, UsageError if the whole is more than version 1 can store.
    """
    whole: Program | None = None
    for part in parts:
        reader = FluxReader(part)
        reader.require_sound()
        program = program_of_flux(reader)
        whole = program if whole is None else whole.concatenate(program)
    if whole is None:
        raise UsageError("nothing to concatenate", mend="Name at least one trail.")
    return write_flux(whole).data


def flux_slots(
    opcode: Opcode,
    operands: tuple[OperandValue, ...],
    where: Callable[[int], str],
    told: list[str],
    key: Callable[[str | TextObject, str], int],
    *,
    lenient: bool = False,
) -> list[int]:
    """Return the slots of a step. ``where`` names operand *n* in errors, ``key`` returns a text's key and may refuse
    it.

    Raises UsageError for an operand that has no slot or does not fit into it.
    """
    assert opcode.flux is not None
    slots: list[int] = []
    for place, carried in enumerate(opcode.flux):
        value = operands[place] if place < len(operands) else None
        if carried.kind == "s":
            found = key(_text(value, where(place), told, lenient=lenient), where(place))
            slots += (found >> 16, found & 0xFFFF)
        else:
            is_signed = opcode.operands[place].kind == "int"
            slots.append(_number(value, where(place), told, is_signed=is_signed, lenient=lenient))
    if len(operands) > len(opcode.operands):
        raise UsageError(f"{opcode.name}: {len(operands)} operands, and there are {len(opcode.operands)}", safe=_SAFE)
    for place in range(len(opcode.flux), len(operands)):
        if operands[place] not in (None, ""):
            wrong = f"{where(place)}: version 1 has no place for it"
            if not lenient:
                raise UsageError(wrong, safe=_SAFE, mend="Write version 2, or leave it out with --lenient.")
            told.append(f"{wrong}; left out")
    return slots


class FluxStrings:
    """The string table of one file: each text once, under its own key."""

    def __init__(self) -> None:
        self._text_by_key: dict[int, str] = {}
        self._where: dict[int, str] = {}

    def key(self, text: str | TextObject, where: str) -> int:
        """Return the key of ``text``. Raises UsageError if it is too long or another text has that key."""
        text = _carried(text, where)
        key = flux_key(text)
        known = self._text_by_key.setdefault(key, text)
        first = self._where.setdefault(key, where)
        if known != text:
            wrong = f"{where}: {text!r} has the key {key:08x}, as has {known!r} of {first}: version 1 cannot tell them apart"
            raise UsageError(wrong, safe=_SAFE, mend="Change one of the two texts, or write version 2.")
        if len(self._text_by_key) > _STRINGS_MAX:
            raise UsageError(f"{where}: over 65,535 different texts", safe=_SAFE, mend="Write version 2.")
        return key

    def table(self) -> bytes:
        out = bytearray(b"\xb0")
        out += len(self._text_by_key).to_bytes(2, "little")
        for key, text in sorted(self._text_by_key.items()):
            data = text.encode()
            out += _ENTRY.pack(key >> 16, key & 0xFFFF, len(data))
            out += data
        return bytes(out)


def _carried(text: str | TextObject, where: str) -> str:
    """Return ``text`` if version 1 can store a text of that size. Raises UsageError."""
    try:
        size = text.length if isinstance(text, TextObject) else len(text.encode())
    except UnicodeEncodeError as error:
        wrong = f"{where}: a lone surrogate (half of a character) at character {error.start}"
        raise UsageError(wrong, safe=_SAFE, mend="Write the whole character.") from error
    if size > _TEXT_BYTES_MAX or isinstance(text, TextObject):
        wrong = f"{where}: {size:,} bytes of text, and version 1 carries {_TEXT_BYTES_MAX}"
        raise UsageError(wrong, safe=_SAFE, mend=_MEND)
    return text


def _write_step(
    out: bytearray, step: Instruction, name: str, strings: FluxStrings, told: list[str], *, lenient: bool
) -> None:
    opcode = FLUX_BY_CODE.get(step.code)
    if opcode is None:
        if not lenient:
            mend = "Write version 2, or leave the step out with --lenient."
            raise UsageError(f"{name}: version 1 has no such opcode", safe=_SAFE, mend=mend)
        told.append(f"{name}: version 1 has no such opcode; NOP stands in its place")
    if opcode is None or step.code == _NOP:
        out.append(_NOP)
        return
    names = [operand.name for operand in opcode.operands]
    slots = flux_slots(
        opcode, step.operands, lambda place: f"{name}: {names[place]}", told, strings.key, lenient=lenient
    )
    out.append(step.code)
    out.append(len(slots))
    for slot in slots:
        out += slot.to_bytes(2, "little")


def _text(value: OperandValue, where: str, told: list[str], *, lenient: bool) -> str:
    if isinstance(value, (str, TextObject)):
        return _carried(value, where)
    if isinstance(value, Digest):
        return f"{value.algorithm}:{value.value.hex()}"
    if isinstance(value, Withheld):
        raise UsageError(f"{where}: withheld; only a whole trail can be written", safe=_SAFE)
    if value is None:
        if not lenient:
            raise UsageError(f"{where}: required", safe=_SAFE)
        told.append(f"{where}: missing; an empty text stands in its place")
        return ""
    raise UsageError(f"{where}: a text was expected, not a number", safe=_SAFE)


def _number(value: OperandValue, where: str, told: list[str], *, is_signed: bool, lenient: bool) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10 and str(int(value)) == value:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        missing = value is None
        wrong = f"{where}: required" if missing else f"{where}: version 1 carries a number here, not {_kind(value)}"
        if not lenient:
            raise UsageError(wrong, safe=_SAFE, mend="Give a number from 0 to 65535, or write version 2.")
        told.append(f"{where}: {'missing' if missing else 'no number'}; 0 stands in its place")
        return 0
    least, most = (-0x8000, 0x7FFF) if is_signed else (0, 0xFFFF)
    if not least <= value <= most:
        told.append(f"{where}: {value} has over 16 bits; {value & 0xFFFF} is written")
    return value & 0xFFFF


def _kind(value: OperandValue) -> str:
    return repr(value[:40]) if isinstance(value, str) else "a digest" if isinstance(value, Digest) else "that"


def flux_seconds(started_ms: int, where: str, told: list[str]) -> int:
    """Return the start of a trail in seconds. Raises UsageError if it does not fit into 32 bits."""
    seconds, rest = divmod(started_ms, 1000)
    if not 0 <= seconds <= _SECONDS_MAX:
        wrong = f"{where}: version 1 carries the seconds from 1970-01-01 to 2106-02-07"
        raise UsageError(wrong, safe=_SAFE, mend="Write version 2.")
    if rest:
        told.append(f"{where}: {rest} ms; version 1 counts seconds")
    return seconds


def _losses(program: Program) -> list[str]:
    """Report what the steps hold and version 1 has no place for, one sentence a kind."""
    counts: Counter[str] = Counter()
    plain = Instruction(_NOP)
    for step in program.steps[1:-1]:
        for name in _LOSSES:
            value = getattr(step, name)
            if value != getattr(plain, name) and not (name == "note" and value == _meaning(step.code)):
                counts[name] += 1
    words = {
        "outcome": "outcomes other than ok", "exit_code": "exit codes", "error": "error texts", "result": "results",
        "note": "notes", "at_ms": "times of steps", "duration_ms": "durations", "source": "numbers of source records",
    }  # fmt: skip
    return [f"{words[name]} ({counts[name]:,})" for name in _LOSSES if counts[name]]


def _meaning(code: int) -> str | None:
    """Return the text that the lenient compiler takes as the description of a step without one."""
    opcode = BY_CODE.get(code)
    return None if opcode is None else opcode.meaning
