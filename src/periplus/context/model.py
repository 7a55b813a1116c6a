"""Values of contexts: atoms, molecules, contexts, and the parts of an expansion.

Values only; nothing here reads or writes. Rules:

* the *identity* of an atom is its content and type. Relevance, time, source and tags are its *annotation*, of which a context holds
  one per atom;
* a context is a delta over its base: its removals, then the atoms that it adds or annotates anew;
* order is total: relevance descending, then newer first, then digest ascending (``order_key``).

Numbers: relevance in millionths (0 … 1,000,000), times in milliseconds since 1970-01-01 UTC. Digests are 32 bytes
inside and 64 hexadecimal digits outside.
"""

from __future__ import annotations

__all__ = [
    "DEFAULT_LIMITS",
    "RELEVANCE_MAX",
    "STRING_TYPE",
    "TAGS_MAX",
    "TIME_MS_MAX",
    "TIME_MS_MIN",
    "Atom",
    "BrokenMolecule",
    "Chunk",
    "ChunkLimits",
    "Context",
    "ContextHeader",
    "Entry",
    "Expansion",
    "Molecule",
    "OrderKey",
    "Oversize",
    "StreamEnd",
    "annotation_record",
    "atom_digest",
    "atom_digests",
    "depth_over",
    "molecule_digest",
    "order_key",
]

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from periplus.base.encoding.canonical import JSONValue, canonical

RELEVANCE_MAX: Final = 1_000_000
STRING_TYPE: Final = "String"
TIME_MS_MIN: Final = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
TIME_MS_MAX: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
TAGS_MAX: Final = 64
_ATOM_DOMAIN: Final = b"periplus atom 1\x00"
_MOLECULE_DOMAIN: Final = b"periplus molecule 1\x00"

OrderKey: TypeAlias = tuple[int, int, bytes]


class Atom(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A piece of knowledge: ``content`` of ``type`` (the print of a type, see ``context.types``), and its annotation.

    ``source`` is the digest or the locator of its origin: a record, a file with a range, a step of a trail.
    """

    content: str
    type: str = STRING_TYPE
    time_ms: Annotated[int, msgspec.Meta(ge=TIME_MS_MIN, le=TIME_MS_MAX)] = 0
    relevance: Annotated[int, msgspec.Meta(ge=0, le=RELEVANCE_MAX)] = RELEVANCE_MAX // 2
    source: str = ""
    tags: Annotated[tuple[str, ...], msgspec.Meta(max_length=TAGS_MAX)] = ()


def atom_digest(atom: Atom) -> bytes:
    """Return the identity of ``atom``, over its content and type without the annotation."""
    kind = atom.type.encode()
    content = atom.content.encode()
    return sha256(
        b"%b%b%b%b%b" % (_ATOM_DOMAIN, len(kind).to_bytes(8, "big"), kind, len(content).to_bytes(8, "big"), content)
    ).digest()


def atom_digests(atoms: Iterable[Atom]) -> list[bytes]:
    """Return ``atom_digest`` of each atom."""
    hasher = sha256
    heads: dict[str, bytes] = {}
    digests = []
    for atom in atoms:
        head = heads.get(atom.type)
        if head is None:
            kind = atom.type.encode()
            head = heads[atom.type] = b"%b%b%b" % (_ATOM_DOMAIN, len(kind).to_bytes(8, "big"), kind)
        content = atom.content.encode()
        digests.append(hasher(head + len(content).to_bytes(8, "big") + content).digest())
    return digests


def annotation_record(digest: bytes, atom: Atom) -> bytes:
    """Return the leaf of ``atom``, whose identity is ``digest``, in the tree of a context: identity and annotation.

    ``digest · relevance u32 · time i64 · source length u32 · source · tag count u32 · (length u32 · tag)*``,
    big-endian.
    """
    source = atom.source.encode()
    record = b"%b%b%b%b%b%b" % (
        digest,
        atom.relevance.to_bytes(4, "big"),
        atom.time_ms.to_bytes(8, "big", signed=True),
        len(source).to_bytes(4, "big"),
        source,
        len(atom.tags).to_bytes(4, "big"),
    )
    for tag in atom.tags:
        data = tag.encode()
        record += len(data).to_bytes(4, "big") + data
    return record


def order_key(digest: bytes, atom: Atom) -> OrderKey:
    """Return the sort key of an expansion's order."""
    return (-atom.relevance, -atom.time_ms, digest)


class Molecule(msgspec.Struct, frozen=True, array_like=True):
    """Atoms that belong together. ``relations`` has pairs of places in ``atoms`` by name; the digest covers all fields."""

    atoms: tuple[bytes, ...]
    relations: dict[str, tuple[tuple[int, int], ...]] = {}
    type: str = "Molecule"
    metadata: dict[str, JSONValue] = {}


def molecule_digest(molecule: Molecule) -> bytes:
    """Return the digest of all fields of ``molecule``; the order of relations, and of the pairs of one, does not
    matter.

    ``domain · type · atom count u32 · atom* · relation count u32 · (name · pair count u32 · (i u32 · j u32)*)* ·
    metadata``: names ascending by code point, pairs ascending and none twice, metadata as canonical JSON; a text or
    JSON is its length in bytes as u64 and its UTF-8; big-endian. Raises UsageError if the metadata have no canonical
    form.
    """
    out = bytearray(_MOLECULE_DOMAIN)
    kind = molecule.type.encode()
    out += len(kind).to_bytes(8, "big") + kind
    out += len(molecule.atoms).to_bytes(4, "big") + b"".join(molecule.atoms)
    out += len(molecule.relations).to_bytes(4, "big")
    for name, pairs in sorted(molecule.relations.items()):
        data = name.encode()
        ordered = sorted(set(pairs))
        out += len(data).to_bytes(8, "big") + data + len(ordered).to_bytes(4, "big")
        for i, j in ordered:
            out += i.to_bytes(4, "big") + j.to_bytes(4, "big")
    metadata = canonical(molecule.metadata)
    out += len(metadata).to_bytes(8, "big") + metadata
    return sha256(out).digest()


class Context(msgspec.Struct, frozen=True):
    """A delta over ``base`` (the digest of a context, None for a root).

    ``removed`` are digests of atoms and molecules in the expansion of the base; ``merged`` are the contexts whose
    changes it takes in beside its base. A delta does not remove and add the same atom: to annotate an atom anew, just
    add it. In canonical form atoms are in the order of ``order_key``, everything else ascends, and nothing occurs
    twice.
    """

    base: bytes | None = None
    atoms: tuple[Atom, ...] = ()
    molecules: tuple[Molecule, ...] = ()
    removed: tuple[bytes, ...] = ()
    metadata: dict[str, JSONValue] = {}
    merged: tuple[bytes, ...] = ()


class ContextHeader(msgspec.Struct, frozen=True):
    """The part of a context's record that is read before any page.

    ``depth`` is 0 without parents, else one more than the deepest of its base and of the contexts that it merged, so
    that every ancestor by any link is less deep (the search for common bases relies on it); ``live`` is the number of
    atoms of its expansion; ``atoms_root`` is the root of the tree (RFC 9162) over the annotation records of its own
    atoms in their order.
    """

    digest: bytes
    base: bytes | None
    merged: tuple[bytes, ...]
    depth: int
    live: int
    atom_count: int
    molecule_count: int
    removed_count: int
    atoms_root: bytes
    metadata: dict[str, JSONValue]


def depth_over(parents: Iterable[ContextHeader]) -> int:
    """Return the depth of a context with ``parents``: its base, if any, and the contexts that it merged."""
    return max((parent.depth + 1 for parent in parents), default=0)


class Entry(NamedTuple):
    """An atom of an expansion, with its identity and the context that added it or annotated it last."""

    digest: bytes
    atom: Atom
    origin: bytes


class BrokenMolecule(NamedTuple):
    """A molecule (its old digest) that is gone because it lost ``atoms`` of a relation, or its last atom.

    A report of the chain, no part of the expansion's content: it stays until a delta removes ``digest`` or adds that
    molecule again.
    """

    digest: bytes
    atoms: tuple[bytes, ...]


class Expansion(NamedTuple):
    """The expansion of ``context``: ``entries`` in their order, and its present ``molecules``, without the atoms that
    they lost.
    """

    context: bytes
    entries: Sequence[Entry]
    molecules: tuple[Molecule, ...] = ()
    broken: tuple[BrokenMolecule, ...] = ()


class ChunkLimits(NamedTuple):
    """The most that one chunk may hold; each limit is enforced.

    ``size_bytes`` counts the atoms as messagepack; a proof may take as much again. An atom that alone exceeds
    ``tokens`` or ``size_bytes`` is not cut: it is named in ``Chunk.over``, and the stream continues behind it.
    """

    atoms: int = 64
    tokens: int = 4_000
    size_bytes: int = 1 << 20


DEFAULT_LIMITS: Final = ChunkLimits()


class Oversize(NamedTuple):
    """An atom that no chunk within the limits can hold: its identity, its origin, and its ``annotation_record``."""

    digest: bytes
    origin: bytes
    annotation: bytes


class Chunk(NamedTuple):
    """The next best atoms of a stream.

    ``start`` is the place of the first atom in the stream; ``proof`` is described in ``context.streams.chunk_proof``;
    ``over`` are the atoms that are only named, with their places by the order of the stream. Tokens are those of
    ``entries``. A chunk without either carries a part of a proof that is too long for one chunk, or reports an empty
    stream.
    """

    chunk_id: int
    start: int
    entries: tuple[Entry, ...]
    cumulative_tokens: int
    progress_millionths: int
    is_final: bool
    proof: bytes = b""
    over: tuple[Oversize, ...] = ()


class StreamEnd(NamedTuple):
    """The totals of a whole stream: atoms (named ones included), tokens and chunks, from the first chunk on even if
    resumed.

    ``head`` is the root of the tree (RFC 9162) over the annotation records of all atoms of the expansion in their
    order.
    """

    atoms: int
    tokens: int
    chunks: int
    head: bytes
