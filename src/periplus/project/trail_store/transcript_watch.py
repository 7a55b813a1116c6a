"""Follow the files of running sessions: each is imported again when it changed.

A trail's secret comes from the digest of its whole source, and every commitment in it from the secret; so a session
that grew by a line has a new trail, whatever was known of the old one, and a file is read from its beginning each
time. It stays cheap by being done seldom: only the signature of a file is compared (with those of the files beside it
that belong to the same session), it is left alone until it has been still for a moment, and then until ten times as
long has passed as its last import took. No position in a file is kept between runs, so none can be wrong. See
docs/decisions/0043-transcript-import.md.
"""

from __future__ import annotations

__all__ = ["INTERVAL_MAX_S", "INTERVAL_MIN_S", "FollowedFile", "follow_files"]

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from periplus.base.errors import PeriplusError, UsageError
from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from periplus.project.trail_store.cards import ImportedTrail

INTERVAL_MIN_S: Final = 0.1
INTERVAL_MAX_S: Final = 1.0
_GROWTH: Final = 1.25
_STILL_S: Final = 0.3  # a writer that pauses for so long has written its record
_STILL_MAX_S: Final = 5.0  # a writer that never pauses is not waited for
_SHARE: Final = 10  # an import is repeated only after so many times its duration
_REST_MAX_S: Final = 300.0
_FIND_S: Final = 5.0
_BESIDE_MAX: Final = 2000
_BESIDE_DEPTH: Final = 2
_Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]


class FollowedFile(NamedTuple):
    """The result of importing a file once more: its trails, or its error."""

    path: str
    trails: list[ImportedTrail]
    trouble: PeriplusError | None


class _Watched:
    """A file: its signatures at the last import and the last look, and the time of the next import."""

    __slots__ = ("changed_at", "imported", "rest_until", "seen", "since", "trouble")

    def __init__(self) -> None:
        self.imported: _Signature | None = None
        self.seen: _Signature | None = None
        self.changed_at = 0.0
        self.since = 0.0  # time of the first change that is not imported yet
        self.rest_until = 0.0
        self.trouble = ""


def follow_files(
    find: Callable[[], Sequence[str]],
    take: Callable[[str], list[ImportedTrail]],
    *,
    wait: Callable[[float], bool],
    timeout_s: float | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[FollowedFile]:
    """Yield each file that ``find`` names with the result of ``take``: at once, and again after each change. ``find``
    is asked every few seconds, so that new sessions are followed, too.

    ``wait`` sleeps that many seconds and returns True to end (``threading.Event().wait`` is one); after ``timeout_s``
    the iteration ends, too. A file that cannot be read is reported once and read again when it changes; errors of the
    store are raised.
    """
    begun = now()
    watched: dict[str, _Watched] = {}
    find_at = begun
    interval = INTERVAL_MIN_S
    while True:
        if now() >= find_at:
            for path in find():
                watched.setdefault(path, _Watched())
            find_at = now() + _FIND_S
        is_busy = False
        for path, file in list(watched.items()):
            is_due, is_pending = _look(path, file, now())
            is_busy |= is_pending
            if not is_due:
                continue
            is_busy = True
            followed = _import(path, file, take, now)
            if followed is not None:
                yield followed
        interval = INTERVAL_MIN_S if is_busy else min(interval * _GROWTH, INTERVAL_MAX_S)
        left = interval if timeout_s is None else min(interval, begun + timeout_s - now())
        if left <= 0 or wait(left):
            return


def _look(path: str, file: _Watched, at: float) -> tuple[bool, bool]:
    """Return whether the file is to be imported now, and whether it will be soon."""
    signature = _signature(path)
    if signature == file.imported:
        file.seen = signature
        return False, False
    if file.imported is None and file.seen is None:
        file.seen = signature
        return True, False  # the first time
    if signature != file.seen:
        if file.seen == file.imported:
            file.since = at
        file.seen = signature
        file.changed_at = at
    is_still = at - file.changed_at >= _STILL_S or at - file.since >= _STILL_MAX_S
    return is_still and at >= file.rest_until, True


def _import(
    path: str, file: _Watched, take: Callable[[str], list[ImportedTrail]], now: Callable[[], float]
) -> FollowedFile | None:
    """Return what is new; None where it is the same as before. A write meanwhile changes the signature: nothing is
    lost.
    """
    is_first = file.imported is None
    file.imported = file.seen
    begun = now()
    trouble: PeriplusError | None = None
    trails: list[ImportedTrail] = []
    try:
        trails = take(path)
    except UsageError as error:  # the file, not the store
        trouble = error
    except PeriplusError as error:
        if os.access(path, os.R_OK):
            raise
        trouble = error
    file.rest_until = now() + min(_SHARE * (now() - begun), _REST_MAX_S)
    told, file.trouble = file.trouble, str(trouble) if trouble is not None else ""
    if trouble is not None:
        return FollowedFile(path, [], trouble) if file.trouble != told else None
    return FollowedFile(path, trails, None) if is_first or any(trail.changed for trail in trails) else None


def _signature(path: str) -> _Signature:
    """Return size, time and inode of the file, of a database's log, and of the files of the same session beside it."""
    found = [_placed(path), _placed(path + "-wal")]
    stem = os.path.splitext(path)[0]
    budget = [_BESIDE_MAX]
    for folder in (stem, os.path.join(os.path.dirname(path), "events")):
        found += _beside(folder, _BESIDE_DEPTH, budget)
    return tuple(found)


def _beside(folder: str, depth: int, budget: list[int]) -> Iterator[tuple[str, int, int, int]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        budget[0] -= 1
        if budget[0] < 0:
            return
        if entry.is_dir(follow_symlinks=False):
            if depth > 0:
                yield from _beside(entry.path, depth - 1, budget)
        else:
            yield _placed(entry.path)


def _placed(path: str) -> tuple[str, int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (path, 0, 0, 0)
    return (path, status.st_ino, status.st_size, status.st_mtime_ns)
