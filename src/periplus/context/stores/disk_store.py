"""A context store in a folder of its own, for clones without a project: objects, refs and a cache.

::

    objects/ab/cdef…    as ``periplus.objects`` keeps them
    parked/…            likewise: what gc took out of objects and prune has not yet removed
    refs/<name>         the digest that the ref stands for in hexadecimal digits, and its name, a line each; it appears and changes whole
    refs.lock           whoever changes a ref holds it
    cache/              derived, may be deleted at any time

In the file name of a ref, upper-case letters and everything except letters, digits, ``-`` and ``_`` are written as
``%XX``, so that no two refs share a file, even on a case-insensitive file system, and no name leads elsewhere; a name
longer than FILE_NAME_MAX characters becomes ``%%`` and the SHA-256 of the ref's name.
"""

from __future__ import annotations

__all__ = ["DiskStore", "FileRefs", "FolderObjects"]

import os
from typing import Final

from periplus.base.clock import Clock, SystemClock
from periplus.base.encoding.digests import parse_digest, sha256
from periplus.base.errors import (
    DamageError,
    RefusedError,
    UsageError,
    environment_failure,
)
from periplus.base.files import TEMPORARY_SUFFIX, Files, read_plain, write_atomic
from periplus.base.process.locks import LOCK_PATIENCE_S, Lock
from periplus.context.stores.garbage_collection import GRACE_MS, GcReport, collect
from periplus.context.stores.library import LARGE_WEIGHT, ContextLibrary
from periplus.context.stores.object_cache import HELD_BYTES_MAX
from periplus.context.stores.object_folder import FolderObjects
from periplus.context.stores.refs import REF_NAME_BYTES_MAX, REFS_MAX, check_ref_name, ref_moved_error
from periplus.context.stores.snapshots import FolderCache
from periplus.objects.store import ObjectStore

FILE_NAME_MAX: Final = 160
_REF_BYTES_MAX: Final = 64 + REF_NAME_BYTES_MAX + 8
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


class FileRefs:
    """Refs as files in ``folder``, which the first ref creates."""

    def __init__(self, folder: str, files: Files, *, patience_s: float = LOCK_PATIENCE_S) -> None:
        self._folder = folder
        self._files = files
        self._patience_s = patience_s
        self._lock = Lock(folder + ".lock")

    def all(self) -> dict[str, bytes]:
        """Return the sound refs. A damaged file does not affect others; ``damaged`` lists it, and ``get`` of that ref
        raises.
        """
        return self._listed()[0]

    def damaged(self) -> list[DamageError]:
        """Return the errors of files that are no sound refs."""
        return self._listed()[1]

    def _listed(self) -> tuple[dict[str, bytes], list[DamageError]]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return {}, []
        except OSError as error:
            raise environment_failure(error, "list", self._folder) from error
        found = {}
        damaged = []
        for file_name in sorted(names):
            if file_name.startswith("."):
                continue  # a writer's temporary file
            try:
                read = self._read(os.path.join(self._folder, file_name))
            except DamageError as error:
                damaged.append(error)
                continue
            if read is None:
                continue  # removed meanwhile
            name, target = read
            if os.path.basename(self._path(name)) != file_name:
                damaged.append(self._foreign(file_name))
                continue
            found[name] = target
        return dict(sorted(found.items())), damaged

    def get(self, name: str) -> bytes | None:
        path = self._path(name)
        read = self._read(path)
        if read is None:
            return None
        if read[0] != name:
            raise self._foreign(os.path.basename(path))
        return read[1]

    def _read(self, path: str) -> tuple[str, bytes] | None:
        """Return name and target of the ref in a file; None if there is no file."""
        try:
            data = b"" if os.path.islink(path) else read_plain(path, _REF_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        lines = data.decode("ascii", "replace").split("\n")
        if len(lines) == 3 and not lines[2]:
            try:
                return check_ref_name(lines[1]), parse_digest(lines[0])
            except UsageError:
                pass  # reported below, with the file
        raise DamageError(
            "not the digest of a context and the name of a ref, a line each",
            path=path,
            safe="Contexts and other refs are not touched by this.",
            mend="Write both into it, or delete the file and set the ref again.",
        )

    def change(self, name: str, old: bytes | None, new: bytes | None) -> None:
        check_ref_name(name)
        path = self._path(name)
        self._make_folder()
        with self._lock.holding(self._patience_s):
            found = self.get(name)
            if found != old:
                raise ref_moved_error(name, old, found)
            if new is None:
                self._remove(path)
                return
            if found is None and len(os.listdir(self._folder)) >= REFS_MAX:
                raise RefusedError(f"there are {REFS_MAX:,} refs already", safe="Nothing was changed.")
            write_atomic(self._files, path, f"{new.hex()}\n{name}\n".encode())

    def sweep(self) -> None:
        """Remove the temporary files of interrupted writers. Nobody may write meanwhile."""
        if not os.path.isdir(self._folder):
            return
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
            inner = os.path.dirname(os.path.abspath(self._folder))
            self._files.sync_folder(inner)
            self._files.sync_folder(os.path.dirname(inner))
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
        if len(file_name) > FILE_NAME_MAX:
            file_name = "%%" + sha256(name.encode()).hex()
        return os.path.join(self._folder, file_name)

    def _foreign(self, file_name: str) -> DamageError:
        return DamageError(
            "the file of another ref",
            path=os.path.join(self._folder, file_name),
            safe="Contexts and refs are not touched by this.",
            mend="Move the file elsewhere.",
        )


class DiskStore(ContextLibrary):
    """The contexts in ``folder``, which the first commit creates."""

    def __init__(
        self,
        folder: str,
        files: Files | None = None,
        clock: Clock | None = None,
        *,
        large_weight: int = LARGE_WEIGHT,
    ) -> None:
        files = files or Files()
        self.folder = folder
        self._files = files
        self._clock = clock or SystemClock()
        parked = ObjectStore(os.path.join(folder, "parked"), files)
        self._shelf = FolderObjects(ObjectStore(os.path.join(folder, "objects"), files), folder, files, parked)
        self._file_refs = FileRefs(os.path.join(folder, "refs"), files)
        self._files_of_cache = FolderCache(os.path.join(folder, "cache"), files)
        super().__init__(self._shelf, self._file_refs, self._files_of_cache, self._clock, large_weight=large_weight,
                         page_bytes=HELD_BYTES_MAX)  # fmt: skip

    def gc(
        self, *, grace_ms: int = GRACE_MS, prune_after_ms: int | None = None, patience_s: float = LOCK_PATIENCE_S
    ) -> GcReport:
        """Park what no ref reaches; with ``prune_after_ms`` remove what has been parked for so long. See
        ``context.stores.garbage_collection``.
        """
        with Lock(os.path.join(self.folder, "gc.lock")).holding(patience_s):
            for damage in self._file_refs.damaged():
                raise damage  # the contexts of a damaged ref must not count as unreachable
            report = collect(
                self._shelf, self._file_refs, self._files_of_cache, self._clock,
                grace_ms=grace_ms, prune_after_ms=prune_after_ms,
            )  # fmt: skip
            self._file_refs.sweep()
        self.forget_known()
        return report

    def damaged_refs(self) -> list[DamageError]:
        """Return the errors of ref files, each with its repair; ``refs`` lists the sound ones."""
        return self._file_refs.damaged()

    def close(self) -> None:
        super().close()
        self._file_refs.close()
