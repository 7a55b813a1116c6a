"""Files at the edge: every system call that changes the disk goes through one small object.

``Files`` is that object; crash tests replace it by one that stops, tears or fails at the n-th call. What is
particular to a system (which sync reaches the disk) stands here and nowhere else.
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
_BLOCK_BYTES: Final = 4096  # what a bad sector takes with it: a page of the cache
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that was to get another name when it was whole: it counts for nothing."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


class Files:
    """The system calls that write. Raises OSError; nothing here retries, and a sync never runs twice."""

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        """No link is followed and no pipe is waited for: a store may come from anybody."""
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        """Number of bytes written, which may be fewer than given (a full disk, a limit)."""
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def sync_data(self, fd: int) -> None:
        """Bytes and size of the file reach the disk; times need not."""
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync stops at the drive's cache on macOS
        else:
            os.fdatasync(fd)

    def begin_sync(self, fd: int, offset: int, length: int) -> None:
        """Let these bytes set out for the disk while the caller goes on: ``sync_data`` has less to wait for then.

        It promises nothing, and whatever goes wrong on the way is what the sync tells.
        """
        if sys.platform == "linux":  # where dirty pages that are said to be of no more use are written at once
            try:
                os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)
            except OSError:
                pass  # no more than advice

    def reserve(self, fd: int, offset: int, length: int) -> None:
        """Have room on the disk for bytes that are to come there; the file stays as long as it is. Raises OSError.

        What is written into it then needs no room to be found, nor that to be written down: the sync has less to do.
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
        """The folder's entries reach the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_everything(self, path: str) -> bool:
        """What was written to the file system of ``path`` reaches the disk; False where the system has no such call."""
        if sys.platform != "linux":
            return False
        import ctypes

        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        except AttributeError:
            return False  # a C library without it
        finally:
            os.close(fd)
        return True

    def boot_id(self) -> str:
        """Another after each start of the machine. What was written in this one and not synced is there till it ends."""
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                return file.read(64).strip()
        except OSError:
            return _boot_time()

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def touch(self, path: str, time_ms: int) -> None:
        """Let the file say that it was written at ``time_ms``."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000), follow_symlinks=False)

    def link(self, source: str, target: str) -> None:
        """``target`` is ``source`` too; unlike a rename it never takes the place of a file that is there."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """An empty folder."""
        os.rmdir(path)

    def make_folder(self, path: str, mode: int = 0o755) -> None:
        os.makedirs(path, mode, exist_ok=True)

    # The same by an open folder and a name in it, for who must know which folder it is: see ``base.confined``.

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
    """For what is looked at and removed again: nothing of it needs to reach the disk."""

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
    """For systems without a boot id: when the machine was started, as far as that is told; else nothing is believed."""
    import ctypes

    if os.uname().sysname != "Darwin":
        return f"unknown {os.urandom(8).hex()}"

    value = (ctypes.c_long * 2)()
    size = ctypes.c_size_t(ctypes.sizeof(value))
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.boottime", ctypes.byref(value), ctypes.byref(size), None, 0)
    return f"unknown {os.urandom(8).hex()}" if failed else f"started {value[0]}"


_stamp_of: Final = attrgetter("st_dev", "st_ino", "st_mtime_ns", "st_ctime_ns")


class FolderWatch:
    """Whether a folder still has the names it had when it was listed, at the price of one ``stat``.

    A file system may keep times no finer than two seconds, so that a change soon after another leaves no trace: a
    listing of a folder that had changed within _SETTLED_NS of it is not relied on.
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
        """Something to ask whether the folder still has the names that were listed last, at less than half the price.

        It asks the folder itself, and not whether its path leads there still: who asks has to know that otherwise. None
        where the listing is not relied on, or the folder cannot be opened.
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
        self.close()  # another stands there now
        return None

    def names(self) -> list[str]:
        """The folder's names, in no order; not to be changed. The same list as long as it is relied on. Raises OSError."""
        stamp = _stamp_of(os.stat(self.path))
        if stamp != self._stamp:
            self._names = os.listdir(self.path)
            is_settled = 0 < max(stamp[2:]) < time.time_ns() - self._SETTLED_NS
            self._stamp = stamp if is_settled else None
        return self._names

    @property
    def last_names(self) -> list[str]:
        """What ``names`` gave last."""
        return self._names


def read_plain(
    path: str, bytes_max: int, offset: int = 0, *, read: Callable[[int, int, int], bytes] | None = None
) -> bytes:
    """At most ``bytes_max`` bytes of the file from ``offset`` on, by ``read`` instead of ``read_at``. Raises OSError."""
    fd = open_plain(path)
    try:
        return (read or read_at)(fd, min(bytes_max, max(os.fstat(fd).st_size - offset, 0)), offset)
    finally:
        os.close(fd)


def open_plain(path: str) -> int:
    """A descriptor to read the file. Raises OSError, also for what is no plain file.

    Whoever reads a store reads what somebody else may have put there: a pipe must not hold the reader for ever.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "Not a plain file", path)
    return fd


def user_of(path: str) -> str:
    """Whose the file or folder is, as "user ada"; empty where it is this process' own, or nobody can tell."""
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
    """What tells the file's inode from an earlier or later one of its number; 0 where the file system does not say.

    A number is given again at once on ext4 and XFS: a folder that is removed and put back has the same ones.
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
    """``wanted`` bytes from ``offset`` on, fewer where the file ends; memory is taken for all of them. Raises OSError."""
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
    """As ``read_at``, with zeros in place of every block that the disk does not give back. Raises OSError otherwise."""
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
    """``path`` holds either its old bytes or all of ``data``, whatever happens; with ``durable`` for good.

    Raises EnvironmentFailure; the temporary file is removed where that is still possible.
    """
    write_pieces(files, path, (data,), durable=durable, mode=mode)


def write_pieces(
    files: Files, path: str, pieces: Iterable[bytes], *, durable: bool = True, is_name_durable: bool = True, mode: int = 0o644
) -> None:  # fmt: skip
    """As ``write_atomic``, of what need not be held at once; an OSError of ``pieces`` counts as one of writing. Where not ``is_name_durable``
    the caller syncs the folder.
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
    """A new file beside ``path``: its own path, a descriptor to write by, and one by which ``leftover`` knows, as long as it is open, that
    somebody is at it; −1 where that cannot be had. Raises EnvironmentFailure.
    """
    folder, name = os.path.dirname(path) or ".", os.path.basename(path)
    # Random, not counted: in containers the same process id comes again, next to the leftovers of the one that died.
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    try:
        fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise environment_failure(error, "create", temporary) from error
    held = _hold(fd)
    if held < 0 or not tries or os.path.lexists(temporary):
        return temporary, fd, held
    _let_go(held)  # somebody took it for a leftover, between its making and the lock
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
    """Whether nobody is at the temporary file ``path``; then nobody goes on with it within the block, or behind it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield True  # gone, or no file that one of ours is writing
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
    """A new file ``path`` with all of ``data``, or none; what is there already keeps its name and its bytes. With ``durable`` for good.

    Raises RefusedError where there is something of that name, EnvironmentFailure.
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
    """Give a finished file the name ``path``, and take no other file's place. ``temporary`` may still be there then.

    Raises FileExistsError where there is something of that name, OSError for the rest.
    """
    try:
        files.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(path) from error
        files.replace(temporary, path)  # a file system that knows no links


def write_all(files: Files, fd: int, data: bytes | bytearray) -> None:
    """Write all of ``data``, going on after a short write until the system refuses."""
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
        pass  # doctor reports leftover temporary files
