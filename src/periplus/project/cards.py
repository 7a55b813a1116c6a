"""What the journal announces of an imported trail, and which of two trails of one session is the later one."""

from __future__ import annotations

__all__ = ["card_of", "is_later"]

from typing import TYPE_CHECKING, Final

from periplus.base.canonical import JSONValue
from periplus.base.clock import format_ms

if TYPE_CHECKING:
    from periplus.interop import Imported

_FILES_LISTED_MAX: Final = 200
_LINES_LISTED_MAX: Final = 20
_UNREADABLE: Final = "unreadable line"  # as the importers count those beyond the numbers that they keep


def is_later(card: dict[str, JSONValue], held: dict[str, JSONValue]) -> bool:
    """Whether a session's trail should take the place of the one that is held: a session grows, an old copy does not."""
    if card["digest"] == held.get("digest"):
        return False
    steps = [counts.get("steps", 0) if isinstance(counts := one.get("counts"), dict) else 0 for one in (card, held)]
    ends = [str(one.get("ended", "")) for one in (card, held)]
    return (ends[0], steps[0]) >= (ends[1], steps[1])


def card_of(imported: Imported, parent: str) -> dict[str, JSONValue]:
    """What the journal says of the trail; ``parent`` is the trail of the session that this one was part of."""
    from periplus.trail import TrailReader

    reader = TrailReader(imported.trail)
    card: dict[str, JSONValue] = {
        "v": 1,
        "digest": reader.digest.hex(),
        "object": "",
        "bytes": len(imported.trail),
        "format": imported.format,
        "agent": imported.agent,
        "session_id": imported.session_id,
        "source_sha256": imported.source_sha256.hex(),
        "title": imported.title or "",
        "cwd": imported.cwd or "",
        "model": imported.model or "",
        "started": format_ms(imported.started_ms) if imported.started_ms else "",
        "ended": format_ms(imported.ended_ms) if imported.ended_ms else "",
        "status": reader.status,
        "counts": dict(imported.counts),
        "skipped": dict(imported.skipped),
        "unknown": dict(imported.unknown),
        "masked": imported.masked,
        "files": list(imported.files[:_FILES_LISTED_MAX]),
    }
    if parent:
        card["parent"] = parent
    if imported.unreadable_lines:
        beyond = imported.skipped.get(_UNREADABLE, 0)
        card["skipped"] = {**imported.skipped, _UNREADABLE: len(imported.unreadable_lines) + beyond}
        card["unreadable_lines"] = list(imported.unreadable_lines[:_LINES_LISTED_MAX])
    return card
