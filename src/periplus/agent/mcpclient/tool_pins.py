"""Pins of tools that the user agreed to: digests of each server's tools, as they were at first use.

They lie in ``servers.json`` of the user's settings folder. A server is identified by its source and by its command or address, so another
server under an old name begins without pins. A new tool is pinned; a changed tool is withheld until the person agrees.
"""

from __future__ import annotations

__all__ = ["PINS_FILE", "Pins", "identity_of"]

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from periplus.agent.mcpclient.server_entry import ServerRow
from periplus.agent.user_file import UserFile, Words
from periplus.base.files import Files

PINS_FILE: Final = "servers.json"
_BYTES_MAX: Final = 8 << 20
_SERVERS_MAX: Final = 1_000
_WORDS: Final = Words(
    "not a list of server tools", "can be written by others, so it is ignored", "No tool was called.",
    "Remove it; all servers then count as new.",
)  # fmt: skip
_Servers: TypeAlias = dict[str, dict[str, str]]


def identity_of(row: ServerRow) -> str:
    """Return the key under which a server is known. It contains no secret."""
    import hashlib

    parts = [row.name, row.source, *row.command] if row.command else [row.name, row.source, "", row.url]
    return f"{row.name} {hashlib.sha256(json.dumps(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


class Pins:
    """The pins in ``folder`` (mode 0600), shared by all sessions of the user."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self._file = UserFile(folder, PINS_FILE, _servers, _document, _WORDS, bytes_max=_BYTES_MAX, files=files)

    def held(self, row: ServerRow) -> dict[str, str]:
        """Return the digests by tool name. Raises RefusedError if others can write the file, UsageError if it is not valid."""
        return dict(self._file.read().get(identity_of(row), {}))

    def keep(self, row: ServerRow, digests: Mapping[str, str]) -> None:
        """Pin these tools of the server as they are, with the person's consent."""
        self._put(row, lambda held: held | dict(digests))

    def note(self, row: ServerRow, digests: Mapping[str, str]) -> dict[str, str]:
        """Pin tools that are not known yet. Returns all pins of the server, against which the others are judged."""
        held = self.held(row)
        if held.keys() >= digests.keys():
            return held
        return self._put(row, lambda held: {**digests, **held})

    def _put(self, row: ServerRow, edit: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
        name = identity_of(row)

        def edited(held: _Servers) -> _Servers | None:
            mine = edit(held.get(name, {}))
            if held.get(name) == mine:
                return None
            others = [one for one in held if one != name][-(_SERVERS_MAX - 1) :]
            return {one: held[one] for one in others} | {name: mine}

        return dict(self._file.change(edited).get(name, {}))


def _document(servers: _Servers) -> dict[str, Any]:
    return {"version": 1, "servers": servers}


def _servers(value: Any) -> _Servers:
    if value is None:
        return {}
    servers = value.get("servers") if isinstance(value, dict) and value.get("version") == 1 else None
    if not isinstance(servers, dict) or not all(
        isinstance(one, dict) and all(isinstance(digest, str) for digest in one.values()) for one in servers.values()
    ):
        raise ValueError("it must map server and tool names to digests, version 1")
    return servers
