"""Rows of the tables ``listed`` and ``sessions`` in the index, from which lists are filtered, sorted and counted.

A list of a large store must not decode the entities that it does not show, so these tables have just the fields by which it is asked for.
Tags and paths stand in one column each: to scan a small table costs less than to join 100,000 rows with another. Payloads come from
anybody: a field of the wrong type counts as absent.
"""

from __future__ import annotations

__all__ = ["LISTED_SCHEMA", "LISTED_TABLES", "MARK", "listed_row", "paths_of", "session_row", "tags_of"]

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.canonical import JSONValue
from periplus.memory.entities.types import state_of

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.trail.listings.model_costs import ModelCosts

MARK: Final = "\n"  # before, between and after the texts of a column of several
TITLE_CHARACTERS: Final = 60
_NAME_CHARACTERS: Final = 200
_NUMBER_MAX: Final = 1 << 48  # 30,000 of them can be summed in SQLite
LISTED_TABLES: Final = ("listed", "sessions")
LISTED_SCHEMA: Final = """
DROP TABLE IF EXISTS listed;
DROP TABLE IF EXISTS sessions;
CREATE TABLE listed (
    item_type TEXT NOT NULL, item_id TEXT NOT NULL, state TEXT NOT NULL, author TEXT NOT NULL, created INTEGER NOT NULL,
    changed INTEGER NOT NULL, anchored INTEGER NOT NULL, title TEXT NOT NULL COLLATE NOCASE, tags TEXT NOT NULL, paths TEXT NOT NULL,
    PRIMARY KEY (item_type, item_id)
) WITHOUT ROWID;
CREATE INDEX listed_by_state ON listed (item_type, state, author);
CREATE TABLE sessions (
    item_type TEXT NOT NULL, item_id TEXT NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL, branch TEXT NOT NULL,
    status TEXT NOT NULL, format TEXT NOT NULL, parent TEXT NOT NULL, digest TEXT NOT NULL, title TEXT NOT NULL,
    started INTEGER NOT NULL, ended INTEGER NOT NULL, steps INTEGER NOT NULL, files INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL, cached INTEGER NOT NULL, out INTEGER NOT NULL, cost INTEGER NOT NULL,
    PRIMARY KEY (item_type, item_id)
) WITHOUT ROWID;
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent <> ''"""


def tags_of(value: Mapping[str, JSONValue]) -> tuple[str, ...]:
    """Return the tags of an entity, each once, in their order."""
    tags = value.get("tags")
    return tuple(dict.fromkeys(tag for tag in tags if isinstance(tag, str))) if isinstance(tags, list) else ()


def paths_of(value: Mapping[str, JSONValue]) -> tuple[str, ...]:
    """Return what an entity is about, each once: paths, and names of symbols and entities as they are referred to."""
    about = value.get("about")
    items = [one for one in about if isinstance(one, dict)] if isinstance(about, list) else []
    return tuple(
        dict.fromkeys(said for one in items for name in ("ref", "path") if isinstance(said := one.get(name), str))
    )


def _column(texts: tuple[str, ...]) -> str:
    return f"{MARK}{MARK.join(text.replace(MARK, ' ') for text in texts)}{MARK}" if texts else ""


def listed_row(entity: Entity) -> tuple[object, ...]:
    """Return the row of ``listed``; ``changed`` is the time of the last record, ``created`` is as the entity says."""
    value = entity.value
    about = value.get("about")
    anchored = isinstance(about, list) and any(isinstance(item, dict) and item.get("sha256") for item in about)
    title = " ".join(_text(value, "text", "title", "name")[: 4 * TITLE_CHARACTERS].split())
    changed = _ms(entity.ts)
    return (
        entity.item_type, entity.item_id, state_of(entity.item_type, value), _text(value, "author", "sender")[:_NAME_CHARACTERS],
        _ms(_text(value, "created", "started")) or changed, changed, int(anchored), title[:TITLE_CHARACTERS],
        _column(tags_of(value)), _column(paths_of(value)),
    )  # fmt: skip


def session_row(entity: Entity, costs: ModelCosts) -> tuple[object, ...]:
    """Return the row of ``sessions`` for a trail that is no history of a repository; ``costs`` are those of its steps."""
    card = entity.value
    counts = card.get("counts")
    counts = counts if isinstance(counts, dict) else {}
    names = [
        _text(card, name)[:_NAME_CHARACTERS] for name in ("agent", "model", "branch", "status", "format", "parent")
    ]
    started = _ms(_text(card, "started")) or _ms(entity.ts)
    return (
        entity.item_type, entity.item_id, *names, _text(card, "digest")[:_NAME_CHARACTERS], _text(card, "title")[:_NAME_CHARACTERS],
        started, max(started, _ms(_text(card, "ended"))), _number(counts.get("steps")), _number(counts.get("files")),
        *map(_number, costs),
    )  # fmt: skip


def _text(value: Mapping[str, JSONValue], *names: str) -> str:
    """Return the first of the fields that is a text with content."""
    return next((said for name in names if isinstance(said := value.get(name), str) and said), "")


def _number(value: JSONValue) -> int:
    return min(value, _NUMBER_MAX) if isinstance(value, int) and value > 0 else 0


def _ms(text: str) -> int:
    from periplus.base.clock import parse_ms

    return max(0, (parse_ms(text) or 0)) if text else 0
