"""The list of memory, which is also its search: with words it answers as ``recall`` does, without them it lists, filters and sorts."""

from __future__ import annotations

__all__ = ["memory_list"]

import shlex
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.memory.fields import line_of, text_of
from periplus.web.pages.memory.references import entity_address, symbol_address
from periplus.web.pages.model import Asked, View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from periplus.base.encoding.canonical import JSONValue
    from periplus.base.text.list_counts import Facet
    from periplus.memory.retrieval.listing import MemoryFilter, MemoryRow
    from periplus.memory.retrieval.recall import Hit
    from periplus.project import Project

ROWS: Final = 50
HITS: Final = 20
PAGES_MAX: Final = 20_000
_FILTERED_MAX: Final = 200  # hits among which a state, or what is stale, is looked for
_TEXT_CHARACTERS: Final = 600
_SHOWN_MAX: Final = 6  # tags, paths and reasons of a row
_FACETS_MAX: Final = 20
_WORD_CHARACTERS: Final = 120  # of a tag, a path, a name
_NOTE_CHARACTERS: Final = 300
_PATH_CHARACTERS_MAX: Final = 1_000  # a longer one is shown in short, and not linked
_SORTS: Final = ("newest", "oldest", "changed", "text")
_FOUND_TYPES: Final = ("trail",)  # searched, and never listed here


class Row(NamedTuple):
    """An entity, or a place in a session, in a list. ``why`` and ``evidence`` are set for an answer; ``version`` for a candidate that
    waits, which can be decided on in the list.
    """

    item_id: str
    item_type: str
    kind: str
    text: str
    address: str
    state: str
    is_ended: bool
    author: str
    ts: str
    tags: tuple[str, ...] = ()
    about: tuple[tuple[str, str], ...] = ()
    stale: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    version: str = ""


class Chosen(NamedTuple):
    """The filters of the address. ``with_ended`` is for a search, which leaves out what ended unless it is asked for."""

    words: str
    item_type: str
    state: str
    tag: str
    path: str
    author: str
    is_stale: bool
    with_ended: bool
    sort: str
    page: int

    @property
    def is_any(self) -> bool:
        return bool(self.item_type or self.state or self.tag or self.path or self.author or self.is_stale)


class Facets(NamedTuple):
    """Values to filter by, the most frequent first."""

    types: tuple[Facet, ...]
    states: tuple[Facet, ...]
    tags: tuple[Facet, ...]
    authors: tuple[Facet, ...]


class Found(NamedTuple):
    """A page of rows; ``total`` is a text such as "1,204 memories"; ``notice`` says what the search did otherwise than asked."""

    rows: tuple[Row, ...]
    total: str
    page: int
    has_more: bool
    notice: str = ""
    ended: int = 0


def memory_list(asked: Asked) -> View:
    """Show the memory that an address asks for."""
    chosen = _chosen(asked)
    found, facets = (_searched(asked, chosen), None) if chosen.words else _listed(asked, chosen)
    waiting = _waiting(asked.project)
    values: dict[str, object] = {
        "chosen": chosen, "found": found, "facets": facets, "types": _types(asked.project), "sorts": _SORTS, "waiting": waiting,
        "is_candidates": chosen.item_type == "candidate",
    }  # fmt: skip
    title = f"“{line_of(chosen.words, 40)}” in the memory" if chosen.words else "Memory"
    return View("memory/list.html", title, values, _command(chosen))


def _chosen(asked: Asked) -> Chosen:
    query = asked.query
    return Chosen(
        query.text("q"), query.text("type"), query.text("state"), query.text("tag"), query.text("path"), query.text("author"),
        query.flag("stale"), query.flag("all"), query.choice("sort", _SORTS), query.number("page", 1, least=1, most=PAGES_MAX),
    )  # fmt: skip


# -- the list ----------------------------------------------------------------------------------------------------------


def _listed(asked: Asked, chosen: Chosen) -> tuple[Found, Facets]:
    project = asked.project
    page = project.memory_page(_filter(chosen), sort=chosen.sort, number=chosen.page, size=ROWS)  # type: ignore[arg-type]  # one of _SORTS
    rows = tuple(_row(project, one) for one in page.rows)
    exact = page.total.number == 1 and page.total.is_exact
    found = Found(rows, f"{page.total} {'entity' if exact else 'entities'}", chosen.page, chosen.page < page.pages)
    return found, Facets(*map(_named, (page.facets.types, page.facets.states, page.facets.tags, page.facets.authors)))


def _named(facets: Sequence[Facet]) -> tuple[Facet, ...]:
    """Return the most frequent values that can be named in an address."""
    return tuple(one for one in facets if one.value and len(one.value) <= _WORD_CHARACTERS)[:_FACETS_MAX]


def _filter(chosen: Chosen) -> MemoryFilter:
    from periplus.memory.retrieval.listing import MemoryFilter

    def of(text: str) -> tuple[str, ...]:
        return (text,) if text else ()

    return MemoryFilter(
        types=of(chosen.item_type), states=of(chosen.state), tags=of(chosen.tag), path=chosen.path, authors=of(chosen.author),
        stale=chosen.is_stale,
    )  # fmt: skip


def _row(project: Project, one: MemoryRow) -> Row:
    text, version, notes = one.text, "", tuple[str, ...]()
    if not text or one.type == "candidate":
        entity = project.journal.as_read(one.type, one.id)
        text = text_of(entity.value, one.id) if entity is not None else one.id
        if entity is not None and one.type == "candidate":
            version, notes = entity.version if one.state == "pending" else "", (_proposal(entity.value),)
    about = tuple((_words(ref), _about_address(ref)) for ref in one.about[:_SHOWN_MAX])
    return Row(
        one.id, one.type, one.type, text[:_TEXT_CHARACTERS], entity_address(one.id), _words(one.state), one.is_ended, _words(one.author),
        one.changed, tuple(_words(tag) for tag in one.tags[:_SHOWN_MAX]), about, _notes(one.stale), why=notes, version=version,
    )  # fmt: skip


def _words(text: str) -> str:
    return line_of(text, _WORD_CHARACTERS)


def _notes(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(line_of(text, _NOTE_CHARACTERS) for text in texts[:_SHOWN_MAX])


def _proposal(value: Mapping[str, JSONValue]) -> str:
    """Return what a candidate would become, where it comes from, and why it was proposed."""
    kind, provenance, payload = _words(str(value.get("item_type", ""))), value.get("provenance"), value.get("payload")
    if not isinstance(provenance, dict) or provenance.get("kind") != "reflection":
        return f"a {kind} of the project {_words(str(value.get('source_store', '')))}"
    confidence = payload.get("confidence", 100) if isinstance(payload, dict) else 100
    why = line_of(str(value.get("why", "")))
    return f"a {kind}, confidence {confidence}, by the rule {_words(str(provenance.get('name', '')))}: {why}"


def _about_address(ref: str) -> str:
    from periplus.base.ids import is_id

    if is_id(ref):
        return entity_address(ref)
    if len(ref) > _PATH_CHARACTERS_MAX:
        return ""
    path, _, inside = ref.partition(":")
    return symbol_address(path, inside if inside and not inside[0].isdigit() else "")


# -- the search --------------------------------------------------------------------------------------------------------


def _searched(asked: Asked, chosen: Chosen) -> Found:
    from periplus.memory import Filters
    from periplus.memory.retrieval.spelling import near_words_text

    project = asked.project
    filters = Filters(
        types=(chosen.item_type,) if chosen.item_type else (), tag=chosen.tag, author=chosen.author, path=chosen.path,
        with_ended=chosen.with_ended or bool(chosen.state),
    )  # fmt: skip
    first = (chosen.page - 1) * HITS
    if chosen.state or chosen.is_stale:
        hits = project.recall(chosen.words, limit=_FILTERED_MAX, filters=filters).hits
        fitting = [
            hit
            for hit in hits
            if (not chosen.state or hit.state == chosen.state) and (not chosen.is_stale or hit.stale)
        ]
        shown = fitting[first : first + HITS]
        total = f"{_answers(len(fitting))} among the first {len(hits)}"
        return Found(_hit_rows(project, shown), total, chosen.page, first + HITS < len(fitting))
    found = project.recall(chosen.words, limit=HITS, offset=first, filters=filters)
    ended = 0
    if not found.matched and not filters.with_ended:
        ended = project.recall(chosen.words, limit=1, filters=filters._replace(with_ended=True)).matched
    notice = near_words_text(found.near) if found.near else ""
    return Found(
        _hit_rows(project, found.hits),
        _answers(found.matched),
        chosen.page,
        found.left_out > 0 and bool(found.hits),
        notice,
        ended,
    )


def _answers(count: int) -> str:
    return f"{count:,} answer{'' if count == 1 else 's'}"


def _hit_rows(project: Project, hits: Sequence[Hit]) -> tuple[Row, ...]:
    from periplus.memory.entities.types import is_ended

    return tuple(_hit_row(hit, has_ended=is_ended(hit.item_type, hit.state, project.types)) for hit in hits)


def _hit_row(hit: Hit, *, has_ended: bool) -> Row:
    address = entity_address(hit.item_id)
    if hit.item_type == "trail":
        address = f"/sessions/{quote(hit.item_id, safe='')}" + (
            f"?{urlencode({'from': hit.part})}" if hit.part >= 0 else ""
        )
    notes = []
    if hit.conflicts:
        notes.append(f"in conflict: {', '.join(hit.conflicts)}")
    if hit.rivals:
        notes.append(f"competes with {', '.join(hit.rivals)}")
    if hit.checked:
        notes.append(hit.checked)
    return Row(
        hit.item_id, hit.item_type, hit.kind, hit.text[:_TEXT_CHARACTERS], address, _words(hit.state), has_ended, "", hit.ts,
        stale=_notes(hit.standing), notes=_notes(notes), why=_notes(hit.why), evidence=_notes(hit.evidence),
    )  # fmt: skip


# -- around it ---------------------------------------------------------------------------------------------------------


def _types(project: Project) -> Sequence[str]:
    from periplus.memory.entities.types import rows_of

    return tuple(sorted((name for name in rows_of(project.types)), key=lambda name: (name in _FOUND_TYPES, name)))


def _waiting(project: Project) -> int:
    """Return how many candidates wait for a decision."""
    found = project.journal.index.db.execute(
        "SELECT COUNT(*) FROM links WHERE item_type = 'candidate' AND field = 'state' AND value = 'pending'"
    ).fetchone()
    return int(found[0])


def _command(chosen: Chosen) -> str:
    """Return the command line that tells the same, as far as one does."""
    if chosen.item_type == "candidate" and not chosen.words:
        return "periplus candidates list" + ("" if chosen.state == "pending" else " --all")
    if chosen.is_stale and not chosen.words:
        return "periplus review"
    words = ["periplus", "recall", chosen.words]
    if chosen.item_type:
        words += ["--type", chosen.item_type]
    elif not chosen.words:
        for name in ("decision", "constraint", "trap", "lesson", "note"):
            words += ["--type", name]
    for option, value in (("--tag", chosen.tag), ("--author", chosen.author), ("--path", chosen.path)):
        if value:
            words += [option, value]
    if chosen.with_ended or chosen.state:
        words.append("--all")
    return " ".join('""' if word == "" else shlex.quote(word) for word in words)
