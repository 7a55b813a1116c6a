"""Trails to replay, written by hand, and worlds to replay them in."""

from __future__ import annotations

import hashlib
import os

from periplus.base.clock import FixedClock
from periplus.base.files import Files
from periplus.trail import Digest, Header, TrailBuilder, TrailReader
from periplus.trail.replay import (
    Capabilities,
    CommandLimits,
    DryWorld,
    FolderPlan,
    FolderWorld,
    LogHeader,
    MemoryWorld,
    Replay,
    ReplayLog,
    ReplayOptions,
)

SECRET = bytes(range(32))
START_MS = 1_767_225_600_000
_open_worlds = []
EVERYTHING = Capabilities.everything()


class Objects(dict):
    """Contents by their digests."""

    def put(self, text):
        data = text.encode() if isinstance(text, str) else text
        digest = Digest("sha256", hashlib.sha256(data).digest())
        self[digest] = data
        return digest


class Taped:
    """A trail in the making: ``step`` adds one, ``write`` a FILE_WRITE with its content; then it is a reader."""

    def __init__(self, **header):
        self.objects = Objects()
        self._builder = TrailBuilder(SECRET, lambda data: self.objects.put(data).value)
        self._header = Header("agent-1", "run-1", tool_version="1", **header)
        self._reader = None

    def step(self, op, *operands, **more):
        self._builder.add(op, *operands, **more)
        return self

    def write(self, path, text, **more):
        return self.step("FILE_WRITE", path, self.objects.put(text), **more)

    @property
    def reader(self):
        if self._reader is None:
            self._reader = TrailReader(self._builder.finish(self._header))
        return self._reader

    @property
    def data(self):
        return self.reader.to_bytes()


def options(**more):
    return ReplayOptions(**{"capabilities": EVERYTHING, **more})


def replay(taped, world, log=None, **more):
    """The Replay, and the report of its run."""
    one = Replay(
        [taped.reader], world, options(**more), clock=FixedClock(START_MS, 1), read_content=taped.objects.get, log=log
    )
    return one, one.run()


def dry(taped):
    return DryWorld(taped.objects.get)


def memory(taped, files=None, canned=None, states=None):
    return MemoryWorld(taped.objects.get, files, canned, states)


def folder_world(taped, place, files=None, **plan):
    limits = CommandLimits(seconds_max=20.0)
    whole = FolderPlan(**{"folder": os.fspath(place), "path": os.environ["PATH"], "limits": limits, **plan})
    world = FolderWorld(whole, taped.objects.get, files=files)
    _open_worlds.append(world)
    return world


def close_worlds():
    while _open_worlds:
        _open_worlds.pop().close()


def open_log(place, taped, files=None, *, is_resumed=False):
    header = LogHeader(1, taped.reader.digest.hex(), {"world": "test"})
    return ReplayLog(os.path.join(place, "replay.log"), header, files or Files(), is_resumed=is_resumed)


def files_in(root):
    """The files of a folder by their paths, but for git's."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }
