"""Recognise calls of Periplus itself in a trail: a question to memory is not knowledge that memory should find. Pure."""

from __future__ import annotations

__all__ = ["is_own_tool", "without_own_commands"]

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from periplus.shell.judgement import Run

_NAME: Final = "periplus"
_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
# The arguments by which a tool that calls tools of servers names the server.
_SERVER: Final = re.compile(r'"(?:server|server_name|serverName|mcp_server|mcpServer)"\s*:\s*"([^"]{1,200})"')
# Programs that only start a command, or show its output.
_BESIDE: Final = frozenset({
    "[", "awk", "cat", "cd", "column", "cut", "echo", "env", "exit", "export", "false", "fold", "grep", "head", "jq", "less", "ls", "popd",
    "printf", "pushd", "pwd", "rg", "sed", "set", "sleep", "sort", "source", "tail", "tee", "test", "tr", "true", "uniq", "unset", "wc", "which",
})  # fmt: skip
_PACKAGE: Final = re.compile(r"periplus(?:$|[\[=<>@])")  # the program itself, or its package for a package runner
_UNSEEN: Final = re.compile(r"[\x00-\x08]")  # a command that cannot be parsed
_COMMAND_CHARS_MAX: Final = 20_000


def is_own_tool(server: str, name: str, arguments: str = "") -> bool:
    """Return True for a call of ``name`` of the MCP server ``server`` that is one of Periplus, in the spelling of any
    client.
    """
    if _NAME in _WORDS.findall(server.lower()):
        return True
    words = _WORDS.findall(name.lower())
    if server:
        return False
    while words and words[0] in ("mcp", "plugin"):
        del words[0]
    return (len(words) > 1 and words[0] == _NAME) or any(
        _NAME in _WORDS.findall(found.lower()) for found in _SERVER.findall(arguments[:4_000])
    )


def without_own_commands(command: str) -> str:
    """Return a command without its calls of Periplus; empty where nothing else is left."""
    if _NAME not in command:
        return command
    from periplus.shell.judgement import judge

    judged = judge(command[:_COMMAND_CHARS_MAX])
    if judged.level == "unparsed" or not judged.runs:
        first = command.split(maxsplit=1)[0]
        return "" if first.rpartition("/")[2] == _NAME else command
    own = [_is_own(run) for run in judged.runs]
    if not any(own):
        return command
    others = [run for run, is_own in zip(judged.runs, own, strict=True) if not is_own and not _is_beside(run)]
    return "\n".join(dict.fromkeys(_UNSEEN.sub("…", " ".join(run.words)) for run in others))


def _is_own(run: Run) -> bool:
    for layer in run.layers:
        program, arguments = layer.program, layer.words[1:]
        if _PACKAGE.match(program):
            return True
        if program.startswith("python") and _is_module(arguments):
            return True
    return False


def _is_module(arguments: tuple[str, ...]) -> bool:
    return any(option == "-m" and module == _NAME for option, module in pairwise(arguments))


def _is_beside(run: Run) -> bool:
    return run.only_starts or run.layers[-1].program in _BESIDE
