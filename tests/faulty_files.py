"""A file layer that goes wrong on purpose, under the real code.

``FaultyFiles`` stops, fails or tears at one call and from then on. ``PowerFiles`` knows which bytes and names were
synced: at a power cut it writes down what a disk may hold then, which is any part of the rest.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from periplus.base.files import Files
from support import Stop

ENOUGH = 1 << 62
# What the system may answer to each call. A close is not failed: Linux closes the file whatever it answers.
ERRORS = {
    "open": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EACCES),
    "write": (errno.EIO, errno.ENOSPC, errno.EDQUOT, 0),  # 0: a short write
    "pwrite": (errno.EIO, errno.ENOSPC, errno.EDQUOT, 0),
    "reserve": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EOPNOTSUPP),
    "sync": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "sync_data": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "sync_folder": (errno.EIO, errno.EMFILE),
    "sync_everything": (errno.EIO, errno.EMFILE),
    "replace": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES),
    "link": (errno.EIO, errno.ENOSPC, errno.EMLINK),
    "touch": (errno.EIO, errno.EACCES),
    "unlink": (errno.EIO, errno.EACCES),
    "remove_folder": (errno.EIO, errno.EACCES),
    "make_folder": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
}
NEEDS_SPACE = ("write", "pwrite", "reserve", "sync", "sync_data", "replace", "link", "make_folder")


class Fault(NamedTuple):
    """What happens at call number ``at`` (from 0): with ``error`` 0 the process is gone, after ``share`` of a write."""

    at: int
    share: float = 0.0
    error: int | None = None  # 0: a short write
    is_lasting: bool = False

    def __str__(self) -> str:
        if self.error is None:
            return f"stop at {self.at}, {self.share} written"
        name = errno.errorcode[self.error] if self.error else "short write"
        return f"{name} at {self.at}{' and from then on' if self.is_lasting else ''}"


class FaultyFiles(Files):
    """Counts the calls that the disk sees; ``fault`` says what goes wrong. Whoever is stopped does nothing any more."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault or Fault(ENOUGH)
        self.calls: list[str] = []
        self.is_stopped = False
        self.failures = 0

    def _at(self, name: str, *, makes: bool = False, what: str = "") -> Fault | None:
        """The fault, if this call meets it; raises where that is all there is to it."""
        if self.is_stopped:
            raise Stop
        number = len(self.calls)
        self.calls.append(name)
        fault = self.fault
        if number < fault.at or (number > fault.at and not self._lasts(fault, name, makes=makes)):
            return None
        self.failures += 1
        if fault.error is None:
            self.is_stopped = True
            if name in ("write", "pwrite"):
                return fault
            raise Stop
        if fault.error == 0:
            return fault
        raise OSError(fault.error, os.strerror(fault.error), what or None)

    def _lasts(self, fault: Fault, name: str, *, makes: bool) -> bool:
        if not fault.is_lasting or fault.error is None:
            return False
        if fault.error in (0, errno.ENOSPC, errno.EDQUOT):
            return name in NEEDS_SPACE or makes
        if fault.error == errno.EMFILE:
            return name in ("open", "sync_folder", "sync_everything")
        return fault.error in ERRORS[name]

    def open(self, path, flags, mode=0o644):
        self._at("open", makes=bool(flags & os.O_CREAT), what=path)
        return super().open(path, flags, mode)

    def write(self, fd, data):
        return self._written("write", fd, data, lambda part: os.write(fd, part))

    def pwrite(self, fd, data, offset):
        return self._written("pwrite", fd, data, lambda part: os.pwrite(fd, part, offset))

    def _written(self, name: str, fd: int, data, write: Callable[[bytes], int]) -> int:
        fault = self._at(name)
        if fault is None:
            return write(bytes(data))
        if fault.error == 0:
            if self.failures > 1:  # after the short write the disk is full, as it is in life
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(bytes(data)[: len(data) // 2])
        write(bytes(data)[: int(len(data) * fault.share)])
        raise Stop

    def sync_data(self, fd):
        self._at("sync_data")
        super().sync_data(fd)

    def reserve(self, fd, offset, length):
        self._at("reserve")
        super().reserve(fd, offset, length)

    def sync(self, fd):
        self._at("sync")
        super().sync(fd)

    def sync_folder(self, path):
        self._at("sync_folder", what=path)
        super().sync_folder(path)

    def sync_everything(self, path):
        self._at("sync_everything", what=path)
        return super().sync_everything(path)

    def replace(self, source, target):
        self._at("replace", what=source)
        super().replace(source, target)

    def touch(self, path, time_ms):
        self._at("touch", what=path)
        super().touch(path, time_ms)

    def link(self, source, target):
        self._at("link", what=target)
        super().link(source, target)

    def unlink(self, path):
        self._at("unlink", what=path)
        super().unlink(path)

    def remove_folder(self, path):
        self._at("remove_folder", what=path)
        super().remove_folder(path)

    def make_folder(self, path, mode=0o755):
        if not os.path.isdir(path):
            self._at("make_folder", what=path)
        super().make_folder(path, mode)

    def open_at(self, folder, name, flags, mode=0o644):
        self._at("open", makes=bool(flags & os.O_CREAT), what=name)
        return super().open_at(folder, name, flags, mode)

    def replace_at(self, source_folder, source, target_folder, target):
        self._at("replace", what=source)
        super().replace_at(source_folder, source, target_folder, target)

    def unlink_at(self, folder, name):
        self._at("unlink", what=name)
        super().unlink_at(folder, name)

    def make_folder_at(self, folder, name, mode=0o755):
        self._at("make_folder", what=name)
        super().make_folder_at(folder, name, mode)

    def remove_folder_at(self, folder, name):
        self._at("remove_folder", what=name)
        super().remove_folder_at(folder, name)


SECTOR = 512


class _Inode:
    """A file's bytes as the disk surely has them, and what was written since."""

    def __init__(self, durable: bytes) -> None:
        self.durable = durable
        self.pending: list[tuple[int, bytes]] = []

    def now(self) -> bytes:
        return _applied(self.durable, self.pending)

    def after_cut(self, chance: random.Random) -> bytes:
        """Any part of what was not synced, sector by sector; what was not written reads as zeros or as old data."""
        kind = chance.randrange(4)
        if kind == 0 or not self.pending:
            return self.durable
        if kind == 1:
            return self.now()
        kept = []
        for offset, data in self.pending[: chance.randint(0, len(self.pending))] if kind == 2 else self.pending:
            at = 0
            while at < len(data):
                size = min(SECTOR - (offset + at) % SECTOR, len(data) - at)
                if chance.random() < 0.6:
                    kept.append((offset + at, data[at : at + size]))
                at += size
        data = _applied(self.durable, kept)
        size = len(self.now())
        if chance.random() < 0.5 and len(data) < size:  # the size reached the disk, its blocks did not
            hole = size - len(data)
            data += bytes(hole) if chance.random() < 0.7 else chance.randbytes(hole)
        return data


def _applied(data: bytes, writes: list[tuple[int, bytes]]) -> bytes:
    whole = bytearray(data)
    for offset, piece in writes:
        if len(whole) < offset:
            whole += bytes(offset - len(whole))
        whole[offset : offset + len(piece)] = piece
    return bytes(whole)


class PowerFiles(Files):
    """Writes through, syncs nothing, and remembers what a sync would have made sure of below ``root``.

    What POSIX does not promise is not relied on: a synced file whose folder was not synced may have no name.
    """

    def __init__(self, root: str, boot: str = "one") -> None:
        self.root = root
        self.boot = boot
        self.calls = 0
        self.cut_at: Callable[[int], None] = lambda _call: None
        self.names: dict[str, _Inode] = {}  # as they are
        self.durable: dict[str, _Inode] = {}
        self.young: set[str] = set()  # folders whose name is in a folder that was not synced since
        self.changes: list[tuple[str, str, _Inode | None]] = []  # not durable yet: (path, "" or source, file or folder)
        self.fds: dict[int, tuple[_Inode, str]] = {}
        for folder, _, files in os.walk(root):
            for name in files:
                path = os.path.join(folder, name)
                if self._is_ours(path):
                    self.names[path] = self.durable[path] = _Inode(Path(path).read_bytes())

    def _is_ours(self, path: str) -> bool:
        """SQLite and the locks write by themselves; the map says of itself that another boot may not believe it."""
        name = os.path.basename(path)
        return not name.startswith("index.sqlite") and name not in ("flush", "lock", "projection.lock")

    def _count(self) -> None:
        self.calls += 1
        self.cut_at(self.calls)

    def boot_id(self):
        return self.boot

    def open(self, path, flags, mode=0o644):
        self._count()
        fd = super().open(path, flags, mode)
        if self._is_ours(path) and os.path.isfile(path):
            inode = self.names.get(path)
            if inode is None:
                inode = self.names[path] = _Inode(b"" if flags & os.O_CREAT else Path(path).read_bytes())
                self.changes.append((path, "", inode))
            if flags & os.O_TRUNC:
                inode.durable, inode.pending = b"", []  # the worse case
            self.fds[fd] = (inode, path)
        else:
            self.fds.pop(fd, None)  # the number was somebody's who closed it by himself
        return fd

    def close(self, fd):
        self.fds.pop(fd, None)
        super().close(fd)

    def write(self, fd, data):
        self._count()
        known = self._known(fd)
        done = super().write(fd, data)
        if known is not None:
            known.pending.append((os.lseek(fd, 0, os.SEEK_CUR) - done, bytes(data)[:done]))
        return done

    def pwrite(self, fd, data, offset):
        self._count()
        known = self._known(fd)
        if known is not None:
            known.pending.append((offset, bytes(data)))
        return super().pwrite(fd, data, offset)

    def _known(self, fd: int) -> _Inode | None:
        """The file behind ``fd``; a number that was closed elsewhere and given out again is another one's."""
        found = self.fds.get(fd)
        return found[0] if found is not None else None

    def sync_data(self, fd):
        self._count()
        known = self._known(fd)
        if known is not None:
            known.durable, known.pending = known.now(), []

    def sync(self, fd):
        self.sync_data(fd)

    def sync_folder(self, path):
        self._count()
        kept = []
        for change in self.changes:
            target, source, inode = change
            if path in (os.path.dirname(target), os.path.dirname(source)):
                self._settle(self.durable, change)
            else:
                kept.append((target, source, inode))
        self.changes = kept
        self.young = {folder for folder in self.young if os.path.dirname(folder) != path}

    def sync_everything(self, path):
        self._count()
        for inode in self.names.values():
            inode.durable, inode.pending = inode.now(), []
        self.durable, self.changes, self.young = dict(self.names), [], set()
        return True

    def _settle(self, names: dict[str, _Inode], change: tuple[str, str, _Inode | None]) -> None:
        target, source, inode = change
        if source:
            names.pop(source, None)
        if inode is None:
            names.pop(target, None)
        else:
            names[target] = inode

    def replace(self, source, target):
        self._count()
        super().replace(source, target)
        inode = self.names.pop(source, None)
        if inode is None:
            if os.path.isdir(target):
                self._folder_moved(source, target)
            return
        self.names[target] = inode
        self.changes.append((target, source, inode))

    def link(self, source, target):
        self._count()
        super().link(source, target)
        self.names[target] = inode = self.names[source]
        self.changes.append((target, "", inode))

    def _folder_moved(self, source: str, target: str) -> None:
        for path in [path for path in self.names if path.startswith(source + "/")]:
            inode = self.names.pop(path)
            moved = target + path[len(source) :]
            self.names[moved] = inode
            self.changes.append((moved, path, inode))

    def unlink(self, path):
        self._count()
        super().unlink(path)
        if self.names.pop(path, None) is not None:
            self.changes.append((path, "", None))

    def remove_folder(self, path):
        self._count()
        super().remove_folder(path)
        self.young.discard(path)

    def make_folder(self, path, mode=0o755):
        self._count()
        missing = path
        while missing.startswith(self.root) and not os.path.isdir(missing):
            self.young.add(missing)
            missing = os.path.dirname(missing)
        super().make_folder(path, mode)

    def cut(self, target: str, chance: random.Random, boot: str = "two") -> None:
        """Write what the disk may hold now to the folder ``target``."""
        names = dict(self.durable)
        kind = chance.randrange(3)
        changes = list(self.changes)
        if kind == 0:
            changes = []
        elif kind == 1:
            changes = changes[: chance.randint(0, len(changes))]
        else:
            folders = {os.path.dirname(path) for path, _, _ in changes}
            kept = {folder: chance.random() < 0.5 for folder in sorted(folders)}
            changes = [change for change in changes if kept[os.path.dirname(change[0])]]
        for change in changes:
            self._settle(names, change)
        os.makedirs(target)
        lost = tuple(f"{folder}/" for folder in sorted(self.young) if kind == 0 or chance.random() < 0.3)
        for path, inode in sorted(names.items()):
            if path.startswith(lost):
                continue
            place = Path(target, os.path.relpath(path, self.root))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(inode.after_cut(chance))
            place.chmod(0o600 if path.endswith((".private", "/trail")) else 0o644)
        for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "journal/flush"):
            here = Path(self.root, name)
            if here.exists() and chance.random() < 0.9:
                shutil.copy(here, Path(target, name))
