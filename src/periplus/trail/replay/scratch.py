"""The folder that a replay works in, and git in it.

::

    FOLDER/replay.log    what was done (``trail.replay.log``)
    FOLDER/files/        the files of the world, and a git repository of its own where git is there
    FOLDER/home/, tmp/   what commands have for a home and for temporary files

The files of a base commit are read from its repository object by object and written through ``Confined``: no checkout,
so neither hooks nor filters, and no link is made. Links and submodules are remembered as names and ids
(``trail.replay.carried``), so that trees can be compared all the same. Git in ``files`` runs as commands do, in the same empty environment and the same
confinement, with hooks, monitors, signing and the configuration of system and user switched off: a command of the
record may have written whatever it liked into that repository.
"""

from __future__ import annotations

__all__ = ["GitFolder", "SourceRepository", "copy_folder", "copy_tree", "no_progress", "take_tree"]

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.confined import Confined
from periplus.base.errors import EnvironmentFailure, NotFoundError, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic
from periplus.journal import STORE_FOLDER
from periplus.trail.gittree import folder_id, git_algorithm
from periplus.trail.model import Digest
from periplus.trail.replay.carried import Carried, CarriedEntries, is_left_out
from periplus.trail.replay.files import Folder

if TYPE_CHECKING:
    import subprocess

    from periplus.trail.replay.commands import Ran, Runner

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
_LINE_BYTES_MAX: Final = 512
_LINE_OF_WORDS_BYTES_MAX: Final = 64 << 10
_GIT_S: Final = 120
# Above all that the files say: bytes go into the repository as they are, and no filter is asked.
_ATTRIBUTES: Final = b"* -text -filter -ident -working-tree-encoding\n"
_EXCLUDED: Final = b"/%b/\n" % _STORE  # a command of the record may make one, and recorded trees are compared without


class SourceRepository:
    """A person's repository, only read: objects by their ids, nothing that its configuration names is run. Close it."""

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
        """The id of the tree of a commit or tree, without the store in it; empty where there is none. Raises
        EnvironmentFailure.
        """
        tree = self._tree_of(commit)
        return self._without_store(tree) if tree else ""

    def need_tree(self, commit: str) -> str:
        """The id of the tree of a commit or tree. Raises NotFoundError, EnvironmentFailure."""
        tree = self._tree_of(commit)
        if not tree:
            raise NotFoundError(f"there is no commit {commit[:60]!r} in {self._folder}", safe="Nothing was replayed.",
                                mend="Name another --base.")  # fmt: skip
        return tree

    def blob(self, digest: Digest) -> bytes | None:
        """The bytes of a blob by its id of git; None where there is none or it is too large."""
        if digest.algorithm == "sha256":
            return None
        try:
            return self._ask(digest.value.hex())
        except OSError as error:
            raise _git_trouble(error) from error

    def entries(self, tree: str) -> Iterator[Carried]:
        """All that is in a tree, at any depth, but for the store: the files of a replay have none."""
        done = self._run("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", tree)
        if done.returncode or len(done.stdout) > _TREE_BYTES_MAX:
            raise NotFoundError(f"git cannot list {tree}", mend="Name a commit of the repository.")
        for line in done.stdout.split(b"\0"):
            if line:
                head, _, path = line.partition(b"\t")
                mode, _, name = head.decode("ascii").split()
                if not path.startswith(_STORE + b"/"):
                    yield Carried(mode, name, os.fsdecode(path))

    def _tree_of(self, commit: str) -> str:
        name = f"{commit}^{{tree}}"
        done = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        return done.stdout.decode("ascii", "replace").strip() if done.returncode == 0 else ""

    def _without_store(self, tree: str) -> str:
        done = self._run("ls-tree", "-z", "--full-tree", "--end-of-options", tree)
        lines = [line.partition(b"\t") for line in done.stdout.split(b"\0") if line]
        if done.returncode or all(name != _STORE for _, _, name in lines):
            return tree
        kept = {}
        for head, _, name in lines:
            mode, _, identity = head.split()
            if name != _STORE:
                kept[name] = (mode.lstrip(b"0"), bytes.fromhex(identity.decode("ascii")))
        return folder_id(kept, "git-sha1" if len(tree) == 40 else "git-sha256").hex()

    def _ask(self, name: str) -> bytes | None:
        """One object of the process that answers for all of them: ``ID TYPE SIZE`` on a line, then its bytes."""
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
                self.close()  # it ended, or said something that is none of its answers
            return None
        size = int(words[2])
        if words[1] != b"blob" or size > _BLOB_BYTES_MAX:
            self.close()  # what it is about to say need not be read
            return None
        data = stdout.read(size + 1)
        return data[:-1] if len(data) == size + 1 else None

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


def no_progress(_done: int, _total: int) -> None:
    """For who does not watch."""


def copy_tree(
    source: SourceRepository, tree: str, target: Folder, progress: Callable[[int, int], None]
) -> tuple[Carried, ...]:
    """Write the files of a tree into a folder; what is no file there, or belongs to a store further down, comes back.
    Raises ConfinementError for a tree with a path that no folder may have.
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
    source: SourceRepository, tree: str, target: Folder, carried: CarriedEntries, held: Mapping[str, tuple[str, str]]
) -> int:
    """Make the files of a folder those of a tree, and count the changes; ``held`` are mode and id of what it has now.
    Raises UsageError for a file that cannot be had, ConfinementError as ``copy_tree``.
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


def _is_carried(entry: Carried, tree: str) -> bool:
    is_file = entry.mode in _FILE_MODES
    if not is_file and entry.mode not in _CARRIED_MODES:
        raise UsageError(f"{entry.path} has mode {entry.mode} in {tree[:12]}, which is none of git's")
    return not is_file or is_left_out(entry.path)


def _write(source: SourceRepository, entry: Carried, tree: str, target: Folder) -> None:
    name = bytes.fromhex(entry.id)
    data = source.blob(Digest(git_algorithm(name), name))
    if data is None:
        raise UsageError(
            f"{entry.path} of {tree[:12]} cannot be read, or has over {_BLOB_BYTES_MAX:,} bytes",
            mend="Fetch what is missing (`git fetch --refetch`), or replay without --base.",
        )
    target.write(entry.path, data, is_executable=_FILE_MODES[entry.mode])


def _remove_empty(target: Folder, path: str) -> None:
    """Remove the folders that a file left empty."""
    while path := posixpath.dirname(path):
        try:
            if target.list(path):
                return
            target.remove_folder(path)
        except (NotFoundError, EnvironmentFailure):
            return  # it holds what no path leads to


def copy_folder(source: Confined, target: Folder, progress: Callable[[int, int], None]) -> int:
    """Copy the plain files of one folder into another and count them; links and what belongs to git are left out."""
    count = 0
    for entry in source.walk():
        target.write(entry.path, source.read(entry.path), is_executable=entry.is_executable)
        count += 1
        progress(count, 0)
    return count


class GitFolder:
    """The repository of a replay's own in ``folder``; ``carried`` are the entries of its trees that are no files."""

    def __init__(self, folder: str, runner: Runner, carried: CarriedEntries, *, may_change: bool) -> None:
        """With ``may_change`` commands of the record may change the repository."""
        self._folder = folder
        self._may_change = may_change
        self._git_folder = os.path.join(folder, ".git")
        self._runner = runner
        self._carried = carried

    def begin(self, files: Files, object_format: str, *, is_forced: bool) -> None:
        """Make the repository, with the files as they are for its first commit; with ``is_forced`` ignored ones too."""
        self._need("init", "--quiet", "--template=", f"--object-format={object_format}", is_new=True)
        files.make_folder(os.path.join(self._git_folder, "info"))
        write_atomic(files, os.path.join(self._git_folder, "info", "attributes"), _ATTRIBUTES)
        write_atomic(files, os.path.join(self._git_folder, "info", "exclude"), _EXCLUDED)
        write_atomic(files, os.path.join(self._git_folder, "config"), _CONFIGS[object_format])
        if is_forced:
            self._need("add", "--all", "--force", "--", ".")
        self.commit("base")

    def head(self) -> str:
        """The id of the newest commit; empty where there is none."""
        done = self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return done.output.decode("ascii", "replace").strip() if done.exit_code == 0 else ""

    def head_tree(self) -> str:
        """The id of the tree of the newest commit."""
        return self._need("rev-parse", "--verify", "HEAD^{tree}").output.decode("ascii", "replace").strip()

    def parent(self) -> str:
        done = self._git("rev-parse", "--verify", "--quiet", "HEAD^")
        return done.output.decode("ascii", "replace").strip() if done.exit_code == 0 else ""

    def tree(self, tracked: Callable[[], Iterable[str]] = tuple) -> str:
        """The id of the tree of all files as they are now, without those that .gitignore names; but those among them that
        are ``tracked`` all the same are in it.
        """
        self._stage(tracked)
        return self._need("write-tree", "--missing-ok").output.decode("ascii", "replace").strip()

    def entries(self) -> dict[str, tuple[str, str]]:
        """Mode and id of all that ``tree`` has now, by path. Raises EnvironmentFailure."""
        self._stage(tuple)
        found = {}
        for line in self._need("ls-files", "--stage", "-z").output.split(b"\0"):
            if line:
                head, _, path = line.partition(b"\t")
                mode, name, _ = head.decode("ascii").split()
                found[os.fsdecode(path)] = (mode, name)
        return found

    def commit(self, message: str, tracked: Callable[[], Iterable[str]] = tuple) -> str:
        """Commit all files, as ``tree`` has them, and give the commit's id. Nothing of the repository's is run: no hook, no
        editor.
        """
        tree = self.tree(tracked)
        head = self.head()
        parents = ("-p", head) if head else ()
        made = self._need("commit-tree", tree, *parents, "-m", message or "(no message)")
        commit = made.output.decode("ascii", "replace").strip()
        self._need("update-ref", "--no-deref", "HEAD", commit)
        return commit

    def _stage(self, tracked: Callable[[], Iterable[str]]) -> None:
        self._unlock()
        self._need("add", "--all", "--", ".")
        listed = self._git("ls-files", "--others", "--ignored", "--exclude-standard", "-z")
        ignored = {os.fsdecode(path) for path in listed.output.split(b"\0") if path}
        if ignored and not listed.exit_code and not listed.stopped:
            kept = ignored.intersection(tracked())
            for words in _in_lines(sorted(kept)):
                self._need("add", "--force", "--", *words)
        entries = self._carried.all()
        missing = [entry for entry in entries if not os.path.lexists(os.path.join(self._folder, entry.path))]
        for infos in _in_lines([f"{entry.mode},{entry.id},{entry.path}" for entry in missing]):
            self._need("update-index", "--add", *(word for info in infos for word in ("--cacheinfo", info)))

    def _unlock(self) -> None:
        """Remove the lock of an index whose git was killed: the folder is the replay's own, and it runs one git."""
        lock = os.path.join(self._git_folder, "index.lock")
        try:
            os.unlink(lock)
        except OSError:
            pass  # there is none; where it cannot be removed, git says so

    def _need(self, *words: str, is_new: bool = False) -> Ran:
        done = self._git(*words, is_new=is_new)
        if done.exit_code:
            said = done.output[-300:].decode("utf-8", "replace").strip()
            raise EnvironmentFailure(f"git {words[0]} failed in the folder of the replay: {said or done.exit_code}")
        return done

    def _git(self, *words: str, is_new: bool = False) -> Ran:
        if not is_new:
            self._check()
        command = ["git", *_options(), *words]
        pinned = {"GIT_DIR": self._git_folder, "GIT_WORK_TREE": self._folder, "GIT_COMMON_DIR": self._git_folder}
        return self._runner.run(command, self._folder, more={**_ENVIRONMENT, **pinned})

    def _check(self) -> None:
        """Raises EnvironmentFailure where the repository is not as ``begin`` made it: then its settings might run
        something. Where commands may run, they may have changed it, and git runs as confined as they do.
        """
        is_folder = os.path.isdir(self._git_folder) and not os.path.islink(self._git_folder)
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


def _in_lines(words: Sequence[str]) -> Iterator[list[str]]:
    """The words in as many lists as a command line each can hold."""
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


def _git_trouble(error: Exception) -> EnvironmentFailure:
    if isinstance(error, OSError):
        return environment_failure(error, "run git")
    return EnvironmentFailure(f"git did not answer within {_GIT_S} s")
