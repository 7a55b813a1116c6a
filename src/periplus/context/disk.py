"""A context store in a folder of its own, for clones without a project: objects, refs and a cache.

::

    objects/ab/cdef…    as ``periplus.objects`` keeps them
    parked/…            likewise: what gc took out of objects and prune has not yet removed
    refs/<name>         the digest that the ref stands for, as 64 hexadecimal digits and a line end; a ref appears and changes whole
    refs.lock           whoever changes a ref holds it
    cache/              derived, may be deleted at any time

In the name of a ref's file upper-case letters and whatever is neither letter, digit, ``-`` nor ``_`` stand as ``%XX``, so that no
two refs meet in one file, on file systems that mix up cases neither, and none leads elsewhere.
"""

from __future__ import annotations

__all__ = ["DiskStore", "FileRefs", "FolderObjects"]

import os
from typing import Final

from periplus.base.digests import is_digest_text
from periplus.base.errors import (
    DamageError,
    RefusedError,
    UsageError,
    environment_failure,
)
from periplus.base.files import TEMPORARY_SUFFIX, Files, read_plain, write_atomic
from periplus.base.locks import LOCK_PATIENCE_S, Lock
from periplus.context.library import ContextLibrary
from periplus.context.refs import REFS_MAX, check_ref_name, moved
from periplus.context.snapshots import FolderCache
from periplus.objects.store import ObjectStore

SYNC_EACH_MAX: Final = 64
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


class FolderObjects:
    """Objects in an ``ObjectStore``, put without a sync; ``settle`` syncs what was put since the last one."""

    def __init__(self, store: ObjectStore, root: str, files: Files) -> None:
        self._store = store
        self._root = root
        self._files = files
        self._unsettled: set[bytes] = set()
        self._doubtful: set[bytes] = set()  # after a sync that failed another says nothing about them

    @property
    def store(self) -> ObjectStore:
        return self._store

    def get(self, digest: bytes) -> bytes:
        return self._store.get(digest)

    def has(self, digest: bytes) -> bool:
        return self._store.has(digest)

    def put(self, data: bytes) -> bytes:
        digest = self._store.put(data, durable=False)
        self._unsettled.add(digest)
        return digest

    def settle(self) -> None:
        if not self._unsettled and not self._doubtful:
            return
        doubtful, self._doubtful = self._doubtful, self._doubtful | self._unsettled
        unsettled, self._unsettled = self._unsettled - doubtful, set()
        for digest in sorted(doubtful):
            self._store.rewrite(digest)
        if len(unsettled) <= SYNC_EACH_MAX or not self._sync_everything():
            self._store.settle(sorted(unsettled))
        self._doubtful = set()

    def _sync_everything(self) -> bool:
        try:
            return self._files.sync_everything(self._root)
        except OSError as error:
            raise environment_failure(error, "sync", self._root) from error


class FileRefs:
    """Refs as files in ``folder``, which the first ref makes."""

    def __init__(self, folder: str, files: Files, *, patience_s: float = LOCK_PATIENCE_S) -> None:
        self._folder = folder
        self._files = files
        self._patience_s = patience_s
        self._lock = Lock(folder + ".lock")

    def all(self) -> dict[str, bytes]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise environment_failure(error, "list", self._folder) from error
        found = {}
        for file_name in names:
            if file_name.startswith("."):
                continue  # a writer's temporary file
            name = self._name_of(file_name)
            target = self.get(name)
            if target is not None:
                found[name] = target
        return dict(sorted(found.items()))

    def get(self, name: str) -> bytes | None:
        path = self._path(name)
        try:
            data = read_plain(path, 128)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        text = data.decode("ascii", "replace")
        if not text.endswith("\n") or not is_digest_text(text[:-1]):
            raise DamageError(
                "not the digest of a context",
                path=path,
                safe="Contexts and other refs are not touched by this.",
                mend="Write the digest into it, or delete the file and set the ref again.",
            )
        return bytes.fromhex(text[:-1])

    def change(self, name: str, old: bytes | None, new: bytes | None) -> None:
        check_ref_name(name)
        path = self._path(name)
        self._make_folder()
        with self._lock.holding(self._patience_s):
            found = self.get(name)
            if found != old:
                raise moved(name, old, found)
            if new is None:
                self._remove(path)
                return
            if found is None and len(os.listdir(self._folder)) >= REFS_MAX:
                raise RefusedError(f"there are {REFS_MAX:,} refs already", safe="Nothing was changed.")
            write_atomic(self._files, path, f"{new.hex()}\n".encode())

    def sweep(self) -> None:
        """Remove what stopped writers left; nobody writes meanwhile."""
        with self._lock.holding(self._patience_s):
            for name in os.listdir(self._folder):
                if name.startswith(".") and name.endswith(TEMPORARY_SUFFIX):
                    self._remove(os.path.join(self._folder, name))

    def close(self) -> None:
        self._lock.close()

    def _make_folder(self) -> None:
        if os.path.isdir(self._folder):
            return
        try:
            self._files.make_folder(self._folder)
            self._files.sync_folder(os.path.dirname(self._folder))
        except OSError as error:
            raise environment_failure(error, "create", self._folder) from error

    def _remove(self, path: str) -> None:
        try:
            self._files.unlink(path)
            self._files.sync_folder(self._folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise environment_failure(error, "remove", path) from error

    def _path(self, name: str) -> str:
        file_name = "".join(char if char in _PLAIN else f"%{ord(char):02X}" for char in name)
        return os.path.join(self._folder, file_name)

    def _name_of(self, file_name: str) -> str:
        pieces = file_name.split("%")
        try:
            name = pieces[0] + "".join(chr(int(piece[:2], 16)) + piece[2:] for piece in pieces[1:])
            check_ref_name(name)
        except (ValueError, UsageError) as error:
            raise self._foreign(file_name) from error
        if os.path.basename(self._path(name)) != file_name:
            raise self._foreign(file_name)
        return name

    def _foreign(self, file_name: str) -> DamageError:
        return DamageError(
            "no ref has such a file",
            path=os.path.join(self._folder, file_name),
            safe="Contexts and refs are not touched by this.",
            mend="Move the file elsewhere.",
        )


class DiskStore(ContextLibrary):
    """The contexts in ``folder``, which is made by the first commit."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        files = files or Files()
        self.folder = folder
        objects = FolderObjects(ObjectStore(os.path.join(folder, "objects"), files), folder, files)
        self._file_refs = FileRefs(os.path.join(folder, "refs"), files)
        super().__init__(objects, self._file_refs, FolderCache(os.path.join(folder, "cache"), files))

    def close(self) -> None:
        super().close()
        self._file_refs.close()
