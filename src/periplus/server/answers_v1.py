"""What a context server does for the requests of version 1 peers, which know short hashes only.

A push becomes a context over the one that its base's short hash stands for, and a ref keeps it (``server.aliases``). A query that
names no context asks the ref ``main``, or the only ref that there is.
"""

from __future__ import annotations

__all__ = ["answers_v1"]

from collections.abc import Iterator
from typing import Final, assert_never

from periplus.context.alias import atom_alias, context_alias
from periplus.context.model import ChunkLimits, Context, Expansion, Molecule, atom_digest
from periplus.context.wire.payloads import StreamEnd
from periplus.context.wire.v1_payloads import V1Expand, V1Molecule, V1Push, V1Query, V1Request, V1Stream
from periplus.server.aliases import V1_REFS, AliasIndex, v1_ref
from periplus.server.answers import REST, Bench, Step, chunk_step, end_step, query_steps
from periplus.server.refusal import Refused

ANSWER_CHARACTERS_MAX: Final = 65_535  # more fits no answer
PATH_MAX: Final = ANSWER_CHARACTERS_MAX // 19
_MAIN: Final = "main"


def answers_v1(bench: Bench, stream: int, body: V1Request, chunk_limits: ChunkLimits) -> Iterator[Step]:
    """The steps of a request. Raises PeriplusError for what cannot be answered."""
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
    digest = index.context(body.context)
    entries = []
    size = 0
    for chunk in bench.library.stream(digest):
        if chunk.over:
            raise Refused("too_large", "an atom fits no answer")
        passing = [entry for entry in chunk.entries if entry.atom.relevance >= body.min_relevance]
        entries += passing
        size += sum(len(entry.atom.content) for entry in passing)
        if size > ANSWER_CHARACTERS_MAX:
            raise Refused("too_large", "the expansion fits no answer")
        if len(passing) < len(chunk.entries):
            break  # all that follow are less relevant
        yield REST
    path = []
    at: bytes | None = digest
    while at is not None:
        path.append(index.alias_of(at))
        if len(path) > PATH_MAX:
            raise Refused("too_large", "the chain fits no answer")
        at = bench.library.header(at).base
    path.reverse()
    yield Step(lambda machine: machine.send_expansion(stream, Expansion(digest, entries), path=path))


def _stream(bench: Bench, index: AliasIndex, stream: int, body: V1Stream, limits: ChunkLimits) -> Iterator[Step]:
    chunks = bench.library.stream(index.context(body.context), limits=limits)
    try:
        for chunk in chunks:
            yield chunk_step(stream, chunk)
            if chunk.entries and chunk.entries[-1].atom.relevance < body.min_relevance:
                break  # all that follow are less relevant
        yield end_step(stream, StreamEnd())
    finally:
        chunks.close()


def _push(bench: Bench, index: AliasIndex, stream: int, body: V1Push) -> Iterator[Step]:
    base = None if body.base is None else index.context(body.base)
    yield REST
    wanted = {*body.removed, *(atom for one in body.molecules for atom in one.atoms if isinstance(atom, str))}
    below: dict[str, set[bytes]] = {}
    if base is not None and wanted:
        for _ in index.find_below(base, wanted, below):
            yield REST
    yield REST
    atoms = {
        atom_digest(atom): atom for molecule in body.molecules for atom in molecule.atoms if not isinstance(atom, str)
    }
    own = set(map(atom_digest, body.atoms))
    extra = [atom for digest, atom in atoms.items() if digest not in own]
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
    alias = context_alias(body.base, map(atom_alias, body.atoms))
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
