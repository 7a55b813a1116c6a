"""Worklogs as JSON text: a strict reader, and the writer of a program as a worklog.

A worklog is a JSON array of entries, JSON lines, or an object with ``entries`` whose other keys are those of
TRAIL_BEGIN. The reader refuses a repeated key, NaN and a number out of range; every fault is a FormatError with its
place.
"""

from __future__ import annotations

__all__ = [
    "TEXT_OBJECT",
    "WITHHELD",
    "WORKLOG_BYTES_MAX",
    "RawWorklog",
    "entries_of_program",
    "entry_line",
    "read_worklog",
]

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from periplus.base.errors import FormatError
from periplus.trail.model import Digest, Header, OperandValue, Signed, Step, TextObject, Withheld
from periplus.trail.opcodes import BY_CODE, TRAIL_BEGIN, TRAIL_END, Opcode, opcode_name
from periplus.trail.program import Instruction, Program

WORKLOG_BYTES_MAX: Final = 64 << 20
# Stands for a text that is not in the trail; no worklog key, and absent from the JSON of tools.
TEXT_OBJECT: Final = "$object"
WITHHELD: Final = "$withheld"
_INTEGER_DIGITS_MAX: Final = 20
_SAFE: Final = "Nothing was written."
_FILE_WRITE: Final = 0x93


class RawWorklog(NamedTuple):
    """``head`` has the keys of the object around the entries; it is empty without such an object."""

    head: dict[str, object]
    entries: list[object]


class _RefusedError(ValueError):
    """JSON that the parser accepts and a worklog must not have."""


def read_worklog(data: bytes, *, lenient: bool = False) -> RawWorklog:
    """Return the entries as JSON values. With ``lenient``, the last value of a repeated key wins. Raises FormatError."""
    if len(data) > WORKLOG_BYTES_MAX:
        wrong = f"over {WORKLOG_BYTES_MAX >> 20} MiB of worklog"
        raise FormatError(wrong, offset=WORKLOG_BYTES_MAX, safe=_SAFE, mend="Compile it in parts.")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError("not UTF-8 text", offset=error.start, safe=_SAFE) from error
    parse = _parser(lenient=lenient)
    first = text.lstrip()[:1]
    if first not in ("[", "{"):
        raise FormatError("not a worklog: JSON entries, or an array of them, were expected", offset=0, safe=_SAFE)
    if first == "{" and _is_lines(text, parse):
        return RawWorklog({}, list(_lines(text, parse)))
    value = _parsed(text, parse, None)
    if isinstance(value, list):
        return RawWorklog({}, value)
    assert isinstance(value, dict)
    entries = value.pop("entries", None)
    if not isinstance(entries, list):
        raise FormatError("entries: an array of entries was expected", offset=0, safe=_SAFE)
    return RawWorklog(value, entries)


def _parser(*, lenient: bool) -> Callable[[str], object]:
    import json

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        table = dict(found)
        if len(table) != len(found) and not lenient:
            seen: set[str] = set()
            double = next(key for key, _ in found if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise _RefusedError(f"the key {double[:40]!r} occurs twice in one object")
        return table

    def integer(text: str) -> int:
        if len(text) > _INTEGER_DIGITS_MAX:
            raise _RefusedError(f"a number of {len(text):,} digits")
        return int(text)

    def fraction(text: str) -> float:
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise _RefusedError(f"the number {text[:40]} is too large")
        return number

    def constant(text: str) -> float:
        raise _RefusedError(f"{text} is not JSON")

    decoder = json.JSONDecoder(
        object_pairs_hook=pairs, parse_int=integer, parse_float=fraction, parse_constant=constant
    )
    return decoder.decode


def _is_lines(text: str, parse: Callable[[str], object]) -> bool:
    """Return whether the text is JSON lines: its first line is an object by itself, and no worklog."""
    line = text.lstrip().partition("\n")[0]
    try:
        value = parse(line)
    except _RefusedError:
        return True  # a whole object; the reader refuses it with its line
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "entries" not in value


def _lines(text: str, parse: Callable[[str], object]) -> Iterator[object]:
    begin, number = 0, 0
    while begin < len(text):
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        line, number = text[begin:end], number + 1
        if line.strip():
            yield _parsed(line, parse, number)
        begin = end + 1


def _parsed(text: str, parse: Callable[[str], object], line: int | None) -> object:
    from json import JSONDecodeError

    try:
        return parse(text)
    except _RefusedError as error:
        raise FormatError(str(error), line=line, safe=_SAFE) from error
    except JSONDecodeError as error:
        if line is None:
            offset = len(text[: error.pos].encode("utf-8", "surrogatepass"))
            raise FormatError(f"not JSON: {error.msg}", offset=offset, safe=_SAFE) from error
        raise FormatError(f"not JSON: {error.msg}", line=line, safe=_SAFE) from error
    except (ValueError, RecursionError) as error:
        raise FormatError("not JSON: nested too deeply", line=line, safe=_SAFE) from error


# Writing


def entries_of_program(program: Program, secret: bytes | None = None) -> Iterator[dict[str, Any]]:
    """Yield the program as entries of a worklog, which the strict compiler turns into the same program.

    With the trail's ``secret``, which the entry of TRAIL_BEGIN then holds, the bytes of the trail can be made again
    too.
    """
    for step in program.steps:
        if step.code == TRAIL_BEGIN.code:
            yield _begin_entry(program, step, secret)
        elif step.code == TRAIL_END.code:
            status: dict[str, Any] = {"status": step.operands[0] if step.operands else None}
            byte = {} if program.status_byte is None else {"status_byte": program.status_byte}
            yield {"op": TRAIL_END.name} | status | byte
        else:
            yield _entry(step, is_flux=program.header is None)


def entry_line(entry: dict[str, Any]) -> str:
    """Return one entry as a line of JSON, with every non-printable character as an escape."""
    import json

    line = json.dumps(entry, ensure_ascii=False, separators=(", ", ": "))
    return line if line.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in line)


def _escaped(char: str) -> str:
    # Such characters occur only in JSON strings, where the escape means the same.
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _begin_entry(program: Program, step: Instruction, secret: bytes | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"op": TRAIL_BEGIN.name}
    for operand, value in zip(TRAIL_BEGIN.operands, step.operands, strict=False):
        entry[operand.name] = _plain(value)
    if program.header is None and step.at_ms is not None and not step.at_ms % 1000:
        entry["ts"] = step.at_ms // 1000
    elif step.at_ms is not None:
        entry["at_ms"] = step.at_ms
    if program.agent_byte is not None:
        entry["agent_byte"] = program.agent_byte
    if not program.lists_empty:
        entry["lists_empty"] = False
    if program.header is not None:
        entry.update(_header(program.header))
    if secret is not None:
        entry["secret"] = secret.hex()
    if program.sections:
        entry["sections"] = {f"{tag:02x}": section.hex() for tag, section in sorted(program.sections.items())}
    return entry


def _header(header: Header) -> dict[str, Any]:
    out: dict[str, Any] = {"tool": _plain(header.tool), "tool_version": _plain(header.tool_version)}
    if header.base is not None:
        out["base"] = {"digest": digest_text(header.base)} if isinstance(header.base, Digest) else _plain(header.base)
    for name in ("model", "host", "source", "title"):
        if getattr(header, name) is not None:
            out[name] = _plain(getattr(header, name))
    if header.parents:
        out["parents"] = [_plain(parent) for parent in header.parents]
    return out


def _entry(step: Instruction, *, is_flux: bool) -> dict[str, Any]:
    known = BY_CODE.get(step.code)
    entry: dict[str, Any] = {"op": opcode_name(step.code)}
    if known is None:
        entry["operands"] = [_marked(value) for value in step.operands]
    else:
        for place, value in enumerate(step.operands):
            if value is not None:
                entry[_key(known, place, value, is_flux=is_flux)] = _operand(known, place, value, is_flux=is_flux)
    plain = Step(step.code, ())
    if step.outcome != plain.outcome:
        entry["outcome"] = step.outcome
    for name, value in (
        ("exit_code", step.exit_code),
        ("error", step.error),
        ("result", step.result),
        ("result_size", step.result_size or None),
        ("note", step.note),
        ("at_ms", step.at_ms),
        ("duration_ms", step.duration_ms),
        ("source_record", step.source),
    ):
        if value is not None:
            entry[name] = _plain(value)
    return entry


def _key(opcode: Opcode, place: int, value: OperandValue, *, is_flux: bool) -> str:
    """Return the key of an operand: its name, or its first key in version 1."""
    name = opcode.operands[place].name
    if opcode.code == _FILE_WRITE and name == "content" and isinstance(value, Digest):
        return "content_hash"
    keys = opcode.flux[place].keys if opcode.flux is not None and place < len(opcode.flux) else (name,)
    return name if name in keys or not is_flux else keys[0]


def _operand(opcode: Opcode, place: int, value: OperandValue, *, is_flux: bool) -> Any:
    if is_flux and isinstance(value, str) and opcode.flux is not None and place < len(opcode.flux):
        is_number = opcode.flux[place].kind == "n" and value.isascii() and value.isdigit() and len(value) <= 5
        return int(value) if is_number and str(int(value)) == value else value
    return _plain(value)


def digest_text(digest: Digest) -> str:
    return f"{digest.algorithm}:{digest.value.hex()}"


def _plain(value: OperandValue) -> Any:
    if isinstance(value, TextObject):
        return {TEXT_OBJECT: f"sha256:{value.sha256.hex()}", "bytes": value.length}
    if isinstance(value, Digest):
        return digest_text(value)
    if isinstance(value, Withheld):
        return {WITHHELD: value.commitment.hex()}
    return value if value is None or isinstance(value, str) else int(value)


def _marked(value: OperandValue) -> Any:
    """Return a value of a step of an unknown opcode, with its kind marked in the text."""
    if isinstance(value, Digest):
        return {"digest": digest_text(value)}
    return {"int": int(value)} if isinstance(value, Signed) else _plain(value)
