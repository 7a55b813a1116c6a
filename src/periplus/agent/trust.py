"""Trust in folders: a project's files for agents have no effect before the user trusts the folder.

A folder is trusted with its present files: a digest over the files with which a project addresses an agent is stored beside its path, in
the user's settings folder. When one of them changes, the user is asked again.
"""

from __future__ import annotations

__all__ = ["SPEAKING", "Trust", "TrustState", "digest_of"]

import os
import stat
from typing import Any, Final, Literal, TypeAlias

from periplus.agent.settings import PROJECT_FILE
from periplus.agent.user_file import UserFile, Words
from periplus.base.errors import UsageError
from periplus.base.files import Files, read_plain

TrustState: TypeAlias = Literal["trusted", "changed", "unknown"]
SPEAKING: Final = (PROJECT_FILE, ".mcp.json", ".periplus-plugins", ".agents", ".claude/skills")
"""Files and folders with which a project can set policy, start a server, or load a plugin or skill."""
_FOLDERS_MAX: Final = 10_000
_BYTES_MAX: Final = 4 << 20
_FILES_MAX: Final = 2_000


def digest_of(root: str) -> str:
    """SHA-256 over the files with which the project addresses an agent. Links are hashed by their targets and not followed. Raises
    UsageError if there is more than a person could review.
    """
    import hashlib

    state = hashlib.sha256()
    left = [_BYTES_MAX]
    for path in _speaking(root):
        whole = os.path.join(root, path)
        status = os.lstat(whole)
        if stat.S_ISLNK(status.st_mode):
            content = b"link " + os.readlink(whole).encode("utf-8", "surrogateescape")
        elif stat.S_ISREG(status.st_mode):
            content = b"file " + read_plain(whole, left[0] + 1)
        else:
            content = b"other"
        left[0] -= len(content)
        if left[0] < 0:
            raise UsageError(
                f"{root}: its files for agents have more than {_BYTES_MAX:,} bytes", safe="It is not trusted."
            )
        name = path.encode("utf-8", "surrogateescape")
        state.update(len(name).to_bytes(4, "big") + name + len(content).to_bytes(8, "big") + content)
    return state.hexdigest()


def _speaking(root: str) -> list[str]:
    found: list[str] = []
    for name in SPEAKING:
        path = os.path.join(root, name)
        if os.path.isdir(path) and not os.path.islink(path):
            for place, folders, names in os.walk(path):
                folders.sort()
                links = [one for one in folders if os.path.islink(os.path.join(place, one))]
                found += [os.path.relpath(os.path.join(place, one), root) for one in sorted([*names, *links])]
                if len(found) > _FILES_MAX:
                    raise UsageError(f"{path} has more than {_FILES_MAX:,} files", safe="It is not trusted.")
        elif os.path.lexists(path):
            found.append(name)
    return found


_WORDS: Final = Words(
    "not a list of trusted folders", "can be written by others, so no folder in it is trusted", "Nothing was run.",
    "Remove it, then trust them again.",
)  # fmt: skip


class Trust:
    """The user's list, ``trusted.json`` in ``folder`` (mode 0600)."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self._file = UserFile(folder, "trusted.json", _folders, dict, _WORDS, bytes_max=_BYTES_MAX, files=files)

    def state(self, root: str) -> TrustState:
        """The trust state of a folder. Raises RefusedError if others can write the list, UsageError if it is not valid."""
        held = self._file.read().get(os.path.realpath(root))
        if held is None:
            return "unknown"
        return "trusted" if held == digest_of(root) else "changed"

    def give(self, root: str) -> None:
        """Trust the folder with its present files."""
        given = {os.path.realpath(root): digest_of(root)}

        def edit(held: dict[str, str]) -> dict[str, str]:
            if len(held | given) > _FOLDERS_MAX:
                raise UsageError(f"more than {_FOLDERS_MAX:,} trusted folders", safe="Nothing was changed.")
            return held | given

        self._file.change(edit)

    def take(self, root: str) -> bool:
        """Revoke trust. Return whether it was trusted."""
        path = os.path.realpath(root)
        if path not in self._file.read():
            return False
        self._file.change(lambda held: {one: digest for one, digest in held.items() if one != path})
        return True

    def folders(self) -> list[str]:
        return sorted(self._file.read())


def _folders(value: Any) -> dict[str, str]:
    held = {} if value is None else value
    if not isinstance(held, dict) or not all(isinstance(one, str) for one in held.values()):
        raise ValueError("it must map paths to digests")
    return held
