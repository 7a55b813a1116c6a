"""A view of a context's record: its header is read at once, its pages on demand.

The layout is that of ``context.records.record``, which writes it; ``docs/formats/context.md`` describes every byte.
"""

from __future__ import annotations

__all__ = ["Digests", "GetObject", "PageRef", "RecordView", "read_header"]

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TypeAlias, overload

import msgspec

from periplus.base.encoding.canonical import JSONValue, decode_canonical
from periplus.base.encoding.container import KIND_CONTEXT, unpack
from periplus.base.encoding.digests import DIGEST_BYTES
from periplus.base.encoding.varint import read_uint
from periplus.base.errors import FormatError, NewerFormatError
from periplus.context.model import Atom, Context, ContextHeader, Molecule, OrderKey, order_key
from periplus.context.records import layout
from periplus.context.records.pages import (
    DIGESTS_PER_PAGE,
    MOLECULES_PER_PAGE,
    PAGE_ATOMS,
    AtomPage,
    ObjectKind,
    decode_atoms,
    decode_digests,
    decode_molecules,
    unframe,
)
from periplus.context.validation import ATOMS_MAX, MERGED_MAX, METADATA_BYTES_MAX, MOLECULES_MAX
from periplus.merkle import EMPTY_ROOT

GetObject: TypeAlias = Callable[[bytes], bytes]


class PageRef(msgspec.Struct, frozen=True):
    """A page of atoms: its object (b"" inside the record), the order key of its first atom, the place of that atom in
    the context, the number of atoms, and the root of their subtree.
    """

    digest: bytes
    first: OrderKey
    start: int
    count: int
    root: bytes


class RecordView:
    """A record: its header, and access to its atoms, removals and molecules.

    ``get`` returns the verified bytes of an object. Everything read through it is checked; raises FormatError if it
    does not match the record, and what ``get`` raises.
    """

    def __init__(self, header: ContextHeader, data: bytes, sections: dict[int, tuple[int, int]]) -> None:
        self.header = header
        self._data = data
        self._sections = sections

    def pages(self, get: GetObject) -> Sequence[PageRef]:
        """Return the pages of its atoms, in order."""
        header = self.header
        if not header.atom_count:
            return ()
        here = self._section(layout.ATOMS + layout.HERE)
        if here is not None:
            page = self._here(here)
            return (PageRef(b"", order_key(page.digests()[0], page.atoms[0]), 0, len(page.atoms), header.atoms_root),)
        return _PageRows(
            self._rows(layout.ATOMS, ObjectKind.ATOM_PAGES, layout.ATOM_ROW, PAGE_ATOMS, header.atom_count, get),
            header.atom_count,
        )

    def page_roots(self, get: GetObject) -> list[bytes]:
        """Return the root of the subtree of each page of its atoms, in order."""
        pages = self.pages(get)
        return pages.roots() if isinstance(pages, _PageRows) else [page.root for page in pages]

    def page_of(self, page: PageRef, get: GetObject, *, is_checked: bool = False) -> AtomPage:
        """Return a page without reading its long contents. ``is_checked`` as in ``decode_atoms``."""
        if page.digest:
            found = decode_atoms(get(page.digest), is_checked=is_checked)
        else:
            found = self._here(self._section(layout.ATOMS + layout.HERE) or b"")
        if len(found.atoms) != page.count or found.identities[:DIGEST_BYTES] != page.first[2]:
            raise FormatError(f"the page of atom {page.start:,} does not match its row")
        return found

    def atoms_of(self, page: PageRef, get: GetObject, texts: dict[bytes, str] | None = None) -> list[Atom]:
        """Return the whole atoms of a page; ``texts`` as in ``AtomPage.whole``."""
        return self.page_of(page, get).whole(get, texts)

    def rows_of(self, page: PageRef, get: GetObject, texts: dict[bytes, str] | None = None) -> list[tuple[bytes, Atom]]:
        """Return the whole atoms of a page, each behind its identity; ``texts`` as in ``AtomPage.whole``."""
        found = self.page_of(page, get)
        return list(zip(found.digests(), found.whole(get, texts), strict=True))

    def removed(self, get: GetObject) -> Sequence[bytes]:
        """Return its removals, ascending. Pages are read on demand; ``in`` reads at most one."""
        count = self.header.removed_count
        here = self._section(layout.REMOVED + layout.HERE)
        if not count:
            return ()
        if here is not None:
            found = decode_digests(here)
            if len(found) != count:
                raise FormatError(f"{len(found):,} removals where {count:,} were announced")
            return Digests(b"", count, get, found)
        rows = self._rows(layout.REMOVED, ObjectKind.DIGEST_PAGES, layout.ROW, DIGESTS_PER_PAGE, count, get)
        return Digests(rows, count, get)

    def molecules(self, get: GetObject) -> tuple[Molecule, ...]:
        """Return its molecules, ascending by digest."""
        count = self.header.molecule_count
        if not count:
            return ()
        here = self._section(layout.MOLECULES + layout.HERE)
        if here is not None:
            found = decode_molecules(here)
        else:
            rows = self._rows(layout.MOLECULES, ObjectKind.MOLECULE_PAGES, layout.ROW, MOLECULES_PER_PAGE, count, get)
            found = []
            for at in range(0, len(rows), layout.ROW):
                found += decode_molecules(get(rows[at : at + DIGEST_BYTES]))
        if len(found) != count:
            raise FormatError(f"{len(found):,} molecules where {count:,} were announced")
        return tuple(found)

    @property
    def holds_atoms(self) -> bool:
        """True if its atoms, if any, are in the record itself, except long contents."""
        return not self.header.atom_count or layout.ATOMS + layout.HERE in self._sections

    @property
    def holds_removals(self) -> bool:
        """True if its removals, if any, are in the record itself."""
        return not self.header.removed_count or layout.REMOVED + layout.HERE in self._sections

    def removal_parts(self) -> list[bytes]:
        """Return the objects of its removals that the record names: pages, or their index."""
        rows = self._section(layout.REMOVED + layout.ROWS) or b""
        index = self._section(layout.REMOVED + layout.INDEX)
        return [rows[at : at + DIGEST_BYTES] for at in range(0, len(rows), layout.ROW)] + ([index] if index else [])

    def contexts(self) -> list[bytes]:
        """Return its parents: the base, then the merged contexts."""
        header = self.header
        return [*(() if header.base is None else (header.base,)), *header.merged]

    def parts(self) -> list[bytes]:
        """Return its own objects that the record names; ``children_of`` returns those that these name."""
        found = []
        for section, width in (
            (layout.REMOVED, layout.ROW),
            (layout.MOLECULES, layout.ROW),
            (layout.ATOMS, layout.ATOM_ROW),
        ):
            rows = self._section(section + layout.ROWS) or b""
            found += [rows[at : at + DIGEST_BYTES] for at in range(0, len(rows), width)]
            found += [index] if (index := self._section(section + layout.INDEX)) else []
        here = self._section(layout.ATOMS + layout.HERE)
        if here is not None:
            found += [long.digest for long in self._here(here).long]
        return found

    def children(self) -> list[bytes]:
        """Return the objects that it names: contexts first, then its own."""
        return self.contexts() + self.parts()

    def check_named(self, get: GetObject) -> None:
        """Raise FormatError if a page is named twice, because a small record could then stand for any number of pages."""
        header = self.header
        for section, what, width, per_page, count in (
            (layout.ATOMS, ObjectKind.ATOM_PAGES, layout.ATOM_ROW, PAGE_ATOMS, header.atom_count),
            (layout.REMOVED, ObjectKind.DIGEST_PAGES, layout.ROW, DIGESTS_PER_PAGE, header.removed_count),
            (layout.MOLECULES, ObjectKind.MOLECULE_PAGES, layout.ROW, MOLECULES_PER_PAGE, header.molecule_count),
        ):
            if not count or section + layout.HERE in self._sections:
                continue
            rows = self._rows(section, what, width, per_page, count, get)
            if len({rows[at : at + DIGEST_BYTES] for at in range(0, len(rows), width)}) * width != len(rows):
                raise FormatError(f"the record names a page of {what.name} twice")

    def context(self, get: GetObject) -> Context:
        """Return the whole delta in canonical form."""
        header = self.header
        atoms: list[Atom] = []
        texts: dict[bytes, str] = {}
        for page in self.pages(get):
            atoms += self.atoms_of(page, get, texts)
        return Context(
            header.base, tuple(atoms), self.molecules(get), tuple(self.removed(get)), header.metadata, header.merged
        )

    def _section(self, tag: int) -> bytes | None:
        place = self._sections.get(tag)
        return None if place is None else self._data[place[0] : place[1]]

    def _here(self, data: bytes) -> AtomPage:
        page = decode_atoms(data)
        if len(page.atoms) != self.header.atom_count:
            raise FormatError(f"{len(page.atoms):,} atoms where {self.header.atom_count:,} were announced")
        return page

    def _rows(self, section: int, what: ObjectKind, width: int, per_page: int, count: int, get: GetObject) -> bytes:
        wanted = -(-count // per_page)
        rows = self._section(section + layout.ROWS)
        if rows is None:
            rows = unframe(get(self._section(section + layout.INDEX) or b""), what)
        if len(rows) != wanted * width:
            raise FormatError(f"{len(rows):,} bytes of rows where {wanted:,} pages were expected")
        return rows


class _PageRows(Sequence[PageRef]):
    """Rows of pages, decoded on demand."""

    def __init__(self, rows: bytes, count: int) -> None:
        self._rows = rows
        self._count = count

    def __len__(self) -> int:
        return len(self._rows) // layout.ATOM_ROW

    def roots(self) -> list[bytes]:
        return [
            self._rows[end - DIGEST_BYTES : end] for end in range(layout.ATOM_ROW, len(self._rows) + 1, layout.ATOM_ROW)
        ]

    @overload
    def __getitem__(self, place: int) -> PageRef: ...
    @overload
    def __getitem__(self, place: slice) -> list[PageRef]: ...
    def __getitem__(self, place: int | slice) -> PageRef | list[PageRef]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(place)
        row = self._rows[place * layout.ATOM_ROW : (place + 1) * layout.ATOM_ROW]
        relevance, time_ms = int.from_bytes(row[32:36], "big"), int.from_bytes(row[36:44], "big", signed=True)
        start = place * PAGE_ATOMS
        return PageRef(
            row[:32], (-relevance, -time_ms, row[44:76]), start, min(PAGE_ATOMS, self._count - start), row[76:108]
        )


class Digests(Sequence[bytes]):
    """Ascending digests in pages that are read on demand; the last page is cached."""

    def __init__(self, rows: bytes, count: int, get: GetObject, only: list[bytes] | None = None) -> None:
        self._rows = rows
        self._count = count
        self._get = get
        self._firsts = [rows[at + DIGEST_BYTES : at + layout.ROW] for at in range(0, len(rows), layout.ROW)]
        self._held = (-1, only or [])
        self._only = only

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(self._count))]
        if place < 0:
            place += self._count
        if not 0 <= place < self._count:
            raise IndexError(place)
        page, at = divmod(place, DIGESTS_PER_PAGE)
        return self._page(page)[at]

    def __iter__(self) -> Iterator[bytes]:
        for page in range(-(-self._count // DIGESTS_PER_PAGE)):
            yield from self._page(page)

    def __contains__(self, digest: object) -> bool:
        if not isinstance(digest, bytes):
            return False
        page = 0 if self._only is not None else bisect_right(self._firsts, digest) - 1
        if page < 0:
            return False
        digests = self._page(page)
        at = bisect_left(digests, digest)
        return at < len(digests) and digests[at] == digest

    def _page(self, page: int) -> list[bytes]:
        if self._only is not None:
            return self._only
        if self._held[0] != page:
            at = page * layout.ROW
            digests = decode_digests(self._get(self._rows[at : at + DIGEST_BYTES]))
            wanted = min(DIGESTS_PER_PAGE, self._count - page * DIGESTS_PER_PAGE)
            if len(digests) != wanted or digests[0] != self._firsts[page]:
                raise FormatError(f"page {page:,} of removals does not match its row")
            self._held = (page, digests)
        return self._held[1]


def read_header(data: bytes) -> RecordView:
    """Read the record in ``data``, checked as far as possible without its objects.

    Raises FormatError with the offset of the fault, NewerFormatError for a record of a later version.
    """
    if len(data) > layout.RECORD_BYTES_MAX:
        raise FormatError(f"a context's record over {layout.RECORD_BYTES_MAX:,} bytes", offset=layout.RECORD_BYTES_MAX)
    sections = unpack(data, KIND_CONTEXT)
    numbers, at = _numbers(data, sections)
    depth, live, atom_count, molecule_count, removed_count = numbers
    for tag, (start, _) in sections.items():
        if tag not in layout.KNOWN:
            raise FormatError(f"section {tag:#04x} unknown in a context's record", offset=start)
    base = _digest_at(data, sections, layout.BASE) if layout.BASE in sections else None
    merged = _merged(data, sections)
    root = _digest_at(data, sections, layout.ROOT)
    if merged and (base is None or base in merged):
        raise FormatError("contexts merged into a root, or the base among them", offset=sections[layout.MERGED][0])
    if (base is None) != (depth == 0):
        raise FormatError("depth 0 belongs to roots, and only to roots", offset=at)
    if (atom_count == 0) != (root == EMPTY_ROOT):
        raise FormatError("the root of an empty tree for atoms, or the reverse", offset=sections[layout.ROOT][0])
    _check_list(sections, layout.REMOVED, removed_count, layout.ROW, DIGESTS_PER_PAGE)
    _check_list(sections, layout.MOLECULES, molecule_count, layout.ROW, MOLECULES_PER_PAGE)
    _check_list(sections, layout.ATOMS, atom_count, layout.ATOM_ROW, PAGE_ATOMS)
    header = ContextHeader(
        sha256(data).digest(), base, merged, depth, live, atom_count, molecule_count, removed_count, root,
        _read_metadata(data, sections),
    )  # fmt: skip
    return RecordView(header, data, sections)


def _numbers(data: bytes, sections: dict[int, tuple[int, int]]) -> tuple[list[int], int]:
    if layout.NUMBERS not in sections:
        raise FormatError("a context's record without its numbers", offset=6)
    start, end = sections[layout.NUMBERS]
    version, at = read_uint(data, start, end)
    if version > layout.RECORD_VERSION:
        raise NewerFormatError(
            f"a context's record of version {version}; this Periplus reads up to {layout.RECORD_VERSION}",
            offset=start,
            safe="The record is sound.",
            mend="Update Periplus.",
        )
    if version != layout.RECORD_VERSION:
        raise FormatError(f"a context's record of version {version}", offset=start)
    numbers = []
    for most in (layout.DEPTH_MAX, layout.LIVE_MAX, ATOMS_MAX, MOLECULES_MAX, ATOMS_MAX):
        number, after = read_uint(data, at, end)
        if number > most:
            raise FormatError(f"a number over {most:,}", offset=at)
        numbers.append(number)
        at = after
    if at != end:
        raise FormatError("bytes after the numbers", offset=at)
    return numbers, start


def _digest_at(data: bytes, sections: dict[int, tuple[int, int]], tag: int) -> bytes:
    if tag not in sections:
        raise FormatError("a context's record without the root of its atoms", offset=6)
    start, end = sections[tag]
    if end - start != DIGEST_BYTES:
        raise FormatError(f"a digest of {end - start} bytes", offset=start)
    return data[start:end]


def _merged(data: bytes, sections: dict[int, tuple[int, int]]) -> tuple[bytes, ...]:
    if layout.MERGED not in sections:
        return ()
    start, end = sections[layout.MERGED]
    if (end - start) % DIGEST_BYTES or not 0 < end - start <= MERGED_MAX * DIGEST_BYTES:
        raise FormatError(f"{end - start} bytes of contexts merged in", offset=start)
    merged = tuple([data[at : at + DIGEST_BYTES] for at in range(start, end, DIGEST_BYTES)])
    if any(left >= right for left, right in pairwise(merged)):
        raise FormatError("contexts merged in, out of order or twice", offset=start)
    return merged


def _read_metadata(data: bytes, sections: dict[int, tuple[int, int]]) -> dict[str, JSONValue]:
    if layout.METADATA not in sections:
        return {}
    start, end = sections[layout.METADATA]
    if end - start > METADATA_BYTES_MAX:
        raise FormatError(f"{end - start:,} bytes of metadata; at most {METADATA_BYTES_MAX:,}", offset=start)
    try:
        value = decode_canonical(data[start:end])
    except FormatError as error:
        raise FormatError(f"metadata: {error.wrong}", offset=start) from error
    if not isinstance(value, dict) or not value:
        raise FormatError("metadata: an object that is not empty was expected", offset=start)
    return value


def _check_list(sections: dict[int, tuple[int, int]], section: int, count: int, row: int, each: int) -> None:
    """Check that a list has the form that its length requires, as far as the record alone shows it."""
    found = [form for form in (layout.HERE, layout.ROWS, layout.INDEX) if section + form in sections]
    if len(found) != (count > 0):
        raise FormatError(f"{count:,} announced, and {len(found)} sections from {section:#04x} on", offset=6)
    if not found:
        return
    start, end = sections[section + found[0]]
    size, wanted = end - start, -(-count // each)
    if found[0] == layout.HERE:
        most = 6 + layout.INLINE_DIGESTS_MAX * DIGEST_BYTES if section == layout.REMOVED else layout.INLINE_BYTES_MAX
        right = size <= most and (count <= layout.INLINE_DIGESTS_MAX if section == layout.REMOVED else count <= each)
    elif found[0] == layout.ROWS:
        right = wanted <= layout.ROWS_INLINE_MAX and size == wanted * row
    else:
        right = wanted > layout.ROWS_INLINE_MAX and size == DIGEST_BYTES
    if not right:
        raise FormatError(
            f"section {section + found[0]:#04x} has {size:,} bytes, for {count:,} announced", offset=start
        )
