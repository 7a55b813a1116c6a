"""Result of a judgement: commands, written paths, assignments; and arguments that may name a program to start."""

from __future__ import annotations

__all__ = [
    "STARTS",
    "XARGS_VALUED",
    "Judgement",
    "Level",
    "Run",
    "only_starts",
    "start_hints",
    "takes_code",
    "words_in",
]

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.shell.command_words import Layer, behind_options, code_of, command_option, is_interpreter, reads_input
from periplus.shell.program_tables import NO_WRAPPERS, SHELLS

Level: TypeAlias = Literal["plain", "unclear", "destructive", "unparsed", "catastrophic"]
XARGS_VALUED: Final = frozenset({"-n", "-P", "-I", "-L", "-d", "-s", "-a", "-E", "--max-args", "--max-procs", "--delimiter", "--arg-file",
                                  "--max-lines", "--max-chars", "--process-slot-var", "-j", "--jobs", "-N", "--colsep", "--results", "--joblog"})  # fmt: skip
_WORDS_IN_CODE: Final = re.compile(r"[^\s'\"();|&`$,\[\]{}<>]+")
_HINTS_MAX: Final = 1_000
STARTS: Final = re.compile(r"system|popen|exec|spawn|subprocess|shell|%x|qx|`|\brun\b|\bcall\b|[cC]ommand")


class Run(NamedTuple):
    """One command that would run, from the outside in: ``env git push`` has the layers ``env git push`` and ``git
    push``.

    ``only_starts`` means that its inner command is a run of its own. ``hints`` are words among which it may find a
    program to start: arguments of an unknown program, texts in the code of an interpreter.
    """

    layers: tuple[Layer, ...]
    only_starts: bool = False
    hints: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return self.layers[0].words


class Judgement(NamedTuple):
    """The worst level found, its reason, and all commands that would run, with their words as far as they are known.

    ``writes`` are absolute paths (joined but not normalised) that would be written or deleted on this machine,
    including the targets of redirections in ``redirected``; ``sets`` are the names of assigned variables.
    ``is_beyond`` marks deletions that no sandbox prevents: at a service, in a cluster, on another machine.
    ``rewrites`` are paths that a program changes beside its purpose (git by a checkout, a formatter, an editor); a
    folder stands for all in it. ``hides`` marks commands that cannot be determined.
    """

    level: Level
    reason: str
    runs: tuple[Run, ...] = ()
    writes: tuple[str, ...] = ()
    redirected: frozenset[str] = frozenset()
    sets: tuple[str, ...] = ()
    is_beyond: bool = False
    hides: bool = False
    rewrites: tuple[str, ...] = ()

    @property
    def has_code(self) -> bool:
        """True where an interpreter gets code on its command line, which is not judged."""
        return any(
            code_of(one.program, one.words[1:]) is not None
            for run in self.runs
            for one in run.layers
            if is_interpreter(one.program)
        )

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Words of each run."""
        return tuple(run.words for run in self.runs)


def takes_code(program: str | None, arguments: Sequence[str]) -> bool:
    """Test that the program runs its standard input."""
    return program is not None and (program in SHELLS or is_interpreter(program)) and reads_input(program, arguments)


def only_starts(program: str, arguments: Sequence[str]) -> bool:
    """Test that all effects of the program are those of separately judged runs."""
    if program in SHELLS:
        return command_option(arguments) is not None
    if program == "xargs":
        return bool(behind_options(arguments, XARGS_VALUED))
    return program in ("eval", "trap", "watch", "parallel")


def start_hints(program: str | None, arguments: Sequence[str], *, is_known: bool) -> tuple[str, ...]:
    """Return the words among which a program may find another to start. ``is_known``: its inner command is a run of
    its own.
    """
    if program is None or program in SHELLS or is_known:
        return ()
    code = code_of(program, arguments) if is_interpreter(program) else None
    if code is not None:
        return words_in(code[0]) if STARTS.search(code[0]) else ()
    if program in NO_WRAPPERS and not is_interpreter(program):
        return ()
    return words_in(" ".join(arguments))


def words_in(text: str) -> tuple[str, ...]:
    """Return the words of code in any language, without punctuation."""
    return tuple(match.group() for match in islice(_WORDS_IN_CODE.finditer(text), _HINTS_MAX))
