"""Patches, made from the bytes before and after, and applied again.

A diff here is exact: ``apply(before, diff)`` is ``after``, to the last byte of the last line. So a file that the tape shows in full and the
patches after it *are* the file on the disk, which tests and seals rely on.
"""

from __future__ import annotations

__all__ = ["apply_diff", "diff_texts", "hunk_lines", "patch_of", "text_of"]

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from periplus.agent.tape_notes import FilePatch
from periplus.base.errors import FormatError

_CONTEXT: Final = 3
_LINES_MATCHED_MAX: Final = 4_000
TEXT_BYTES_MAX: Final = 2 << 20
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_END: Final = "\\ No newline at end of file"


class Diff(NamedTuple):
    text: str
    added: int
    removed: int


def text_of(data: bytes) -> str | None:
    """The bytes as text; None unless they are UTF-8 without zero bytes, so that the text is the bytes."""
    if b"\0" in data[:65_536] or len(data) > TEXT_BYTES_MAX:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def patch_of(path: str, before: tuple[str, bytes | None], after: tuple[str, bytes | None]) -> FilePatch:
    """The patch between two states of a file, each as its digest (empty: no file) and its bytes (None: not kept)."""
    old_digest, old = before
    new_digest, new = after
    if (old_digest and old is None) or (new_digest and new is None):
        return FilePatch(path=path, before=old_digest, after=new_digest, note="its content before is not kept" if old is None else "its content after is not kept")  # fmt: skip
    old_text, new_text = text_of(old or b""), text_of(new or b"")
    if old_text is None or new_text is None:
        sizes = f"{len(old or b''):,} to {len(new or b''):,} bytes"
        return FilePatch(path=path, before=old_digest, after=new_digest, note=f"no text, or too much of it: {sizes}")
    diff = diff_texts(old_text, new_text)
    return FilePatch(
        path=path, before=old_digest, after=new_digest, diff=diff.text, added=diff.added, removed=diff.removed
    )


def diff_texts(before: str, after: str) -> Diff:
    """The hunks of a unified diff. Empty without a difference."""
    old, new = _lines(before), _lines(after)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    changes = _changes(old[head : len(old) - tail], new[head : len(new) - tail], head)
    added = sum(there - begin for _, _, begin, there in changes)
    removed = sum(end - start for start, end, _, _ in changes)
    return Diff("".join(_hunk(old, new, group) for group in _grouped(changes)), added, removed)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    found = [f"{line}\n" for line in lines[:-1]]
    return [*found, lines[-1]] if lines[-1] else found


_Change = tuple[int, int, int, int]


def _changes(old: Sequence[str], new: Sequence[str], offset: int) -> list[_Change]:
    """The differences as ``(start, end, start, end)``; one single change for very long texts, since matching takes quadratic time."""
    if not old and not new:
        return []
    if len(old) + len(new) > _LINES_MATCHED_MAX:
        return [(offset, offset + len(old), offset, offset + len(new))]
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [
        (offset + one, offset + two, offset + three, offset + four)
        for kind, one, two, three, four in matcher.get_opcodes()
        if kind != "equal"
    ]


def _grouped(changes: Sequence[_Change]) -> list[list[_Change]]:
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and change[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[_Change]) -> str:
    start, end = max(0, group[0][0] - _CONTEXT), min(len(old), group[-1][1] + _CONTEXT)
    begin, there = max(0, group[0][2] - _CONTEXT), min(len(new), group[-1][3] + _CONTEXT)
    pieces = [f"@@ -{_span(start, end)} +{_span(begin, there)} @@\n"]
    at = start
    for one, two, three, four in group:
        pieces += [_line(" ", line) for line in old[at:one]]
        pieces += [_line("-", line) for line in old[one:two]]
        pieces += [_line("+", line) for line in new[three:four]]
        at = two
    pieces += [_line(" ", line) for line in old[at:end]]
    return "".join(pieces)


def _span(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _line(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_END}\n"


def apply_diff(before: str, diff: str) -> str:
    """Apply the hunks of ``diff`` to ``before``. Raises FormatError if they do not fit exactly."""
    old = _lines(before)
    result: list[str] = []
    at = 0
    lines = _lines(diff)
    place = 0
    while place < len(lines):
        match = _HUNK.match(lines[place])
        if match is None:
            raise FormatError(f"line {place + 1} of a diff begins no hunk", safe="Nothing was changed.")
        start = int(match[1]) - (0 if match[2] == "0" else 1)
        result += old[at:start]
        at = start
        place += 1
        while place < len(lines) and not (lines[place].startswith("@@ ") and _HUNK.match(lines[place])):
            mark, line = lines[place][:1], lines[place][1:]
            place += 1
            if place < len(lines) and lines[place].rstrip("\n") == _NO_END:
                line = line[:-1]
                place += 1
            if mark != "+":
                if at >= len(old) or old[at] != line:
                    raise FormatError(f"a diff does not fit at line {at + 1}", safe="Nothing was changed.")
                at += 1
            if mark != "-":
                result.append(line)
    return "".join([*result, *old[at:]])


def hunk_lines(diff: str, *, after: bool = False) -> tuple[int, ...]:
    """The lines at which the hunks of a diff begin, in the text before, or in ``after``."""
    matches = (_HUNK.match(line) for line in diff.split("\n") if line.startswith("@@ "))
    return tuple(int(match[3 if after else 1]) for match in matches if match is not None)
