"""Following the files of sessions that are still going on: each is imported again when it changed.

A trail's secret comes of the digest of its whole source, and every commitment in it of the secret; so a session that grew
by a line has a new trail, whatever was known of the old one, and a file is read from its beginning each time. What keeps
this cheap is that it is done seldom: a file is looked at by its signature only (and those beside it that belong to the same
session), it is left alone until it has been still for a moment, and then until ten times as long has passed as its last
import took. Of how far it was read nothing is kept between runs, so nothing can be wrong about it. See docs/decisions/0043-transcript-import.md.
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
_STILL_MAX_S: Final = 5.0  # one that never pauses is not waited for
_SHARE: Final = 10  # times as long as an import took, it is not repeated
_REST_MAX_S: Final = 300.0
_FIND_S: Final = 5.0
_BESIDE_MAX: Final = 2000
_BESIDE_DEPTH: Final = 2
_Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]


class FollowedFile(NamedTuple):
    """What came of importing a file once more: its trails, or what is wrong with it."""

    path: str
    trails: list[ImportedTrail]
    trouble: PeriplusError | None


class _Watched:
    """A file: its signature as it was imported, as it was seen last, and when it may be imported again."""

    __slots__ = ("changed_at", "imported", "rest_until", "seen", "since", "trouble")

    def __init__(self) -> None:
        self.imported: _Signature | None = None
        self.seen: _Signature | None = None
        self.changed_at = 0.0
        self.since = 0.0  # when the first change came that is not imported yet
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
    """Each file that ``find`` names, with what ``take`` made of it: at once, and again after each change.

    ``find`` is asked every few seconds, so that new sessions are followed too. ``wait`` sleeps that many seconds and says
    whether to end (``threading.Event().wait`` is one); after ``timeout_s`` the iteration ends too. A file that cannot be
    read, or is none, is told once and looked at again when it changes; what is wrong with the store is raised.
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
    """Whether the file is to be imported now, and whether it will be soon."""
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
    """What is new; None where it is what was told before. What is written meanwhile changes the signature: no loss."""
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
    """The file, a database's log, and the files of the same session beside it: size, time and inode of each."""
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
