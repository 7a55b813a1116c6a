"""Redact a secret from the contexts of a project: every context on top of one that held it is committed again without
it.

A digest covers everything below a context, so a context that held the secret, and all above it, become others;
contexts below keep their digests. An atom, or its annotation in one delta, is left out where content, type, source or
a tag has the secret; a molecule where it has it, or needs an atom that is gone. Authors, times and messages stay,
unless they had the secret.
"""

from __future__ import annotations

__all__ = ["forget_parked", "redacted_ref", "without"]

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from periplus.base.encoding.canonical import canonical
from periplus.base.errors import DamageError, NotFoundError, PeriplusError, RefusedError
from periplus.context.deltas.ancestry import descent
from periplus.context.deltas.atom_lookup import find, molecule_table
from periplus.context.model import Context, atom_digest
from periplus.memory.entities.schemas import PAYLOAD_VERSION
from periplus.project.context_store.objects import ref_targets

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.context.model import Atom, ContextHeader
    from periplus.journal import Entity
    from periplus.project.context_store.library import ProjectLibrary

Holds = Callable[[bytes], bool]


def redacted_ref(
    library: ProjectLibrary,
    entity: Entity,
    doomed: frozenset[bytes],
    holds: Holds,
    ways: dict[bytes, bytes],
    *,
    dry_run: bool,
) -> dict[str, JSONValue] | None:
    """Return the payload of a ref whose contexts are without what ``holds`` finds; None where none of them has it.
    ``ways`` gets the contexts that were committed again, by their former digests.

    Raises RefusedError where contexts below are missing or damaged, and some that were ``doomed`` may belong to them:
    their content would be lost.
    """
    target, _ = ref_targets(entity)
    name = str(entity.value.get("name", ""))
    if target is None:
        return None
    try:
        headers = list(descent(library, target))
        if not any(_has(library, header, holds) for header in headers):
            return None
    except (NotFoundError, DamageError) as error:
        if not any(_is_context(library, digest) for digest in doomed):
            return None  # the doctor reports it
        raise RefusedError(
            f"the ref {name} may stand on a context that holds it, and that context is incomplete here: {error.wrong}", safe="Nothing was changed.",
            mend="Complete it first: periplus doctor --repair --from COPY, or periplus sync --with ANOTHER_CLONE; "
                 f"or end the ref: periplus context refs --end {name}",
        ) from error  # fmt: skip
    payload: dict[str, JSONValue] = {"v": PAYLOAD_VERSION, "name": name, "target": target.hex()}
    if not dry_run:
        anew = _rewritten(library, headers, holds)
        ways |= anew
        payload["target"] = anew[target].hex()
    return payload


def _is_context(library: ProjectLibrary, digest: bytes) -> bool:
    try:
        library.header(digest)
    except PeriplusError:
        return False
    return True


def forget_parked(library: ProjectLibrary, holds: Holds) -> None:
    """Remove derived files of contexts, and parked objects that have the secret."""
    library.forget_cache()
    parked = library.shelf.parked
    assert parked is not None
    for digest in list(parked.digests()):
        try:
            has_it = holds(parked.get(digest))
        except PeriplusError:
            has_it = True  # unknown, and not needed
        if has_it:
            parked.remove(digest)


def _has(library: ProjectLibrary, header: ContextHeader, holds: Holds) -> bool:
    context = library.context(header.digest)
    return holds(canonical(context.metadata)) or any(_atom_has(atom, holds) for atom in context.atoms) or any(
        holds(canonical(msgspec.to_builtins([one.type, one.relations, one.metadata]))) for one in context.molecules
    )  # fmt: skip


def _atom_has(atom: Atom, holds: Holds) -> bool:
    return any(holds(text.encode()) for text in (atom.content, atom.type, atom.source, *atom.tags))


def _rewritten(library: ProjectLibrary, headers: list[ContextHeader], holds: Holds) -> dict[bytes, bytes]:
    """Commit again, oldest first, every context that has the secret or one below it; returns the new digests by the
    old ones.
    """
    anew: dict[bytes, bytes] = {}
    with library.batch():
        for header in reversed(headers):
            parents = [one for one in (header.base, *header.merged) if one is not None]
            if any(one in anew for one in parents) or _has(library, header, holds):
                anew[header.digest] = library.commit(without(library, library.context(header.digest), anew, holds))
    return anew


def without(library: ProjectLibrary, context: Context, anew: Mapping[bytes, bytes], holds: Holds) -> Context:
    """Return ``context`` with replaced contexts below it, and without what ``holds`` finds."""
    base = anew.get(context.base, context.base) if context.base is not None else None
    atoms = tuple(atom for atom in context.atoms if not _atom_has(atom, holds))
    mine = {atom_digest(atom) for atom in atoms}
    below = molecule_table(library, base)
    wanted = {atom for molecule in context.molecules for atom in molecule.atoms} | set(context.removed)
    known = mine | find(library, base, wanted - mine).keys()
    removed = tuple(digest for digest in context.removed if digest in known or below.names(digest))
    there = known - set(removed)
    molecules = tuple(
        one for one in context.molecules
        if there.issuperset(one.atoms) and not holds(canonical(msgspec.to_builtins([one.type, one.relations, one.metadata])))
    )  # fmt: skip
    metadata = {name: value for name, value in context.metadata.items() if not holds(canonical([name, value]))}
    merged = dict.fromkeys(anew.get(one, one) for one in context.merged)
    return Context(base, atoms, molecules, removed, metadata, tuple(one for one in merged if one != base))
