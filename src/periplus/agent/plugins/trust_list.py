"""Which plugins their user trusts: each by its path and the digest of its whole folder, in the user's own folder (mode 0600).

A plugin runs programs, so trust of a project's folder is not trust of a plugin in it. When one byte of it changes it is off again.
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
    """``unsandboxed``: its programs may run where no sandbox works."""

    digest: str
    unsandboxed: bool = False


class PluginTrust:
    """The user's list, in ``folder``."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self._file: UserFile[dict[str, TrustedPlugin]] = UserFile(
            folder, FILE, _plugins, msgspec.to_builtins, _WORDS, bytes_max=_BYTES_MAX, files=files
        )

    def get(self, path: str) -> TrustedPlugin | None:
        """Raises RefusedError where others could have written the list, UsageError where it is none."""
        return self._file.read().get(os.path.realpath(path))

    def give(self, path: str, digest: str, *, unsandboxed: bool = False) -> None:
        given = {os.path.realpath(path): TrustedPlugin(digest, unsandboxed)}

        def edit(held: dict[str, TrustedPlugin]) -> dict[str, TrustedPlugin]:
            if len(held | given) > _PLUGINS_MAX:
                raise UsageError(f"more than {_PLUGINS_MAX:,} trusted plugins", safe="Nothing was changed.")
            return held | given

        self._file.change(edit)

    def take(self, path: str) -> bool:
        """Trust it no more; whether it was trusted."""
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
