"""Settings and small files of git, read without running git. Unreadable files count as empty."""

from __future__ import annotations

__all__ = ["first_line", "git_settings", "is_on", "pointed", "shared_git_folder", "sparse_state"]

import os
import re
from typing import Final, Literal, TypeAlias

Sparse: TypeAlias = Literal["", "patterns", "inside", "outside"]
_LINE_CHARS_MAX: Final = 4096
_SETTINGS_CHARS_MAX: Final = 1 << 18
_ON: Final = frozenset({"", "true", "yes", "on", "1"})


def first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_LINE_CHARS_MAX).partition("\n")[0].strip()
    except OSError:
        return ""


def pointed(dot_git: str) -> str:
    """Return the git folder that a ``.git`` file (of a linked worktree, a submodule, a separate git folder) names;
    empty if none.
    """
    line = first_line(dot_git)
    if not line.startswith("gitdir: "):
        return ""
    return os.path.normpath(os.path.join(os.path.dirname(dot_git), line.removeprefix("gitdir: ")))


def shared_git_folder(worktree: str) -> str:
    """Return the git folder that the linked worktree ``worktree`` shares with its repository; empty for other folders.

    The repository must name the worktree as well: a ``.git`` file alone could name any folder.
    """
    dot_git = os.path.join(worktree, ".git")
    own = pointed(dot_git)
    back = first_line(os.path.join(own, "gitdir")) if own else ""
    if not back or os.path.realpath(os.path.join(own, back)) != os.path.realpath(dot_git):
        return ""
    folders, common = os.path.dirname(own), os.path.dirname(os.path.dirname(own))
    return os.path.realpath(common) if os.path.basename(folders) == "worktrees" else ""


def git_settings(common: str, own: str = "") -> dict[str, str]:
    """Return the settings of a repository by lower-case names such as ``core.bare``; the last value of a name counts.

    ``common`` is its git folder, ``own`` that of a linked worktree. Includes and subsections are not read.
    """
    found = _settings_in(os.path.join(common, "config"))
    if is_on(found, "extensions.worktreeconfig"):
        found |= _settings_in(os.path.join(own or common, "config.worktree"))
    return found


def is_on(settings: dict[str, str], name: str) -> bool:
    return settings.get(name, "false").lower() in _ON


def sparse_state(git_folder: str, inside: str) -> Sparse:
    """Return whether git's sparse checkout includes the folder ``inside`` (relative to the worktree root); empty
    where it is off.

    "patterns" outside cone mode: only cone mode is evaluated here, and only in cone mode git removes folders with the
    ignored files in them.
    """
    common = first_line(os.path.join(git_folder, "commondir"))
    settings = git_settings(os.path.normpath(os.path.join(git_folder, common)) if common else git_folder, git_folder)
    if not is_on(settings, "core.sparsecheckout"):
        return ""
    if not is_on(settings, "core.sparsecheckoutcone"):
        return "patterns"
    try:
        with open(
            os.path.join(git_folder, "info", "sparse-checkout"), encoding="utf-8", errors="surrogateescape"
        ) as file:
            lines = {re.sub(r"\\(.)", r"\1", line) for line in file.read(_SETTINGS_CHARS_MAX).splitlines()}
    except OSError:
        return "patterns"
    parts = inside.split(os.sep)
    folders = ["/", *("/" + "/".join(parts[: count + 1]) + "/" for count in range(len(parts)))]
    has_all = any((one in lines or (one == "/" and "/*" in lines)) and f"!{one}*/" not in lines for one in folders)
    return "inside" if has_all or folders[-1] in lines else "outside"


def _settings_in(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(_SETTINGS_CHARS_MAX).splitlines()
    except OSError:
        return {}
    found, section = {}, ""
    for line in lines:
        text = line.strip()
        if text.startswith("["):
            section, _, text = (part.strip() for part in text[1:].partition("]"))
        if section and text and text[0] not in "#;":
            name, equals, said = text.partition("=")
            found[f"{section}.{name.strip()}".lower()] = (
                _value(said) if equals else ""
            )  # a name without a value is true
    return found


def _value(said: str) -> str:
    """Return a value without its quotes, escapes and trailing comment."""
    value, is_quoted, kept, chars = "", False, 0, iter(said.strip())
    for char in chars:
        if char in "#;" and not is_quoted:
            break
        if char == '"':
            is_quoted = not is_quoted
            continue
        value += next(chars, "") if char == "\\" else char
        kept = kept if char in " \t" and not is_quoted else len(value)
    return value[:kept]
