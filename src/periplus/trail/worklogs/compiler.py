"""The worklog compiler: JSON entries to a program, strictly or leniently as in version 1.

An entry is an object with ``op`` (in any case), the operands by their keys in the table, and optional facts: ``desc``
or ``note``, ``ts`` (seconds) or ``at_ms``, ``outcome``, ``exit_code``, ``error``, ``result``, ``result_size``,
``duration_ms``, ``source_record``. Strict means that nothing is guessed and nothing is dropped: a value that is
missing, mistyped, out of range or not in the table is a FormatError that names entry and key, as in ``entries[3].path:
required``. Lenient means that any entries give a program, and that each guess is reported.

A worklog is text that an agent wrote, so its secrets are masked like those of transcripts, unless the caller turns that
off.
"""

from __future__ import annotations

__all__ = ["Compiled", "RunFacts", "Target", "compile_worklog"]

from typing import Any, Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import FormatError, UsageError
from periplus.trail.format import layout
from periplus.trail.model import (
    OUTCOMES,
    STATUSES,
    Digest,
    Header,
    OperandValue,
    Signed,
    Status,
    TextObject,
)
from periplus.trail.opcodes import BY_NAME, TRAIL_BEGIN, TRAIL_END, WORKLOG_BY_NAME, Opcode, OperandKind
from periplus.trail.program import Instruction, Program
from periplus.trail.v1.conversion import digest_of_text
from periplus.trail.v1.writer import FLUX_STEPS_MAX, FluxStrings, flux_seconds, flux_slots
from periplus.trail.worklogs.json_text import TEXT_OBJECT, WITHHELD, read_worklog
from periplus.trail.worklogs.values import SAFE, Fields, WorklogValues, hexadecimal, name_of, whole_number

Target: TypeAlias = Literal[1, 2]

_MEND_BEGIN: Final = "Say it in an entry of TRAIL_BEGIN, or with --agent and --trail-id."
_NO_STATUS: Final[Status] = "partial"  # an unknown status is read as this one
_MEND_END: Final = "Say it in an entry of TRAIL_END, or with --status."
_AGENT: Final = "unknown"
_TRAIL_ID: Final = "untitled"
_COMMENT: Final = BY_NAME["COMMENT"]
_FILE_WRITE: Final = BY_NAME["FILE_WRITE"]
_HEADER_TEXTS: Final = ("tool", "tool_version", "model", "host", "title")


class RunFacts(NamedTuple):
    """Facts of the run that the caller knows; they replace those of the worklog."""

    agent: str | None = None
    trail_id: str | None = None
    status: Status | None = None


class Compiled(NamedTuple):
    """``told`` has a sentence for each guess of a lenient compile; ``masked`` counts the secrets that were masked;
    ``secret`` is the trail secret if the worklog has one.
    """

    program: Program
    told: tuple[str, ...]
    masked: int
    secret: bytes | None


def compile_worklog(
    data: bytes,
    *,
    target: Target = 2,
    lenient: bool = False,
    mask: bool = True,
    facts: RunFacts | None = None,
) -> Compiled:
    """Return the program of a worklog: a JSON array, JSON lines, or an object with ``entries``.

    ``target`` is the version of the format for which it is meant: what version 1 cannot store is an error of its entry.
    Raises FormatError for anything that is wrong with the worklog, and nothing else.
    """
    raw = read_worklog(data, lenient=lenient)
    compiler = _Compiler(target, facts or RunFacts(), lenient=lenient, mask=mask)
    return compiler.compiled(raw.head, raw.entries)


class _Compiler:
    def __init__(self, target: Target, facts: RunFacts, *, lenient: bool, mask: bool) -> None:
        self._target = target
        self._facts = facts
        self._values = WorklogValues(lenient=lenient, mask=mask)
        self._strings = FluxStrings()

    def compiled(self, head: dict[str, object], raw: list[object]) -> Compiled:
        limit = FLUX_STEPS_MAX if self._target == 1 else layout.STEPS_MAX
        if len(raw) > limit:
            raise FormatError(f"entries: {len(raw):,}, and a trail has at most {limit:,} steps", safe=SAFE)
        steps: list[Instruction] = []
        begin, end = Fields(head, ""), Fields({}, "")
        opened = closed = -1
        for index, value in enumerate(raw):
            where = f"entries[{index}]"
            entry = self._object(value, where)
            opcode = self._opcode(entry, where)
            fields = Fields(entry, f"{where}.")
            fields.take("op")
            if opcode is TRAIL_BEGIN:
                if index or opened >= 0:
                    self._misplaced(f"{where}.op: TRAIL_BEGIN is allowed only at the beginning")
                if opened < 0:
                    begin, opened = _joined(begin, fields), index
            elif opcode is TRAIL_END:
                if index != len(raw) - 1:
                    self._misplaced(f"{where}.op: TRAIL_END is allowed only at the end")
                end, closed = fields, index
            else:
                steps.append(self._step(opcode, fields, where))
        first, header, sections, secret, agent_byte = self._begin(begin)
        lists_empty = begin.take("lists_empty") is not False
        last, status_byte = self._end(end, begin)
        for fields in (begin, end):
            self._check_rest(fields)
        limit -= (opened < 0) + (closed < 0)
        if len(raw) > limit:
            raise FormatError(f"entries: {len(raw):,} and beginning and end, over {limit + 2:,} steps", safe=SAFE)
        program = Program(
            [first, *steps, last],
            header=header,
            sections=sections,
            agent_byte=agent_byte,
            status_byte=status_byte,
            lists_empty=lists_empty,
        )
        return Compiled(program, tuple(self._values.told), self._values.masked, secret)

    # Entries

    def _object(self, value: object, where: str) -> dict[str, object]:
        if isinstance(value, dict):
            return value
        self._values.guess(f"{where}: an object was expected, not {name_of(value)}", "kept as a comment")
        return {"op": _COMMENT.name, "text": str(value)[:200]}

    def _opcode(self, entry: dict[str, object], where: str) -> Opcode | None:
        """Return the opcode of the entry; None for one of a newer version, which version 2 can store."""
        op = entry.get("op")
        if not isinstance(op, str):
            self._values.guess(
                f"{where}.op: {'required' if op is None else f'a text was expected, not {name_of(op)}'}", "a remark"
            )
            entry["op"] = op = ""
        name = op.strip().upper()
        known = WORKLOG_BY_NAME.get(name)
        if known is None and _unknown_code(name) is not None and self._target != 1:
            return None
        if known is None:
            self._values.guess(f"{where}.op: {name_of(op)} is unknown", "a comment takes its place")
            entry["text"] = f"{op[:40]} {entry.get('desc', '')}".strip()[:60]
            entry.pop("comment", None)
            return _COMMENT
        return known

    def _step(self, opcode: Opcode | None, fields: Fields, where: str) -> Instruction:
        if opcode is None:
            code = _unknown_code(str(fields.values["op"]).strip().upper())
            assert code is not None
            step = self._attributes(Instruction(code, self._carried(fields)), fields)
        else:
            operands: list[OperandValue] = []
            keys: list[str] = []
            for place in range(len(opcode.operands)):
                key, value = fields.first(opcode.keys(place))
                keys.append(key)
                operands.append(self._operand(opcode, place, value, fields.where(key), key))
            while operands and operands[-1] is None:
                operands.pop()
            if (
                self._target == 1 and not self._values.lenient
            ):  # in a lenient compile the writer guesses, and reports it
                self._check_fits(opcode, tuple(operands), keys, where)
            step = self._attributes(Instruction(opcode.code, tuple(operands)), fields)
            if self._values.lenient and step.note is None:
                step = step._replace(note=opcode.meaning)
        self._check_rest(fields)
        return step

    def _check_fits(self, opcode: Opcode, operands: tuple[OperandValue, ...], keys: list[str], where: str) -> None:
        """Raise FormatError for what version 1 cannot store of a step."""
        if opcode.flux is None:
            self._values.guess(f"{where}.op: version 1 has no {opcode.name}", "")
            return
        for place, operand in enumerate(opcode.flux):
            number = whole_number(operands[place]) if operand.kind == "n" and place < len(operands) else None
            least, most = (-0x8000, 0x7FFF) if opcode.operands[place].kind == "int" else (0, 0xFFFF)
            if number is not None and not least <= number <= most:
                wrong = f"{where}.{keys[place]}: {number} is not within {least} and {most}, which version 1 carries"
                self._values.guess(wrong, "")
        try:
            flux_slots(opcode, operands, lambda place: f"{where}.{keys[place]}", [], self._strings.key)
        except UsageError as error:
            raise FormatError(error.wrong, safe=SAFE, mend=error.mend) from error

    def _attributes(self, step: Instruction, fields: Fields) -> Instruction:
        """Return ``step`` with the outcome facts of the entry."""
        note = fields.take("note")
        if note is None:
            note = fields.take("desc")
        outcome = self._values.choice(fields, "outcome", OUTCOMES, step.outcome)
        result = fields.take("result")
        return step._replace(
            outcome=outcome,
            exit_code=self._values.integer(fields, "exit_code", -layout.INTEGER_MAX),
            error=self._values.optional_text(fields.take("error"), fields.where("error")),
            result=None if result is None else self._values.digest(result, fields.where("result")),
            result_size=self._values.integer(fields, "result_size", 0) or 0,
            note=self._values.optional_text(note, fields.where("note")),
            at_ms=self._values.moment(fields, ("ts",)),
            duration_ms=self._values.integer(fields, "duration_ms", 0),
            source=self._values.integer(fields, "source_record", 1),
        )

    def _carried(self, fields: Fields) -> tuple[OperandValue, ...]:
        """Return the operands of a step whose opcode this version does not know."""
        values = fields.take("operands")
        where = fields.where("operands")
        if not isinstance(values, list):
            raise FormatError(f"{where}: an array was expected, not {name_of(values)}", safe=SAFE)
        out: list[OperandValue] = []
        for place, value in enumerate(values):
            here = f"{where}[{place}]"
            if isinstance(value, dict) and "digest" in value:
                out.append(self._values.digest(value["digest"], here))
            elif isinstance(value, dict) and "int" in value:
                out.append(Signed(self._values.number(value["int"], here, is_signed=True)))
            elif value is None:
                out.append(None)
            elif isinstance(value, int) and not isinstance(value, bool):
                out.append(self._values.number(value, here, is_signed=False))
            else:
                out.append(self._values.text(value, here))
        return tuple(out)

    # Beginning and end

    def _begin(self, fields: Fields) -> tuple[Instruction, Header | None, dict[int, bytes], bytes | None, int | None]:
        names: list[str | TextObject] = []
        for place, given, default in ((0, self._facts.agent, _AGENT), (1, self._facts.trail_id, _TRAIL_ID)):
            key, value = fields.first(TRAIL_BEGIN.keys(place))
            where = fields.where(key)
            if given is not None:
                value = given
            if value is None:
                self._values.guess(f"{where}: required", f"{default!r} is taken", _MEND_BEGIN)
                value = default
            names.append(self._values.text(value, where))
        at_ms = self._values.moment(fields, TRAIL_BEGIN.keys(2))
        agent_byte = self._values.integer(fields, "agent_byte", 0, 255)
        for key in ("desc", "note"):
            fields.take(key)
        header = self._header(fields) if self._target == 2 or "tool" in fields.values else None
        secret = fields.take("secret")
        sections = fields.take("sections")
        started = at_ms if at_ms is not None or self._target == 2 else 0
        if self._target == 1:
            self._check_begin(names, started or 0, fields)
        first = Instruction(TRAIL_BEGIN.code, tuple(names), at_ms=started)
        return (
            first,
            header,
            {} if sections is None else _sections(sections, fields.where("sections")),
            None if secret is None else hexadecimal(secret, fields.where("secret"), layout.SECRET_BYTES),
            agent_byte,
        )

    def _check_begin(self, names: list[str | TextObject], started_ms: int, fields: Fields) -> None:
        try:
            for place, text in enumerate(names):
                if text:
                    self._strings.key(text, fields.where(TRAIL_BEGIN.operands[place].name))
            flux_seconds(started_ms, fields.where("ts"), [])
        except UsageError as error:
            raise FormatError(error.wrong, safe=SAFE, mend=error.mend) from error

    def _header(self, fields: Fields) -> Header | None:
        found: dict[str, Any] = {}
        for key in _HEADER_TEXTS:
            value = fields.take(key)
            if value is not None:
                found[key] = self._values.text(value, fields.where(key))
        base = fields.take("base")
        if isinstance(base, dict) and "digest" in base:
            found["base"] = self._values.digest(base["digest"], fields.where("base"))
        elif base is not None:
            found["base"] = self._values.text(base, fields.where("base"))
        source = fields.take("source")
        if source is not None:
            found["source"] = self._values.digest(source, fields.where("source"))
        parents = fields.take("parents")
        if parents is not None:
            if not isinstance(parents, list):
                raise FormatError(f"{fields.where('parents')}: an array was expected", safe=SAFE)
            where = fields.where("parents")
            found["parents"] = tuple(self._values.digest(one, f"{where}[{place}]") for place, one in enumerate(parents))
        return Header("", "", **found) if found else None

    def _end(self, fields: Fields, begin: Fields) -> tuple[Instruction, int | None]:
        """Return the last step, and version 1's byte for an unknown status."""
        fields.take("steps")  # the count of version 1 is computed, whatever the worklog says
        for key in ("desc", "note", "ts"):
            fields.take(key)
        value = fields.take("status")
        where = fields.where("status")
        if value is None and "status" in begin.values:
            value, where = begin.values["status"], begin.where("status")
        begin.take("status")
        byte = self._values.integer(fields, "status_byte", len(STATUSES), 255)
        if self._facts.status is not None:
            value, byte = self._facts.status, None
        status: Status | None = None
        if isinstance(value, str):
            status = next((known for known in STATUSES if known == value.strip().lower()), None)
        elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(STATUSES):
            status = STATUSES[value]
        number = None if status is not None or self._target != 1 else whole_number(value)
        if number is not None:
            number &= 0xFF
            is_one = number < len(STATUSES)
            status, byte = (STATUSES[number], None) if is_one else (_NO_STATUS, number)
            self._values.guess(
                f"{where}: {name_of(value)} is not one of {', '.join(STATUSES)}", f"{number} is written", _MEND_END
            )
        if status is None:
            status = "success" if value is None else "error"
            wrong = "required" if value is None else f"one of {', '.join(STATUSES)} was expected"
            self._values.guess(f"{where or 'status'}: {wrong}", f"{status!r} is taken", _MEND_END)
        return Instruction(TRAIL_END.code, (status,)), byte

    # Values

    def _operand(self, opcode: Opcode, place: int, value: object, where: str, key: str) -> OperandValue:
        operand = opcode.operands[place]
        if value is None:
            if operand.optional and not (self._target == 1 and place < len(opcode.flux or ())):
                return None
            if opcode.flux is not None and place >= len(opcode.flux) and self._target == 1:
                return None
            return self._missing(opcode, place, where)
        if operand.kind == "digest":
            if opcode is _FILE_WRITE and (key == "content" or self._target == 1):
                text = self._values.text(value, where)
                if isinstance(text, TextObject):
                    return Digest("sha256", text.sha256)
                return (None if key == "content" else digest_of_text(text)) or text
            return self._values.digest(value, where)
        if operand.kind in ("uint", "int"):
            return self._values.number(value, where, is_signed=operand.kind == "int")
        is_marked = isinstance(value, dict) and not {TEXT_OBJECT, WITHHELD}.isdisjoint(value)
        if operand.kind == "json" and not isinstance(value, str) and not is_marked:
            return self._values.json(value, where)
        is_number = opcode.flux is not None and place < len(opcode.flux) and opcode.flux[place].kind == "n"
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        is_read = self._target == 1 and self._values.lenient and whole_number(value) is not None
        if is_number and (is_whole or is_read):
            return str(self._values.number(value, where, is_signed=False))
        return self._values.text(value, where)

    def _missing(self, opcode: Opcode, place: int, where: str) -> OperandValue:
        kind: OperandKind = opcode.operands[place].kind
        if kind in ("uint", "int"):
            self._values.guess(f"{where}: required", "0 is taken")
            return 0
        is_number = opcode.flux is not None and place < len(opcode.flux) and opcode.flux[place].kind == "n"
        self._values.guess(f"{where}: required", "0 is taken" if is_number else "an empty text is taken")
        if kind == "digest" and opcode is not _FILE_WRITE:
            return Digest("sha256", bytes(32))
        return "0" if is_number else ""

    def _misplaced(self, wrong: str) -> None:
        self._values.guess(wrong, "left out")

    def _check_rest(self, fields: Fields) -> None:
        for key in fields.rest():
            self._values.guess(f"{fields.where(key[:40])}: not a key of this entry", "left out")


def _joined(head: Fields, entry: Fields) -> Fields:
    """Join the entry of TRAIL_BEGIN with keys that only the object around the entries has."""
    joined = Fields({**head.values, **entry.values}, entry.where(""))
    joined.take("op")
    return joined


def _unknown_code(name: str) -> int | None:
    """Return the code of a name like ``OP_C7``, if this version does not know it."""
    digits = name.removeprefix("OP_")
    if len(name) != 5 or len(digits) != 2 or not all(digit in "0123456789ABCDEF" for digit in digits):
        return None
    code = int(digits, 16)
    is_known = any(opcode.code == code for opcode in WORKLOG_BY_NAME.values())
    return None if is_known else code


def _sections(value: object, where: str) -> dict[int, bytes]:
    out: dict[int, bytes] = {}
    if not isinstance(value, dict):
        raise FormatError(f"{where}: an object was expected, not {name_of(value)}", safe=SAFE)
    for tag, section in value.items():
        number = hexadecimal(tag, where, 1)[0]
        if number == 0xFF or number in (*layout.REQUIRED_TAGS, layout.TAG_SOURCES):
            raise FormatError(f"{where}.{tag[:4]}: a section that the trail writes itself", safe=SAFE)
        out[number] = hexadecimal(section, f"{where}.{tag}", None)
    return out
