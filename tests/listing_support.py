"""Real repositories to be listed, and what is true of them: a walk, with the ignored files left out by ``git check-ignore``."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from periplus.code.listing import blob_id, files_of, list_files

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
_NAMES = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER")
          for what, text in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))}  # fmt: skip
_SETTINGS = ("-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false")


def git(folder, *words, fails=False, said=None):
    """Run git and return its output; with ``fails`` None, it may fail or not."""
    done = subprocess.run(
        ["git", "-C", os.fspath(folder), *_SETTINGS, *words], input=said, capture_output=True,
        env=ENVIRONMENT | _NAMES | {"GIT_EDITOR": "true"},
    )  # fmt: skip
    assert fails is None or (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


def make_repository(folder, files, *, words=()):
    """Make a repository with one commit of ``files``, contents by path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", *words)
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def write(folder, files):
    for path, data in files.items():
        place = os.path.join(os.fsencode(folder), os.fsencode(path))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())


class Listed:
    """The listing of a folder, kept up to date as a caller does it: ``base`` only where it was read again."""

    def __init__(self, folder, environment=ENVIRONMENT):
        self.folder, self.environment = os.fspath(folder), environment
        self.listing, self.base = None, {}

    def again(self):
        self.listing = list_files(self.folder, self.environment, self.listing.indexes if self.listing else ())
        if self.listing.base is not None:
            self.base = dict(self.listing.base)
        return {state.path: state for state in files_of(self.base, self.listing.dirty)}

    def paths(self):
        return sorted(self.again())

    def check(self):
        """Compare with the truth: the same paths, right ids, right stamps; also made from nothing."""
        for found in (self.again(), Listed(self.folder, self.environment).again()):
            wanted = true_paths(self.folder)
            assert set(found) == wanted, (set(found) - wanted, wanted - set(found))
            for path, state in found.items():
                place = os.path.join(os.fsencode(self.folder), os.fsencode(path))
                if state.oid:
                    assert state.oid == blob_id(Path(os.fsdecode(place)).read_bytes(), self.listing.algorithm), path
                else:
                    held = os.lstat(place)
                    assert state.stamp == (held.st_size, held.st_mtime_ns, held.st_ctime_ns, held.st_ino)


def true_paths(folder):
    """The regular files of a worktree that are tracked or not ignored, those of submodules included."""
    (tracked, modules), found = _tracked(folder), set()

    def walk(prefix):
        for entry in os.scandir(os.path.join(os.fspath(folder), prefix)):
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                is_repository = os.path.lexists(os.path.join(entry.path, ".git"))
                if path in modules and is_repository:
                    found.update(f"{path}/{one}" for one in true_paths(entry.path))
                elif not is_repository and path not in modules and entry.name not in (".git", ".periplus"):
                    walk(f"{path}/")
            elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode) and entry.name != ".git":
                files.add(path)

    files = set()
    walk("")
    # Git takes a file for tracked where a folder of its name is in the index, unless it does not look there; but there it
    # finds the rules on ignored files that a sparse checkout left out.
    untracked = files - tracked
    above = {path[:at] for path in tracked for at, char in enumerate(path) if char == "/"}
    ignored = _ignored(folder, untracked - above) | _ignored(folder, untracked & above, "--no-index")
    return found | files - ignored


def _ignored(folder, paths, *words):
    asked = b"\0".join(os.fsencode(path) for path in paths)
    said = git(folder, "check-ignore", *words, "-z", "--stdin", said=asked, fails=None) if paths else b""
    return {os.fsdecode(path) for path in said.split(b"\0") if path}


def _tracked(folder):
    """The paths in the index, and those of its submodules."""
    records = [record.partition(b"\t") for record in git(folder, "ls-files", "-sz").split(b"\0")]
    modules = {os.fsdecode(path) for head, _, path in records if head.startswith(b"160000 ")}
    return {os.fsdecode(path) for _, _, path in records if path}, modules
