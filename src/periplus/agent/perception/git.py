"""How git stands, in a line of the tail: nothing of the repository is run, and what it says of itself is a stranger's word."""

from __future__ import annotations

__all__ = ["git_fact"]

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError

if TYPE_CHECKING:
    from periplus.agent.tape.notes import Fact

SECONDS_MAX: Final = 10.0
_NAME_CHARACTERS: Final = 100
_SUBJECT_CHARACTERS: Final = 160
_UNDER_WAY: Final = (
    ("rebase-merge", "a rebase"), ("rebase-apply", "a rebase or am"), ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert"), ("BISECT_LOG", "a bisect"),
)  # fmt: skip


def git_fact(root: str) -> Fact | None:
    """Branch, distance from its upstream, what is under way, how many files are otherwise than in the last commit, and that
    commit's subject, quoted; None where git does not say so.
    """
    from periplus.agent.tape.notes import Fact
    from periplus.interop.gitrun import status

    if not os.path.lexists(os.path.join(root, ".git")):
        return None
    try:
        lines = status(root, timeout_s=SECONDS_MAX)
        stands = _stands(lines)
        if not stands:
            return None
        under_way = _under_way(root)
        subject = "" if "# branch.oid (initial)" in lines else _subject(root)
    except PeriplusError:
        return None  # no git, or it takes too long: the turn begins without a word of it
    return Fact("git", ", ".join([stands, *under_way]), subject)


def _stands(lines: Sequence[str]) -> str:
    from periplus.agent.tape.fence import one_line, plain_name

    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and " " in line[2:])
    branch = heads.get("branch.head", "")
    if not branch:
        return ""
    name = one_line(plain_name(branch), _NAME_CHARACTERS)
    parts = ["no branch (detached)" if branch == "(detached)" else f"on {name}"]
    oid = heads.get("branch.oid", "")
    parts.append("no commit yet" if oid == "(initial)" else f"at {oid[:10]}")
    ahead, _, behind = heads.get("branch.ab", "").partition(" ")
    upstream = one_line(plain_name(heads.get("branch.upstream", "")), _NAME_CHARACTERS)
    if ahead and (ahead, behind) != ("+0", "-0"):
        parts.append(f"{ahead.lstrip('+')} ahead and {behind.lstrip('-')} behind {upstream}")
    elif ahead:
        parts.append(f"even with {upstream}")
    conflicts = sum(line.startswith("u ") for line in lines)
    changed = sum(not line.startswith("#") for line in lines)
    parts.append(f"{changed} file{'s' * (changed != 1)} changed" if changed else "nothing changed")
    if conflicts:
        parts.append(f"{conflicts} in conflict")
    return ", ".join(parts)


def _under_way(root: str) -> list[str]:
    """What was begun in this working tree and not ended. Names are looked for in git's folder; nothing in it is read."""
    from periplus.interop.gitrun import ask

    folder = os.fsdecode(ask(root, "rev-parse", "--absolute-git-dir").rstrip(b"\n"))
    if not folder:
        return []
    return [f"{what} is under way" for name, what in _UNDER_WAY if os.path.lexists(os.path.join(folder, name))]


def _subject(root: str) -> str:
    from periplus.agent.perception.neutral import made_harmless
    from periplus.agent.tape.fence import one_line
    from periplus.interop.gitrun import run_git

    said = run_git(root, "log", "-1", "--format=%s", "--no-color", "--no-notes", timeout_s=SECONDS_MAX)
    if said.returncode:
        return ""
    return one_line(made_harmless(said.stdout[:4_000].decode("utf-8", "replace")).text, _SUBJECT_CHARACTERS)
