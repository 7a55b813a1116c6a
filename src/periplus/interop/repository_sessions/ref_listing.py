"""Files of the refs in which other tools keep sessions."""

from __future__ import annotations

__all__ = ["ENTIRE_REFS", "NOTES_REFS", "KeptFile", "files_of", "kept_refs", "refs_of"]

from collections.abc import Iterator
from typing import Final, NamedTuple

from periplus.base.errors import PeriplusError
from periplus.interop.git_history.git_output import GitTokens
from periplus.interop.git_history.git_process import run_git

ENTIRE_REFS: Final = ("refs/heads/entire/checkpoints/v1", "refs/remotes/*/entire/checkpoints/v1")
NOTES_REFS: Final = ("refs/notes/ai", "refs/notes/ai-remote/*")
ENTRIES_MAX: Final = 500_000
_REFS_MAX: Final = 16
_NAME_BYTES_MAX: Final = 1000


class KeptFile(NamedTuple):
    """A file of a ref: its path there, and the id of its blob, which a partial clone need not have."""

    path: str
    blob: str


def kept_refs(repo: str) -> list[str]:
    """Return the refs of ``repo`` in which sessions may be kept; none where git fails or there is no repository."""
    try:
        return refs_of(repo, (*ENTIRE_REFS, *NOTES_REFS))
    except PeriplusError:
        return []


def refs_of(repo: str, patterns: tuple[str, ...]) -> list[str]:
    found = run_git(repo, "for-each-ref", f"--count={_REFS_MAX}", "--format=%(refname)", *patterns).stdout
    return found.decode("utf-8", "surrogateescape").splitlines()


def files_of(repo: str, ref: str) -> Iterator[KeptFile]:
    """Yield the files of the ref, the first ``ENTRIES_MAX``; links and submodules are left out."""
    with GitTokens(repo, "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", ref) as tokens:
        for count, token in enumerate(tokens):
            if count >= ENTRIES_MAX:
                break
            facts, _, name = token.partition(b"\t")
            words = facts.split()
            is_file = len(words) == 3 and words[0] in (b"100644", b"100755") and words[1] == b"blob"
            if is_file and len(name) <= _NAME_BYTES_MAX:
                yield KeptFile(name.decode("utf-8", "replace"), words[2].decode("ascii", "replace"))
        for _ in tokens:
            pass  # git would fail where it cannot write on
