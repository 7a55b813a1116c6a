"""Resources: entities, trails and proofs by address, and their paged list."""

from __future__ import annotations

__all__ = ["PAGE", "Content", "Page", "list_page", "read_resource"]

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from periplus.base.errors import NotFoundError, UsageError
from periplus.base.ids import is_id
from periplus.memory.entities.types import UNSEARCHED, rows_of
from periplus.memory.entities.validity import expired_text, holds
from periplus.server.mcp.tool_wording import one_line

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project

PAGE: Final = 100
SCHEME: Final = "periplus://"
_URI_MAX: Final = 500
_TRAIL_CHARACTERS_MAX: Final = 100_000
_UNLISTED: Final = frozenset({"step"})  # listed with its plan


class Content(NamedTuple):
    """The content of an address: ``text``, or ``data`` for other than text."""

    uri: str
    mime_type: str
    text: str = ""
    data: bytes | None = None


class Page(NamedTuple):
    resources: list[dict[str, Any]]
    next_cursor: str | None


def list_page(project: Project, cursor: str | None) -> Page:
    """Return a page of active entities, by type and id, and trails. Raises UsageError for an unknown cursor."""
    begin = _place(cursor) if cursor else ("", "")
    project.journal.refresh()
    now_ms = project.journal.clock.now_ms()
    names = [name for name in rows_of(project.types) if name not in UNSEARCHED | _UNLISTED]
    found = sorted(
        (name, entity.item_id)
        for name in names
        if name >= begin[0]
        for entity in project.journal.entities(name)
        if (name, entity.item_id) > begin and not entity.deleted and holds(project.journal, entity, now_ms)
    )
    page = found[:PAGE]
    entities = [entity for key in page if (entity := project.journal.get(*key)) is not None]
    is_last = len(found) <= PAGE
    following = None if is_last else urlsafe_b64encode("/".join(page[-1]).encode()).decode()
    return Page([_document(entity) for entity in entities], following)


def _place(cursor: str) -> tuple[str, str]:
    wrong = UsageError(f"{cursor[:40]!r} is not a cursor of this list", mend="Omit it to start from the beginning.")
    try:
        name, slash, item_id = urlsafe_b64decode(cursor.encode("ascii")).decode().partition("/")
    except (ValueError, binascii.Error):
        raise wrong from None
    if not slash or not name or not is_id(item_id):
        raise wrong
    return name, item_id


def _document(entity: Entity) -> dict[str, Any]:
    value = entity.value
    if entity.item_type == "trail":
        said = one_line(value.get("title") or "", 200)
        return {"uri": f"{SCHEME}trail/{entity.item_id}", "name": entity.item_id, "title": said or entity.item_id,
                "description": f"session of {value.get('agent')}, {str(value.get('started'))[:10]}", "mimeType": "text/plain"}  # fmt: skip
    state = f" ({value.get('state')})" if value.get("state") else ""
    return {"uri": f"{SCHEME}entity/{entity.item_id}", "name": entity.item_id, "title": one_line(value.get("text", ""), 200),
            "description": f"{entity.item_type}{state}", "mimeType": "application/json"}  # fmt: skip


def read_resource(project: Project, uri: str) -> Content:
    """Return the content at ``uri``. Raises NotFoundError."""
    kind, slash, name = uri.removeprefix(SCHEME).partition("/")
    if len(uri) > _URI_MAX or not uri.startswith(SCHEME) or not slash or not name or "/" in name:
        raise NotFoundError(
            f"unknown resource {uri[:80]!r}", mend=f"Addresses are {SCHEME}entity/ID, trail/ID and proof/SEQ."
        )
    if kind == "entity":
        return _entity(project, uri, name)
    if kind == "trail":
        return _trail(project, uri, name)
    if kind == "proof" and name.isascii() and name.isdigit() and len(name) < 16:
        return Content(uri, "application/octet-stream", data=project.prove(int(name)))
    raise NotFoundError(
        f"unknown resource {uri[:80]!r}", mend=f"Addresses are {SCHEME}entity/ID, trail/ID and proof/SEQ."
    )


def _entity(project: Project, uri: str, name: str) -> Content:
    import json

    entity = project.show(name)
    over = expired_text(project.types, entity, project.journal.clock.now_ms())
    document = {
        "id": entity.item_id, "type": entity.item_type, "rev": entity.rev, "version": entity.version, "by": entity.writer,
        "at": entity.ts, "stale": [*project.ground().told(entity), *over], "value": entity.value,
    }  # fmt: skip
    return Content(uri, "application/json", json.dumps(document, ensure_ascii=False, indent=1))


def _trail(project: Project, uri: str, name: str) -> Content:
    from periplus.trail import TrailReader
    from periplus.trail.listings.step_listing import listing

    entity = project.show(name)
    if entity.item_type != "trail":
        raise NotFoundError(
            f"{entity.item_id} is a {entity.item_type}, not a trail", mend=f"Read {SCHEME}entity/{entity.item_id}."
        )
    reader = TrailReader(project.trail_bytes(entity.item_id).data)
    lines: list[str] = []
    size = 0
    for line in listing(reader, "text"):
        size += len(line) + 1
        if size > _TRAIL_CHARACTERS_MAX:
            lines.append(
                f'; and more: {reader.step_count:,} steps in all; page with show(id="{entity.item_id}", offset=…)'
            )
            break
        lines.append(line)
    return Content(uri, "text/plain", "\n".join(lines))
