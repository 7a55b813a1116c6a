"""Instruction files: found, read within limits and sanitized. What the model is shown of them is noted (``tape_notes.InstructionsNote``).

The files of the project's folder are shown at the session's first step, those of a folder below it when a call first touched it, and each
again at the beginning of a turn when it has changed. The session's episodes (``tape.shown_instructions``) say which folders were entered
and what was shown, so the reader remembers only what it read in this turn.

No file is trusted: it is read through ``Confined`` (no link, no pipe, nothing outside), from its beginning only; binary files are refused,
long texts and lines cut, phrases and hidden characters removed, and the remark says all of it. ``@path`` lines of CLAUDE.md and GEMINI.md
are followed to texts inside the project, a few levels deep. Of files with the same text, one is shown.
"""

from __future__ import annotations

__all__ = ["FILE_CHARACTERS_MAX", "NAMES", "ROOT_NAMES", "InstructionReader", "memory_lines"]

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from periplus.agent.perception.text_sanitizer import sanitized_text
from periplus.agent.tape.fence import left_out, plain_name
from periplus.agent.tape.shown_instructions import FILES_MAX, Instructions
from periplus.agent.tape_notes import InstructionFile
from periplus.base.encoding.digests import sha256
from periplus.base.errors import PeriplusError
from periplus.base.filesystem.confined_folder import Confined

NAMES: Final = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
ROOT_NAMES: Final = (*NAMES, ".github/copilot-instructions.md")
FILE_CHARACTERS_MAX: Final = 12_000
LINE_CHARACTERS_MAX: Final = 2_000
HEAD_BYTES_MAX: Final = 64 << 10
IMPORTS_MAX: Final = 16
IMPORT_DEPTH_MAX: Final = 4
DEPTH_MAX: Final = 32
NOTE_FILES_MAX: Final = 40
_IMPORTING: Final = frozenset({"CLAUDE.md", "GEMINI.md"})
_IMPORT: Final = re.compile(r"^[ \t]{0,3}(?:[-*][ \t]{1,3})?@(\S{1,500})[ \t]*$", re.MULTILINE)
_TEXTS: Final = (".md", ".mdc", ".markdown", ".txt", ".rst")
_ROOM_LEAST: Final = 200
_MORE: Final = "more instruction files"
_ODD: Final = "a file of instructions"
_ODD_NAMES: Final = "the path of one or more would itself give orders to an agent: they are not shown"
_NO_ROOM: Final = "there is no room left to show them; list(glob='**/AGENTS.md') lists them"
_REPEATED: Final = (
    "[Periplus' own part is left out: it repeats this project's memory, see list(path='@periplus/memory/')]"
)


@dataclass(slots=True)
class _Pass:
    """One pass over the files: what to tell, what was read, how many characters are left."""

    held: Instructions
    room: int
    found: list[InstructionFile] = field(default_factory=list)
    looked: set[str] = field(default_factory=set)
    says: dict[str, str] = field(default_factory=dict)
    imports: int = 0
    is_full: bool = False

    def tell(self, one: InstructionFile) -> None:
        """Add the file if there is room; a file that was shown before makes room for its own new version."""
        held = self.held.live.get(one.path)
        room = self.room + (_size(held) if held is not None else 0)
        if _size(one) > room + _ROOM_LEAST or len(self.found) >= NOTE_FILES_MAX:
            self.is_full = True
            return
        self.room = room - _size(one)
        self.found.append(one)


class InstructionReader:
    """Reader of instruction files. ``path_of`` maps a path of a call to a path of the project (it raises ConfinementError), ``memory``
    returns the lines that Periplus' own part of a file may have, ``characters_max`` bounds all that is shown together.
    """

    def __init__(
        self,
        folder: Confined,
        *,
        path_of: Callable[[str], str],
        memory: Callable[[], frozenset[str]] = frozenset,
        unread: Callable[[str], bool] = lambda _: False,
        characters_max: int = 2 * FILE_CHARACTERS_MAX,
    ) -> None:
        self._folder, self._path_of, self._memory, self._characters_max = folder, path_of, memory, characters_max
        self._unread = unread
        self._entered: set[str] = set()
        self._spelled: set[str] = set()
        self._is_new_turn = True

    def begin_turn(self) -> None:
        """Read everything again, since others may have changed it between turns."""
        self._entered.clear()
        self._spelled.clear()
        self._is_new_turn = True

    def due(self, held: Instructions) -> tuple[InstructionFile, ...]:
        """Files that the model has to be told of now: new, changed or removed ones."""
        used = sum(_size(one) for one in held.live.values())
        now = _Pass(held, self._characters_max - used)
        now.says = {sha256(one.text.encode()).hex(): path for path, one in held.live.items() if one.text}
        for folder in self._new_folders(held):
            for name in ROOT_NAMES if not folder else NAMES:
                self._look(f"{folder}/{name}" if folder else name, now)
        if self._is_new_turn:
            self._is_new_turn = False
            for path in list(held.live):
                self._look(path, now)
        if now.is_full and _MORE not in held.live:
            now.found.append(InstructionFile(_MORE, "more", "", _NO_ROOM))
        return tuple(now.found)

    def _new_folders(self, held: Instructions) -> Iterator[str]:
        """Folders that were entered and not looked at in this turn, each after its parents."""
        if "" not in self._entered:
            self._entered.add("")
            yield ""
        for spelled in [one for one in held.folders if one not in self._spelled]:
            self._spelled.add(spelled)
            try:
                names = self._path_of(spelled).split("/")
            except PeriplusError:
                continue  # not a folder of the project
            for end in range(1, min(len(names), DEPTH_MAX) + 1):
                folder = "/".join(names[:end])
                if folder not in self._entered and folder != ".":
                    self._entered.add(folder)
                    yield folder

    # -- one file --------------------------------------------------------------------------------------------------------

    def _look(self, path: str, now: _Pass, depth: int = 0) -> None:
        if path in now.looked or path in (_MORE, _ODD):
            return
        now.looked.add(path)
        held = now.held.live.get(path)
        if held is None and len(now.held.live) + len(now.found) >= FILES_MAX - 1:
            now.is_full = True
            return
        try:
            read = self._read(path)
        except (OSError, PeriplusError) as error:
            read = _Read("refused", remark=f"it cannot be read ({type(error).__name__})")
        if read is None:
            if held is not None:
                now.tell(InstructionFile(path))
            return
        named = sanitized_text(path)
        if named.phrases or named.hidden:  # its name stands outside of the fence
            if _ODD not in now.held.live and all(one.path != _ODD for one in now.found):
                now.tell(InstructionFile(_ODD, "odd", "", _ODD_NAMES))
            return
        if read.remark:
            if read.target and self._is_named(path, read.target):
                return
            if held is None or held.sha256 != read.mark:
                now.tell(InstructionFile(path, read.mark, "", read.remark, held is not None))
            return
        imported = _imports(read.text) if posixpath.basename(path) in _IMPORTING or depth else ()
        if held is None or held.sha256 != read.mark:
            self._tell(path, read, now, imported)
        for target in imported:
            self._import(path, target, now, depth)

    def _is_named(self, path: str, target: str) -> bool:
        """Return whether a link leads to another file of this list, which is shown under its own name."""
        to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        folder = posixpath.dirname(path.removeprefix(".github/")) if path == ROOT_NAMES[-1] else posixpath.dirname(path)
        if to == path or to not in {posixpath.join(folder, name) for name in ROOT_NAMES}:
            return False
        try:
            entry = self._folder.stat(to)
        except PeriplusError:
            return False
        return entry is not None and entry.kind == "file"

    def _read(self, path: str) -> _Read | None:
        """Read the beginning of a file; None without a file."""
        entry = self._folder.stat(path)
        if entry is None or entry.kind == "folder":
            return None
        if self._unread(path):
            return _Read("kept back", remark="a rule forbids reading it")
        if entry.kind == "link":
            target = os.readlink(os.path.join(self._folder.root, path))  # only read, not followed
            return _Read("link", remark="it is a link, and was not followed", target=target)
        if entry.kind != "file":
            return _Read("other", remark="it is not a regular file, and was not read")
        from periplus.agent.tools.files.text_encoding import is_binary

        with self._folder.opened(path) as fd:
            size = os.fstat(fd).st_size
            data = os.read(fd, HEAD_BYTES_MAX)
        mark = sha256(data + size.to_bytes(8, "big")).hex()
        if is_binary(data):
            return _Read(mark, remark="it is binary, and was not shown")
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        text = data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n")
        if size > len(data):
            text = text.removesuffix("\ufffd")  # a character that the limit cut
        return _Read(mark, text, more=max(0, size - len(data)))

    def _tell(self, path: str, read: _Read, now: _Pass, imported: Sequence[str]) -> None:
        held = now.held.live.get(path)
        room = now.room + (_size(held) if held is not None else 0) - 2 * len(path)
        text, shift_from, shift = self._without_own_part(read.text, path)
        shown, remarks = _cut(path, text, min(FILE_CHARACTERS_MAX, room), read.more, (shift_from, shift))
        harmless = sanitized_text(shown)
        if harmless.phrases:
            remarks.append(f"{_counted(harmless.phrases, 'phrase')} that would command an agent neutralised")
        if harmless.hidden:
            remarks.append(f"{_counted(harmless.hidden, 'hidden character')} taken out")
        shown = harmless.text.strip("\n")
        says = sha256(shown.encode("utf-8", "replace")).hex()
        bare = _IMPORT.sub("", text) if imported else text
        same = now.says.get(says, path) if shown else path
        if held is None and (not bare.strip() or same != path):
            return  # no text of its own
        if same != path:
            shown, remarks = "", [f"it has the same text as {plain_name(same)}"]
        if shown:
            now.says[says] = path
        now.tell(InstructionFile(path, read.mark, shown, "; ".join(remarks), held is not None))

    def _without_own_part(self, text: str, path: str) -> tuple[str, int, int]:
        """Remove the part that Periplus wrote, if memory says the same. Returns the text, the line where lines are missing, and their
        number.
        """
        from periplus.interop.agents.editing.markdown_block import find_block

        try:
            block = find_block(text, path)
        except PeriplusError:
            return text, 0, 0
        if block is None or block.is_edited:
            return text, 0, 0
        lines = {line for line in block.body.split("\n") if line.strip()}
        if not {_bare(line) for line in lines} <= self._memory():
            return text, 0, 0
        return (
            f"{text[: block.start]}{_REPEATED}{text[block.end :]}",
            text.count("\n", 0, block.start) + 1,
            text.count("\n", block.start, block.end),
        )

    def _import(self, path: str, target: str, now: _Pass, depth: int) -> None:
        now.imports += 1
        if now.imports > IMPORTS_MAX or depth >= IMPORT_DEPTH_MAX:
            return
        to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if target.startswith(("/", "~")) or to.startswith("../") or not to.lower().endswith(_TEXTS):
            return  # outside of the project, or not text: the line is shown and not followed
        self._look(to, now, depth + 1)


@dataclass(frozen=True, slots=True)
class _Read:
    """A file as it was read. ``mark`` identifies the content; with a ``remark`` nothing of it is shown. ``more`` bytes were not read."""

    mark: str
    text: str = ""
    remark: str = ""
    target: str = ""
    more: int = 0


def _imports(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(match.rstrip(".,;:") for match in _IMPORT.findall(text)))[:IMPORTS_MAX]


def _cut(path: str, text: str, room: int, more: int, shift: tuple[int, int]) -> tuple[str, list[str]]:
    """Cut the text to ``room`` in whole lines, with long lines cut, and say what was left out and which call shows it."""
    kept: list[str] = []
    long = 0
    at = 0
    lines = text.split("\n")
    for line in lines:
        short = line
        if len(line) > LINE_CHARACTERS_MAX:
            long += 1
            short = f"{line[:LINE_CHARACTERS_MAX]}…"
        if at + len(short) + 1 > room:
            if not kept and room > _ROOM_LEAST:
                kept.append(f"{line[: room - 1]}…")
                long += len(line) <= LINE_CHARACTERS_MAX
            break
        at += len(short) + 1
        kept.append(short)
    remarks = [f"{_counted(long, 'long line')} cut; read(path={plain_name(path)!r})"] if long else []
    if len(kept) < len(lines) or more:
        gone = sum(len(line) + 1 for line in lines[len(kept) :]) + more
        first = len(kept) + 1 + (shift[1] if shift[0] and len(kept) >= shift[0] else 0)
        remarks.append(left_out(gone, "characters", f"read(path={plain_name(path)!r}, start={first})"))
    return "\n".join(kept), remarks


def _size(one: InstructionFile) -> int:
    """Estimate the characters that a file takes: its name stands before the fence and in it."""
    return len(one.text) + 2 * len(one.path) + len(one.remark)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _bare(line: str) -> str:
    """A line of Periplus' own part without the remark on stale files."""
    return line.rstrip("\r").replace(", perhaps stale]", "]")


def memory_lines(text: str) -> frozenset[str]:
    """The lines that Periplus' own part may have, from everything that memory says."""
    return frozenset(_bare(line) for line in text.split("\n"))
