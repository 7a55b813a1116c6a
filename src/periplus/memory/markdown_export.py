"""Export the memory of a project as a folder of Markdown for people. Pure: entities in, texts by their paths out.

Each entity has a page in a folder of its type, and a ``README.md`` links all pages. The same entities, history and
working tree give the same bytes: no page says when it was written. File names are made of ASCII letters, digits and
the id, whatever the text is. Texts are shown as text, HTML and links in them too, except for what stands between
backticks.
"""

from __future__ import annotations

__all__ = ["BOOK_TYPES", "Page", "markdown_pages"]

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from periplus.base.encoding.canonical import JSONValue
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Entity, IndexedRecord
from periplus.memory.entities.schemas import Common
from periplus.memory.entities.types import MemoryType, is_ended, state_of

BOOK_TYPES: Final = ("decision", "constraint", "trap", "lesson", "plan", "handoff", "note")
_TITLE_CHARACTERS: Final = 100
_SLUG_CHARACTERS: Final = 40
_HISTORY_MAX: Final = 100
_SAID: Final = {  # fields that are shown under a heading of their own, in this order
    "rationale": "Why", "alternatives": "What was not chosen", "severity": "Severity", "remedy": "What to do", "check": "How to check it",
    "reason": "Why it is where it is", "expires": "Until", "recipient": "For", "files": "Files", "tests": "Tests",
    "unfinished": "Left to do", "trail": "Trail", "accepted_by": "Taken over by",
}  # fmt: skip
_WORDS: Final = {
    "supersedes": "supersedes", "contradicts": "contradicts", "caused": "caused", "resolves": "resolves", "depends_on": "waits for",
    "part_of": "is part of", "references": "refers to",
}  # fmt: skip
_BACK: Final = {
    "supersedes": "is superseded by", "contradicts": "is contradicted by", "caused": "was caused by", "resolves": "is resolved by",
    "depends_on": "is waited for by", "part_of": "has the part", "references": "is referred to by",
}  # fmt: skip


class Page(NamedTuple):
    """The input of one page: an entity, its records (oldest first), its stale anchors, and the steps of a plan."""

    entity: Entity
    history: Sequence[IndexedRecord]
    stale: tuple[str, ...] = ()
    steps: tuple[Entity, ...] = ()


def markdown_pages(name: str, pages: Iterable[Page], rows: Mapping[str, MemoryType]) -> dict[str, str]:
    """Return the texts of the folder by their paths. ``rows`` are the types that ``pages`` may have."""
    held = sorted((page for page in pages if is_id(page.entity.item_id)), key=_order)
    return _Book(name, held, rows).files()


def _order(page: Page) -> tuple[str, str]:
    return (str(page.entity.value.get("created") or page.entity.ts), page.entity.item_id)


class _Book:
    def __init__(self, name: str, pages: Sequence[Page], rows: Mapping[str, MemoryType]) -> None:
        self._name = name
        self._pages = pages
        self._rows = rows
        self._paths = {
            page.entity.item_id: f"{_folder(page.entity.item_type)}/{_slug(page.entity)}.md" for page in pages
        }
        self._titles = {page.entity.item_id: _title(page.entity) for page in pages}
        self._back: dict[str, list[tuple[str, str]]] = {}
        for page in pages:
            for kind, target in _relations(page.entity):
                self._back.setdefault(target, []).append((kind, page.entity.item_id))

    def files(self) -> dict[str, str]:
        found = {"README.md": _joined(self._index())}
        for page in self._pages:
            found[self._paths[page.entity.item_id]] = _joined(self._page(page))
        return dict(sorted(found.items()))

    # -- the first page ------------------------------------------------------------------------------------------------

    def _index(self) -> Iterator[str]:
        yield f"# What {_plain(self._name)} knows"
        yield ""
        yield "Written by `periplus export --markdown` from the journal. Changes made here are not read back."
        stale = [page for page in self._pages if page.stale and not self._is_ended(page)]
        if stale:
            yield from ("", "## Needs review", "")
            for page in stale:
                yield f"- {self._link(page.entity.item_id, '')}: {_plain('; '.join(page.stale))}"
        for item_type in (*BOOK_TYPES, *sorted({page.entity.item_type for page in self._pages} - set(BOOK_TYPES))):
            pages = [page for page in self._pages if page.entity.item_type == item_type]
            if not pages:
                continue
            row = self._rows.get(item_type)
            yield from ("", f"## {_plain(_folder(item_type).replace('_', ' ').capitalize())}")
            if row is not None and row.meaning:
                yield from ("", f"{_plain(row.meaning[0].upper() + row.meaning[1:])}.")
            yield ""
            yield from (self._line(page) for page in pages if not self._is_ended(page))
            ended = [page for page in pages if self._is_ended(page)]
            if ended:
                yield from ("", "No longer in force:", "") if len(ended) < len(pages) else ("No longer in force:", "")
                yield from (self._line(page) for page in ended)

    def _line(self, page: Page) -> str:
        state = self._state(page.entity)
        marks = [state] if state not in ("", "active", "accepted") else []
        marks += ["stale"] if page.stale and not self._is_ended(page) else []
        marks += ["in conflict"] if page.entity.conflicts else []
        done = (
            f", {sum(one.value.get('state') == 'done' for one in page.steps)} of {len(page.steps)} done"
            if page.steps
            else ""
        )
        told = f" ({', '.join(marks)}{done})" if marks or done else ""
        return f"- {self._link(page.entity.item_id, '')}{told}"

    def _state(self, entity: Entity) -> str:
        row = self._rows.get(entity.item_type)
        return _plain(state_of(entity.item_type, entity.value, row.default_state if row is not None else ""))

    def _is_ended(self, page: Page) -> bool:
        row, state = self._rows.get(page.entity.item_type), page.entity.value.get("state")
        return state in row.ended_states if row is not None else is_ended(page.entity.item_type, state)

    def _link(self, item_id: str, start: str) -> str:
        path = self._paths.get(item_id)
        return f"`{_code(item_id)}`" if path is None else f"[{_plain(self._titles[item_id])}]({start}{path})"

    # -- a page --------------------------------------------------------------------------------------------------------

    def _page(self, page: Page) -> Iterator[str]:
        entity, value = page.entity, page.entity.value
        yield f"# {_plain(self._titles[entity.item_id])}"
        yield ""
        state = self._state(entity)
        told = [f"`{entity.item_id}`", entity.item_type, *([f"**{state}**"] if state else [])]
        told += [
            _plain(str(value.get("created") or entity.ts)[:10]),
            f"by {_plain(str(value.get('author') or entity.writer))}",
        ]
        if value.get("confidence", 100) != 100:
            told.append(f"confidence {_plain(str(value['confidence']))}")
        tags = value.get("tags")
        if isinstance(tags, list) and tags:
            told.append(f"tags: {_plain(', '.join(map(str, tags)))}")
        yield " · ".join(told)
        for one in page.stale:
            yield from ("", f"**Stale:** {_plain(one)}")
        for conflict in entity.conflict_names:
            yield from ("", f"**In conflict:** {_plain(conflict)}; one of the values is shown")
        yield ""
        yield from _quoted(str(value.get("text", "")))
        for field, heading in _SAID.items():
            yield from _section(heading, value.get(field))
        for field in sorted(set(value) - set(_SAID) - set(Common.__struct_fields__) - _UNTOLD):
            yield from _section(field.replace("_", " ").capitalize(), value[field])
        yield from self._about(entity)
        yield from self._related(entity)
        yield from self._steps(page)
        yield from self._history(page)

    def _about(self, entity: Entity) -> Iterator[str]:
        for field, heading, names in (("about", "About", ("ref",)), ("evidence", "Evidence", ("kind", "ref", "quote"))):
            items = [one for one in _list(entity.value.get(field)) if isinstance(one, dict)]
            if items:
                yield from ("", f"## {heading}", "")
            for one in items:
                ref = str(one.get("ref", ""))
                if field == "about" and ref in self._paths:
                    yield f"- {self._link(ref, '../')}"
                    continue
                kind, quote = (str(one.get(name, "")) if name in names else "" for name in ("kind", "quote"))
                yield f"- {_plain(kind)} `{_code(ref)}`{': ' + _plain(quote) if quote else ''}".replace("-  ", "- ")

    def _related(self, entity: Entity) -> Iterator[str]:
        lines = [
            f"- {_WORDS.get(kind, _plain(kind))} {self._link(target, '../')}" for kind, target in _relations(entity)
        ]
        lines += [
            f"- {_BACK.get(kind, _plain(kind))} {self._link(source, '../')}"
            for kind, source in self._back.get(entity.item_id, [])
        ]
        plan = entity.value.get("plan")
        if isinstance(plan, str) and plan and entity.item_type != "plan":
            lines.append(f"- belongs to {self._link(plan, '../')}")
        if lines:
            yield from ("", "## Related", "", *dict.fromkeys(lines))

    def _steps(self, page: Page) -> Iterator[str]:
        if page.steps:
            yield from ("", "## Steps", "")
        for one in page.steps:
            state = str(one.value.get("state", ""))
            by = f" by {_plain(str(one.value['assignee']))}" if one.value.get("assignee") else ""
            why = f": {_plain(str(one.value['reason']))}" if one.value.get("reason") else ""
            mark = "x" if state == "done" else " "
            yield f"- [{mark}] {_plain(str(one.value.get('text', '')))} ({_plain(state)}{by}{why})"

    def _history(self, page: Page) -> Iterator[str]:
        if not page.history:
            return
        yield from ("", "## History", "")
        left = len(page.history) - _HISTORY_MAX
        if left > 0:
            yield from (f"{left} older records: `periplus log --id {page.entity.item_id}`", "")
        for record in page.history[max(0, left) :]:
            summary = f": {_plain(record.summary)}" if record.summary else ""
            yield f"- {_plain(record.ts[:19])} {_plain(record.action)} by {_plain(record.writer)}{summary}"


_UNTOLD: Final = frozenset({"state", "plan", "depends_on", "priority", "assignee", "place", "v1"})


def _section(heading: str, said: JSONValue) -> Iterator[str]:
    if said in (None, "", []):
        return
    yield from ("", f"## {_plain(heading)}", "")
    if isinstance(said, list):
        yield from (f"- {_plain(str(one) if not isinstance(one, dict) else _json(one))}" for one in said)
    elif isinstance(said, dict):
        yield f"`{_code(_json(said))}`"
    else:
        yield from _quoted(str(said))


def _json(value: JSONValue) -> str:
    from periplus.base.encoding.canonical import canonical

    return canonical(value).decode()


def _relations(entity: Entity) -> list[tuple[str, str]]:
    found = [
        (str(one.get("kind", "")), str(one.get("target", "")))
        for one in _list(entity.value.get("relations")) if isinstance(one, dict)
    ]  # fmt: skip
    return found + [("depends_on", str(one)) for one in _list(entity.value.get("depends_on"))]


def _list(value: JSONValue) -> list[JSONValue]:
    return list(value) if isinstance(value, list | tuple) else []


def _folder(item_type: str) -> str:
    return f"{item_type}s"


def _slug(entity: Entity) -> str:
    words = re.findall(r"[a-z0-9]+", _title(entity).lower())
    slug = ""
    for word in words:
        if len(slug) + len(word) + 1 > _SLUG_CHARACTERS:
            break
        slug += f"{word}-"
    return f"{slug}{entity.item_id}"


def _title(entity: Entity) -> str:
    text = str(entity.value.get("text", ""))
    first = " ".join(next((line for line in text.splitlines() if line.strip()), "").split()) or entity.item_id
    return first if len(first) <= _TITLE_CHARACTERS else f"{first[: _TITLE_CHARACTERS - 1]}…"


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


def _quoted(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"> {_plain(line, in_line=False)}".rstrip()


def _plain(text: str, *, in_line: bool = True) -> str:
    """Escape ``text`` so that Markdown shows it as it is: no HTML, links or headings; text between backticks stays
    unchanged.
    """
    text = "".join(
        one if one.isprintable() else " " for one in (" ".join(text.split()) if in_line else text.expandtabs(4))
    )
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one is left open
        return _escaped(text.replace("`", "\\`"))
    return "`".join(_escaped(part) if at % 2 == 0 else part for at, part in enumerate(parts))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[").replace("]", "\\]")
    return re.sub(r"^(\s*)([#>*+~=|-]|\d+[.)])", r"\1\\\2", text)


def _code(text: str) -> str:
    """Return ``text`` for use between backticks, without backticks of its own."""
    return "".join(one if one.isprintable() and one != "`" else " " for one in text)
