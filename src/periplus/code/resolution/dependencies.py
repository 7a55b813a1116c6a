"""Questions that a resolution asked, as small hashes: what has to change before it can come out otherwise.

A `Recorder` stands before the sources of a resolver and notes each question. Two sets of keys tell whether a change matters:

* a file, a folder, a name of files, contents, the definitions of a name anywhere: alone;
* a file that was read, together with a name that was looked up in it.

Keys have KEY_BITS bits. Two that are equal by chance have a file resolved once more than needed, never once less.
"""

from __future__ import annotations

__all__ = ["KEY_BITS", "NONE_ASKED", "Keys", "RecordedSources", "Recorder"]

import zlib
from collections.abc import Sequence
from typing import Final

from periplus.code.resolution.sources import KnownFile, Sources

KEY_BITS: Final = 20
NONE_ASKED: Final[frozenset[int]] = frozenset()
_MASK: Final = (1 << KEY_BITS) - 1
_KEPT_MAX: Final = 400_000


class Keys(dict[str, int]):
    """The keys of one kind of question by its text."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, text: str) -> int:
        if len(self) >= _KEPT_MAX:
            self.clear()
        key = self[text] = zlib.crc32(f"{self._kind}:{text}".encode("utf-8", "surrogatepass")) & _MASK
        return key


class Recorder:
    """The keys of what was asked since ``asked`` was last replaced."""

    name: Final = Keys("name")
    visited: Final = Keys("visited")
    defining: Final = Keys("defining")
    path: Final = Keys("path")
    base: Final = Keys("base")
    folder: Final = Keys("folder")
    folder_base: Final = Keys("folder_base")
    contents: Final = Keys("contents")

    def __init__(self) -> None:
        self.asked: set[int] = set()


class RecordedSources:
    """Sources that note with ``recorder`` what they are asked."""

    def __init__(self, sources: Sources, recorder: Recorder) -> None:
        self.plain = sources
        self._recorder = recorder

    def file(self, path: str) -> KnownFile | None:
        self._recorder.asked.add(Recorder.visited[path])
        return self.plain.file(path)

    def exists(self, path: str) -> bool:
        self._recorder.asked.add(Recorder.path[path])
        return self.plain.exists(path)

    def with_name(self, name: str) -> Sequence[str]:
        self._recorder.asked.add(Recorder.base[name])
        return self.plain.with_name(name)

    def folders_named(self, name: str) -> Sequence[str]:
        self._recorder.asked.add(Recorder.folder_base[name])
        return self.plain.folders_named(name)

    def in_folder(self, folder: str) -> Sequence[str]:
        self._recorder.asked.add(Recorder.folder[folder])
        return self.plain.in_folder(folder)

    def defining(self, name: str) -> Sequence[tuple[str, int]]:
        self._recorder.asked.add(Recorder.defining[name])
        return self.plain.defining(name)

    def in_package(self, package: str, name: str) -> Sequence[tuple[str, int]]:
        self._recorder.asked.add(Recorder.defining[name])
        return self.plain.in_package(package, name)

    def read(self, path: str) -> bytes | None:
        self._recorder.asked.add(Recorder.contents[path])
        return self.plain.read(path)
