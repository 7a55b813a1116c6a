"""Collect the objects of a ref's contexts: for exchange, for the doctor, for repair.

A record of a ref names its context, and with it everything below: bases, merged contexts, pages, long contents. A
move of a ref adds little to its former target, so for exchange the walk from the new target ends where the former one
is met.
"""

from __future__ import annotations

__all__ = ["RefObjects", "all_objects", "context_problems", "new_objects", "ref_targets"]

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError, FormatError, NotFoundError, PeriplusError
from periplus.memory.entities.types import CONTEXT_REF

if TYPE_CHECKING:
    from periplus.journal import Entity, Journal
    from periplus.journal.care.doctor import Problem
    from periplus.project.store import ProjectStore

Lend = Callable[[bytes], bytes]


def ref_targets(entity: Entity) -> tuple[bytes | None, bytes | None]:
    """Return the target of a version of a ref, and the one before; None for nowhere, and for other entities."""
    if entity.item_type != CONTEXT_REF or entity.deleted:
        return None, None
    value = entity.value
    target, previous = str(value.get("target", "")), str(value.get("previous", ""))
    return (
        bytes.fromhex(target) if is_digest_text(target) else None,
        bytes.fromhex(previous) if is_digest_text(previous) else None,
    )


def new_objects(entity: Entity, lend: Lend) -> set[bytes]:
    """Return the objects that a move of a ref brought: those of its context without those of its former target.
    ``lend`` reads objects.

    An object that cannot be read is named, and the objects below it are not: the doctor reports it.
    """
    target, previous = ref_targets(entity)
    if target is None:
        return set()
    found: set[bytes] = set()
    _walk([target], found, lend, () if previous is None else (previous,))
    return found


def all_objects(entity: Entity, lend: Lend) -> set[bytes]:
    """Return all objects of the context of a ref's version. Raises DamageError where some of them cannot be read."""
    target, _ = ref_targets(entity)
    found: set[bytes] = set()
    if target is not None and not _walk([target], found, lend):
        raise DamageError(f"context {target.hex()[:12]} cannot be read whole")
    return found


class RefObjects:
    """The objects that the refs of ``journal`` need as they are now. Complete contexts are walked once, however often
    they are asked for. A former target needs nothing: collection may have removed its objects.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._whole: set[bytes] = set()

    def __call__(self, entity: Entity) -> set[bytes]:
        target, _ = ref_targets(entity)
        heads = self._journal.heads_of(entity.item_type, entity.item_id) if target is not None else []
        if target is None or entity.version not in {head.version for head in heads}:
            return set()
        found: set[bytes] = set()
        if _walk([target], found, self._journal.objects.get, self._whole):
            self._whole |= found
        return found


def context_problems(project: ProjectStore) -> Iterator[Problem]:
    """Yield the problems of the contexts of refs: each is read whole, and checked as it was when it was committed."""
    from periplus.context.stores.library import ContextLibrary
    from periplus.context.stores.object_folder import FolderObjects
    from periplus.context.stores.refs import MemoryRefs
    from periplus.journal.care.doctor import Problem
    from periplus.journal.state.entity import entity_of_head

    journal = project.journal
    found: dict[bytes, str] = {}
    for entity in journal.entities(CONTEXT_REF):
        for head in journal.heads_of(entity.item_type, entity.item_id):
            target, _ = ref_targets(entity_of_head(head))
            if target is not None:
                found.setdefault(target, str(entity.value.get("name")))
    objects = FolderObjects(journal.objects, project.root, journal.files)
    library = ContextLibrary(objects, MemoryRefs())  # which trusts neither refs nor the cache
    for target, name in found.items():
        try:
            library.admit(target)
        except (NotFoundError, DamageError):
            if gone := _taken_out_of(journal, target):
                yield Problem(
                    "error", f"context ref {name} stands on {gone.hex()[:12]}, which was redacted: {target.hex()[:12]} cannot be read", project.root,
                    mend="`periplus sync` with the clone that redacted it brings the replacement, if there is one. "
                         f"Otherwise end the ref: periplus context refs --end {name}",
                )  # fmt: skip
            continue  # the check of the objects reports the others
        except PeriplusError as error:
            yield Problem("error", f"context ref {name}: {error}", project.root)
    library.close()


def _taken_out_of(journal: Journal, target: bytes) -> bytes | None:
    """Return an object of the context ``target`` that is missing because of a redaction: it is not reported
    otherwise.
    """
    from periplus.journal.recovery.removed_content import taken_out

    found: set[bytes] = set()
    _walk([target], found, journal.objects.get)
    gone = taken_out(journal)
    return next((one for one in sorted(found) if one in gone and not journal.objects.has(one)), None)


def _walk(todo: Iterable[bytes], found: set[bytes], lend: Lend, known: Container[bytes] = ()) -> bool:
    """Add everything below ``todo`` to ``found``, without entering ``known``; False where something could not be
    read.
    """
    from periplus.context.records.record import children_of

    is_whole = True
    stack = list(todo)
    while stack:
        digest = stack.pop()
        if digest in found or digest in known:
            continue
        found.add(digest)
        try:
            data = lend(digest)
        except (NotFoundError, DamageError):
            is_whole = False
            continue
        try:
            stack += children_of(data)
        except FormatError:
            continue  # the text of an atom, which names nothing
    return is_whole
