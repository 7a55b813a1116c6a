"""API keys of providers in the user's settings folder (``keys.json``, mode 0600): never in a project, a store or a log."""

from __future__ import annotations

__all__ = ["KEY_CHARACTERS_MAX", "KEY_VARIABLES", "Keys", "check_provider"]

from collections.abc import Mapping
from typing import Any, Final

from periplus.agent.user_file import UserFile, Words
from periplus.base.errors import UsageError
from periplus.base.files import Files

KEY_CHARACTERS_MAX: Final = 4_096
KEY_VARIABLES: Final[Mapping[str, str]] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_FILE_BYTES_MAX: Final = 256 * 1024
_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_WORDS: Final = Words(
    "not a table of keys", "is not a file of yours that nobody else may read", "No key was used; the file was left as it is.",
    "Move it away, and give the keys again: periplus models key PROVIDER",
)  # fmt: skip


class Keys:
    """The key file in ``folder``. A key in the environment takes precedence."""

    def __init__(self, folder: str, environment: Mapping[str, str], files: Files | None = None) -> None:
        self._environment = environment
        self._file = UserFile(
            folder, "keys.json", _keys, dict, _WORDS, bytes_max=_FILE_BYTES_MAX, is_secret=True, files=files
        )

    @property
    def path(self) -> str:
        return self._file.path

    def key(self, provider: str) -> str:
        """Return the key, or "". Raises RefusedError if others can read the file, UsageError if it is not a table of keys."""
        variable = KEY_VARIABLES.get(provider, "")
        return (self._environment.get(variable, "") if variable else "") or self._file.read().get(provider, "")

    def held(self, provider: str) -> bool:
        """Return whether the file has a key for the provider. Raises like ``key``."""
        return bool(self._file.read().get(provider))

    def providers(self) -> dict[str, str]:
        """The source of each provider's key: ``environment`` or ``file``."""
        found = dict.fromkeys(self._file.read(), "file")
        return found | {
            name: "environment" for name, variable in KEY_VARIABLES.items() if self._environment.get(variable)
        }

    def set(self, provider: str, key: str) -> None:
        """Store ``key``; an empty one removes the provider's. Raises UsageError, RefusedError, EnvironmentFailure."""
        check_provider(provider)
        if len(key) > KEY_CHARACTERS_MAX or not key.isascii() or (key and not key.isprintable()) or " " in key:
            raise UsageError(
                "a key is one line of printable ASCII characters without spaces", safe="Nothing was changed."
            )
        self._file.change(lambda held: {name: value for name, value in (held | {provider: key}).items() if value})


def check_provider(name: str) -> None:
    """Check a provider's name. Raises UsageError."""
    if not name or not _NAME.issuperset(name) or len(name) > 64:
        raise UsageError(f"{name!r} is not a valid provider name", safe="Nothing was changed.",
                         mend="Use lowercase letters, digits, - and _.")  # fmt: skip


def _keys(value: Any) -> dict[str, str]:
    held = {} if value is None else value
    if not isinstance(held, dict) or not all(isinstance(one, str) for one in held.values()):
        raise ValueError("it must map provider names to keys")
    return held
