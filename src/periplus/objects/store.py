"""Folder of objects: immutable bytes, each in a file named by their SHA-256.

An object lies in ``ab/cdef…`` (its 64 hexadecimal digits, two for the folder) as plain bytes, in ``ab/cdef….z`` as a
zlib stream where that saves a tenth or more, or in ``ab/cdef….t`` in the form of a higher layer (``Packing``), under the
same condition. The writer chooses; a reader accepts each form that holds the right bytes. Rules:

* all data is verified by its hash: a read returns the right bytes or raises an error;
* a file appears under its name complete (temporary file, sync, rename, sync of the folder), so that several writers of
  the same bytes may coincide; a writer that finds the file syncs it before reporting it as durable;
* a damaged file is replaced when the right bytes are put again; only ``remove`` deletes one, for redaction;
* a reader neither writes nor creates files, and takes no more memory than the bytes it may return (for a packed object,
  a small multiple of its form's limit).
"""

from __future__ import annotations

__all__ = ["OBJECT_BYTES_MAX", "ObjectStore"]

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from periplus.base.encoding import hashing
from periplus.base.encoding.digests import DIGEST_BYTES, is_digest_text
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    FormatError,
    NotFoundError,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files, open_plain, read_plain, write_atomic
from periplus.objects.object_forms import (
    PACKED_SUFFIX,
    SUFFIXES,
    ZLIB_SUFFIX,
    Packing,
    damaged,
    digits_of,
    encode_object,
    form_in_file,
    inflate_pieces,
)
from periplus.objects.redaction_barrier import Keeping

OBJECT_BYTES_MAX: Final = 1 << 30
_PIECE_BYTES: Final = 1 << 20
_HEAD_PIECE_BYTES: Final = 256
_REMAINS_BYTES: Final = 64  # granularity of what is lost behind damage


class ObjectStore:
    """The objects in folder ``root``, which the first ``put`` makes. ``bytes_max`` limits one object.

    ``packing`` is the form that a higher layer defines. Without it, reading an object that exists only in that form
    raises EnvironmentFailure.
    """

    def __init__(
        self, root: str, files: Files, *, packing: Packing | None = None, bytes_max: int = OBJECT_BYTES_MAX
    ) -> None:
        self._root = root
        self._files = files
        self._bytes_max = bytes_max
        self.packing = packing
        self._settled: set[str] = set()  # folders whose entry this process has synced
        self._keeping = Keeping(root, files)

    @property
    def root(self) -> str:
        return self._root

    def keeping(self) -> AbstractContextManager[None]:
        """Return a block for a writer that checks for redaction and then puts an object: the answer stays valid in
        the block. See ``objects.redaction_barrier``.
        """
        return self._keeping.block()

    @contextmanager
    def in_haste(self, patience_s: float) -> Iterator[None]:
        """Limit the time that ``keeping`` waits for a redaction to ``patience_s``, within the block."""
        before, self._keeping.patience_s = self._keeping.patience_s, patience_s
        try:
            yield
        finally:
            self._keeping.patience_s = before

    def wait_for_keepers(self) -> None:
        """Wait until all processes that are in a ``keeping`` block now have left it, before objects are removed.
        Raises LockTimeoutError.
        """
        self._keeping.wait()

    def put(self, data: bytes, *, durable: bool = True) -> bytes:
        """Store ``data`` and return its digest; with ``durable`` it is on the disk when this returns.

        Writes nothing where the object exists; replaces a damaged file. Raises UsageError for more than ``bytes_max``
        bytes, EnvironmentFailure where writing fails.
        """
        if len(data) > self._bytes_max:
            raise UsageError(f"an object of {len(data):,} bytes: at most {self._bytes_max:,} can be kept")
        digest = hashing.sha256(data).digest()
        sound, broken = self._sorted_forms(digest)
        healed = {path: kept for path in broken if (kept := form_in_file(path, data, self.packing)) is not None}
        if not sound and not healed:
            suffix, kept = encode_object(data, self.packing)
            self._write(self._plain_path(digest) + suffix, kept, durable=durable)
        for path, kept in healed.items():
            self._write(path, kept, durable=durable)
        for path in broken.keys() - healed.keys():
            self._unlink(path)  # it cannot be written in its form, and a sound file exists
        if sound and durable:
            self._sync(sound[0])  # its writer may not have synced it
        return digest

    def settle(self, digests: Iterable[bytes]) -> None:
        """Sync objects that were put without ``durable``: each file, then each folder once.

        Raises NotFoundError, EnvironmentFailure. After the latter it is unknown whether they reached the disk, and
        another sync may not report it: ``rewrite`` them.
        """
        folders = set()
        for digest in digests:
            path = self.path_of(digest)
            folders.add(os.path.dirname(path))
            try:
                fd = self._files.open(path, os.O_RDONLY)
                try:
                    self._files.sync(fd)
                finally:
                    self._files.close(fd)
            except FileNotFoundError:
                raise self._not_found(digest) from None
            except OSError as error:
                raise environment_failure(error, "sync", path) from error
        for folder in sorted(folders):
            try:
                self._files.sync_folder(folder)
            except OSError as error:
                raise environment_failure(error, "sync", folder) from error
            self._settle(folder)

    def rewrite(self, digest: bytes) -> None:
        """Write the object into a new file and sync it, after a failed sync. Raises like ``get`` and ``put``."""
        data = self.get(digest)
        path = self.path_of(digest)
        kept = form_in_file(path, data, self.packing)
        if kept is None:
            suffix, kept = encode_object(data, self.packing)
            path = self._plain_path(digest) + suffix
        self._write(path, kept, durable=True)

    def get(self, digest: bytes) -> bytes:
        """Return the object's verified bytes. Raises NotFoundError, or DamageError with the path of the damaged file."""
        damage: DamageError | None = None
        for path in self._forms(digest):
            out = bytearray()
            try:
                for piece in self._pieces(path):
                    out += piece
            except FileNotFoundError:
                continue
            except DamageError as error:
                damage = damage or error
                continue
            if hashing.sha256(out).digest() == digest:
                return bytes(out)
            damage = damage or _wrong_bytes(path)
        raise damage or self._not_found(digest)

    def head(self, digest: bytes, length: int) -> bytes:
        """Return the first ``length`` bytes of the object, unverified; fewer where it ends or its file is damaged."""
        for path in self._forms(digest):
            found = bytearray()
            try:
                for piece in self._pieces(path, _HEAD_PIECE_BYTES):
                    found += piece
                    if len(found) >= length:
                        return bytes(found[:length])
                return bytes(found)
            except FileNotFoundError:
                continue
            except DamageError:
                continue  # another form may be sound
        return b""

    def paths_of(self, digest: bytes) -> list[str]:
        """Return the paths of the object's existing files."""
        return [path for path in self._forms(digest) if os.path.lexists(path)]

    def remains(self, digest: bytes) -> bytes:
        """Return the unverified contents of the object's file up to its damage, for salvage.

        Raises NotFoundError where it has no file.
        """
        best: bytes | None = None
        for path in self._forms(digest):
            out = bytearray()
            try:
                for piece in self._pieces(path, _REMAINS_BYTES, is_lenient=True):
                    out += piece
            except FileNotFoundError:
                continue
            except DamageError:
                pass  # the contents before the damage are the result
            if best is None or len(out) > len(best):
                best = bytes(out)
        if best is None:
            raise self._not_found(digest)
        return best

    def mended(self, digest: bytes) -> bytes | None:
        """Reconstruct the object from its damaged file, where its form allows that; None on failure. Writes nothing."""
        path = self._plain_path(digest) + PACKED_SUFFIX
        if self.packing is None:
            return None
        try:
            data = read_plain(path, self.packing.bytes_max)
        except OSError:
            return None  # missing or unreadable
        return next((one for one in self.packing.mended(data) if hashing.sha256(one).digest() == digest), None)

    def remove(self, digest: bytes) -> bool:
        """Delete the object; return False where there was none. For redaction only: nothing else deletes objects."""
        removed = [self._unlink(path) for path in self._forms(digest)]
        return any(removed)

    def has(self, digest: bytes) -> bool:
        """Test that the object has a file; ``check`` tells whether it is sound."""
        return any(map(os.path.exists, self._forms(digest)))

    def is_in_one_file(self, digest: bytes) -> bool:
        """Test that the object has exactly one file: then a successful ``get`` makes ``check`` superfluous."""
        return sum(map(os.path.exists, self._forms(digest))) == 1

    def check(self, digest: bytes) -> DamageError | NotFoundError | None:
        """Read and hash each file of the object; return the error, None if all are sound."""
        sound, broken = self._sorted_forms(digest)
        for error in broken.values():
            if sound:
                error.safe = f"{sound[0]} holds the right bytes and is read in its place."
            return error
        return None if sound else self._not_found(digest)

    def at_rest(self, digest: bytes) -> bytes | None:
        """Return a digest over the object's files as stored; None without files. An equal digest means unchanged
        files, sound or not.

        Reads them without unpacking. Raises EnvironmentFailure.
        """
        state = hashing.sha256()
        is_there = False
        for suffix, path in zip(SUFFIXES, self._forms(digest), strict=True):
            try:
                fd = open_plain(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise environment_failure(error, "read", path) from error
            is_there = True
            try:
                state.update(f"{suffix} {os.fstat(fd).st_size}\n".encode())
                for piece in _stored(fd, _PIECE_BYTES):
                    state.update(piece)
            except OSError as error:
                raise environment_failure(error, "read", path) from error
            finally:
                os.close(fd)
        return state.digest() if is_there else None

    def digests(self) -> Iterator[bytes]:
        """Yield the digests of all objects, ascending; files of other names are ignored."""
        for folder in self._names(self._root):
            if len(folder) != 2:
                continue
            found = set()
            for name in self._names(os.path.join(self._root, folder)):
                text = folder + digits_of(name)
                if is_digest_text(text):
                    found.add(bytes.fromhex(text))
            yield from sorted(found)

    def digests_like(self, prefix: str) -> Iterator[bytes]:
        """Yield the digests whose hexadecimal digits begin with ``prefix`` (two digits or more), ascending."""
        found = {text for name in self._names(os.path.join(self._root, prefix[:2]))
                 if is_digest_text(text := prefix[:2] + digits_of(name)) and text.startswith(prefix)}  # fmt: skip
        yield from map(bytes.fromhex, sorted(found))

    def path_of(self, digest: bytes) -> str:
        """Return the path of the object's existing file, else the plain path."""
        forms = self._forms(digest)
        return next(filter(os.path.exists, forms), forms[0])

    def size_on_disk(self) -> int:
        """Return the bytes in the files of all objects."""
        total = 0
        for digest in self.digests():
            for path in self._forms(digest):
                try:
                    total += os.lstat(path).st_size
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise environment_failure(error, "look at", path) from error
        return total

    def _plain_path(self, digest: bytes) -> str:
        if len(digest) != DIGEST_BYTES:
            raise UsageError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
        text = digest.hex()
        return os.path.join(self._root, text[:2], text[2:])

    def _forms(self, digest: bytes) -> list[str]:
        plain = self._plain_path(digest)
        return [plain + suffix for suffix in SUFFIXES]

    def _sorted_forms(self, digest: bytes) -> tuple[list[str], dict[str, DamageError]]:
        """Sort the object's files into sound paths, and damaged paths with their errors."""
        sound: list[str] = []
        broken: dict[str, DamageError] = {}
        for path in self._forms(digest):
            state = hashing.sha256()
            try:
                for piece in self._pieces(path):
                    state.update(piece)
            except FileNotFoundError:
                continue
            except DamageError as error:
                broken[path] = error
                continue
            if state.digest() == digest:
                sound.append(path)
            else:
                broken[path] = _wrong_bytes(path)
        return sound, broken

    def _pieces(self, path: str, piece_bytes: int = _PIECE_BYTES, *, is_lenient: bool = False) -> Iterator[bytes]:
        """Yield the object's bytes from the file at ``path`` in pieces of bounded size, at most ``bytes_max`` in all.

        Raises FileNotFoundError, DamageError where ``put`` cannot have written the file, EnvironmentFailure.
        """
        try:
            # Without O_NONBLOCK a pipe in the folder would block the reader.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise damaged("not a file", path)
            pieces = (
                inflate_pieces(fd, path, piece_bytes)
                if path.endswith(ZLIB_SUFFIX)
                else self._unpacked(fd, path, is_lenient=is_lenient)
                if path.endswith(PACKED_SUFFIX)
                else _stored(fd, piece_bytes)
            )
            total = 0
            for piece in pieces:
                total += len(piece)
                if total > self._bytes_max:
                    raise damaged(f"holds more than {self._bytes_max:,} bytes", path)
                yield piece
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        finally:
            os.close(fd)

    def _unpacked(self, fd: int, path: str, *, is_lenient: bool) -> Iterator[bytes]:
        """Yield the contents of the open file unpacked by ``packing``; with ``is_lenient`` the rest of a damaged one."""
        if self.packing is None:
            raise EnvironmentFailure(
                f"{path} is packed in the form of a higher layer, which this reader was not given",
                safe="The file was not touched.",
            )
        size = os.fstat(fd).st_size
        if size > self.packing.bytes_max:
            raise damaged(f"{size:,} bytes, and no file of this form has over {self.packing.bytes_max:,}", path)
        data = b"".join(_stored(fd, _PIECE_BYTES))
        try:
            yield self.packing.unpack(data)
        except FormatError as error:
            if is_lenient:
                yield self.packing.remains(data)
            raise damaged(error.wrong, path, error.offset) from error

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise environment_failure(error, "list", folder) from error

    def _write(self, path: str, data: bytes, *, durable: bool) -> None:
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            self._settled -= {folder, self._root}
            try:
                self._files.make_folder(folder)
            except OSError as error:
                raise environment_failure(error, "create", folder) from error
        write_atomic(self._files, path, data, durable=durable)
        if durable:
            self._settle(folder)

    def _unlink(self, path: str) -> bool:
        """Delete the file durably; return False where there was none."""
        try:
            self._files.unlink(path)
            self._files.sync_folder(os.path.dirname(path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise environment_failure(error, "remove", path) from error
        return True

    def _sync(self, path: str) -> None:
        folder = os.path.dirname(path)
        try:
            fd = self._files.open(path, os.O_RDONLY)
            try:
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            self._files.sync_folder(folder)
        except OSError as error:
            raise environment_failure(error, "sync", path) from error
        self._settle(folder)

    def _settle(self, folder: str) -> None:
        """Sync the entry of the folder in ``root``, and that of ``root``, once per folder and process.

        Also for an existing folder: its maker may have stopped before the sync.
        """
        if folder in self._settled:
            return
        try:
            self._files.sync_folder(self._root)
            if self._root not in self._settled:
                self._files.sync_folder(os.path.dirname(os.path.abspath(self._root)))
        except OSError as error:
            raise environment_failure(error, "sync", self._root) from error
        self._settled |= {folder, self._root}

    def _not_found(self, digest: bytes) -> NotFoundError:
        return NotFoundError(
            f"no object {digest.hex()} in {self._root}",
            mend="If another clone or a backup has it: periplus doctor --repair --from PATH",
        )


def _stored(fd: int, piece_bytes: int) -> Iterator[bytes]:
    while piece := os.read(fd, piece_bytes):
        yield piece


def _wrong_bytes(path: str) -> DamageError:
    return damaged("its bytes do not match its name", path)
