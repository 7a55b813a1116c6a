"""Who was told of a memory, and when, as far as it was recorded: hooks, mail, and sessions in which its id occurs."""

from __future__ import annotations

__all__ = ["Delivery", "deliveries_of"]

from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.memory.fields import line_of
from periplus.web.pages.memory.references import entity_address

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.project import Project

MESSAGES_MAX: Final = 50
SESSIONS_MAX: Final = 20


class Delivery(NamedTuple):
    """A time at which somebody was told: ``who``, in which ``way``, the words around it, and the page that shows it."""

    ts: str
    who: str
    way: str
    text: str
    address: str


def deliveries_of(project: Project, entity: Entity) -> tuple[Delivery, ...]:
    """Return what is known of who was told of an entity, the newest first."""
    found = [*_by_hooks(project, entity), *_by_mail(project, entity), *_in_sessions(project, entity)]
    return tuple(sorted(found, key=lambda one: one.ts, reverse=True))


def _by_hooks(project: Project, entity: Entity) -> list[Delivery]:
    from periplus.project.agent_hooks.told_sessions import sessions_told

    return [
        Delivery(
            format_ms(one.last_ms) if one.last_ms else "",
            one.agent,
            "told by a hook",
            f"when it touched {one.path}",
            entity_address(one.session_id),
        )
        for one in sessions_told(project, entity)
    ]


def _by_mail(project: Project, entity: Entity) -> list[Delivery]:
    journal = project.journal
    rows = journal.index.db.execute(
        "SELECT item_id FROM heads WHERE item_type = 'message' AND deleted = 0 AND instr(payload, CAST(? AS BLOB)) > 0 ORDER BY ts DESC LIMIT ?",
        (entity.item_id, MESSAGES_MAX),
    ).fetchall()
    found = []
    for (item_id,) in rows:
        message = journal.as_read("message", str(item_id))
        if message is None or message.item_id == entity.item_id:
            continue
        value = message.value
        state = {"read": ", read", "answered": ", answered"}.get(str(value.get("state", "")), ", not read yet")
        found.append(Delivery(str(value.get("created") or message.ts), str(value.get("recipient", "")),
                              f"message from {value.get('sender', '')}{state}", line_of(str(value.get("text", ""))), entity_address(message.item_id)))  # fmt: skip
    return found


def _in_sessions(project: Project, entity: Entity) -> list[Delivery]:
    """Return the steps of sessions in which the id occurs: somebody read or named it there."""
    from periplus.memory.retrieval.recall import recall
    from periplus.memory.retrieval.search import Filters

    journal = project.journal
    hits = recall(
        journal, entity.item_id, now_ms=journal.clock.now_ms(), limit=SESSIONS_MAX, filters=Filters(types=("trail",))
    ).hits
    found = []
    for hit in hits:
        if entity.item_id not in hit.text:
            continue
        trail = journal.as_read("trail", hit.item_id)
        agent = str(trail.value.get("agent", "")) if trail is not None else ""
        address = f"/sessions/{hit.item_id}" + (f"?from={hit.part}" if hit.part >= 0 else "")
        found.append(Delivery(hit.ts, agent, f"named in a {hit.kind}", line_of(hit.text), address))
    return found
