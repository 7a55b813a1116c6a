"""A folder that no path leads out of, for paths that come from an untrusted source.

The folder is opened once. Every path is split into names and each name is checked. Each folder on the way is opened
from the one before without following links, so another process that swaps folders meanwhile cannot lead elsewhere: the
system never resolves a whole path. These are refused, always with a ConfinementError and a ``Reason``:

* paths that are absolute, empty, too long or too deep; that contain ``..``, control characters, a backslash, or
  characters that look like dots or slashes; that begin like an option or like a shell expansion;
* links (also dangling ones), devices, pipes and sockets, anywhere; another file system within the folder;
* files with a second name (a hard link), for every change;
* ``.git`` and ``.periplus`` at any depth, file or folder, in any spelling that some file system maps to them.

The system may allow a name that is refused here. In return the same path means the same everywhere.
Not detected: a folder that another process moves out of the root during a call in it.
"""

from __future__ import annotations

__all__ = ["Confined", "Entry", "EntryKind", "Limits", "Reason", "is_reserved", "judge_path"]

import errno
import os
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, Self, TypeAlias

from periplus.base.errors import ConfinementError, EnvironmentFailure, NotFoundError, environment_failure
from periplus.base.files import TEMPORARY_SUFFIX, Files, write_all
from periplus.base.named_tuple import NamedTuple

Reason: TypeAlias = Literal[
    "absolute", "empty", "expansion", "hard_link", "kind", "link", "mount", "name", "occupied", "option", "parent",
    "reserved", "too_deep", "too_large", "too_long",
]  # fmt: skip
EntryKind: TypeAlias = Literal["file", "folder", "link", "other"]

PATH_BYTES_MAX: Final = 2048
NAME_BYTES_MAX: Final = 255
DEPTH_MAX: Final = 64
FILE_BYTES_MAX: Final = 64 << 20
ENTRIES_MAX: Final = 200_000
LOOK_EVERY: Final = 256

_RESERVED: Final = (".git", ".periplus")
_SLASHES: Final = frozenset("\\\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe68\uff0f\uff3c")
_DOTS: Final = frozenset(".\u2024\u2025\u2026\u3002\ufe12\ufe52\uff0e\uff61\u00b7\u0701\u0702\u30fb ")
_TEMPORARY_PREFIX: Final = ".periplus-write."
_COMMON: Final = {ord(char): None for char in "._-"}
_MODE: Final = 0o777


class Limits(NamedTuple):
    """Limits of one folder: bytes of one file, read or written, and names in one listing or walk."""

    file_bytes_max: int = FILE_BYTES_MAX
    entries_max: int = ENTRIES_MAX


DEFAULT_LIMITS: Final = Limits()


class Entry(NamedTuple):
    """File or folder at a path; ``size`` in bytes, for files."""

    path: str
    kind: EntryKind
    size: int = 0
    is_executable: bool = False


def judge_path(path: str) -> tuple[str, ...]:
    """Split a path into its names; the folder itself (``.``) has none. Pure. Raises ConfinementError."""
    if not path:
        raise _refused(path, "empty", "the path is empty")
    if len(path) > PATH_BYTES_MAX or len(path.encode("utf-8", "replace")) > PATH_BYTES_MAX:
        raise _refused(path, "too_long", f"over {PATH_BYTES_MAX:,} bytes")
    if path.startswith("/"):
        raise _refused(path, "absolute", "an absolute path")
    if path[0] == "-":
        raise _refused(path, "option", "it begins like an option", mend="Write it as it stands in its folder.")
    if path[0] in "~:" or _is_variable(path.partition("/")[0]):
        raise _refused(path, "expansion", "it begins like an expansion of a shell or git, and nothing is expanded here")
    names = tuple(name for name in path.split("/") if name != ".")
    if len(names) > DEPTH_MAX:
        raise _refused(path, "too_deep", f"over {DEPTH_MAX} folders deep")
    for name in names:
        _judge_name(name, path)
    return names


def _judge_name(name: str, path: str) -> None:
    if not name:
        raise _refused(path, "name", "a name in it is empty")
    if name == "..":
        raise _refused(path, "parent", "it leads upwards")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise _refused(path, "name", "a name in it is not UTF-8") from error
    if size > NAME_BYTES_MAX:
        raise _refused(path, "too_long", f"a name in it has over {NAME_BYTES_MAX} bytes")
    if name.isascii() and name[0] != "." and name[-1] != "." and name.translate(_COMMON).isalnum():
        return
    bare = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    if any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in name):
        raise _refused(path, "name", "a name in it has control characters")
    if not _SLASHES.isdisjoint(name) or "/" in bare or "\\" in bare:
        raise _refused(path, "name", "a name in it has a backslash, or a character that looks like a slash")
    if not {"*", "?"}.isdisjoint(name):
        raise _refused(path, "expansion", "a name in it has * or ?: patterns are no names")
    if all(char in _DOTS for char in bare):
        raise _refused(path, "parent", "a name in it consists of dots, or of characters that look like dots")
    if name[-1] in ". ":
        raise _refused(path, "name", "a name in it ends with a dot or a space")
    if is_reserved(name):
        raise _refused(path, "reserved", f"{name.strip()[:40]!r} belongs to git or to the store")


def is_reserved(name: str) -> bool:
    """Test whether some file system maps ``name`` to ``.git`` or ``.periplus``: case, marks, streams, short names."""
    plain = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    plain = plain.casefold().partition(":")[0].rstrip(". ").lstrip(" ")
    if plain in _RESERVED:
        return True
    stem, tilde, number = plain.partition("~")
    if not tilde or not number.isascii() or not number.isdigit():
        return False
    # NTFS makes GIT~1, and for the fifth such name GI7EBA~1, with four digits of a hash between.
    return stem in ("git", "peripl") or (len(stem) == 6 and stem[:2] in ("gi", "pe") and _is_hex(stem[2:]))


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdef" for char in text)


def _is_variable(name: str) -> bool:
    """Detect ``$HOME``, ``${HOME}``, ``$(…)``. ``$lib`` and ``$id.tsx`` are names that frameworks use."""
    if not name.startswith("$"):
        return False
    inner = name[1:].strip("{}")
    return name[1:2] in ("{", "(") or (inner.replace("_", "").isalnum() and inner.isupper())


def _refused(path: str, reason: Reason, why: str, *, mend: str = "") -> ConfinementError:
    shown = path if len(path) <= 200 else path[:200] + "…"
    return ConfinementError(f"path {shown!r} is refused: {why}", path=path, reason=reason, mend=mend)


class Confined:
    """The folder ``root``, held open; close it, or use it as a context manager.

    ``root`` itself is trusted and links in it are followed. Paths are relative, with ``/``; ``.`` is the folder
    itself. Beside ConfinementError, the methods raise NotFoundError for a missing file and EnvironmentFailure for a
    failed system call. With ``is_durable`` a change is on the disk when the call returns.
    """

    def __init__(
        self, root: str, *, files: Files | None = None, limits: Limits = DEFAULT_LIMITS, is_durable: bool = True
    ) -> None:
        self.root = os.path.realpath(root)
        self.limits = limits
        self._files = files or Files()
        self._is_durable = is_durable
        try:
            self._fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise NotFoundError(f"no folder {root}") from error
        except OSError as error:
            raise environment_failure(error, "open", root) from error
        self._device = os.fstat(self._fd).st_dev

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    # Reading

    def stat(self, path: str) -> Entry | None:
        """Return the entry at ``path`` without following links, None where there is none."""
        names = judge_path(path)
        if not names:
            return Entry(".", "folder")
        try:
            with self._folder(names[:-1], path) as folder:
                return _entry(path, os.stat(names[-1], dir_fd=folder, follow_symlinks=False))
        except (NotFoundError, FileNotFoundError):
            return None
        except OSError as error:
            raise environment_failure(error, "look at", path) from error

    def mode(self, path: str) -> int | None:
        """Return the permissions of ``path``, None where there is nothing."""
        names = judge_path(path)
        try:
            with self._folder(names[:-1], path) as folder:
                found = self._lstat(folder, names[-1], path) if names else os.fstat(folder)
        except NotFoundError:
            return None
        return stat.S_IMODE(found.st_mode) & _MODE if found is not None else None

    def read(self, path: str) -> bytes:
        """Return the bytes of a plain file. Nothing else is opened: a pipe would block the reader, and opening a
        device has effects.
        """
        with self.opened(path) as fd:
            try:
                return self._contents(fd, path)
            except OSError as error:
                raise environment_failure(error, "read", path) from error

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Open a plain file of any size for reading in pieces."""
        names = self._names(path)
        with self._folder(names[:-1], path) as folder:
            status = self._plain_file(folder, names[-1], path)
            if status is None:
                raise NotFoundError(f"no file {path}")
            try:
                fd = self._files.open_at(folder, names[-1], os.O_RDONLY)
            except OSError as error:
                raise self._failure(error, "read", path) from error
        try:
            _judge_kind(
                os.fstat(fd), path
            )  # Checks the opened file: it may have been swapped after the check of its name.
            yield fd
        finally:
            os.close(fd)

    def list(self, path: str = ".", meanwhile: Callable[[], None] | None = None) -> list[Entry]:
        """Return the entries of a folder by name, without reserved names and names that no path may have.

        ``meanwhile`` is called before the first name and every LOOK_EVERY names; an exception from it ends the
        listing.
        """
        names = judge_path(path)
        found = []
        with self._folder(names, path) as folder:
            for count, name in enumerate(self._listed(folder, path)):
                if meanwhile is not None and count % LOOK_EVERY == 0:
                    meanwhile()
                if count >= self.limits.entries_max:
                    raise _refused(path, "too_large", f"over {self.limits.entries_max:,} names in it")
                inner = "/".join((*names, name))
                try:
                    judge_path(inner)
                    found.append(_entry(inner, os.stat(name, dir_fd=folder, follow_symlinks=False)))
                except (ConfinementError, FileNotFoundError):
                    continue  # reserved, or gone meanwhile
                except OSError as error:
                    raise environment_failure(error, "look at", inner) from error
        return sorted(found)

    def walk(self, path: str = ".") -> Iterator[Entry]:
        """Yield the plain files under a folder, each folder in the order of its names; links and special files are
        left out.
        """
        waiting = [path]
        seen = 0
        while waiting:
            inner = []
            for entry in self.list(waiting.pop()):
                seen += 1
                if seen > self.limits.entries_max:
                    raise _refused(path, "too_large", f"over {self.limits.entries_max:,} names under it")
                if entry.kind == "file":
                    yield entry
                elif entry.kind == "folder" and entry.path.count("/") + 1 < DEPTH_MAX:
                    inner.append(entry.path)
            waiting.extend(reversed(inner))

    def real_path(self, path: str = ".") -> str:
        """Return the absolute path of an existing folder, as the working folder of a command. Every folder on the way
        is checked, and that the path still leads to the open root: the command uses the path, not the descriptor.
        """
        names = judge_path(path)
        real = os.path.join(self.root, *names)
        with self._folder(names, path) as folder:
            try:
                is_same = os.path.samestat(os.stat(real), os.fstat(folder))
            except OSError as error:
                raise self._failure(error, "look at", path) from error
        if not is_same:
            raise _refused(path, "link", f"{self.root} was replaced by another folder")
        return real

    # Writing

    def write(self, path: str, data: bytes, *, is_executable: bool | None = None, mode: int | None = None) -> None:
        """Replace the contents of ``path`` by ``data``, or leave them unchanged on failure; missing folders are made.

        ``is_executable`` of None keeps the present state; ``mode`` sets all permissions.
        """
        names = self._names(path)
        if len(data) > self.limits.file_bytes_max:
            raise _refused(path, "too_large", f"{len(data):,} bytes, at most {self.limits.file_bytes_max:,}")
        with self._folder(names[:-1], path, is_made=True) as folder:
            held = self._own_file(folder, names[-1], path)
            if mode is None:
                mode = stat.S_IMODE(held.st_mode) & _MODE if held is not None else 0o644
            mode &= _MODE
            if is_executable is not None:
                mode = mode | 0o111 if is_executable else mode & ~0o111
            temporary = f"{_TEMPORARY_PREFIX}{os.getpid()}.{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
            try:
                self._write_at(folder, temporary, names[-1], data, mode)
            except OSError as error:
                _unlink_quietly(folder, temporary)
                raise self._failure(error, "write", path) from error

    def make_folder(self, path: str) -> None:
        """Make the folder and its parents where they are missing."""
        with self._folder(judge_path(path), path, is_made=True):
            pass

    def delete(self, path: str) -> None:
        """Remove a plain file."""
        names = self._names(path)
        with self._folder(names[:-1], path) as folder:
            if self._own_file(folder, names[-1], path) is None:
                raise NotFoundError(f"no file {path}")
            try:
                self._files.unlink_at(folder, names[-1])
                self._settle(folder)
            except OSError as error:
                raise self._failure(error, "delete", path) from error

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        names = self._names(path)
        with self._folder(names[:-1], path) as folder:
            try:
                self._files.remove_folder_at(folder, names[-1])
                self._settle(folder)
            except OSError as error:
                raise self._failure(error, "remove", path) from error

    def move(self, source: str, target: str) -> None:
        """Rename a file or folder. Refused where the target exists."""
        source_names, target_names = self._names(source), self._names(target)
        if target_names[: len(source_names)] == source_names:
            raise _refused(target, "occupied", f"{source} cannot move to itself or into itself")
        with self._folder(source_names[:-1], source) as source_folder:
            found = self._lstat(source_folder, source_names[-1], source)
            if found is None:
                raise NotFoundError(f"no file {source}")
            if not stat.S_ISDIR(found.st_mode):
                self._own_file(source_folder, source_names[-1], source)
            elif found.st_dev != self._device:
                raise _refused(source, "mount", "another file system begins there")
            with self._folder(target_names[:-1], target, is_made=True) as target_folder:
                if self._lstat(target_folder, target_names[-1], target) is not None:
                    raise _refused(target, "occupied", "there is something of that name already")
                try:
                    self._files.replace_at(source_folder, source_names[-1], target_folder, target_names[-1])
                    self._settle(target_folder)
                    self._settle(source_folder)
                except OSError as error:
                    raise self._failure(error, "move", source) from error

    def sweep(self) -> int:
        """Remove temporary files of interrupted writes. Only while no other process writes here."""
        left = [entry.path for entry in self.walk() if _is_temporary(os.path.basename(entry.path), _TEMPORARY_PREFIX)]
        for path in left:
            self.delete(path)
        return len(left)

    def sweep_after(self, pid: int, folders: Iterable[str]) -> int:
        """Remove the temporary files that process ``pid`` left in ``folders``. The process must have ended; others
        may write.
        """
        prefix = f"{_TEMPORARY_PREFIX}{pid}."
        left = []
        for folder in folders:
            try:
                left += [
                    entry.path for entry in self.list(folder) if _is_temporary(os.path.basename(entry.path), prefix)
                ]
            except NotFoundError:
                continue  # not made yet
        for path in left:
            self.delete(path)
        return len(left)

    # Internals

    def _names(self, path: str) -> tuple[str, ...]:
        names = judge_path(path)
        if not names:
            raise _refused(path, "kind", "it is the folder itself")
        return names

    @contextmanager
    def _folder(self, names: tuple[str, ...], path: str, *, is_made: bool = False) -> Iterator[int]:
        """Open the folder that ``names`` lead to for the duration of the block; with ``is_made`` make missing
        folders.
        """
        if self._fd < 0:
            raise EnvironmentFailure("the confined folder was closed")
        fd = os.dup(self._fd)
        try:
            for name in names:
                inner = self._step(fd, name, path, is_made=is_made)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def _step(self, folder: int, name: str, path: str, *, is_made: bool) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:
            try:
                fd = self._files.open_at(folder, name, flags)
            except FileNotFoundError:
                if not is_made:
                    raise
                try:
                    self._files.make_folder_at(folder, name)
                except FileExistsError:
                    pass  # another process was quicker
                self._settle(folder)
                fd = self._files.open_at(folder, name, flags)
        except FileNotFoundError as error:
            raise NotFoundError(f"no folder on the way to {path}") from error
        except OSError as error:
            self._judge_obstacle(folder, name, path)
            raise self._failure(error, "open a folder on the way to", path) from error
        if os.fstat(fd).st_dev != self._device:
            os.close(fd)
            raise _refused(path, "mount", "another file system begins on the way")
        return fd

    def _judge_obstacle(self, folder: int, name: str, path: str) -> None:
        """Raise the error for a name that is no folder. Systems differ in how they refuse a link."""
        found = self._lstat(folder, name, path)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            _judge_kind(found, path)
            raise _refused(path, "kind", f"{name} is a file and no folder")

    def _lstat(self, folder: int, name: str, path: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise environment_failure(error, "look at", path) from error

    def _plain_file(self, folder: int, name: str, path: str) -> os.stat_result | None:
        found = self._lstat(folder, name, path)
        if found is not None:
            _judge_kind(found, path)
            if stat.S_ISDIR(found.st_mode):
                raise _refused(path, "kind", "it is a folder")
        return found

    def _own_file(self, folder: int, name: str, path: str) -> os.stat_result | None:
        """Return ``_plain_file`` for a change: a file with a second name is refused."""
        found = self._plain_file(folder, name, path)
        if found is not None and found.st_nlink > 1:
            raise _refused(path, "hard_link", "the file has another name (a hard link), perhaps outside")
        return found

    def _contents(self, fd: int, path: str) -> bytes:
        status = os.fstat(fd)
        limit = self.limits.file_bytes_max
        if status.st_size > limit:
            raise _refused(path, "too_large", f"{status.st_size:,} bytes, at most {limit:,}")
        pieces = []
        left = limit + 1
        while left and (piece := os.read(fd, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
        if not left:
            raise _refused(path, "too_large", f"it grew over the limit of {limit:,} bytes")
        return b"".join(pieces)

    def _write_at(self, folder: int, temporary: str, name: str, data: bytes, mode: int) -> None:
        fd = self._files.open_at(folder, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_all(self._files, fd, data)
            os.fchmod(fd, mode)
            if self._is_durable:
                self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.replace_at(folder, temporary, folder, name)
        self._settle(folder)

    def _settle(self, folder: int) -> None:
        if self._is_durable:
            self._files.sync(folder)

    def _listed(self, folder: int, path: str) -> Iterator[str]:
        try:
            # A new descriptor: duplicates share the read position, and another thread may list the same folder.
            own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
            try:
                with os.scandir(own) as found:
                    for entry in found:
                        yield entry.name
            finally:
                os.close(own)
        except FileNotFoundError:
            return  # removed meanwhile
        except OSError as error:
            raise environment_failure(error, "list", path) from error

    def _failure(self, error: OSError, doing: str, path: str) -> ConfinementError | EnvironmentFailure | NotFoundError:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            return _refused(path, "link", "it is a link, or leads through one")
        if error.errno == errno.ENOENT:
            return NotFoundError(f"no file {path}")
        if error.errno == errno.EXDEV:
            return _refused(path, "mount", "another file system lies between")
        if error.errno in (errno.EISDIR, errno.ENOTDIR):
            return _refused(path, "kind", "a folder is in the place of a file, or the other way round")
        return environment_failure(error, doing, path)


def _judge_kind(status: os.stat_result, path: str) -> None:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise _refused(path, "link", "it is a link, or leads through one")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise _refused(path, "kind", "it is a device, a pipe or a socket")


def _is_temporary(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.endswith(TEMPORARY_SUFFIX)


def _entry(path: str, status: os.stat_result) -> Entry:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return Entry(path, "file", status.st_size, bool(mode & 0o100))
    return Entry(path, "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other")


def _unlink_quietly(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass  # never made, or left behind under a name that marks it as temporary
