"""Renew refs whose contexts were redacted elsewhere: contexts on top of them are committed again over the
replacements.

A redaction commits its own refs' contexts again, and its audit record says which context replaced which. Another
clone may have continued from the old ones meanwhile: its commits are here, the contexts below them are gone. The same
content over the same bases gives the same digests, so clones that do this separately, for themselves or for each
other, write the same versions.
"""

from __future__ import annotations

__all__ = ["renew_refs", "renewed"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

from periplus.base.errors import DamageError, NotFoundError
from periplus.journal.recovery.removed_content import taken_out
from periplus.journal.state.entity import entity_of_head
from periplus.memory.entities.schemas import PAYLOAD_VERSION
from periplus.memory.entities.types import CONTEXT_REF
from periplus.project.context_store.objects import ref_targets
from periplus.project.context_store.redaction import without

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal import Journal, Transaction
    from periplus.journal.state.entity import Head
    from periplus.project.context_store.library import ProjectLibrary
    from periplus.project.store import ProjectStore


def renew_refs(project: ProjectStore) -> list[str]:
    """Move the refs whose contexts descend from redacted ones, here or after a sync, to contexts without them;
    returns their names.

    A ref stays where it is if the replacement of its context is incomplete here. Where clones left a ref at several
    places and one of the new ones descends from all others, it ends there. Raises what a mutation raises.
    """
    from periplus.project.context_store.contexts import contexts_of

    journal = project.journal
    journal.project()
    if next(journal.entities(CONTEXT_REF), None) is None or not _has_redactions(journal):
        return []
    ways = taken_out(journal).renewed
    if not ways:
        return []
    library = contexts_of(project).library
    library.forget_held()
    moved = []
    for entity in list(journal.entities(CONTEXT_REF)):
        heads = journal.heads_of(entity.item_type, entity.item_id)
        places = {head: target for head in heads if (target := ref_targets(entity_of_head(head))[0]) is not None}
        anew: dict[Head, bytes] = {}
        for head, target in places.items():
            try:
                place = renewed(library, target, ways)
            except (NotFoundError, DamageError):
                continue  # the doctor reports it
            if place is not None:
                anew[head] = place
        if anew and _move(project, library, entity.item_id, str(entity.value.get("name", "")), places, anew):
            moved.append(str(entity.value.get("name", "")))
    return moved


def _has_redactions(journal: Journal) -> bool:
    """Return True where the index may have a redaction among the records: nearly no store has one, and most records
    need not be read for it.
    """
    index = journal.index
    return bool(index.records("item_type = '' AND item_id = '' AND action = ?", ("redact",), 1) or index.floors())


def renewed(library: ProjectLibrary, target: bytes, ways: Mapping[bytes, bytes]) -> bytes | None:
    """Return the context ``target`` over the replacements of redacted ones; None where it descends from none of
    these. Commits what is needed. Raises NotFoundError or DamageError where a part of it, or of a replacement, is
    not here.
    """
    anew: dict[bytes, bytes] = {}
    same: set[bytes] = set()
    with library.batch():
        todo = [(target, False)]
        while todo:
            digest, is_below_done = todo.pop()
            if digest in anew or digest in same:
                continue
            place = _end_of(digest, ways)
            if place is not None and not _stands_on(library, place, digest):  # guards against a circle in the records
                library.header(place)
                anew[digest] = place
                continue
            header = library.header(digest)
            below = [one for one in (header.base, *header.merged) if one is not None]
            if not is_below_done:
                todo += [(digest, True), *((one, False) for one in below)]
            elif any(one in anew for one in below):
                anew[digest] = library.commit(without(library, library.context(digest), anew, lambda _data: False))
            else:
                same.add(digest)
    return anew.get(target)


def _end_of(digest: bytes, ways: Mapping[bytes, bytes]) -> bytes | None:
    """Return the replacement of ``digest`` after all redactions; None where there is none."""
    seen = {digest}
    place = ways.get(digest)
    while place is not None and place not in seen and place in ways:
        seen.add(place)
        place = ways[place]
    return place


def _move(
    project: ProjectStore,
    library: ProjectLibrary,
    item_id: str,
    name: str,
    places: Mapping[Head, bytes],
    anew: Mapping[Head, bytes],
) -> bool:
    targets = {head: anew.get(head, target) for head, target in places.items()}
    ends = [
        one
        for one in sorted(set(targets.values()))
        if all(_stands_on(library, one, other) for other in targets.values())
    ]
    written = False

    def write(transaction: Transaction) -> None:
        nonlocal written
        held = {head.version for head in project.journal.heads_of(CONTEXT_REF, item_id)}
        if held != {head.version for head in places}:
            return  # somebody moved it meanwhile: left to the next call
        for head, place in [(None, ends[0])] if ends else anew.items():
            payload: dict[str, JSONValue] = {"v": PAYLOAD_VERSION, "name": name, "target": place.hex()}
            summary = f"context ref {name} -> {place.hex()[:12]}: what it stood on was redacted"
            if head is None:
                transaction.put(CONTEXT_REF, item_id, payload, summary=summary)
            else:
                transaction.place("update", CONTEXT_REF, item_id, payload, (head.version,), summary=summary)
            written = True

    project.journal.mutate(write, project.writer)
    return written


def _stands_on(library: ProjectLibrary, new: bytes, old: bytes) -> bool:
    try:
        return library.descends(new, old)
    except (NotFoundError, DamageError):
        return False
