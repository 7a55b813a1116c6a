"""Importer of git history as a trail: for each commit its files, then the commit.

Steps are in one sequence, and a history need not be linear. Where a commit continues another than the one before it, a
CHECKPOINT names its starting files; another CHECKPOINT, after the files that a merge changed itself, covers what it took
from its other parents.

The repository may be untrusted. Git runs without a shell; programs named by its configuration (hooks, pagers,
filters, diff drivers, monitors, signature programs) are not run; nothing is fetched or written, and the output is
parsed as bytes between NULs.
"""

from __future__ import annotations

__all__ = ["COMMITS_MAX", "Reached", "commit_id", "file_at", "import_git", "reachable_from_refs"]

import os
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import FormatError, NotFoundError
from periplus.interop.git_history.git_names import git_digest
from periplus.interop.git_history.git_output import GitTokens
from periplus.interop.git_history.git_process import ask, check_repository, run_git
from periplus.interop.model import Imported

if TYPE_CHECKING:
    from periplus.interop.conversion.intake import Intake
    from periplus.interop.git_history.commit_changes import FileChange
    from periplus.trail.model import Digest

COMMITS_MAX: Final = 10_000
_RENAMES_MAX: Final = 1000
_CLOCK_S_MAX: Final = 253_402_300_799
_MARK: Final = b"\x01"
_FIELDS: Final = 6
_EMPTY_TREES: Final = {  # of a repository with SHA-1, with SHA-256
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}

_OPTIONS: Final = (
    "-z",
    "--raw",
    "--no-abbrev",
    f"-l{_RENAMES_MAX}",
    "--find-renames",
    "--topo-order",
    "--reverse",
    "--diff-merges=combined",
    "--no-ext-diff",
    "--no-textconv",
    "--no-show-signature",
    "--no-notes",
    "--no-mailmap",
    "--no-decorate",
    "--no-color",
    "--encoding=UTF-8",
    "--format=tformat:%x01%H%x00%P%x00%an%x00%ae%x00%at%x00%B%x00",
)


class _Commit(NamedTuple):
    id: str
    parents: list[str]
    author: str
    at_ms: int | None
    message: str


def import_git(
    repo: str,
    *,
    trail_key: bytes,
    put_object: Callable[[bytes], bytes],
    commits_max: int = COMMITS_MAX,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Import the newest ``commits_max`` ancestors of HEAD of the repository in ``repo``, oldest first; the number of
    others is counted as ``left_out``.

    ``progress`` gets the commits read and their total. Raises NotFoundError where there is no such folder or no
    commit, FormatError where it is no repository, EnvironmentFailure where git cannot be run.
    """
    import hashlib
    import hmac

    from periplus.interop.conversion.intake import Intake
    from periplus.interop.git_history.commit_changes import write_changes

    repo = os.path.normpath(repo)
    if not os.path.isdir(repo):
        raise NotFoundError(f"no folder {repo}")
    check_repository(repo)
    tip = ask(repo, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip().decode("ascii", "replace")
    if not tip:
        raise NotFoundError(f"no commits in {repo}", mend="Commit something, then repeat the command.")
    name = _name(repo)
    count = ("--max-count", str(max(0, commits_max)), "--end-of-options", tip, "--")
    every = int(ask(repo, "rev-list", "--count", "--end-of-options", tip, "--") or b"0")
    total = min(every, max(0, commits_max))
    intake = Intake(put_object)
    intake.session_id = None
    root = before = ""
    base: Digest | None = None
    commits = 0
    with GitTokens(repo, "log", *_OPTIONS, *count) as tokens:
        for commit, changes in _commits(tokens, intake):
            commits += 1
            intake.source += 1
            intake.note_time(commit.at_ms)
            if not commit.parents and not root:
                root = commit.id
            if commits == 1 and commit.parents:
                base = git_digest(commit.parents[0])
            _begin(intake, commit, before)
            write_changes(intake, changes)
            _end(intake, commit, name)
            before = commit.id
            if progress is not None and (commits % 100 == 0 or commits == total):
                progress(commits, total)
    intake.count("commits", commits)
    intake.session_id = root or _root(repo, tip)
    source = hashlib.sha256(b"\0".join((b"git", tip.encode(), str(commits).encode()))).digest()
    intake.cwd = _readable(os.path.abspath(repo))
    intake.title = f"history of {name}"
    imported = intake.finish(
        "git",
        secret=hmac.digest(trail_key, source, hashlib.sha256),
        source=source,
        agent="git",
        trail_id=root or name,
        status="success",
        tool="git",
        base=base,
    )
    return imported._replace(left_out=max(0, every - commits))


def _commits(tokens: Iterator[bytes], intake: Intake) -> Iterator[tuple[_Commit, list[FileChange]]]:
    """Yield each commit with its changes."""
    from periplus.interop.git_history.commit_changes import read_change

    commit: _Commit | None = None
    changes: list[FileChange] = []
    for raw in tokens:
        token = raw.lstrip(b"\n")
        if token.startswith(_MARK):
            if commit is not None:
                yield commit, changes
            fields = [token[1:]] + [next(tokens, b"") for _ in range(_FIELDS - 1)]
            commit, changes = _read_commit(fields), []
        elif token.startswith(b":"):
            changes.append(read_change(intake, token, tokens))
        elif token:
            raise FormatError(f"unexpected output of git: {token[:80]!r}")
    if commit is not None:
        yield commit, changes


def _read_commit(fields: list[bytes]) -> _Commit:
    commit, parents, name, mail, seconds, message = fields
    digits = seconds.removeprefix(b"-")
    at_s = int(seconds) if digits.isdigit() and len(digits) <= 12 else None
    return _Commit(
        commit.decode("ascii", "replace"),
        parents.decode("ascii", "replace").split(),
        f"{name.decode('utf-8', 'replace')} <{mail.decode('utf-8', 'replace')}>",
        at_s * 1000 if at_s is not None and abs(at_s) <= _CLOCK_S_MAX and at_s > -62_000_000_000 else None,
        message.decode("utf-8", "replace").rstrip("\n"),
    )


def _begin(intake: Intake, commit: _Commit, before: str) -> None:
    """Add the starting files of a commit where they differ from those of the commit before it."""
    from periplus.trail.checkpoints.file_notes import NOTE_CHECKED_OUT

    first = commit.parents[0] if commit.parents else ""
    if first != before:
        intake.step("CHECKPOINT", git_digest(first or _EMPTY_TREES[len(commit.id)]), note=NOTE_CHECKED_OUT)


def _end(intake: Intake, commit: _Commit, name: str) -> None:
    from periplus.trail.checkpoints.file_notes import NOTE_MERGED

    digest = git_digest(commit.id)
    if len(commit.parents) > 1:
        intake.step("CHECKPOINT", digest, note=NOTE_MERGED)
    intake.step("GIT_COMMIT", intake.mask(name), intake.mask(commit.message), digest, note=intake.mask(commit.author))


def _name(repo: str) -> str:
    """Return the name of the repository, the same from every worktree: that of the main worktree's folder, or of the
    bare repository.
    """
    common = os.fsdecode(ask(repo, "rev-parse", "--git-common-dir").rstrip(b"\n"))
    folder = os.path.realpath(os.path.join(repo, common)) if common else os.path.abspath(repo)
    if os.path.basename(folder) == ".git":
        folder = os.path.dirname(folder)
    return _readable(os.path.basename(folder)).removesuffix(".git") or "repository"


def _readable(path: str) -> str:
    """Return a path as text that can be stored: its bytes need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _root(repo: str, tip: str) -> str:
    """Return the first commit of a shortened history; it stays the same while the repository grows."""
    roots = ask(repo, "rev-list", "--max-parents=0", "--end-of-options", tip, "--").split()
    return roots[-1].decode("ascii", "replace") if roots else ""


def commit_id(repo: str, revision: str) -> str:
    """Return the full id of the commit ``revision``. Raises NotFoundError, FormatError."""
    check_repository(repo)
    found = ask(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}").decode().strip()
    if not found:
        raise NotFoundError(f"no commit {revision!r} in {repo}", mend="See `git log`.")
    return found


def file_at(repo: str, commit: str, path: str, most: int) -> bytes | None:
    """Return the contents of ``path`` at ``commit`` (an id from ``commit_id``); None where it is no file, or over
    ``most`` bytes.
    """
    name = f"{commit}:{path}"
    size = ask(repo, "cat-file", "-s", name).strip()
    if not size.isdigit() or int(size) > most or ask(repo, "cat-file", "-t", name).strip() != b"blob":
        return None
    return ask(repo, "cat-file", "blob", name)


class Reached(NamedTuple):
    """Commits that no ref reaches, and commits that the repository does not have."""

    unreached: frozenset[str]
    missing: frozenset[str]


def reachable_from_refs(repo: str, commits: Collection[str]) -> Reached:
    """Find which of ``commits`` (in hexadecimal) a ref or a HEAD of a worktree reaches. Raises FormatError."""
    if not commits:
        return Reached(frozenset(), frozenset())
    said = "".join(f"{commit}\n" for commit in sorted(commits)).encode()
    finished = run_git(repo, "cat-file", "--batch-check=%(objecttype)", said=said)
    kinds = finished.stdout.decode("ascii", "replace").splitlines()
    if finished.returncode or len(kinds) != len(commits):
        raise FormatError("git could not look for commits", path=repo, safe="Nothing was imported.")
    there = [commit for commit, kind in zip(sorted(commits), kinds, strict=True) if kind == "commit"]
    listed = b""
    if there:
        said = "".join(f"{commit}\n" for commit in there).encode()
        finished = run_git(repo, "rev-list", "--stdin", "--not", "--all", said=said)
        if finished.returncode:
            raise FormatError("git could not list commits", path=repo, safe="Nothing was imported.")
        listed = finished.stdout
    unreached = {line.decode("ascii", "replace") for line in listed.split()}
    return Reached(frozenset(unreached.intersection(there)), frozenset(commits) - frozenset(there))
