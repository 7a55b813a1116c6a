"""Read the state of a git worktree without touching it.

Git lists tracked and ignored files; the files are read and hashed here, as their bytes are. So the user's index is
neither used nor refreshed, and no filter, hook or monitor of the repository runs. Where filters or line endings are
set up, the tree is that of the files as they are, not as git would store them. The store's own folder is left out,
for it changes while a run is recorded.
"""

from __future__ import annotations

__all__ = ["Worktree", "WorktreeState", "base_entries", "read_blobs", "standing_of", "worktree_of"]

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from periplus.base.errors import FormatError, environment_failure
from periplus.base.named_tuple import NamedTuple
from periplus.interop.git_history.git_process import ask, check_repository, run_git
from periplus.journal import STORE_FOLDER
from periplus.trail.checkpoints.file_states import IGNORED_MAX, FileStates
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
from periplus.trail.model import Digest, DigestAlgorithm
from periplus.trail.recording.live_step import CONTENT_BYTES_MAX

FILES_MAX: Final = 1_000_000
_FILE_BYTES_MAX: Final = 1 << 30
_AT_ONCE_BYTES: Final = 8 << 20
_OWN: Final = STORE_FOLDER + "/"
_SETTLED_NS: Final = 2_500_000_000  # a file system may round times to two seconds


class WorktreeState(NamedTuple):
    """The files of a worktree by path, and the files that git ignores (None where there are too many)."""

    tree: bytes
    entries: dict[str, TreeEntry]
    ignored: tuple[str, ...] | None


def worktree_of(folder: str) -> Worktree | None:
    """Return the worktree that ``folder`` lies in; None outside git, and in a bare repository."""
    at = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(at, ".git")):
        parent = os.path.dirname(at)
        if parent == at:
            return None
        at = parent
    return Worktree(at)


class Worktree:
    """The worktree in the folder ``top``. A look costs a ``stat`` of each file, and reading changed ones."""

    def __init__(self, top: str) -> None:
        self.top = top
        self._algorithm: DigestAlgorithm | None = None
        self._known: dict[str, tuple[tuple[int, ...], TreeEntry]] = {}

    @property
    def algorithm(self) -> DigestAlgorithm:
        """Return git's hash in this repository. Git is asked at the first use: a step alone starts no process. Raises
        FormatError, EnvironmentFailure where git cannot, or will not, work there.
        """
        if self._algorithm is None:
            found = ask(self.top, "rev-parse", "--show-object-format").strip()
            if not found:
                check_repository(self.top)  # raises the reason; git before 2.29 says nothing, and knows SHA-1 alone
            self._algorithm = "git-sha256" if found == b"sha256" else "git-sha1"
        return self._algorithm

    def commit(self) -> Digest | None:
        """Return the commit of HEAD; None before the first."""
        algorithm = self.algorithm
        text = ask(self.top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip().decode("ascii", "replace")
        return Digest(algorithm, bytes.fromhex(text)) if text else None

    def look(self) -> WorktreeState:
        """Return the present files. Raises FormatError, EnvironmentFailure."""
        algorithm = self.algorithm
        entries: dict[str, TreeEntry] = {}
        folders: dict[str, bool] = {"": True}
        for path, held in self._paths():
            if path.startswith(_OWN):
                continue
            if held is not None:
                entries[path] = held
                continue
            if self._is_folder(os.path.dirname(path), folders):
                entry = self._entry(path)
                if entry is not None:
                    entries[path] = entry
            if len(entries) > FILES_MAX:
                raise FormatError(f"over {FILES_MAX:,} files in {self.top}")
        return WorktreeState(tree_id(entries, algorithm), entries, self._ignored())

    def content(self, path: str) -> bytes:
        """Return the bytes of a file, or the target of a link. Raises OSError."""
        full = os.path.join(self.top, path)
        if stat.S_ISLNK(os.lstat(full).st_mode):
            return os.fsencode(os.readlink(full))
        fd = os.open(full, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            return file.read(_FILE_BYTES_MAX)

    def _blob(self, path: str, size: int) -> bytes | None:
        """Return the file's name in git; None for a file that is left out of our trees: over FILE_BYTES_MAX, or being
        written right now.
        """
        if size <= _AT_ONCE_BYTES:
            return blob_id(self.content(path), self.algorithm)
        if size > _FILE_BYTES_MAX:
            return None
        hasher = hashlib.new(
            "sha1" if self.algorithm == "git-sha1" else "sha256", b"blob %d\0" % size, usedforsecurity=False
        )
        fd = os.open(os.path.join(self.top, path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            while size > 0 and (piece := file.read(_AT_ONCE_BYTES)):
                hasher.update(piece)
                size -= len(piece)
        return hasher.digest() if size == 0 else None

    def _paths(self) -> Iterator[tuple[str, TreeEntry | None]]:
        """Return each path once; with its entry where that counts instead of the file (submodules, sparse checkouts)."""
        seen: set[str] = set()
        for token in self._listed("-s", "-t"):
            meta, _, name = token.partition(b"\t")
            path = _decoded(name)
            fields = meta.split()
            if path in seen or len(fields) != 4:
                continue
            seen.add(path)
            mode = fields[1].decode("ascii", "replace")
            is_held = fields[0] == b"S" or mode == SUBMODULE
            yield path, TreeEntry(mode, bytes.fromhex(fields[2].decode("ascii", "replace"))) if is_held else None
        for token in self._listed("--others", "--exclude-standard"):
            if not token.endswith(b"/"):  # a repository within this one is no part of it
                yield _decoded(token), None

    def _listed(self, *options: str) -> Iterable[bytes]:
        finished = run_git(self.top, "ls-files", "-z", *options, work_tree=self.top)
        if finished.returncode:
            said = finished.stderr.decode("utf-8", "replace").strip().splitlines()
            raise FormatError(f"git could not list the files: {said[-1] if said else 'no reason given'}", path=self.top)
        return [token for token in finished.stdout.split(b"\0") if token]

    def _ignored(self) -> tuple[str, ...] | None:
        found = [_decoded(one) for one in self._listed("--others", "--ignored", "--exclude-standard", "--directory")]
        found = [one for one in found if not one.startswith(_OWN)]
        return tuple(found) if len(found) <= IGNORED_MAX else None

    def _is_folder(self, path: str, known: dict[str, bool]) -> bool:
        """Return True where ``path`` is a folder and no link leads to it: behind a link are the files of another
        folder.
        """
        found = known.get(path)
        if found is None:
            try:
                mode = os.lstat(os.path.join(self.top, path)).st_mode
                found = stat.S_ISDIR(mode) and self._is_folder(os.path.dirname(path), known)
            except OSError:
                found = False
            known[path] = found
        return found

    def _entry(self, path: str) -> TreeEntry | None:
        full = os.path.join(self.top, path)
        try:
            status = os.lstat(full)
            stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
            known = self._known.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            if stat.S_ISLNK(status.st_mode):
                mode = LINK
            elif stat.S_ISREG(status.st_mode):
                mode = EXECUTABLE if status.st_mode & 0o100 else FILE
            else:
                return None
            blob = self._blob(path, status.st_size) if mode != LINK else blob_id(self.content(path), self.algorithm)
            if blob is None:
                return None
            entry = TreeEntry(mode, blob)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise environment_failure(error, "read", full) from error
        if max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _SETTLED_NS:
            self._known[path] = (stamp, entry)
        return entry


def standing_of(looked: WorktreeState, base: bytes, base_files: Mapping[str, TreeEntry]) -> FileStates:
    """Return how ``looked`` differs from the tree ``base``."""
    changed = {path: entry for path, entry in looked.entries.items() if base_files.get(path) != entry}
    removed = tuple(path for path in base_files if path not in looked.entries)
    return FileStates(base, looked.tree, changed, removed, looked.ignored, {})


def base_entries(repository: str, name: bytes) -> dict[str, TreeEntry] | None:
    """Return the files of a commit or tree without the store's own; None where the repository does not have it."""
    finished = run_git(repository, "ls-tree", "-r", "-z", "--full-tree", name.hex())
    if finished.returncode:
        return None
    entries: dict[str, TreeEntry] = {}
    for token in finished.stdout.split(b"\0"):
        meta, _, path = token.partition(b"\t")
        fields = meta.split()
        if len(fields) == 3:
            entry = TreeEntry(fields[0].decode("ascii", "replace"), bytes.fromhex(fields[2].decode("ascii", "replace")))
            entries[_decoded(path)] = entry
    return {path: entry for path, entry in entries.items() if not path.startswith(_OWN)}


def read_blobs(repository: str, names: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the content of those of these blobs that the repository has, each checked against its name; none over 64
    MiB.
    """
    wanted = _of_size(repository, list(dict.fromkeys(names)))
    if not wanted:
        return {}
    out = run_git(repository, "cat-file", "--batch", said=_lines(wanted)).stdout
    found: dict[bytes, bytes] = {}
    at = 0
    for name in wanted:
        end = out.find(b"\n", at)
        fields = out[at:end].split()
        at = end + 1
        if end < 0 or len(fields) != 3:
            continue
        size = int(fields[2])
        data = out[at : at + size]
        at += size + 1
        if fields[1] == b"blob" and blob_id(data, git_algorithm(name)) == name:
            found[name] = data
    return found


def _of_size(repository: str, names: list[bytes]) -> list[bytes]:
    """Return those of ``names`` that are blobs small enough to be read."""
    if not names:
        return []
    lines = run_git(repository, "cat-file", "--batch-check", said=_lines(names)).stdout.splitlines()
    fields = [line.split() for line in lines]
    small = {row[0] for row in fields if len(row) == 3 and row[1] == b"blob" and int(row[2]) <= CONTENT_BYTES_MAX}
    return [name for name in names if name.hex().encode() in small]


def _lines(names: list[bytes]) -> bytes:
    return b"".join(b"%b\n" % name.hex().encode() for name in names)


def _decoded(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
