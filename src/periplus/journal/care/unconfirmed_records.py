"""Records that may not have reached the disk: a sync of their segment failed, and no later write has settled it.

Readers do not get them, because the next power cut may remove them; their writers were told that the outcome is unknown. The
next write by any process writes them once more (``SegmentWriter.leave_poisoned``).
"""

from __future__ import annotations

__all__ = ["list_unconfirmed"]

import os
from typing import TYPE_CHECKING

from periplus.base.errors import FormatError
from periplus.base.files import read_plain
from periplus.journal.records.segment import decode_header, scan
from periplus.journal.storage.group_commit import is_of_earlier_start
from periplus.journal.storage.lineage import SEGMENT_READ_MAX
from periplus.journal.storage.segment_writer import POISON_SUFFIX

if TYPE_CHECKING:
    from periplus.journal.records.record import Record
    from periplus.journal.storage.stored_journal import StoredJournal


def list_unconfirmed(journal: StoredJournal) -> list[Record]:
    """Return the unconfirmed records at the end of our own lineage, as it was last read. Errors are reported elsewhere.

    Empty if the machine was booted since: whatever is there was then read from the disk.
    """
    segment = journal.end().segment
    path = journal.reader(journal.lineage).path_of(segment) if segment else ""
    if not path or not os.path.lexists(path + POISON_SUFFIX):
        return []
    if is_of_earlier_start(journal.layout.flush, journal.lineage, journal.files):
        return []
    durable, last = journal.durable_end(), journal.end().next_seq - 1
    try:
        data = read_plain(path, SEGMENT_READ_MAX)
        start = decode_header(data)[1]
    except (OSError, FormatError):
        return []
    found = scan(data[start:], base=start, next_seq=segment, salvage=True).entries
    return [entry.record for entry in found if durable < entry.record.seq <= last]
