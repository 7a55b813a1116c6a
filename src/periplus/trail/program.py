"""Programs: the steps of a run as values, with TRAIL_BEGIN and TRAIL_END among them, independent of any file format.

A worklog is compiled to a program, version 1 is read into one and written from one, and version 2 is made from one. The
operands of a step follow the row of its opcode. A program differs from version 2 in two ways: times are absolute, and
the content of a FILE_WRITE may be the text itself, of which version 2 stores the digest.
"""

from __future__ import annotations

__all__ = ["Instruction", "Program", "program_of_trail", "trail_of_program"]

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from periplus.base.encoding.varint import append_uint
from periplus.base.errors import UsageError
from periplus.trail.format.builder import TrailBuilder
from periplus.trail.format.layout import KNOWN_TAGS, TAG_SIGNATURE
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import (
    STATUSES,
    Digest,
    Header,
    OperandValue,
    Outcome,
    Signed,
    Status,
    Text,
    TextObject,
    Withheld,
)
from periplus.trail.opcodes import BY_CODE, TRAIL_BEGIN, TRAIL_END, WORKLOG_BY_NAME, opcode_name

_FINGERPRINT: Final = b"PPLS/program/1\x00"
_NOP: Final = 0x9F
_FILE_WRITE: Final = 0x93
_NOT_ACTIONS: Final = frozenset({TRAIL_BEGIN.code, TRAIL_END.code, _NOP})


class Instruction(NamedTuple):
    """One step of a program. It began at ``at_ms``, since 1970-01-01 UTC; None if unknown.

    TRAIL_BEGIN has the operands agent and trail id, and its ``at_ms`` is the beginning of the trail; TRAIL_END has the
    status.
    """

    code: int
    operands: tuple[OperandValue, ...] = ()
    outcome: Outcome = "ok"
    exit_code: int | None = None
    error: Text | None = None
    result: Digest | Withheld | None = None
    result_size: int = 0
    note: Text | None = None
    at_ms: int | None = None
    duration_ms: int | None = None
    source: int | None = None


class Program:
    """Steps in their order. ``header`` holds the header of version 2 beside agent, trail id and beginning; ``sections``
    holds uninterpreted sections of a version 2 file. Three values belong to version 1: ``agent_byte``, if it is not the
    first byte of SHA-256(agent); ``status_byte``, if it is none of the four statuses; and ``lists_empty``, false if
    agent or trail id is empty and the string table lacks the empty text.
    """

    __slots__ = ("agent_byte", "header", "lists_empty", "sections", "status_byte", "steps")

    def __init__(
        self,
        steps: Iterable[Instruction] = (),
        *,
        header: Header | None = None,
        sections: Mapping[int, bytes] | None = None,
        agent_byte: int | None = None,
        status_byte: int | None = None,
        lists_empty: bool = True,
    ) -> None:
        self.steps = list(steps)
        self.header = header
        self.sections = dict(sections or {})
        self.agent_byte = agent_byte
        self.status_byte = status_byte
        self.lists_empty = lists_empty

    def add_step(
        self,
        op: str | int,
        *operands: OperandValue,
        outcome: Outcome = "ok",
        exit_code: int | None = None,
        error: Text | None = None,
        note: Text | None = None,
        at_ms: int | None = None,
        duration_ms: int | None = None,
    ) -> Program:
        """Add a step by the name or code of its opcode, and return the program for chaining.

        Raises UsageError for an opcode that is not in the table and for too many operands; their kinds are checked when
        the program is written.
        """
        known = WORKLOG_BY_NAME.get(opcode_name(op) if isinstance(op, int) else op)
        if known is None:
            raise UsageError(f"unknown opcode {op!r}", mend="Use TOOL_CALL for a tool that has no opcode of its own.")
        if len(operands) > len(known.operands):
            raise UsageError(f"{known.name}: {len(operands)} operands, and there are {len(known.operands)}")
        step = Instruction(known.code, operands, outcome, exit_code, error, None, 0, note, at_ms, duration_ms)
        self.steps.append(step)
        return self

    @property
    def is_valid(self) -> bool:
        """True if it begins with TRAIL_BEGIN and ends with TRAIL_END, and has neither anywhere else."""
        codes = [step.code for step in self.steps]
        if len(codes) < 2 or codes[0] != TRAIL_BEGIN.code or codes[-1] != TRAIL_END.code:
            return False
        return not {TRAIL_BEGIN.code, TRAIL_END.code}.intersection(codes[1:-1])

    def require_valid(self) -> None:
        """Raise UsageError if the program is not valid."""
        if not self.is_valid:
            wrong = "a program begins with TRAIL_BEGIN, ends with TRAIL_END and has neither in between"
            mend = "Add the step that is missing, or take out the other."
            raise UsageError(wrong, safe="Nothing was written.", mend=mend)

    @property
    def agent(self) -> Text:
        return _text(self._begin().operands, 0)

    @property
    def trail_id(self) -> Text:
        return _text(self._begin().operands, 1)

    @property
    def started_ms(self) -> int | None:
        return self._begin().at_ms

    @property
    def status(self) -> Status:
        self.require_valid()
        return _status(self.steps[-1])

    def action_steps(self) -> Iterator[Instruction]:
        """Yield the steps without TRAIL_BEGIN, TRAIL_END and NOP."""
        return (step for step in self.steps if step.code not in _NOT_ACTIONS)

    def concatenate(self, other: Program) -> Program:
        """Return the steps of this program followed by those of ``other``, in version 1's way: the end of the first and
        the beginning of the second are dropped, and with them the status of the first and agent, id and time of the
        second.

        Raises UsageError if either is not valid. Version 2 keeps the parts whole: see ``periplus trail concat``.
        """
        self.require_valid()
        other.require_valid()
        return Program(
            [*self.steps[:-1], *other.steps[1:]],
            header=self.header,
            agent_byte=self.agent_byte,
            status_byte=other.status_byte,
            lists_empty=self.lists_empty,
        )

    def fingerprint(self) -> bytes:
        """Return the SHA-256 over the whole content of the program, texts included."""
        hasher = hashlib.sha256(_FINGERPRINT)
        out = bytearray()
        _append(out, self.agent_byte)
        _append(out, None if self.header is None else tuple(self.header))
        for tag, section in sorted(self.sections.items()):
            _append(out, tag)
            _append(out, section)
        _append(out, len(self.steps))
        for step in self.steps:
            _append(out, tuple(step))
            hasher.update(out)
            out.clear()
        if self.status_byte is not None or not self.lists_empty:
            _append(out, (self.status_byte, int(self.lists_empty)))
        hasher.update(out)
        return hasher.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.fingerprint() == other.fingerprint()

    __hash__ = None  # type: ignore[assignment]  # a program can grow

    def _begin(self) -> Instruction:
        self.require_valid()
        return self.steps[0]


def trail_of_program(
    program: Program,
    secret: bytes,
    put_text: Callable[[bytes], bytes] | None = None,
    put_content: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """Return the bytes of a trail of version 2. ``put_text`` stores a text over 4,096 bytes and returns its SHA-256;
    ``put_content`` stores the content of a written file. Without the latter only the digest is kept.

    Raises UsageError, naming the step, for what the table or the format does not allow.
    """
    builder = TrailBuilder(secret, put_text)
    header = (program.header or Header("", ""))._replace(agent=program.agent, trail_id=program.trail_id)
    for index, step in enumerate(program.steps[1:-1], 1):
        operands = step.operands
        if step.code == _FILE_WRITE and len(operands) > 1 and isinstance(operands[1], str):
            content = operands[1].encode("utf-8", "replace")
            digest = hashlib.sha256(content).digest() if put_content is None else put_content(content)
            operands = (operands[0], Digest("sha256", digest))
        if isinstance(step.result, Withheld):
            raise UsageError(f"step {index}: result: withheld; only a whole trail can be written")
        add = builder.add if step.code in BY_CODE else builder.add_unknown
        try:
            add(
                step.code,
                *operands,
                outcome=step.outcome,
                exit_code=step.exit_code,
                error=step.error,
                result=step.result,
                result_size=step.result_size,
                note=step.note,
                at_ms=step.at_ms,
                duration_ms=step.duration_ms,
                source=step.source,
            )
        except UsageError as error:
            raise UsageError(f"step {index}: {error.wrong}", safe="Nothing was written.", mend=error.mend) from error
    if program.started_ms is None and not program.sections:
        return builder.finish(header, program.status)
    return builder.seal(header, program.status, program.started_ms or 0, program.sections)


def program_of_trail(reader: TrailReader) -> Program:
    """Return the program of a trail of version 2; ``trail_of_program`` with the trail's secret gives its bytes again."""
    header = reader.header
    at_ms = header.started_ms
    steps = [Instruction(TRAIL_BEGIN.code, (header.agent, header.trail_id), at_ms=at_ms)]
    for step in reader.steps():
        at_ms += step.delta_ms
        operands = step.operands
        if step.code in BY_CODE:
            while operands and operands[-1] is None:
                operands = operands[:-1]
        steps.append(
            Instruction(
                step.code,
                operands,
                step.outcome,
                step.exit_code,
                step.error,
                step.result,
                step.result_size,
                step.note,
                at_ms,
                step.duration_ms,
                step.source,
            )
        )
    steps.append(Instruction(TRAIL_END.code, (reader.status,)))
    sections = {tag: data for tag, data in reader.sections().items() if tag == TAG_SIGNATURE or tag not in KNOWN_TAGS}
    plain = header._replace(agent="", trail_id="", started_ms=0)
    return Program(steps, header=plain, sections=sections)


def _text(operands: tuple[OperandValue, ...], place: int) -> Text:
    value = operands[place] if place < len(operands) else None
    if not isinstance(value, (str, TextObject, Withheld)):
        name = TRAIL_BEGIN.operands[place].name
        raise UsageError(f"step 0 TRAIL_BEGIN: {name}: {'required' if value is None else 'a text was expected'}")
    return value


def _status(step: Instruction) -> Status:
    value = step.operands[0] if step.operands else None
    for status in STATUSES:
        if value == status:
            return status
    raise UsageError(f"TRAIL_END: status: {value!r} is unknown", mend=f"One of: {', '.join(STATUSES)}.")


def _append(out: bytearray, value: object) -> None:
    """Append one value behind the mark of its type, so that no two programs give the same bytes."""
    if value is None:
        out += b"0"
    elif isinstance(value, str):
        _append_bytes(out, b"s", value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, bytes):
        _append_bytes(out, b"b", value)
    elif isinstance(value, int):
        number = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        _append_bytes(out, b"i" if isinstance(value, Signed) else b"n", number)
    elif isinstance(value, tuple):
        out += {Digest: b"d", TextObject: b"o", Withheld: b"w"}.get(type(value), b"t")
        append_uint(out, len(value))
        for item in value:
            _append(out, item)
    else:
        raise UsageError(f"{type(value).__name__} is not a value of a step")


def _append_bytes(out: bytearray, mark: bytes, data: bytes) -> None:
    out += mark
    append_uint(out, len(data))
    out += data
