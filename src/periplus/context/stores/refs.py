"""Refs: names for contexts. What a name may be, and the one thing that a table of refs has to do: compare and set.

What a ref may be moved to (what descends from where it stands) is the library's to judge; a table only keeps. It changes one ref
at a time, and only from where the caller believes it to stand, so that of two setters who believe the same one comes second.
"""

from __future__ import annotations

__all__ = ["REFS_MAX", "REF_NAME_BYTES_MAX", "MemoryRefs", "RefTable", "check_ref_name", "moved"]

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
    """Names and the contexts that they stand for."""

    def all(self) -> dict[str, bytes]:
        """All refs, by name ascending. Raises DamageError."""
        ...

    def get(self, name: str) -> bytes | None:
        """Where ``name`` stands, None for nowhere. Raises DamageError."""
        ...

    def change(self, name: str, old: bytes | None, new: bytes | None) -> None:
        """Let ``name``, which stands at ``old``, stand at ``new``; None is nowhere. For good when this returns.

        Raises ConflictError where it stands elsewhere by now: nothing was changed then.
        """
        ...


def check_ref_name(name: str) -> str:
    """``name``, if a ref can have it. Raises UsageError that says what is wrong with it.

    One or more parts with ``/`` between them; a part begins with a letter or a digit and goes on with these or ``. _ - + @ =``; it
    ends neither with a full stop nor with ``.lock`` or ``.tmp``, and has no ``..``. What looks like a digest is none.
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
        raise UsageError(f"name: {name!r} would be taken for a digest")
    return name


def moved(name: str, believed: bytes | None, found: bytes | None) -> ConflictError:
    """The error for a ref that does not stand where a caller believes it to stand."""
    return ConflictError(
        f"ref {name} stands at {_shown(found)}, not at {_shown(believed)}",
        safe="It was not changed.",
        mend=f"Look at what came in between (periplus context log {name}), then set it again.",
    )


def _shown(digest: bytes | None) -> str:
    return "nothing" if digest is None else digest.hex()[:16]


class MemoryRefs:
    """Refs that end with the process."""

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
                raise moved(name, old, found)
            if new is None:
                self._refs.pop(name, None)
                return
            if found is None and len(self._refs) >= REFS_MAX:
                raise RefusedError(f"there are {REFS_MAX:,} refs already", safe="Nothing was changed.")
            self._refs[name] = new
