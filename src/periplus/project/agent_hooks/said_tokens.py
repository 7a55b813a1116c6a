"""Tokens that hooks said to agents, by estimate: in the last session of each agent, and in all of this store.

Each hook that answers adds a line to ``.periplus/hooks/said``: agent, digest of the session, time in ms, tokens. When the
file has grown, ``fold`` replaces it: a line for each of the newest sessions, and one line for all older sessions of an
agent, with ``-`` in place of a digest and their number as fifth word. A hook takes the lock of the file and checks that
the path still names it before it adds a line, so no line is lost.

The file is used only if this user owns it and nobody else can read or write it. It belongs to this machine and cannot be
derived: without it the counts begin anew.
"""

from __future__ import annotations

__all__ = ["SaidTokens", "add_said", "fold", "read_said"]

import fcntl
import os
import re
import stat
from collections.abc import Iterable
from typing import Final

from periplus.base.encoding.digests import sha256
from periplus.base.named_tuple import NamedTuple
from periplus.base.text.token_estimate import estimate_tokens

_FILE: Final = "said"
_BYTES_MAX: Final = 1 << 20
_FOLDED_BYTES: Final = 1 << 16
_SESSIONS_KEPT: Final = 200
_TRIES: Final = 3
_OLDER: Final = "-"
_LINE: Final = re.compile(r"([a-z][a-z0-9-]{0,39}) ([0-9a-f]{16}|-) ([0-9]{1,15}) ([0-9]{1,15})(?: ([0-9]{1,9}))?")


class SaidTokens(NamedTuple):
    """Tokens that hooks said to an agent in its last session, and in all ``sessions`` in which they said anything. ``last_ms`` is
    when they said something last.
    """

    last_tokens: int
    tokens: int
    sessions: int
    last_ms: int


class _Row(NamedTuple):
    agent: str
    session: str
    last_ms: int
    tokens: int
    sessions: int = 1


def add_said(hooks: str, agent: str, session: str, texts: Iterable[str], now_ms: int) -> None:
    """Count the tokens of ``texts``, which were said in ``session``. Raises OSError."""
    tokens = sum(map(estimate_tokens, texts))
    digest = sha256(f"{agent}\0{session}".encode("utf-8", "replace")).hex()[:16]
    line = f"{agent} {digest} {now_ms} {tokens}"
    path = os.path.join(hooks, _FILE)
    if not tokens or _LINE.fullmatch(line) is None:
        return
    os.makedirs(hooks, 0o700, exist_ok=True)
    for _ in range(_TRIES):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            held = os.fstat(fd)
            if not _is_private(held) or held.st_size > _BYTES_MAX:
                return
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False)):
                os.write(fd, f"{line}\n".encode())
                return
        except FileNotFoundError:
            continue  # replaced just now
        finally:
            os.close(fd)


def read_said(hooks: str) -> dict[str, SaidTokens]:
    """Return what hooks said by agent."""
    try:
        fd = os.open(os.path.join(hooks, _FILE), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return {}
    try:
        rows = _rows(_read(fd))
    finally:
        os.close(fd)
    found: dict[str, SaidTokens] = {}
    for row in sorted(rows, key=lambda row: row.last_ms):
        held = found.get(row.agent, SaidTokens(0, 0, 0, 0))
        last = held.last_tokens if row.session == _OLDER else row.tokens
        found[row.agent] = SaidTokens(last, held.tokens + row.tokens, held.sessions + row.sessions, row.last_ms)
    return found


def fold(hooks: str) -> None:
    """Make the file smaller where it has grown large, with the same sums. Raises OSError."""
    path = os.path.join(hooks, _FILE)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    try:
        if os.fstat(fd).st_size <= _FOLDED_BYTES or not _is_private(os.fstat(fd)):
            return
        fcntl.flock(fd, fcntl.LOCK_EX)
        if not os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False)):
            return  # another process has just done it
        rows = sorted(_rows(_read(fd)), key=lambda row: row.last_ms)
        newest = {row.agent: row for row in rows if row.session != _OLDER}.values()
        kept = [row for row in rows if row.session != _OLDER][-_SESSIONS_KEPT:]
        kept += [row for row in newest if row not in kept]
        older: dict[str, _Row] = {}
        for row in rows:
            if row not in kept:
                held = older.get(row.agent, _Row(row.agent, _OLDER, 0, 0, 0))
                older[row.agent] = _Row(
                    row.agent, _OLDER, row.last_ms, held.tokens + row.tokens, held.sessions + row.sessions
                )
        _replace(path, [*older.values(), *kept])
    finally:
        os.close(fd)


def _replace(path: str, rows: Iterable[_Row]) -> None:
    text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
    new = f"{path}.new"  # of this process alone: it holds the lock of the file
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(new, path)


def _rows(data: bytes) -> list[_Row]:
    """Return a row for each session, and one for each agent's older ones. What is no such line is skipped."""
    found: dict[tuple[str, str], _Row] = {}
    for line in data.decode("ascii", "replace").split("\n"):
        read = _LINE.fullmatch(line)
        if read is None:
            continue
        row = _Row(read[1], read[2], int(read[3]), int(read[4]), int(read[5] or 1))
        held = found.get(row[:2])
        if held is not None:
            sessions = held.sessions + row.sessions if row.session == _OLDER else 1
            row = row._replace(
                last_ms=max(held.last_ms, row.last_ms), tokens=held.tokens + row.tokens, sessions=sessions
            )
        found[row[:2]] = row
    return list(found.values())


def _read(fd: int) -> bytes:
    """Return the file, as far as it may be long; nothing of a file that others could write."""
    if not _is_private(os.fstat(fd)):
        return b""
    data = bytearray()
    while len(data) <= 2 * _BYTES_MAX and (piece := os.read(fd, _BYTES_MAX)):
        data += piece
    return bytes(data)


def _is_private(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
