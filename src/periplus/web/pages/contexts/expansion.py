"""One expansion best first, as far as a budget of tokens reaches."""

from __future__ import annotations

__all__ = ["ExpansionPage", "ExpansionRow", "expand"]

import shlex
from typing import TYPE_CHECKING, Final

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.context.selection.filters import Filters
from periplus.context.selection.reasons import describe
from periplus.web.pages.contexts.values import AtomRow, atom_row, named_or_default, short
from periplus.web.pages.model import Asked, View

if TYPE_CHECKING:
    from periplus.context.selection.search import Selection

BUDGET_TOKENS: Final = 4_000
BUDGET_TOKENS_MAX: Final = 200_000
SHOWN_MAX: Final = 200
OUT_SHOWN_MAX: Final = 30
SEARCHED_MAX: Final = 20_000  # atoms of a context that a page searches; a larger one is read best first only
COPIED_CHARACTERS_MAX: Final = 200_000


class ExpansionRow(NamedTuple):
    """An atom that is in or out of the budget, and why. ``so_far`` are the tokens of all that is in until here."""

    atom: AtomRow
    is_in: bool
    tokens: int
    so_far: int
    why: str


class ExpansionPage(NamedTuple):
    """``rows`` in the order in which they were considered; ``cut`` is the place of the first that is out, -1 where none is."""

    reference: str
    short: str
    refs: tuple[str, ...]
    query: str
    budget: int
    tokens: int
    counter: str
    live: int
    considered: int
    rows: tuple[ExpansionRow, ...]
    cut: int
    has_in_after: bool
    more_in: int
    more_out: int
    copied: str
    note: str


def expand(asked: Asked) -> View:
    """Show the atoms of a context best first: those that a budget holds, and the first that it does not."""
    contexts, query = asked.project.contexts, asked.query
    reference = named_or_default(contexts, query.text("ref"))
    digest = contexts.resolve(reference)
    budget = query.number("budget", BUDGET_TOKENS, least=1, most=BUDGET_TOKENS_MAX)
    question, live = query.text("q"), contexts.live(digest)
    if question and live > SEARCHED_MAX:
        raise UsageError(
            f"{live:,} atoms are too many to search within a page", safe="Nothing was changed.",
            mend=f"Search them with `{_command(reference, question, budget)}`.",
        )  # fmt: skip
    found = contexts.select(digest, query=question, budget_tokens=budget, filters=Filters(), explain=True)
    rows = _rows(found)
    taken = [row for row in rows if row.is_in]
    out = [row for row in rows if not row.is_in]
    shown = _shown(rows)
    copied = "\n\n".join(entry.atom.content for entry in found.entries)
    page = ExpansionPage(
        reference, short(digest), tuple(contexts.table.all()), question, budget, found.tokens, found.counter, live, found.considered, shown,
        next((place for place, row in enumerate(shown) if not row.is_in), -1), _has_in_after(shown), max(0, len(taken) - sum(row.is_in for row in shown)),
        max(0, len(out) - sum(not row.is_in for row in shown)), copied[:COPIED_CHARACTERS_MAX], _note(copied, found),
    )  # fmt: skip
    return View(
        "contexts/expansion.html", f"Expansion of {reference}", {"page": page}, _command(reference, question, budget)
    )


def _rows(found: Selection) -> tuple[ExpansionRow, ...]:
    rows = []
    so_far = 0
    for reason in found.reasons:
        entry = reason.scored.entry
        so_far += reason.tokens if reason.is_in else 0
        rows.append(
            ExpansionRow(
                atom_row(entry.digest, entry.atom, entry.origin), reason.is_in, reason.tokens, so_far, describe(reason)
            )
        )
    return tuple(rows)


def _shown(rows: tuple[ExpansionRow, ...]) -> tuple[ExpansionRow, ...]:
    """Return what a page shows: the first of those that are in, and the first that are out, in their order."""
    counts = {True: 0, False: 0}
    found = []
    for row in rows:
        if counts[row.is_in] < (SHOWN_MAX if row.is_in else OUT_SHOWN_MAX):
            found.append(row)
            counts[row.is_in] += 1
    return tuple(found)


def _has_in_after(rows: tuple[ExpansionRow, ...]) -> bool:
    """Return True if a smaller atom is in behind one that is out."""
    kinds = [row.is_in for row in rows]
    return False in kinds and True in kinds[kinds.index(False) :]


def _note(copied: str, found: Selection) -> str:
    parts = []
    if len(copied) > COPIED_CHARACTERS_MAX:
        parts.append(f"the text to copy is cut at {COPIED_CHARACTERS_MAX:,} characters; the command gives all of it")
    waiting = sum(not one.is_in for one in found.near_duplicates)
    if waiting:
        parts.append(f"{waiting:,} left out as near duplicates")
    return "; ".join(parts)


def _command(reference: str, question: str, budget: int) -> str:
    asked = f" --query {shlex.quote(question)}" if question else ""
    return f"periplus context select {shlex.quote(reference)}{asked} --budget {budget} --explain"
