"""Filter of records by type, id, writer, session, action and time."""

from __future__ import annotations

__all__ = ["RecordFilter"]


from periplus.base.named_tuple import NamedTuple


class RecordFilter(NamedTuple):
    """Conditions on records; empty ones do not restrict. ``since`` ≤ ts < ``until``; ``item_id`` may be a prefix."""

    types: tuple[str, ...] = ()
    item_id: str = ""
    writers: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    def where(self) -> tuple[str, list[object]]:
        """Return the SQL condition on the index's ``records``, and its values."""
        parts: list[str] = []
        values: list[object] = []
        for column, wanted in (("item_type", self.types), ("writer", self.writers), ("session", self.sessions),
                               ("action", self.actions)):  # fmt: skip
            if wanted:
                parts.append(f" AND {column} IN ({','.join('?' * len(wanted))})")
                values.extend(wanted)
        for condition, value in (("ts >= ?", self.since), ("ts < ?", self.until), ("item_id >= ?", self.item_id)):
            if value:
                parts.append(f" AND {condition}")
                values.append(value)
        if self.item_id:
            parts.append(" AND item_id < ?")
            values.append(self.item_id + "\U0010ffff")
        return "".join(parts), values
