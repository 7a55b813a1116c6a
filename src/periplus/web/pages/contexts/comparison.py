"""Two contexts compared, and what merging one into the other would do. Nothing is written."""

from __future__ import annotations

__all__ = ["ComparisonPage", "compare"]

import shlex
from functools import partial
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.context.deltas.comparison import Diff, diff
from periplus.context.model import molecule_digest
from periplus.web.pages.contexts.values import AtomRow, atom_row, entry_row, named_or_default, short
from periplus.web.pages.model import Asked, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from periplus.context.deltas.comparison import Reannotated
    from periplus.context.deltas.merge import Conflict, Resolution, Side
    from periplus.project import Project
    from periplus.project.context_store.contexts import Merged
    from periplus.web.background import Job

ROWS: Final = 100  # of each kind of change
AT_ONCE_ATOMS: Final = 20_000  # atoms of both that are compared within a request; more in the background
_CONFLICTS: Final = {
    "annotated": "one side removed it, the other annotated it",
    "decided": "it was in conflict before: one side decided to remove it, the other to keep it",
    "molecule": "one side removed it, the other built a molecule on it",
}
_FIELDS: Final = ("relevance", "time", "source", "tags")


class Reannotation(NamedTuple):
    """An atom in both; each field that differs with its values before and after."""

    atom: AtomRow
    fields: tuple[tuple[str, str, str], ...]


class MergeConflict(NamedTuple):
    why: str
    ours: AtomRow | None
    theirs: AtomRow | None
    short: str


class SettledAtom(NamedTuple):
    atom: AtomRow
    fields: tuple[str, ...]
    ours: AtomRow | None
    theirs: AtomRow | None


class MergePreview(NamedTuple):
    """Outcome of merging b into the ref a, before it is done. ``command`` does it."""

    outcome: str
    conflicts: tuple[MergeConflict, ...]
    settled: tuple[SettledAtom, ...]
    conflict_count: int
    settled_count: int
    command: str


class ComparisonPage(NamedTuple):
    """From ``a``, the older one, to ``b``; ``counts`` are added, removed, annotated anew, molecules more and fewer.

    ``job`` is set while large contexts are compared. ``preview`` is None where ``a`` is no ref.
    """

    a: str
    b: str
    refs: tuple[str, ...]
    a_short: str
    b_short: str
    counts: tuple[int, int, int, int, int]
    added: tuple[AtomRow, ...]
    removed: tuple[AtomRow, ...]
    annotated: tuple[Reannotation, ...]
    molecules: tuple[tuple[str, str], ...]
    preview: MergePreview | None
    job: Job | None
    is_asked: bool


class _Compared(NamedTuple):
    diff: Diff
    merged: Merged | None


def compare(asked: Asked) -> View:
    """Show what ``b`` has more, fewer or annotated anew than ``a``, and a preview of merging it into the ref ``a``."""
    contexts, query = asked.project.contexts, asked.query
    refs = tuple(contexts.table.all())
    a, b = named_or_default(contexts, query.text("a")), query.text("b")
    if not b:
        return View(
            "contexts/comparison.html", "Compare contexts", {"page": _empty(a, b, refs)}, "periplus context diff A B"
        )
    before, after = contexts.resolve(a), contexts.resolve(b)
    compared, job = _compared(asked, before, after, a if a in refs else "")
    shown = _empty(a, b, refs)._replace(a_short=short(before), b_short=short(after), job=job, is_asked=True)
    if compared is not None:
        shown = _filled(shown, compared)
    command = f"periplus context diff {shlex.quote(a)} {shlex.quote(b)}"
    return View("contexts/comparison.html", f"{a} and {b}", {"page": shown}, command)


def _empty(a: str, b: str, refs: tuple[str, ...]) -> ComparisonPage:
    return ComparisonPage(a, b, refs, "", "", (0, 0, 0, 0, 0), (), (), (), (), None, None, is_asked=False)


def _compared(asked: Asked, before: bytes, after: bytes, ref: str) -> tuple[_Compared | None, Job | None]:
    contexts, background = asked.project.contexts, asked.context.background
    if contexts.live(before) + contexts.live(after) <= AT_ONCE_ATOMS:
        return _compare(before, after, ref, asked.project), None
    name = f"contexts {before.hex()} {after.hex()} {ref}"
    job = background.job(name) or background.start(name, partial(_compare, before, after, ref))
    if job.error is not None:
        raise job.error
    result: _Compared | None = None if job.is_running else job.result  # type: ignore[assignment]  # as ``_compare`` made it
    return result, job if job.is_running else None


def _compare(
    before: bytes, after: bytes, ref: str, project: Project, _progress: Callable[[int, int], None] = lambda *_: None
) -> _Compared:
    contexts = project.contexts
    found = diff(contexts.library, before, after)
    is_apart = len(contexts.table.standing(ref)) > 1 if ref else True
    merged = contexts.merge(after.hex(), ref=ref, dry_run=True) if ref and before != after and not is_apart else None
    return _Compared(found, merged)


def _filled(page: ComparisonPage, compared: _Compared) -> ComparisonPage:
    found, merged = compared
    more = tuple(("more", f"{one.type[:80]} {short(molecule_digest(one))}") for one in found.molecules_added[:ROWS])
    fewer = tuple(("fewer", f"{one.type[:80]} {short(molecule_digest(one))}") for one in found.molecules_removed[:ROWS])
    counts = (
        len(found.added), len(found.removed), len(found.reannotated), len(found.molecules_added), len(found.molecules_removed),
    )  # fmt: skip
    return page._replace(
        counts=counts, added=tuple(map(entry_row, found.added[:ROWS])), removed=tuple(map(entry_row, found.removed[:ROWS])),
        annotated=tuple(map(_reannotation, found.reannotated[:ROWS])), molecules=more + fewer,
        preview=_preview(page, merged) if merged is not None else None,
    )  # fmt: skip


def _reannotation(one: Reannotated) -> Reannotation:
    before, after = entry_row(one.before), entry_row(one.after)
    changes = []
    for name in _FIELDS:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            changes.append((name, _said(old), _said(new)))
    return Reannotation(after, tuple(changes))


def _said(value: object) -> str:
    return (
        ", ".join(map(str, value))
        if isinstance(value, tuple)
        else f"{value:.2f}"
        if isinstance(value, float)
        else str(value)
    )


def _preview(page: ComparisonPage, merged: Merged) -> MergePreview:
    return MergePreview(
        merged.outcome, tuple(map(_conflict, merged.conflicts[:ROWS])), tuple(map(_settled, merged.settled[:ROWS])), len(merged.conflicts),
        len(merged.settled), f"periplus context merge {shlex.quote(page.b)} --ref {shlex.quote(page.a)}",
    )  # fmt: skip


def _conflict(one: Conflict) -> MergeConflict:
    return MergeConflict(
        _CONFLICTS[one.kind], _side(one.digest, one.ours), _side(one.digest, one.theirs), short(one.digest)
    )


def _settled(one: Resolution) -> SettledAtom:
    return SettledAtom(
        atom_row(one.digest, one.atom), one.fields, _side(one.digest, one.ours), _side(one.digest, one.theirs)
    )


def _side(digest: bytes, side: Side) -> AtomRow | None:
    if side.atom is None:
        return None
    return atom_row(digest, side.atom, side.commit_info.context if side.commit_info is not None else b"")
