"""Notes of failures that could not be reported at once, in one bounded file; ``doctor`` shows them.

A note is a line of JSON with a checksum (CRC-32 of its texts). Notes inform people and nothing depends on them: a
lost note or an unwritable file does no harm. A changed note is shown as damaged.
"""

from __future__ import annotations

__all__ = ["NOTES_BYTES_MAX", "Note", "leave_note", "read_notes"]

import json
import os
from binascii import crc32
from typing import Any, Final

from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple

NOTES_BYTES_MAX: Final = 64 << 10
_WHAT_CHARACTERS_MAX: Final = 300
_SHOWN_MAX: Final = 100
_NOT_SOUND: Final = "a damaged note (its checksum does not match, or the disk was full): "


class Note(NamedTuple):
    """``at`` is a time in RFC 3339, ``source`` the part of the program, ``folder`` its working folder."""

    at: str
    source: str
    folder: str
    what: str


def leave_note(path: str, note: Note, files: Files | None = None) -> bool:
    """Add a note; return False on failure. A full file loses its older half."""
    files = files or Files()
    short = note._replace(
        what=" ".join(note.what.split())[:_WHAT_CHARACTERS_MAX], folder=note.folder[-_WHAT_CHARACTERS_MAX:]
    )
    line = json.dumps(short._asdict() | {"sum": _sum(short)}).encode() + b"\n"
    try:
        files.make_folder(os.path.dirname(path), 0o700)
        fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            is_full = os.fstat(fd).st_size + len(line) > NOTES_BYTES_MAX
            if not is_full:
                files.write(fd, line)
        finally:
            files.close(fd)
        if is_full:
            kept = _read(path)[-NOTES_BYTES_MAX // 2 :].partition(b"\n")[2]
            write_atomic(files, path, kept + line, durable=False, mode=0o600)
    except Exception:  # noqa: BLE001 - no other way of reporting is left
        return False
    return True


def read_notes(path: str) -> list[Note]:
    """Return the notes, oldest first; none where the file is missing."""
    try:
        data = _read(path) if path else b""
    except OSError:
        return []
    found = []
    for line in data.splitlines():
        note = _note_of(line)
        found.append(note or Note("", "note", "", _NOT_SOUND + line.decode("ascii", "replace")[:_SHOWN_MAX]))
    return found


def _note_of(line: bytes) -> Note | None:
    try:
        value: Any = json.loads(line)
        note = Note(*(str(value[name]) for name in Note._fields))
        is_sound = len(value) == len(Note._fields) or value["sum"] == _sum(note)  # an earlier version wrote no checksum
    except (ValueError, KeyError, TypeError):
        return None
    return note if is_sound else None


def _sum(note: Note) -> str:
    return f"{crc32(json.dumps(note).encode()):08x}"


def _read(path: str) -> bytes:
    return read_plain(path, 2 * NOTES_BYTES_MAX)
