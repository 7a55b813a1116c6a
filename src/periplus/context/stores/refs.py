"""Refs, the names of contexts: the rules for names, and the interface of a table of refs with its one operation,
compare and set.

Whether a ref may move to a context (which must descend from the old one) is decided by the library; a table only
stores. It changes one ref at a time, and only from the target that the caller expects, so of two concurrent setters one
fails.
"""

from __future__ import annotations

__all__ = ["REFS_MAX", "REF_NAME_BYTES_MAX", "MemoryRefs", "RefTable", "check_ref_name", "ref_moved_error"]

import threading
from string import ascii_letters, digits
from typing import Final, Protocol

from periplus.base.errors import ConflictError, RefusedError, UsageError

REF_NAME_BYTES_MAX: Final = 200
REFS_MAX: Final = 100_000
_FIRST: Final = frozenset(ascii_letters + digits)
_REST: Final = frozenset(ascii_letters + digits + "._-+@=")
_HEX: Final = frozenset("0123456789abcdef")


class RefTable(Protocol):
    """Names and their contexts."""

    def all(self) -> dict[str, bytes]:
        """Return all refs, sorted by name. Raises DamageError."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return the target of ``name``, None if it does not exist. Raises DamageError."""
        ...

    def change(self, name: str, old: bytes | None, new: bytes | None) -> None:
        """Move ``name`` from ``old`` to ``new``; None means that it does not exist. Durable when this returns.

        Raises ConflictError and changes nothing if the ref has another target by now.
        """
        ...


def check_ref_name(name: str) -> str:
    """Return ``name`` if it is valid for a ref. Raises UsageError with the reason.

    One or more parts with ``/`` between them; a part begins with a letter or a digit and continues with these or ``. _
    - + @ =``; it ends neither with a full stop nor with ``.lock`` or ``.tmp``, and has no ``..``. A name must not look
    like a digest.
    """
    if type(name) is not str:
        raise UsageError(f"name: a ref's name is text, not {type(name).__name__}")
    if not 0 < len(name) <= REF_NAME_BYTES_MAX:
        raise UsageError(f"name: {len(name):,} characters; a ref's name has 1 … {REF_NAME_BYTES_MAX}")
    for part in name.split("/"):
        if not part or part[0] not in _FIRST or not _REST.issuperset(part):
            raise UsageError(
                f"name: {name!r} cannot name a ref",
                mend="Use letters, digits and . _ - + @ =, in parts with / between them that begin with a letter or digit.",
            )
        if ".." in part or part.endswith((".", ".lock", ".tmp")):
            raise UsageError(f"name: {name!r} cannot name a ref: no part has '..', or ends with '.', '.lock' or '.tmp'")
    if len(name) in (16, 64) and _HEX.issuperset(name):
        raise UsageError(f"name: {name!r} looks like a digest")
    return name


def ref_moved_error(name: str, believed: bytes | None, found: bytes | None) -> ConflictError:
    """Return the error for a ref that has another target than the caller believes."""
    return ConflictError(
        f"ref {name} stands at {_shown(found)}, not at {_shown(believed)}",
        safe="It was not changed.",
        mend=f"See the changes in between with `periplus context log {name}`, then set it again.",
    )


def _shown(digest: bytes | None) -> str:
    return "nothing" if digest is None else digest.hex()[:16]


class MemoryRefs:
    """Refs in memory."""

    def __init__(self) -> None:
        self._refs: dict[str, bytes] = {}
        self._mutex = threading.Lock()

    def all(self) -> dict[str, bytes]:
        with self._mutex:
            return dict(sorted(self._refs.items()))

    def get(self, name: str) -> bytes | None:
        return self._refs.get(name)

    def change(self, name: str, old: bytes | None, new: bytes | None) -> None:
        with self._mutex:
            found = self._refs.get(name)
            if found != old:
                raise ref_moved_error(name, old, found)
            if new is None:
                self._refs.pop(name, None)
                return
            if found is None and len(self._refs) >= REFS_MAX:
                raise RefusedError(f"there are {REFS_MAX:,} refs already", safe="Nothing was changed.")
            self._refs[name] = new
