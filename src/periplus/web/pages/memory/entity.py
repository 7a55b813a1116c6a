"""One entity of any type: what it says, what it rests on, how fresh it is, how it came to be so, and what may be done with it."""

from __future__ import annotations

__all__ = ["entity_page"]

import os
from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms
from periplus.base.errors import NotFoundError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.memory.change_forms import Forms, forms_of
from periplus.web.pages.memory.deliveries import deliveries_of
from periplus.web.pages.memory.field_changes import history_of
from periplus.web.pages.memory.fields import Field, fields_of, line_of, text_of
from periplus.web.pages.memory.references import (
    OwnPage,
    Reference,
    about_of,
    entity_address,
    evidence_of,
    own_page,
    record_address,
)
from periplus.web.pages.memory.relations import neighbourhood_of, picture_of
from periplus.web.pages.model import Asked, Done, View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from periplus.journal import Entity, IndexedRecord
    from periplus.journal.history.versions import Blamed
    from periplus.memory.code_anchors.anchors import Ground, Standing
    from periplus.project import Project

TEXT_CHARACTERS_MAX: Final = 100_000
RIVALS_MAX: Final = 10
TAGS_MAX: Final = 100
_CONFLICT_CHARACTERS: Final = 1_000
_TITLE_CHARACTERS: Final = 80
_HEADING_CHARACTERS: Final = 200


class RivalValue(NamedTuple):
    """A value that one clone has where clones disagree."""

    writer: str
    ts: str
    version: str
    text: str


class ConflictShown(NamedTuple):
    """A place in which clones disagree, its values, and what settles it."""

    name: str
    values: tuple[RivalValue, ...]
    left_out: int
    settled_by: str


class StaleAnchor(NamedTuple):
    """Why an anchor is stale; ``written`` is when its file was last written, empty where it is gone."""

    reason: str
    written: str


class Freshness(NamedTuple):
    """How an entity stands: ``stale`` and ``expired`` with reasons, its last check, and what replaced it or competes with it."""

    stale: tuple[StaleAnchor, ...]
    moved: tuple[str, ...]
    expired: str
    checked: str
    is_check_failed: bool
    confirmed_at: str
    confirmed_by: str
    superseded_by: tuple[str, ...]
    rivals: tuple[str, ...]
    is_anchored: bool
    can_be_stale: bool


class EntityShown(NamedTuple):
    """An entity as the page shows it. ``heading`` is the first line of its text, and ``text`` all of it, empty where the heading says
    all; ``seq`` is the record of its present version.
    """

    item_id: str
    item_type: str
    meaning: str
    state: str
    state_kind: str
    heading: str
    text: str
    text_cut: int
    tags: tuple[str, ...]
    rev: int
    version: str
    versions: tuple[str, ...]
    writer: str
    ts: str
    seq: int
    record_address: str
    source: str
    source_address: str
    about: tuple[Reference, ...]
    evidence: tuple[Reference, ...]
    fields: tuple[Field, ...]
    own: OwnPage | None


def entity_page(asked: Asked) -> View | Done:
    """Show an entity as it is, or with ``at`` as it was after a record of this store was written."""
    project, reference = asked.project, asked.path["id"]
    seq = asked.query.number("at", 0)
    if seq:
        entity, records = project.show_at(reference, seq)
        return _past(asked, entity, records, seq)
    try:
        entity = project.show(reference)
    except NotFoundError:
        return _deleted(asked, reference)  # raises the error once more for what never was
    if entity.item_id != reference:
        return Done(entity_address(entity.item_id), "")
    return _present(asked, entity)


def _present(asked: Asked, entity: Entity) -> View:
    from periplus.journal.history.versions import blame

    project = asked.project
    records = project.history(entity)
    ground = project.ground()
    blamed = blame(project.journal, entity)
    shown = _shown(project, entity, ground.standings(entity), blamed)
    near = neighbourhood_of(project, entity)
    values: dict[str, object] = {
        "entity": shown,
        "at": 0,
        "freshness": _freshness(project, entity, ground, shown.about),
        "conflicts": _conflicts(project, entity),
        "history": history_of(project, entity, records, asked.query.number("history", 1, least=1)),
        "near": near,
        "picture": picture_of(entity.item_id, near),
        "deliveries": deliveries_of(project, entity),
        "forms": Forms() if asked.context.is_read_only else forms_of(project, entity),
        "commands": _commands(entity),
        "steps": (0, 0),
    }
    return View("memory/entity.html", _title(shown), values, f"periplus show {entity.item_id}")


def _past(asked: Asked, entity: Entity, records: Sequence[IndexedRecord], seq: int) -> View:
    project = asked.project
    shown = _shown(project, entity)
    near = neighbourhood_of(project, entity)
    values: dict[str, object] = {
        "entity": shown,
        "at": seq,
        "freshness": None,
        "conflicts": _conflicts(project, entity, is_now=False),
        "history": history_of(project, entity, records, asked.query.number("history", 1, least=1)),
        "near": near._replace(incoming=(), nodes=(), edges=()),
        "picture": None,
        "deliveries": (),
        "forms": Forms(),
        "commands": (),
        "steps": _steps(project, entity, seq),
    }
    return View(
        "memory/entity.html", f"{_title(shown)} at record {seq}", values, f"periplus show {entity.item_id} --at {seq}"
    )


def _deleted(asked: Asked, reference: str) -> View:
    """Show what is left of a deleted entity: its history. Raises NotFoundError for an id that nothing ever had."""
    from periplus.journal.history.versions import Versions, find_ever

    project = asked.project
    item_type, item_id = find_ever(project.journal, reference)
    versions = Versions(project.journal, item_type, item_id, is_rest_enough=True)
    entity = versions.shown(versions.heads_among(set(versions.records)))
    if entity is None:
        raise NotFoundError(
            f"{item_id} has no record here that can be read", mend=f"See `periplus log --id {item_id}`."
        )
    records = project.history(entity)
    last = next(
        (
            one.seq
            for one in records
            if one.version and one.action != "delete" and one.lineage == project.journal.lineage
        ),
        0,
    )
    values: dict[str, object] = {
        "item_id": item_id, "item_type": item_type, "deleted_by": entity.writer, "deleted_at": entity.ts,
        "last_address": entity_address(item_id, at=last) if last else "",
        "history": history_of(project, entity, records, asked.query.number("history", 1, least=1)),
    }  # fmt: skip
    return View("memory/deleted.html", f"{item_type} {item_id}", values, f"periplus log --id {item_id}", status=404)


def _shown(
    project: Project, entity: Entity, standings: Sequence[Standing] = (), blamed: Sequence[Blamed] = ()
) -> EntityShown:
    from periplus.memory.entities.types import CANDIDATE, row_of, state_of

    value, own = entity.value, project.journal.lineage
    row = row_of(project.types, entity.item_type)
    state = state_of(entity.item_type, value, row.default_state if row is not None else "")
    is_ended = row is not None and state in row.ended_states
    payload = value.get("payload")
    proposed = (
        payload if entity.item_type == CANDIDATE and isinstance(payload, dict) else {}
    )  # shown as if it stood here
    fields = fields_of({name: held for name, held in value.items() if not proposed or name != "payload"}, blamed, own)
    fields += fields_of({name: held for name, held in proposed.items() if name not in value})
    content = proposed or value
    tags = content.get("tags")
    text = text_of(value, "")
    heading = line_of(text.strip().split("\n", 1)[0], _HEADING_CHARACTERS) or entity.item_id
    source, source_address = _source(entity)
    lineage = "" if entity.lineage == own else entity.lineage
    return EntityShown(
        entity.item_id, entity.item_type, row.meaning if row is not None else "a type that this version does not know", state,
        "quiet" if is_ended else "good" if state else "", heading, "" if heading == text.strip() and "://" not in text else text[:TEXT_CHARACTERS_MAX], max(0, len(text) - TEXT_CHARACTERS_MAX),
        tuple(str(tag) for tag in tags[:TAGS_MAX] if isinstance(tag, str)) if isinstance(tags, list) else (),
        entity.rev, entity.version, entity.heads if len(entity.heads) > 1 else (), entity.writer, entity.ts, entity.seq,
        record_address(entity.seq, lineage), source, source_address, about_of(content, standings), evidence_of(content),
        tuple(one for one in fields if one.name not in ("provenance", "confirmed")), own_page(entity.item_type, entity.item_id, value),
    )  # fmt: skip


def _source(entity: Entity) -> tuple[str, str]:
    """Return where an entity came from, as text, and the address of its candidate, if it was made of one."""
    from periplus.base.ids import is_id

    provenance = entity.value.get("provenance")
    if not isinstance(provenance, dict):
        return "", ""
    kind, name, source = (str(provenance.get(key, "")) for key in ("kind", "name", "source"))
    words = {
        "person": "a person", "agent": "an agent", "reflection": f"reflection, by the rule {name}" if name else "reflection",
        "import": "an import", "merge": "a merge", "other_project": f"another project, {name}",
    }.get(kind, kind)  # fmt: skip
    return words, entity_address(source) if is_id(source) else ""


def _freshness(project: Project, entity: Entity, ground: Ground, about: Sequence[Reference]) -> Freshness:
    from periplus.memory.entities.check_results import last_check, last_check_text
    from periplus.memory.entities.types import row_of
    from periplus.memory.entities.validity import expired
    from periplus.memory.succession.successors import rivals_of, successors

    row = row_of(project.types, entity.item_type)
    check = last_check(project.journal, entity)
    confirmed = str(entity.value.get("confirmed") or "")
    at, _, by = confirmed.partition(" ")
    paths = [one.path for one in ground.standings(entity) if one.is_stale]
    stale = tuple(
        StaleAnchor(said, _written(ground, path)) for said, path in zip(ground.told(entity), paths, strict=True)
    )
    return Freshness(
        stale, tuple(f"{one.text} {one.note}" for one in about if one.note.startswith("moved")),
        expired(project.types, entity, project.journal.clock.now_ms()), last_check_text(project.journal, entity),
        check is not None and not check.passed, at, by,
        tuple(one.item_id for one in successors(project.journal, entity.item_id)), tuple(rivals_of(project.journal, entity)),
        any(one.note for one in about), bool(row is not None and row.stale_when),
    )  # fmt: skip


def _written(ground: Ground, path: str) -> str:
    """Return when a file of the project was last written; empty where there is none that may be read."""
    if ground.read(path) is None:
        return ""
    try:
        return format_ms(os.stat(os.path.join(ground.root, path)).st_mtime_ns // 1_000_000)
    except OSError:
        return ""  # removed meanwhile


def _conflicts(project: Project, entity: Entity, *, is_now: bool = True) -> tuple[ConflictShown, ...]:
    from periplus.memory.succession.conflict_settlement import settled_by

    found = []
    for name, conflict in zip(entity.conflict_names, entity.conflicts, strict=True):
        values = tuple(
            RivalValue(
                one.writer,
                one.ts,
                one.version,
                one.value.decode("utf-8", "replace")[:_CONFLICT_CHARACTERS] if one.value else "(not there)",
            )
            for one in conflict.values[:RIVALS_MAX]
        )
        ends = settled_by(project.journal, entity, conflict) if is_now else ""
        found.append(ConflictShown(name, values, max(0, len(conflict.values) - RIVALS_MAX), ends))
    return tuple(found)


def _steps(project: Project, entity: Entity, seq: int) -> tuple[int, int]:
    """Return the seqs of the entity's versions in this store before and after the one that is shown at ``seq``; 0 for none."""
    own = [
        one.seq
        for one in project.history(entity)
        if one.lineage == project.journal.lineage and one.version and one.action != "delete"
    ]  # the newest first
    shown = next((one for one in own if one <= seq), 0)
    return next((one for one in own if one < shown), 0), next((one for one in reversed(own) if one > seq), 0)


def _commands(entity: Entity) -> tuple[tuple[str, str], ...]:
    item_id = entity.item_id
    return (
        ("everything about it", f"periplus show {item_id}"), ("who set each field", f"periplus blame {item_id}"),
        ("its records", f"periplus log --id {item_id}"), ("a proof of its last record", f"periplus prove {entity.seq}"),
    )  # fmt: skip


def _title(shown: EntityShown) -> str:
    return f"{shown.item_type}: {line_of(shown.heading, _TITLE_CHARACTERS)}"
