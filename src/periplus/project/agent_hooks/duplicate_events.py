"""Drop duplicate events: each event that hooks report twice counts once.

Hooks run twice where an agent is connected both in the project and for the person, and VS Code and Cursor run the
hooks of Claude Code beside their own. Two events are the same where session, kind and content are equal, they came
within a few seconds, and no turn began between them (an agent waits for its hooks: the end of the next turn is
another event, however soon it comes); calls of a tool with the same id are the same at any time in their turn. A
session that the hooks of Claude Code and of another agent report belongs to the other agent: only Claude Code's
settings are read by others.

Recent events are kept in a file beside the spool, for the second report may come just after the first was imported.
The file is derived and may be lost, and counts as lost where its checksum does not match: then an event counts twice.
"""

from __future__ import annotations

__all__ = ["DuplicateEvents"]

import json
from binascii import crc32
from collections.abc import Callable, Sequence
from typing import Final

from periplus.base.errors import PeriplusError
from periplus.base.files import Files, read_plain, write_atomic
from periplus.base.ids import derived_id
from periplus.interop.hooks.events import DOUBLE_MS, HookEvent, identity_of

_READ_BY_OTHERS: Final = "claude-code"
_BEGINNINGS: Final = ("session-start", "prompt")
_KEPT_MAX: Final = 500
_BYTES_MAX: Final = 64 << 10


class DuplicateEvents:
    """Recent events, in the file at ``path``. ``is_told_by_another`` tells whether another agent's run of a session
    is known already.
    """

    def __init__(self, path: str, files: Files, is_told_by_another: Callable[[HookEvent], bool]) -> None:
        self._path = path
        self._files = files
        self._is_told_by_another = is_told_by_another
        self._recent: dict[str, int] = {}
        try:
            stated, _, held = read_plain(path, _BYTES_MAX).partition(b"\n")
            if stated == b"%08x" % crc32(held):
                self._recent = {str(mark): int(at_ms) for mark, at_ms in json.loads(held).items()}
        except (OSError, PeriplusError, ValueError, AttributeError, TypeError):
            pass  # none yet, or unusable: see above

    def without(self, events: Sequence[HookEvent]) -> list[HookEvent]:
        """Return ``events``, in the order of their times, without those that were reported before."""
        others = {event.session for event in events if event.agent != _READ_BY_OTHERS}
        kept: list[HookEvent] = []
        for event in events:
            if event.agent == _READ_BY_OTHERS and (event.session in others or self._is_told_by_another(event)):
                continue
            mark = identity_of(event)
            begun = derived_id("turn", event.agent, event.session)  # its last turn began
            before_ms = self._recent.get(mark)
            self._recent[mark] = event.at_ms
            if before_ms is not None:
                is_of_next = (
                    event.kind not in _BEGINNINGS and before_ms < self._recent.get(begun, before_ms) < event.at_ms
                )
                if (event.call or abs(event.at_ms - before_ms) <= DOUBLE_MS) and not is_of_next:
                    continue
            if event.kind in _BEGINNINGS:
                self._recent[begun] = event.at_ms
            kept.append(event)
        return kept

    def save(self) -> None:
        """Keep the recent events for the next time; where they cannot be written, only this check is lost."""
        newest = sorted(self._recent.items(), key=lambda item: item[1])[-_KEPT_MAX:]
        try:
            held = json.dumps(dict(newest)).encode()
            write_atomic(self._files, self._path, b"%08x\n" % crc32(held) + held, durable=False, mode=0o600)
        except (OSError, PeriplusError):
            pass
