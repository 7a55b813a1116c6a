"""Which plugins their user trusts: each by its path and the digest of its whole folder, in the user's own folder (mode 0600).

A plugin runs programs, so trust of a project's folder is not trust of a plugin in it. When one byte of it changes it is off again.
"""

from __future__ import annotations

__all__ = ["PluginTrust", "TrustedPlugin"]

import os
import stat
from typing import Any, Final

import msgspec

from periplus.base.errors import RefusedError, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic

FILE: Final = "plugins.json"
_BYTES_MAX: Final = 4 << 20
_PLUGINS_MAX: Final = 1_000


class TrustedPlugin(msgspec.Struct, frozen=True):
    """``unsandboxed``: its programs may run where no sandbox works."""

    digest: str
    unsandboxed: bool = False


class PluginTrust:
    """The user's list, in ``folder``."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self._folder = folder
        self._path = os.path.join(folder, FILE)
        self._files = files or Files()

    def get(self, path: str) -> TrustedPlugin | None:
        """Raises RefusedError where others could have written the list, UsageError where it is none."""
        return self._read().get(os.path.realpath(path))

    def give(self, path: str, digest: str, *, unsandboxed: bool = False) -> None:
        self._write(self._read() | {os.path.realpath(path): TrustedPlugin(digest, unsandboxed)})

    def take(self, path: str) -> bool:
        """Trust it no more; whether it was trusted."""
        held = self._read()
        was = held.pop(os.path.realpath(path), None) is not None
        if was:
            self._write(held)
        return was

    def paths(self) -> list[str]:
        return sorted(self._read())

    def _write(self, held: dict[str, TrustedPlugin]) -> None:
        if len(held) > _PLUGINS_MAX:
            raise UsageError(f"more than {_PLUGINS_MAX:,} trusted plugins", safe="Nothing was changed.")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise environment_failure(error, "make the folder", self._folder) from error
        plain: dict[str, Any] = {path: msgspec.to_builtins(one) for path, one in sorted(held.items())}
        write_atomic(
            self._files, self._path, msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n", mode=0o600
        )

    def _read(self) -> dict[str, TrustedPlugin]:
        try:
            status = os.lstat(self._path)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o022 or status.st_uid != os.geteuid():
                raise RefusedError(
                    f"{self._path} may be written by others: no plugin is trusted by it", safe="Nothing was run.",
                    mend=f"Look at what it says, then run `chmod 600 {self._path}`.",
                )  # fmt: skip
            return msgspec.json.decode(read_plain(self._path, _BYTES_MAX), type=dict[str, TrustedPlugin])
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise environment_failure(error, "read", self._path) from error
        except msgspec.DecodeError as error:
            raise UsageError(f"{self._path} is no list of trusted plugins", safe="Nothing was run.",
                             mend="Remove it, and trust them anew.") from error  # fmt: skip
