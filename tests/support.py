"""What several test files need: a plain entity type, an opened journal, and a disk that stops at a chosen call."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from periplus.base.clock import Clock, FixedClock, SystemClock
from periplus.base.files import Files
from periplus.journal import EntityType, Journal, Writer, create_store

SHARED = Path(__file__).resolve().parents[2] / "shared"
WRITER = Writer("tester", "who_0000000000000000", "ses", 1)
ADA = Writer("ada", "who_0000000000000001", "", 1)
BOB = Writer("bob", "who_0000000000000002", "", 2)


def check_nothing(payload):
    del payload


TYPES = {
    "decision": EntityType("decision", "dec", is_projected=True, check=check_nothing),
    "note": EntityType("note", "not", is_projected=False, check=check_nothing),
}


def item(number: int, prefix: str = "dec") -> str:
    """A fixed id: the number in the last characters."""
    return f"{prefix}_{number:016d}"


def make_store(folder: Path, clock: Clock | None = None) -> str:
    return create_store(os.fspath(folder / ".periplus"), Files(), clock or FixedClock(step_ms=1)).root


def settle(root: str) -> None:
    """Let lineage.json say that it was written where it lies, as if the store had not been copied."""
    path = Path(root, "journal", "lineage.json")
    status = path.stat()
    own = json.loads(path.read_text()) | {
        "generation": 0,
        "host": os.uname().nodename,
        "device": status.st_dev,
        "inode": status.st_ino,
        "file_system": "",
    }
    path.write_text(json.dumps(own))


def open_journal(root: str, files: Files | None = None, clock: Clock | None = None) -> Journal:
    return Journal(root, TYPES, files=files, clock=clock or SystemClock())


def remove_index(root: str | Path) -> None:
    for path in Path(root).glob("index.sqlite*"):
        path.unlink()


def record_count(project) -> int:
    """The number of records in the lineage of an open project."""
    project.journal.refresh()
    return project.journal.end().next_seq - 1


def segment_path(journal: Journal, first: int = 1) -> Path:
    return Path(journal.reader(journal.lineage).path_of(first))


class Stop(BaseException):
    """The process is gone: nothing after this may run, so it is no Exception."""


class StoppingFiles(Files):
    """Stops at call number ``at`` (from 0). A write stops after ``share`` of its bytes, another call before it runs."""

    def __init__(self, at: int, share: float = 0.0) -> None:
        self.at = at
        self.share = share
        self.calls: list[str] = []

    def _count(self, name: str) -> bool:
        self.calls.append(name)
        return len(self.calls) - 1 == self.at

    def open(self, path, flags, mode=0o644):
        if self._count(f"open {os.path.basename(path)}"):
            raise Stop
        return super().open(path, flags, mode)

    def write(self, fd, data):
        if self._count("write"):
            os.write(fd, bytes(data)[: int(len(data) * self.share)])
            raise Stop
        return super().write(fd, data)

    def pwrite(self, fd, data, offset):
        if self._count("pwrite"):
            os.pwrite(fd, data[: int(len(data) * self.share)], offset)
            raise Stop
        return super().pwrite(fd, data, offset)

    def sync_data(self, fd):
        if self._count("sync_data"):
            raise Stop
        super().sync_data(fd)

    def reserve(self, fd, offset, length):
        if self._count("reserve"):
            raise Stop
        super().reserve(fd, offset, length)

    def sync(self, fd):
        if self._count("sync"):
            raise Stop
        super().sync(fd)

    def sync_folder(self, path):
        if self._count("sync_folder"):
            raise Stop
        super().sync_folder(path)

    def sync_everything(self, path):
        if self._count("sync_everything"):
            raise Stop
        return super().sync_everything(path)

    def replace(self, source, target):
        if self._count(f"replace {os.path.basename(target)}"):
            raise Stop
        super().replace(source, target)

    def touch(self, path, time_ms):
        if self._count("touch"):
            raise Stop
        super().touch(path, time_ms)

    def link(self, source, target):
        if self._count(f"link {os.path.basename(target)}"):
            raise Stop
        super().link(source, target)

    def unlink(self, path):
        if self._count("unlink"):
            raise Stop
        super().unlink(path)

    def make_folder(self, path, mode=0o755):
        if not os.path.isdir(path) and self._count(f"make_folder {os.path.basename(path)}"):
            raise Stop
        super().make_folder(path, mode)

    def remove_folder(self, path):
        if self._count("remove_folder"):
            raise Stop
        super().remove_folder(path)

    def open_at(self, folder, name, flags, mode=0o644):
        if self._count(f"open_at {name}"):
            raise Stop
        return super().open_at(folder, name, flags, mode)

    def replace_at(self, source_folder, source, target_folder, target):
        if self._count(f"replace_at {target}"):
            raise Stop
        super().replace_at(source_folder, source, target_folder, target)

    def unlink_at(self, folder, name):
        if self._count(f"unlink_at {name}"):
            raise Stop
        super().unlink_at(folder, name)

    def make_folder_at(self, folder, name, mode=0o755):
        if self._count(f"make_folder_at {name}"):
            raise Stop
        super().make_folder_at(folder, name, mode)

    def remove_folder_at(self, folder, name):
        if self._count(f"remove_folder_at {name}"):
            raise Stop
        super().remove_folder_at(folder, name)


class FailingFiles(Files):
    """The system call ``name`` fails with ``error`` from its ``after``-th use on; a write may be short instead."""

    def __init__(self, name: str, error: int, *, after: int = 0, short: int | None = None) -> None:
        self.name, self.error, self.after, self.short = name, error, after, short

    def _fails(self, name: str) -> bool:
        if name != self.name:
            return False
        self.after -= 1
        return self.after < 0

    def write(self, fd, data):
        if self._fails("write"):
            if self.short is not None:
                return os.write(fd, bytes(data)[: self.short])
            raise OSError(self.error, os.strerror(self.error))
        return super().write(fd, data)

    def pwrite(self, fd, data, offset):
        if self._fails("pwrite"):
            raise OSError(self.error, os.strerror(self.error))
        return super().pwrite(fd, data, offset)

    def sync_data(self, fd):
        if self._fails("sync_data"):
            raise OSError(self.error, os.strerror(self.error))
        super().sync_data(fd)

    def replace(self, source, target):
        if self._fails("replace"):
            raise OSError(self.error, os.strerror(self.error))
        super().replace(source, target)


PEAK = """
def peak_bytes():
    # The high-water mark of this program alone: ru_maxrss also counts what the parent held when it forked.
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: in bytes
"""


def calls_made(work):
    """How many calls of Python functions ``work`` makes, generators' steps among them: a measure of time that no machine changes."""
    count = 0

    def counted(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def let_everybody_in(tmp_path):
    """Have every user of the machine reach ``tmp_path``, which pytest keeps for its own."""
    outside = Path(tempfile.gettempdir())
    for folder in (tmp_path, *tmp_path.parents):
        if folder in (outside, Path("/")):
            break
        folder.chmod(0o755)
