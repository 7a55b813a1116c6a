"""The graph of commits, and one commit with its delta."""

from __future__ import annotations

__all__ = ["CommitPage", "GraphPage", "commit", "graph"]

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import DamageError, NotFoundError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.context.model import atom_digest, molecule_digest
from periplus.web.pages.contexts.values import (
    AtomRow,
    CommitRow,
    atom_row,
    commit_address,
    commit_row,
    named_or_default,
    refs_by_target,
    short,
)
from periplus.web.pages.model import Asked, View
from periplus.web.rendering.lanes import Commit, commit_lanes

if TYPE_CHECKING:
    from markupsafe import Markup

    from periplus.context.model import ContextHeader, Molecule
    from periplus.project.context_store.contexts import ProjectContexts

ROWS: Final = 80
ENDS_MAX: Final = 24  # open ends that a next page begins from
ATOMS_MAX: Final = 100
READ_MAX: Final = 20_000  # atoms of a delta that is read whole; of a larger one only the header is shown
MOLECULES_MAX: Final = 50


class GraphPage(NamedTuple):
    """Commits, newest first, as a picture and as rows. ``missing`` are parents that are not here."""

    reference: str
    refs: tuple[str, ...]
    rows: tuple[CommitRow, ...]
    picture: Markup | None
    older: str
    missing: int


class MoleculeRow(NamedTuple):
    digest: str
    type: str
    atoms: int
    relations: tuple[str, ...]


class CommitPage(NamedTuple):
    """One commit; ``atoms`` is None where the delta is too large to read for a page."""

    reference: str
    row: CommitRow
    base: str
    parents: tuple[tuple[str, str], ...]
    atoms_root: str
    atoms: tuple[AtomRow, ...] | None
    removed: tuple[str, ...]
    molecules: tuple[MoleculeRow, ...]
    metadata: tuple[tuple[str, str], ...]


def graph(asked: Asked) -> View:
    """Show the commits of all refs, or of one context, after all their descendants."""
    contexts, query = asked.project.contexts, asked.query
    refs = contexts.table.all()
    reference = query.text("ref")
    if query.text("from"):
        starts = _ends(query.text("from"))
    else:
        starts = [contexts.resolve(reference)] if reference else list(refs.values())
    headers, ends, missing = _walk(contexts, starts)
    at = refs_by_target(refs)
    rows = tuple(commit_row(header, at) for header in headers)
    older = asked.link(**{"from": ",".join(one.hex() for one in ends)}) if ends else ""
    shown = GraphPage(reference, tuple(refs), rows, _picture(rows) if rows else None, older, missing)
    command = f"periplus context log {reference}".strip()
    return View("contexts/graph.html", "Commits", {"page": shown}, command)


def commit(asked: Asked) -> View:
    """Show one commit: who, when, why, and its delta."""
    contexts = asked.project.contexts
    reference = named_or_default(contexts, asked.query.text("ref"))
    digest = contexts.resolve(reference)
    header = contexts.library.header(digest)
    row = commit_row(header, refs_by_target(contexts.table.all()))
    atoms: tuple[AtomRow, ...] | None = None
    removed: tuple[str, ...] = ()
    molecules: tuple[MoleculeRow, ...] = ()
    if header.atom_count + header.removed_count + header.molecule_count <= READ_MAX:
        delta = contexts.library.context(digest)
        atoms = tuple(atom_row(atom_digest(one), one) for one in delta.atoms[:ATOMS_MAX])
        removed = tuple(one.hex() for one in delta.removed[:ATOMS_MAX])
        molecules = tuple(map(_molecule, delta.molecules[:MOLECULES_MAX]))
    said = {"author", "message", "time_ms"}
    metadata = tuple((str(key)[:100], str(value)[:500]) for key, value in header.metadata.items() if key not in said)
    shown = CommitPage(
        reference, row, short(header.base) if header.base else "", tuple((short(one), commit_address(one)) for one in row.parents),
        header.atoms_root.hex(), atoms, removed, molecules, metadata[:MOLECULES_MAX],
    )  # fmt: skip
    return View("contexts/commit.html", f"Context {row.short}", {"page": shown}, f"periplus context show {row.short}")


def _walk(contexts: ProjectContexts, starts: Iterable[bytes]) -> tuple[list[ContextHeader], list[bytes], int]:
    """Return a page of headers, each after all its descendants; the open ends behind it; and the number of contexts that are not here."""
    heap: list[tuple[int, bytes, ContextHeader]] = []
    seen = set[bytes]()
    missing = 0

    def reach(digest: bytes) -> None:
        nonlocal missing
        if digest in seen:
            return
        seen.add(digest)
        try:
            header = contexts.library.header(digest)
        except (NotFoundError, DamageError):
            missing += 1
            return
        heappush(heap, (-header.depth, digest, header))

    for start in starts:
        reach(start)
    found: list[ContextHeader] = []
    while heap and len(found) < ROWS:
        _, _, header = heappop(heap)
        found.append(header)
        for parent in ((header.base,) if header.base is not None else ()) + header.merged:
            reach(parent)
    return found, [digest for _, digest, _ in sorted(heap)[:ENDS_MAX]], missing


def _ends(text: str) -> list[bytes]:
    parts = text.split(",")[:ENDS_MAX]
    if not all(map(is_digest_text, parts)):
        raise UsageError("from must be digests of contexts")
    return [bytes.fromhex(one) for one in parts]


def _picture(rows: Sequence[CommitRow]) -> Markup:
    commits = [
        Commit(
            row.digest, row.message.split("\n")[0] or row.short, row.parents, "  ".join(filter(None, (", ".join(row.refs), row.author, row.time[:10]))),
            row.address, "ref" if row.refs else "merge" if row.is_merge else "plain", f"{row.short}: {row.message or 'no message'}",
        )
        for row in rows
    ]  # fmt: skip
    return commit_lanes(commits, label="Commits with lanes of their lines, newest first")


def _molecule(molecule: Molecule) -> MoleculeRow:
    relations = tuple(
        f"{name[:60]} ({len(pairs):,})" for name, pairs in list(molecule.relations.items())[:MOLECULES_MAX]
    )
    return MoleculeRow(short(molecule_digest(molecule)), molecule.type[:100], len(molecule.atoms), relations)
