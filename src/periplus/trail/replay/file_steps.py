"""The file steps, over any folder that keeps paths inside: ``Confined`` on disk or ``MemoryFolder``."""

from __future__ import annotations

__all__ = ["FileSteps", "Folder", "MemoryFolder", "edited"]

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from periplus.base.errors import ConfinementError, EnvironmentFailure, NotFoundError
from periplus.base.filesystem.confined_folder import FILE_BYTES_MAX, Entry, judge_path
from periplus.base.text.path_globs import glob_matches, is_glob
from periplus.trail.checkpoints.git_tree import EXECUTABLE, FILE, LINK, SUBMODULE
from periplus.trail.model import Digest
from periplus.trail.replay.unmaterialized import (
    UnmaterializedEntries,
    UnmaterializedEntry,
    judge_unmaterialized,
    unmaterialized_mode,
)
from periplus.trail.replay.values import ABSENT, EVERY, Call, Fate, FileKind, ReadContent, StepResult
from periplus.trail.replay.world import judge_pattern

_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{0,9}))?")
_SPECIAL: Final = frozenset("\\.^$*+?{}[]|()")
_TOTAL_BYTES_MAX: Final = 1 << 30


class Folder(Protocol):
    """The interface of ``base.confined.Confined``."""

    def stat(self, path: str) -> Entry | None: ...
    def read(self, path: str) -> bytes: ...
    def list(self, path: str = ".") -> list[Entry]: ...
    def walk(self, path: str = ".") -> Iterator[Entry]: ...
    def write(self, path: str, data: bytes, *, is_executable: bool | None = None) -> None: ...
    def delete(self, path: str) -> None: ...
    def move(self, source: str, target: str) -> None: ...
    def remove_folder(self, path: str) -> None: ...


class MemoryFolder:
    """Files in memory, under the rules of ``Confined``; as on disk, a folder stays when its last file is removed."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self._files: dict[str, bytes] = {}
        self._folders: set[str] = set()
        self._bytes = 0
        for path, data in (files or {}).items():
            self.write(path, data)

    @property
    def files(self) -> dict[str, bytes]:
        """All files by path, sorted."""
        return dict(sorted(self._files.items()))

    def stat(self, path: str) -> Entry | None:
        name = "/".join(judge_path(path))
        if name in self._files:
            return Entry(path, "file", len(self._files[name]))
        if any(above in self._files for above in _above(name)):
            raise _refused(path, "a file is in the place of a folder")
        return Entry(path, "folder") if not name or name in self._folders else None

    def read(self, path: str) -> bytes:
        name = self._file_name(path)
        if name not in self._files:
            raise NotFoundError(f"no file {path}")
        return self._files[name]

    def list(self, path: str = ".") -> list[Entry]:
        entry = self.stat(path)
        if entry is None:
            raise NotFoundError(f"no folder {path}")
        if entry.kind == "file":
            raise _refused(path, "it is a file, not a folder")
        name = "/".join(judge_path(path))
        start = f"{name}/" if name else ""
        inner = {one[len(start) :].partition("/")[0] for one in (*self._files, *self._folders) if one.startswith(start)}
        return [found for one in sorted(inner) if (found := self.stat(start + one)) is not None]

    def walk(self, path: str = ".") -> Iterator[Entry]:
        entries = self.list(path)
        yield from (entry for entry in entries if entry.kind == "file")
        for entry in entries:
            if entry.kind == "folder":
                yield from self.walk(entry.path)

    def write(self, path: str, data: bytes, *, is_executable: bool | None = None) -> None:
        del is_executable
        name = self._file_name(path)
        size = self._bytes + len(data) - len(self._files.get(name, b""))
        if len(data) > FILE_BYTES_MAX or size > _TOTAL_BYTES_MAX:
            raise _refused(path, "too many bytes")
        self._bytes = size
        self._files[name] = data
        self._folders.update(_above(name))

    def delete(self, path: str) -> None:
        self._bytes -= len(self.read(path))
        del self._files[self._file_name(path)]

    def move(self, source: str, target: str) -> None:
        first, second = "/".join(judge_path(source)), "/".join(judge_path(target))
        if not first or not second or second == first or second.startswith(first + "/"):
            raise _refused(target, "it cannot move there")
        if self.stat(source) is None:
            raise NotFoundError(f"no file {source}")
        if self.stat(target) is not None:
            raise _refused(target, "there is something of that name already")
        for name in [one for one in self._files if one == first or one.startswith(first + "/")]:
            self._files[second + name[len(first) :]] = self._files.pop(name)
        for name in [one for one in self._folders if one == first or one.startswith(first + "/")]:
            self._folders.remove(name)
            self._folders.add(second + name[len(first) :])
        self._folders.update(_above(second))

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        if self.list(path):
            raise _refused(path, "it is not empty")
        self._folders.discard("/".join(judge_path(path)))

    def _file_name(self, path: str) -> str:
        entry = self.stat(path)
        if entry is not None and entry.kind == "folder":
            raise _refused(path, "it is a folder")
        return "/".join(judge_path(path))


def _above(name: str) -> list[str]:
    """Return the folders that contain a file."""
    return [name[:at] for at, char in enumerate(name) if char == "/"]


def _refused(path: str, why: str) -> ConfinementError:
    return ConfinementError(f"path {path[:200]!r} is refused: {why}", path=path, reason="kind")


def edited(data: bytes, old: str, new: str, *, is_every: bool) -> bytes | str:
    """Return ``data`` with ``new`` in place of ``old``, or the reason why that is impossible.

    An edit with an empty old text fills an empty file. If the old text occurs several times, the edit is ambiguous.
    """
    before, after = old.encode("utf-8", "replace"), new.encode("utf-8", "replace")
    if not before:
        return after if not data else "the old text is empty and the file is not"
    count = data.count(before)
    if not count:
        return "the old text is not in the file"
    if count > 1 and not is_every:
        return f"the old text is in the file {count:,} times"
    if len(data) + count * (len(after) - len(before)) > FILE_BYTES_MAX:
        return f"the file would have over {FILE_BYTES_MAX:,} bytes"
    return data.replace(before, after)


class FileSteps:
    """The file methods of a world. ``carried`` are tree entries that are not created as files. ``is_kept`` tells
    whether the repository has a content that could not be read.
    """

    def __init__(
        self,
        folder: Folder,
        read_content: ReadContent,
        carried: UnmaterializedEntries | None = None,
        is_kept: Callable[[Digest], bool] = lambda _content: False,
    ) -> None:
        self._is_kept = is_kept
        self.folder = folder
        self.carried = carried if carried is not None else UnmaterializedEntries()
        self._read_content = read_content

    def read_file(self, path: str, lines: str) -> StepResult:
        def act() -> StepResult:
            data = self.folder.read(path)
            return StepResult("done", output=_lines_of(data, lines), detail=f"read {path}")

        return self._tried(act, path)

    def write_file(self, path: str, content: Digest, kind: FileKind = "kept") -> StepResult:
        mode = unmaterialized_mode(path, content, kind)

        def act() -> StepResult:
            judge_path(path)
            data = self._read_content(content)
            if data is None and self._is_kept(content):
                return self._note_large(path, content, kind)
            if data is None:
                return StepResult.skipped("the content is not available")
            self._make_room(path)
            self.folder.write(path, data, is_executable=None if kind == "kept" else kind == "executable")
            self.carried.drop(path)
            return StepResult("done", detail=f"wrote {path}: {len(data):,} bytes")

        if mode:
            return self._tried(lambda: self._carry(path, mode, content), path, is_replaced=True)
        # An entry of git replaces a link; a tool of an agent writes to the target of the link.
        return self._tried(act, path, is_replaced=content.algorithm != "sha256")

    def edit_file(self, path: str, old: str, new: str, *, is_every: bool) -> StepResult:
        def act() -> StepResult:
            data = self._edited(path, old, new, is_every=is_every)
            if isinstance(data, str):
                return StepResult.failed(data)
            self.folder.write(path, data)
            return StepResult("done", output=data, detail=f"edited {path}")

        return self._tried(act, path)

    def delete_file(self, path: str) -> StepResult:
        def act() -> StepResult:
            if self.carried.get(path) is not None:
                self.carried.drop(path)
            else:
                self.folder.delete(path)
            return StepResult("done", detail=f"deleted {path}")

        return self._tried(act, path, is_replaced=True)

    def move_file(self, source: str, target: str) -> StepResult:
        def act() -> StepResult:
            if self.carried.get(source) is not None:
                judge_unmaterialized(target)
                if not self._is_free(target):
                    raise _refused(target, "there is something of that name already")
            else:
                self._make_room(target)
                self.folder.move(source, target)
            self.carried.move(source, target)
            return StepResult("done", detail=f"moved {source} to {target}")

        if self.carried.on(target) is not None:
            return self._tried(act, target)
        return self._tried(act, source, is_replaced=True)

    def list_files(self, path: str) -> StepResult:
        def act() -> StepResult:
            names = judge_pattern(path)
            base = next((at for at, name in enumerate(names) if is_glob(name)), len(names))
            start = "/".join(names[:base]) or "."
            if base == len(names):
                found = [start] if self._is_file(start) else [entry.path for entry in self.folder.list(start)]
            else:
                pattern = "/".join(names)
                found = [entry.path for entry in self.folder.walk(start) if glob_matches(entry.path, pattern)]
            output = "".join(f"{name}\n" for name in found).encode()
            return StepResult("done", output=output, detail=f"{len(found):,} names in {path}")

        return self._tried(act, path)

    def search(self, pattern: str, path: str) -> StepResult:
        """Search for a plain text. A pattern of a record is a stranger's regular expression and is not run."""

        def act() -> StepResult:
            if self.folder.stat(path) is None:
                raise NotFoundError(f"no folder {path}")
            if not pattern or not _SPECIAL.isdisjoint(pattern):
                return StepResult.skipped("patterns of a record are not run")
            wanted = pattern.encode("utf-8", "replace")
            entries = [Entry(path, "file")] if self._is_file(path) else self.folder.walk(path)
            found = [entry.path for entry in entries if wanted in self.folder.read(entry.path)]
            output = "".join(f"{name}\n" for name in found).encode()
            return StepResult("done", output=output, detail=f"{pattern} in {len(found):,} files")

        return self._tried(act, path)

    # What became of it

    def foresee(self, call: Call) -> dict[str, str]:
        """Return for each path that the call will change ``-PATH`` with its digest before and ``+PATH`` with the digest
        after.
        """
        try:
            after = self._after(call)
            before = {f"-{path}": self._print(path) for path in after}
        except (ConfinementError, NotFoundError):
            return {}  # the step itself will report it
        return before | {f"+{path}": print_ for path, print_ in after.items()}

    def fate(self, call: Call, foreseen: dict[str, str]) -> Fate:
        del call
        paths = [name[1:] for name in foreseen if name.startswith("-")]
        now = {path: self._print(path) for path in paths}
        if all(now[path] == foreseen.get(f"+{path}") for path in paths):
            return "done"
        return "not_done" if all(now[path] == foreseen[f"-{path}"] for path in paths) else "unknown"

    def recall(self, call: Call) -> StepResult:
        output = self.folder.read(call.text(0)) if call.op == "FILE_EDIT" else None
        return StepResult("done", output=output, detail=f"{call.op} of {call.text(0)} was done before the interruption")

    def _after(self, call: Call) -> dict[str, str]:
        path = call.text(0)
        if call.op == "FILE_WRITE":
            content = call.digest(1)
            assert content is not None
            mode = unmaterialized_mode(path, content, call.kind)
            if mode:
                return {path: f"{mode} {content.value.hex()}"}
            data = self._read_content(content)
            if data is None and self._is_kept(content):
                return {path: f"{self._mode_of(path, kind=call.kind)} {content.value.hex()}"}
            can_run = self._can_run(path) if call.kind == "kept" else call.kind == "executable"
            return {path: _sha256(data, can_run=can_run)} if data is not None else {}
        if call.op == "FILE_EDIT":
            found = self._edited(path, call.text(1), call.text(2), is_every=EVERY in call.notes)
            return {path: _sha256(found, can_run=self._can_run(path))} if isinstance(found, bytes) else {}
        if call.op == "FILE_DELETE":
            return {path: ABSENT} if self.carried.get(path) is not None or self._is_file(path) else {}
        if call.op == "FILE_MOVE":
            held = self._print(path)
            return {path: ABSENT, call.text(1): held} if held and self._is_free(call.text(1)) else {}
        return {}

    def _note_large(self, path: str, content: Digest, kind: FileKind) -> StepResult:
        """Note a file that is too large for a replay as an entry of the trees."""
        mode = self._mode_of(path, kind=kind)
        self._make_room(path)
        if self._is_file(path):
            self.folder.delete(path)
        self.carried.put(path, mode, content.value.hex())
        return StepResult.skipped(f"{path} is too large: noted by what git calls it")

    def _mode_of(self, path: str, *, kind: FileKind) -> str:
        held = self.carried.get(path)
        could_run = held.mode == EXECUTABLE if held is not None else self._can_run(path)
        return EXECUTABLE if kind == "executable" or (kind == "kept" and could_run) else FILE

    def _carry(self, path: str, mode: str, content: Digest) -> StepResult:
        judge_unmaterialized(path)
        if content.algorithm == "sha256":
            return StepResult.skipped("its git id is unknown")
        if mode in (LINK, SUBMODULE):
            self._make_room(path)
            if self._is_file(path):
                self.folder.delete(path)
        self.carried.put(path, mode, content.value.hex())
        return StepResult("done", detail=f"noted: {UnmaterializedEntry(mode, '', path).why}")

    def _tried(self, act: Callable[[], StepResult], path: str, *, is_replaced: bool = False) -> StepResult:
        """Call ``act`` unless a link is on the way; a link at ``path`` itself is only changed with ``is_replaced``."""
        over = self.carried.on(path)
        if over is None or (is_replaced and self.carried.get(path) is not None):
            return _tried(act)

        def skip() -> StepResult:
            judge_unmaterialized(path)
            return StepResult.skipped(over.why)

        return _tried(skip)

    def _is_free(self, path: str) -> bool:
        """Return whether ``path`` is absent or holds only empty folders."""
        if self.carried.on(path) is not None:
            return False
        entry = self.folder.stat(path)
        return entry is None or (entry.kind == "folder" and self._is_empty(path))

    def _is_empty(self, path: str) -> bool:
        return all(entry.kind == "folder" and self._is_empty(entry.path) for entry in self.folder.list(path))

    def _make_room(self, path: str) -> None:
        """Remove the empty folders at ``path``, which git does not have."""
        entry = self.folder.stat(path)
        if entry is None or entry.kind != "folder" or not self._is_empty(path):
            return
        for inner in self.folder.list(path):
            self._make_room(inner.path)
        try:
            self.folder.remove_folder(path)
        except EnvironmentFailure:
            pass  # it holds a file of no valid path: the write or move is refused

    def _can_run(self, path: str) -> bool:
        entry = self.folder.stat(path)
        return entry is not None and entry.is_executable

    def _edited(self, path: str, old: str, new: str, *, is_every: bool) -> bytes | str:
        held = self.folder.stat(path)
        if held is None and not old:
            return new.encode("utf-8", "replace")
        return edited(self.folder.read(path), old, new, is_every=is_every)

    def _is_file(self, path: str) -> bool:
        entry = self.folder.stat(path)
        return entry is not None and entry.kind == "file"

    def _print(self, path: str) -> str:
        """Return the digest of a file, ``folder`` with all names for a folder, ABSENT if there is nothing."""
        carried = self.carried.get(path)
        if carried is not None:
            return f"{carried.mode} {carried.id}"
        entry = self.folder.stat(path)
        if entry is None:
            return ABSENT
        if entry.kind == "folder":
            start = "/".join(judge_path(path))
            inner = [f"{one.path.removeprefix(start)}\0{one.size}\n" for one in self.folder.walk(path)]
            return "folder " + _sha256("".join(inner).encode("utf-8", "surrogateescape"))
        return _sha256(self.folder.read(path), can_run=entry.is_executable)


def _tried(act: Callable[[], StepResult]) -> StepResult:
    try:
        return act()
    except ConfinementError as error:
        return StepResult.denied(str(error))
    except NotFoundError as error:
        return StepResult.failed(str(error))


def _sha256(data: bytes, *, can_run: bool = False) -> str:
    return hashlib.sha256(data).hexdigest() + (" executable" if can_run else "")


def _lines_of(data: bytes, lines: str) -> bytes:
    match = _RANGE.fullmatch(lines)
    if match is None:
        return data
    first = max(1, int(match[1]))
    last = None if match[2] == "" else int(match[2] or match[1])
    return b"".join(data.splitlines(keepends=True)[first - 1 : last])
