"""Calls by which an agent asks the memory of its project or writes to it: tools of the MCP server, and commands."""

from __future__ import annotations

__all__ = ["GIVES", "TEACHES", "memory_call", "memory_command"]

from typing import Final

GIVES: Final = frozenset({"brief", "recall", "show", "code", "related", "changed", "inbox", "status", "map", "impact"})
TEACHES: Final = frozenset({"remember", "revise", "handoff", "claim", "plan", "message"})
_PROGRAM: Final = "periplus"
_WORDS_MAX: Final = 40


def memory_call(server: str, name: str) -> str:
    """Return the name of the tool where a call goes to the memory of Periplus, else an empty text."""
    if server.rpartition("_")[2].lower() != _PROGRAM and server.lower() != _PROGRAM:
        return ""
    return name if name in GIVES or name in TEACHES else ""


def memory_command(command: str) -> str:
    """Return the action where a command is a call of ``periplus`` that reads or writes memory, else an empty text."""
    words = command[:2_000].split()[:_WORDS_MAX]
    for place, word in enumerate(words[:-1]):
        if word.rpartition("/")[2] == _PROGRAM and words[place + 1] in GIVES | TEACHES:
            return words[place + 1]
    return ""
