"""Git status as a line of the tail. Nothing of the repository is executed, and its text is not trusted."""

from __future__ import annotations

__all__ = ["GitView", "is_without"]

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.base.files import read_plain

if TYPE_CHECKING:
    from periplus.agent.tape_notes import Fact

SECONDS_MAX: Final = 10.0
_NAME_CHARACTERS: Final = 100
_SUBJECT_CHARACTERS: Final = 160
_LINK_BYTES: Final = 8_192
_NONE: Final = "cannot be used here:"
_UNDER_WAY: Final = (
    ("rebase-merge", "a rebase"), ("rebase-apply", "a rebase or am"), ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert"), ("BISECT_LOG", "a bisect"),
)  # fmt: skip


class GitView:
    """Git status of the folder ``root``, read when a turn begins. The subject of a commit, which cannot change, is read once."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._commit, self._told = "", ""

    def fact(self) -> Fact | None:
        """Branch, distance from its upstream, operations in progress, the number of changed files, and the quoted subject of the last
        commit; None outside of git, and if git takes too long.
        """
        from periplus.agent.tape.fence import one_line, plain_name
        from periplus.agent.tape_notes import Fact
        from periplus.interop.git_history.git_process import is_installed, status

        if not os.path.lexists(os.path.join(self._root, ".git")):
            return None
        if not is_installed():
            return Fact("git", f"{_NONE} it is not installed")
        try:
            lines = status(self._root, timeout_s=SECONDS_MAX)
            stands = _stands(lines)
            if not stands:
                return Fact("git", f"{_NONE} it does not accept the .git that is here")
            subject = self._subject(_heads(lines).get("branch.oid", ""))
        except PeriplusError as error:
            return Fact("git", f"{_NONE} {one_line(plain_name(str(error)), _SUBJECT_CHARACTERS)}")
        return Fact("git", ", ".join([stands, *_under_way(self._root)]), subject)

    def _subject(self, commit: str) -> str:
        """The subject of a commit, cached by its name."""
        if commit in ("", "(initial)"):
            return ""
        if commit != self._commit:
            from periplus.agent.perception.text_sanitizer import sanitized_text
            from periplus.agent.tape.fence import one_line
            from periplus.interop.git_history.git_process import run_git

            words = ("log", "-1", "--format=%s", "--no-color", "--no-notes", commit)
            said = run_git(self._root, *words, timeout_s=SECONDS_MAX)
            if said.returncode:
                return ""
            told = sanitized_text(said.stdout[:4_000].decode("utf-8", "replace")).text
            self._commit, self._told = commit, one_line(told, _SUBJECT_CHARACTERS)
        return self._told


def is_without(fact: Fact) -> bool:
    """Return whether the fact says that git cannot be used here."""
    return fact.name == "git" and fact.text.startswith(_NONE)


def _heads(lines: Sequence[str]) -> dict[str, str]:
    return dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and " " in line[2:])


def _stands(lines: Sequence[str]) -> str:
    from periplus.agent.tape.fence import one_line, plain_name

    heads = _heads(lines)
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
    """Operations that were begun in this working tree and not ended. Only file names in git's folder are looked at."""
    folder = _git_folder(root)
    return [f"{what} is under way" for name, what in _UNDER_WAY if os.path.lexists(os.path.join(folder, name))]


def _git_folder(root: str) -> str:
    """Git's own folder of this working tree: ``.git``, or the folder that the ``.git`` file of a linked tree or submodule names."""
    path = os.path.join(root, ".git")
    try:
        said = read_plain(path, _LINK_BYTES) if os.path.isfile(path) else b""
    except OSError:
        said = b""
    return (
        os.path.join(root, os.fsdecode(said.removeprefix(b"gitdir:").strip())) if said.startswith(b"gitdir:") else path
    )
