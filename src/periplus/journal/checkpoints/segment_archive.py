"""Move segments that two checkpoints made redundant to ``archive/``; they keep their names and are never deleted.

Readers look for a segment in its old place first and then in the archive, so positions in a moved segment stay valid and no
reader waits. Each move is one rename; an interruption may leave some segments moved and others not.
"""

from __future__ import annotations

__all__ = ["move_to_archive"]

import os
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from periplus.base.errors import environment_failure
from periplus.journal.storage.lineage import ARCHIVE_FOLDER

if TYPE_CHECKING:
    from periplus.journal.checkpoints.checkpoint_files import UsableCheckpoint
    from periplus.journal.storage.stored_journal import StoredJournal


def move_to_archive(journal: StoredJournal, usable: Iterable[UsableCheckpoint]) -> list[int]:
    """Move segments of our lineage that lie wholly before the second-newest checkpoint in ``usable``.

    The newest ``live_segments`` of the settings stay in any case. Return the first seqs of the moved segments.
    """
    before = next(islice(usable, 1, None), None)
    position = before.position(journal.lineage) if before is not None else None
    if position is None:
        return []
    reader = journal.reader(journal.lineage)
    segments = reader.segments()
    kept = segments[-max(journal.settings.journal.live_segments, 1) :]
    moved: list[int] = []
    archive = os.path.join(reader.folder, ARCHIVE_FOLDER)
    try:
        for first in segments:
            target = reader.archived_path(first)
            path = os.path.join(reader.folder, os.path.basename(target))
            if first >= position.segment or first in kept or not os.path.lexists(path) or os.path.lexists(target):
                continue  # also if both exist, which no writer produces; doctor reports it
            if not moved:
                journal.files.make_folder(archive)
                journal.files.sync_folder(reader.folder)
            journal.files.replace(path, target)
            moved.append(first)
        if moved:
            journal.files.sync_folder(archive)
            journal.files.sync_folder(reader.folder)
    except OSError as error:
        raise environment_failure(error, "move segments to", archive) from error
    return moved
