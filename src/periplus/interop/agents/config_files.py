"""Configuration files on the disk: checks, plans, writes and restores.

Rules:

* everything is planned before anything is written: a file that cannot be changed refuses the whole plan;
* a file is written whole or not at all, with its former mode, at the place of its bytes: a link to it stays a link. Within
  a project no link may lead out of it; in a person's own folders links are followed, because people keep such files there;
* a file that is read-only, belongs to another user, or has a second name (a hard link) is refused;
* before a file is changed, its bytes are kept with the digest of the result. While the file has that digest,
  disconnecting restores exactly those bytes; otherwise our entries are removed from the present file. Nobody else may
  read the kept bytes.
"""

from __future__ import annotations

__all__ = ["Change", "Keeping", "apply", "is_connected", "located", "plan_connect", "plan_disconnect", "read_held"]

import errno
import os
import re
import stat
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from periplus.base.encoding.digests import sha256
from periplus.base.errors import ConflictError, NotFoundError, PeriplusError, RefusedError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.filesystem.confined_folder import Confined, Limits
from periplus.base.process.locks import Lock
from periplus.interop.agents.agent_model import Agent, Site
from periplus.interop.agents.config_parts import BlockPart, Part, put, standing, take

FILE_BYTES_MAX: Final = 16 << 20
_LIMITS: Final = Limits(FILE_BYTES_MAX)
_RECEIPT_BYTES_MAX: Final = 1 << 16
_NAME: Final = 24
_LEFT: Final = re.compile(r"\.periplus-write\.([0-9]{1,9})\.[0-9a-f]+\.tmp")


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Record of a changed file: whether it ``existed``, its digest before and after, and the folders that were made
    for it (the outermost first). Its former bytes lie beside the receipt.
    """

    schema: str
    path: str
    existed: bool
    before: str
    after: str
    folders: tuple[str, ...]


class Change(NamedTuple):
    """A file's bytes before and after, None for no file. ``path`` is its name, ``real`` its place.

    ``edited``: an edit in our part is replaced, and kept. ``baseline``: what disconnecting restores.
    """

    path: str
    real: str
    root: str
    agents: tuple[str, ...]
    what: tuple[str, ...]
    before: bytes | None
    after: bytes | None
    baseline: bytes | None
    edited: bool


class _Target(NamedTuple):
    path: str
    real: str
    root: str
    agents: tuple[str, ...]
    parts: tuple[Part, ...]


class Keeping:
    """Folder with the former contents of files. It need not exist."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self.folder = folder
        self.files = files or Files()

    def receipt(self, real: str) -> Receipt | None:
        """Return the receipt; None where it is missing or unreadable. Our part is then found by its form."""
        try:
            found = msgspec.json.decode(read_plain(self._path(real, "json"), _RECEIPT_BYTES_MAX), type=Receipt)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found if found.path == _shown(real) and found.schema == "periplus.connection/1" else None

    def kept(self, real: str, receipt: Receipt) -> bytes | None:
        """Return the former bytes; None where there was no file. Raises NotFoundError where they were changed."""
        if not receipt.existed:
            return None
        try:
            data = read_plain(self._path(real, "before"), FILE_BYTES_MAX)
        except OSError:
            data = b""
        if _digest(data) != receipt.before:
            raise NotFoundError(f"the former contents of {receipt.path} are not kept any more")
        return data

    def keep(self, change: Change, folders: tuple[str, ...]) -> None:
        assert change.after is not None
        existed = change.baseline is not None
        folders = tuple(
            folder for folder in folders if folder == _shown(folder)
        )  # other folders stay when they are empty
        before, after = _digest(change.baseline), _digest(change.after)
        receipt = Receipt("periplus.connection/1", _shown(change.real), existed, before, after, folders)
        if change.baseline is not None:
            self._write(self._path(change.real, "before"), change.baseline)
        self._write(self._path(change.real, "json"), msgspec.json.format(msgspec.json.encode(receipt)) + b"\n")

    def keep_edited(self, change: Change) -> str:
        """Keep a file as it was edited; return the path of the copy."""
        assert change.before is not None
        path = self._path(change.real, f"edited-{_digest(change.before)[:8]}")
        self._write(path, change.before)
        return path

    def edited_path(self, change: Change) -> str:
        return self._path(change.real, f"edited-{_digest(change.before)[:8]}") if change.edited else ""

    def forget(self, real: str) -> None:
        for kind in ("json", "before"):
            path = self._path(real, kind)
            try:
                self.files.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise environment_failure(error, "remove", path) from error

    def lock(self) -> Lock:
        try:
            self.files.make_folder(self.folder, 0o700)
        except OSError as error:
            raise environment_failure(error, "make the folder", self.folder) from error
        return Lock(os.path.join(self.folder, "lock"))

    def _path(self, real: str, kind: str) -> str:
        return os.path.join(self.folder, f"{_digest(os.fsencode(real))[:_NAME]}.{kind}")

    def _write(self, path: str, data: bytes) -> None:
        write_atomic(self.files, path, data, mode=0o600)


# -- planning --------------------------------------------------------------------------------------------------------


def plan_connect(site: Site, agents: Sequence[Agent], keeping: Keeping) -> list[Change]:
    """Return the changes for connecting ``agents``, in the order of writing; none where all entries exist."""
    changes = []
    for target in _targets(site, agents):
        before = read_held(target.path, target.real)
        after, edited = before, False
        for part in target.parts:
            edited = edited or standing(part, after, target.path) == "edited"
            after = put(part, after, target.path)
        if after != before:
            changes.append(_change(target, before, after, _baseline(target, before, keeping), edited=edited))
    return changes


def plan_disconnect(site: Site, agents: Sequence[Agent], others: Sequence[Agent], keeping: Keeping) -> list[Change]:
    """Return the changes for disconnecting ``agents``. Entries that one of ``others`` reads too stay while that agent
    is connected.

    A file that cannot be read or changed, and that cannot contain an entry of ours, is ignored.
    """
    stays = {
        target.real for target in _targets(site, [one for one in others if is_connected(site, one)], is_lenient=True)
    }
    changes = []
    for target in _targets(site, agents, is_lenient=True):
        if target.real in stays or not _may_hold_ours(target.real):
            continue
        before = read_held(target.path, target.real)
        if before is None or not _is_ours_in(target, before):
            continue
        after = _baseline(target, before, keeping)
        edited = any(standing(part, before, target.path) == "edited" for part in target.parts)
        if after != before:
            changes.append(_change(target, before, after, after, edited=edited))
    return changes


def is_connected(site: Site, agent: Agent) -> bool:
    """Test that the agent has the first of its parts, which is in no other agent's file; for an unreadable file, that
    it may have it.
    """
    if site.scope in agent.unmarked:
        return False
    mark = agent.parts(site)[0]
    try:
        held = read_held(mark.path, located(site, mark.path)[0])
        return standing(mark, held, mark.path) in ("current", "older", "edited")
    except PeriplusError:
        return _may_hold_ours(os.path.realpath(mark.path))


def _may_hold_ours(real: str) -> bool:
    """Search a file for a word that all our entries have; True also where it cannot be read."""
    try:
        data = read_plain(real, FILE_BYTES_MAX)
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EPERM)
    return b"periplus" in data or b" --agent " in data


def _targets(site: Site, agents: Sequence[Agent], *, is_lenient: bool = False) -> list[_Target]:
    """Return each file once, with its parts; with ``is_lenient`` without files that must not be written."""
    found: dict[str, _Target] = {}
    for agent in agents:
        for part in agent.parts(site):
            try:
                real, root = located(site, part.path)
            except RefusedError:
                if not is_lenient:
                    raise
                continue
            held = found.setdefault(real, _Target(part.path, real, root, (), ()))
            has_block = any(isinstance(one, BlockPart) for one in held.parts)
            parts = (
                held.parts if part in held.parts or (has_block and isinstance(part, BlockPart)) else (*held.parts, part)
            )
            names = held.agents if agent.name in held.agents else (*held.agents, agent.name)
            found[real] = held._replace(parts=parts, agents=names)
    return list(found.values())


def located(site: Site, path: str) -> tuple[str, str]:
    """Return the place of the bytes of ``path``, and the folder that no path may leave."""
    real = os.path.realpath(path)
    if site.scope == "project":
        root = os.path.realpath(site.folder)
        if os.path.commonpath([root, real]) != root:
            raise RefusedError(
                f"{path} leads out of the project through a link to {real}", safe="Nothing was changed.",
                mend="Put a file in the place of the link, or connect with --scope user.",
            )  # fmt: skip
        return real, root
    root = os.path.dirname(real)
    while not os.path.isdir(root):
        root = os.path.dirname(root)
    return real, root


def read_held(path: str, real: str) -> bytes | None:
    """Return the bytes of a file that may be changed; None where there is none. Raises RefusedError for other files."""
    try:
        status = os.lstat(real)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise environment_failure(error, "look at", path) from error
    wrong = ""
    if not stat.S_ISREG(status.st_mode):
        wrong = "is not a plain file"
    elif status.st_uid != os.geteuid():
        wrong = "belongs to another user"
    elif not status.st_mode & stat.S_IWUSR:
        wrong = "is read-only"
    elif status.st_nlink > 1:
        wrong = "has a second name (a hard link)"
    elif status.st_size > FILE_BYTES_MAX:
        wrong = f"has {status.st_size:,} bytes, over the limit of {FILE_BYTES_MAX:,}"
    if wrong:
        raise RefusedError(f"{path} {wrong}", safe="Nothing was changed.",
                           mend="Change that, or name only agents that do not read it.")  # fmt: skip
    try:
        return read_plain(real, FILE_BYTES_MAX)
    except OSError as error:
        raise environment_failure(error, "read", path) from error


def _baseline(target: _Target, now: bytes | None, keeping: Keeping) -> bytes | None:
    """Return the file without our part: the kept bytes where nothing else changed, else what remains of the present
    file.
    """
    receipt, kept = keeping.receipt(target.real), None
    if receipt is not None:
        try:
            kept = keeping.kept(target.real, receipt)
        except NotFoundError:
            receipt = None
    if now is None:
        return None
    if receipt is not None and (_digest(now) == receipt.after or (receipt.existed and _digest(now) == receipt.before)):
        return kept
    rest: bytes | None = now
    for part in reversed(target.parts):
        if rest is not None and _stands(part, rest, target.path):
            rest = take(part, rest, target.path, kept)
    return rest


def _is_ours_in(target: _Target, data: bytes) -> bool:
    return any(_stands(part, data, target.path) for part in target.parts)


def _stands(part: Part, data: bytes, path: str) -> bool:
    return standing(part, data, path) in ("current", "older", "edited")


def _change(
    target: _Target, before: bytes | None, after: bytes | None, baseline: bytes | None, *, edited: bool
) -> Change:
    what = tuple(dict.fromkeys(part.what for part in target.parts))
    return Change(target.path, target.real, target.root, target.agents, what, before, after, baseline, edited)


# -- writing ---------------------------------------------------------------------------------------------------------


def apply(changes: Sequence[Change], keeping: Keeping) -> None:
    """Write the planned changes. After an interruption each file is as before or as planned, and can be restored.

    All files are checked before the first is written. Raises ConflictError for a file that changed since the plan,
    ConfinementError and EnvironmentFailure for a place that is not writable; if a change is detected only during
    writing, earlier writes stay.
    """
    if not changes:
        return
    lock = keeping.lock()
    try:
        with lock.holding():
            made: list[str] = []
            for change in changes:
                _look_at(change, keeping)
            for change in changes:
                _refuse_changed(change)
                with Confined(change.root, files=keeping.files, limits=_LIMITS) as confined:
                    made += _write(change, confined, keeping)
            for folder in sorted(set(made), key=len, reverse=True):
                if os.path.isdir(folder) and not os.listdir(folder):
                    with Confined(os.path.dirname(folder), files=keeping.files) as confined:
                        confined.remove_folder(os.path.basename(folder))
    finally:
        lock.close()


def _refuse_changed(change: Change) -> None:
    if read_held(change.path, change.real) != change.before:
        raise ConflictError(
            f"{change.path} was changed by another process meanwhile",
            safe="It was left as it is.",
            mend="Repeat the command.",
        )


def _look_at(change: Change, keeping: Keeping) -> None:
    """Raise where the change cannot be written."""
    _refuse_changed(change)
    with Confined(change.root, files=keeping.files, limits=_LIMITS) as confined:
        confined.stat(os.path.relpath(change.real, confined.root))  # refuses a file in the place of a folder
    folder = os.path.dirname(change.real)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise environment_failure(denied, "write in", folder)


def _write(change: Change, confined: Confined, keeping: Keeping) -> tuple[str, ...]:
    """Write a change; return the folders that were made for a file that is gone now."""
    name = os.path.relpath(change.real, confined.root)
    _sweep(confined, os.path.dirname(name))
    if change.edited:
        keeping.keep_edited(change)
    receipt = keeping.receipt(change.real)
    if change.after is not None and change.after != change.baseline:
        keeping.keep(change, _missing_folders(confined, name, receipt))
        confined.write(name, change.after)
        return ()
    if change.after is None:
        confined.delete(name)
    else:
        confined.write(name, change.after)
    keeping.forget(change.real)
    if receipt is None or change.after is not None:
        return ()
    return tuple(folder for folder in receipt.folders if change.real.startswith(f"{folder}{os.sep}"))


def _missing_folders(confined: Confined, name: str, receipt: Receipt | None) -> tuple[str, ...]:
    """Return the folders to be made for ``name``, the outermost first, after those made before."""
    names = name.split(os.sep)[:-1]
    folders = [os.path.join(confined.root, *names[:end]) for end in range(1, len(names) + 1)]
    made = receipt.folders if receipt is not None else ()
    return (*made, *(folder for folder in folders if folder not in made and not os.path.isdir(folder)))


def _sweep(confined: Confined, folder: str) -> None:
    """Remove temporary files beside a configuration file whose process is gone."""
    if confined.stat(folder or ".") is None:
        return
    for entry in confined.list(folder or "."):
        left = _LEFT.fullmatch(os.path.basename(entry.path))
        if left is not None and entry.kind == "file" and _is_gone(int(left[1])):
            confined.delete(entry.path)


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _shown(path: str) -> str:
    """Return a path as text, whatever its bytes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _digest(data: bytes | None) -> str:
    return sha256(data).hex() if data is not None else ""
