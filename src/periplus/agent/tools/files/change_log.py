"""Changes of files: atomic over several files, recorded for each turn so that they can be undone; ``.git`` is never touched.

Theory of operation
-------------------
The log is a file of lines. Before anything is changed, the bytes before and after of every file are stored as objects, and a line with
their digests is on the disk; then the files are written one after the other; then a line marks the change as done. A process that finds a
line without that second one continues it: a file that has the bytes before gets those after. If a file has neither, somebody else changed
it meanwhile, and the files already written are restored: all or nothing either way.

Undoing a turn is one more change, from the digests of its first and last line for each file. It is refused if a file has changed since the
turn, unless later changes of others are to stay and can be told apart.

Changes by a command are only observed, and a person or another run may have written meanwhile: such a line is ``seen``. Its files are
restored on request and left alone otherwise.

Bytes that were redacted in the store are not stored here either: they stay in memory while the process lives. After that a turn that began
with them cannot be undone, and says so.
"""

from __future__ import annotations

__all__ = ["Change", "ChangeLog", "Recovered", "Undone", "digest_of", "effect_of"]

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from periplus.agent.tools.files.line_merge import merged
from periplus.base.encoding.digests import sha256
from periplus.base.errors import (
    ConflictError,
    DamageError,
    NotFoundError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.files import Files, read_plain, write_all
from periplus.base.filesystem.confined_folder import Confined
from periplus.objects import ObjectStore

_LOG_BYTES_MAX: Final = 256 << 20
CHANGES_MAX: Final = 2_000
_NEW_MODE: Final = 0o644
_WITHHELD_BYTES_MAX: Final = 64 << 20  # redacted contents in memory


class Change(NamedTuple):
    """The change of one file: its bytes before and after, None without a file. ``is_executable`` and ``mode`` of None keep the present
    value.
    """

    path: str
    before: bytes | None
    after: bytes | None
    is_executable: bool | None = None
    mode: int | None = None


class Recovered(NamedTuple):
    """Result of an interrupted change: paths that were finished, restored, and left because somebody else changed them."""

    finished: tuple[str, ...] = ()
    taken_back: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Undone(NamedTuple):
    """Paths that an undo restored; ``merged`` are those among them that keep later changes of others. ``left`` changed while a command
    ran, with an unknown author, and were not touched.
    """

    paths: tuple[str, ...]
    left: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    path: str
    before: str | None = None
    after: str | None = None
    mode: int | None = None
    was_mode: int | None = None


class _Patch(
    msgspec.Struct, frozen=True, tag_field="kind", tag="patch", forbid_unknown_fields=True, omit_defaults=True
):
    number: int
    turn: str
    pid: int
    files: tuple[_File, ...]
    undoes: str = ""
    is_seen: bool = False


class _Done(msgspec.Struct, frozen=True, tag_field="kind", tag="done", forbid_unknown_fields=True, omit_defaults=True):
    number: int
    is_taken_back: bool = False


def digest_of(data: bytes | None) -> str | None:
    """SHA-256 in hexadecimal, None of None."""
    return None if data is None else sha256(data).hex()


def effect_of(change: Change) -> dict[str, Any]:
    """The change in the form of ``ToolResult.effects``."""
    return {"path": change.path, "before": digest_of(change.before), "after": digest_of(change.after)}


class ChangeLog:
    """The changes of one session in ``folder``; the log and the objects lie in ``state``. One process at a time.

    Contents whose digest ``is_out`` were redacted, and are never written to a disk.
    """

    def __init__(
        self, state: str, folder: Confined, files: Files, is_out: Callable[[bytes], bool] = lambda _digest: False
    ) -> None:
        self._folder, self._files, self._is_out = folder, files, is_out
        self._withheld: dict[bytes, bytes] = {}
        self._path = os.path.join(state, "changes.jsonl")
        self._patches: list[_Patch] = []
        self._done: dict[int, _Done] = {}
        self._half: _Patch | None = None  # a change that could neither be made nor undone
        self._end = 0  # end of the last whole line, in bytes
        files.make_folder(state, 0o700)
        self.objects = ObjectStore(os.path.join(state, "objects"), files)
        self._load()

    # Making changes

    def apply(self, turn: str, changes: Sequence[Change], *, undoes: str = "") -> None:
        """Apply all of ``changes``, or none. Raises what the folder refuses; ConflictError if a file has changed."""
        if len(changes) > CHANGES_MAX:
            raise UsageError(f"{len(changes):,} files at once, at most {CHANGES_MAX:,}", safe="Nothing was changed.")
        if len({change.path for change in changes}) < len(changes):
            raise UsageError("a file is named twice in one change", safe="Nothing was changed.")
        self._end_half()
        for change in changes:
            self._expect(change)
        kept = tuple(self._file(change, self._folder.mode(change.path)) for change in changes)
        for change in changes:
            for data in (change.before, change.after):
                if data is not None:
                    self.keep(data)
        patch = _Patch(len(self._patches) + 1, turn, os.getpid(), kept, undoes)
        self._append(patch, is_durable=True)
        self._patches.append(patch)
        try:
            for change, file in zip(changes, kept, strict=True):
                self._expect(change)  # as late as possible: a concurrent change must not be overwritten
                self._put(change.path, change.after, file.mode)
        except PeriplusError:
            self._half = patch
            self._end_half()
            raise
        self._finish(patch.number, is_taken_back=False)

    def keep(self, data: bytes, *, durable: bool = True) -> bytes:
        """Store bytes as an object, in memory alone if they were redacted, and return their digest. Raises EnvironmentFailure."""
        digest = sha256(data)
        if not self._is_out(digest):
            return self.objects.put(data, durable=durable)
        self._withheld[digest] = data
        while sum(map(len, self._withheld.values())) > _WITHHELD_BYTES_MAX and len(self._withheld) > 1:
            del self._withheld[next(iter(self._withheld))]
        return digest

    def record(self, turn: str, changes: Sequence[Change], modes: Mapping[str, int]) -> None:
        """Record changes that a command already made, so that they are undone with the turn like those of ``apply``. ``modes`` are those
        before.
        """
        self._end_half()
        for change in changes[:CHANGES_MAX]:
            for data in (change.before, change.after):
                if data is not None:
                    self.keep(data)
        kept = tuple(self._file(change, modes.get(change.path)) for change in changes[:CHANGES_MAX])
        patch = _Patch(len(self._patches) + 1, turn, os.getpid(), kept, is_seen=True)
        self._append(patch, is_durable=True)
        self._patches.append(patch)
        self._finish(patch.number, is_taken_back=False)

    def _file(self, change: Change, was_mode: int | None) -> _File:
        mode = change.mode
        if mode is None and change.is_executable is not None:
            held = was_mode if was_mode is not None else _NEW_MODE
            mode = held | 0o111 if change.is_executable else held & ~0o111
        return _File(change.path, digest_of(change.before), digest_of(change.after), mode, was_mode)

    def _expect(self, change: Change) -> None:
        held = self._held(change.path)
        if held != change.before:
            raise ConflictError(
                f"{change.path} changed since this edit was prepared", safe="Nothing was changed.",
                mend="Read it again.",
            )  # fmt: skip

    def recover(self) -> Recovered:
        """Finish or undo a change that was interrupted. Call it before anything else."""
        if not self._patches or self._patches[-1].number in self._done:
            return Recovered()
        patch = self._patches[-1]
        self._folder.sweep_after(patch.pid, {os.path.dirname(file.path) or "." for file in patch.files})
        now = {file.path: digest_of(self._held(file.path)) for file in patch.files}
        strange = tuple(file.path for file in patch.files if now[file.path] not in (file.before, file.after))
        lost = [file.path for file in patch.files if now[file.path] == file.before and self._is_lost(file.after)]
        if strange or lost:
            no_way = {file.path for file in patch.files if now[file.path] == file.after and self._is_lost(file.before)}
            back = self._take_back(patch, no_way)
            return Recovered(taken_back=back, left=(*strange, *sorted(no_way)))
        for file in patch.files:
            data = self._held(file.path) if now[file.path] == file.after else self._bytes(file.after)
            self._put(file.path, data, file.mode)
        self._finish(patch.number, is_taken_back=False)
        return Recovered(finished=tuple(file.path for file in patch.files))

    def _end_half(self) -> None:
        """Undo a half-made change. Raises what prevents it; then the next change tries again."""
        if self._half is not None:
            self._take_back(self._half)
            self._half = None

    def _is_lost(self, digest: str | None) -> bool:
        """Return whether the bytes are gone: they were redacted, and the process that had them has ended."""
        try:
            self._bytes(digest)
        except NotFoundError:
            return True
        return False

    def _take_back(self, patch: _Patch, without: Collection[str] = ()) -> tuple[str, ...]:
        back = []
        for file in reversed(patch.files):
            is_changed = file.before != file.after or file.mode not in (None, file.was_mode)
            if is_changed and file.path not in without and digest_of(self._held(file.path)) == file.after:
                self._put(file.path, self._bytes(file.before), file.was_mode)
                back.append(file.path)
        self._finish(patch.number, is_taken_back=True)
        return tuple(back)

    def _put(self, path: str, data: bytes | None, mode: int | None) -> None:
        held = self._held(path)
        if data is None:
            if held is not None:
                self._folder.delete(path)
        elif held != data or (mode is not None and mode != self._folder.mode(path)):
            self._folder.write(path, data, mode=mode)

    def _held(self, path: str) -> bytes | None:
        try:
            return self._folder.read(path)
        except NotFoundError:
            return None

    def _bytes(self, digest: str | None) -> bytes | None:
        return None if digest is None else self.content(digest)

    # Looking back

    def turns(self) -> list[str]:
        """The turns with changes that were not undone, oldest first."""
        found = dict.fromkeys(patch.turn for patch in self._standing() if not patch.undoes)
        return [turn for turn in found if self._open(turn)]

    def changed_in(self, turn: str) -> dict[str, tuple[str | None, str | None]]:
        """The digests before and after the turn of each file that it changed; files that ended as they began are left out."""
        found = {path: (first.before, last.after) for path, (first, last) in self._spans(turn).items()}
        return {path: pair for path, pair in found.items() if pair[0] != pair[1]}

    def content(self, digest: str) -> bytes:
        """The bytes of an earlier content. Raises NotFoundError."""
        name = bytes.fromhex(digest)
        held = self._withheld.get(name)
        if held is not None:
            return held
        try:
            return self.objects.get(name)
        except NotFoundError as error:
            if not self._is_out(name):
                raise
            raise NotFoundError(f"content {digest[:16]} was redacted, and is kept nowhere", safe="Nothing was changed.",
                                mend="Put that file back by hand, if it should be as it was.") from error  # fmt: skip

    def undo(
        self, turn: str, *, with_seen: bool = True, is_merging: bool = False,
        guard: Callable[[Sequence[str]], None] = lambda _paths: None,
    ) -> Undone:  # fmt: skip
        """Restore every file that ``turn`` changed; without ``with_seen`` not those that changed while a command ran. With ``is_merging``
        later changes of others in other lines stay. ``guard`` is called with the paths that would be written. Raises ConflictError, and
        changes nothing, if a file was changed since; NotFoundError if there is nothing to undo; and what ``guard`` raises.
        """
        self._end_half()
        spans = self._open(turn)
        if not spans:
            raise NotFoundError(f"turn {turn} changed no file, or is undone already", safe="Nothing was changed.")
        left = () if with_seen else tuple(sorted(spans.keys() & self._seen_in(turn)))
        changes, later, both = [], [], []
        for path, (first, last) in spans.items():
            if path in left:
                continue
            held = self._held(path)
            if digest_of(held) == last.after:
                changes.append(Change(path, held, self._bytes(first.before), mode=first.was_mode))
                continue
            kept = merged(self._bytes(last.after), held, self._bytes(first.before)) if is_merging else None
            if kept is None:
                later.append(path)
            else:
                changes.append(Change(path, held, kept))
                both.append(path)
        if later:
            raise ConflictError(
                f"changed since that turn{', in the same lines' if is_merging else ''}: "
                f"{', '.join(later[:10])}{' …' if len(later) > 10 else ''}",
                safe="Nothing was changed.", mend="Undo the later turns first, or put these files back by hand"
                f"{'' if is_merging else '; /undo merge keeps what was written since where it stands in other lines'}.",
            )  # fmt: skip
        if changes:
            guard([change.path for change in changes])
            self.apply(turn, changes, undoes=turn)
        return Undone(tuple(change.path for change in changes), left, tuple(both))

    def _open(self, turn: str) -> dict[str, tuple[_File, _File]]:
        """The files that a turn changed and that were not undone; files that ended as they began are left out."""
        back = {file.path for patch in self._standing() if patch.undoes == turn for file in patch.files}
        return {
            path: (first, last) for path, (first, last) in self._spans(turn).items()
            if path not in back and (first.before != last.after or last.mode not in (None, first.was_mode))
        }  # fmt: skip

    def _seen_in(self, turn: str) -> set[str]:
        return {
            file.path
            for patch in self._standing()
            if patch.turn == turn and not patch.undoes and patch.is_seen
            for file in patch.files
        }

    def _standing(self) -> Iterable[_Patch]:
        return [one for one in self._patches if not (done := self._done.get(one.number)) or not done.is_taken_back]

    def _spans(self, turn: str) -> dict[str, tuple[_File, _File]]:
        spans: dict[str, tuple[_File, _File]] = {}
        for patch in self._standing():
            if patch.turn == turn and not patch.undoes:
                for file in patch.files:
                    first, last = spans.get(file.path, (file, file))
                    mode = file.mode if file.mode is not None or file.after is None else last.mode
                    spans[file.path] = (first, msgspec.structs.replace(file, mode=mode))
        return spans

    # The file

    def _finish(self, number: int, *, is_taken_back: bool) -> None:
        done = _Done(number, is_taken_back)
        self._append(done, is_durable=False)
        self._done[number] = done

    def _append(self, line: _Patch | _Done, *, is_durable: bool) -> None:
        data = msgspec.json.encode(line) + b"\n"
        try:
            fd = self._files.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                if os.fstat(fd).st_size > self._end:  # a failed line that could not be cut off at the time
                    os.ftruncate(fd, self._end)
                write_all(self._files, fd, data)
                if is_durable:
                    self._files.sync(fd)
            except OSError:
                _cut_quietly(fd, self._end)
                raise
            finally:
                self._files.close(fd)
            if not self._end:
                self._files.sync_folder(os.path.dirname(self._path))
        except OSError as error:
            raise environment_failure(error, "write", self._path) from error
        self._end += len(data)

    def _load(self) -> None:
        try:
            data = read_plain(self._path, _LOG_BYTES_MAX)
        except FileNotFoundError:
            return
        except OSError as error:
            raise environment_failure(error, "read", self._path) from error
        whole, _, rest = data.rpartition(b"\n")
        if rest:  # an interrupted line: nothing followed from it
            self._cut(len(data) - len(rest))
        self._end = len(data) - len(rest)
        offset = 0
        for line in whole.split(b"\n") if whole else []:
            self._take(line, offset)
            offset += len(line) + 1

    def _take(self, line: bytes, offset: int) -> None:
        try:
            row: Any = msgspec.json.decode(line, type=_Patch | _Done)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamageError(
                f"not a line of a change log: {error}", path=self._path, offset=offset, safe="No file was changed.",
                mend="Move that log away; the changes in it can then no longer be undone.",
            ) from error  # fmt: skip
        if isinstance(row, _Patch):
            self._patches.append(row)
        else:
            self._done[row.number] = row

    def _cut(self, size: int) -> None:
        try:
            fd = self._files.open(self._path, os.O_WRONLY)
            try:
                os.ftruncate(fd, size)
                self._files.sync(fd)
            finally:
                self._files.close(fd)
        except OSError as error:
            raise environment_failure(error, "mend", self._path) from error


def _cut_quietly(fd: int, size: int) -> None:
    try:
        os.ftruncate(fd, size)
    except OSError:
        pass  # the next line is written at ``size`` all the same
