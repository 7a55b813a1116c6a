"""A plugin's folder as bytes: read once, identified by one digest, and run from a copy of exactly these bytes.

The user trusts the digest; a copy in the store runs, where neither the agent's file tools nor its commands can write. So a change of the
folder during a session does not change what the session's plugins do.
"""

from __future__ import annotations

__all__ = ["PluginBytes", "copy_out", "read_folder"]

import os
from typing import Final, NamedTuple

from periplus.base.errors import EnvironmentFailure, RefusedError
from periplus.base.files import Files
from periplus.base.filesystem.confined_folder import Confined, Limits

FILES_MAX: Final = 2_000
BYTES_MAX: Final = 16 << 20
_LIMITS: Final = Limits(file_bytes_max=BYTES_MAX, entries_max=FILES_MAX)
_IGNORED: Final = frozenset({"__pycache__"})


class PluginBytes(NamedTuple):
    """Files by path, with their executable bits; ``digest`` covers all of it."""

    files: dict[str, tuple[bytes, bool]]
    digest: str


def read_folder(root: str, folder: str) -> PluginBytes:
    """Read all of ``folder`` below ``root``. Raises RefusedError for a link in it, or for more than a person could review."""
    import hashlib

    files: dict[str, tuple[bytes, bool]] = {}
    left = BYTES_MAX
    with Confined(root, limits=_LIMITS) as confined:
        waiting = [folder]
        while waiting:
            for entry in confined.list(waiting.pop()):
                name = entry.path.rpartition("/")[2]
                if entry.kind == "folder":
                    waiting += [] if name in _IGNORED else [entry.path]
                    continue
                if entry.kind != "file":
                    raise RefusedError(f"{os.path.join(root, entry.path)} is a {entry.kind}: a plugin holds files and folders",
                                       safe="Nothing of it was run.", mend="Put a file in its place.")  # fmt: skip
                left -= entry.size
                if left < 0 or len(files) >= FILES_MAX:
                    raise RefusedError(f"{os.path.join(root, folder)} has over {FILES_MAX:,} files, or {BYTES_MAX >> 20} MB",
                                       safe="Nothing of it was run.")  # fmt: skip
                files[entry.path[len(folder) + 1 :]] = (confined.read(entry.path), entry.is_executable)
    state = hashlib.sha256()
    for path, (data, is_executable) in sorted(files.items()):
        spelled = path.encode()
        state.update(
            len(spelled).to_bytes(4, "big") + spelled + bytes([is_executable]) + len(data).to_bytes(8, "big") + data
        )
    return PluginBytes(files, state.hexdigest())


def copy_out(held: PluginBytes, place: str, name: str, files: Files) -> str:
    """Return the copy below ``place`` with exactly these bytes, created if missing. Raises EnvironmentFailure."""
    folder = f"{name}-{held.digest[:24]}"
    path = os.path.join(place, folder)
    files.make_folder(path, 0o700)
    if _is_same(held, place, folder):
        return path
    with Confined(path, files=files, is_durable=False) as confined:
        for entry in list(confined.walk()):
            if entry.path not in held.files:
                confined.delete(entry.path)
        for inner, (data, is_executable) in held.files.items():
            confined.write(inner, data, mode=0o700 if is_executable else 0o600)
    if not _is_same(held, place, folder):
        raise EnvironmentFailure(f"{path} does not hold what was written there", safe="The plugin was not run.",
                                 mend=f"Remove {path}, and begin again.")  # fmt: skip
    return path


def _is_same(held: PluginBytes, place: str, folder: str) -> bool:
    try:
        return read_folder(place, folder).digest == held.digest
    except RefusedError:
        return False
