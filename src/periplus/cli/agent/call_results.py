"""What a call came to, as lines of a terminal: the diff of what it edited, and the end of what a command printed.

Contents of files and outputs are a stranger's text: secrets are masked, and each line is made safe before it gets its colour.
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
_COLUMNS: Final = 200  # of a line that is cut where nobody knows the width of the terminal
_TAB: Final = 4
_SGR: Final = re.compile(r"\x1b\[[0-9;:]*m")


class RowOfDiff(NamedTuple):
    """``mark``: ``-``, ``+``, `` `` or ``@`` as in a unified diff; empty for the line that names a file, or says why there is no diff."""

    mark: str
    text: str


def diff_rows(effects: Sequence[Mapping[str, Any]], content: Callable[[str], bytes | None]) -> list[RowOfDiff]:
    """The diffs of all files, each behind its name. ``content`` gives the bytes of a digest, None where they are not kept."""
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
    """Where files went that are the same at another path."""
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
    """The first lines that changed, with the names of their files where there are several; and how many are left out."""
    names = [row for row in rows if not row.mark]
    has_names = len(names) != 1 or " → " in names[0].text
    shown: list[RowOfDiff] = []
    for at, row in enumerate(rows):
        if row.mark in ("-", "+") or (not row.mark and (has_names or at)):
            shown.append(row)
    return shown[:DIFF_LINES], max(0, len(shown) - DIFF_LINES)


def painted(row: RowOfDiff, palette: Palette, width: int | None) -> str:
    """A line for a terminal, cut at ``width`` columns; None does not cut."""
    colour = {"-": palette.bad, "+": palette.good, "@": palette.name, "": palette.bold}.get(row.mark, "")
    mark = "" if row.mark == "@" else row.mark
    text = f"{mark}{readable(row.text, None if width is None else width - len(mark))}"
    return f"{colour}{text}{palette.end}" if colour else text


def readable(line: str, width: int | None) -> str:
    """A line of a file or an output made safe: tabs are spaces, colours go, and of what was written over in place the last stays."""
    if width is not None:
        width = max(1, width)
        line = line[: 1 << 16]
    plain = _SGR.sub("", line).rstrip("\r").rpartition("\r")[2]
    if width is not None:
        plain = plain[: 2 * width]
    return visible(plain.expandtabs(_TAB), width)


def width_of(columns: int | None, before: int) -> int:
    """What is left of a line in a terminal of so many columns behind an indent of ``before``."""
    return max(20, (columns or _COLUMNS) - before)


def printed(output: str, handle: str, page: Callable[[str], str | None]) -> tuple[list[str], list[str]]:
    """The lines that a command printed, and the notes behind them. ``output`` is what the model is told: a title, what was printed
    with its middle left out, notes. ``page`` gives the text behind a handle; it counts where it is what the model was told of.
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
