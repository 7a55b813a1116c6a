"""Editing of a TOML file as text, one table or one element of an array of tables: all else keeps every byte.

A table with its header may follow any other table, so ours is appended. It is found again by its header. It has no
end marker, because other programs write these files too, and may insert their tables: it ends at the next header, or
before the blank lines and comments that lead to one. An element of an array is found by its ``name``; it follows the last
element with a header, and stands first in an array that is written in brackets. Each change is parsed before and after.
"""

from __future__ import annotations

__all__ = [
    "TomlText",
    "item_place",
    "parse_toml",
    "put_item",
    "put_items",
    "put_table",
    "remove_item",
    "remove_items",
    "remove_table",
]

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from periplus.base.errors import FormatError, RefusedError
from periplus.interop.agents.editing.config_text import decode_text, split_mark

BYTES_MAX: Final = 4 << 20
_PLACE: Final = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")
_DEPTH_MAX: Final = 100
_HEADER: Final = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_IN_BRACKETS: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\']|\'(?!\'\'))*\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\''
    r'|#[^\n]*|[\[\]{},]|\s+|[^\[\]{},"\'#\s]+',
    re.DOTALL,
)
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
    line = _line_break(held)
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
        lines = _cut_section(lines, header, end, comment)
    return _checked(held, "".join(lines), _drop(held.value, keys), _with(_drop(held.value, keys), keys[:-1], {}))


def _replaced(
    held: TomlText, keys: tuple[str, ...], ours: Mapping[str, str], wanted: dict[str, object], line: str
) -> TomlText:
    lines = _lines(held.text)
    headers = _headers(lines)
    start = next((at for at, name in headers.items() if name == keys), None)
    if start is None:
        raise _refused(held, keys)
    _rewrite(lines, start, _section_end(lines, headers, start), ours, line)
    return _checked(held, "".join(lines), _with(held.value, keys, wanted))


def _rewrite(lines: list[str], start: int, end: int, ours: Mapping[str, str], line: str) -> None:
    """Put our lines behind the header at ``start``, in the place of others with the same keys."""
    kept = [one for one in lines[start + 1 : end] if one.partition("=")[0].strip().strip("\"'") not in ours]
    if not lines[start].endswith("\n"):
        lines[start] += line
    lines[start + 1 : end] = [*(one + line for one in ours.values()), *kept]


# -- arrays of tables ------------------------------------------------------------------------------------------------

Values: TypeAlias = Mapping[str, "str | tuple[str, ...]"]


def item_place(value: Mapping[str, object], keys: tuple[str, ...], name: str) -> int | None:
    """Return the index of the element called ``name`` of the array at ``keys``; None where there is none."""
    items = _get(value, keys)
    found = items if isinstance(items, list) else []
    return next((at for at, one in enumerate(found) if isinstance(one, dict) and one.get("name") == name), None)


def put_item(
    held: TomlText, keys: tuple[str, ...], values: Values, comment: str, *, defaults: Mapping[str, bool]
) -> TomlText:
    """Return the text in which the array ``keys`` has an element with ``values``, among them its ``name``, and the table
    that contains the array has ``defaults`` where it does not have these keys. Other keys of an existing element stay.
    """
    held = _put_defaults(held, keys[:-1], defaults, comment)
    found = _get(held.value, keys)
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    if found is not None and not isinstance(found, list):
        raise _refused(held, keys)
    items: list[dict[str, object]] = found or []
    place = item_place(held.value, keys, str(plain["name"]))
    if place is not None and all(items[place].get(name) == value for name, value in plain.items()):
        return held
    ours = {name: f"{_key(name)} = {_value(value)}" for name, value in plain.items()}
    lines = _lines(held.text)
    headers = _headers(lines)
    line = _line_break(held)
    starts = _item_headers(lines, headers, keys)
    if found is not None and len(starts) != (len(items) or None):
        return _put_in_brackets(held, keys, place, plain, ours)
    if place is not None:
        wanted = [{**one, **plain} if at == place else one for at, one in enumerate(items)]
        _rewrite(lines, starts[place], _section_end(lines, headers, starts[place]), ours, line)
        return _checked(held, "".join(lines), _with(held.value, keys, wanted))
    block = [f"# {comment}", f"[[{'.'.join(map(_key, keys))}]]", *ours.values()]
    last = max((at for at, name in headers.items() if name[: len(keys)] == keys), default=None)
    if last is None and keys[1:]:
        last = next((at for at, name in headers.items() if name == keys[:-1]), None)
    text = _inserted(lines, headers, last, block, line)
    return _checked(held, text, _with(held.value, keys, [*items, plain]))


def remove_item(
    held: TomlText, keys: tuple[str, ...], name: str, comment: str, *, defaults: Mapping[str, bool]
) -> TomlText:
    """Return the text without the element ``name`` of the array ``keys``, and without what ``put_item`` added beside it.
    Refused where more would be removed.
    """
    place = item_place(held.value, keys, name)
    items = _get(held.value, keys)
    if place is None or not isinstance(items, list):
        return held
    rest = [one for at, one in enumerate(items) if at != place]
    lines = _lines(held.text)
    headers = _headers(lines)
    starts = _item_headers(lines, headers, keys)
    if len(starts) != len(items):
        found = _brackets(held, keys)
        first, end = found[place]
        text = held.text
        while text[end : end + 1] in (" ", ","):
            end += 1
        cut = text[:first].rstrip(" ,") if not rest[place:] and rest else text[:first]
        held = _checked(held, cut + text[end:], _with(held.value, keys, rest))
    else:
        last = starts[place]
        for at, header in headers.items():  # the tables below it are of its own
            if at > last and at not in starts and header[: len(keys)] == keys and not _between(headers, last, at):
                last = at
        lines = _cut_section(lines, starts[place], _section_end(lines, headers, last), comment)
        wanted = _with(held.value, keys, rest) if rest else _drop(held.value, keys)
        held = _checked(held, "".join(lines), wanted, _with(_drop(held.value, keys), keys[:-1], {}))
    return _remove_defaults(held, keys[:-1], defaults, comment)


def put_items(
    held: TomlText,
    keys: tuple[str, ...],
    items: Sequence[Mapping[str, str]],
    is_ours: Callable[[object], bool],
    comment: str,
) -> TomlText:
    """Return the text in which those elements of the array ``keys`` that are ours are ``items``, at the end of the file."""
    plain = [dict(one) for one in items]
    found = _get(held.value, keys)
    if isinstance(found, list) and [one for one in found if is_ours(one)] == plain:
        return held
    held = remove_items(held, keys, is_ours, comment)
    rest = _get(held.value, keys)
    text, line = held.text, _line_break(held)
    starts = _item_headers(_lines(text), _headers(_lines(text)), keys)
    if rest is not None and (not isinstance(rest, list) or len(starts) != len(rest)):
        raise _refused(held, keys)  # what is written in brackets cannot be continued behind them
    for one in items:
        gap = "" if not text else line if text.endswith("\n") else line * 2
        block = [
            f"# {comment}",
            f"[[{'.'.join(map(_key, keys))}]]",
            *(f"{_key(name)} = {_value(value)}" for name, value in one.items()),
        ]
        text += gap + line.join(block) + line
    return _checked(held, text, _with(held.value, keys, [*(rest or []), *plain]))


def remove_items(held: TomlText, keys: tuple[str, ...], is_ours: Callable[[object], bool], comment: str) -> TomlText:
    """Return the text without those elements of the array ``keys`` that are ours, and their comments."""
    items = _get(held.value, keys)
    found = items if isinstance(items, list) else []
    rest = [one for one in found if not is_ours(one)]
    if len(rest) == len(found):
        return held
    lines = _lines(held.text)
    if len(_item_headers(lines, _headers(lines), keys)) != len(found):
        raise _refused(held, keys)
    for place in reversed([at for at, one in enumerate(found) if is_ours(one)]):
        headers = _headers(lines)
        start = _item_headers(lines, headers, keys)[place]
        lines = _cut_section(lines, start, _section_end(lines, headers, start), comment)
    return _checked(held, "".join(lines), _with(held.value, keys, rest) if rest else _drop(held.value, keys))


def _between(headers: Mapping[int, tuple[str, ...]], first: int, last: int) -> bool:
    """Test that another header stands between two."""
    return any(first < at < last for at in headers)


def _put_defaults(held: TomlText, keys: tuple[str, ...], defaults: Mapping[str, bool], comment: str) -> TomlText:
    table = _get(held.value, keys)
    lacking = {name: value for name, value in defaults.items() if not isinstance(table, dict) or name not in table}
    if not lacking:
        return held
    line = _line_break(held)
    lines = _lines(held.text)
    headers = _headers(lines)
    at = next((at for at, name in headers.items() if name == keys), None)
    wanted = _with(held.value, keys, {**(table if isinstance(table, dict) else {}), **lacking})
    ours = [_setting(name, is_on=value) for name, value in lacking.items()]
    if at is not None:
        if not lines[at].endswith("\n"):
            lines[at] += line
        lines[at + 1 : at + 1] = [f"{one}  # {comment}{line}" for one in ours]
        return _checked(held, "".join(lines), wanted)
    block = [f"# {comment}", f"[{'.'.join(map(_key, keys))}]", *ours]
    below = min((at for at, name in headers.items() if name[: len(keys)] == keys), default=None)
    if below is None:
        return _checked(held, _inserted(lines, headers, None, block, line), wanted)
    lines[below:below] = [*(one + line for one in block), line]
    return _checked(held, "".join(lines), wanted)


def _remove_defaults(held: TomlText, keys: tuple[str, ...], defaults: Mapping[str, bool], comment: str) -> TomlText:
    """Remove the lines of ``_put_defaults``: they are known by their comment."""
    table = _get(held.value, keys)
    if not defaults or not isinstance(table, dict):
        return held
    plain = {_setting(name, is_on=value): name for name, value in defaults.items()}
    marked = {f"{one}  # {comment}" for one in plain}
    lines = _lines(held.text)
    headers = _headers(lines)
    at = next((at for at, name in headers.items() if name == keys), None)
    end = _section_end(lines, headers, at) if at is not None else 0
    if at and lines[at - 1].strip() == f"# {comment}" and {one.strip() for one in lines[at + 1 : end]} <= plain.keys():
        gone = set(plain.values())
        lines = _cut_section(lines, at, end, comment)
    else:
        gone = {plain[one.strip().partition("  #")[0]] for one in lines if one.strip() in marked}
        lines = [one for one in lines if one.strip() not in marked]
    kept = {name: value for name, value in table.items() if name not in gone}
    return _checked(held, "".join(lines), _with(held.value, keys, kept), *([] if kept else [_drop(held.value, keys)]))


def _cut_section(lines: list[str], header: int, end: int, comment: str) -> list[str]:
    """Return the lines without those of a table, its comment, and the blank line before it."""
    start = header
    if start and lines[start - 1].strip() == f"# {comment}":
        start -= 1
    is_last = not "".join(lines[end:]).strip()
    if start and not lines[start - 1].strip() and (is_last or not lines[end].strip()):
        start -= 1
    return lines[:start] + ([] if is_last else lines[end:])


def _inserted(
    lines: list[str], headers: Mapping[int, tuple[str, ...]], after: int | None, block: list[str], line: str
) -> str:
    """Return the text with ``block`` behind the table with the header at ``after``, else at the end."""
    end = len(lines) if after is None else _section_end(lines, headers, after)
    before, rest = "".join(lines[:end]), "".join(lines[end:])
    if not rest.strip():
        before, rest = before + rest, ""
    gap = "" if not before else line if before.endswith("\n") else line * 2
    return before + gap + line.join(block) + line + rest


def _item_headers(lines: list[str], headers: Mapping[int, tuple[str, ...]], keys: tuple[str, ...]) -> list[int]:
    return [at for at, name in headers.items() if name == keys and lines[at].lstrip().startswith("[[")]


def _put_in_brackets(
    held: TomlText, keys: tuple[str, ...], place: int | None, plain: Mapping[str, object], ours: Mapping[str, str]
) -> TomlText:
    """Return the text with our element in an array that is written in brackets: first, or in the place of an older one."""
    spans = _brackets(held, keys)
    items = _get(held.value, keys)
    assert isinstance(items, list)
    one = "{ " + ", ".join(ours.values()) + " }"
    if place is not None:
        if not items[place].keys() <= plain.keys():
            raise _refused(held, keys)
        text = held.text[: spans[place][0]] + one + held.text[spans[place][1] :]
        return _checked(held, text, _with(held.value, keys, [*items[:place], plain, *items[place + 1 :]]))
    at = spans[-1][0] + 1
    if items:
        one += "," if held.text[at] in "\r\n" else ", "
    return _checked(held, held.text[:at] + one + held.text[at:], _with(held.value, keys, [plain, *items]))


def _brackets(held: TomlText, keys: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the places of the elements of an array that is written in brackets, and at last that of the array."""
    lines = _lines(held.text)
    headers = _headers(lines)
    start = -1 if not keys[1:] else next((at for at, name in headers.items() if name == keys[:-1]), None)
    if start is None:
        raise _refused(held, keys)
    end = min((at for at in headers if at > start), default=len(lines))
    key = re.compile(rf"\s*(?:{re.escape(keys[-1])}|\"{re.escape(keys[-1])}\"|'{re.escape(keys[-1])}')\s*=\s*(?=\[)")
    for at in range(start + 1, end):
        found = key.match(lines[at])
        if found is not None:
            return _elements(held, keys, len("".join(lines[:at])) + found.end())
    raise _refused(held, keys)


def _elements(held: TomlText, keys: tuple[str, ...], start: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    depth, first, last, at = 0, -1, -1, start
    while True:
        found = _IN_BRACKETS.match(held.text, at)
        if found is None:
            raise _refused(held, keys)
        token, at = found.group(), found.end()
        if depth == 1 and token in (",", "]"):
            spans += [(first, last)] if first >= 0 else []
            first = -1
        elif depth and not token.isspace() and not token.startswith("#"):
            first, last = (found.start() if first < 0 else first), found.end()
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if not depth:
            return [*spans, (start, at)]


def _line_break(held: TomlText) -> str:
    return "\r\n" if "\r\n" in held.text else "\n"


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
        f"{held.path}: {what} cannot be changed without altering other parts of the file", safe="Nothing was changed.",
        mend="Write its tables with a header each, as in [mcp_servers.name] or [[mcp_servers]], then repeat the command.",
    )  # fmt: skip


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: str | list[str]) -> str:
    return _text(value) if isinstance(value, str) else f"[{', '.join(map(_text, value))}]"


def _setting(name: str, *, is_on: bool) -> str:
    return f"{_key(name)} = {'true' if is_on else 'false'}"


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
