"""A spool: what a process in a hurry leaves for the next one that has time. In order, each thing once.

Each thing is a file of its own, whole and on the disk under its name or not there at all. The name begins with the time,
so the names in their order are the things in theirs, and ends with a checksum of what is in it (CRC-32). Nobody waits for anybody: leaving needs no lock.

Who takes things in holds a lock of his own and goes in three strides: ``begin`` writes down which files make the group, with a
checksum before them; the caller does with them, under a key that follows from their names, what is to be done once; ``finish`` removes
them. Who was stopped in between finds the same group again, under the same key. What is not as it was left is set aside for a person.

The spool is bounded. When it is full, what comes is refused, and what waits stays: a beginning without its end can be
told, a sequence with holes cannot.

Only what this user left and nobody else could have written is taken in, and counts: a store may come with a repository that anybody
made, and with words that nobody said. What others left waits for them (``foreign``).
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
    """Files that are taken in together, and the key under which that is done once."""

    names: tuple[str, ...]
    key: str

    @property
    def oldest_ms(self) -> int:
        """When the first of them was left: the key is not older."""
        return int(self.names[0][:_TIME_DIGITS]) // 1_000_000


class Foreign(NamedTuple):
    """A file that is not taken in: of user ``uid``, or where that is our own, one that is open to others."""

    name: str
    uid: int


class Spool:
    """The spool in ``folder``, which is made when the first thing is left."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self.folder = folder
        self._files = files or Files()

    def leave(self, data: bytes, at_ns: int, mark: str = "", within_ns: int | None = None) -> bool:
        """Leave ``data``. With a ``mark`` (letters and digits) that something waiting has, left at most ``within_ns`` before or
        after ``at_ns``, nothing is left: False. Without ``within_ns``, whenever that was left.

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
            raise RefusedError(f"{len(held):,} events wait already", mend="Run `periplus status`, which takes them in.")
        name = f"{max(0, at_ns):0{_TIME_DIGITS}d}-{os.getpid()}-{mark}.{crc32(data):08x}{_SUFFIX}"
        write_atomic(self._files, os.path.join(self.folder, name), data, mode=0o600)
        return True

    def waiting(self) -> list[str]:
        """The names of what waits for us, in order; nothing where no folder stands there. Raises EnvironmentFailure."""
        return [name for name in self._names() if self._is_ours(name)]

    def foreign(self) -> list[Foreign]:
        """The files that wait and that are not taken in, in order. Raises EnvironmentFailure."""
        found: list[Foreign] = []
        for name in self._names():
            try:
                status = os.lstat(os.path.join(self.folder, name))
            except OSError:
                continue  # taken in meanwhile
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
        """What waits under ``name``; empty where it does not any more. Raises EnvironmentFailure, FormatError for what is not
        what was left.
        """
        path = os.path.join(self.folder, name)
        try:
            data = read_plain(path, SPOOLED_FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        stated = name.split(".")[1:-1]  # none in a name that an earlier version gave
        if stated and stated != [f"{crc32(data):08x}"]:
            raise FormatError("not what was left there: its checksum does not hold", path=path)
        return data

    def set_aside(self, name: str) -> str:
        """Keep what waits under ``name`` for a person, where nobody takes it in; gives its new path. Raises EnvironmentFailure."""
        path, folder = os.path.join(self.folder, name), os.path.join(self.folder, _ASIDE)
        target = os.path.join(folder, name)
        if os.path.lexists(target):
            target += f"-{os.urandom(4).hex()}"
        try:
            self._files.make_folder(folder, 0o700)
            self._files.replace(path, target)
            self._files.sync_folder(folder)
        except FileNotFoundError:
            pass  # set aside by who was stopped before us
        except OSError as error:
            raise environment_failure(error, "set aside", path) from error
        return target

    def begin(self, files_max: int, bytes_max: int) -> Group | None:
        """The group that somebody began to take in, else the next one; None where nothing waits.

        Raises EnvironmentFailure, FormatError where the list of such a group is not as it was written: set it aside.
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
        """What was to be done with the group is done. Raises EnvironmentFailure."""
        try:
            for name in group.names:
                self._unlink(name)
            self._files.sync_folder(self.folder)  # before the group: its files must not come back without it
            self._unlink(_GROUP)
        except OSError as error:
            raise environment_failure(error, "remove what was taken in from", self.folder) from error

    def _begun(self) -> Group | None:
        path = os.path.join(self.folder, _GROUP)
        try:
            data = read_plain(path, SPOOLED_FILES_MAX * 100)
            if not self._is_ours(_GROUP):
                raise FormatError("the list of what is being taken in was left by another", path=path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        stated, _, listed = data.partition(b"\n")
        if stated[:_TIME_DIGITS].isdigit() and stated.endswith(
            _SUFFIX.encode()
        ):  # as an earlier version wrote it, without a checksum
            listed = data
        elif stated != b"%08x" % crc32(listed):
            raise FormatError(
                "the list of what is being taken in is not as it was written: its checksum does not hold", path=path
            )
        names = [
            name for name in listed.decode("ascii", "replace").split("\n") if name.endswith(_SUFFIX) and "/" not in name
        ]
        return _group(names) if names else None

    def _is_ours(self, name: str) -> bool:
        """Whether we left it."""
        try:
            return _is_private(os.lstat(os.path.join(self.folder, name)))
        except OSError:
            return False

    def _unlink(self, name: str) -> None:
        try:
            self._files.unlink(os.path.join(self.folder, name))
        except FileNotFoundError:
            pass  # removed by who was stopped before us

    def _size(self, names: list[str]) -> int:
        size = 0
        for name in names:
            try:
                size += os.lstat(os.path.join(self.folder, name)).st_size
            except OSError:
                continue  # taken in meanwhile
        return size

    def _sweep(self) -> None:
        """Remove what a killed process left half written, once it is surely nobody's."""
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
