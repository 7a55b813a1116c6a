"""What a session lies in, as a digest of the state of its files: whoever read them all once need not do so again while it is the same.

A file counts as unchanged while device, inode, size and both its times are: the time of its content, which anybody may
set, and that of its inode, which nobody can. A file that is written twice within one tick of the clock that its file system
has keeps both; so a state is worth remembering only when all of it is older than the coarsest of these ticks (``SETTLED_MS``). Files are
opened to be looked at, because a network file system asks its server then and not at a mere ``stat``.

A format whose sessions lie in more than can be named here has no footprint, and is read each time.
"""

from __future__ import annotations

__all__ = ["SETTLED_MS", "Footprint", "footprint"]

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.named_tuple import NamedTuple
from periplus.interop.readers.line_reader import open_regular

if TYPE_CHECKING:
    from periplus.interop.model import SourceFormat

SETTLED_MS: Final = 3000  # FAT counts in two seconds
_ENTRIES_MAX: Final = 4096
_MESSAGES: Final = ".messages.json"


class Footprint(NamedTuple):
    """``newest_ms`` is when anything of it was changed last, by the clock of the file system."""

    digest: bytes
    newest_ms: int


class _Unknown(Exception):  # noqa: N818 - never leaves this module
    """Something of which no state can be told."""


def _alone(_path: str) -> tuple[str, ...]:
    return ()


def _claude_code(path: str) -> tuple[str, ...]:
    return os.path.join(os.path.splitext(path)[0], "subagents", ""), path.removesuffix(".jsonl") + ".meta.json"


def _cursor(path: str) -> tuple[str, ...]:
    return (os.path.join(os.path.dirname(os.path.abspath(path)), "subagents", ""),)


def _openhands(path: str) -> tuple[str, ...]:
    return (os.path.join(os.path.dirname(path), "events", ""),)


def _cline(path: str) -> tuple[str, ...]:
    if path.endswith(_MESSAGES):
        return (path.removesuffix(_MESSAGES) + ".json",)
    return (path.removesuffix(".json") + _MESSAGES,)


# What an import reads beside the file that is named: files, and folders, which end in a slash, with the files in them. Of a database
# (opencode) nothing can be said: what is in its log changes nothing in the file.
_BESIDE: Final[Mapping[SourceFormat, Callable[[str], tuple[str, ...]]]] = {
    "aider": _alone,
    "amp": _alone,
    "claude-code": _claude_code,
    "cline": _cline,
    "codex": _alone,
    "continue": _alone,
    "copilot-cli": _alone,
    "cursor": _cursor,
    "droid": _alone,
    "gemini-cli": _alone,
    "inspect": _alone,
    "mini-swe-agent": _alone,
    "openhands": _openhands,
    "otel": _alone,
    "pi-agent": _alone,
    "qwen-code": _alone,
    "swe-agent-traj": _alone,
}


def footprint(path: str, source_format: SourceFormat) -> Footprint | None:
    """The state of all that an import of the file ``path`` reads, ``path`` included; None where that cannot be told.

    So it is for links beside the session, which no importer follows, for what cannot be opened, and for over 4,096 files.
    """
    beside = _BESIDE.get(source_format)
    if beside is None:
        return None
    state = hashlib.sha256()
    newest_ns = 0
    try:
        for name, status in _files(path, beside):
            newest_ns = max(newest_ns, status.st_mtime_ns, status.st_ctime_ns)
            numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            state.update(f"{','.join(map(str, numbers))} {len(name)} {name}\n".encode("utf-8", "surrogateescape"))
    except (_Unknown, PeriplusError, OSError, ValueError):
        return None
    return Footprint(state.digest(), newest_ns // 1_000_000)


def _files(path: str, beside: Callable[[str], tuple[str, ...]]) -> Iterator[tuple[str, os.stat_result]]:
    """The files that are there; one that is not has no part in it, so that its coming changes it."""
    yield path, _opened(path)
    left = _ENTRIES_MAX
    for other in beside(path):
        try:
            mode = os.lstat(other.rstrip(os.sep)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not other.endswith(os.sep):
            if not stat.S_ISREG(mode):
                raise _Unknown
            yield other, _opened(other)
            continue
        if not stat.S_ISDIR(mode):
            raise _Unknown
        yield other, _folder(other)
        with os.scandir(other) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                left -= 1
                if left < 0 or not entry.is_file(follow_symlinks=False):
                    raise _Unknown
                yield entry.path, _opened(entry.path)


def _opened(path: str) -> os.stat_result:
    with open_regular(path) as fd:
        return os.fstat(fd)


def _folder(path: str) -> os.stat_result:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)
