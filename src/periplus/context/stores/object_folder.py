"""The objects of contexts in a folder: written without a sync until they must be durable, parked before they are
removed.

Rules: objects written since the last ``settle`` are synced by the next one; after a failed sync the bytes are written
again, because another sync would prove nothing about them; a parked object can still be read, and reading it moves it
back.
"""

from __future__ import annotations

__all__ = ["SYNC_EACH_MAX", "FolderObjects"]

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from periplus.base.encoding import hashing
from periplus.base.errors import NotFoundError, RedactedError, environment_failure
from periplus.base.files import Files
from periplus.objects.store import ObjectStore

SYNC_EACH_MAX: Final = 64
_PARKED_TRIES: Final = 64


class FolderObjects:
    """Objects in ``store``, below ``root``. ``parked`` is the store into which gc moves unreachable objects; None
    without gc. An object for which ``is_redacted`` is true is not accepted from others, nor moved back.
    """

    def __init__(
        self, store: ObjectStore, root: str, files: Files, parked: ObjectStore | None = None,
        is_redacted: Callable[[bytes], bool] = lambda _digest: False,
    ) -> None:  # fmt: skip
        self._is_redacted = is_redacted
        self.store = store
        self.parked = parked
        self._root = root
        self._files = files
        self._unsettled: set[bytes] = set()
        self._doubtful: set[bytes] = set()

    def get(self, digest: bytes) -> bytes:
        for tries_left in reversed(range(_PARKED_TRIES)):
            try:
                return self.store.get(digest)
            except NotFoundError:
                if not tries_left or not self.has(digest):
                    raise
        raise AssertionError  # the last attempt returned or raised

    def has(self, digest: bytes) -> bool:
        """Return whether the object is here or was parked, from where it is moved back. It counts even if gc parks it
        again at once.
        """
        # Another process may move the object back between the first two look-ups: hence a third.
        return self.store.has(digest) or self.restore(digest) or self.store.has(digest)

    def digests_like(self, prefix: str) -> list[bytes]:
        """Return the digests of the objects that begin with ``prefix`` (two hexadecimal digits or more), parked ones
        included, ascending.
        """
        found = {
            digest for store in (self.store, self.parked) if store is not None for digest in store.digests_like(prefix)
        }
        return sorted(found)

    def put(self, data: bytes) -> bytes:
        digest = self.store.put(data, durable=False)
        self._unsettled.add(digest)
        return digest

    def take(self, data: bytes) -> bytes:
        """Put an object of another store. Raises RedactedError for one that was redacted here."""
        digest = hashing.sha256(data).digest()
        with self.store.keeping():
            if self._is_redacted(digest):
                raise RedactedError(
                    f"object {digest.hex()[:16]} would bring back what was redacted here", safe="No ref was moved.",
                    mend="Redact it at its source, too.",
                )  # fmt: skip
            return self.put(data)

    def settle(self) -> None:
        if not self._unsettled and not self._doubtful:
            return
        rewritten, unsettled = self._doubtful, self._unsettled - self._doubtful
        self._doubtful, self._unsettled = rewritten | unsettled, set()
        for digest in sorted(rewritten):
            self._again_if_parked(partial(self.store.rewrite, digest), [digest])
        if len(unsettled) <= SYNC_EACH_MAX or not self._sync_everything():
            digests = sorted(unsettled)
            self._again_if_parked(partial(self.store.settle, digests), digests)
        self._doubtful = set()

    def _again_if_parked(self, work: Callable[[], None], digests: Iterable[bytes]) -> None:
        """Run ``work`` on present objects, again if gc parked one of them since it was written."""
        for tries_left in reversed(range(_PARKED_TRIES)):
            try:
                work()
            except NotFoundError:
                if not tries_left or not all(map(self.has, digests)):
                    raise
            else:
                return

    def park(self, digest: bytes, now_ms: int) -> bool:
        """Park the object, from where it can be restored. False if it is not here."""
        assert self.parked is not None
        paths = self.store.paths_of(digest)
        for path in paths:
            try:
                self._files.touch(
                    path, now_ms
                )  # before the move, so that an interruption in between leaves a young object
                self._move(path, self.store, self.parked)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise environment_failure(error, "park", path) from error
        return bool(paths)

    def restore(self, digest: bytes) -> bool:
        """Move a parked object back; False if there is none. Also True if gc parked it again since."""
        if self.parked is None:
            return False
        paths = self.parked.paths_of(digest)
        if not paths:
            return False
        with self.store.keeping():
            if self._is_redacted(digest):
                return False
            moved = False
            for path in paths:
                try:
                    self._move(path, self.parked, self.store)
                    moved = True
                except FileNotFoundError:
                    continue  # another process was faster
                except OSError as error:
                    raise environment_failure(error, "restore", path) from error
            return moved or self.store.has(digest)

    def _move(self, path: str, source: ObjectStore, target: ObjectStore) -> None:
        place = os.path.join(target.root, os.path.relpath(path, source.root))
        folder = os.path.dirname(place)
        if not os.path.isdir(folder):
            self._files.make_folder(folder)
            self._files.sync_folder(target.root)
            self._files.sync_folder(os.path.dirname(os.path.abspath(target.root)))
        self._files.replace(path, place)
        self._files.sync_folder(folder)
        self._files.sync_folder(os.path.dirname(path))

    def _sync_everything(self) -> bool:
        try:
            return self._files.sync_everything(self._root)
        except OSError as error:
            raise environment_failure(error, "sync", self._root) from error
