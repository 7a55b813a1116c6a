"""Keep the trail of a replay in the store, next to its original."""

from __future__ import annotations

__all__ = ["keep_replay"]

from typing import TYPE_CHECKING

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.ids import derived_id
from periplus.trail.format.reader import TrailReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.journal import Entity, Transaction
    from periplus.project.store import ProjectStore


def keep_replay(project: ProjectStore, data: bytes) -> tuple[Entity, int]:
    """Keep the bytes of a replay's trail and announce it in the journal; the same bytes again change nothing.

    Returns the trail, and the number of its texts that are withheld because they were redacted in this store.
    """
    from periplus.project.trail_store.withholding import Withholding

    reader = TrailReader(data)
    digest = reader.digest.hex()
    item_id = derived_id("trl", "replay", digest, "")
    title = reader.header.title
    begun = format_ms(reader.header.started_ms) if reader.header.started_ms else ""
    card: dict[str, JSONValue] = {
        "v": 1,
        "digest": digest,
        "object": "",
        "bytes": len(data),
        "format": "replay",
        "agent": "periplus replay",
        "session_id": digest,
        "source_sha256": "",
        "title": title if isinstance(title, str) else "",
        "cwd": "",
        "model": "",
        "started": begun,
        "ended": begun,
        "status": reader.status,
        "counts": {"steps": reader.step_count, "files": 0},
        "skipped": {},
        "unknown": {},
        "masked": 0,
        "files": [],
    }

    withholding, withheld = Withholding(project), 0

    def keep(before: Entity | None) -> Callable[[Transaction], None]:
        nonlocal withheld
        withheld = withholding.put_trail(card, data, before)
        return write

    def write(transaction: Transaction) -> None:
        held = transaction.get("trail", item_id)
        if held is None or held.deleted:
            transaction.put("trail", item_id, card, action="create", summary=f"trail: {card['title']}")

    withholding.announce(item_id, keep)
    entity = project.journal.get("trail", item_id)
    assert entity is not None
    return entity, withheld
