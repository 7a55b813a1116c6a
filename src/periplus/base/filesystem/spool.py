"""Spool of events: a process without time leaves them for a later one, which handles each once and in order.

Each event is a file, which is complete and on the disk or not there at all. Its name begins with the time, so the order
of names is the order of events, and ends with a checksum of the contents (CRC-32). Leaving an event needs no lock.

The consumer holds a lock of its own and works in three steps: ``begin`` writes the list of a group's files, with a
checksum; the caller handles them under a key derived from their names, so that a repetition has no effect;
``finish`` removes them. After an interruption ``begin`` returns the same group under the same key. Changed files are set
aside for a person.

The spool is bounded. A full spool refuses new events and keeps the waiting ones: a beginning without an end can be
reported, a sequence with holes cannot.

Only files of this user that nobody else could write are accepted and counted: a store may come with an untrusted
repository. Other files stay (``foreign``).
"""

from __future__ import annotations

__all__ = ["SPOOLED_BYTES_MAX", "SPOOLED_FILES_MAX", "SPOOLED_FILE_BYTES_MAX", "Foreign", "Group", "Spool"]

import os
import stat
from binascii import crc32
from typing import Final

from periplus.base.errors import FormatError, RefusedError, environment_failure
from periplus.base.files import TEMPORARY_SUFFIX, Files, read_plain, write_atomic
from periplus.base.named_tuple import NamedTuple

SPOOLED_FILES_MAX: Final = 4_000
SPOOLED_BYTES_MAX: Final = 64 << 20
SPOOLED_FILE_BYTES_MAX: Final = 8 << 20
_GROUP: Final = "group"
_ASIDE: Final = "aside"
_SUFFIX: Final = ".json"
_TIME_DIGITS: Final = 20
_LEFTOVER_S: Final = 3600


class Group(NamedTuple):
    """Files that are handled together, and the key under which they are handled once."""

    names: tuple[str, ...]
    key: str

    @property
    def oldest_ms(self) -> int:
        """Time of the first file; the key is not older."""
        return int(self.names[0][:_TIME_DIGITS]) // 1_000_000


class Foreign(NamedTuple):
    """A file that is not accepted: it belongs to user ``uid`` or, where that is our own, is open to others."""

    name: str
    uid: int


class Spool:
    """The spool in ``folder``, which is made with the first event."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self.folder = folder
        self._files = files or Files()

    def leave(self, data: bytes, at_ns: int, mark: str = "", within_ns: int | None = None) -> bool:
        """Add ``data``. Return False and add nothing where an event with the same ``mark`` (letters and digits) waits
        that was left at most ``within_ns`` before or after ``at_ns``, at any time without ``within_ns``.

        Raises RefusedError where the spool is full or ``data`` too large, EnvironmentFailure.
        """
        if len(data) > SPOOLED_FILE_BYTES_MAX:
            raise RefusedError(f"{len(data):,} bytes; the limit is {SPOOLED_FILE_BYTES_MAX:,}")
        try:
            self._files.make_folder(self.folder, 0o700)
            if not stat.S_ISDIR(os.lstat(self.folder).st_mode):
                raise RefusedError(f"{self.folder} is no folder", mend="Remove it.")
            held = self.waiting()
        except OSError as error:
            raise environment_failure(error, "write in", self.folder) from error
        mark = mark or os.urandom(8).hex()
        twins = [name for name in held if f"-{mark}." in name]
        if any(within_ns is None or abs(int(name[:_TIME_DIGITS]) - at_ns) <= within_ns for name in twins):
            return False
        if len(held) >= SPOOLED_FILES_MAX or self._size(held) + len(data) > SPOOLED_BYTES_MAX:
            raise RefusedError(
                f"{len(held):,} events are waiting already", mend="Run `periplus status`, which processes them."
            )
        name = f"{max(0, at_ns):0{_TIME_DIGITS}d}-{os.getpid()}-{mark}.{crc32(data):08x}{_SUFFIX}"
        write_atomic(self._files, os.path.join(self.folder, name), data, mode=0o600)
        return True

    def waiting(self) -> list[str]:
        """Return the names of the waiting events in order, none without a folder. Raises EnvironmentFailure."""
        return [name for name in self._names() if self._is_ours(name)]

    def foreign(self) -> list[Foreign]:
        """Return the waiting files that are not accepted, in order. Raises EnvironmentFailure."""
        found: list[Foreign] = []
        for name in self._names():
            try:
                status = os.lstat(os.path.join(self.folder, name))
            except OSError:
                continue  # handled meanwhile
            if stat.S_ISREG(status.st_mode) and not _is_private(status):
                found.append(Foreign(name, status.st_uid))
        return found

    def _names(self) -> list[str]:
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise environment_failure(error, "read", self.folder) from error
        times = [(name, name[:_TIME_DIGITS]) for name in names if name.endswith(_SUFFIX)]
        return sorted(name for name, time in times if time.isascii() and time.isdigit())

    def read(self, name: str) -> bytes:
        """Return the contents of event ``name``, empty where it is gone. Raises EnvironmentFailure, FormatError where
        the checksum does not match.
        """
        path = os.path.join(self.folder, name)
        try:
            data = read_plain(path, SPOOLED_FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        stated = name.split(".")[1:-1]  # names of an earlier version have none
        if stated and stated != [f"{crc32(data):08x}"]:
            raise FormatError("the file was changed: its checksum does not match", path=path)
        return data

    def set_aside(self, name: str) -> str:
        """Move event ``name`` out of the queue and keep it for a person; return its new path. Raises
        EnvironmentFailure.
        """
        path, folder = os.path.join(self.folder, name), os.path.join(self.folder, _ASIDE)
        target = os.path.join(folder, name)
        if os.path.lexists(target):
            target += f"-{os.urandom(4).hex()}"
        try:
            self._files.make_folder(folder, 0o700)
            self._files.replace(path, target)
            self._files.sync_folder(folder)
        except FileNotFoundError:
            pass  # set aside by an interrupted process
        except OSError as error:
            raise environment_failure(error, "set aside", path) from error
        return target

    def begin(self, files_max: int, bytes_max: int) -> Group | None:
        """Return the group that was begun and not finished, else the next group; None where nothing waits.

        Raises EnvironmentFailure, FormatError where the list of the begun group was changed: set it aside.
        """
        begun = self._begun()
        if begun is not None:
            return begun
        names: list[str] = []
        room = bytes_max
        for name in self.waiting():
            if len(names) >= files_max:
                break
            room -= self._size([name])
            if room < 0 and names:
                break
            names.append(name)
        if not names:
            self._sweep()
            return None
        listed = "\n".join(names).encode()
        stated = b"%08x\n" % crc32(listed)
        write_atomic(self._files, os.path.join(self.folder, _GROUP), stated + listed, mode=0o600)
        return _group(names)

    def finish(self, group: Group) -> None:
        """Remove the files of a handled group. Raises EnvironmentFailure."""
        try:
            for name in group.names:
                self._unlink(name)
            self._files.sync_folder(self.folder)  # before the list: the files must not reappear without it
            self._unlink(_GROUP)
        except OSError as error:
            raise environment_failure(error, "remove processed events from", self.folder) from error

    def _begun(self) -> Group | None:
        path = os.path.join(self.folder, _GROUP)
        try:
            data = read_plain(path, SPOOLED_FILES_MAX * 100)
            if not self._is_ours(_GROUP):
                raise FormatError("the list of the events in progress was written by another user", path=path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        stated, _, listed = data.partition(b"\n")
        if stated[:_TIME_DIGITS].isdigit() and stated.endswith(
            _SUFFIX.encode()
        ):  # an earlier version wrote no checksum
            listed = data
        elif stated != b"%08x" % crc32(listed):
            raise FormatError("the list of the events in progress was changed: its checksum does not match", path=path)
        names = [
            name for name in listed.decode("ascii", "replace").split("\n") if name.endswith(_SUFFIX) and "/" not in name
        ]
        return _group(names) if names else None

    def _is_ours(self, name: str) -> bool:
        """Test that this user left the file."""
        try:
            return _is_private(os.lstat(os.path.join(self.folder, name)))
        except OSError:
            return False

    def _unlink(self, name: str) -> None:
        try:
            self._files.unlink(os.path.join(self.folder, name))
        except FileNotFoundError:
            pass  # removed by an interrupted process

    def _size(self, names: list[str]) -> int:
        size = 0
        for name in names:
            try:
                size += os.lstat(os.path.join(self.folder, name)).st_size
            except OSError:
                continue  # handled meanwhile
        return size

    def _sweep(self) -> None:
        """Remove unfinished files of killed processes that are old enough to be unused."""
        import time

        try:
            with os.scandir(self.folder) as entries:
                old = [
                    entry.name for entry in entries
                    if entry.name.endswith(TEMPORARY_SUFFIX)
                    and entry.stat(follow_symlinks=False).st_mtime < time.time() - _LEFTOVER_S
                ]  # fmt: skip
            for name in old:
                self._unlink(name)
        except OSError:
            pass  # next time; nobody reads them


def _is_private(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _group(names: list[str]) -> Group:
    import hashlib

    return Group(tuple(names), f"spool.{hashlib.sha256('/'.join(names).encode()).hexdigest()[:32]}")
