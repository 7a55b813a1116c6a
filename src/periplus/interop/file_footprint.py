"""Digest over the state of a session's files: an import need not be repeated while it is the same.

A file is unchanged if device, inode, size, mtime and ctime are equal; anybody can set the mtime, nobody the ctime. Two
writes within one clock tick of the file system leave both times equal. So a state is kept only when all of it is older
than the coarsest tick (``SETTLED_MS``). Files are opened for this check, because a network file system asks
its server at an open and not at a ``stat``.

A format whose sessions depend on files that cannot be listed here has no footprint, and is read each time.
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

SETTLED_MS: Final = 3000  # FAT has a resolution of two seconds
_ENTRIES_MAX: Final = 4096
_MESSAGES: Final = ".messages.json"
_OF_TASK: Final = ("ui_messages.json", "task_metadata.json", "history_item.json")


class Footprint(NamedTuple):
    """``newest_ms`` is the time of the last change to any of the files, by the clock of the file system."""

    digest: bytes
    newest_ms: int


class _Unknown(Exception):  # noqa: N818 - never leaves this module
    """The state cannot be determined."""


def _alone(_path: str) -> tuple[str, ...]:
    return ()


def _claude_code(path: str) -> tuple[str, ...]:
    return os.path.join(os.path.splitext(path)[0], "subagents", ""), path.removesuffix(".jsonl") + ".meta.json"


def _cursor(path: str) -> tuple[str, ...]:
    return (os.path.join(os.path.dirname(os.path.abspath(path)), "subagents", ""),)


def _openhands(path: str) -> tuple[str, ...]:
    return (os.path.join(os.path.dirname(path), "events", ""),)


def _task(path: str) -> tuple[str, ...]:
    folder = os.path.dirname(os.path.abspath(path))
    return tuple(os.path.join(folder, name) for name in _OF_TASK)


def _kilo_code(path: str) -> tuple[str, ...]:
    if not path.endswith(".json"):
        raise _Unknown  # a database
    return _task(path)


def _cline(path: str) -> tuple[str, ...]:
    if path.endswith(_MESSAGES):
        return (path.removesuffix(_MESSAGES) + ".json",)
    return (path.removesuffix(".json") + _MESSAGES, *_task(path))


def _kimi_code(path: str) -> tuple[str, ...]:
    agents = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    names = os.listdir(agents) if os.path.basename(agents) == "agents" else []
    if len(names) > _ENTRIES_MAX:
        raise _Unknown
    logs = [os.path.join(agents, name, "wire.jsonl") for name in sorted(names)]
    return (os.path.join(os.path.dirname(agents), "state.json"), *logs)


def _copilot_chat(path: str) -> tuple[str, ...]:
    return (os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(path))), "workspace.json"),)


def _grok_build(path: str) -> tuple[str, ...]:
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.lexists(os.path.join(folder, "subagents")):
        raise _Unknown  # what is in it names files elsewhere
    return (os.path.join(folder, "summary.json"),)


def _mistral_vibe(path: str) -> tuple[str, ...]:
    folders = [os.path.dirname(os.path.abspath(path))]
    for folder in folders:  # it grows by the folders inside
        agents = os.path.join(folder, "agents")
        folders += [
            os.path.join(agents, name) for name in (sorted(os.listdir(agents)) if os.path.isdir(agents) else ())
        ]
        if len(folders) > _ENTRIES_MAX:
            raise _Unknown
    files = [os.path.join(folder, name) for folder in folders for name in ("meta.json", "messages.jsonl")]
    return tuple(file for file in files if file != os.path.join(folders[0], "messages.jsonl"))


# Files that an import reads beside the named file; a name with a final slash is a folder with its files. Databases
# (opencode) are left out: changes in their log do not change the file.
_BESIDE: Final[Mapping[SourceFormat, Callable[[str], tuple[str, ...]]]] = {
    "agent-trajectories": _alone,
    "aider": _alone,
    "amp": _alone,
    "antigravity": _alone,
    "atif": _alone,
    "claude-code": _claude_code,
    "cline": _cline,
    "codex": _alone,
    "continue": _alone,
    "copilot-chat": _copilot_chat,
    "copilot-cli": _alone,
    "cursor": _cursor,
    "droid": _alone,
    "gemini-cli": _alone,
    "git-ai": _alone,
    "gptme": _alone,
    "grok-build": _grok_build,
    "inspect": _alone,
    "kimi-code": _kimi_code,
    "kilo-code": _kilo_code,
    "mini-swe-agent": _alone,
    "mistral-vibe": _mistral_vibe,
    "openhands": _openhands,
    "otel": _alone,
    "pi-agent": _alone,
    "qwen-code": _alone,
    "specstory": _alone,
    "roo-code": _task,
    "swe-agent-traj": _alone,
    "windsurf": _alone,
}


def footprint(path: str, source_format: SourceFormat) -> Footprint | None:
    """Return the state of all files that an import of ``path`` reads, ``path`` included; None where it is unknown.

    Unknown for links beside the session, which no importer follows, for files that cannot be opened, and for over
    4,096 files.
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
    """Yield the existing files. A missing file is left out, so that its appearance changes the digest."""
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
