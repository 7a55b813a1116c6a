"""Edits in an answer written for aider: blocks of old and new text, and whole files."""

from __future__ import annotations

__all__ = ["EDITS_MAX", "Edit", "edits_of"]

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

EDITS_MAX: Final = 1000
_SEARCH: Final = re.compile(r"<{5,9} SEARCH>?\s*")
_DIVIDER: Final = re.compile(r"={5,9}\s*")
_REPLACE: Final = re.compile(r">{5,9} REPLACE\s*")
_FENCES: Final = ("```", "~~~", "<source>", "</source>", "<code>", "</code>", "<pre>", "</pre>")
_NAME_CHARS_MAX: Final = 400
_NAME: Final = re.compile(r"[\w./~@+ \\:()\[\]-]+")
_SUFFIX: Final = re.compile(r"[^/\s]\.\w{1,12}$")
_BEFORE_BLOCK: Final = 3  # lines between a file name and its block: a fence, and blank lines


class Edit(NamedTuple):
    """An edit; ``old`` is None where ``new`` replaces the whole file."""

    path: str
    old: str | None
    new: str


def edits_of(answer: str) -> list[Edit]:
    """Return the edits in order, at most ``EDITS_MAX``; an unclosed block is ignored."""
    lines = answer.split("\n")
    if "SEARCH" in answer and "REPLACE" in answer:
        found = list(_blocks(lines))
        if found:
            return found
    return list(_whole_files(lines)) if "\n```" in answer or answer.startswith("```") else []


def _blocks(lines: list[str]) -> Iterator[Edit]:
    path = ""
    count = at = 0
    while at < len(lines) and count < EDITS_MAX:
        if not lines[at].startswith("<<<<<") or not _SEARCH.fullmatch(lines[at]):
            at += 1
            continue
        path = _name_before(lines, at) or path
        old: list[str] = []
        new: list[str] = []
        into = old
        end = at + 1
        while end < len(lines):
            line = lines[end]
            if line.startswith("=====") and into is old and _DIVIDER.fullmatch(line):
                into = new
            elif line.startswith(">>>>>") and into is new and _REPLACE.fullmatch(line):
                break
            else:
                into.append(line)
            end += 1
        if end >= len(lines):
            return  # unclosed: all following lines were read as part of it
        if path:
            count += 1
            text = "".join(line + "\n" for line in new)
            before = "".join(line + "\n" for line in old)
            yield Edit(path, before if before.strip() else None, text)
        at = end + 1


def _name_before(lines: list[str], at: int) -> str:
    for line in reversed(lines[max(0, at - _BEFORE_BLOCK) : at]):
        if line.startswith(_FENCES) or not line.strip():
            continue
        return _name(line)
    return ""


def _name(line: str) -> str:
    """Return the file name that makes up the line; empty for other lines."""
    if len(line) > _NAME_CHARS_MAX:
        return ""
    name = line.strip().strip("`*#:").strip()
    return name if name and _NAME.fullmatch(name) and (" " not in name or _SUFFIX.search(name)) else ""


def _whole_files(lines: list[str]) -> Iterator[Edit]:
    """Find a line with a file name, a fence, the contents, a fence. A fence without a name is an example."""
    count = at = 0
    while at < len(lines) and count < EDITS_MAX:
        if not lines[at].startswith("```"):
            at += 1
            continue
        name = _name(lines[at - 1]) if at else ""
        end = at + 1
        while end < len(lines) and lines[end].rstrip() != "```":
            end += 1
        if end >= len(lines):
            return
        if name and _SUFFIX.search(name) and not lines[at].startswith(("```diff", "```bash", "```sh")):
            count += 1
            yield Edit(name, None, "".join(line + "\n" for line in lines[at + 1 : end]))
        at = end + 1
