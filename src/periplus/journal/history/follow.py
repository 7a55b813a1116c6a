"""Following a journal: new records of all processes as they arrive, with little load on disk and processor.

A look at the journal costs a transaction; finding out that nothing changed costs a stat or two for each lineage. So ``follow`` compares the
*signature* of the journal's files (the lineages, size and inode of each newest segment, the durable mark) and looks only when it changed:
every 50 ms while records arrive, and gradually less often, down to twice a second, while none do. See
docs/decisions/0011-long-lived-handles.md.

When records become durable the signature may stay the same. While records wait for that, every turn looks.
"""

from __future__ import annotations

__all__ = ["INTERVAL_MAX_S", "INTERVAL_MIN_S", "follow", "store_signature"]

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.base.errors import EnvironmentFailure
from periplus.journal.history.log import News, news
from periplus.journal.history.record_filter import RecordFilter
from periplus.journal.records.segment import SEGMENT_SUFFIX
from periplus.journal.storage.layout import Layout

if TYPE_CHECKING:
    from periplus.journal.journal import Journal

INTERVAL_MIN_S: Final = 0.05
INTERVAL_MAX_S: Final = 0.5
_GROWTH: Final = 1.25
_FAILURES_MAX: Final = 5
_RECORDS_MAX: Final = 1_000
_Signature: TypeAlias = "list[tuple[str, int, int, int]]"


def follow(
    journal: Journal,
    seen: Mapping[str, int],
    wanted: RecordFilter | None = None,
    *,
    wait: Callable[[float], bool],
    lineages: Sequence[str] | None = None,
    timeout_s: float | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[News]:
    """Yield the records after ``seen`` whenever there are some; a lineage that is not in ``seen`` starts at its first record.

    ``wait`` sleeps for a number of seconds and returns whether to end (``threading.Event().wait`` does); after ``timeout_s`` the iteration
    ends too. Without ``lineages`` all are followed, including later ones. Records of one mutation may come in two turns. Raises DamageError
    once the journal is found damaged, after its sound records; EnvironmentFailure if the files cannot be read several times in a row.
    """
    deadline = None if timeout_s is None else now() + timeout_s
    last: _Signature | None = None
    is_waiting = False
    interval, failures = INTERVAL_MIN_S, 0
    while True:
        more = False
        try:
            signature = _signature(journal, lineages)
            if signature != last or is_waiting:
                interval = INTERVAL_MIN_S if signature != last else interval
                last = signature
                followed = journal.lineages() if lineages is None else lineages
                found = news(journal, seen, wanted or RecordFilter(), lineages=followed, limit=_RECORDS_MAX)
                is_waiting = any(journal.end(one).next_seq - 1 > found.seen.get(one, 0) for one in followed)
                has_moved, more, seen = found.seen != dict(seen), found.more, found.seen
                if has_moved:
                    yield found
                if journal.damage is not None and not more:
                    raise journal.damage
            failures = 0
        except EnvironmentFailure:  # a file may have been moved between listing and reading
            failures += 1
            last = None
            if failures >= _FAILURES_MAX:
                raise
        if more:
            continue
        left = INTERVAL_MAX_S if deadline is None else deadline - now()
        journal.rest()
        if left <= 0 or wait(min(interval, left)):
            return
        interval = min(interval * _GROWTH, INTERVAL_MAX_S)


def store_signature(root: str) -> object:
    """Return a value that changes when a record of the store at ``root`` is written or becomes durable. It opens no journal; a store
    that cannot be read has a value, too.
    """
    layout = Layout(root)
    try:
        with os.scandir(layout.journal) as entries:
            lineages = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        return error.errno
    return _signature_of(layout, [name for name in lineages if name.startswith("lin_")])


def _signature(journal: Journal, lineages: Sequence[str] | None) -> _Signature:
    return _signature_of(journal.layout, journal.lineages() if lineages is None else lineages)


def _signature_of(layout: Layout, lineages: Sequence[str]) -> _Signature:
    found = [_placed(layout.durable)]
    for lineage in lineages:
        folder = layout.lineage_folder(lineage)
        try:
            newest = max((name for name in os.listdir(folder) if name.endswith(SEGMENT_SUFFIX)), default="")
        except OSError:
            newest = ""  # not there yet, or the look that follows reports the error
        found.append(_placed(os.path.join(folder, newest)))
    return found


def _placed(path: str) -> tuple[str, int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (path, 0, 0, 0)
    return (path, status.st_ino, status.st_size, status.st_mtime_ns)
