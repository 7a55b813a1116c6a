"""The folder of objects: immutable bytes, each in a file named by their SHA-256.

An object lies in ``ab/cdef…`` (its 64 hexadecimal digits, two for the folder), as its plain bytes, or in
``ab/cdef….z`` as one zlib stream where that saves a tenth or more, or in ``ab/cdef….t`` as a layer above packs objects
of its own kind (``Packing``), under the same condition. Which of them a writer chose is its own affair: a reader takes
whichever holds the right bytes. Rules kept here:

* nothing is believed that was not hashed: a read gives the right bytes or an error, never wrong ones;
* a file appears under its name whole (temporary file, sync, rename, sync of the folder), so that writers of the same
  bytes can meet at any moment; whoever comes second and finds the file still syncs it before calling it durable;
* a damaged file is replaced when the right bytes come by again; nothing deletes one but ``remove``, for redaction;
* a reader neither writes nor creates, and takes no more memory than the bytes it may give back (of a packed object, than
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
_REMAINS_BYTES: Final = 64  # of a broken stream, at most what so many bytes stand for is lost


class ObjectStore:
    """The objects in folder ``root``, which the first ``put`` makes. ``bytes_max`` bounds one object.

    ``packing`` is the form of objects that a layer above knows. Who has none raises EnvironmentFailure where an object lies
    in that form only.
    """

    def __init__(
        self, root: str, files: Files, *, packing: Packing | None = None, bytes_max: int = OBJECT_BYTES_MAX
    ) -> None:
        self._root = root
        self._files = files
        self._bytes_max = bytes_max
        self.packing = packing
        self._settled: set[str] = set()  # folders whose own entry this process has synced
        self._keeping = Keeping(root, files)

    @property
    def root(self) -> str:
        return self._root

    def keeping(self) -> AbstractContextManager[None]:
        """For who asks whether an object was redacted, and then puts it: what he saw holds until he leaves. See ``objects.keeping``."""
        return self._keeping.block()

    @contextmanager
    def in_haste(self, patience_s: float) -> Iterator[None]:
        """Who is ``keeping`` meanwhile waits so long to come in, and no longer."""
        before, self._keeping.patience_s = self._keeping.patience_s, patience_s
        try:
            yield
        finally:
            self._keeping.patience_s = before

    def wait_for_keepers(self) -> None:
        """Until nobody is ``keeping`` any more who was now; for who takes objects out. Raises LockTimeoutError."""
        self._keeping.wait()

    def put(self, data: bytes, *, durable: bool = True) -> bytes:
        """Keep ``data`` and give its digest; with ``durable`` it is on the disk for good when this returns.

        Where the object is there already nothing is written; a damaged file of it is replaced. Raises UsageError
        for more than ``bytes_max`` bytes, EnvironmentFailure where the disk refuses.
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
            self._unlink(path)  # it cannot be written again in its form, and the right bytes stand beside it
        if sound and durable:
            self._sync(sound[0])  # whoever wrote it may not have come so far, or not have meant to
        return digest

    def settle(self, digests: Iterable[bytes]) -> None:
        """Have objects that were put without ``durable`` on the disk for good: each file synced, then each folder once.

        Raises NotFoundError, EnvironmentFailure. After the latter whether they reached the disk is not known, and another sync may
        not tell: ``rewrite`` them.
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
        """Write the object again into a new file, synced: for after a sync that failed. Raises as ``get`` and ``put``."""
        data = self.get(digest)
        path = self.path_of(digest)
        kept = form_in_file(path, data, self.packing)
        if kept is None:
            suffix, kept = encode_object(data, self.packing)
            path = self._plain_path(digest) + suffix
        self._write(path, kept, durable=True)

    def get(self, digest: bytes) -> bytes:
        """The object's bytes, verified. Raises NotFoundError, or DamageError with the path of the damaged file."""
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
        """The first ``length`` bytes of the object, unchecked; fewer where it has no more or its file is damaged."""
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
        """The paths of the object's files that are there."""
        return [path for path in self._forms(digest) if os.path.lexists(path)]

    def remains(self, digest: bytes) -> bytes:
        """What the object's file still gives, unchecked, up to where it is broken: for what can salvage it.

        Raises NotFoundError where there is no file of it.
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
                pass  # what came before it is what was asked for
            if best is None or len(out) > len(best):
                best = bytes(out)
        if best is None:
            raise self._not_found(digest)
        return best

    def mended(self, digest: bytes) -> bytes | None:
        """The object, worked out of its damaged file, where the form it is packed in allows that; nothing is written."""
        path = self._plain_path(digest) + PACKED_SUFFIX
        if self.packing is None:
            return None
        try:
            data = read_plain(path, self.packing.bytes_max)
        except OSError:
            return None  # there is no such file, or none that could be read
        return next((one for one in self.packing.mended(data) if hashing.sha256(one).digest() == digest), None)

    def remove(self, digest: bytes) -> bool:
        """Take the object away for good; False where there was none. For redaction alone: nothing else deletes one."""
        removed = [self._unlink(path) for path in self._forms(digest)]
        return any(removed)

    def has(self, digest: bytes) -> bool:
        """Whether there is a file of the object; ``check`` says whether it is sound."""
        return any(map(os.path.exists, self._forms(digest)))

    def is_in_one_file(self, digest: bytes) -> bool:
        """Whether there is just one file of the object: where ``get`` gave its bytes, ``check`` has nothing to add."""
        return sum(map(os.path.exists, self._forms(digest))) == 1

    def check(self, digest: bytes) -> DamageError | NotFoundError | None:
        """What is wrong with the object, None if nothing: each of its files is read and hashed."""
        sound, broken = self._sorted_forms(digest)
        for error in broken.values():
            if sound:
                error.safe = f"{sound[0]} holds the right bytes and is read in its place."
            return error
        return None if sound else self._not_found(digest)

    def at_rest(self, digest: bytes) -> bytes | None:
        """A digest of the object's files as they lie; None where there is none. While it is the same they hold what they held, sound or not.

        This reads them and unpacks nothing. Raises EnvironmentFailure.
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
        """The digests of all objects, ascending; files of other names are passed over."""
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
        """The digests of the objects whose hexadecimal digits begin with ``prefix`` (two digits or more), ascending."""
        found = {text for name in self._names(os.path.join(self._root, prefix[:2]))
                 if is_digest_text(text := prefix[:2] + digits_of(name)) and text.startswith(prefix)}  # fmt: skip
        yield from map(bytes.fromhex, sorted(found))

    def path_of(self, digest: bytes) -> str:
        """The path of the object's file: the one that exists, else the plain one."""
        forms = self._forms(digest)
        return next(filter(os.path.exists, forms), forms[0])

    def size_on_disk(self) -> int:
        """Bytes in the files of all objects, as they lie there."""
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
        """The object's files that are there: the sound ones, and the damaged ones with what is wrong."""
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
        """The object's bytes as the file at ``path`` has them, in pieces of bounded size, at most ``bytes_max``.

        Raises FileNotFoundError, DamageError where the file cannot be what ``put`` wrote, EnvironmentFailure.
        """
        try:
            # Without O_NONBLOCK a pipe that somebody put there would hold the reader for ever.
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
        """What the layer above makes of the open file, whole; of a damaged one, if so asked, what is left."""
        if self.packing is None:
            raise EnvironmentFailure(
                f"{path} is packed as the layer above packs its objects, and this reader was given no such form",
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
        """Take the file away for good; False where there was none."""
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
        """The folder's entry in ``root``, and that of ``root``, reach the disk: once per folder and process.

        That a folder was there before is no reason to leave it out: who made it may have stopped before its sync.
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
    return damaged("its bytes are not those that its name stands for", path)
