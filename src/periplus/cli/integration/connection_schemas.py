"""What ``--json`` prints of connecting agents. See ``cli.schemas``."""

from __future__ import annotations

__all__ = ["CONNECT_SCHEMAS", "ConnectCheckOut", "ConnectOut", "FileChangeOut", "FindingOut"]

from typing import Final

import msgspec


class FileChangeOut(msgspec.Struct):
    """``action`` is made, changed, restored (to the bytes of before) or removed; ``agents`` read the file, ``what`` is in it.
    ``diff`` is a unified diff, cut where it is long. ``edited_kept`` is where a part of ours that somebody edited is kept.
    """

    path: str
    action: str
    agents: list[str]
    what: list[str]
    diff: str
    edited_kept: str


class ConnectOut(msgspec.Struct, tag_field="schema", tag="periplus.connect/1"):
    """``done`` is false for a dry run, and where a person said no. ``next_steps`` is what is left to do, by agent."""

    agents: list[str]
    scope: str
    done: bool
    changes: list[FileChangeOut]
    next_steps: dict[str, str]


class FindingOut(msgspec.Struct):
    """``wrong`` and ``mend`` are empty where it works. What is ``old`` works, and ``mend`` brings it up to date."""

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
