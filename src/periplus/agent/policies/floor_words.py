"""The words of a command, as the floor reads them: what only starts something else, options, what a shell reads, what is printed."""

from __future__ import annotations

__all__ = [
    "UNKNOWN",
    "braces",
    "command_option",
    "downloads",
    "echoed",
    "ends_data",
    "is_bomb",
    "pattern_place",
    "printed",
    "reads_input",
    "split",
    "unwrapped",
]

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final

from periplus.agent.policies.floor_tables import DOWNLOADERS, SHELLS, WRAPPERS
from periplus.agent.policies.shell_syntax import Group, Pipeline, Simple

UNKNOWN: Final = "\x01"  # stands for what only a shell can tell


def unwrapped(words: Sequence[str]) -> tuple[str, list[str]] | tuple[None, list[str]]:
    """The program that runs in the end, without what only starts it, and its arguments."""
    at = 0
    for _ in range(64):
        if at >= len(words):
            return None, []
        name = posixpath.basename(words[at].lstrip("\\"))
        wrapper = WRAPPERS.get(name)
        if wrapper is None:
            return name, list(words[at + 1 :])
        at += 1
        if name == "env":
            while at < len(words) and ("=" in words[at] or words[at].startswith("-")):
                if words[at] in ("-S", "--split-string") and at + 1 < len(words):
                    return unwrapped([*words[at + 1].split(), *words[at + 2 :]])
                at += 2 if words[at] in wrapper.valued else 1
            continue
        while at < len(words) and words[at].startswith("-"):
            at += 2 if words[at] in wrapper.valued else 1
        at += wrapper.operands
    return None, []


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options and operands, as getopt has them: after ``--`` everything is an operand."""
    options: list[str] = []
    operands: list[str] = []
    for at, argument in enumerate(arguments):
        if argument == "--":
            return options, [*operands, *arguments[at + 1 :]]
        (options if argument.startswith("-") and argument != "-" else operands).append(argument)
    return options, operands


def command_option(arguments: Sequence[str]) -> int | None:
    """Where the text of ``sh -c`` is."""
    for at, argument in enumerate(arguments):
        if not argument.startswith(("-", "+")) or argument in ("-", "--"):
            return None
        if argument[1:2] != "-" and "c" in argument[1:]:
            return at + 1 + (list(arguments[at + 1 : at + 2]) == ["--"])
        if argument in ("-o", "-O", "+o", "--rcfile", "--init-file"):
            return _shifted(command_option(arguments[at + 2 :]), at + 2)
    return None


def _shifted(place: int | None, by: int) -> int | None:
    return None if place is None else place + by


def reads_input(program: str, arguments: Sequence[str]) -> bool:
    """Whether a shell or interpreter takes what it runs from its standard input."""
    if program in SHELLS and command_option(arguments) is not None:
        return False
    operands = [argument for argument in arguments if not argument.startswith("-") or argument == "-"]
    if (
        any(argument in ("-c", "-e", "-m", "-p", "-n", "-pe", "-ne", "--eval") for argument in arguments)
        and program not in SHELLS
    ):
        return False
    return not operands or operands[0] in ("-", "/dev/stdin", "/dev/fd/0") or "-s" in arguments


def ends_data(program: str | None) -> bool:
    """Whether what a program writes is no longer what it read: a check sum, a count."""
    return (
        program in ("wc", "sha256sum", "sha1sum", "md5sum", "cksum", "grep", "jq", "head", "sort", "uniq")
        and program != "head"
    )


def printed(program: str | None, arguments: Sequence[str]) -> list[str] | None:
    """What ``echo`` and ``printf`` write, where that is known."""
    if program not in ("echo", "printf") or any(UNKNOWN in argument for argument in arguments):
        return None
    words = [argument for argument in arguments if not re.fullmatch(r"-[neE]+", argument)]
    text = " ".join(words)
    if program == "printf" and words and "%" in words[0]:
        text = " ".join(words[1:]) or words[0]
    return [text.replace("\\n", "\n")]


def echoed(script: Sequence[Pipeline]) -> list[str]:
    """What a substitution comes to where only ``echo`` or ``printf`` of known words are in it."""
    if len(script) != 1 or len(script[0].commands) != 1 or not isinstance(script[0].commands[0], Simple):
        return []
    words = [word.literal for word in script[0].commands[0].words]
    if not words or words[0] not in ("echo", "printf") or None in words:
        return []
    return printed(words[0], [word for word in words[1:] if word is not None]) or []


def braces(word: str, depth: int = 0) -> list[str]:
    """``a{b,c}`` as a shell expands it; a word with an unknown stays as it is."""
    match = re.search(r"\{([^{}]*,[^{}]*)\}", word)
    if match is None or depth > 4:
        return [word]
    found = [word[: match.start()] + piece + word[match.end() :] for piece in match.group(1).split(",")[:64]]
    return [one for piece in found for one in braces(piece, depth + 1)][:256]


def _commands_in(script: Sequence[Pipeline]) -> Iterator[tuple[Simple, Pipeline]]:
    for pipeline in script:
        for command in pipeline.commands:
            if isinstance(command, Simple):
                yield command, pipeline
            elif isinstance(command, Group):
                yield from _commands_in(command.body)


def downloads(script: Sequence[Pipeline]) -> bool:
    return any(
        unwrapped([word.shown for word in command.words])[0] in DOWNLOADERS for command, _ in _commands_in(script)
    )


def is_bomb(name: str, body: Sequence[Pipeline]) -> bool:
    """A function that starts itself twice in one pipeline, or itself in the background and again."""
    calls = [
        (command, pipeline)
        for command, pipeline in _commands_in(body)
        if command.words and command.words[0].shown == name
    ]
    in_one = any(sum(pipeline is other for _, other in calls) > 1 for _, pipeline in calls)
    return in_one or (len(calls) > 1 and any(pipeline.background for _, pipeline in calls)) or any(
        pipeline.background and len(pipeline.commands) > 1 for _, pipeline in calls
    )  # fmt: skip


def pattern_place(program: str, arguments: Sequence[str]) -> int | None:
    """Of a program that searches: which argument is the pattern; None for those whose arguments are all only mentioned."""
    if program not in ("grep", "egrep", "fgrep", "rg", "ag", "ack"):
        return None
    for at, argument in enumerate(arguments):
        if argument in ("-e", "--regexp"):
            return at + 1
        if not argument.startswith("-"):
            return at
    return len(arguments)
