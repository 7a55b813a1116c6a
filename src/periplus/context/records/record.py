"""Records of contexts: the canonical bytes whose SHA-256 is the context's digest.

A record is a container (``base.container``) of kind 2 that holds the content of a context, or names the objects that
hold it. Equal contexts have equal records, whoever writes them and in whatever order they were given. Short lists are
in the record itself; the rule is part of the format (numbers in ``context.records.layout``):

* atoms: one page of at most 256 atoms and INLINE_BYTES_MAX bytes is in the record, else there are pages of 256 atoms each, the
  last one with the rest. Pages are complete subtrees of the tree over the atoms, so that their roots give its root;
* removals: up to INLINE_DIGESTS_MAX are in the record, else there are pages of 4,096;
* molecules: one page of at most 16 molecules and INLINE_BYTES_MAX bytes is in the record, else there are pages of 16;
* up to ROWS_INLINE_MAX rows that name pages are in the record, more are in an object.

``read_header`` checks a record as far as possible without its objects; ``check`` reads everything and encodes it again.
Nothing here does I/O: objects come from ``get``, a function from digest to verified bytes.
"""

from __future__ import annotations

__all__ = [
    "AtomPages",
    "Digests",
    "Encoded",
    "GetObject",
    "PageRef",
    "Prepared",
    "RecordView",
    "atom",
    "check",
    "children_of",
    "decode",
    "encode",
    "is_of_contexts",
    "normalised",
    "prepare",
    "read_header",
]

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from periplus.base.encoding.canonical import canonical
from periplus.base.encoding.container import KIND_CONTEXT, MAGIC, kind_of, pack
from periplus.base.encoding.digests import DIGEST_BYTES
from periplus.base.encoding.varint import append_uint
from periplus.base.errors import FormatError, UsageError
from periplus.context.model import Atom, Context, ContextHeader, Molecule
from periplus.context.records import layout
from periplus.context.records.header_view import Digests, GetObject, PageRef, RecordView, read_header
from periplus.context.records.pages import (
    DIGESTS_PER_PAGE,
    MOLECULES_PER_PAGE,
    PAGE_ATOMS,
    ObjectKind,
    decode_atoms,
    encode_atoms,
    encode_digests,
    encode_molecules,
    frame,
    leaf_hashes,
    object_kind,
    unframe,
)
from periplus.context.validation import Prepared, atom, normalised, prepare
from periplus.merkle import EMPTY_ROOT, root_of


class Encoded(NamedTuple):
    """A record and its objects, the record first. ``digest`` is that of the context."""

    digest: bytes
    objects: tuple[tuple[bytes, bytes], ...]
    header: ContextHeader


class _Objects:
    """The objects of one list: in memory with parents first, or passed on with parents last."""

    def __init__(self, sink: Callable[[bytes], object] | None) -> None:
        self.held: dict[bytes, bytes] = {}
        self._sink = sink

    def add(self, data: bytes, below: Sequence[bytes] = ()) -> bytes:
        """Keep ``data``, which names ``below`` and perhaps everything added before; return its digest."""
        digest = sha256(data).digest()
        if self._sink is None:
            self.held.setdefault(digest, data)
            for object_ in below:
                self.held.setdefault(sha256(object_).digest(), object_)
        else:
            for object_ in (*below, data):
                self._sink(object_)
        return digest

    def add_first(self, data: bytes) -> bytes:
        before, self.held = self.held, {}
        digest = self.add(data)
        self.held |= before
        return digest


_Sections: TypeAlias = dict[int, bytes]


def encode(
    context: Context | Prepared, *, depth: int, live: int, sink: Callable[[bytes], object] | None = None
) -> Encoded:
    """Return the record of ``context`` and its objects. ``depth`` and ``live`` are the numbers of its header.

    With ``sink`` each object is passed on when it is made, none before those that it names, and ``objects`` stays
    empty: a large context then takes no memory beside its atoms. Raises UsageError naming the invalid field, before
    anything is passed on.
    """
    prepared = context if isinstance(context, Prepared) else prepare(context)
    _check_count("depth", depth, layout.DEPTH_MAX)
    _check_count("live", live, layout.LIVE_MAX)
    held = _Objects(sink)
    root, atoms = _atom_sections(prepared.atom_digests, prepared.context.atoms, held)
    return _encoded(prepared, len(prepared.context.atoms), root, atoms, held, (depth, live), sink)


class AtomPages:
    """The pages of more atoms than fit into memory: they come page by page in their order, and go to ``sink``."""

    def __init__(self, sink: Callable[[bytes], object]) -> None:
        self.count = 0
        self._sink = sink
        self._objects = _Objects(sink)
        self._rows: list[bytes] = []
        self._roots: list[bytes] = []

    def add(self, digests: Sequence[bytes], atoms: Sequence[Atom]) -> None:
        """Add the next PAGE_ATOMS atoms; the last call may have fewer."""
        assert self.count % PAGE_ATOMS == 0
        assert 0 < len(atoms) <= PAGE_ATOMS
        page, contents = encode_atoms(digests, atoms)
        root = root_of(leaf_hashes(digests, atoms))
        self._rows.append(_atom_row(self._objects.add(page, contents), digests[0], atoms[0], root))
        self._roots.append(root)
        self.count += len(atoms)

    def encode(self, context: Prepared, *, depth: int, live: int) -> Encoded:
        """Return the record of ``context``, which holds everything but its atoms, over these pages; the record goes to
        the sink as well.
        """
        assert not context.context.atoms
        assert self.count > PAGE_ATOMS  # fewer might belong into the record
        _check_count("depth", depth, layout.DEPTH_MAX)
        _check_count("live", live, layout.LIVE_MAX)
        atoms = _paged(layout.ATOMS, ObjectKind.ATOM_PAGES, self._rows, self._objects)
        root = root_of(self._roots)
        return _encoded(context, self.count, root, atoms, self._objects, (depth, live), self._sink)


def _encoded(
    prepared: Prepared,
    atom_count: int,
    root: bytes,
    atoms: _Sections,
    held: _Objects,
    whole: tuple[int, int],
    sink: Callable[[bytes], object] | None,
) -> Encoded:
    """Return the record of ``prepared``, whose atoms are ``held``; depth and live atoms are ``whole``."""
    value = prepared.context
    depth, live = whole
    lists = (held, _Objects(sink), _Objects(sink))
    counts = (atom_count, len(value.molecules), len(value.removed))
    numbers = bytearray()
    for number in (layout.RECORD_VERSION, depth, live, *counts):
        append_uint(numbers, number)
    sections: dict[int, bytes | bytearray] = {layout.NUMBERS: numbers, layout.ROOT: root, **atoms}
    sections |= _removed_sections(value.removed, lists[1])
    sections |= _molecule_sections(prepared.molecule_digests, value.molecules, lists[2])
    if value.base is not None:
        sections[layout.BASE] = value.base
    if value.merged:
        sections[layout.MERGED] = b"".join(value.merged)
    if value.metadata:
        sections[layout.METADATA] = canonical(value.metadata)
    record = pack(KIND_CONTEXT, sections)
    digest = sha256(record).digest()
    header = ContextHeader(digest, value.base, value.merged, depth, live, *counts, root, value.metadata)
    if sink is not None:
        sink(record)
        return Encoded(digest, (), header)
    objects = {digest: record}
    for some in lists:
        objects |= some.held
    return Encoded(digest, tuple(objects.items()), header)


def _atom_sections(digests: Sequence[bytes], atoms: Sequence[Atom], objects: _Objects) -> tuple[bytes, _Sections]:
    if not atoms:
        return EMPTY_ROOT, {}
    rows = []
    roots = []
    for start in range(0, len(atoms), PAGE_ATOMS):
        some, identities = atoms[start : start + PAGE_ATOMS], digests[start : start + PAGE_ATOMS]
        page, contents = encode_atoms(identities, some)
        root = root_of(leaf_hashes(identities, some))
        if len(atoms) <= PAGE_ATOMS and len(page) <= layout.INLINE_BYTES_MAX:
            for content in contents:
                objects.add(content)
            return root, {layout.ATOMS + layout.HERE: page}
        roots.append(root)
        rows.append(_atom_row(objects.add(page, contents), identities[0], some[0], root))
    return root_of(roots), _paged(layout.ATOMS, ObjectKind.ATOM_PAGES, rows, objects)


def _atom_row(page: bytes, digest: bytes, first: Atom, root: bytes) -> bytes:
    return page + first.relevance.to_bytes(4, "big") + first.time_ms.to_bytes(8, "big", signed=True) + digest + root


def _removed_sections(removed: Sequence[bytes], objects: _Objects) -> _Sections:
    if not removed:
        return {}
    if len(removed) <= layout.INLINE_DIGESTS_MAX:
        return {layout.REMOVED + layout.HERE: encode_digests(removed)}
    rows = [
        objects.add(encode_digests(removed[start : start + DIGESTS_PER_PAGE])) + removed[start]
        for start in range(0, len(removed), DIGESTS_PER_PAGE)
    ]
    return _paged(layout.REMOVED, ObjectKind.DIGEST_PAGES, rows, objects)


def _molecule_sections(digests: Sequence[bytes], molecules: Sequence[Molecule], objects: _Objects) -> _Sections:
    if not molecules:
        return {}
    rows = []
    for start in range(0, len(molecules), MOLECULES_PER_PAGE):
        page = encode_molecules(molecules[start : start + MOLECULES_PER_PAGE])
        if len(molecules) <= MOLECULES_PER_PAGE and len(page) <= layout.INLINE_BYTES_MAX:
            return {layout.MOLECULES + layout.HERE: page}
        rows.append(objects.add(page) + digests[start])
    return _paged(layout.MOLECULES, ObjectKind.MOLECULE_PAGES, rows, objects)


def _paged(section: int, what: ObjectKind, rows: list[bytes], objects: _Objects) -> _Sections:
    joined = b"".join(rows)
    if len(rows) <= layout.ROWS_INLINE_MAX:
        return {section + layout.ROWS: joined}
    return {section + layout.INDEX: objects.add_first(frame(what, joined))}


def decode(data: bytes, get: GetObject) -> Context:
    """Return the context of a record, whole and in canonical form. Raises like RecordView."""
    return read_header(data).context(get)


def check(data: bytes, get: GetObject) -> RecordView:
    """Read a record of another store with all its objects and check it against its canonical form.

    Identities, order, roots and forms are computed again and must give the same bytes. Raises FormatError,
    NewerFormatError and what ``get`` raises. ``depth``, ``live`` and everything that needs the base are not checked.
    """
    view = read_header(data)
    header = view.header
    try:
        anew = encode(view.context(get), depth=header.depth, live=header.live, sink=lambda _: None)
    except FormatError:
        raise
    except UsageError as error:
        raise FormatError(f"an invalid context: {error.wrong}") from error
    if anew.digest != header.digest:
        raise FormatError("the record and its objects are not canonical")
    return view


def children_of(data: bytes) -> list[bytes]:
    """Return the objects that an object of contexts names: of a record ``RecordView.children``, of a page its contents,
    of an index its pages.

    Raises FormatError for any other object.
    """
    if data[:4] == MAGIC:
        return read_header(data).children()
    what = object_kind(data)
    if what is ObjectKind.ATOMS:
        return [long.digest for long in decode_atoms(data).long]
    if what in (ObjectKind.ATOM_PAGES, ObjectKind.DIGEST_PAGES, ObjectKind.MOLECULE_PAGES):
        rows = unframe(data, what)
        width = layout.ATOM_ROW if what is ObjectKind.ATOM_PAGES else layout.ROW
        if len(rows) % width:
            raise FormatError(f"{len(rows):,} bytes of rows of {width}", offset=6)
        return [rows[at : at + DIGEST_BYTES] for at in range(0, len(rows), width)]
    if what is None:
        raise FormatError("neither a context's record nor a page of one", offset=0)
    return []


def is_of_contexts(head: bytes) -> bool:
    """Return whether the first bytes of an object (8 are enough) claim that it belongs to contexts. Nothing else is
    checked.
    """
    return kind_of(head) == KIND_CONTEXT or object_kind(head) is not None


def _check_count(field: str, value: object, most: int) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise UsageError(f"{field}: a number from 0 to {most:,} was expected")
