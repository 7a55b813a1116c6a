"""Results of tool calls as lines of a terminal: the diff of an edit, and the end of a command's output.

Contents of files and outputs are untrusted: secrets are masked, and each line is made safe before it is coloured.
"""

from __future__ import annotations

__all__ = [
    "DIFF_LINES",
    "OUTPUT_LINES",
    "UNIFIED_LINES",
    "RowOfDiff",
    "diff_rows",
    "number_columns",
    "painted",
    "printed",
    "readable",
    "shortened",
    "unified",
    "width_of",
]

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from periplus.cli.common.face import Palette, visible

DIFF_LINES: Final = 8
UNIFIED_LINES: Final = 20  # of a diff with context and line numbers, at a terminal with room for them
OUTPUT_LINES: Final = 4
_COLUMNS: Final = 200  # for cutting lines if the width of the terminal is unknown
_TAB: Final = 4
_SGR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_WORD: Final = re.compile(r"\w+|\W")
_PAIRED_LINES_MAX: Final = 50  # of a run of lines that is compared word by word with the lines in its place
_COMPARED_CHARACTERS_MAX: Final = 500
_LIKE_SHARE: Final = 3  # lines with less than a third in common are not compared


class RowOfDiff(NamedTuple):
    """``mark`` is ``-``, ``+``, a space or ``@``, as in a unified diff; empty for a line that names a file or says why there is no diff.
    ``number`` is that of the line in its version of the file, 0 for a row that is no line. ``changed`` are the columns of the
    readable text that differ from the line in its place; empty where the lines have little in common.
    """

    mark: str
    text: str
    number: int = 0
    changed: tuple[int, int] = (0, 0)


def diff_rows(effects: Sequence[Mapping[str, Any]], content: Callable[[str], bytes | None]) -> list[RowOfDiff]:
    """Yield the diffs of all files, each after its name. ``content`` returns the bytes of a digest, or None if they are not kept."""
    before = {str(one.get("path")): str(one.get("before") or "") for one in effects}
    after = {str(one.get("path")): str(one.get("after") or "") for one in effects}
    moved = _moved(before, after)
    rows: list[RowOfDiff] = []
    for path, old in before.items():
        if path in moved.values():
            continue
        if path in moved:
            rows.append(RowOfDiff("", f"{path} → {moved[path]}"))
        elif old != after[path]:
            rows += [RowOfDiff("", path), *_changed(old, after[path], content)]
    return rows


def _moved(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Map old to new paths of files that were moved unchanged."""
    made = {after[path]: path for path in before if after[path] and not before[path]}
    return {path: made.pop(old) for path, old in before.items() if old and not after[path] and old in made}


def _changed(old: str, new: str, content: Callable[[str], bytes | None]) -> list[RowOfDiff]:
    from periplus.agent.tape.patches import patch_of

    was, now = (_masked(content(digest)) if digest else None for digest in (old, new))
    patch = patch_of("", (old, was), (new, now))
    if patch.note:
        return [RowOfDiff("", f"({patch.note})")]
    old_number = new_number = 0
    rows = []
    for line in patch.diff.split("\n")[:-1]:
        if hunk := _HUNK.match(line):
            old_number, new_number = int(hunk[1]), int(hunk[2])
            rows.append(RowOfDiff("@", line))
        elif line and line[0] in "-+ ":
            rows.append(RowOfDiff(line[0], line[1:], old_number if line[0] == "-" else new_number))
            old_number += line[0] != "+"
            new_number += line[0] != "-"
    return _compared(rows)


def _compared(rows: list[RowOfDiff]) -> list[RowOfDiff]:
    """Return the rows with the columns that changed, where as many lines were put in the place of lines."""
    at = 0
    while at < len(rows):
        removed = _run_of("-", rows, at)
        added = _run_of("+", rows, at + removed)
        if 0 < removed == added <= _PAIRED_LINES_MAX:
            for old in range(at, at + removed):
                new = old + removed
                spans = _differing(readable(rows[old].text, None), readable(rows[new].text, None))
                rows[old], rows[new] = rows[old]._replace(changed=spans[0]), rows[new]._replace(changed=spans[1])
        at += max(1, removed + added)
    return rows


def _run_of(mark: str, rows: Sequence[RowOfDiff], first: int) -> int:
    end = first
    while end < len(rows) and rows[end].mark == mark:
        end += 1
    return end - first


def _differing(old: str, new: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the columns of each text between the words that both begin with and those that both end with."""
    if max(len(old), len(new)) > _COMPARED_CHARACTERS_MAX:
        return (0, 0), (0, 0)
    ours, theirs = _WORD.findall(old), _WORD.findall(new)
    head = tail = 0
    while head < min(len(ours), len(theirs)) and ours[head] == theirs[head]:
        head += 1
    while tail < min(len(ours), len(theirs)) - head and ours[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    begin = sum(map(len, ours[:head]))
    same = begin + sum(map(len, ours[len(ours) - tail :]))
    if same * _LIKE_SHARE < max(len(old), len(new)):
        return (0, 0), (0, 0)
    return (begin, begin + len(old) - same), (begin, begin + len(new) - same)


def _masked(data: bytes | None) -> bytes | None:
    from periplus.agent.tape.patches import text_of
    from periplus.base.text.secrets import mask_secrets

    text = text_of(data) if data is not None else None
    return data if text is None else mask_secrets(text)[0].encode()


def shortened(rows: Sequence[RowOfDiff]) -> tuple[list[RowOfDiff], int]:
    """Return the first changed lines, with names of files if there are several, and the number of lines left out."""
    names = [row for row in rows if not row.mark]
    has_names = len(names) != 1 or " → " in names[0].text
    shown: list[RowOfDiff] = []
    for at, row in enumerate(rows):
        if row.mark in ("-", "+") or (not row.mark and (has_names or at)):
            shown.append(row)
    return shown[:DIFF_LINES], max(0, len(shown) - DIFF_LINES)


def unified(rows: Sequence[RowOfDiff]) -> tuple[list[RowOfDiff], int]:
    """Return the first rows for a terminal that shows line numbers, and the number of rows left out. The numbers say what the
    lines of hunks say: of those only a mark between two hunks is left.
    """
    names = [row for row in rows if not row.mark]
    has_names = len(names) != 1 or " → " in names[0].text
    shown: list[RowOfDiff] = []
    for at, row in enumerate(rows):
        if row.mark == "@":
            if rows[at - 1].mark:
                shown.append(row._replace(text="⋮"))
        elif row.mark or has_names or at:
            shown.append(row)
    return shown[:UNIFIED_LINES], max(0, len(shown) - UNIFIED_LINES)


def number_columns(rows: Sequence[RowOfDiff]) -> int:
    """Return the columns that the line numbers of the rows take."""
    return len(str(max((row.number for row in rows), default=0)))


def painted(row: RowOfDiff, palette: Palette, width: int | None, digits: int = 0) -> str:
    """Format a row for a terminal, cut at ``width`` columns unless it is None, behind its line number in ``digits`` columns
    unless that is 0.
    """
    colour = {"-": palette.bad, "+": palette.good, "@": palette.name, "": palette.bold}.get(row.mark, "")
    mark = "" if row.mark == "@" else row.mark
    before = f"{row.number:>{digits}} " if digits and row.number else ""
    text = readable(row.text, None if width is None else width - len(mark) - len(before))
    if before and palette.dim:
        before = f"{palette.dim}{before}{palette.end}"
    if not colour:
        return f"{before}{mark}{text}"
    begin, end = (min(one, len(text)) for one in row.changed)
    if begin < end:
        text = f"{text[:begin]}{palette.bold}{text[begin:end]}{palette.end}{colour}{text[end:]}"
    return f"{before}{colour}{mark}{text}{palette.end}"


def readable(line: str, width: int | None) -> str:
    """Make a line of a file or an output safe: expand tabs, drop colours, and apply carriage returns."""
    if width is not None:
        width = max(1, width)
        line = line[: 1 << 16]
    plain = _SGR.sub("", line).rstrip("\r").rpartition("\r")[2]
    if width is not None:
        plain = plain[: 2 * width]
    return visible(plain.expandtabs(_TAB), width)


def width_of(columns: int | None, before: int) -> int:
    """Return the columns left behind an indent of ``before``."""
    return max(20, (columns or _COLUMNS) - before)


def printed(output: str, handle: str, page: Callable[[str], str | None]) -> tuple[list[str], list[str]]:
    """Return the lines that a command printed, and the notes after them. ``output`` is the model's version: a title, the output
    without its middle, notes. ``page`` returns the full text of a handle; it is used if it matches the model's version.
    """
    from periplus.agent.tools.text_pages.command_output import shorten

    body = output.partition("\n")[2]
    whole = page(handle)
    shown = shorten(whole, handle).rstrip("\n") if whole is not None else ""
    if whole is None or not body.startswith(shown):
        return _lines(body), []
    return _lines(whole), _lines(body[len(shown) :].strip("\n"))


def _lines(text: str) -> list[str]:
    text = text.rstrip()
    return text.split("\n") if text else []
