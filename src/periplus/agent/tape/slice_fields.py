"""Fields of the working state: the lifetime, the producer and the readers of each, in one table.

``turn``: gone with the next request. ``task``: belongs to a topic, parked and resumed with it. ``session``: as long as the session. A field
that is not in this table is not carried; a test drives every producer and checks every reader.
"""

from __future__ import annotations

__all__ = ["FIELDS", "Field", "Lifetime", "field_named"]

from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import UsageError

Lifetime: TypeAlias = Literal["turn", "task", "session"]


class Field(NamedTuple):
    """A row. ``producer`` is the kind of episode or note that writes the field; ``readers`` show it. ``items_max`` and ``characters_max``
    bound it: the oldest goes first, except where nothing may be lost and a new item is refused.
    """

    name: str
    lifetime: Lifetime
    producer: str
    readers: tuple[str, ...]
    items_max: int
    characters_max: int
    is_kept: bool = False
    """True for rules and open commitments, which a fold keeps word for word."""


FIELDS: Final[tuple[Field, ...]] = (
    Field("request", "turn", "requested", ("tail", "digest"), 1, 1 << 20),
    Field("facts", "turn", "tail", ("tail",), 20, 1_000),
    Field("knowledge", "turn", "tail", ("tail", "digest"), 12, 2_000),
    Field("outside", "turn", "tail, seal", ("tail", "entries"), 50, 20_000),
    Field("instructions", "session", "instructions", ("tail", "entries"), 128, 12_000, is_kept=True),
    Field("mission", "task", "slice", ("tail", "commitments", "checkpoint"), 1, 2_000, is_kept=True),
    Field("requirements", "task", "slice", ("tail", "commitments", "checkpoint"), 50, 500, is_kept=True),
    Field("plan", "task", "slice", ("tail", "commitments", "checkpoint"), 50, 300, is_kept=True),
    Field("findings", "task", "slice", ("tail", "commitments", "checkpoint"), 40, 500, is_kept=True),
    Field("world", "task", "slice", ("tail", "commitments", "checkpoint"), 24, 300, is_kept=True),
    Field("active_files", "task", "resulted", ("knowledge", "checkpoint"), 12, 400),
    Field("edited_files", "task", "seal", ("anchors", "checkpoint"), 64, 400),
    Field("anchors", "task", "seal", ("checkpoint",), 64, 200),
    Field("open_report", "task", "fed, ended", ("tail", "commitments", "checkpoint"), 1, 4_000, is_kept=True),
    Field("last_error", "task", "resulted", ("tail", "checkpoint"), 1, 600),
    Field("rules", "session", "slice", ("tail", "commitments"), 40, 1_000, is_kept=True),
    Field("skills", "session", "slice", ("tail", "commitments", "checkpoint"), 16, 100, is_kept=True),
)
_BY_NAME: Final = {field.name: field for field in FIELDS}


def field_named(name: str) -> Field:
    """Look up a row. Raises UsageError for a field that is not carried."""
    found = _BY_NAME.get(name)
    if found is None:
        raise UsageError(f"{name!r} is not a field of the working state", safe="Nothing was changed.",
                         mend=f"One of: {', '.join(_BY_NAME)}.")  # fmt: skip
    return found
