"""Results of tool calls as lines of a terminal: the diff of an edit, and the end of a command's output.

Contents of files and outputs are untrusted: secrets are masked, and each line is made safe before it is coloured.
"""

from __future__ import annotations

__all__ = [
    "DIFF_LINES",
    "OUTPUT_LINES",
    "RowOfDiff",
    "diff_rows",
    "painted",
    "printed",
    "readable",
    "shortened",
    "width_of",
]

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from periplus.cli.common.face import Palette, visible

DIFF_LINES: Final = 8
OUTPUT_LINES: Final = 4
_COLUMNS: Final = 200  # for cutting lines if the width of the terminal is unknown
_TAB: Final = 4
_SGR: Final = re.compile(r"\x1b\[[0-9;:]*m")


class RowOfDiff(NamedTuple):
    """``mark`` is ``-``, ``+``, a space or ``@``, as in a unified diff; empty for a line that names a file or says why there is no diff."""

    mark: str
    text: str


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
    lines = patch.diff.split("\n")[:-1]
    return [RowOfDiff(line[0], line if line[0] == "@" else line[1:]) for line in lines if line and line[0] != "\\"]


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


def painted(row: RowOfDiff, palette: Palette, width: int | None) -> str:
    """Format a row for a terminal, cut at ``width`` columns unless it is None."""
    colour = {"-": palette.bad, "+": palette.good, "@": palette.name, "": palette.bold}.get(row.mark, "")
    mark = "" if row.mark == "@" else row.mark
    text = f"{mark}{readable(row.text, None if width is None else width - len(mark))}"
    return f"{colour}{text}{palette.end}" if colour else text


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
