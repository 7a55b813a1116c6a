"""What the person agreed to: the digests of the tools of each server, as they were when it was first used.

They lie in ``servers.json`` of the user's own folder. A server is known by who named it and what is started or asked, so another one
under an old name begins anew. A tool that is new is noted; one that is not what it was is not to be used until the person agrees.
"""

from __future__ import annotations

__all__ = ["PINS_FILE", "Pins", "identity_of"]

import json
import os
import stat
from collections.abc import Mapping
from typing import Final

from periplus.agent.mcpclient.rows import ServerRow
from periplus.base.errors import RefusedError, UsageError, environment_failure
from periplus.base.files import Files, read_plain, write_atomic

PINS_FILE: Final = "servers.json"
_BYTES_MAX: Final = 8 << 20
_SERVERS_MAX: Final = 1_000


def identity_of(row: ServerRow) -> str:
    """By which a server is known again; nothing in it is a secret."""
    import hashlib

    parts = [row.name, row.source, *row.command] if row.command else [row.name, row.source, "", row.url]
    return f"{row.name} {hashlib.sha256(json.dumps(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


class Pins:
    """The file ``path`` (mode 0600)."""

    def __init__(self, folder: str, files: Files | None = None) -> None:
        self._folder, self._files = folder, files or Files()
        self._path = os.path.join(folder, PINS_FILE)

    def held(self, row: ServerRow) -> dict[str, str]:
        """The digests by the names of tools. Raises RefusedError where others could have written the file, UsageError where it is none."""
        return dict(self._read().get(identity_of(row), {}))

    def keep(self, row: ServerRow, digests: Mapping[str, str]) -> None:
        """The person agrees to these tools, and to no others of this server."""
        held = self._read()
        if held.get(identity_of(row)) == dict(digests):
            return
        held[identity_of(row)] = dict(digests)
        while len(held) > _SERVERS_MAX:
            del held[next(iter(held))]
        data = json.dumps({"version": 1, "servers": held}, indent=1, sort_keys=True).encode() + b"\n"
        if len(data) > _BYTES_MAX:
            raise UsageError(f"{self._path} would have more than {_BYTES_MAX:,} bytes", safe="Nothing was changed.",
                             mend="Remove it: all servers are then seen for the first time.")  # fmt: skip
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise environment_failure(error, "make the folder", self._folder) from error
        write_atomic(self._files, self._path, data, mode=0o600)

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            status = os.lstat(self._path)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o022 or status.st_uid != os.geteuid():
                raise RefusedError(
                    f"{self._path} may be written by others: no server is known by it", safe="No tool was called.",
                    mend=f"Look at what it says, then run `chmod 600 {self._path}`.",
                )  # fmt: skip
            held = json.loads(read_plain(self._path, _BYTES_MAX))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise environment_failure(error, "read", self._path) from error
        except (ValueError, RecursionError) as error:
            raise self._odd() from error
        servers = held.get("servers") if isinstance(held, dict) and held.get("version") == 1 else None
        if not isinstance(servers, dict) or not all(
            isinstance(one, dict) and all(isinstance(digest, str) for digest in one.values())
            for one in servers.values()
        ):
            raise self._odd()
        return servers

    def _odd(self) -> UsageError:
        return UsageError(f"{self._path} is no list of the tools of servers", safe="No tool was called.",
                          mend="Remove it: all servers are then seen for the first time.")  # fmt: skip
