"""Entity files: rendering, reading with a stamp, comparison of stamps."""

from __future__ import annotations

__all__ = [
    "FILE_BYTES_MAX",
    "PROJECTION_VERSION",
    "has_file",
    "is_same_text",
    "is_settled",
    "read_stamped",
    "render_entity",
    "stamp_from",
    "stamp_of",
]

import errno
import os
import stat
import struct
from collections.abc import Mapping
from typing import Final

from periplus.base.encoding.canonical import JSONValue
from periplus.base.ids import is_id
from periplus.journal.state.entity import ConflictValue, Entity, EntityType

PROJECTION_VERSION: Final = 1
FILE_BYTES_MAX: Final = 1 << 26
TICK_NS: Final = 20_000_000
_STAMP: Final = struct.Struct("<qqqQ")


def has_file(types: Mapping[str, EntityType], item_type: str, item_id: str) -> bool:
    """Return True if the entity has its own file: its type is projected, and its id is valid, not a path that leads elsewhere."""
    return item_type in types and types[item_type].is_projected and is_id(item_id)


def render_entity(entity: Entity) -> bytes:
    """Return the entity's file: indented with sorted keys, so that git shows a change as the changed lines."""
    import orjson

    document: dict[str, JSONValue] = {
        "format": PROJECTION_VERSION,
        "id": entity.item_id,
        "type": entity.item_type,
        "version": entity.version,
        "parents": list(entity.parents),
        "heads": list(entity.heads),
        "entity": entity.value,
    }
    if entity.conflicts:
        document["conflicts"] = [
            {"path": list(conflict.path), "values": [_rival(rival) for rival in conflict.values]}
            for conflict in entity.conflicts
        ]
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _rival(rival: ConflictValue) -> dict[str, JSONValue]:
    import orjson

    shown: dict[str, JSONValue] = {"version": rival.version, "writer": rival.writer, "ts": rival.ts}
    return {**shown, "value": orjson.loads(rival.value)} if rival.value else shown


def is_same_text(found: bytes, wanted: bytes) -> bool:
    """Return True if a file equals what we would write, except for line ends, which git may convert (``core.autocrlf``).

    If ours were restored, every file would look changed to git, and each pull would be refused.
    """
    return found == wanted or found.replace(b"\r\n", b"\n") == wanted


def read_stamped(path: str) -> tuple[bytes, bytes]:
    """Return ``(bytes, stamp)`` of a file that is not a link. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "Not a plain file", path)
        data = os.read(fd, min(before.st_size + 1, FILE_BYTES_MAX))
        while data and len(data) < FILE_BYTES_MAX and (more := os.read(fd, 1 << 16)):
            data += more
        return data, stamp_from(before)
    finally:
        os.close(fd)


def stamp_of(path: str) -> bytes:
    """Return the stamp of a file, which changes when the file does, without reading it; empty if there is none."""
    try:
        return stamp_from(os.stat(path, follow_symlinks=False))
    except OSError:
        return b""


def stamp_from(status: os.stat_result) -> bytes:
    # Programs can set the modification time back, but not the change time.
    return _STAMP.pack(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def is_settled(stamp: bytes, now_ns: int) -> bool:
    """Return True if a file with this stamp, read now, cannot change without its stamp changing.

    File systems count time in ticks: two changes within one tick have the same times.
    """
    mtime_ns, ctime_ns, _, _ = _STAMP.unpack(stamp)
    newest_ns: int = max(mtime_ns, ctime_ns)
    return now_ns - newest_ns > TICK_NS
