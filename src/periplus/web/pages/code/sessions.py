"""Steps of sessions that changed a file."""

from __future__ import annotations

__all__ = ["changing_step"]

from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError

if TYPE_CHECKING:
    from periplus.project import Project

TRAIL_BYTES_MAX: Final = 2 << 20
_PATHS_OF: Final = {"FILE_WRITE": 1, "FILE_EDIT": 1, "FILE_DELETE": 1, "FILE_MOVE": 2}
"""Operations that change files, with the number of operands, from the first, that are paths."""


def changing_step(project: Project, trail: str, path: str) -> int | None:
    """Return the number of the first step of a session that changed the file ``path`` of the project; -1 where none did. None where that is not
    known: the trail is larger than TRAIL_BYTES_MAX, or cannot be read.
    """
    from periplus.interop.exports.trail_source import ExportSource
    from periplus.trail import open_parts

    try:
        file = project.trail_bytes(trail)
        if len(file.data) > TRAIL_BYTES_MAX:
            return None
        readers = open_parts(file.data)
        source = ExportSource(file.name, file.data, readers, readers[0].digest, project.journal.objects.get)
        for moment in source.moments():
            for number in range(_PATHS_OF.get(moment.op, 0)):
                if f"/{source.path(moment.operand(number))}".endswith(f"/{path}"):
                    return moment.number
    except PeriplusError:
        return None  # the page of the session says what is wrong with it
    return -1
