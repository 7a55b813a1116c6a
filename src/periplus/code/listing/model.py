"""Values of a listing: which files a folder has, and by what a changed one is recognised.

A listing has two parts, because they cost differently. ``base`` is what git's index says about files that may be
unchanged; it is read only where the index changed. ``dirty`` is what had to be looked at on the disk, in every
listing. ``files_of`` joins them.
"""

from __future__ import annotations

__all__ = ["FILES_MAX", "FileState", "IndexState", "Listing", "Stamp", "blob_id", "files_of", "is_settled"]

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from periplus.base.named_tuple import NamedTuple

FILES_MAX: Final = 100_000
SETTLED_NS: Final = 2_000_000_000  # some file systems keep times in steps of two seconds

Stamp: TypeAlias = tuple[int, int, int, int]  # size in bytes, mtime and ctime in ns, inode


class FileState(NamedTuple):
    """A regular file. Its ``path`` is relative to the root, joined by "/", with bytes that are no UTF-8 as by surrogateescape.

    ``oid`` is the id of git's blob for a tracked file without changes, empty otherwise; where git converts line ends or
    applies filters, the bytes on the disk differ from that blob. ``stamp`` is set where ``oid`` is not.
    """

    path: str
    oid: str
    stamp: Stamp | None


class IndexState(NamedTuple):
    """State of one index of git as of a listing, to be given to the next listing.

    ``prefix`` is empty, or the path of a submodule with "/" at its end. ``watched`` are paths that git does not compare
    or that have several versions (marked as skip-worktree or assume-unchanged, unmerged): they are never in ``base``.
    ``modules`` are the submodules, ``file_count`` of the files in ``base``, ``last`` the last one of a part that was cut.
    """

    prefix: str
    stamp: tuple[int, ...]
    watched: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    file_count: int = 0
    last: str = ""


class Listing(NamedTuple):
    """The files of a folder. ``base`` is None where ``indexes`` equal the ones given: it is the same as then.

    ``dirty`` has every file that is not as in ``base`` or not in it; None stands for one that is not a regular file any
    more. ``why`` says in words what is missing in the listing, or why git was not asked; ``left_out`` counts files
    beyond FILES_MAX. ``algorithm`` is that of the ids.
    """

    kind: Literal["git", "folder"]
    indexes: tuple[IndexState, ...]
    base: Mapping[str, str] | None
    dirty: Mapping[str, Stamp | None]
    algorithm: Literal["sha1", "sha256"] = "sha1"
    left_out: int = 0
    why: str = ""


def files_of(base: Mapping[str, str], dirty: Mapping[str, Stamp | None]) -> Iterator[FileState]:
    """Return the files that a listing stands for, first those of ``base``."""
    for path, oid in base.items():
        if path not in dirty:
            yield FileState(path, oid, None)
    for path, stamp in dirty.items():
        if stamp is not None:
            yield FileState(path, "", stamp)


def is_settled(stamp: Stamp, read_ns: int) -> bool:
    """Return whether a file with this stamp, whose contents were read at ``read_ns``, would have another one after a later
    change. Where it would not, the contents have to be read again.
    """
    return stamp[2] + SETTLED_NS < read_ns  # not the mtime, which programs set as they like


def blob_id(data: bytes, algorithm: Literal["sha1", "sha256"] = "sha1") -> str:
    """Return the id of git's blob with the contents ``data``."""
    import hashlib

    held = hashlib.new(algorithm, b"blob %d\0" % len(data), usedforsecurity=False)
    held.update(data)
    return held.hexdigest()
