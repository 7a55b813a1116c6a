"""Handlers for requests of version 1 peers, which know only short hashes.

A push becomes a context over the one that its base's short hash means, and a ref keeps it (``server.short_hashes``). A delta that
is only expanded is laid over its base while that is read, and is not stored. A query without a context asks the ref ``main``, or
the only ref.
"""

from __future__ import annotations

__all__ = ["answers_v1"]

from collections import deque
from collections.abc import Generator, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing
from typing import Final, assert_never

from periplus.context.model import (
    DEFAULT_LIMITS,
    RELEVANCE_MAX,
    Atom,
    Chunk,
    ChunkLimits,
    Context,
    Entry,
    Expansion,
    Molecule,
    OrderKey,
    Oversize,
    atom_digest,
    order_key,
)
from periplus.context.v1_names import atom_alias, context_alias
from periplus.context.validation import prepare
from periplus.context.wire.payloads import StreamEnd
from periplus.context.wire.v1_payloads import V1Expand, V1Molecule, V1Push, V1Query, V1Request, V1Stream
from periplus.server.refusal import Refused
from periplus.server.request_handlers import REST, Bench, Step, chunk_step, end_step, query_steps
from periplus.server.short_hashes import V1_REFS, AliasIndex, v1_ref

ANSWER_CHARACTERS_MAX: Final = 65_535  # more does not fit an answer
PATH_MAX: Final = ANSWER_CHARACTERS_MAX // 19
_MAIN: Final = "main"


def answers_v1(bench: Bench, stream: int, body: V1Request, chunk_limits: ChunkLimits) -> Iterator[Step]:
    """Return the steps of a request. Raises PeriplusError."""
    index = bench.aliases
    match body:
        case V1Expand():
            yield from _expand(bench, index, stream, body)
        case V1Stream():
            yield from _stream(bench, index, stream, body, chunk_limits)
        case V1Query():
            digest = index.context(body.context) if body.context else _usual(bench)
            yield from query_steps(bench.library, stream, body.as_v2(digest))
        case V1Push():
            yield from _push(bench, index, stream, body)
        case _:
            assert_never(body)


def _usual(bench: Bench) -> bytes:
    refs = {name: target for name, target in bench.library.refs().items() if not name.startswith(V1_REFS)}
    found = refs.get(_MAIN) or (next(iter(refs.values())) if len(refs) == 1 else None)
    if found is None:
        raise Refused("not_found", "the query names no context, and there is no ref main")
    return found


def _expand(bench: Bench, index: AliasIndex, stream: int, body: V1Expand) -> Iterator[Step]:
    entries = []
    size = 0
    for chunk in _chunks(bench, index, body.context, DEFAULT_LIMITS):
        if chunk is None:
            yield REST
            continue
        if chunk.over:
            raise Refused("too_large", "an atom does not fit an answer")
        passing = [entry for entry in chunk.entries if entry.atom.relevance >= body.min_relevance]
        entries += passing
        size += sum(len(entry.atom.content) for entry in passing)
        if size > ANSWER_CHARACTERS_MAX:
            raise Refused("too_large", "the expansion does not fit an answer")
        if len(passing) < len(chunk.entries):
            break  # the rest is less relevant
        yield REST
    path = []
    at: bytes | None
    if isinstance(body.context, str):
        at = index.context(body.context)
    else:
        path.append(_alias_of(body.context))
        at = None if body.context.base is None else index.context(body.context.base)
    while at is not None:
        path.append(index.alias_of(at))
        if len(path) > PATH_MAX:
            raise Refused("too_large", "the chain does not fit an answer")
        at = bench.library.header(at).base
    path.reverse()
    yield Step(lambda machine: machine.send_expansion(stream, Expansion(b"", entries), path=path))


def _stream(bench: Bench, index: AliasIndex, stream: int, body: V1Stream, limits: ChunkLimits) -> Iterator[Step]:
    chunks = _chunks(bench, index, body.context, limits)
    try:
        for chunk in chunks:
            if chunk is None:
                yield REST
                continue
            yield chunk_step(stream, chunk)
            if chunk.entries and chunk.entries[-1].atom.relevance < body.min_relevance:
                break  # the rest is less relevant
        yield end_step(stream, StreamEnd())
    finally:
        chunks.close()


def _chunks(
    bench: Bench, index: AliasIndex, context: str | V1Push, limits: ChunkLimits
) -> Generator[Chunk | None, None, None]:
    """Yield the atoms of a context, or of a delta over its base, the most relevant first; None lets others run."""
    if isinstance(context, str):
        yield from bench.library.stream(index.context(context), limits=limits)
        return
    base = None if context.base is None else index.context(context.base)
    below: dict[str, set[bytes]] = {}
    if base is not None and context.removed:
        for _ in index.find_below(base, {*context.removed}, below):
            yield None
    # Removals of missing atoms are ignored, as version 1 did.
    removed = {
        _one(below, alias, f"context.removed_hashes[{place}]")
        for place, alias in enumerate(context.removed)
        if alias in below
    }
    prepared = prepare(Context(atoms=(*context.atoms, *_atoms_of_molecules(context))))
    own = [Entry(digest, atom, b"") for digest, atom in zip(prepared.atom_digests, prepared.context.atoms, strict=True)]
    yield from _laid_over(bench, base, own, removed.union(prepared.atom_digests), limits)


def _laid_over(
    bench: Bench, base: bytes | None, own: list[Entry], hidden: AbstractSet[bytes], limits: ChunkLimits
) -> Iterator[Chunk]:
    """Merge ``own`` with atoms of ``base`` that are not ``hidden``, in order."""
    waiting = deque(sorted(own, key=_key))
    total, start = len(own), 0
    if base is not None:
        total += bench.library.header(base).live - len(bench.library.find(base, hidden))
        with closing(bench.library.stream(base, limits=limits)) as chunks:
            for chunk in chunks:
                entries: list[Entry] = []
                for entry in chunk.entries:
                    while waiting and _key(waiting[0]) < _key(entry):
                        entries.append(waiting.popleft())
                    if entry.digest not in hidden:
                        entries.append(entry)
                over = tuple(one for one in chunk.over if one.digest not in hidden)
                yield _chunk(start, entries, total, over)
                start += len(entries)
    yield _chunk(start, [*waiting], total, ())


def _chunk(start: int, entries: list[Entry], total: int, over: tuple[Oversize, ...]) -> Chunk:
    progress = RELEVANCE_MAX * (start + len(entries)) // max(total, 1)
    return Chunk(0, start, tuple(entries), 0, progress, is_final=False, over=over)


def _key(entry: Entry) -> OrderKey:
    return order_key(entry.digest, entry.atom)


def _atoms_of_molecules(given: V1Push) -> list[Atom]:
    """Return the atoms that only molecules have, each once."""
    atoms = {atom_digest(atom): atom for one in given.molecules for atom in one.atoms if not isinstance(atom, str)}
    own = set(map(atom_digest, given.atoms))
    return [atom for digest, atom in atoms.items() if digest not in own]


def _alias_of(given: V1Push) -> str:
    return context_alias(given.base, map(atom_alias, given.atoms))


def _push(bench: Bench, index: AliasIndex, stream: int, body: V1Push) -> Iterator[Step]:
    base = None if body.base is None else index.context(body.base)
    yield REST
    wanted = {*body.removed, *(atom for one in body.molecules for atom in one.atoms if isinstance(atom, str))}
    below: dict[str, set[bytes]] = {}
    if base is not None and wanted:
        for _ in index.find_below(base, wanted, below):
            yield REST
    yield REST
    extra = _atoms_of_molecules(body)
    here = {atom_alias(atom): {atom_digest(atom)} for atom in (*body.atoms, *extra)}
    added = {digest for digests in here.values() for digest in digests}
    known = below | here
    removed = [_one(below, alias, f"removed_hashes[{place}]") for place, alias in enumerate(body.removed)]
    context = Context(
        base,
        (*body.atoms, *extra),
        tuple(_molecule(molecule, known, place) for place, molecule in enumerate(body.molecules)),
        tuple(digest for digest in removed if digest not in added),
        body.metadata | body.noted,
    )
    digest = bench.library.commit(context)
    alias = _alias_of(body)
    bench.library.set_ref(v1_ref(alias, digest), digest)
    yield Step(lambda machine: machine.send_ack(stream))


def _molecule(given: V1Molecule, known: dict[str, set[bytes]], place: int) -> Molecule:
    atoms = tuple(
        _one(known, atom, f"delta_molecules[{place}].atoms[{number}]") if isinstance(atom, str) else atom_digest(atom)
        for number, atom in enumerate(given.atoms)
    )
    return Molecule(atoms, given.relations, given.type, given.metadata)


def _one(known: dict[str, set[bytes]], alias: str, field: str) -> bytes:
    found = known.get(alias, set())
    if not found:
        raise Refused("not_found", f"{field}: no atom has the short hash {alias}")
    if len(found) > 1:
        raise Refused("ambiguous", f"{field}: {alias} stands for {len(found)} atoms")
    return next(iter(found))
