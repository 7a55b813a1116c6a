"""What a judgement of a command says: what would run, be written, be set; and which words of a program may start another."""

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
    """One command that would run, from the outside in: ``env git push`` is the layers ``env git push`` and ``git push``.

    ``only_starts`` is so where what it starts is a run of its own. ``hints`` are words among which it may find a program to start: arguments of
    a program that nobody knows, texts in the code of an interpreter.
    """

    layers: tuple[Layer, ...]
    only_starts: bool = False
    hints: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return self.layers[0].words


class Judgement(NamedTuple):
    """The worst that was found, why, and everything that would run, its words as far as they are known.

    ``writes`` are paths from the root (as they are put together, ``..`` and all) that would be written or taken away here, those of redirections
    in ``redirected``, too; ``sets`` the names of
    variables that are assigned. ``is_beyond`` says that something is taken away that no sandbox holds back: at a service, in a cluster, on another
    machine. ``rewrites`` are paths, like ``writes``, that a program which is started for something else changes on the way: git by a checkout, a
    formatter, an editor; of folders, all in them. ``hides`` says that commands would run that nobody can see.
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
        """Whether an interpreter is given code on its command line, which nobody judges."""
        return any(
            code_of(one.program, one.words[1:]) is not None
            for run in self.runs
            for one in run.layers
            if is_interpreter(one.program)
        )

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The words of each run."""
        return tuple(run.words for run in self.runs)


def takes_code(program: str | None, arguments: Sequence[str]) -> bool:
    """Whether it runs what is on its standard input."""
    return program is not None and (program in SHELLS or is_interpreter(program)) and reads_input(program, arguments)


def only_starts(program: str, arguments: Sequence[str]) -> bool:
    """Whether all that a program would do is done by what is judged apart from it."""
    if program in SHELLS:
        return command_option(arguments) is not None
    if program == "xargs":
        return bool(behind_options(arguments, XARGS_VALUED))
    return program in ("eval", "trap", "watch", "parallel")


def start_hints(program: str | None, arguments: Sequence[str], *, is_known: bool) -> tuple[str, ...]:
    """The words among which a program may find another to start. ``is_known``: what it starts is a run of its own."""
    if program is None or program in SHELLS or is_known:
        return ()
    code = code_of(program, arguments) if is_interpreter(program) else None
    if code is not None:
        return words_in(code[0]) if STARTS.search(code[0]) else ()
    if program in NO_WRAPPERS and not is_interpreter(program):
        return ()
    return words_in(" ".join(arguments))


def words_in(text: str) -> tuple[str, ...]:
    """The words of code, of whatever language, without its signs."""
    return tuple(match.group() for match in islice(_WORDS_IN_CODE.finditer(text), _HINTS_MAX))
