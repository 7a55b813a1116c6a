"""The status of claims: whether a claim holds, its holder, and its scopes."""

from __future__ import annotations

__all__ = [
    "holds",
    "imported_holder_id",
    "is_claimed",
    "is_for_ended_step",
    "is_held",
    "is_let_go_in",
    "is_live",
    "is_waiting",
    "live_claims",
    "place_in_line",
    "scopes_in",
    "scopes_of",
    "session_id",
    "waiting_claims",
]

from collections.abc import Mapping
from typing import Final

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.errors import UsageError
from periplus.base.files import Files
from periplus.base.ids import derived_id, is_id
from periplus.journal import Entity, Journal, Transaction, Writer
from periplus.memory.entities.types import MEMORY_TYPES, state_of
from periplus.memory.fulltext.links import linked
from periplus.memory.scopes import Scope, parse_scope

_EVERYTHING: Final = parse_scope(".")


def session_id(name: str) -> str:
    """Return the entity id of a session from the name that its agent gave it; empty where there is none."""
    return name if not name or (is_id(name) and name.startswith("ses_")) else derived_id("ses", name)


def is_held(claim: Entity, now_ms: int) -> bool:
    """Return True while a claim holds by its own fields: it was not released, and its time is not over."""
    return claim.value.get("state") == "held" and str(claim.value.get("expires", "")) > format_ms(now_ms)


def is_let_go_in(state: str) -> bool:
    """Return True for the states in which a step no longer needs its claim."""
    return any(state in one.into for one in MEMORY_TYPES["step"].cascades if one.item_type == "claim")


def is_live(journal: Journal, claim: Entity, now_ms: int) -> bool:
    """Return True while a claim holds, as the journal was last read."""
    return is_held(claim, now_ms) and not is_for_ended_step(journal, claim)


def is_for_ended_step(journal: Journal, claim: Entity) -> bool:
    """Return True where the step that a claim is for has ended. A step that is not here may still be in progress."""
    step_id = claim.value.get("step")
    step = journal.as_read("step", step_id) if isinstance(step_id, str) and step_id else None
    return step is not None and is_let_go_in(state_of("step", step.value))


def is_claimed(journal: Journal, transaction: Transaction, step_id: str) -> bool:
    """Within a mutation: return True where a claim is held for a step; clones that did not know of each other may both have
    one, and the end of one does not give the step back.
    """
    now_ms = journal.clock.now_ms()
    claims = [transaction.get("claim", one.item_id) for one in linked(journal, "claim", "step", step_id)]
    return any(claim is not None and not claim.deleted and is_held(claim, now_ms) for claim in claims)


def live_claims(journal: Journal, now_ms: int) -> list[Entity]:
    """Return the claims that hold now, by id."""
    return [claim for claim in linked(journal, "claim", "state", "held") if is_live(journal, claim, now_ms)]


def is_waiting(claim: Entity, now_ms: int, files: Files) -> bool:
    """Return True while somebody waits for a claim: the last sign is recent, and the process has not surely ended."""
    from periplus.base.process.process_marks import ProcessMark, is_gone

    if claim.value.get("state") != "waiting" or str(claim.value.get("expires", "")) <= format_ms(now_ms):
        return False
    process = claim.value.get("process")
    if not isinstance(process, dict):
        return True
    pid = process.get("pid")
    texts = [str(process.get(name, "")) for name in ("started", "boot", "host", "space")]
    return not (isinstance(pid, int) and is_gone(ProcessMark(pid, *texts), files))


def waiting_claims(journal: Journal, now_ms: int) -> list[Entity]:
    """Return the claims that somebody waits for now, in the order of the queue."""
    found = [
        claim for claim in linked(journal, "claim", "state", "waiting") if is_waiting(claim, now_ms, journal.files)
    ]
    return sorted(found, key=place_in_line)


def place_in_line(claim: Entity) -> tuple[int, str]:
    place = claim.value.get("place", 0)
    return (place if isinstance(place, int) else 0, claim.item_id)


def holds(writer: Writer, claim: Entity) -> bool:
    """Return True where ``claim`` is the writer's own."""
    theirs, mine = str(claim.value.get("session", "")), session_id(writer.session)
    is_his = claim.value.get("holder_id") in (writer.id, imported_holder_id(writer.name))
    return is_his and (not theirs or not mine or theirs == mine)


def imported_holder_id(name: str) -> str:
    """Return the holder's id of a claim that was imported from a v1 folder, where only names are known."""
    return derived_id("who", "v1", name)


def scopes_of(claim: Entity) -> tuple[Scope, ...]:
    """Return the scopes of a claim. A scope that cannot be read, of a later version perhaps, covers everything."""
    return scopes_in(claim.value)


def scopes_in(value: Mapping[str, JSONValue]) -> tuple[Scope, ...]:
    held = value.get("scopes")
    found: list[Scope] = []
    for text in held if isinstance(held, list) else []:
        try:
            found.append(parse_scope(str(text)))
        except UsageError:
            found.append(_EVERYTHING._replace(text=str(text)))
    return tuple(found)
