"""Keys of providers in the user's own folder (``keys.json``, mode 0600): never in a project, never in a store, never in a log."""

from __future__ import annotations

__all__ = ["KEY_CHARACTERS_MAX", "KEY_VARIABLES", "Keys"]

import os
import stat
from collections.abc import Mapping
from typing import Final

from periplus.base.errors import RefusedError, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic

KEY_CHARACTERS_MAX: Final = 4_096
KEY_VARIABLES: Final[Mapping[str, str]] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_FILE_BYTES_MAX: Final = 256 * 1024
_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


class Keys:
    """The file of keys in ``folder``; what the environment says of a provider comes before it."""

    def __init__(self, folder: str, environment: Mapping[str, str], files: Files | None = None) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "keys.json")
        self._environment = environment
        self._files = files or Files()

    @property
    def path(self) -> str:
        return self._path

    def key(self, provider: str) -> str:
        """The key, or "". Raises RefusedError where others could read the file, UsageError where it is no table of keys."""
        variable = KEY_VARIABLES.get(provider, "")
        return (self._environment.get(variable, "") if variable else "") or self._read().get(provider, "")

    def held(self, provider: str) -> bool:
        """Whether the file has a key of it. Raises RefusedError, UsageError as ``key``."""
        return bool(self._read().get(provider))

    def providers(self) -> dict[str, str]:
        """Where the key of each provider that has one comes from: ``environment`` or ``file``."""
        found = dict.fromkeys(self._read(), "file")
        return found | {
            name: "environment" for name, variable in KEY_VARIABLES.items() if self._environment.get(variable)
        }

    def set(self, provider: str, key: str) -> None:
        """Keep ``key``; an empty one takes the provider's away. Raises UsageError, RefusedError, EnvironmentFailure."""
        import json

        if not provider or not _NAME.issuperset(provider) or len(provider) > 64:
            raise UsageError(f"{provider!r} is no name of a provider", safe="Nothing was changed.",
                             mend="Use small letters, digits, - and _.")  # fmt: skip
        if len(key) > KEY_CHARACTERS_MAX or not key.isascii() or (key and not key.isprintable()) or " " in key:
            raise UsageError(
                "a key is one line of printable ASCII characters without spaces", safe="Nothing was changed."
            )
        held = self._read() | {provider: key}
        held = {name: value for name, value in sorted(held.items()) if value}
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise environment_failure(error, "make the folder", self._folder) from error
        write_atomic(self._files, self._path, json.dumps(held, indent=1).encode() + b"\n", mode=0o600)

    def _read(self) -> dict[str, str]:
        import json

        try:
            status = os.lstat(self._path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise environment_failure(error, "read", self._path) from error
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise RefusedError(f"{self._path} is not a file of yours that nobody else may read", safe="No key was used.",
                               mend=f"Run `chmod 600 {self._path}`; where others use this machine, take new keys.")  # fmt: skip
        try:
            held = json.loads(read_plain(self._path, _FILE_BYTES_MAX))
        except OSError as error:
            raise environment_failure(error, "read", self._path) from error
        except ValueError as error:
            raise self._odd() from error
        if not isinstance(held, dict) or not all(isinstance(value, str) for value in held.values()):
            raise self._odd()
        return held

    def _odd(self) -> UsageError:
        return UsageError(f"{self._path} is no table of keys", safe="No key was used; the file was left as it is.",
                          mend="Move it away, and give the keys again: periplus models key PROVIDER")  # fmt: skip
