"""Make atoms from the store: from its memory, and from the trails of runs. Each says where it came from.

An atom of memory is the text of a live decision, constraint, trap, lesson or note with what else a reader must know
of it. Its relevance is the entity's confidence, halved while a decision is only proposed or deferred; its time is
that of the last change; its source is the evidence, or the entity itself, whose id is a tag then. The tag
``from:memory`` marks an atom that the next ``--from memory`` may replace or remove, and no other; atoms about changes
that the memory here does not know are left: contexts may arrive before memory does.

An atom of a trail is a request, an answer of the agent, a command that it ran, or an answer of a person; the source
is the step, ``trl_…#12``.
"""

from __future__ import annotations

__all__ = ["MEMORY_TAG", "TRAIL_RELEVANCE", "atoms_of_memory", "atoms_of_trail", "is_outdated"]

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.clock import parse_ms
from periplus.base.ids import is_id
from periplus.context.model import RELEVANCE_MAX, TAGS_MAX, Atom, atom_digest
from periplus.context.validation import SOURCE_BYTES_MAX, TAG_BYTES_MAX
from periplus.memory.entities.validity import holds
from periplus.memory.retrieval.recall import bring_up_to_date
from periplus.project.context_store.lines import GivenAtom, check_no_secret

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.interop.exports.trail_source import ExportSource, Moment
    from periplus.journal import Entity, Journal
    from periplus.project.store import ProjectStore

MEMORY_TAG: Final = "from:memory"
# Relevance of an atom of a trail by its type: requests and answers more than attempts on the way.
TRAIL_RELEVANCE: Final = {
    "Prompt": 700_000,
    "Answer": 600_000,
    "Question": 600_000,
    "Result": 500_000,
    "Command": 400_000,
}
_TYPES: Final = ("constraint", "decision", "lesson", "note", "trap")
_UNDECIDED: Final = frozenset({"proposed", "deferred"})
_RESULT_CHARACTERS_MAX: Final = 2_000


def atoms_of_memory(journal: Journal, *, allow_secrets: bool = False) -> list[GivenAtom]:
    """Return one atom for each live entity; of several with the same text, the most relevant. Raises
    SecretFoundError.
    """
    found: dict[bytes, GivenAtom] = {}
    bring_up_to_date(journal)
    now_ms = journal.clock.now_ms()
    for item_type in _TYPES:
        for entity in journal.entities(item_type):
            if not holds(journal, entity, now_ms):
                continue
            atom = _atom_of_entity(entity)
            if not allow_secrets:
                check_no_secret(atom, entity.item_id)
            given = GivenAtom(atom_digest(atom), atom, where=entity.item_id)
            held = found.get(given.digest)
            if held is None or atom.relevance > held.atom.relevance:
                found[given.digest] = given
    return list(found.values())


def _atom_of_entity(entity: Entity) -> Atom:
    value = entity.value
    lines = [str(value.get("text", ""))]
    lines += [f"{name.capitalize()}: {value[name]}" for name in ("rationale", "remedy", "check") if value.get(name)]
    if _texts(value.get("alternatives")):
        lines.append(f"Alternatives: {'; '.join(_texts(value.get('alternatives')))}")
    if value.get("severity"):
        lines.append(f"Severity: {value['severity']}")
    confidence = value.get("confidence", 100)
    relevance = RELEVANCE_MAX // 100 * (confidence if isinstance(confidence, int) else 100)
    if value.get("state") in _UNDECIDED:
        relevance //= 2
    evidence = _evidence(entity)
    own = {MEMORY_TAG, *((entity.item_id,) if evidence else ())}
    said = {tag for tag in _texts(value.get("tags")) if 0 < len(tag.encode()) <= TAG_BYTES_MAX} - own
    tags = own.union(sorted(said)[: TAGS_MAX - len(own)])  # memory may hold more of them, and longer ones
    return Atom(
        "\n".join(lines), entity.item_type.capitalize(), _changed(entity), max(0, min(RELEVANCE_MAX, relevance)),
        evidence or entity.item_id, tuple(sorted(tags)),
    )  # fmt: skip


def is_outdated(project: ProjectStore, atom: Atom) -> bool:
    """Return True where ``atom`` came from memory that is known here and no longer has it. False for memory of
    others: for an entity that this journal does not have, or for a later change of it.
    """
    if MEMORY_TAG not in atom.tags:
        return False
    entities = [atom.source] if is_id(atom.source) else [tag for tag in atom.tags if is_id(tag)]
    known = [_changed_last(project, atom, item_id) for item_id in entities]
    return bool(known) and None not in known and atom.time_ms <= max(one for one in known if one is not None)


def _changed_last(project: ProjectStore, atom: Atom, item_id: str) -> int | None:
    """Return the time of the last known change of the entity; None where it is unknown here."""
    journal = project.journal
    item_type = atom.type.lower()
    if (item_type, item_id) not in journal.ids_with_prefix(item_id):
        return None
    entity = journal.get(item_type, item_id)
    if entity is None:
        return atom.time_ms  # it was deleted
    changed = max(_changed(entity), parse_ms(entity.ts) or 0)
    if changed >= atom.time_ms:
        return changed
    # A later version may claim an earlier time: it was written elsewhere, by another clock.
    return max([changed, *(parse_ms(record.ts) or 0 for record in project.history(entity))])


def _changed(entity: Entity) -> int:
    return parse_ms(str(entity.value.get("updated") or entity.ts)) or 0


def _evidence(entity: Entity) -> str:
    """Return the first piece of evidence as a locator: ``LINEAGE:SEQ``, a step of a trail, ``git:COMMIT``. Empty
    where there is none that an atom can hold.
    """
    pieces = entity.value.get("evidence")
    first = pieces[0] if isinstance(pieces, list) and pieces else None
    if not isinstance(first, dict):
        return ""
    kind, ref = str(first.get("kind", "")), str(first.get("ref", ""))
    locator = {"record": f"{entity.lineage}:{ref}", "commit": f"git:{ref}"}.get(kind, ref)
    return locator if len(locator.encode()) <= SOURCE_BYTES_MAX else ""


def _texts(value: JSONValue) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def atoms_of_trail(
    project: ProjectStore,
    reference: str,
    *,
    allow_secrets: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[GivenAtom]:
    """Return prompts, answers, commands and results; of equal ones the last. Raises NotFoundError, DamageError,
    SecretFoundError.
    """
    from periplus.interop.exports.trail_source import ExportSource
    from periplus.project.trail_store.lookup import trail_bytes
    from periplus.trail import open_parts

    file = trail_bytes(project, reference, remains=False)
    readers = open_parts(file.data)
    source = ExportSource(file.name, file.data, readers, readers[0].digest, project.journal.objects.get)
    name = file.name if file.name.startswith("trl_") else f"trail:{source.digest.hex()}"
    found: dict[bytes, GivenAtom] = {}
    for moment in source.moments():
        for kind, content in _said(source, moment):
            if content.strip():
                where = f"{name}#{moment.number}"
                atom = Atom(content, kind, moment.at_ms, TRAIL_RELEVANCE[kind], where)
                if not allow_secrets:
                    check_no_secret(atom, where)
                digest = atom_digest(atom)
                found[digest] = GivenAtom(digest, atom, where=where)
        if progress is not None:
            progress(moment.number + 1, source.step_count)
    return list(found.values())


def _said(source: ExportSource, moment: Moment) -> Iterator[tuple[str, str]]:
    """Yield type and text of a step for a reader who was not there."""
    first = source.text(moment.operand(0))
    if moment.op == "PROMPT":
        yield "Prompt", first
    elif moment.op == "SAY":
        yield "Answer", first
    elif moment.op == "ASK":
        yield "Question", first
        yield "Answer", source.text(moment.operand(1))
    elif moment.op in ("COMMAND_RUN", "TEST_RUN"):
        yield "Command", first
        yield "Result", _result(source, moment, first)


def _result(source: ExportSource, moment: Moment, command: str) -> str:
    """Return the result of a command: its outcome, and the end of its output where that was kept."""
    step = moment.step
    printed = (source.content(step.result) or b"").decode("utf-8", "replace")
    error = source.text(step.error)
    if step.outcome == "ok" and not printed and not error:
        return ""
    code = f", exit code {step.exit_code}" if step.exit_code is not None else ""
    shown = printed if len(printed) <= _RESULT_CHARACTERS_MAX else f"…{printed[-_RESULT_CHARACTERS_MAX:]}"
    return "\n".join(part for part in (f"{command}: {step.outcome}{code}", error, shown.strip()) if part)
