"""Trust of folders: what a project says of the agent counts for nothing before its user has said that it may.

A folder is trusted with what it said when it was trusted: a digest over the files by which a project speaks to an agent is kept
beside its path, in the user's own folder. When one of them changes, the user is asked again.
"""

from __future__ import annotations

__all__ = ["SPEAKING", "Trust", "TrustState", "digest_of"]

import json
import os
import stat
from typing import Final, Literal, TypeAlias

from periplus.agent.settings import PROJECT_FILE
from periplus.base.errors import RefusedError, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic

TrustState: TypeAlias = Literal["trusted", "changed", "unknown"]
SPEAKING: Final = (PROJECT_FILE, ".mcp.json", ".periplus-plugins", ".agents", ".claude/skills")
"""Files and folders by which a project would set policy, start a server, or load a plugin or skill."""
_FOLDERS_MAX: Final = 10_000
_BYTES_MAX: Final = 4 << 20
_FILES_MAX: Final = 2_000


def digest_of(root: str) -> str:
    """SHA-256 over what the project says to an agent. Links are taken by where they lead and not followed. Raises UsageError
    where there is more of it than a person could look at.
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
                f"{root}: what it says to agents has more than {_BYTES_MAX:,} bytes", safe="It is not trusted."
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


class Trust:
    """The user's list, ``trusted.json`` in ``folder`` (mode 0600)."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "trusted.json")
        self._files = files or Files()

    def state(self, root: str) -> TrustState:
        """Raises RefusedError where others could have written the list, UsageError where it is none."""
        held = self._read().get(os.path.realpath(root))
        if held is None:
            return "unknown"
        return "trusted" if held == digest_of(root) else "changed"

    def give(self, root: str) -> None:
        """Trust the folder with what it says now."""
        self._write(self._read() | {os.path.realpath(root): digest_of(root)})

    def take(self, root: str) -> bool:
        """Trust it no more; whether it was trusted."""
        held = self._read()
        was = held.pop(os.path.realpath(root), None) is not None
        if was:
            self._write(held)
        return was

    def folders(self) -> list[str]:
        return sorted(self._read())

    def _write(self, held: dict[str, str]) -> None:
        if len(held) > _FOLDERS_MAX:
            raise UsageError(f"more than {_FOLDERS_MAX:,} trusted folders", safe="Nothing was changed.")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise environment_failure(error, "make the folder", self._folder) from error
        data = json.dumps(dict(sorted(held.items())), indent=1).encode("utf-8", "surrogateescape") + b"\n"
        write_atomic(self._files, self._path, data, mode=0o600)

    def _read(self) -> dict[str, str]:
        try:
            status = os.lstat(self._path)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o022 or status.st_uid != os.geteuid():
                raise RefusedError(
                    f"{self._path} may be written by others: no folder is trusted by it", safe="Nothing was run.",
                    mend=f"Look at what it says, then run `chmod 600 {self._path}`.",
                )  # fmt: skip
            held = json.loads(read_plain(self._path, _BYTES_MAX))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise environment_failure(error, "read", self._path) from error
        except ValueError as error:
            raise self._odd() from error
        if not isinstance(held, dict) or not all(isinstance(one, str) for one in held.values()):
            raise self._odd()
        return held

    def _odd(self) -> UsageError:
        return UsageError(
            f"{self._path} is no list of trusted folders",
            safe="Nothing was run.",
            mend="Remove it, and trust them anew.",
        )
