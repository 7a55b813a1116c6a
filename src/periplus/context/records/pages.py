"""The objects below a context's record: pages of atoms, removals and molecules, and long contents.

Each has a small frame, so that no content can pass for a page::

    "PPCP" · version u8 · what u8 · payload

============ ===== ======================================================================================================
what         code  payload
============ ===== ======================================================================================================
ATOMS        1     msgpack ``[identities, [atom…], [[place, content object, length]…]]``, 1 to 256 atoms in their order
DIGESTS      2     1 to 4,096 digests, ascending
MOLECULES    3     msgpack ``[[atoms, [[name, [[i, j]…]]…], type, metadata]…]``, 1 to 16, ascending by digest
CONTENT      4     a text over 4,096 bytes, UTF-8
ATOM_PAGES   5     rows of 108 bytes: page · relevance u32 · time i64 · identity of its first atom · root of its subtree
DIGEST_PAGES 6     rows of 64 bytes: page · its first digest
MOLECULE_PAGES 7   rows of 64 bytes: page · digest of its first molecule
============ ===== ======================================================================================================

A page of atoms has their identities in one string, so that a merge or a look-up hashes nothing and reads no long
content; the identities are checked once, when the context comes in (``record.check``).

Everything here is bytes and values. Input is checked for shape and limits, and for its canonical form by encoding it
again.
"""

from __future__ import annotations

__all__ = [
    "CONTENT_INLINE_BYTES_MAX",
    "DIGESTS_PER_PAGE",
    "MOLECULES_PER_PAGE",
    "PAGE_ATOMS",
    "PAGE_BYTES_MAX",
    "AtomPage",
    "LongContent",
    "ObjectKind",
    "content_of",
    "content_page",
    "decode_atoms",
    "decode_digests",
    "decode_molecules",
    "encode_atoms",
    "encode_digests",
    "encode_molecules",
    "frame",
    "leaf_hashes",
    "object_kind",
    "unframe",
]

from collections.abc import Callable, Sequence
from enum import IntEnum
from hashlib import sha256
from itertools import pairwise
from struct import Struct
from typing import Annotated, Final

import msgspec

from periplus.base.encoding.canonical import JSONValue, canonical, decode_canonical
from periplus.base.encoding.digests import DIGEST_BYTES
from periplus.base.errors import FormatError, NewerFormatError, UsageError
from periplus.context.model import Atom, Molecule
from periplus.context.types import parse
from periplus.context.validation import (
    CONTENT_BYTES_MAX,
    MOLECULE_ATOMS_MAX,
    SOURCE_BYTES_MAX,
    TAG_BYTES_MAX,
    check_molecule,
)

PAGE_ATOMS: Final = 256
DIGESTS_PER_PAGE: Final = 4_096
MOLECULES_PER_PAGE: Final = 16
CONTENT_INLINE_BYTES_MAX: Final = 4_096
PAGE_BYTES_MAX: Final = 64 << 20  # a page of the largest molecules has 16 times 2.1 MB of atoms and 1.8 MB of pairs
_MAGIC: Final = b"PPCP"
_VERSION: Final = 1
_HEAD: Final = 6


class ObjectKind(IntEnum):
    """The kind of an object, from its frame."""

    ATOMS = 1
    DIGESTS = 2
    MOLECULES = 3
    CONTENT = 4
    ATOM_PAGES = 5
    DIGEST_PAGES = 6
    MOLECULE_PAGES = 7


class LongContent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The atom at ``place`` of its page, whose content of ``size_bytes`` is in an object of its own."""

    place: Annotated[int, msgspec.Meta(ge=0, lt=PAGE_ATOMS)]
    digest: Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    size_bytes: Annotated[int, msgspec.Meta(gt=CONTENT_INLINE_BYTES_MAX, le=CONTENT_BYTES_MAX)]


class AtomPage(msgspec.Struct, frozen=True, array_like=True):
    """Atoms in their order with their identities joined; ``long`` lists the contents that are elsewhere, and "" in
    ``atoms``.
    """

    identities: bytes
    atoms: Annotated[list[Atom], msgspec.Meta(min_length=1, max_length=PAGE_ATOMS)]
    long: Annotated[list[LongContent], msgspec.Meta(max_length=PAGE_ATOMS)]

    def digests(self) -> list[bytes]:
        """Return the identity of each atom."""
        joined = self.identities
        return [joined[at : at + DIGEST_BYTES] for at in range(0, len(joined), DIGEST_BYTES)]

    def whole(self, get: Callable[[bytes], bytes], texts: dict[bytes, str] | None = None) -> list[Atom]:
        """Return the atoms with their contents. Raises what ``get`` raises, FormatError for a content that differs from
        its description.

        ``texts`` caches contents for a caller that reads several pages, so that a repeated content is held once.
        """
        return self.some(0, len(self.atoms), get, texts) if self.long else self.atoms

    def some(
        self, start: int, stop: int, get: Callable[[bytes], bytes], texts: dict[bytes, str] | None = None
    ) -> list[Atom]:
        """Return the atoms from ``start`` to ``stop`` with their contents, like ``whole``."""
        known = {} if texts is None else texts
        atoms = self.atoms[start:stop]
        for long in self.long:
            if not start <= long.place < stop:
                continue
            text = known.get(long.digest)
            if text is None:
                text = known[long.digest] = content_of(get(long.digest))
            if len(text) > long.size_bytes or len(text.encode()) != long.size_bytes:
                raise FormatError(f"a content of {long.size_bytes:,} bytes is of another size", offset=_HEAD)
            atoms[long.place - start] = msgspec.structs.replace(atoms[long.place - start], content=text)
        return atoms


class _MoleculeForm(msgspec.Struct, frozen=True, array_like=True):
    atoms: bytes
    relations: list[tuple[str, list[tuple[int, int]]]]
    type: str
    metadata: bytes


_NUMBERS: Final = Struct(">IqI")  # relevance, time, length of the source
_ENCODER: Final = msgspec.msgpack.Encoder()
_ATOMS: Final = msgspec.msgpack.Decoder(AtomPage)
_MOLECULES: Final = msgspec.msgpack.Decoder(
    Annotated[list[_MoleculeForm], msgspec.Meta(min_length=1, max_length=MOLECULES_PER_PAGE)]
)


def frame(what: ObjectKind, payload: bytes) -> bytes:
    return b"%b%c%c%b" % (_MAGIC, _VERSION, what, payload)


def object_kind(data: bytes) -> ObjectKind | None:
    """Return the kind in the frame of ``data``; None without such a frame. Nothing else is checked."""
    if len(data) < _HEAD or data[:4] != _MAGIC or data[4] != _VERSION or not 1 <= data[5] <= len(ObjectKind):
        return None
    return ObjectKind(data[5])


def unframe(data: bytes, what: ObjectKind) -> bytes:
    """Return the payload of a framed object. Raises FormatError with the offset, NewerFormatError for a later version."""
    if len(data) > PAGE_BYTES_MAX:
        raise FormatError(f"a page over {PAGE_BYTES_MAX:,} bytes", offset=0)
    if data[:4] != _MAGIC:
        raise FormatError("not a page of a context: it does not begin with PPCP", offset=0)
    if len(data) <= _HEAD:
        raise FormatError("cut off: a page with nothing in it", offset=len(data))
    if data[4] > _VERSION:
        raise NewerFormatError(
            f"page version {data[4]}; this Periplus reads up to {_VERSION}", offset=4, mend="Update Periplus."
        )
    if data[4] != _VERSION:
        raise FormatError(f"page version {data[4]} unknown", offset=4)
    if data[5] != what:
        raise FormatError(f"an object of kind {data[5]} where {what.name} ({what:d}) was expected", offset=5)
    return data[_HEAD:]


def content_page(content: bytes) -> bytes:
    """Return the object of a long content."""
    return frame(ObjectKind.CONTENT, content)


def content_of(data: bytes) -> str:
    """Return the text of a content object. Raises FormatError."""
    payload = unframe(data, ObjectKind.CONTENT)
    if not CONTENT_INLINE_BYTES_MAX < len(payload) <= CONTENT_BYTES_MAX:
        raise FormatError("a content of its own that is too short or too long for one", offset=_HEAD)
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise FormatError("a content that is not UTF-8", offset=_HEAD + error.start) from error


def encode_atoms(identities: Sequence[bytes], atoms: Sequence[Atom]) -> tuple[bytes, list[bytes]]:
    """Return the page of ``atoms``, at most PAGE_ATOMS in their order, and the objects of their long contents."""
    long: list[LongContent] = []
    contents: list[bytes] = []
    known: dict[str, LongContent] = {}
    kept = atoms
    for place, atom in enumerate(atoms):
        if len(atom.content) <= CONTENT_INLINE_BYTES_MAX >> 2:
            continue
        same = known.get(atom.content)
        content = atom.content.encode() if same is None else b""
        if same is not None or len(content) > CONTENT_INLINE_BYTES_MAX:
            if not long:
                kept = list(atoms)
            if same is None:
                data = content_page(content)
                contents.append(data)
                same = known[atom.content] = LongContent(place, sha256(data).digest(), len(content))
            long.append(LongContent(place, same.digest, same.size_bytes))
            kept[place] = msgspec.structs.replace(atom, content="")  # type: ignore[index]  # a list since the first long one
    return frame(ObjectKind.ATOMS, _ENCODER.encode((b"".join(identities), kept, long))), contents


def decode_atoms(data: bytes, *, is_checked: bool = False) -> AtomPage:
    """Decode the page in ``data``. Raises FormatError if it is not the canonical form of a page within the limits.

    ``is_checked`` says that the same bytes were checked before and only need decoding.
    """
    payload = unframe(data, ObjectKind.ATOMS)
    try:
        page = _ATOMS.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"not a page of atoms: {error}", offset=_HEAD) from error
    if is_checked:
        return page
    if _ENCODER.encode(page) != payload:
        raise FormatError("a page of atoms that is not canonical", offset=_HEAD)
    if len(page.identities) != DIGEST_BYTES * len(page.atoms):
        raise FormatError("a page of atoms with another number of identities", offset=_HEAD)
    _check_long(page)
    for kind in {atom.type for atom in page.atoms}:
        parse(kind)
    for atom in page.atoms:
        if len(atom.content) > CONTENT_INLINE_BYTES_MAX >> 2 and len(atom.content.encode()) > CONTENT_INLINE_BYTES_MAX:
            raise FormatError(f"a content over {CONTENT_INLINE_BYTES_MAX:,} bytes within a page", offset=_HEAD)
        if len(atom.source) > SOURCE_BYTES_MAX >> 2 and len(atom.source.encode()) > SOURCE_BYTES_MAX:
            raise FormatError(f"a source over {SOURCE_BYTES_MAX:,} bytes", offset=_HEAD)
        if atom.tags:
            _check_tags(atom.tags)
    return page


def _check_long(page: AtomPage) -> None:
    places = [long.place for long in page.long]
    if any(left >= right for left, right in pairwise(places)) or (places and places[-1] >= len(page.atoms)):
        raise FormatError("long contents that are out of order, or of no atom", offset=_HEAD)
    if any(page.atoms[place].content for place in places):
        raise FormatError("an atom that has its content twice", offset=_HEAD)


def _check_tags(tags: tuple[str, ...]) -> None:
    if not tags[0] or any(left >= right for left, right in pairwise(tags)):
        raise FormatError("tags that are empty, out of order or twice", offset=_HEAD)
    if any(len(tag.encode()) > TAG_BYTES_MAX for tag in tags):
        raise FormatError(f"a tag over {TAG_BYTES_MAX} bytes", offset=_HEAD)


def encode_digests(digests: Sequence[bytes]) -> bytes:
    return frame(ObjectKind.DIGESTS, b"".join(digests))


def decode_digests(data: bytes) -> list[bytes]:
    """Return the digests of a page. Raises FormatError."""
    payload = unframe(data, ObjectKind.DIGESTS)
    if len(payload) % DIGEST_BYTES or len(payload) > DIGESTS_PER_PAGE * DIGEST_BYTES:
        raise FormatError(f"a page of digests of {len(payload):,} bytes", offset=_HEAD)
    digests = [payload[at : at + DIGEST_BYTES] for at in range(0, len(payload), DIGEST_BYTES)]
    for place, (left, right) in enumerate(pairwise(digests), 1):
        if left >= right:
            raise FormatError("digests out of order, or one twice", offset=_HEAD + place * DIGEST_BYTES)
    return digests


def encode_molecules(molecules: Sequence[Molecule]) -> bytes:
    forms = [
        _MoleculeForm(
            b"".join(molecule.atoms),
            [(name, list(pairs)) for name, pairs in molecule.relations.items()],
            molecule.type,
            canonical(molecule.metadata),
        )
        for molecule in molecules
    ]
    return frame(ObjectKind.MOLECULES, _ENCODER.encode(forms))


def decode_molecules(data: bytes) -> list[Molecule]:
    """Return the molecules of a page. Raises FormatError."""
    payload = unframe(data, ObjectKind.MOLECULES)
    try:
        forms = _MOLECULES.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"not a page of molecules: {error}", offset=_HEAD) from error
    molecules = [_molecule(place, form) for place, form in enumerate(forms)]
    if encode_molecules(molecules) != data:
        raise FormatError("a page of molecules that is not canonical", offset=_HEAD)
    return molecules


def _molecule(place: int, form: _MoleculeForm) -> Molecule:
    if len(form.atoms) % DIGEST_BYTES or len(form.atoms) > MOLECULE_ATOMS_MAX * DIGEST_BYTES:
        raise FormatError(f"molecule {place} has {len(form.atoms):,} bytes of digests", offset=_HEAD)
    metadata: JSONValue = decode_canonical(form.metadata)
    if not isinstance(metadata, dict):
        raise FormatError(f"molecule {place} has metadata that are no object", offset=_HEAD)
    molecule = Molecule(
        tuple([form.atoms[at : at + DIGEST_BYTES] for at in range(0, len(form.atoms), DIGEST_BYTES)]),
        {name: tuple(pairs) for name, pairs in form.relations},
        form.type,
        metadata,
    )
    try:
        return check_molecule(f"molecule {place}", molecule)
    except FormatError:
        raise
    except UsageError as error:
        raise FormatError(error.wrong, offset=_HEAD) from error


def leaf_hashes(identities: Sequence[bytes], atoms: Sequence[Atom]) -> list[bytes]:
    """Return for each atom ``leaf_hash(annotation_record(identity, atom))``, the leaves of a context's tree."""
    hasher = sha256
    numbers = _NUMBERS.pack
    join = b"".join
    leaves = []
    for identity, atom in zip(identities, atoms, strict=True):
        source = atom.source.encode()
        tail = _tags(atom.tags) if atom.tags else b"\0\0\0\0"
        leaves.append(
            hasher(join((b"\0", identity, numbers(atom.relevance, atom.time_ms, len(source)), source, tail))).digest()
        )
    return leaves


def _tags(tags: Sequence[str]) -> bytes:
    """Return the tags as encoded in an annotation record: their number, and each with its length."""
    out = len(tags).to_bytes(4, "big")
    for tag in tags:
        data = tag.encode()
        out += len(data).to_bytes(4, "big") + data
    return out
