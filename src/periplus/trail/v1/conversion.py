"""Convert version 1 to a program, as it is and as version 2 stores it, and back.

``program_of_flux`` is for the tools of version 1: the program of a sound trail gives the same bytes when it is written.
``converted_from_flux`` adds what version 2 must know: that version 1 records no outcomes, the number of each step, and,
in a comment at the beginning, what the format or its writer had lost. ``for_flux`` removes these additions.
"""

from __future__ import annotations

__all__ = ["FLUX_TOOL", "Conversion", "converted_from_flux", "digest_of_text", "for_flux", "program_of_flux"]

import hashlib
import re
from typing import Final, NamedTuple

from periplus.trail.model import DIGEST_SIZES, Digest, Header, OperandValue, Status
from periplus.trail.opcodes import BY_NAME, FLUX_BY_CODE, TRAIL_BEGIN, TRAIL_END, opcode_name
from periplus.trail.program import Instruction, Program
from periplus.trail.v1.reader import FluxReader, FluxStep, agent_byte_of

FLUX_TOOL: Final = "trail-flux"
_UNKNOWN_AGENT: Final = "unknown"
_DAMAGED_STATUS: Final[Status] = "partial"
_FAULTS_TOLD_MAX: Final = 20
_COMMENT_CHARS_MAX: Final = 1000  # at most 4,000 bytes: a text that needs no object store
_CONTENT: Final = "content: "
_AGENT_BYTE: Final = "agent byte "
_STATUS_BYTE: Final = "status byte "
_NOT_LISTED: Final = "The empty text is not in its table."
_COMMENT: Final = BY_NAME["COMMENT"].code
_FILE_WRITE: Final = BY_NAME["FILE_WRITE"].code
_BRANCH: Final = BY_NAME["BRANCH"].code
# These steps have no outcome, so version 1 lost none.
_WITHOUT_OUTCOME: Final = frozenset(BY_NAME[name].code for name in ("NOP", "COMMENT", "LABEL", "BRANCH"))


class Conversion(NamedTuple):
    """``told`` lists, in sentences, what version 1 had lost and what is damaged."""

    program: Program
    told: tuple[str, ...]


def program_of_flux(reader: FluxReader) -> Program:
    """Return the program of a trail of version 1. Damaged values are put in brackets: a key without its string, a step
    of an unknown opcode. Steps behind the end are moved before it, and an unknown status becomes ``partial``.
    """
    agent = reader.agent if reader.agent is not None else _UNKNOWN_AGENT
    steps: list[Instruction] = []
    for step in reader.steps():
        if not steps:
            begin = (agent, _whole(reader.trail_id, step.slots[1] << 16 | step.slots[2]))
            steps.append(Instruction(TRAIL_BEGIN.code, begin, at_ms=1000 * reader.started_s))
        else:
            steps.append(_instruction(reader, step))
    last = next((at for at in range(len(steps) - 1, 0, -1) if steps[at].code == TRAIL_END.code), None)
    if last is not None:
        del steps[last]
    steps = [step if step.code != TRAIL_END.code else _comment("[TRAIL_END]") for step in steps]
    steps.append(Instruction(TRAIL_END.code, (reader.status or _DAMAGED_STATUS,)))
    is_drawn = reader.agent_byte != agent_byte_of(agent)
    return Program(
        steps,
        agent_byte=reader.agent_byte if is_drawn else None,
        status_byte=reader.status_byte if reader.status is None else None,
        lists_empty=reader.lists_empty or "" not in (reader.agent, reader.trail_id),
    )


def converted_from_flux(reader: FluxReader, data: bytes) -> Conversion:
    """Return the program as version 2 stores it; ``data`` are the bytes that ``reader`` reads."""
    program = program_of_flux(reader)
    told = tuple(_told(reader, program))
    steps = [program.steps[0], _comment(_cut("Converted from version 1 (Trail-FLUX). " + " ".join(told)))]
    steps += [_modern(step, number) for number, step in enumerate(program.steps[1:-1], 1)]
    steps.append(program.steps[-1])
    source = Digest("sha256", hashlib.sha256(data).digest())
    header = Header("", "", tool=FLUX_TOOL, tool_version="1", source=source)
    converted = Program(
        steps,
        header=header,
        agent_byte=program.agent_byte,
        status_byte=program.status_byte,
        lists_empty=program.lists_empty,
    )
    return Conversion(converted, told)


def for_flux(program: Program) -> Program:
    """Return ``program`` as version 1 stores it, if it came from there; any other program unchanged."""
    if program.header is None or program.header.tool != FLUX_TOOL or not program.is_valid:
        return program
    agent_byte, status_byte, lists_empty = program.agent_byte, program.status_byte, program.lists_empty
    steps = []
    for step in program.steps[1:-1]:
        if step.code == _COMMENT and step.source is None:
            told = str(step.operands[0])
            found = re.search(rf"{_AGENT_BYTE}([0-9a-f]{{2}})\b", told)
            agent_byte = int(found[1], 16) if found else agent_byte
            found = re.search(rf"{_STATUS_BYTE}([0-9a-f]{{2}})\b", told)
            status_byte = int(found[1], 16) if found else status_byte
            lists_empty = lists_empty and _NOT_LISTED not in told
            continue
        operands, note = step.operands, step.note
        if step.code == _FILE_WRITE and isinstance(note, str) and note.startswith(_CONTENT):
            operands, note = (operands[0], note.removeprefix(_CONTENT)), None
        outcome = "ok" if step.outcome == "unknown" else step.outcome
        at_ms = None if step.at_ms == program.started_ms else step.at_ms
        steps.append(step._replace(operands=operands, note=note, outcome=outcome, source=None, at_ms=at_ms))
    return Program(
        [program.steps[0], *steps, program.steps[-1]],
        agent_byte=agent_byte,
        status_byte=status_byte,
        lists_empty=lists_empty,
    )


def digest_of_text(text: str) -> Digest | None:
    """Parse a digest written as ``sha256:`` and hexadecimal digits; None for any other text."""
    algorithm, _, digits = text.partition(":")
    for known, size in DIGEST_SIZES.items():
        if algorithm == known and len(digits) == 2 * size and re.fullmatch(r"[0-9a-f]+", digits):
            return Digest(known, bytes.fromhex(digits))
    return None


def _instruction(reader: FluxReader, step: FluxStep) -> Instruction:
    known = FLUX_BY_CODE.get(step.code)
    if step.code == TRAIL_END.code:
        return Instruction(step.code)
    if known is None or step.code == TRAIL_BEGIN.code:
        slots = " ".join(f"{slot:04x}" for slot in step.slots)
        return _comment(_cut(f"[{opcode_name(step.code)} {slots}]"))
    operands: list[OperandValue] = []
    keys = reader.step_keys(step)
    for place, value in enumerate(step.operands):
        kind = known.operands[place].kind
        if value is None and keys[place] is None:
            operands.append("[missing]" if kind in ("str", "path", "digest") else 0)
        elif value is None or isinstance(value, str):
            text = _whole(value, keys[place] or 0)
            operands.append((digest_of_text(text) or text) if kind == "digest" else text)
        else:
            operands.append(str(value) if kind == "str" else value)
    return Instruction(step.code, tuple(operands))


def _modern(step: Instruction, number: int) -> Instruction:
    operands, note = step.operands, step.note
    if step.code == _BRANCH:
        operands = (*operands, "")
    elif step.code == _FILE_WRITE and isinstance(operands[1], str):
        note = _CONTENT + operands[1]
        hexadecimal = re.fullmatch(r"[0-9a-f]{64}", operands[1])
        operands = (operands[0], Digest("sha256", bytes.fromhex(operands[1]))) if hexadecimal else operands
    outcome = step.outcome if step.code in _WITHOUT_OUTCOME else "unknown"
    return step._replace(operands=operands, note=note, outcome=outcome, source=number)


def _told(reader: FluxReader, program: Program) -> list[str]:
    told = ["It says nothing of outcomes, of the time of each step, and of results."]
    branches = sum(step.code == _BRANCH for step in program.steps)
    if branches:
        told.append(f"The labels of {branches:,} branches are lost.")
    if reader.agent is None:
        told.append("Which of its strings names the agent cannot be told.")
    if program.agent_byte is not None:
        told.append(f"Its {_AGENT_BYTE}{program.agent_byte:02x} is not that of the agent's name.")
    if program.status_byte is not None:
        told.append(f"Its {_STATUS_BYTE}{program.status_byte:02x} is none of the four.")
    if not program.lists_empty:
        told.append(_NOT_LISTED)
    for fault in reader.faults[:_FAULTS_TOLD_MAX]:
        step = "" if fault.step is None else f" (step {fault.step})"
        told.append(f"Damage at byte {fault.offset}{step}: {fault.text}.")
    if reader.fault_count > _FAULTS_TOLD_MAX:
        told.append(f"{reader.fault_count - _FAULTS_TOLD_MAX:,} more faults.")
    return told


def _whole(text: str | None, key: int) -> str:
    return text if text is not None else f"[unresolved {key:08x}]"


def _comment(text: str) -> Instruction:
    return Instruction(_COMMENT, (text,))


def _cut(text: str) -> str:
    return text if len(text) <= _COMMENT_CHARS_MAX else text[: _COMMENT_CHARS_MAX - 1] + "…"
