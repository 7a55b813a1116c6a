"""Rules of permission: their syntax, and which commands they match.

A rule of a command names what runs, not how it is started. A deny or ask rule for ``git push`` also matches ``env git push``,
``/usr/bin/git push``, ``git -C . push`` and ``xargs git push``; an unknown program with these words among its own may run them. An allow
rule matches only what is certain: a program of the system by its name, git options that change nothing, starters that add nothing.
"""

from __future__ import annotations

__all__ = ["EFFECTS", "Effect", "Rule", "allows", "may_start", "parse_rule", "runs"]

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import UsageError
from periplus.shell.command_words import behind_options, names_what_runs
from periplus.shell.judgement import Run
from periplus.shell.program_tables import PROGRAM_FOLDERS

Effect: TypeAlias = Literal["allow", "ask", "deny"]
EFFECTS: Final[tuple[Effect, ...]] = ("deny", "ask", "allow")
_SHOWN: Final = 200
_CLUSTER: Final = re.compile(r"-[A-Za-z]{1,4}")
# Git options before the verb that take a value, and those of them that do not affect the verb.
_GIT_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_GIT_STILL: Final = frozenset({
    "-C", "-P", "--no-pager", "--no-optional-locks", "--no-replace-objects", "--no-lazy-fetch", "--literal-pathspecs", "--glob-pathspecs",
    "--noglob-pathspecs", "--icase-pathspecs",
})  # fmt: skip


class Rule(NamedTuple):
    """A rule. ``command`` are the first words of a command; ``path`` is a glob; None matches anything."""

    effect: Effect
    tool: str
    command: tuple[str, ...] | None = None
    path: str | None = None

    def __str__(self) -> str:
        what = " ".join(self.command) if self.command is not None else self.path
        return f"{self.effect} {self.tool}" + (f"({what})" if what is not None else "")


def parse_rule(text: str, commands: Mapping[str, str]) -> Rule:
    """Parse a rule. ``commands`` names the tools that run commands. Raises UsageError."""
    effect, _, rest = text.strip().partition(" ")
    tool, opened, what = rest.strip().partition("(")
    is_closed = what.endswith(")") if opened else True
    if effect not in EFFECTS or not tool.strip() or not is_closed or (opened and not what[:-1].strip()) or "\0" in text:
        raise UsageError(
            f"{text[:_SHOWN]!r} is not a permission rule",
            mend="Write allow, ask or deny, a tool, and optionally a pattern in parentheses: allow shell(git status)",
        )
    tool = tool.strip()
    if not opened:
        return Rule(effect, tool)
    what = what[:-1].strip()
    if tool in commands:
        return Rule(effect, tool, command=tuple(what.removesuffix("*").removesuffix(":").split()))
    return Rule(effect, tool, path=posixpath.normpath(what))


def runs(run: Run, command: Sequence[str]) -> bool:
    """Return whether ``run`` matches ``command``, however it is started and whatever options lie between; for deny rules."""
    return any(_is_of(layer.words, command) for layer in run.layers)


def may_start(run: Run, command: Sequence[str]) -> bool:
    """Return whether ``run`` may start a program whose words contain ``command``."""
    return any(_is_of(run.hints[at:], command) for at in range(len(run.hints)))


def allows(run: Run, command: Sequence[str]) -> bool:
    """Return whether ``run`` certainly matches ``command``, including the words that decide what runs."""
    for layer in run.layers:
        words = _sure(layer.words)
        is_last = layer is run.layers[-1]
        if tuple(words[: len(command)]) == tuple(command):
            if is_last and len(command) >= names_what_runs(words):
                return True
            # What only starts something is allowed with what it starts, or for itself where it is more than that.
            if not is_last and layer.wrapper is not None:
                reaches = layer.at + len(command) > run.layers[-1].at
                if reaches or layer.wrapper.adds:
                    return True
        if layer.wrapper is None or layer.wrapper.adds:
            return False
    return False


def _is_of(words: Sequence[str], command: Sequence[str]) -> bool:
    if not words or not command:
        return not command
    if posixpath.basename(words[0].lstrip("\\")) != posixpath.basename(command[0]):
        return False
    if "/" in command[0] and words[0] != command[0]:
        return False
    if command[0] == "git":
        words = [words[0], *behind_options(words[1:], _GIT_VALUED)]
    given, options = words[1:], [word for word in words[1:] if word.startswith("-")]
    wanted = [word for word in command[1:] if not word.startswith("-")]
    for option in command[1:]:
        if option.startswith("-") and not _has(options, option):
            return False
    return _follows(given, wanted)


def _has(options: Sequence[str], wanted: str) -> bool:
    if any(one == wanted or one.startswith(wanted + "=") for one in options):
        return True
    letters = {letter for one in options if _CLUSTER.fullmatch(one) for letter in one[1:]}
    return _CLUSTER.fullmatch(wanted) is not None and letters.issuperset(wanted[1:])


def _follows(given: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether ``wanted`` are the first operands, perhaps after options, one of which may have a value of its own. Linear time."""
    places = {0}
    for word in wanted:
        after: set[int] = set()
        is_at = may_be_value = False
        for at, one in enumerate(given):
            is_at = is_at or at in places
            if not (is_at or may_be_value):
                continue
            if is_at and one == word:
                after.add(at + 1)
            if one.startswith("-"):
                is_at, may_be_value = True, "=" not in one
            else:
                is_at, may_be_value = may_be_value, False
        if not after:
            return False
        places = after
    return True


def _sure(words: Sequence[str]) -> Sequence[str]:
    """The words as rules name them, if none of them can be misleading."""
    folder, name = posixpath.split(words[0])
    words = [name, *words[1:]] if folder in PROGRAM_FOLDERS else list(words)
    if words[0] == "git":
        at = 1
        while at < len(words) and words[at] in _GIT_STILL:
            at += 2 if words[at] in _GIT_VALUED else 1
        words[1:at] = []
    return words
