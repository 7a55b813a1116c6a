"""Workspace of a host's tools: the folder, the pages, the files read so far, the changes of the turn, and cancellation."""

from __future__ import annotations

__all__ = ["ChangeLock", "Guard", "SharedWork", "Workspace", "claims_guard"]

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from periplus.agent.execution.call_checks import CALLING
from periplus.agent.tools.files.change_log import Change, ChangeLog, Recovered, Undone, digest_of, effect_of
from periplus.agent.tools.files.read_restrictions import ReadRestrictions
from periplus.agent.tools.text_pages.page_source import Pages, is_handle
from periplus.base.errors import ClaimedError, ConflictError, NotFoundError, PeriplusError, RefusedError, UsageError
from periplus.base.files import Files
from periplus.base.filesystem.confined_folder import Confined, judge_path

if TYPE_CHECKING:
    from periplus.project import Project

Guard: TypeAlias = Callable[[Sequence[str]], None]
"""Called with paths that are to be changed; raises ClaimedError or another refusal."""

SEEN_MAX: Final = 10_000


class ChangeLock:
    """Lock for changes of the folder. Changes by a command are detected by comparing the folder, so nobody else may change it meanwhile.
    The holder may enter again, from any thread. A cancelled waiter stops waiting.
    """

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._inside: object = None
        self._count = 0

    @contextmanager
    def held(self, who: object) -> Iterator[None]:
        calling = CALLING.get()
        with calling.token.telling(self._wake) if calling is not None else nullcontext(), self._free:
            self._free.wait_for(
                lambda: self._inside in (None, who) or (calling is not None and calling.token.is_cancelled)
            )
            if self._inside not in (None, who):
                raise RefusedError(
                    "the turn was stopped while another agent changed the folder", safe="Nothing was run."
                )
            self._inside = who
            self._count += 1
        try:
            yield
        finally:
            with self._free:
                self._count -= 1
                if not self._count:
                    self._inside = None
                    self._free.notify_all()

    def _wake(self) -> None:
        with self._free:
            self._free.notify_all()


class SharedWork(NamedTuple):
    """The parts of its parent's workspace that a subagent shares: its changes are the parent's, of its ``turn``, and undone with it."""

    changes: ChangeLog
    turn: str
    turnstile: ChangeLock


class Workspace:
    """The working folder ``root`` of the agent. ``state`` is a folder of the session, outside of it or in the store."""

    def __init__(self, root: str, state: str, *, pages: Pages | None = None, guard: Guard | None = None,
                 files: Files | None = None, shared: SharedWork | None = None, unread: ReadRestrictions | None = None,
                 is_out: Callable[[bytes], bool] = lambda _digest: False) -> None:  # fmt: skip
        self.files = files or Files()
        self.unread = unread or ReadRestrictions()
        self.folder = Confined(root, files=self.files)
        self.root = self.folder.root
        self._roots = tuple(dict.fromkeys((self.root, os.path.normpath(root))))
        self.state = os.path.abspath(state)
        self.pages = pages or Pages()
        self._is_shared = shared is not None
        self.changes = shared.changes if shared is not None else ChangeLog(self.state, self.folder, self.files, is_out)
        self.turnstile = shared.turnstile if shared is not None else ChangeLock()
        self.turn = shared.turn if shared is not None else "0"
        self._guard = guard
        self._seen: dict[str, str] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self.folder.close()

    def recover(self) -> Recovered:
        """Recover once, before the first tool runs."""
        return self.changes.recover() if not self._is_shared else Recovered()

    def begin_turn(self, turn: str) -> None:
        """Assign later changes to ``turn``; shared work keeps the parent's turn."""
        if not self._is_shared:
            self.turn = turn

    def shared(self) -> SharedWork:
        """The parts for another workspace to work in this one's turn."""
        return SharedWork(self.changes, self.turn, self.turnstile)

    def path(self, path: str) -> str:
        """Normalise a path relative to the folder; an absolute path inside the folder is accepted too. Raises ConfinementError."""
        if is_handle(path):
            raise UsageError(
                f"{path} is a page, not a file", mend="Pages are read, listed and searched, never changed."
            )
        for root in self._roots:
            if path.startswith("/") and (path == root or path.startswith(root + "/")):
                path = path[len(root) :].strip("/") or "."
        while path.startswith("./"):
            path = path[2:].lstrip("/")
        path = path.rstrip("/") or path
        return "/".join(judge_path(path or ".")) or "."

    def resource(self, path: str) -> str:
        """The resource name of a path for ``Access``; an invalid path is named as it is, and overlaps with nothing."""
        if is_handle(path):
            return f"page:{path}"
        try:
            return f"file:{self.path(path)}"
        except Exception:  # noqa: BLE001 - the call itself will say what is wrong with it
            return f"file:{path}"

    # What the model has seen of files

    def note_seen(self, path: str, digest: str) -> None:
        """Note that the model knows the file with this digest; also used to restore a session."""
        with self._lock:
            self._seen.pop(path, None)
            self._seen[path] = digest
            while len(self._seen) > SEEN_MAX:
                self._seen.pop(next(iter(self._seen)))

    def seen(self, path: str) -> str | None:
        with self._lock:
            return self._seen.get(path)

    def current(self, path: str) -> bytes:
        """The bytes of a file that is to be changed. Raises ConflictError if the model knows another content."""
        data = self.folder.read(path)
        seen = self.seen(path)
        if seen is not None and seen != digest_of(data):
            raise ConflictError(
                f"{path} was changed since it was read", safe="Nothing was changed.", mend=f"read(path={path!r}) again."
            )
        return data

    # Changing

    def apply(self, changes: Sequence[Change]) -> tuple[dict[str, Any], ...]:
        """Apply all of ``changes`` or none, and return the effects. Raises ClaimedError, ConflictError, …"""
        self.guard([change.path for change in changes])
        with self.turnstile.held(self):
            self.changes.apply(self.turn, changes)
        for change in changes:
            after = digest_of(change.after)
            if after is not None:
                self.note_seen(change.path, after)
            else:
                with self._lock:
                    self._seen.pop(change.path, None)
        return tuple(effect_of(change) for change in changes)

    def guard(self, paths: Sequence[str]) -> None:
        """Check paths that are about to be changed. Raises what the guard raises: ClaimedError, RefusedError."""
        if self._guard is not None and paths:
            self._guard(paths)

    def claimed(self, paths: Sequence[str]) -> str:
        """The guard's objection to paths that were changed already; empty without one."""
        try:
            self.guard(paths)
        except RefusedError as error:
            return str(error)
        return ""

    def note_changed(self, changes: Sequence[Change], modes: Mapping[str, int]) -> None:
        """Record that a command changed these files: they belong to the turn, and the model no longer knows their content."""
        self.changes.record(self.turn, changes, modes)

    def undo(self, turn: str, *, with_seen: bool = True, is_merging: bool = False) -> Undone:
        """See ``ChangeLog.undo``; files under a claim of another are refused as for any change."""
        guard = self._guard or (lambda _paths: None)
        done = self.changes.undo(turn, with_seen=with_seen, is_merging=is_merging, guard=guard)
        for path in done.paths:
            with self._lock:
                self._seen.pop(path, None)
        return done

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, None if it cannot be read; for checks of files between calls."""
        try:
            return self.folder.read(path)
        except PeriplusError:
            return None

    def kept(self, sha256: str) -> bytes | None:
        """The bytes with that digest, if a change of the session had them before or after."""
        try:
            return self.changes.content(sha256)
        except (PeriplusError, ValueError):
            return None

    def read_text(self, path: str) -> str:
        """The text of a file or a page. Raises NotFoundError, ConfinementError, BinaryFileError."""
        if is_handle(path):
            return self.pages.read(path)
        from periplus.agent.tools.files.text_encoding import decode

        name = self.path(path)
        entry = self.folder.stat(name)
        if entry is None:
            raise NotFoundError(f"no file {name}")
        return decode(self.folder.read(name)).lines.joined()


def claims_guard(project: Project) -> Guard:
    """A guard that refuses paths under a live claim of another agent, and names the claim."""

    def guard(paths: Sequence[str]) -> None:
        from periplus.memory.coordination.path_check import PATHS_MAX

        for begin in range(0, len(paths), PATHS_MAX):
            blocked = project.work.check(paths[begin : begin + PATHS_MAX]).blocked
            if blocked:
                value = blocked[0].entity.value
                raise ClaimedError(
                    f"{blocked[0].path} is claimed by {value.get('holder')} until {value.get('expires')}: "
                    f"{str(value.get('text', ''))[:80]} [{blocked[0].entity.item_id}]",
                    claims=tuple(dict.fromkeys(one.entity.item_id for one in blocked)),
                    safe="Nothing was changed.",
                    mend="Work on something else, or ask the holder.",
                )

    return guard
