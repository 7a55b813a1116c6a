"""System calls that change the disk, in one replaceable object.

``Files`` makes all of them. Crash tests replace it by one that stops, tears or fails at the n-th call. All knowledge of
particular systems (such as which sync call reaches the disk) is in this module.
"""

from __future__ import annotations

__all__ = [
    "TEMPORARY_SUFFIX",
    "Files",
    "FolderWatch",
    "PassingFiles",
    "generation_of",
    "is_temporary",
    "leftover",
    "name_new",
    "open_plain",
    "read_at",
    "read_plain",
    "user_named",
    "user_of",
    "write_all",
    "write_atomic",
    "write_new",
    "write_pieces",
]

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

from periplus.base.errors import RefusedError, environment_failure

TEMPORARY_SUFFIX: Final = ".tmp"
_TRIES_MAX: Final = 3
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_GET_GENERATION: Final = 0x80087601  # FS_IOC_GETVERSION of linux/fs.h
_BLOCK_BYTES: Final = 4096  # unit of a read error: a page of the cache
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def is_temporary(name: str) -> bool:
    """Test for the name of an unfinished file, which is ignored until it is renamed."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


class Files:
    """The system calls that write. They raise OSError and never retry; a sync never runs twice."""

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        """Open a file without following links or waiting for pipes: a store may be from an untrusted source."""
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        """Return the number of bytes written, which may be fewer than given (a full disk, a limit)."""
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def sync_data(self, fd: int) -> None:
        """Flush bytes and size of the file to the disk; its times need not be flushed."""
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync stops at the drive's cache on macOS
        else:
            os.fdatasync(fd)

    def begin_sync(self, fd: int, offset: int, length: int) -> None:
        """Start writing these bytes to the disk in the background, so that ``sync_data`` takes less time.

        Gives no guarantee; errors are reported by the sync.
        """
        if sys.platform == "linux":  # Linux writes dirty pages at once when told that they are not needed
            try:
                os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)
            except OSError:
                pass  # advice only

    def reserve(self, fd: int, offset: int, length: int) -> None:
        """Allocate disk space beyond the end of the file without changing its size. Raises OSError.

        A later write into it needs no allocation and no change of metadata, so its sync is faster.
        """
        if sys.platform == "linux":
            import ctypes

            keep_size, long = 1, ctypes.c_long
            if ctypes.CDLL(None, use_errno=True).fallocate(fd, keep_size, long(offset), long(length)):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))

    def sync(self, fd: int) -> None:
        if sys.platform == "darwin":
            self.sync_data(fd)
        else:
            os.fsync(fd)

    def sync_folder(self, path: str) -> None:
        """Flush the folder's entries to the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_everything(self, path: str) -> bool:
        """Flush the file system of ``path``. False where the system has no such call."""
        if sys.platform != "linux":
            return False
        import ctypes

        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        except AttributeError:
            return False  # a C library without the call
        finally:
            os.close(fd)
        return True

    def boot_id(self) -> str:
        """Return an id of the present run of the machine. Unsynced writes survive as long as it is the same."""
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                return file.read(64).strip()
        except OSError:
            return _boot_time()

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def touch(self, path: str, time_ms: int) -> None:
        """Set the time of the last change to ``time_ms``."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000), follow_symlinks=False)

    def link(self, source: str, target: str) -> None:
        """Give ``source`` a second name ``target``. Unlike a rename it never replaces an existing file."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def make_folder(self, path: str, mode: int = 0o755) -> None:
        os.makedirs(path, mode, exist_ok=True)

    # The same by an open folder and a name in it, for ``base.filesystem.confined_folder``.

    def open_at(self, folder: int, name: str, flags: int, mode: int = 0o644) -> int:
        return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, mode, dir_fd=folder)

    def replace_at(self, source_folder: int, source: str, target_folder: int, target: str) -> None:
        os.replace(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder)

    def unlink_at(self, folder: int, name: str) -> None:
        os.unlink(name, dir_fd=folder)

    def make_folder_at(self, folder: int, name: str, mode: int = 0o755) -> None:
        os.mkdir(name, mode, dir_fd=folder)

    def remove_folder_at(self, folder: int, name: str) -> None:
        os.rmdir(name, dir_fd=folder)


class PassingFiles(Files):
    """Files without syncs, for temporary data that need not reach the disk."""

    def sync_data(self, fd: int) -> None:
        pass

    def begin_sync(self, fd: int, offset: int, length: int) -> None:
        pass

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass

    def sync_everything(self, path: str) -> bool:
        del path
        return True


def _boot_time() -> str:
    """Return the start time of the machine as an id on macOS, a random one where it is unknown."""
    import ctypes

    if os.uname().sysname != "Darwin":
        return f"unknown {os.urandom(8).hex()}"

    value = (ctypes.c_long * 2)()
    size = ctypes.c_size_t(ctypes.sizeof(value))
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.boottime", ctypes.byref(value), ctypes.byref(size), None, 0)
    return f"unknown {os.urandom(8).hex()}" if failed else f"started {value[0]}"


_stamp_of: Final = attrgetter("st_dev", "st_ino", "st_mtime_ns", "st_ctime_ns")


class FolderWatch:
    """Cached listing of a folder, checked by one ``stat``.

    A file system may store times no finer than two seconds, so a change soon after another may be invisible: a
    listing made within _SETTLED_NS of the folder's last change is not cached.
    """

    _SETTLED_NS: Final = 2_500_000_000

    def __init__(self, path: str) -> None:
        self.path = path
        self._names: list[str] = []
        self._stamp: tuple[int, int, int, int] | None = None
        self._fd = -1

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def sameness(self) -> Callable[[], bool] | None:
        """Return a function that checks whether the last listing is still valid, at less than half the cost.

        It looks at the open folder, not at its path: the caller has to check the path. None where the listing is not
        cached, or the folder cannot be opened.
        """
        if self._stamp is None:
            return None
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        stamp, fd, stamp_of, fstat = self._stamp, self._fd, _stamp_of, os.fstat

        def is_same() -> bool:
            try:
                return stamp == stamp_of(fstat(fd))
            except OSError:
                return False

        if is_same():
            return is_same
        self.close()  # the path leads to another folder now
        return None

    def names(self) -> list[str]:
        """Return the folder's names, unordered and not to be changed; the same list while the cache is valid. Raises
        OSError.
        """
        stamp = _stamp_of(os.stat(self.path))
        if stamp != self._stamp:
            self._names = os.listdir(self.path)
            is_settled = 0 < max(stamp[2:]) < time.time_ns() - self._SETTLED_NS
            self._stamp = stamp if is_settled else None
        return self._names

    @property
    def last_names(self) -> list[str]:
        """Last result of ``names``."""
        return self._names


def read_plain(
    path: str, bytes_max: int, offset: int = 0, *, read: Callable[[int, int, int], bytes] | None = None
) -> bytes:
    """Return at most ``bytes_max`` bytes of the file from ``offset`` on, by ``read`` instead of ``read_at``. Raises
    OSError.
    """
    fd = open_plain(path)
    try:
        return (read or read_at)(fd, min(bytes_max, max(os.fstat(fd).st_size - offset, 0)), offset)
    finally:
        os.close(fd)


def open_plain(path: str) -> int:
    """Open a plain file for reading. Raises OSError, also for other kinds of files.

    A store may be from an untrusted source: a pipe in it must not block the reader.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "Not a plain file", path)
    return fd


def user_of(path: str) -> str:
    """Return the owner of the file, as "user ada"; empty where it is the user of this process or unknown."""
    try:
        uid = os.lstat(path).st_uid
    except OSError:
        return ""
    return "" if uid == os.geteuid() else user_named(uid)


def user_named(uid: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def generation_of(fd: int) -> int:
    """Return the inode generation, which differs when an inode number is reused; 0 where the file system has none.

    ext4 and XFS reuse a number at once: a folder that is removed and made again may have the same one.
    """
    if sys.platform != "linux":
        return 0
    import fcntl

    found = bytearray(8)
    try:
        fcntl.ioctl(fd, _GET_GENERATION, found)
    except OSError:
        return 0
    return int.from_bytes(found[:4], sys.byteorder)


def read_at(fd: int, wanted: int, offset: int) -> bytes:
    """Read ``wanted`` bytes from ``offset`` on, fewer at the end of the file. Allocates ``wanted`` bytes. Raises
    OSError.
    """
    pieces = []
    while wanted > 0:
        piece = os.pread(fd, wanted, offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        wanted -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_around(fd: int, wanted: int, offset: int) -> bytes:
    """Read like ``read_at``, with zeros for every block that the disk cannot read. Raises OSError for other failures."""
    pieces = []
    end = min(offset + wanted, os.fstat(fd).st_size)
    while offset < end:
        size = min(_BLOCK_BYTES - offset % _BLOCK_BYTES, end - offset)
        try:
            pieces.append(read_at(fd, size, offset))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            pieces.append(bytes(size))
        offset += size
    return b"".join(pieces)


def write_atomic(files: Files, path: str, data: bytes, *, durable: bool = True, mode: int = 0o644) -> None:
    """Replace the file ``path``: it holds its old bytes or all of ``data`` after any failure. ``durable`` syncs it.

    Raises EnvironmentFailure; the temporary file is removed where that is possible.
    """
    write_pieces(files, path, (data,), durable=durable, mode=mode)


def write_pieces(
    files: Files, path: str, pieces: Iterable[bytes], *, durable: bool = True, is_name_durable: bool = True, mode: int = 0o644
) -> None:  # fmt: skip
    """Write like ``write_atomic``, from pieces that need not be in memory at once. An OSError raised by ``pieces``
    counts as a failed write. Without ``is_name_durable`` the caller syncs the folder.
    """
    temporary, fd, held = _new_temporary(files, path, mode)
    try:
        try:
            for piece in pieces:
                write_all(files, fd, piece)
            if durable:
                files.sync(fd)
        finally:
            files.close(fd)
        files.replace(temporary, path)
        if durable and is_name_durable:
            files.sync_folder(os.path.dirname(path) or ".")
    except OSError as error:
        _remove_quietly(temporary)
        raise environment_failure(error, "write", path) from error
    finally:
        _let_go(held)


def _new_temporary(files: Files, path: str, mode: int, tries: int = _TRIES_MAX) -> tuple[str, int, int]:
    """Make a temporary file beside ``path``: its path, a descriptor for writing, and one whose lock tells
    ``leftover`` that the file is in use; −1 where the file system has no locks. Raises EnvironmentFailure.
    """
    folder, name = os.path.dirname(path) or ".", os.path.basename(path)
    # Random, not counted: process ids repeat in containers, next to the leftovers of a dead process.
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    try:
        fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise environment_failure(error, "create", temporary) from error
    held = _hold(fd)
    if held < 0 or not tries or os.path.lexists(temporary):
        return temporary, fd, held
    _let_go(held)  # another process removed it as a leftover before it was locked
    files.close(fd)
    return _new_temporary(files, path, mode, tries - 1)


def _hold(fd: int) -> int:
    try:
        held = os.dup(fd)
    except OSError:
        return -1
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
    except OSError:
        os.close(held)  # a file system without such locks
        return -1
    return held


def _let_go(held: int) -> None:
    if held >= 0:
        os.close(held)


@contextmanager
def leftover(path: str) -> Iterator[bool]:
    """Yield True where no process uses the temporary file ``path``; then none can go on with it during or after the
    block.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield True  # gone, or not a file of ours
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except OSError:
            yield True
        else:
            yield True
    finally:
        os.close(fd)


def write_new(files: Files, path: str, data: bytes, *, durable: bool = True, mode: int = 0o644) -> None:
    """Create the file ``path`` with all of ``data``. An existing file is unchanged. ``durable`` syncs it.

    Raises RefusedError where the name is taken, EnvironmentFailure.
    """
    folder = os.path.dirname(path) or "."
    temporary, fd, held = _new_temporary(files, path, mode)
    try:
        try:
            write_all(files, fd, data)
            if durable:
                files.sync(fd)
        finally:
            files.close(fd)
        name_new(files, temporary, path)
        if durable:
            files.sync_folder(folder)
    except FileExistsError as error:
        raise RefusedError(f"{path} is there already", safe="It was not touched.", mend="Name another file.") from error
    except OSError as error:
        raise environment_failure(error, "write", path) from error
    finally:
        _remove_quietly(temporary)
        _let_go(held)


def name_new(files: Files, temporary: str, path: str) -> None:
    """Rename a finished file to ``path`` without replacing another. ``temporary`` may still exist afterwards.

    Raises FileExistsError where the name is taken, OSError for other failures.
    """
    try:
        files.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(path) from error
        files.replace(temporary, path)  # a file system without links


def write_all(files: Files, fd: int, data: bytes | bytearray) -> None:
    """Write all of ``data``, continuing after short writes."""
    view = memoryview(data)
    while view:
        written = files.write(fd, view)
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        view = view[written:]


def _remove_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # ``doctor`` reports leftover temporary files
