"""Changes of memory: the functions that the commands call, with the same rules and refusals.

A form carries the version that it was made from. Where the entity has another one by now nothing is written, and the message says what
changed, and by whom.
"""

from __future__ import annotations

__all__ = ["accept", "change_state", "confirm", "evolve", "link", "refuse", "set_fields"]

from typing import TYPE_CHECKING, Final

from periplus.base.errors import ConflictError, UsageError
from periplus.web.pages.memory.change_forms import changed_fields
from periplus.web.pages.memory.references import entity_address
from periplus.web.pages.model import Asked, Done, Form

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.memory.writing.lifecycle import Changed
    from periplus.project import Project

_SAFE: Final = "Nothing was written."
_CHANGES_TOLD: Final = 5


def confirm(asked: Asked, form: Form) -> Done:
    """Confirm that an entity still holds: it is anchored to the code as it is now."""
    entity = _unchanged(asked, form)
    about = [line.strip() for line in form.text("about").split("\n") if line.strip()]
    expires = _time(form.text("expires"))
    done = asked.project.reviewing.confirm([entity.item_id], about=about, expires=expires)
    return _done(done, f"Confirmed {entity.item_id}", entity.item_id)


def change_state(asked: Asked, form: Form) -> Done:
    """Bring an entity into another state, with all consequences."""
    entity = _unchanged(asked, form)
    state = form.text("state")
    if not state:
        raise UsageError("choose a state", safe=_SAFE)
    done = asked.project.work.change_state(
        [entity.item_id], state, reason=form.text("reason"), force=form.flag("force")
    )
    return _done(done, f"{entity.item_id} is {state} now", entity.item_id)


def evolve(asked: Asked, form: Form) -> Done:
    """Write a new text in place of an entity, which it supersedes."""
    entity = _unchanged(asked, form)
    done = asked.project.work.evolve(entity.item_id, form.text("text"), {})
    new = done.entities[0].item_id if done.entities else entity.item_id
    return _done(done, f"{entity.item_id} was superseded by {new}", new)


def set_fields(asked: Asked, form: Form) -> Done:
    """Set the fields that the form changes."""
    entity = _unchanged(asked, form)
    fields = changed_fields(asked.project, entity, form)
    if not fields:
        return Done(entity_address(entity.item_id), "Nothing changed.")
    done = asked.project.work.set_fields(entity.item_id, fields, expect=entity.version)
    return _done(done, f"Set {', '.join(fields)} of {entity.item_id}", entity.item_id)


def link(asked: Asked, form: Form) -> Done:
    """Add a relation from an entity to another."""
    entity = _unchanged(asked, form)
    target = form.text("target")
    if not target:
        raise UsageError("name the id of the other entity", safe=_SAFE)
    done = asked.project.work.link(entity.item_id, form.text("kind"), target)
    return _done(done, f"Linked {entity.item_id}", entity.item_id)


def accept(asked: Asked, form: Form) -> Done:
    """Accept a candidate, perhaps in other words or as another type."""
    entity = _unchanged(asked, form)
    payload, kind = entity.value.get("payload"), form.text("type")
    held = payload.get("text") if isinstance(payload, dict) else None
    text = form.text("text")
    is_same = isinstance(held, str) and text == held.strip()
    is_own_type = kind == entity.value.get("item_type")
    done = asked.project.reflection.accept(
        entity.item_id, text="" if is_same else text, item_type="" if is_own_type else kind
    )
    made = done.entity
    if not done.is_new:
        return Done(entity_address(made.item_id), f"Accepted: {made.item_type} {made.item_id} already says the same.")
    return Done(entity_address(made.item_id), f"Accepted as {made.item_type} {made.item_id}, record {made.seq}.")


def refuse(asked: Asked, form: Form) -> Done:
    """Refuse a candidate; it is not proposed again."""
    entity = _unchanged(asked, form)
    decided = asked.project.reflection.refuse(entity.item_id, reason=form.text("reason"))
    location = "/memory?type=candidate&state=pending" if form.flag("back") else entity_address(entity.item_id)
    return Done(location, f"Refused {decided.item_id}, record {decided.seq}.")


def _unchanged(asked: Asked, form: Form) -> Entity:
    """Return the entity that a form is about. Raises ConflictError where it is not as it was when the form was made."""
    entity = asked.project.show(asked.path["id"])
    version = form.text("version")
    if not version:
        raise UsageError(
            "the form does not say which version it was made from", safe=_SAFE, mend="Load the page again."
        )
    if version != entity.version:
        raise ConflictError(f"{entity.item_id} changed since this page was made: {_changes_since(asked.project, entity, version)}",
                            safe=_SAFE, mend=f"Load its page again, and decide anew: {entity_address(entity.item_id)}")  # fmt: skip
    return entity


def _changes_since(project: Project, entity: Entity, version: str) -> str:
    """Return the fields that differ from a version, with who set each, as text."""
    from periplus.journal.history.versions import Versions, blame

    versions = Versions(project.journal, entity.item_type, entity.item_id, is_rest_enough=True)
    before = versions.fields(version)
    blamed = blame(project.journal, entity)
    told = []
    for one in blamed:
        if one.name == "updated" or (before and before.get(one.name) == one.value):
            continue
        origin = one.origins[-1].record if one.origins else None
        told.append(f"{one.name} by {origin.writer} (record {origin.seq})" if origin is not None else one.name)
    gone = [name for name in before if name not in {one.name for one in blamed}]
    told += [f"{name} was removed" for name in gone]
    if not before or not told:
        return f"{entity.writer} wrote record {entity.seq}"
    more = f" and {len(told) - _CHANGES_TOLD} more" if len(told) > _CHANGES_TOLD else ""
    return ", ".join(told[:_CHANGES_TOLD]) + more


def _done(done: Changed, said: str, item_id: str) -> Done:
    """Return the message of a change: what was recorded, as which records, and what else changed with it."""
    if done.receipt is None:
        message = "Nothing changed."
    else:
        first, last = done.receipt.first_seq, done.receipt.last_seq
        records = f"record {first}" if last == first else f"records {first} to {last}"
        message = f"{said}, {records}."
    others = len(done.entities) - 1
    if done.receipt is not None and others > 0:
        message += f" {others} other {'entity' if others == 1 else 'entities'} changed with it."
    message += "".join(f" {note}." for note in done.notes)
    if done.near:
        message += f" Similar: {', '.join(done.near)}."
    return Done(entity_address(item_id), message)


def _time(text: str) -> str:
    from periplus.base.clock import format_ms, parse_ms

    found = parse_ms(text) if text else None
    if text and found is None:
        raise UsageError(f"expires {text[:60]!r} is not a time", safe=_SAFE,
                         mend="Write a date like 2026-01-31, or a time like 2026-01-31T09:30:00Z.")  # fmt: skip
    return format_ms(found) if found is not None else ""
