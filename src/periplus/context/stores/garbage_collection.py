"""Garbage collection: contexts that no ref reaches are parked first, and removed later and only on request.

Theory of operation
-------------------
Kept is everything reachable from a ref, everything that others need (journal records, trails: digests that are passed in), and
every young object. All other objects that are recognisably of contexts (records and framed pages; nothing else is ever touched)
move to a folder beside the objects: they are *parked*. A read of a parked object, by any path, returns it and moves it back, so
parking an object that a commit is about to use costs only two renames:

* a commit that uses an old unreached object while it is parked finds it there and moves it back;
* a ref that is set between the reading of the refs and the parking is seen by a second reading, after which its objects are moved
  back;
* pruning removes objects that have been parked for at least PRUNE_AGE_MIN_MS, which is longer than any process believes that a
  context exists without a check (``library.KNOWN_FOR_MS``), and reads the refs once more before.

A ref to a context with a missing or damaged object makes the collection fail: what lies below the hole would look
unreachable.
"""

from __future__ import annotations

__all__ = ["GRACE_MS", "PRUNE_AGE_MIN_MS", "PRUNE_AGE_MS", "GcReport", "collect", "reached_from"]

import os
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from periplus.base.clock import Clock
from periplus.base.errors import DamageError, FormatError, NotFoundError, UsageError, environment_failure
from periplus.context.records.record import children_of, is_of_contexts
from periplus.context.stores.library import KNOWN_FOR_MS
from periplus.context.stores.object_folder import FolderObjects
from periplus.context.stores.refs import RefTable
from periplus.context.stores.snapshots import FolderCache
from periplus.objects.store import ObjectStore

GRACE_MS: Final = 24 * 3_600_000
PRUNE_AGE_MS: Final = 30 * 24 * 3_600_000
PRUNE_AGE_MIN_MS: Final = 24 * 3_600_000
assert PRUNE_AGE_MIN_MS > KNOWN_FOR_MS


class GcReport(NamedTuple):
    """The result of a collection: numbers of objects, and bytes on disk."""

    reached: int
    young: int
    parked: int
    parked_bytes: int
    restored: int
    pruned: int
    pruned_bytes: int


def _nothing() -> Iterable[bytes]:
    return ()


def collect(
    objects: FolderObjects,
    refs: RefTable,
    cache: FolderCache | None,
    clock: Clock,
    *,
    needed: Callable[[], Iterable[bytes]] = _nothing,
    grace_ms: int = GRACE_MS,
    prune_after_ms: int | None = None,
) -> GcReport:
    """Park objects that nothing reaches and that are older than ``grace_ms``; prune those parked for
    ``prune_after_ms``.

    ``needed`` names what others need, and is called twice. The caller must run only one collection at a time. Raises
    UsageError for an age that is too short, DamageError if an object below a ref is missing; nothing is parked then.
    """
    if grace_ms < 0:
        raise UsageError("grace: an age cannot be negative")
    if prune_after_ms is not None and prune_after_ms < PRUNE_AGE_MIN_MS:
        raise UsageError(f"prune: objects parked for less than {PRUNE_AGE_MIN_MS // 3_600_000} hours are kept")
    assert objects.parked is not None
    now_ms = clock.now_ms()
    kept = _kept(objects, refs, needed)
    reached = len(kept)
    old, young = _by_age(objects.store, kept, now_ms - grace_ms)
    kept |= reached_from(objects, young, is_strict=False)
    parked = [digest for digest in old if digest not in kept]
    parked_bytes = 0
    for digest in parked:
        size = _size(objects.store, digest)
        if objects.park(digest, now_ms):
            parked_bytes += size
            if cache is not None:
                cache.drop(digest)
    # The walk moves parked objects back.
    before = sum(1 for _ in objects.parked.digests())
    kept = _kept(objects, refs, needed)
    restored = before - sum(1 for _ in objects.parked.digests())
    pruned, pruned_bytes = 0, 0
    if prune_after_ms is not None:
        pruned, pruned_bytes = _prune(objects.parked, kept, now_ms - prune_after_ms)
    if cache is not None:
        cache.sweep()
    return GcReport(reached, len(young), len(parked), parked_bytes, restored, pruned, pruned_bytes)


def _kept(objects: FolderObjects, refs: RefTable, needed: Callable[[], Iterable[bytes]]) -> set[bytes]:
    kept = reached_from(objects, refs.all().values())
    return kept | reached_from(
        objects, (digest for digest in needed() if objects.has(digest))
    )  # missing objects of others are not an error here


def reached_from(objects: FolderObjects, roots: Iterable[bytes], *, is_strict: bool = True) -> set[bytes]:
    """Return ``roots`` and all objects that they name directly or indirectly, of contexts or not.

    Raises DamageError for a missing object, unless not ``is_strict``.
    """
    reached: set[bytes] = set()
    waiting = [(digest, True) for digest in roots]
    while waiting:
        digest, is_root = waiting.pop()
        if digest in reached:
            continue
        reached.add(digest)
        if is_root and objects.has(digest) and not _is_ours(objects.store, digest):
            continue  # no object of a context
        try:
            waiting += [(child, False) for child in children_of(objects.get(digest))]
        except (NotFoundError, DamageError, FormatError) as error:
            if is_strict:
                raise _hole(digest) from error
    return reached


def _hole(digest: bytes) -> DamageError:
    return DamageError(
        f"a ref stands on object {digest.hex()}, which is missing or damaged",
        safe="Nothing was removed: the objects below it would look unreachable.",
        mend="Fetch it from another clone or a backup (periplus doctor), or remove the ref.",
    )


def _by_age(store: ObjectStore, kept: set[bytes], before_ms: int) -> tuple[list[bytes], list[bytes]]:
    """Return the objects of contexts that are not ``kept``: those written before ``before_ms``, and the younger ones."""
    old: list[bytes] = []
    young: list[bytes] = []
    for digest in store.digests():
        if digest not in kept and _is_ours(store, digest):
            written_ms = _written_ms(store, digest)
            if written_ms is not None:
                (old if written_ms < before_ms else young).append(digest)
    return old, young


def _prune(parked: ObjectStore, kept: set[bytes], before_ms: int) -> tuple[int, int]:
    count = total = 0
    for digest in list(parked.digests()):
        written_ms = _written_ms(parked, digest)
        if digest not in kept and written_ms is not None and written_ms < before_ms:
            size = _size(parked, digest)
            if parked.remove(digest):
                count, total = count + 1, total + size
    return count, total


def _is_ours(store: ObjectStore, digest: bytes) -> bool:
    return is_of_contexts(store.head(digest, 8))


def _written_ms(store: ObjectStore, digest: bytes) -> int | None:
    """Return the time of the youngest file of the object; None if it is gone."""
    times = [status.st_mtime_ns // 1_000_000 for status in _statuses(store, digest)]
    return max(times, default=None)


def _size(store: ObjectStore, digest: bytes) -> int:
    return sum(status.st_size for status in _statuses(store, digest))


def _statuses(store: ObjectStore, digest: bytes) -> list[os.stat_result]:
    found = []
    for path in store.paths_of(digest):
        try:
            found.append(os.lstat(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise environment_failure(error, "look at", path) from error
    return found
