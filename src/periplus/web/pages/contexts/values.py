"""Contexts, commits and atoms as the pages show them."""

from __future__ import annotations

__all__ = [
    "AtomRow",
    "CommitRow",
    "atom_row",
    "commit_address",
    "commit_row",
    "entry_row",
    "named_or_default",
    "refs_by_target",
    "short",
    "time_text",
]

import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from periplus.base.clock import format_ms
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.context.deltas.log import commit_info
from periplus.project.context_store.contexts import DEFAULT_REF

if TYPE_CHECKING:
    from periplus.context.model import Atom, ContextHeader, Entry
    from periplus.project.context_store.contexts import ProjectContexts

SHORT_DIGITS: Final = 12
CONTENT_CHARACTERS_MAX: Final = 4_000
SOURCE_CHARACTERS_MAX: Final = 300
TAGS_SHOWN_MAX: Final = 12
MESSAGE_CHARACTERS_MAX: Final = 400
_MILLION: Final = 1_000_000
_TIME_MS_MAX: Final = 253_402_300_799_999  # the year 9999


class AtomRow(NamedTuple):
    """An atom. ``origin`` is the commit that said it last; ``source_address`` where its source is a thing of the memory; ``cut`` counts
    the characters that are not shown.
    """

    digest: str
    short: str
    content: str
    cut: int
    type: str
    relevance: float
    time: str
    source: str
    source_address: str
    tags: tuple[str, ...]
    origin: str
    origin_address: str


class CommitRow(NamedTuple):
    """A commit of a context, by its header. ``parents`` are its base, then the contexts that it merged."""

    digest: str
    short: str
    address: str
    author: str
    time: str
    message: str
    added: int
    removed: int
    molecules: int
    live: int
    depth: int
    is_merge: bool
    refs: tuple[str, ...]
    parents: tuple[str, ...]


def short(digest: bytes | str) -> str:
    """Return the digits by which a digest is shown."""
    return (digest if isinstance(digest, str) else digest.hex())[:SHORT_DIGITS]


def commit_address(reference: str) -> str:
    """Return the address of a commit, by its digest or a name."""
    return "/contexts/show?" + urllib.parse.urlencode({"ref": reference})


def time_text(time_ms: int | None) -> str:
    return format_ms(time_ms) if time_ms is not None and 0 <= time_ms <= _TIME_MS_MAX else ""


def refs_by_target(refs: Mapping[str, bytes]) -> dict[bytes, tuple[str, ...]]:
    """Map contexts to the names of the refs that point to them."""
    found: dict[bytes, tuple[str, ...]] = {}
    for name, target in refs.items():
        found[target] = (*found.get(target, ()), name)
    return found


def commit_row(header: ContextHeader, refs: Mapping[bytes, tuple[str, ...]]) -> CommitRow:
    by = commit_info(header)
    parents = tuple(one.hex() for one in ((header.base,) if header.base is not None else ()) + header.merged)
    return CommitRow(
        header.digest.hex(), short(header.digest), commit_address(header.digest.hex()), by.author[:SOURCE_CHARACTERS_MAX], time_text(by.time_ms),
        by.message[:MESSAGE_CHARACTERS_MAX], header.atom_count, header.removed_count, header.molecule_count, header.live, header.depth,
        bool(header.merged), refs.get(header.digest, ()), parents,
    )  # fmt: skip


def atom_row(digest: bytes, atom: Atom, origin: bytes = b"") -> AtomRow:
    source = atom.source[:SOURCE_CHARACTERS_MAX]
    is_entity = is_id(source) and not source.startswith("lin_")
    return AtomRow(
        digest.hex(), short(digest), atom.content[:CONTENT_CHARACTERS_MAX], max(0, len(atom.content) - CONTENT_CHARACTERS_MAX),
        atom.type[:SOURCE_CHARACTERS_MAX], atom.relevance / _MILLION, time_text(atom.time_ms), source, f"/memory/{source}" if is_entity else "",
        tuple(tag[:SOURCE_CHARACTERS_MAX] for tag in atom.tags[:TAGS_SHOWN_MAX]), short(origin), commit_address(origin.hex()) if origin else "",
    )  # fmt: skip


def entry_row(entry: Entry) -> AtomRow:
    return atom_row(entry.digest, entry.atom, entry.origin)


def named_or_default(contexts: ProjectContexts, reference: str) -> str:
    """Return the reference, or where it is empty the ref ``main``, or the first ref where there is no ``main``."""
    if reference:
        return reference
    names = contexts.table.all()
    return DEFAULT_REF if DEFAULT_REF in names or not names else next(iter(names))
