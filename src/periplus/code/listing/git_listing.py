"""The files of a worktree of git, by git's own rules on what is tracked, changed and ignored.

In the usual case two processes run at the same time, and neither reads a file's contents: ``diff-files`` names tracked
files whose stat data differ from the index, ``ls-files --others`` those that are neither tracked nor ignored. Together
they take less time than ``git status``, which compares with the last commit as well, and which reads every file whose
stat data differ again and again, for example in a copied repository. A third, ``ls-files --stage``, runs where the
index is not the one that the caller knows. Git reads contents only for a file as new as the index ("racy"), whose stat
data prove nothing.

Rules kept here:

* Every path that goes into ``dirty`` was looked at with ``lstat``, below folders that are no symbolic links.
* Files that git does not compare (skip-worktree, assume-unchanged) and those with several versions in the index are
  looked at in every listing.
* A submodule with a checkout is listed like a repository of its own. An untracked repository within the worktree is
  left out, as git does: among them are linked worktrees of the same repository.
* The index is looked at again after the processes: where it changed meanwhile, the listing is made anew.
"""

from __future__ import annotations

__all__ = ["MODULES_MAX", "list_worktree"]

import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from periplus.base.named_tuple import NamedTuple
from periplus.code.listing.folder_walk import lstat_stamp
from periplus.code.listing.git_process import SECONDS_MAX, Answer, Git
from periplus.code.listing.model import FILES_MAX, IndexState, Listing, Stamp
from periplus.code.listing.repository import Repository, index_stamp, module_repository

MODULES_MAX: Final = 1_000
TRIES_MAX: Final = 3
_STORE: Final = ".periplus"
_UNTRACKED: Final = ("ls-files", "-z", "--others", "--exclude-standard", f"--exclude={_STORE}/")
_CHANGED: Final = ("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all", "--relative")
_STAGED: Final = ("ls-files", "-z", "--stage", "-v")
_IS_IGNORED: Final = ("check-ignore", "-q", "--")
_IGNORED: Final = "the repository that this folder lies in ignores it"
_LINK_MODE: Final = "120000"
_MODULE_MODE: Final = "160000"
_NEVER: Final = (-1,)  # the stamp of no index: the next listing reads it again
_NOT_LISTED: Final = frozenset({"", ".", "..", ".git", _STORE})
_SUSPICIOUS: Final = re.compile(r"^/|//|\.\.|(?:^|/)\.(?:/|$|git(?:/|$)|periplus)")


class _Part(NamedTuple):
    """One repository of a listing: the root's own, or that of a submodule. ``folder`` is where its listing begins."""

    prefix: str
    folder: str
    repository: Repository


class _Index(NamedTuple):
    """The files of an index by path, and what else ``IndexState`` says of it."""

    files: dict[str, str]
    watched: list[str]
    modules: list[str]
    left_out: int
    last: str


class _FailedError(Exception):
    """Git did not answer for the repository of the root."""


class _ChangedError(Exception):
    """The index has to be read again: it changed meanwhile, or git could not look at some of the files in it."""


def list_worktree(
    root: str, repository: Repository, program: str, environment: Mapping[str, str],
    known: Sequence[IndexState] = (), files_max: int = FILES_MAX, seconds_max: float = SECONDS_MAX,
) -> Listing | str:  # fmt: skip
    """Return the files of ``root``, a folder of the worktree of ``repository``; in words, why git cannot list them.

    ``root`` is absolute and without symbolic links, ``program`` the path of git, and ``known`` the ``indexes`` of an
    earlier listing of the same root. Raises EnvironmentFailure where it takes longer than ``seconds_max``.
    """
    first, until = _Part("", root, repository), time.monotonic() + seconds_max

    def git(repository: Repository) -> Git:
        return Git(program, environment, *repository, until)

    is_known = _is_current(first, known)
    try:
        for number in range(TRIES_MAX):
            reading = _Reading(first, git, known if is_known else (), files_max)
            try:
                found = reading.listing(is_last_try=number + 1 == TRIES_MAX)
                return _IGNORED if _is_left_out(first, found, git) else found
            except _ChangedError:
                is_known = False
    except _FailedError as error:
        return str(error)
    raise AssertionError("the last try does not ask for another")


def _is_left_out(first: _Part, found: Listing, git: Callable[[Repository], Git]) -> bool:
    """Return whether git lists nothing because a repository further up, such as one of a whole home folder, ignores the root."""
    repository = first.repository
    if first.folder == repository.top or found.dirty or any(index.file_count for index in found.indexes):
        return False
    inside = os.path.relpath(first.folder, repository.top)
    return not git(repository).ask(repository.top, (*_IS_IGNORED, f"{inside}/"))[0].problem


class _Reading:
    """One listing of a worktree and of its submodules; with ``known`` it relies on these indexes, without it reads all."""

    def __init__(
        self, first: _Part, git: Callable[[Repository], Git], known: Sequence[IndexState], files_max: int
    ) -> None:
        self._first, self._git = first, git
        self._known = {index.prefix: index for index in known}
        self._left = files_max
        self._disk = _Disk(first.folder)
        self._indexes: list[IndexState] = []
        self._base: dict[str, str] = {}
        self._dirty: dict[str, Stamp | None] = {}
        self._left_out = 0
        self._problems: list[str] = []

    def listing(self, *, is_last_try: bool) -> Listing:
        waiting = [self._first]
        algorithm: Literal["sha1", "sha256"] = "sha1"
        while waiting:
            part = waiting.pop()
            if len(self._indexes) == MODULES_MAX:
                self._problems.append(f"submodules beyond the first {MODULES_MAX:,} are left out")
                break
            git = self._git(part.repository)
            algorithm = algorithm if part.prefix else git.algorithm
            index = self._list(git, part, is_last_try=is_last_try)
            self._indexes.append(index)
            waiting += reversed(_parts(self._first.folder, index, self._disk))
        return Listing(
            "git", tuple(self._indexes), None if self._known else self._base, self._dirty, algorithm,
            self._left_out, "; ".join(self._problems),
        )  # fmt: skip

    def _list(self, git: Git, part: _Part, *, is_last_try: bool) -> IndexState:
        stamp = index_stamp(part.repository)
        known = self._known.get(part.prefix)
        answers = git.ask(part.folder, _UNTRACKED, _CHANGED, *(() if known is not None else (_STAGED,)))
        problem = next((answer.problem for answer in answers if answer.problem), "")
        if problem:
            if not part.prefix:
                raise _FailedError(problem)
            self._problems.append(f"{part.prefix}: {problem}")
            return IndexState(part.prefix, _NEVER)
        if answers[1].said and known is not None:
            raise _ChangedError
        if answers[0].said:
            self._problems.append(_line(answers[0].said))
        if index_stamp(part.repository) != stamp:
            if not is_last_try:
                raise _ChangedError
            stamp = _NEVER
        if known is None:
            index = _read_index(answers[2], part.prefix, self._left)
            self._base |= index.files
            if answers[
                1
            ].said:  # files that git cannot look at, as below a link to itself, are not among the changed ones
                self._dirty |= {path: None for path in index.files if self._disk.stamp(path) is None}
            self._left_out += index.left_out
            known = IndexState(
                part.prefix, stamp, tuple(index.watched), tuple(index.modules), len(index.files), index.last
            )
        self._left = max(0, self._left - known.file_count)
        self._look(known, _paths(answers[1], part.prefix), _paths(answers[0], part.prefix))
        return known

    def _look(self, index: IndexState, changed: Sequence[str], untracked: Sequence[str]) -> None:
        last = _bytes(index.last)
        for path in changed:
            if not last or _bytes(path) <= last:
                self._dirty[path] = self._disk.stamp(path)
        for path in (*index.watched, *untracked):
            stamp = None if path.endswith("/") else self._disk.stamp(path)  # a repository of its own ends so
            if stamp is None:
                continue
            if self._left:
                self._left -= 1
                self._dirty[path] = stamp
            else:
                self._left_out += 1


class _Disk:
    """Stamps of files below ``root``, none of them through a symbolic link."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(root)
        self._folders: dict[str, bool] = {"": True}

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a regular file; None where there is none."""
        if not self.is_folder(path.rpartition("/")[0]):
            return None
        return lstat_stamp(self._place(path))

    def is_folder(self, path: str) -> bool:
        """Return whether ``path`` and all folders above it are folders themselves."""
        depth, unknown = path, []
        while depth not in self._folders:
            unknown.append(depth)
            depth = depth.rpartition("/")[0]
        found = self._folders[depth]
        for one in reversed(unknown):
            found = found and _is_real_folder(self._place(one))
            self._folders[one] = found
        return found

    def _place(self, path: str) -> bytes:
        return self._root + b"/" + _bytes(path)


def _line(said: bytes) -> str:
    return said.decode("utf-8", "replace").strip().partition("\n")[0][:300]


def _is_real_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_current(first: _Part, known: Sequence[IndexState]) -> bool:
    """Return whether the indexes, and the set of submodules with a checkout, are still the ``known`` ones."""
    by_prefix = {index.prefix: index for index in known}
    waiting, seen, disk = [first], 0, _Disk(first.folder)
    while waiting and seen < MODULES_MAX:
        part = waiting.pop()
        index = by_prefix.get(part.prefix)
        if index is None or index.stamp != index_stamp(part.repository):
            return False
        seen += 1
        waiting += _parts(first.folder, index, disk)
    return seen == len(known)


def _parts(root: str, index: IndexState, disk: _Disk) -> list[_Part]:
    """Return the submodules of an index that have a checkout."""
    found = []
    for path in index.modules:
        if disk.is_folder(path):
            folder = os.path.join(root, os.fsdecode(_bytes(path)))
            repository = module_repository(folder)
            if repository is not None:
                found.append(_Part(f"{path}/", folder, repository))
    return found


def _read_index(answer: Answer, prefix: str, files_max: int) -> _Index:
    """Parse ``ls-files --stage -v``: ``H 100644 <id> 0<tab><path>``; the tag is H for a
    file that git compares, M for one that is not merged.
    """
    found = _Index({}, [], [], 0, "")
    files, cut = found.files, 0
    for record in answer.out.decode("utf-8", "surrogateescape").split("\0"):
        head, _, path = record.partition("\t")
        if not path or not _is_sound(path):
            continue
        tag, mode, oid, _ = head.split(" ")
        path = prefix + path
        if mode == _MODULE_MODE:
            found.modules.append(path)
        elif mode == _LINK_MODE and tag == "H":
            continue
        elif tag != "H":
            if not found.watched or found.watched[-1] != path:  # the versions of an unmerged file follow each other
                found.watched.append(path)
        elif len(files) < files_max:
            files[path] = oid
        else:
            cut += 1
    return found._replace(left_out=cut, last=next(reversed(files), "/") if cut else "")


def _paths(answer: Answer, prefix: str) -> list[str]:
    """Return the paths of an answer."""
    paths = answer.out.decode("utf-8", "surrogateescape").split("\0")
    return [prefix + path for path in paths if path and _is_sound(path)]


def _is_sound(path: str) -> bool:
    """Return whether a path lies in the worktree, and neither in git's folder nor in the store: an index may be made by hand."""
    if _SUSPICIOUS.search(path) is None:
        return True
    names = path.removesuffix("/").split("/")
    return not any(name in _NOT_LISTED for name in names)


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
