"""The working folder of a replay, with git in it.

::

    FOLDER/replay.log    what was done (``trail.replay.log``)
    FOLDER/files/        the files of the world, and a git repository of its own where git is there
    FOLDER/home/, tmp/   what commands have for a home and for temporary files

The files of a base commit are read from its repository object by object and written through ``Confined``: without
checkout, hooks, filters or links. Links and submodules are kept as names and ids (``trail.replay.unmaterialized``), so
that trees can still be compared. Git in ``files`` runs like a command, in the same empty environment and confinement,
with hooks, monitors, signing and the configuration of system and user switched off, because a recorded command may have
written anything into that repository.
"""

from __future__ import annotations

__all__ = ["GitFolder", "SourceRepository", "copy_folder", "copy_tree", "no_progress", "take_tree"]

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import EnvironmentFailure, NotFoundError, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.filesystem.confined_folder import Confined
from periplus.journal import STORE_FOLDER
from periplus.trail.checkpoints.git_tree import folder_id, git_algorithm
from periplus.trail.model import Digest
from periplus.trail.replay.file_steps import Folder
from periplus.trail.replay.unmaterialized import UnmaterializedEntries, UnmaterializedEntry, is_left_out

if TYPE_CHECKING:
    import subprocess

    from periplus.trail.replay.command_runner import Ran, Runner

_SETTINGS: Final = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
    "core.autocrlf=false", "core.pager=cat", "core.editor=false", "core.sshCommand=false", "core.askPass=false",
    "commit.gpgSign=false", "gpg.program=false", "credential.helper=", "protocol.allow=never", "gc.auto=0",
    "maintenance.auto=false", "safe.bareRepository=explicit", "safe.directory=*", "user.name=periplus replay",
    "user.email=replay@localhost", "submodule.recurse=false", "diff.external=", "init.defaultBranch=replay",
)  # fmt: skip
_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_DEFAULT_REF_FORMAT": "files",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_STORE: Final = STORE_FOLDER.encode()
_FILE_MODES: Final = {"100644": False, "100755": True, "100664": False}
_CARRIED_MODES: Final = ("120000", "160000")  # links and submodules
_TREE_BYTES_MAX: Final = 256 << 20
_BLOB_BYTES_MAX: Final = 64 << 20
_CORE: Final = b"\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
_CONFIGS: Final = {
    "sha1": b"[core]\n\trepositoryformatversion = 0\n" + _CORE,
    "sha256": b"[core]\n\trepositoryformatversion = 1\n" + _CORE + b"[extensions]\n\tobjectformat = sha256\n",
}
_SMALL_BYTES_MAX: Final = 1 << 16
_ID: Final = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_LINE_BYTES_MAX: Final = 512
_LINE_OF_WORDS_BYTES_MAX: Final = 64 << 10
_GIT_S: Final = 120
# Overrides the attributes in the files: bytes go into the repository unchanged, without filters.
_ATTRIBUTES: Final = b"* -text -filter -ident -working-tree-encoding\n"
_EXCLUDED: Final = (
    b"/%b/\n" % _STORE
)  # a recorded command may create a store, and recorded trees are compared without it


class SourceRepository:
    """A user's repository, read only: objects by id; nothing in its configuration is run. Close it."""

    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = {**environment, **_ENVIRONMENT}
        self._batch: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            assert batch.stdin is not None
            assert batch.stdout is not None
            batch.stdin.close()
            batch.stdout.close()
            batch.wait()

    def tree_of(self, commit: str) -> str:
        """Return the id of the tree of a commit or tree, without the store in it; empty if it does not exist. Raises
        EnvironmentFailure.
        """
        found = self._tree(commit)
        return self._without_store(*found) if found is not None else ""

    def need_tree(self, commit: str) -> str:
        """Return the id of the tree of a commit or tree. Raises NotFoundError, EnvironmentFailure."""
        found = self._tree(commit)
        if found is None:
            raise NotFoundError(f"there is no commit {commit[:60]!r} in {self._folder}", safe="Nothing was replayed.",
                                mend="Name another --base.")  # fmt: skip
        return found[0]

    def blob(self, digest: Digest) -> bytes | None:
        """Return the bytes of a blob by its git id; None if it does not exist or is too large."""
        if digest.algorithm == "sha256":
            return None
        found = self._ask(digest.value.hex(), b"blob")
        return found[1] if found is not None else None

    def has(self, digest: Digest) -> bool:
        """Return whether the repository has a blob of this id, of any size."""
        return digest.algorithm != "sha256" and not self._run("cat-file", "-e", digest.value.hex()).returncode

    def entries(self, tree: str) -> Iterator[UnmaterializedEntry]:
        """Yield all entries of a tree, at any depth, without the store, which the files of a replay do not have."""
        done = self._run("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", tree)
        if done.returncode or len(done.stdout) > _TREE_BYTES_MAX:
            raise NotFoundError(f"git cannot list {tree}", mend="Name a commit of the repository.")
        for line in done.stdout.split(b"\0"):
            if line:
                head, _, path = line.partition(b"\t")
                mode, _, name = head.decode("ascii").split()
                if not path.startswith(_STORE + b"/"):
                    yield UnmaterializedEntry(mode, name, os.fsdecode(path))

    def _tree(self, commit: str) -> tuple[str, bytes] | None:
        """Return the id and the bytes of the tree of a commit or tree."""
        if _ID.fullmatch(commit) is None:
            done = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{tree}}")
            commit = done.stdout.decode("ascii", "replace").strip() if done.returncode == 0 else ""
        return self._ask(f"{commit}^{{tree}}", b"tree") if _ID.fullmatch(commit) is not None else None

    def _without_store(self, tree: str, data: bytes) -> str:
        held = _names_in(data, len(tree) // 2)
        if _STORE not in held:
            return tree
        kept = {name: entry for name, entry in held.items() if name != _STORE}
        return folder_id(kept, "git-sha1" if len(tree) == 40 else "git-sha256").hex()

    def _ask(self, name: str, kind: bytes) -> tuple[str, bytes] | None:
        """Ask the ``cat-file`` process for one object: ``ID TYPE SIZE`` on a line, then its bytes. Raises
        EnvironmentFailure.
        """
        try:
            return self._answer(name, kind)
        except OSError as error:
            raise _git_trouble(error) from error

    def _answer(self, name: str, kind: bytes) -> tuple[str, bytes] | None:
        import subprocess

        if self._batch is None:
            command = ["git", "-C", self._folder, *_options(), "cat-file", "--batch"]
            self._batch = subprocess.Popen(  # noqa: S603 - no shell; git by its name
                command, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        stdin, stdout = self._batch.stdin, self._batch.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(name.encode("ascii") + b"\n")
        stdin.flush()
        words = stdout.readline(_LINE_BYTES_MAX).split()
        if len(words) != 3 or not words[2].isdigit():
            if words[1:] != [b"missing"]:
                self.close()  # it ended, or gave an unexpected answer
            return None
        size = int(words[2])
        if words[1] != kind or size > _BLOB_BYTES_MAX:
            self.close()  # stop it, because its answer need not be read
            return None
        data = stdout.read(size + 1)
        return (words[0].decode("ascii", "replace"), data[:-1]) if len(data) == size + 1 else None

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        import subprocess

        command = ["git", "-C", self._folder, *_options(), *words]
        try:
            return subprocess.run(  # noqa: S603 - no shell; git by its name
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_GIT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _git_trouble(error) from error


def _names_in(tree: bytes, id_bytes: int) -> dict[bytes, tuple[bytes, bytes]]:
    """Return mode and id of each name in the bytes of a tree. Raises NotFoundError for other bytes."""
    names = {}
    at = 0
    while at < len(tree):
        end = tree.find(b"\0", at)
        mode, _, name = tree[at : max(at, end)].partition(b" ")
        at = end + 1 + id_bytes
        if end < 0 or not name or at > len(tree):
            raise NotFoundError("a tree of the repository cannot be read", mend="Try `git fsck`.")
        names[name] = (mode, tree[end + 1 : at])
    return names


def no_progress(_done: int, _total: int) -> None:
    """Ignore progress."""


def copy_tree(
    source: SourceRepository, tree: str, target: Folder, progress: Callable[[int, int], None]
) -> tuple[UnmaterializedEntry, ...]:
    """Write the files of a tree into a folder; return the entries that are not created as files. Raises
    ConfinementError for a tree with a path that no folder may have.
    """
    entries = list(source.entries(tree))
    carried = []
    for done, entry in enumerate(entries):
        if _is_carried(entry, tree):
            carried.append(entry)
            continue
        _write(source, entry, tree, target)
        progress(done, len(entries))
    return tuple(carried)


def take_tree(
    source: SourceRepository,
    tree: str,
    target: Folder,
    carried: UnmaterializedEntries,
    held: Mapping[str, tuple[str, str]],
) -> int:
    """Make the files of a folder equal to those of a tree, and count the changes; ``held`` are mode and id of its
    present files. Raises UsageError for a file that is not available, ConfinementError like ``copy_tree``.
    """
    wanted = {entry.path: entry for entry in source.entries(tree)}
    count = 0
    for path in held:
        if path not in wanted:
            count += 1
            if carried.get(path) is not None:
                carried.drop(path)
            else:
                target.delete(path)
                _remove_empty(target, path)
    for path, entry in wanted.items():
        if held.get(path) == (entry.mode, entry.id):
            continue
        count += 1
        if _is_carried(entry, tree):
            if path in held and carried.get(path) is None:
                target.delete(path)
            carried.put(path, entry.mode, entry.id)
        else:
            carried.drop(path)
            _write(source, entry, tree, target)
    return count


def _is_carried(entry: UnmaterializedEntry, tree: str) -> bool:
    is_file = entry.mode in _FILE_MODES
    if not is_file and entry.mode not in _CARRIED_MODES:
        raise UsageError(f"{entry.path} has mode {entry.mode} in {tree[:12]}, which git does not have")
    return not is_file or is_left_out(entry.path)


def _write(source: SourceRepository, entry: UnmaterializedEntry, tree: str, target: Folder) -> None:
    name = bytes.fromhex(entry.id)
    data = source.blob(Digest(git_algorithm(name), name))
    if data is None:
        raise UsageError(
            f"{entry.path} of {tree[:12]} cannot be read, or has over {_BLOB_BYTES_MAX:,} bytes",
            mend="Fetch what is missing (`git fetch --refetch`), or replay without --base.",
        )
    target.write(entry.path, data, is_executable=_FILE_MODES[entry.mode])


def _remove_empty(target: Folder, path: str) -> None:
    """Remove the folders that became empty when a file was removed."""
    while path := posixpath.dirname(path):
        try:
            if target.list(path):
                return
            target.remove_folder(path)
        except (NotFoundError, EnvironmentFailure):
            return  # it holds files of no valid path


def copy_folder(source: Confined, target: Folder, progress: Callable[[int, int], None]) -> int:
    """Copy the plain files of one folder into another and count them; links and git's own files are left out."""
    count = 0
    for entry in source.walk():
        target.write(entry.path, source.read(entry.path), is_executable=entry.is_executable)
        count += 1
        progress(count, 0)
    return count


class GitFolder:
    """The replay's own repository in ``folder``; ``carried`` are the entries of its trees that are no files."""

    def __init__(self, folder: str, runner: Runner, carried: UnmaterializedEntries, *, may_change: bool) -> None:
        """With ``may_change``, recorded commands may change the repository."""
        self._folder = folder
        self._place = os.stat(folder, follow_symlinks=False)
        self._may_change = may_change
        self._git_folder = os.path.join(folder, ".git")
        self._runner = runner
        self._carried = carried
        self._head = ""  # id of the last commit made here; stays the newest if no command may change the repository

    def begin(self, files: Files, object_format: str, *, is_forced: bool) -> None:
        """Create the repository, with the present files for its first commit; with ``is_forced`` including ignored
        files.
        """
        self._need("init", "--quiet", "--template=", f"--object-format={object_format}", is_new=True)
        files.make_folder(os.path.join(self._git_folder, "info"))
        write_atomic(files, os.path.join(self._git_folder, "info", "attributes"), _ATTRIBUTES)
        write_atomic(files, os.path.join(self._git_folder, "info", "exclude"), _EXCLUDED)
        write_atomic(files, os.path.join(self._git_folder, "config"), _CONFIGS[object_format])
        if is_forced:
            self._need("add", "--all", "--force", "--", ".")
        self.commit("base")

    def head(self) -> str:
        """Return the id of the newest commit; empty if there is none."""
        if self._head and not self._may_change:
            self._check()
            return self._head
        done = self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return done.output.decode("ascii", "replace").strip() if done.exit_code == 0 else ""

    def head_tree(self) -> str:
        """Return the id of the tree of the newest commit."""
        return self._need("rev-parse", "--verify", "HEAD^{tree}").output.decode("ascii", "replace").strip()

    def parent(self) -> str:
        done = self._git("rev-parse", "--verify", "--quiet", "HEAD^")
        return done.output.decode("ascii", "replace").strip() if done.exit_code == 0 else ""

    def tree(self, tracked: Callable[[], Iterable[str]] = tuple) -> str:
        """Return the id of the tree of all present files, without those that .gitignore names unless they are
        ``tracked``.
        """
        return self._staged(tracked, "write-tree", "--missing-ok").decode("ascii", "replace").strip()

    def entries(self) -> dict[str, tuple[str, str]]:
        """Return mode and id of all entries of ``tree``, by path. Raises EnvironmentFailure."""
        found = {}
        for line in self._staged(tuple, "ls-files", "--stage", "-z").split(b"\0"):
            if line:
                head, _, path = line.partition(b"\t")
                mode, name, _ = head.decode("ascii").split()
                found[os.fsdecode(path)] = (mode, name)
        return found

    def commit(self, message: str, tracked: Callable[[], Iterable[str]] = tuple) -> str:
        """Commit all files of ``tree`` and return the id of that tree. No hook and no editor of the repository runs."""
        tree = self.tree(tracked)
        head = self.head()
        parents = ("-p", head) if head else ()
        made = self._ran("commit", _COMMIT, tree, *parents, "-m", message or "(no message)")
        self._head = made.output.decode("ascii", "replace").strip()
        return tree

    def _staged(self, tracked: Callable[[], Iterable[str]], *last: str) -> bytes:
        """Add all files and entries to the index, run ``last``, and return its output."""
        self._check()
        self._unlock()
        entries = self._carried.all()
        missing = [entry for entry in entries if not os.path.lexists(os.path.join(self._folder, entry.path))]
        infos = [_cache_info(line) for line in _in_lines([f"{one.mode},{one.id},{one.path}" for one in missing])]
        first = infos[0] if infos else []
        said = self._ran("add", _STAGE, str(len(last)), *last, *first).output
        listed, _, answer = said.partition(b"\0\0")
        ignored = {os.fsdecode(path) for path in listed.split(b"\0") if path}
        kept = _in_lines(sorted(ignored.intersection(tracked()))) if ignored else ()
        more = [["add", "--force", "--", *words] for words in kept]
        more += [["update-index", "--add", *words] for words in infos[1:]]
        if not more:
            return answer.removeprefix(b"\0")
        for words in more:
            self._need(*words)
        return self._need(*last).output

    def _unlock(self) -> None:
        """Remove the index lock that a killed git left: the folder belongs to the replay, which runs one git at a time."""
        lock = os.path.join(self._git_folder, "index.lock")
        try:
            os.unlink(lock)
        except OSError:
            pass  # no lock; if it cannot be removed, git reports it

    def _need(self, *words: str, is_new: bool = False) -> Ran:
        done = self._git(*words, is_new=is_new)
        if done.exit_code:
            said = done.output[-300:].decode("utf-8", "replace").strip()
            raise EnvironmentFailure(f"git {words[0]} failed in the folder of the replay: {said or done.exit_code}")
        return done

    def _ran(self, what: str, script: str, *words: str) -> Ran:
        """Run several git commands in one process, because the process costs more than most of them; ``words`` are
        arguments of the script. Raises EnvironmentFailure.
        """
        self._check()
        done = self._start(["/bin/sh", "-c", f"{_FUNCTION}\n{script}", "sh", *words])
        if done.exit_code or done.stopped:
            said = done.output[-300:].decode("utf-8", "replace").strip()
            raise EnvironmentFailure(
                f"git {what} failed in the folder of the replay: {said or done.stopped or done.exit_code}"
            )
        return done

    def _git(self, *words: str, is_new: bool = False) -> Ran:
        if not is_new:
            self._check()
        return self._start(["git", *_options(), *words])

    def _start(self, command: Sequence[str]) -> Ran:
        pinned = {"GIT_DIR": self._git_folder, "GIT_WORK_TREE": self._folder, "GIT_COMMON_DIR": self._git_folder}
        return self._runner.run(command, self._folder, more={**_ENVIRONMENT, **pinned})

    def _check(self) -> None:
        """Raise EnvironmentFailure if the repository is not as ``begin`` made it, because its settings might run a
        program. If commands may run, they may have changed it, and git runs as confined as they do; but git never runs
        if another folder is in its place.
        """
        is_folder = os.path.isdir(self._git_folder) and not os.path.islink(self._git_folder) and self._is_in_its_place()
        if is_folder and self._may_change:
            return
        try:
            config = read_plain(os.path.join(self._git_folder, "config"), _SMALL_BYTES_MAX)
            attributes = read_plain(os.path.join(self._git_folder, "info", "attributes"), _SMALL_BYTES_MAX)
        except OSError:
            config = attributes = b""
        is_redirected = os.path.lexists(os.path.join(self._git_folder, "commondir"))
        if not is_folder or config not in _CONFIGS.values() or attributes != _ATTRIBUTES or is_redirected:
            raise EnvironmentFailure(
                f"{self._git_folder} is not as the replay made it, and git is not run there",
                safe="The other files were not looked at.", mend="Begin the replay anew in another folder.",
            )  # fmt: skip

    def _is_in_its_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._folder, follow_symlinks=False), self._place)
        except OSError:
            return False


def _in_lines(words: Sequence[str]) -> Iterator[list[str]]:
    """Split the words into lists that each fit on a command line."""
    line: list[str] = []
    size = 0
    for word in words:
        size += len(os.fsencode(word)) + 32
        if line and size > _LINE_OF_WORDS_BYTES_MAX:
            yield line
            line, size = [], 0
        line.append(word)
    if line:
        yield line


def _options() -> list[str]:
    return [word for setting in _SETTINGS for word in ("-c", setting)]


def _cache_info(infos: Sequence[str]) -> list[str]:
    return [word for info in infos for word in ("--cacheinfo", info)]


def _git_trouble(error: Exception) -> EnvironmentFailure:
    if isinstance(error, OSError):
        return environment_failure(error, "run git")
    return EnvironmentFailure(f"git did not answer within {_GIT_S} s")


_FUNCTION: Final = f'g() {{ git {shlex.join(_options())} "$@"; }}'
# Adds all files to the index; prints the names that .gitignore keeps out of it, two NULs, and the output of git for the
# words counted by the first argument. The remaining arguments are entries without a file.
_STAGE: Final = r"""
said=$(g add --all -- . 2>&1) || { code=$?; printf %s "$said"; exit $code; }
g ls-files --others --ignored --exclude-standard -z 2>/dev/null
printf '\0\0'
count=$1
shift
case $count in
  2) first=$1 second=$2 third=; shift 2 ;;
  *) first=$1 second=$2 third=$3; shift 3 ;;
esac
[ $# = 0 ] || g update-index --add "$@" || exit
g "$first" "$second" ${third:+"$third"}
"""
_COMMIT: Final = 'made=$(g commit-tree "$@") && g update-ref --no-deref HEAD "$made" && printf %s "$made"'
