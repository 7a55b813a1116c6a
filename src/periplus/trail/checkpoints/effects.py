"""Check whether the steps of a trail give the files that its checkpoints name. Files and contents come from
``EffectSources``.

Theory of operation
-------------------
A tree of files in memory starts as the trail's base. Each file step changes it as the trail says; no command runs, nothing
is written, and no path leads out of the tree: a link is followed within the tree or not at all. At a CHECKPOINT the tree
must have the id that the step names. If it has not, the files behind that id (from the repository, or kept by the recorder)
tell which file differs, and the last step that touched this file is reported as wrong.

A commit is such a checkpoint if it has exactly these files. In a git history every commit is one, because the steps
between two commits are the changes of the second.

A command may have changed any file, so between a command and the next checkpoint only files that were written in full
since are *sure*. A difference in a file that is not sure is reported as not judged, never as right. After each
checkpoint the tree continues from the checkpoint's files, so every stretch between two checkpoints is judged by itself.
"""

from __future__ import annotations

__all__ = ["NOTE_EVERY", "EffectSources", "EffectVerdict", "Effects", "StepEffect", "judge_effects"]

import hashlib
import posixpath
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from periplus.base.errors import FormatError, UsageError
from periplus.trail.checkpoints.effect_values import Effects, EffectSources, EffectVerdict, StepEffect
from periplus.trail.checkpoints.file_notes import (
    NOTE_CHECKED_OUT,
    NOTE_EXECUTABLE,
    NOTE_LINK,
    NOTE_MERGED,
    NOTE_NOT_EXECUTABLE,
    NOTE_SUBMODULE,
)
from periplus.trail.checkpoints.file_states import FileStates, decode_file_states
from periplus.trail.checkpoints.git_tree import (
    EXECUTABLE,
    FILE,
    LINK,
    SUBMODULE,
    TreeEntry,
    blob_id,
    git_algorithm,
    tree_id,
)
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import Digest, DigestAlgorithm, OperandValue, Step, Text, TextObject
from periplus.trail.opcodes import BY_NAME, opcode_name
from periplus.trail.recording.live_step import NOTE_AFTER, NOTE_MASKED

NOTE_EVERY: Final = "every occurrence"  # the note of an edit that replaced all occurrences
_HELD_BYTES_MAX: Final = 512 << 20
_NAMED_MAX: Final = 3
_HOPS_MAX: Final = 40
_WRITE, _EDIT, _DELETE, _MOVE, _CHECKPOINT = (
    BY_NAME[name].code for name in ("FILE_WRITE", "FILE_EDIT", "FILE_DELETE", "FILE_MOVE", "CHECKPOINT")
)
_COMMIT: Final = BY_NAME["GIT_COMMIT"].code
_HISTORY: Final = (
    "git"  # tool name of a trail imported from git history: its file steps are exactly the changes of its commits
)
_FILE_STEPS: Final = frozenset({_WRITE, _EDIT, _DELETE, _MOVE})
_HARMLESS: Final = frozenset(
    BY_NAME[name].code
    for name in (
        "FILE_READ", "FILE_LIST", "SEARCH_CODE", "BOTTLE_DROP", "BOTTLE_READ", "LEVEL_UP", "TRUST_UPDATE", "CAP_ISSUE",
        "BRANCH", "NOP", "COMMENT", "LABEL", "WEB_FETCH", "WEB_SEARCH", "PROMPT", "SAY", "MODEL_CALL", "PLAN_UPDATE", "ASK",
    )
)  # fmt: skip
_MODES: Final = {NOTE_LINK: LINK, NOTE_SUBMODULE: SUBMODULE, NOTE_EXECUTABLE: EXECUTABLE, NOTE_NOT_EXECUTABLE: FILE}
_NOT_TAKEN: Final = frozenset({"failed", "denied", "cancelled"})


def judge_effects(reader: TrailReader, sources: EffectSources, root: str = "") -> Effects:
    """Judge the file steps of a trail. Absolute paths of an imported trail are taken as relative to ``root``."""
    judge = _Judge(reader, sources, root)
    for index, step in enumerate(reader.steps()):
        judge.take(index, step)
    return judge.finish()


class _File(NamedTuple):
    """A file of the tree; ``blob`` is None if its content is unknown, though its SHA-256 may be known."""

    mode: str
    blob: bytes | None
    sha256: bytes | None = None


class _CannotTellError(Exception):
    """The step cannot be judged."""


class _WrongError(Exception):
    """The step contradicts the files before it."""


class _OutsideError(Exception):
    """The step concerns a file outside the tree."""


class _Judge:
    def __init__(self, reader: TrailReader, sources: EffectSources, root: str) -> None:
        self._sources = sources
        self._root = root.rstrip("/")
        self._found: dict[int, StepEffect] = {}
        self._ops: dict[int, str] = {}
        self._missing: dict[str, None] = {}
        self._files: dict[str, _File] = {}
        self._folders: dict[str, int] = {}
        self._synced: dict[str, TreeEntry] = {}  # files of the base or of the last checkpoint
        self._base: dict[str, TreeEntry] = {}
        self._data: dict[bytes, bytes] = {}
        self._data_bytes = 0
        self._kept: dict[bytes, bytes] = {}  # blob id to the SHA-256 of the object that holds it
        self._ignored: FileStates | None = None
        self._is_known = False
        self._pending: list[tuple[int, tuple[str, ...]]] = []
        self._touched: dict[str, int] = {}
        self._blamed: set[str] = set()
        self._unknown: set[str] = set()
        self._confirmed: set[int] = set()  # edits whose result has exactly the recorded bytes
        self._opaque: int | None = None
        self._sure: set[str] = set()
        self._checkpoints = 0
        self._algorithm: DigestAlgorithm = "git-sha1"
        self._begin(reader)

    def _begin(self, reader: TrailReader) -> None:
        base = reader.header.base
        self._is_history = reader.header.tool == _HISTORY
        if base is None and self._is_history:
            self._sync({})  # the first commit has no parent, so the tree starts empty
            return
        if not isinstance(base, Digest) or base.algorithm == "sha256":
            self._missing["the trail does not say which commit its run began from"] = None
            return
        self._algorithm = base.algorithm
        entries = self._sources.entries(base)
        if entries is None:
            self._missing[f"{base.value.hex()}, from which the run began, is not in the repository"] = None
            return
        self._base = entries
        self._sync(entries)
        wanted = (
            self._lexical(value) for step in reader.steps() if step.code in _FILE_STEPS for value in step.operands[:2]
        )
        blobs = {entries[path].blob for path in wanted if path is not None and path in entries}
        self._sources.expect(blobs | {entry.blob for entry in entries.values() if entry.mode == LINK})

    # Steps

    def take(self, index: int, step: Step) -> None:
        if step.code == _CHECKPOINT:
            if step.outcome == "ok" and not {NOTE_CHECKED_OUT, NOTE_MERGED}.isdisjoint(_notes(step.note)):
                self._take_over(index, step)
            elif step.outcome == "ok":
                self._checkpoint(index, step)
        elif step.code == _COMMIT and step.outcome == "ok" and _is_named(step):
            self._commit(index, step)
        elif step.code in _FILE_STEPS:
            if step.outcome not in _NOT_TAKEN:
                self._file_step(index, step)
        elif step.code not in _HARMLESS and step.outcome != "denied":
            self._command(index)

    def finish(self) -> Effects:
        for index, _ in self._pending:
            self._say(index, "not judged", "no checkpoint follows it")
        if not self._checkpoints:
            self._missing["no checkpoint records the files"] = None
        steps = tuple(self._found[index] for index in sorted(self._found))
        counts = {
            verdict: sum(step.verdict == verdict for step in steps)
            for verdict in ("start", "right", "wrong", "not judged", "outside")
        }
        effects = Effects("not shown", "", steps, tuple(self._missing))
        wrong = effects.first_wrong
        told = (
            ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count) or "no step changed a file"
        )
        if wrong is not None:
            return effects._replace(
                verdict="wrong", summary=f"step {wrong.at} {wrong.op} is wrong: {wrong.detail} ({told})"
            )
        if self._missing or counts["not judged"] or not counts["right"]:
            lacks = "; ".join(self._missing)
            return effects._replace(summary=f"not shown: {told}{'; ' if lacks else ''}{lacks}")
        return effects._replace(verdict="verified", summary=f"verified: {told}")

    def _say(self, index: int, verdict: EffectVerdict, detail: str) -> None:
        held = self._found.get(index)
        if held is None or held.verdict != "wrong":
            self._found[index] = StepEffect(index, self._ops[index], verdict, detail)

    def _command(self, index: int) -> None:
        self._opaque = index
        self._sure.clear()

    def _file_step(self, index: int, step: Step) -> None:
        self._ops[index] = opcode_name(step.code)
        paths: tuple[str, ...] = ()
        try:
            if not self._is_known:
                raise _CannotTellError("the files that it changed are not available")  # noqa: TRY301 - told as the others
            follows = step.code in (_WRITE, _EDIT) and not _is_of_git(step)
            count = 2 if step.code == _MOVE else 1
            paths = tuple(self._path(value, follows=follows) for value in step.operands[:count])
            self._touched.update(dict.fromkeys(paths, index))
            if step.outcome == "unknown":
                raise _CannotTellError("its outcome is unknown")  # noqa: TRY301 - told as the others
            self._apply(step, paths)
        except _OutsideError as error:
            self._say(index, "outside", str(error))
        except _CannotTellError as error:
            self._say(index, "not judged", str(error))
            if self._is_known and not paths:
                self._command(index)  # the file that it changed is unknown
            for path in paths:
                self._forget(path)
        except _WrongError as error:
            self._say(index, "wrong", str(error))
            for path in paths:
                self._forget(path)
                self._blamed.add(path)
        else:
            self._pending.append((index, paths))

    def _apply(self, step: Step, paths: tuple[str, ...]) -> None:
        if step.code == _WRITE:
            self._write(step, paths[0])
        elif step.code == _EDIT:
            self._edit(step, paths[0])
        elif step.code == _DELETE:
            for path in self._below(paths[0]):
                self._remove(path)
                self._make_sure(path)
        else:
            self._move(*paths)

    def _write(self, step: Step, path: str) -> None:
        self._check_place(path)
        content = step.operands[1]
        modes = (_MODES[note] for note in _notes(step.note) if note in _MODES and _is_of_git(step))
        held = self._files.get(path)
        is_taken = _is_of_git(step) and held is not None and held.mode == SUBMODULE
        mode = next(modes, None) or (FILE if is_taken else self._mode(path))
        if not isinstance(content, Digest):
            raise _CannotTellError("its content was withheld")
        if NOTE_MASKED in _notes(step.note):
            raise _CannotTellError("its content holds secrets, which were masked")
        if content.algorithm != "sha256":
            self._put(path, _File(mode, content.value))
        else:
            data = self._sources.object(content.value)
            if data is None:
                self._put(path, _File(mode, None, content.value))
            else:
                self._put(path, self._held(mode, data))
        self._make_sure(path)

    def _edit(self, step: Step, path: str) -> None:
        old, new = (self._text(value) for value in step.operands[1:3])
        held = self._files.get(path)
        if held is None and old:
            raise self._absent(path)
        data = b"" if held is None else self._content(held)
        if data is None:
            raise _CannotTellError(f"the content of {path} is unknown")
        after = self._replaced(path, data, old, new, is_every=NOTE_EVERY in _notes(step.note))
        if NOTE_AFTER in _notes(step.note) and isinstance(step.result, Digest):
            found = hashlib.sha256(after).digest()
            if found != step.result.value:
                raise self._doubt(path, f"{path} would get other bytes than the step records ({self._last(path)})")
            self._confirmed.add(self._touched[path])
        self._check_place(path)
        is_sure = self._is_sure(path)
        self._put(path, self._held(self._mode(path), after))
        if is_sure:
            self._make_sure(path)

    def _replaced(self, path: str, data: bytes, old: bytes, new: bytes, *, is_every: bool) -> bytes:
        if not old:
            if data:
                raise self._doubt(path, f"it has no text to replace, and {path} is not empty")
            return new
        count = data.count(old)
        if not count:
            raise self._doubt(path, f"{path} does not hold the text that it replaced ({self._last(path)})")
        if count > 1 and not is_every:
            raise self._doubt(path, f"{path} holds the text that it replaced {count} times ({self._last(path)})")
        return data.replace(old, new)

    def _move(self, source: str, target: str) -> None:
        sources = self._below(source)
        moved = [(path, target + path[len(source) :], self._files[path], self._is_sure(path)) for path in sources]
        for path, _, _, _ in moved:
            self._remove(path)
            self._make_sure(path)
        for path, place, file, is_sure in moved:
            self._check_place(place)
            self._put(place, file)
            self._touched[place] = self._touched.get(path, self._touched[target])
            if is_sure:
                self._make_sure(place)
            else:
                self._forget_place(place)

    def _below(self, path: str) -> list[str]:
        """Return the file ``path``, or the files in the folder of that name."""
        if path in self._files:
            return [path]
        found = [one for one in self._files if one.startswith(path + "/")] if self._folders.get(path) else []
        if not found:
            raise self._absent(path)
        last = self._touched[path]
        self._touched.update(dict.fromkeys(found, last))
        return found

    # Checkpoints

    def _checkpoint(self, index: int, step: Step) -> None:
        self._ops[index] = opcode_name(step.code)
        state = step.operands[0]
        if not isinstance(state, Digest) or state.algorithm == "sha256":
            self._say(
                index, "not judged", "its tree was withheld" if not isinstance(state, Digest) else "not a git tree"
            )
            self._command(index)
            return
        self._checkpoints += 1
        standing = self._standing(step)
        if standing is not None:
            self._ignored = standing
            self._kept.update(
                (standing.changed[path].blob, digest)
                for path, digest in standing.contents.items()
                if path in standing.changed
            )
        if self._is_known and self._computed(state.algorithm) == state.value:
            self._settle(index, "every file is as the steps make it")
            return
        entries = self._entries(state, standing)
        if entries is None:
            self._judge_blindly(index)
            return
        if not self._is_known or (not self._touched and self._opaque is None and self._checkpoints == 1):
            is_same = self._is_known and entries == self._synced
            detail = "every file is as in the base" if is_same else self._start_detail(entries)
            self._say(index, "right" if is_same else "start", detail)
            self._leave_pending("the files that it changed are not available")
            self._sync(entries)
            return
        self._compare(index, entries)

    def _commit(self, index: int, step: Step) -> None:
        """Compare with a commit. The commit of an agent need not contain all files of the tree."""
        state = step.operands[2]
        assert isinstance(state, Digest)
        entries = self._sources.entries(state)
        if self._is_known and entries is not None:
            held = {
                path: TreeEntry(file.mode, file.blob) for path, file in self._files.items() if file.blob is not None
            }
            self._ops[index] = opcode_name(step.code)
            if len(held) == len(self._files) and held == entries:
                self._checkpoints += 1
                self._settle(index, "every file is as the steps make it")
                return
            if self._is_history:
                self._checkpoints += 1
                self._compare(index, entries)
                return
        if self._is_history:
            self._ops[index] = opcode_name(step.code)
            self._say(index, "not judged", "the commit is not in the repository")
        else:
            self._command(index)

    def _take_over(self, index: int, step: Step) -> None:
        """Take over the files of a checkout or merge, which no step wrote. Only what a merge settled before it is
        judged by it.
        """
        self._ops[index] = opcode_name(step.code)
        state = step.operands[0]
        entries = self._entries(state, None) if isinstance(state, Digest) and state.algorithm != "sha256" else None
        if entries is None:
            self._say(index, "not judged", "the files of its tree are not available")
            self._leave_pending(f"the checkpoint, step {index}, could not be compared")
            self._command(index)
            return
        for at, paths in self._pending:
            if NOTE_MERGED not in _notes(step.note) or not self._is_known:
                self._say(at, "not judged", "no checkpoint follows it")
            elif all(self._agree(self._files.get(path), entries.get(path)) for path in paths):
                self._say(at, "right", f"as at the checkpoint, step {index}")
            else:
                self._say(at, "not judged", f"the merge made other files, at the checkpoint, step {index}")
        self._pending.clear()
        self._say(index, "start", "the check goes on with the files of this checkpoint")
        self._sync(entries)

    def _start_detail(self, entries: Mapping[str, TreeEntry]) -> str:
        if not self._is_known:
            return "the check begins with the files of this checkpoint"
        differing = [path for path in {*entries, *self._synced} if entries.get(path) != self._synced.get(path)]
        return f"the run began with files that the base does not have: {_some(differing)}"

    def _compare(self, index: int, entries: Mapping[str, TreeEntry]) -> None:
        """Find the files that differ, and the steps that caused it."""
        wrong: list[str] = []
        unknown: list[str] = []
        for path in sorted({*entries, *self._files}):
            file, entry = self._files.get(path), entries.get(path)
            if self._agree(file, entry):
                continue
            if entry is None and path not in self._synced and self._ignored is not None and self._ignored.ignores(path):
                self._leave_out(path)
            elif path in self._blamed:
                continue
            elif (file is not None and file.blob is None and not self._refutes(file, entry)) or not self._is_sure(path):
                unknown.append(path)
            else:
                wrong.append(path)
        if self._blamed:  # these may follow from a step that is wrong by itself
            unknown, wrong = [*unknown, *wrong], []
        bad = set(wrong)
        doubtful = {*unknown, *self._blamed}
        unexplained: list[str] = []
        for path in wrong:
            at = self._touched.get(path)
            if at is None or at in self._confirmed:
                unexplained.append(path)
            else:
                self._say(at, "wrong", f"{path} differs from the checkpoint, step {index}")
        for at, paths in self._pending:
            if at in self._confirmed and not doubtful.intersection(paths):
                self._say(
                    at,
                    "right",
                    f"the file is as the step says, but not as at the checkpoint, step {index}"
                    if bad.intersection(paths)
                    else f"as at the checkpoint, step {index}",
                )
            elif bad.intersection(paths):
                self._say(
                    at, "not judged", f"{_some(bad.intersection(paths))} is wrong at the checkpoint, step {index}"
                )
            elif doubtful.intersection(paths):
                self._say(
                    at,
                    "not judged",
                    f"{_some(doubtful.intersection(paths))} was changed by a step that cannot be judged",
                )
            elif at not in self._found:
                self._say(at, "right", f"as at the checkpoint, step {index}")
        self._pending.clear()
        if unexplained:
            self._say(index, "wrong", f"{_some(unexplained)} has content that no step before made")
        elif wrong:
            self._say(index, "not judged", f"{_some(wrong)} differs: see the steps before")
        elif unknown:
            self._blame_command(index, unknown)
        else:
            self._say(index, "right", "every file that can be judged is as the steps make it")
        self._sync(entries)

    def _blame_command(self, index: int, unknown: list[str]) -> None:
        why = f"{_some(unknown)} has content that no step made"
        if self._opaque is not None:
            why += f"; step {self._opaque} and others like it may have changed it"
        self._say(index, "not judged", why)

    def _judge_blindly(self, index: int) -> None:
        """Handle a tree that differs while its files are not available."""
        if self._is_known and self._opaque is None and all(file.blob is not None for file in self._files.values()):
            self._say(
                index, "wrong", "the steps make another tree, and the files of this one are not available to say where"
            )
        else:
            self._say(index, "not judged", "the files of its tree are not available")
        self._leave_pending(f"the checkpoint, step {index}, could not be compared")
        self._touched.clear()
        self._blamed.clear()
        self._command(index)

    def _settle(self, index: int, detail: str) -> None:
        self._say(index, "right", detail)
        for at, _ in self._pending:
            if at not in self._found:
                self._say(at, "right", f"as at the checkpoint, step {index}")
        self._pending.clear()
        self._sync(
            {path: TreeEntry(file.mode, file.blob) for path, file in self._files.items() if file.blob is not None}
        )

    def _leave_pending(self, why: str) -> None:
        for at, _ in self._pending:
            self._say(at, "not judged", why)
        self._pending.clear()

    def _leave_out(self, path: str) -> None:
        """Drop ``path``, which git ignores: the steps that wrote it are no part of the tree."""
        for at, paths in self._pending:
            if path in paths:
                self._say(at, "outside", f"git leaves {path} out")

    def _standing(self, step: Step) -> FileStates | None:
        if not isinstance(step.result, Digest) or step.result.algorithm != "sha256":
            return None
        data = self._sources.object(step.result.value)
        try:
            return None if data is None else decode_file_states(data)
        except FormatError:
            return None  # a result of another kind

    def _entries(self, state: Digest, standing: FileStates | None) -> dict[str, TreeEntry] | None:
        """Return the files behind a tree; the files kept by the recorder must have the id of that tree."""
        if standing is not None:
            entries = standing.entries(self._base)
            try:
                if tree_id(entries, state.algorithm) == state.value:
                    return entries
            except UsageError:
                pass  # such a tree cannot exist
        return self._sources.entries(state)

    def _computed(self, algorithm: DigestAlgorithm) -> bytes | None:
        entries = {path: TreeEntry(file.mode, file.blob) for path, file in self._files.items() if file.blob is not None}
        try:
            return tree_id(entries, algorithm) if len(entries) == len(self._files) else None
        except UsageError:
            return None

    def _agree(self, file: _File | None, entry: TreeEntry | None) -> bool:
        if file is None or entry is None:
            return file is None and entry is None
        if file.blob is not None:
            return (file.mode, file.blob) == (entry.mode, entry.blob)
        data = self._blob(entry.blob) if file.sha256 is not None and file.mode == entry.mode else None
        return data is not None and hashlib.sha256(data).digest() == file.sha256

    def _refutes(self, file: _File, entry: TreeEntry | None) -> bool:
        """Return whether a file known only by its SHA-256 certainly differs from ``entry``."""
        if file.sha256 is None:
            return False
        data = self._blob(entry.blob) if entry is not None else None
        return entry is None or (data is not None and hashlib.sha256(data).digest() != file.sha256)

    # The tree

    def _sync(self, entries: Mapping[str, TreeEntry]) -> None:
        self._is_known = True
        self._synced = dict(entries)
        self._files = {path: _File(entry.mode, entry.blob) for path, entry in entries.items()}
        self._folders = {}
        for path in self._files:
            self._count_folders(path, 1)
        self._touched.clear()
        self._blamed.clear()
        self._unknown.clear()
        self._confirmed.clear()
        self._sure.clear()
        self._opaque = None

    def _put(self, path: str, file: _File) -> None:
        if path not in self._files:
            self._count_folders(path, 1)
        self._files[path] = file

    def _remove(self, path: str) -> None:
        if self._files.pop(path, None) is not None:
            self._count_folders(path, -1)

    def _count_folders(self, path: str, change: int) -> None:
        while path := posixpath.dirname(path):
            self._folders[path] = self._folders.get(path, 0) + change

    def _forget(self, path: str) -> None:
        """Mark the content of ``path`` as unknown."""
        held = self._files.get(path)
        if held is not None:
            self._files[path] = _File(held.mode, None)
        self._sure.discard(path)
        self._unknown.add(path)

    def _forget_place(self, path: str) -> None:
        """Mark a moved file as not sure if it was not sure at its old place."""
        self._sure.discard(path)
        self._unknown.add(path)

    def _make_sure(self, path: str) -> None:
        self._sure.add(path)
        self._unknown.discard(path)

    def _mode(self, path: str) -> str:
        held = self._files.get(path)
        if held is not None and held.mode == SUBMODULE:
            raise _WrongError(f"{path} is another repository, not a file")
        return FILE if held is None or held.mode == LINK else held.mode

    def _check_place(self, path: str) -> None:
        if self._folders.get(path):
            raise self._doubt(path, f"{path} is a folder")
        parent = path
        while parent := posixpath.dirname(parent):
            if parent in self._files:
                raise self._doubt(parent, f"{parent} is a file, so {path} cannot be one")

    def _is_sure(self, path: str) -> bool:
        return path not in self._unknown and (self._opaque is None or path in self._sure)

    def _doubt(self, path: str, why: str) -> Exception:
        """Return the error for a step that does not fit: wrong if the content of the file is sure, otherwise not
        judged.
        """
        if self._is_sure(path):
            return _WrongError(why)
        return _CannotTellError(f"{why}; {self._why_unsure()}")

    def _why_unsure(self) -> str:
        return "its content is unknown" if self._opaque is None else f"step {self._opaque} may have changed it"

    def _absent(self, path: str) -> Exception:
        if not self._is_sure(path):
            return _CannotTellError(f"there is no {path}; {self._why_unsure()}")
        if path in self._blamed:
            return _CannotTellError(f"it is unknown what became of {path}")
        if self._ignored is None or self._ignored.ignored is None:
            return _CannotTellError(f"there is no {path} among the files that git keeps")
        if self._ignored.ignores(path):
            return _OutsideError(f"git leaves {path} out")
        return _WrongError(f"there is no {path}")

    def _last(self, path: str) -> str:
        """Return a text that names the step before the current one that touched the file."""
        at = next((index for index, paths in reversed(self._pending) if path in paths), None)
        return "as it stood before" if at is None else f"as step {at} left it"

    # Contents

    def _held(self, mode: str, data: bytes) -> _File:
        name = blob_id(data, self._algorithm)
        if name not in self._data and self._data_bytes + len(data) <= _HELD_BYTES_MAX:
            self._data[name] = data
            self._data_bytes += len(data)
        return _File(mode, name, hashlib.sha256(data).digest())

    def _content(self, file: _File) -> bytes | None:
        if file.mode == SUBMODULE:
            return None
        data = self._blob(file.blob) if file.blob is not None else None
        return data if data is not None or file.sha256 is None else self._sources.object(file.sha256)

    def _blob(self, name: bytes) -> bytes | None:
        data = self._data.get(name)
        if data is None and name in self._kept:
            data = self._sources.object(self._kept[name])
            if data is not None and blob_id(data, git_algorithm(name)) != name:
                data = None
        return data if data is not None else self._sources.blob(name)

    def _text(self, value: OperandValue) -> bytes:
        if isinstance(value, str):
            if "[masked:" in value:
                raise _CannotTellError("its text holds secrets, which were masked")
            return value.encode()
        if isinstance(value, TextObject):
            data = self._sources.object(value.sha256)
            if data is None:
                raise _CannotTellError("its text is not available")
            if b"[masked:" in data:
                raise _CannotTellError("its text holds secrets, which were masked")
            return data
        raise _CannotTellError("its text was withheld")

    # Paths

    def _lexical(self, value: OperandValue) -> str | None:
        """Return the path relative to the top of the tree, or None if it is outside."""
        if not isinstance(value, str):
            return None
        if value.startswith("/"):
            if not self._root or not value.startswith(self._root + "/"):
                return None
            value = value[len(self._root) + 1 :]
        path = posixpath.normpath(value)
        if path.startswith(("../", "/")) or path in ("..", "."):
            return None
        return None if path.split("/")[0] in (".git", ".periplus") else path

    def _path(self, value: OperandValue, *, follows: bool) -> str:
        """Resolve the path of a step: links on the way are followed; a link at its end only if ``follows``."""
        if not isinstance(value, str):
            raise _CannotTellError("its path was withheld")
        path = self._lexical(value)
        for _ in range(_HOPS_MAX):
            if path is None:
                raise _OutsideError(f"{value} is not a file of the tree")
            link = self._link_on(path, follows=follows)
            if link is None:
                return path
            data = self._content(self._files[link])
            if data is None:
                raise _CannotTellError(f"the target of the link {link} is unknown")
            target = data.decode("utf-8", "surrogateescape")
            path = self._lexical(posixpath.join(posixpath.dirname(link), target) + path[len(link) :])
        raise _CannotTellError(f"{value} is a loop of links")

    def _link_on(self, path: str, *, follows: bool) -> str | None:
        names = path.split("/")
        for count in range(1, len(names) + (1 if follows else 0)):
            part = "/".join(names[:count])
            held = self._files.get(part)
            if held is not None and held.mode == LINK:
                return part
        return None


def _is_of_git(step: Step) -> bool:
    """Return whether the step writes an entry of a git tree, which replaces a link and does not follow it."""
    content = step.operands[1]
    return step.code == _WRITE and isinstance(content, Digest) and content.algorithm != "sha256"


def _is_named(step: Step) -> bool:
    """Return whether the step of a commit names the commit."""
    commit = step.operands[2]
    return isinstance(commit, Digest) and commit.algorithm != "sha256"


def _notes(note: Text | None) -> list[str]:
    return note.split("; ") if isinstance(note, str) else []


def _some(paths: Iterable[str]) -> str:
    names = sorted(paths)
    more = f" and {len(names) - _NAMED_MAX:,} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
