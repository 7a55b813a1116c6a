"""Payloads of frames: one Struct for each frame type (two for OBJECTS, which requests or sends).

On the wire a payload is a map of all its fields, in the order of this module; atoms and other rows are arrays. Atoms
travel without their digests, which the receiver computes. A request whose answer costs credit grants ``credit_frames``
and ``credit_bytes``; zero means the agreed window.
"""

from __future__ import annotations

__all__ = [
    "Ack", "Cancel", "Changed", "Credit", "Digest", "ErrorReport", "ExpandRequest", "ExpandResponse", "Filter", "Have", "Hello",
    "ObjectPart", "ObjectsGet", "ObjectsPut", "ObjectsSent", "Payload", "Ping", "Pong", "Proof", "Prove", "PushContext",
    "QueryRequest", "QueryResponse", "RefRow", "RefUpdate", "RefsRequest", "RefsResponse", "Request", "StreamChunk", "StreamEnd",
    "StreamRequest", "Want", "Watch", "Welcome", "WireBroken", "WireMolecule", "WireOversize", "check_atoms", "check_rows", "chunk_of", "entries_of",
    "expansion_of", "filter_of", "filters_of", "payload_of_chunk", "payload_of_expansion", "rows_of",
]  # fmt: skip

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from periplus.base.encoding.canonical import JSONValue, canonical, decode_canonical
from periplus.base.errors import FormatError
from periplus.context.model import (
    RELEVANCE_MAX,
    TAGS_MAX,
    TIME_MS_MAX,
    TIME_MS_MIN,
    Atom,
    BrokenMolecule,
    Chunk,
    Entry,
    Expansion,
    Molecule,
    Oversize,
    atom_digests,
)
from periplus.context.selection.filters import Filters
from periplus.context.types import nesting
from periplus.context.wire.error_codes import ProtocolError
from periplus.context.wire.limits import ATOMS_MAX, DIGESTS_MAX, Limits

Digest: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53 - 1)]
_Millionths: TypeAlias = Annotated[int, Meta(ge=0, le=RELEVANCE_MAX)]
_Name: TypeAlias = Annotated[str, Meta(max_length=255)]
_Text: TypeAlias = Annotated[str, Meta(max_length=65_536)]
_Digests: TypeAlias = Annotated[tuple[Digest, ...], Meta(max_length=DIGESTS_MAX)]
_Atoms: TypeAlias = Annotated[tuple[Atom, ...], Meta(max_length=ATOMS_MAX)]
_Origins: TypeAlias = Annotated[tuple[Digest, ...], Meta(max_length=ATOMS_MAX)]
_OriginOf: TypeAlias = Annotated[tuple[Annotated[int, Meta(ge=0, lt=ATOMS_MAX)], ...], Meta(max_length=ATOMS_MAX)]
_Pairs: TypeAlias = tuple[tuple[_Count, _Count], ...]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A map with exactly these fields."""


class _Row(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A row within a payload: an array of its fields."""


class Hello(_Body, frozen=True):
    """The client's offer. ``token`` is empty if none is needed; ``extra`` holds fields of later versions, which this
    one ignores.
    """

    versions: Annotated[tuple[int, ...], Meta(min_length=1, max_length=16)] = (2,)
    encodings: Annotated[tuple[_Name, ...], Meta(min_length=1, max_length=16)] = ("msgpack", "json")
    capabilities: Annotated[tuple[_Name, ...], Meta(max_length=64)] = ()
    limits: Limits = Limits()
    token: _Text = ""
    agent: _Name = ""
    extra: dict[_Name, _Text] = {}


class Welcome(_Body, frozen=True):
    """The agreement: chosen from the offer, never more than it."""

    version: int = 2
    encoding: Literal["msgpack", "json"] = "msgpack"
    capabilities: Annotated[tuple[_Name, ...], Meta(max_length=64)] = ()
    limits: Limits = Limits()
    agent: _Name = ""
    extra: dict[_Name, _Text] = {}


class Filter(_Body, frozen=True):
    """A filter of atoms like ``context.selection.filters.Filters``; a field that is empty, 0 or none accepts all."""

    type: _Text = ""
    min_relevance: _Millionths = 0
    since_ms: Annotated[int, Meta(ge=TIME_MS_MIN, le=TIME_MS_MAX)] | None = None
    max_age_ms: _Count | None = None
    source: _Text = ""
    tags: Annotated[tuple[_Name, ...], Meta(max_length=TAGS_MAX)] = ()


class ExpandRequest(_Body, frozen=True):
    """Requests the whole expansion: one EXPAND_RESPONSE if it fits a frame, else STREAM_CHUNKs, which cost the credit,
    and a STREAM_END.
    """

    context: Digest
    credit_frames: _Count = 0
    credit_bytes: _Count = 0


class WireMolecule(_Row, frozen=True):
    """A molecule; ``metadata`` is the canonical JSON of its map, ``relations`` are in ascending order of their names."""

    atoms: _Digests
    relations: dict[str, _Pairs] = {}
    type: str = "Molecule"
    metadata: str = "{}"


class WireBroken(_Row, frozen=True):
    digest: Digest
    atoms: _Digests


class WireOversize(_Row, frozen=True):
    """An atom that no chunk holds: its digest, its origin, and its annotation record."""

    digest: Digest
    origin: Digest
    annotation: bytes


class ExpandResponse(_Body, frozen=True):
    """An expansion. ``origin_of`` has for each atom the index of its origin in ``origins``; it is empty if there is
    only one origin.
    """

    atoms: _Atoms = ()
    origins: _Origins = ()
    origin_of: _OriginOf = ()
    molecules: tuple[WireMolecule, ...] = ()
    broken: tuple[WireBroken, ...] = ()


class StreamRequest(_Body, frozen=True):
    """Requests chunks, best first, from chunk ``resume`` on. ``atoms``, ``tokens`` and ``size_bytes`` bound each chunk;
    with zero the server decides.
    """

    context: Digest
    resume: _Count = 0
    atoms: _Count = 0
    tokens: _Count = 0
    size_bytes: _Count = 0
    prove: bool = False
    filter: Filter | None = None
    credit_frames: _Count = 0
    credit_bytes: _Count = 0


class StreamChunk(_Body, frozen=True):
    """A chunk. If ``more`` is set it continues in the next frame: same chunk id, further atoms, further bytes of the
    proof.

    ``over`` are atoms that are only named, because no chunk can hold them. ``molecules`` and ``broken`` come only in
    answers to EXPAND_REQUEST, after the last atom.
    """

    chunk_id: _Count
    start: _Count
    atoms: _Atoms = ()
    origins: _Origins = ()
    origin_of: _OriginOf = ()
    cumulative_tokens: _Count = 0
    progress_millionths: _Millionths = 0
    is_final: bool = False
    proof: bytes = b""
    more: bool = False
    molecules: tuple[WireMolecule, ...] = ()
    broken: tuple[WireBroken, ...] = ()
    over: Annotated[tuple[WireOversize, ...], Meta(max_length=ATOMS_MAX)] = ()


class StreamEnd(_Body, frozen=True):
    """The totals of the whole stream, like ``model.StreamEnd``, and the head of the tree over all atoms in their order."""

    chunks: _Count = 0
    atoms: _Count = 0
    tokens: _Count = 0
    head: bytes = b""


class QueryRequest(_Body, frozen=True):
    """Requests the best atoms for ``text`` (empty: by relevance): page ``page`` of pages of ``limit`` atoms.

    Ages are relative to ``at_ms``, 0 for now. ``budget_tokens`` 0 is no budget.
    """

    context: Digest
    text: _Text = ""
    filter: Filter | None = None
    limit: Annotated[int, Meta(ge=1, le=ATOMS_MAX)] = 100
    budget_tokens: _Count = 0
    page: _Count = 0
    at_ms: _Count = 0


class QueryResponse(_Body, frozen=True):
    """``scores`` are in millionths, one an atom, or none; ``total`` is the number of matches; ``page_next`` is none
    after the last page.

    ``at_ms`` is the time for ages; send it back in the request for a further page.
    """

    atoms: _Atoms = ()
    origins: _Origins = ()
    origin_of: _OriginOf = ()
    scores: Annotated[tuple[int, ...], Meta(max_length=ATOMS_MAX)] = ()
    total: _Count = 0
    tokens: _Count = 0
    page_next: _Count | None = None
    at_ms: _Count = 0


class PushContext(_Body, frozen=True):
    """Takes in the context ``digest``, whose objects were uploaded before; sets ``ref`` to it, if that is not empty.

    ``expected`` is the present target of the ref, none if it must not exist; with ``expected_any`` it may have any
    target.
    """

    digest: Digest
    ref: _Name = ""
    expected: Digest | None = None
    expected_any: bool = True
    force: bool = False


class Ack(_Body, frozen=True):
    """Done. ``objects`` is the number of objects that were new here."""

    digest: Digest | None = None
    objects: _Count = 0


class Credit(_Body, frozen=True):
    """Grants this many more frames and bytes of payload on this stream."""

    frames: _Count
    bytes: _Count


class Cancel(_Body, frozen=True):
    """Cancels this stream."""


class Have(_Body, frozen=True):
    """To push: ``offered`` objects, of which WANT names the missing ones. To pull: ``wanted`` heads; ``known`` contexts
    are not sent.

    Exactly one of ``offered`` and ``wanted`` is not empty.
    """

    offered: _Digests = ()
    wanted: _Digests = ()
    known: _Digests = ()
    credit_frames: _Count = 0
    credit_bytes: _Count = 0


class Want(_Body, frozen=True):
    """Objects to transfer, each after the objects that it depends on; ``sizes`` in bytes, or none."""

    digests: _Digests = ()
    sizes: Annotated[tuple[_Count, ...], Meta(max_length=DIGESTS_MAX)] = ()
    is_final: bool = True


class ObjectPart(_Row, frozen=True):
    """``data`` is at ``offset`` in the object ``digest`` of ``total`` bytes. Parts of an object come in order and
    without others between.
    """

    digest: Digest
    offset: _Count
    total: _Count
    data: bytes


_Parts: TypeAlias = Annotated[tuple[ObjectPart, ...], Meta(max_length=DIGESTS_MAX)]


class ObjectsGet(_Body, frozen=True, tag="get", tag_field="kind"):
    """Requests these objects, in this order."""

    digests: _Digests
    credit_frames: _Count = 0
    credit_bytes: _Count = 0


class ObjectsPut(_Body, frozen=True, tag="put", tag_field="kind"):
    """Objects of the client; the last frame is final, and is answered by ACK."""

    parts: _Parts = ()
    is_final: bool = False


class ObjectsSent(_Body, frozen=True):
    """Objects of the server; the last frame is final."""

    parts: _Parts = ()
    is_final: bool = False


class Prove(_Body, frozen=True):
    """Requests a proof that ``atom`` is in ``context``, or that the tree of ``size`` leaves is a prefix of that of
    ``size_later``.
    """

    kind: Literal["inclusion", "consistency"]
    context: Digest | None = None
    atom: Digest | None = None
    size: _Count = 0
    size_later: _Count = 0


class Proof(_Body, frozen=True):
    """``path`` of RFC 9162 to ``root``; ``leaf`` is the record of the leaf; ``record`` binds the root to the context;
    ``head`` is signed.
    """

    kind: Literal["inclusion", "consistency"]
    index: _Count = 0
    size: _Count = 0
    size_later: _Count = 0
    root: bytes = b""
    root_later: bytes = b""
    path: Annotated[tuple[Digest, ...], Meta(max_length=256)] = ()
    leaf: bytes = b""
    record: bytes = b""
    head: bytes = b""


class RefUpdate(_Body, frozen=True):
    """Sets ``name`` to ``target`` (none removes it); ``expected`` as in PUSH_CONTEXT."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    target: Digest | None = None
    expected: Digest | None = None
    expected_any: bool = False
    force: bool = False


class RefsRequest(_Body, frozen=True):
    """Requests the refs whose names begin with ``prefix`` and come after ``after``, once ``update`` is made, if there
    is one.
    """

    prefix: _Name = ""
    after: _Name = ""
    limit: Annotated[int, Meta(ge=1, le=4_096)] = 1_000
    update: RefUpdate | None = None


class RefRow(_Row, frozen=True):
    name: _Name
    target: Digest


class RefsResponse(_Body, frozen=True):
    refs: Annotated[tuple[RefRow, ...], Meta(max_length=4_096)] = ()
    has_more: bool = False


class Watch(_Body, frozen=True):
    """Requests new heads of refs whose names begin with ``prefix``, until the stream is cancelled."""

    prefix: _Name = ""
    credit_frames: _Count = 0
    credit_bytes: _Count = 0


class Changed(_Body, frozen=True):
    """``refs`` have these targets now; those of ``gone`` were removed. A change may be left out if a later one
    followed.
    """

    refs: Annotated[tuple[RefRow, ...], Meta(max_length=4_096)] = ()
    gone: Annotated[tuple[_Name, ...], Meta(max_length=4_096)] = ()


class Ping(_Body, frozen=True):
    token: Annotated[bytes, Meta(max_length=64)] = b""


class Pong(_Body, frozen=True):
    """The token of the PING that it answers."""

    token: Annotated[bytes, Meta(max_length=64)] = b""


class ErrorReport(_Body, frozen=True):
    """``request`` is the stream concerned, 0 for none; ``field`` names its invalid field; ``message`` is of the table
    of codes.
    """

    code: Annotated[str, Meta(min_length=1, max_length=64)]
    message: Annotated[str, Meta(max_length=512)] = ""
    is_retryable: bool = False
    request: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0
    field: Annotated[str, Meta(max_length=255, pattern=r"^[A-Za-z0-9_.\[\]]*$")] = ""
    retry_after_ms: _Count = 0


Request: TypeAlias = (
    ExpandRequest
    | StreamRequest
    | QueryRequest
    | PushContext
    | Have
    | ObjectsGet
    | ObjectsPut
    | Prove
    | RefsRequest
    | Watch
)
Payload: TypeAlias = (
    Request | Hello | Welcome | ExpandResponse | StreamChunk | StreamEnd | QueryResponse | Ack | Credit | Cancel | Want
    | ObjectsSent | Proof | RefsResponse | Changed | Ping | Pong | ErrorReport
)  # fmt: skip


class Rows(NamedTuple):
    """Entries in the form of payloads."""

    atoms: tuple[Atom, ...]
    origins: tuple[bytes, ...]
    origin_of: tuple[int, ...]


def filters_of(given: Filter | None) -> Filters:
    if given is None:
        return Filters()
    return Filters(given.type or None, given.min_relevance, given.since_ms, given.max_age_ms, given.source, given.tags)


def filter_of(filters: Filters) -> Filter | None:
    """Return the filter for the wire; None if everything is accepted."""
    if filters == Filters():
        return None
    return Filter(
        filters.type or "", filters.relevance_min, filters.since_ms, filters.age_ms_max, filters.source, filters.tags
    )


def rows_of(entries: Sequence[Entry]) -> Rows:
    """Return the atoms, their distinct origins in order of appearance, and the origin index of each atom."""
    atoms = tuple([entry[1] for entry in entries])
    origins = tuple(dict.fromkeys([entry[2] for entry in entries]))
    if len(origins) < 2:
        return Rows(atoms, origins, ())
    places = {origin: place for place, origin in enumerate(origins)}
    return Rows(atoms, origins, tuple([places[entry[2]] for entry in entries]))


_new_entry: Final = partial(tuple.__new__, Entry)  # Entry._make without a Python frame for each entry


def entries_of(atoms: Sequence[Atom], origins: Sequence[bytes], origin_of: Sequence[int]) -> tuple[Entry, ...]:
    """Return the entries that ``rows_of`` encoded; ``check_rows`` must have checked the arguments."""
    if not atoms:
        return ()
    places = [origins[place] for place in origin_of] if origin_of else repeat(origins[0], len(atoms))
    return tuple(map(_new_entry, zip(atom_digests(atoms), atoms, places, strict=True)))


def payload_of_chunk(chunk: Chunk) -> StreamChunk:
    atoms, origins, origin_of = rows_of(chunk.entries)
    return StreamChunk(
        chunk.chunk_id, chunk.start, atoms, origins, origin_of, chunk.cumulative_tokens, chunk.progress_millionths, chunk.is_final,
        chunk.proof, over=tuple([WireOversize(*row) for row in chunk.over]),
    )  # fmt: skip


def chunk_of(payload: StreamChunk) -> Chunk:
    """Return the chunk, with the digests of its atoms computed here."""
    return Chunk(
        payload.chunk_id, payload.start, entries_of(payload.atoms, payload.origins, payload.origin_of), payload.cumulative_tokens,
        payload.progress_millionths, payload.is_final, payload.proof, tuple([Oversize(row.digest, row.origin, row.annotation) for row in payload.over]),
    )  # fmt: skip


def payload_of_expansion(expansion: Expansion) -> ExpandResponse:
    atoms, origins, origin_of = rows_of(expansion.entries)
    return ExpandResponse(
        atoms,
        origins,
        origin_of,
        tuple(_molecule_row(molecule) for molecule in expansion.molecules),
        tuple(WireBroken(row.digest, row.atoms) for row in expansion.broken),
    )


def expansion_of(context: bytes, payload: ExpandResponse) -> Expansion:
    """Return the expansion. Raises FormatError if the metadata of a molecule are no canonical map."""
    return Expansion(
        context,
        entries_of(payload.atoms, payload.origins, payload.origin_of),
        tuple(molecule_of(row) for row in payload.molecules),
        tuple(BrokenMolecule(row.digest, row.atoms) for row in payload.broken),
    )


def _molecule_row(molecule: Molecule) -> WireMolecule:
    return WireMolecule(molecule.atoms, molecule.relations, molecule.type, canonical(molecule.metadata).decode())


def molecule_of(row: WireMolecule) -> Molecule:
    return Molecule(row.atoms, row.relations, row.type, _metadata(row.metadata))


def _metadata(text: str) -> dict[str, JSONValue]:
    value = decode_canonical(text.encode())
    if not isinstance(value, dict):
        raise FormatError("the metadata of a molecule is not a map")
    return value


def check_rows(payload: ExpandResponse | StreamChunk | QueryResponse, limits: Limits) -> None:
    """Raise ProtocolError for faults that the schema cannot express: unknown origins, types nested too deeply."""
    atoms, origins, origin_of = payload.atoms, payload.origins, payload.origin_of
    check_atoms(atoms, limits)
    if origin_of:
        if len(origin_of) != len(atoms) or len(origins) < 2 or max(origin_of) >= len(origins):
            raise ProtocolError("the origins of atoms do not fit the atoms")
    elif len(origins) > 1 or (atoms and not origins):
        raise ProtocolError("the origins of atoms do not fit the atoms")


def check_atoms(atoms: Sequence[Atom], limits: Limits) -> None:
    """Raise ProtocolError for too many atoms, or a type that is nested too deeply."""
    if len(atoms) > limits.atoms:
        raise ProtocolError(f"{len(atoms)} atoms in a frame, {limits.atoms} were agreed")
    depth_max = limits.type_depth
    for kind in {atom.type for atom in atoms}:
        if kind.count("[") >= depth_max and nesting(kind) > depth_max:
            raise ProtocolError(f"a type is nested deeper than {depth_max} levels")
