"""Trusted plugins: path and digest of the whole folder of each, stored in the user's settings folder (mode 0600).

A plugin runs programs, so trust in a project's folder does not extend to a plugin in it. A plugin is off again once one byte of it changes.
"""

from __future__ import annotations

__all__ = ["PluginTrust", "TrustedPlugin"]

import os
from typing import Any, Final

import msgspec

from periplus.agent.user_file import UserFile, Words
from periplus.base.errors import UsageError
from periplus.base.files import Files

FILE: Final = "plugins.json"
_BYTES_MAX: Final = 4 << 20
_PLUGINS_MAX: Final = 1_000
_WORDS: Final = Words(
    "not a list of trusted plugins", "can be written by others, so no plugin in it is trusted", "Nothing was run.",
    "Remove it, then trust them again.",
)  # fmt: skip


class TrustedPlugin(msgspec.Struct, frozen=True):
    """A trusted plugin. ``unsandboxed``: its programs may run where no sandbox works."""

    digest: str
    unsandboxed: bool = False


class PluginTrust:
    """The user's list of trusted plugins, in ``folder``."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self._file: UserFile[dict[str, TrustedPlugin]] = UserFile(
            folder, FILE, _plugins, msgspec.to_builtins, _WORDS, bytes_max=_BYTES_MAX, files=files
        )

    def get(self, path: str) -> TrustedPlugin | None:
        """Look up a plugin. Raises RefusedError if others can write the list, UsageError if it is not valid."""
        return self._file.read().get(os.path.realpath(path))

    def give(self, path: str, digest: str, *, unsandboxed: bool = False) -> None:
        given = {os.path.realpath(path): TrustedPlugin(digest, unsandboxed)}

        def edit(held: dict[str, TrustedPlugin]) -> dict[str, TrustedPlugin]:
            if len(held | given) > _PLUGINS_MAX:
                raise UsageError(f"more than {_PLUGINS_MAX:,} trusted plugins", safe="Nothing was changed.")
            return held | given

        self._file.change(edit)

    def take(self, path: str) -> bool:
        """Revoke trust. Return whether it was trusted."""
        real = os.path.realpath(path)
        if real not in self._file.read():
            return False
        self._file.change(lambda held: {one: trusted for one, trusted in held.items() if one != real})
        return True

    def paths(self) -> list[str]:
        return sorted(self._file.read())


def _plugins(value: Any) -> dict[str, TrustedPlugin]:
    return msgspec.convert(
        {} if value is None else value, dict[str, TrustedPlugin]
    )  # its ValidationError is a ValueError
