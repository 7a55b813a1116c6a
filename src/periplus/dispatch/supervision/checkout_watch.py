"""The person's checkout while agents work elsewhere: files that changed in it, so that writing outside of a worktree is told."""

from __future__ import annotations

__all__ = ["CheckoutWatch"]

import hashlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from periplus.base.files import read_plain, write_atomic

if TYPE_CHECKING:
    from periplus.dispatch.supervision.workplace import Workplace

_BYTES_MAX: Final = 64 << 20
_SHOWN_MAX: Final = 10


class CheckoutWatch:
    """Compares the uncommitted files of the checkout with those that were there when somebody was last told of them."""

    def __init__(self, workplace: Workplace) -> None:
        self._at = workplace

    def begin(self) -> None:
        """Take what is there for the person's own, where nothing was noted yet."""
        if self._known() is None:
            self.accept()

    def accept(self) -> None:
        """Take the files as they are now for known."""
        data = msgspec.json.encode(sorted(self._now()))
        write_atomic(self._at.journal.files, self._at.places.checkout(self._at.dispatch_id), data, mode=0o600)

    def changed(self) -> str:
        """Return a sentence that names files that changed; empty where none did."""
        known = self._known()
        names = [name for mark, name in self._now().items() if mark not in known] if known is not None else []
        if not names:
            return ""
        shown = ", ".join(sorted(names)[:_SHOWN_MAX]) + (
            f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
        )
        return (
            f"while it worked, files of the checkout changed: {shown} (by you, or by an agent outside of its worktree)"
        )

    def _known(self) -> frozenset[str] | None:
        try:
            data = read_plain(self._at.places.checkout(self._at.dispatch_id), _BYTES_MAX)
        except FileNotFoundError:
            return None
        return frozenset(msgspec.json.decode(data, type=list[str]))

    def _now(self) -> dict[str, str]:
        """Return the uncommitted files by a digest of name, size and time; the store's own are left out."""
        top, store = self._at.repository.top, os.path.realpath(self._at.project.root)
        left = self._at.repository.checkout_changes()
        found = {}
        for name in (*left.changed, *left.untracked, *left.unmerged, *left.nested):
            path = os.path.join(top, name)
            if path == store or path.startswith(store + os.sep):
                continue
            try:
                held = os.lstat(path)
                mark = f"{held.st_mode} {held.st_size} {held.st_mtime_ns}"
            except OSError:
                mark = "gone"
            found[hashlib.sha256(os.fsencode(f"{name}\0{mark}")).hexdigest()] = name
        return found
