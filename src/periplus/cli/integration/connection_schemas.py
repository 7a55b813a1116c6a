"""JSON documents of ``connect`` and ``disconnect``."""

from __future__ import annotations

__all__ = ["CONNECT_SCHEMAS", "ConnectCheckOut", "ConnectOut", "FileChangeOut", "FindingOut"]

from typing import Final

import msgspec


class FileChangeOut(msgspec.Struct):
    """``action`` is made, changed, restored (to the earlier bytes) or removed. ``agents`` read the file, ``what`` names its
    content. ``diff`` is a unified diff, cut if it is long. ``edited_kept`` is the file with a block of ours that somebody had
    edited.
    """

    path: str
    action: str
    agents: list[str]
    what: list[str]
    diff: str
    edited_kept: str


class ConnectOut(msgspec.Struct, tag_field="schema", tag="periplus.connect/1"):
    """``done`` is false for a dry run, or if the person said no. ``next_steps`` are the remaining steps, by agent;
    ``lacks`` says what an agent cannot do, or what is not set up for it.
    """

    agents: list[str]
    scope: str
    done: bool
    changes: list[FileChangeOut]
    next_steps: dict[str, str]
    lacks: dict[str, list[str]] = {}


class FindingOut(msgspec.Struct):
    """``wrong`` and ``mend`` are empty if the connection works. If ``old`` is true it works and ``mend`` updates it."""

    agent: str
    what: str
    path: str
    works: bool
    says: str
    wrong: str
    mend: str
    old: bool = False


class ConnectCheckOut(msgspec.Struct, tag_field="schema", tag="periplus.connect.check/1"):
    works: bool
    agents: list[str]
    findings: list[FindingOut]


CONNECT_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "connect, disconnect": ConnectOut,
    "connect --check": ConnectCheckOut,
}
