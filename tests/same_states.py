"""When two folders with stores are the same state, whatever made them: a fault matrix judges each state once.

Under ``steady`` time, chance and new keys come in the same order each time: what is done twice from the same state leaves
the same bytes. ``digest`` is of all that is in a folder: names, kinds, modes, bytes, times that lie before it was made. Only what a
copy cannot keep is told by what it means: where ``lineage.json`` says that it lies, and the stamps of files in the index,
as being those of the files that are there, or others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from periplus.journal.projections.entity_file import stamp_of

STEP_NS = 1_000_000


@contextlib.contextmanager
def steady(begin_ns: int) -> Iterator[None]:
    """Time that begins at ``begin_ns`` and goes on by a step at each reading, and numbers that chance gives each time."""
    chance = random.Random(begin_ns)
    now_ns = begin_ns

    def read_ns() -> int:
        nonlocal now_ns
        now_ns += STEP_NS
        return now_ns

    def new_key(_kind: type[Ed25519PrivateKey]) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(chance.randbytes(32))

    kept = os.urandom, time.time_ns, time.monotonic_ns, time.monotonic
    kept_generate = vars(Ed25519PrivateKey)["generate"]
    os.urandom = chance.randbytes
    time.time_ns = time.monotonic_ns = read_ns
    time.monotonic = lambda: read_ns() / 1e9
    Ed25519PrivateKey.generate = classmethod(new_key)
    try:
        yield
    finally:
        os.urandom, time.time_ns, time.monotonic_ns, time.monotonic = kept
        Ed25519PrivateKey.generate = kept_generate


def digest(folder: Path, made_ns: int) -> bytes | None:
    """Of all in ``folder``, made at ``made_ns``; None where an index waits for its log, which says more than its tables."""
    parts = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        age = status.st_mtime_ns if status.st_mtime_ns < made_ns and stat.S_ISREG(status.st_mode) else "new"
        name = path.relative_to(folder)
        if path.name in ("index.sqlite-wal", "index.sqlite-journal") and status.st_size:
            return None
        if path.name == "index.sqlite-shm":  # SQLite makes it anew of the log
            continue
        parts.append(f"{name} {status.st_mode:o} {age if path.name != 'index.sqlite' else ''} {_content(path, status)}")
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).digest()


def _content(path: Path, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return ""
    if path.name == "index.sqlite":
        return _tables(path)
    data = path.read_bytes()
    if path.name == "lineage.json":
        data = _placed(data, status)
    return hashlib.sha256(data).hexdigest()


def _placed(data: bytes, status: os.stat_result) -> bytes:
    try:
        own = json.loads(data)
        is_here = own.pop("device") == status.st_dev, own.pop("inode") == status.st_ino
    except (ValueError, KeyError, AttributeError):
        return data
    return json.dumps([own, is_here]).encode()


def _tables(path: Path) -> str:
    """What the index says. It has no log: its file alone is read, and nothing is changed by that."""
    parts = []
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as db:
            for name, text in db.execute("SELECT name, sql FROM sqlite_master ORDER BY type, name").fetchall():
                parts.append(f"{name} {text}")
                if text and text.startswith("CREATE TABLE"):
                    parts += [repr(_row(path.parent, name, row)) for row in db.execute(f'SELECT * FROM "{name}"')]
    except sqlite3.DatabaseError:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return "\n".join(parts)


def _row(root: Path, table: str, row: tuple[object, ...]) -> tuple[object, ...]:
    if table != "files" or not row[3]:
        return row
    kind, name, sha256, stamp, *more = row
    return (kind, name, sha256, stamp == stamp_of(os.fspath(root / "entities" / str(kind) / f"{name}.json")), *more)
