"""Editing of a table at the end of a TOML file as text: all else keeps every byte.

A table with its header may follow any other table, so ours is appended. It is found again by its header. It has no
end marker, because other programs write these files too, and may insert their tables: it ends at the next header, or
before the blank lines and comments that lead to one. Each change is parsed before and after.
"""

from __future__ import annotations

__all__ = ["TomlText", "parse_toml", "put_table", "remove_table"]

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from periplus.base.errors import FormatError, RefusedError
from periplus.interop.agents.config_text import decode_text, split_mark

BYTES_MAX: Final = 4 << 20
_PLACE: Final = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")
_DEPTH_MAX: Final = 100
_HEADER: Final = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_TOKEN: Final = re.compile(r'"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#|[^"\'#]+|["\']')
_CLOSE_BASIC: Final = re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL)
_CLOSE_LITERAL: Final = re.compile(r"(?:[^']|'(?!''))*'''")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class TomlText(NamedTuple):
    mark: str
    text: str
    value: dict[str, object]
    path: str

    @property
    def data(self) -> bytes:
        return (self.mark + self.text).encode()


def parse_toml(data: bytes, path: str) -> TomlText:
    """Parse a file. Raises FormatError, with line and column in its message."""
    import tomllib

    mark, text = split_mark(decode_text(data, path, bytes_max=BYTES_MAX))
    mend = "Mend the file, or name the agents without this one."
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        line, column = (int(found[1]), int(found[2])) if found is not None and found[1] else (text.count("\n") + 1, 1)
        wrong = _PLACE.sub("", str(error)).strip()
        raise FormatError(
            f"column {column}: {wrong}", path=path, line=line, safe="Nothing was changed.", mend=mend
        ) from error
    except RecursionError as error:
        raise FormatError("nested too deeply", path=path, safe="Nothing was changed.", mend=mend) from error
    if _is_deep(value):
        raise FormatError(f"more than {_DEPTH_MAX} levels deep", path=path, safe="Nothing was changed.", mend=mend)
    return TomlText(mark, text, value, path)


def _is_deep(value: object) -> bool:
    """Detect tables and arrays that are nested deeper than the limit."""
    level = [value]
    for _ in range(_DEPTH_MAX):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def put_table(
    held: TomlText, keys: tuple[str, ...], values: Mapping[str, str | tuple[str, ...]], comment: str
) -> TomlText:
    """Return the text in which the table ``keys`` has ``values``: appended under ``comment``, or in the lines of the
    existing table.

    Other keys of that table, and tables below it, stay.
    """
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    found = _get(held.value, keys)
    if isinstance(found, dict) and all(found.get(name) == value for name, value in plain.items()):
        return held
    line = "\r\n" if "\r\n" in held.text else "\n"
    ours = {name: f"{_key(name)} = {_value(value)}" for name, value in plain.items()}
    if isinstance(found, dict):
        return _replaced(held, keys, ours, {**found, **plain}, line)
    gap = "" if not held.text else line if held.text.endswith("\n") else line * 2
    lines = [f"# {comment}", f"[{'.'.join(map(_key, keys))}]", *ours.values()]
    return _checked(held, held.text + gap + line.join(lines) + line, _with(held.value, keys, plain))


def remove_table(held: TomlText, keys: tuple[str, ...], comment: str) -> TomlText:
    """Return the text without the table ``keys``, the tables below it and its ``comment``. Refused where more would
    be removed.
    """
    if _get(held.value, keys) is None:
        return held
    lines = _lines(held.text)
    headers = _headers(lines)
    spans = [(at, _section_end(lines, headers, at)) for at, name in headers.items() if name[: len(keys)] == keys]
    for header, end in reversed(spans):
        start = header
        if start and lines[start - 1].strip() == f"# {comment}":
            start -= 1
        is_last = not "".join(lines[end:]).strip()
        if start and not lines[start - 1].strip() and (is_last or not lines[end].strip()):
            start -= 1
        lines[start:] = [] if is_last else lines[end:]
    return _checked(held, "".join(lines), _drop(held.value, keys), _with(_drop(held.value, keys), keys[:-1], {}))


def _replaced(
    held: TomlText, keys: tuple[str, ...], ours: Mapping[str, str], wanted: dict[str, object], line: str
) -> TomlText:
    lines = _lines(held.text)
    headers = _headers(lines)
    start = next((at for at, name in headers.items() if name == keys), None)
    if start is None:
        raise _refused(held, keys)
    end = _section_end(lines, headers, start)
    kept = [one for one in lines[start + 1 : end] if one.partition("=")[0].strip().strip("\"'") not in ours]
    lines[start + 1 : end] = [*(one + line for one in ours.values()), *kept]
    return _checked(held, "".join(lines), _with(held.value, keys, wanted))


def _lines(text: str) -> list[str]:
    """Split into lines with their ends. Not ``splitlines``, which knows line ends that TOML does not."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _section_end(lines: list[str], headers: Mapping[int, tuple[str, ...]], start: int) -> int:
    """Return the end of the table with the header at ``start``; lines that lead to the next header belong to that."""
    end = min((at for at in headers if at > start), default=len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def _headers(lines: list[str]) -> dict[int, tuple[str, ...]]:
    """Return the lines that are table headers, with their keys; lines within multi-line strings are none."""
    found, quote = {}, ""
    for at, line in enumerate(lines):
        if not quote:
            header = _HEADER.match(line)
            if header is not None:
                found[at] = tuple(part.strip().strip("\"'") for part in header[1].split("."))
                continue
        quote = _quote_after(line, quote)
    return found


def _quote_after(line: str, quote: str) -> str:
    """Return the quotes of the string that is open at the end of a line, where ``quote`` was open at its start."""
    at = 0
    while at < len(line):
        if quote:
            end = (_CLOSE_BASIC if quote == '"""' else _CLOSE_LITERAL).match(line, at)
            if end is None:
                return quote
            at, quote = end.end(), ""
            continue
        found = _TOKEN.match(line, at)
        if found is None or found.group().startswith("#"):
            return ""
        at = found.end()
        quote = found.group() if found.group() in ('"""', "'''") else ""
    return quote


def _checked(held: TomlText, text: str, *wanted: dict[str, object]) -> TomlText:
    """Parse ``text``; refuse it where its value is none of ``wanted``."""
    try:
        found = parse_toml((held.mark + text).encode(), held.path)
    except FormatError as error:
        raise _refused(held, ()) from error
    if not any(_is_same(found.value, one) for one in wanted):
        raise _refused(held, ())
    return found


def _is_same(one: object, other: object) -> bool:
    """Compare values; NaN, a value of TOML, equals itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - only NaN does


def _refused(held: TomlText, keys: tuple[str, ...]) -> RefusedError:
    what = f"[{'.'.join(keys)}] is written in another form there, and" if keys else "it"
    return RefusedError(
        f"{held.path}: {what} cannot be changed without changing more than meant", safe="Nothing was changed.",
        mend="Write its tables with a header each, as in [mcp_servers.name], then repeat the command.",
    )  # fmt: skip


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: str | list[str]) -> str:
    return _text(value) if isinstance(value, str) else f"[{', '.join(map(_text, value))}]"


def _text(text: str) -> str:
    """Return a basic string: JSON's form, except for DEL and for escapes beyond the first plane."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _get(value: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _with(value: dict[str, object], keys: tuple[str, ...], table: object) -> dict[str, object]:
    if not keys:
        return value
    held = value.get(keys[0])
    inner = table if len(keys) == 1 else _with(held if isinstance(held, dict) else {}, keys[1:], table)
    return {**value, keys[0]: inner}


def _drop(value: dict[str, object], keys: tuple[str, ...]) -> dict[str, object]:
    """Remove the table, and tables that existed only as the beginning of its name."""
    held = value.get(keys[0])
    rest = {name: inner for name, inner in value.items() if name != keys[0]}
    if len(keys) == 1 or not isinstance(held, dict):
        return rest
    inner = _drop(held, keys[1:])
    return {name: inner if name == keys[0] else one for name, one in value.items()} if inner else rest
