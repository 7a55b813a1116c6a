"""A symbol: its definition, who names it and what it names, with the grade of the proof, memory about it and sessions that changed it.

Without a name, the outline of a file.
"""

from __future__ import annotations

__all__ = ["symbol"]

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from periplus.base.errors import NotFoundError
from periplus.web.pages.code.measures import brought_up
from periplus.web.pages.code.opening import code_map, command_line, lacks_of, project_path
from periplus.web.pages.code.tree import symbol_address
from periplus.web.pages.model import Asked, View
from periplus.web.rendering.graphs import Link, Node, layered_graph

if TYPE_CHECKING:
    from markupsafe import Markup

    from periplus.code.code_map import CodeMap
    from periplus.code.queries.references import Place, Use
    from periplus.code.queries.symbol_text import Symbol
    from periplus.code.queries.view import CodeView, SymbolId
    from periplus.memory.retrieval.recall import Hit
    from periplus.project import Project
    from periplus.web.rendering.source import Excerpt

PLACES_MAX: Final = 100
OUTLINE_MAX: Final = 500
MEMORY_MAX: Final = 20
SESSIONS_MAX: Final = 20
CLAIMS_MAX: Final = 20
_STEPS_S: Final = 0.2
_ONLY_READ: Final = -1
_DRAWN_MAX: Final = 14
_STATES: Final = {
    "unsupported": "it is of no language that is parsed", "vendored": "it is code of others", "generated": "a program made it", "minified": "it is minified",
    "too_large": "it is over 2 MiB", "not_text": "it is no text", "no_parser": "its parser is not installed: pip install 'periplus[code]'",
    "failed": "parsing failed", "waiting": "it is not parsed yet; load the page again", "gone": "it is not in the worktree",
}  # fmt: skip


class PlaceRow(NamedTuple):
    """A symbol at the other end of a reference, with the lines at which it is seen and the text of the first."""

    name: str
    path: str
    address: str
    line: int
    lines: int
    role: str
    grade: str
    text: str


class KnownHit(NamedTuple):
    """Memory or a step of a session about the symbol or its file."""

    id: str
    kind: str
    text: str
    when: str
    address: str
    stale: tuple[str, ...]


class Claim(NamedTuple):
    """A claim that holds now."""

    id: str
    holder: str
    scopes: str
    expires: str


def symbol(asked: Asked) -> View:
    """Show the symbol ``name`` of the file ``path``, or the file."""
    path, name = project_path(asked.query.text("path")), asked.query.text("name")
    ordinal = asked.query.number("ordinal", 1, least=1, most=100_000) - 1
    with code_map(asked) as opened:
        view = opened.view(with_graph=bool(name))
        if not path or not view.sources.exists(path):
            raise NotFoundError(
                f"the worktree has no file {path or 'without a name'}",
                safe="Nothing was changed.",
                mend="Search for symbols at /code.",
            )
        return _symbol(asked, opened, view, path, name, ordinal) if name else _file(asked, opened, path)


def _symbol(asked: Asked, opened: CodeMap, view: CodeView, path: str, name: str, ordinal: int) -> View:
    from periplus.code.queries.references import places_of, uses_of
    from periplus.code.queries.symbol_text import symbol_of
    from periplus.code.queries.view import SymbolId

    id_ = SymbolId(path, name, ordinal)
    found = view.definition(id_)
    if found is None:
        raise NotFoundError(
            f"{path} defines no {name}",
            safe="Nothing was changed.",
            mend=f"See what it defines: /code/symbol?{urlencode({'path': path})}",
        )
    file, number, definition = found
    shown = symbol_of(view, file, number)
    places = [place for place in places_of(view, SymbolId(path, name)) if place.role != "import"]
    uses = uses_of(view, SymbolId(path, name))
    callers, called = _callers(view, places), _called(view, path, uses)
    return View(
        "code/symbol.html", name,
        {
            "symbol": shown, "excerpt": _excerpt(view, path, definition.start_byte, definition.end_byte, definition.start_line),
            "callers": callers[:PLACES_MAX], "callers_left": max(0, len(callers) - PLACES_MAX),
            "called": called[:PLACES_MAX], "called_left": max(0, len(called) - PLACES_MAX),
            "picture": _picture(shown, callers, called), "memory": _memory(asked, path, name), "sessions": _sessions(asked, path),
            "claims": _claims(asked, path, name), "lacks": lacks_of(opened), "path": path, "file_address": _file_address(path),
            "folder_address": _folder_address(path), "refs": command_line("code", "refs", str(id_)), "remember": command_line("remember", "…", "--about", str(id_)), "impact_address": f"/code/impact?{urlencode({'of': str(id_)})}",
        },
        command_line("code", "show", str(id_)),
    )  # fmt: skip


def _file(asked: Asked, opened: CodeMap, path: str) -> View:
    """Show the outline of a file."""
    outline = opened.outline(path)
    view = opened.last_view()
    rows = [(one, symbol_address(one), one.id.name.count(".")) for one in outline.symbols[:OUTLINE_MAX]]
    return View(
        "code/file.html", path.rpartition("/")[2],
        {
            "path": path, "language": outline.language, "why": _STATES.get(outline.state, ""), "has_errors": outline.state == "errors", "rows": rows,
            "left": max(0, len(outline.symbols) - OUTLINE_MAX), "excerpt": _excerpt(view, path, 0, None, 1), "memory": _memory(asked, path, ""),
            "sessions": _sessions(asked, path), "claims": _claims(asked, path, ""), "lacks": lacks_of(opened),
            "remember": command_line("remember", "…", "--about", path),
            "folder_address": _folder_address(path), "impact_address": f"/code/impact?{urlencode({'of': path}, errors='surrogateescape')}",
        },
        command_line("code", "outline", path),
    )  # fmt: skip


def _excerpt(view: CodeView, path: str, start: int, end: int | None, first_line: int) -> Excerpt | None:
    """Return a part of a file, with secrets masked; None where it has no text."""
    from periplus.base.text.secrets import mask_secrets
    from periplus.web.rendering.source import source_lines

    data = view.text(path)
    if not data or b"\0" in data[:8_192]:
        return None
    line_start = data.rfind(b"\n", 0, start) + 1
    text, _ = mask_secrets(data[line_start:end].decode("utf-8", "replace"))
    return source_lines(text, path, first_line=first_line)


# -- references --------------------------------------------------------------------------------------------------------


def _callers(view: CodeView, places: Iterable[Place]) -> list[PlaceRow]:
    """Return the symbols that name this one, proven ones first, each once for a role."""
    grouped: dict[tuple[SymbolId, str, str], list[int]] = {}
    for place in places:
        grouped.setdefault((place.owner, place.role, place.grade), []).append(place.line)
    rows = [_place_row(view, owner, role, grade, owner.path, lines) for (owner, role, grade), lines in grouped.items()]
    return sorted(rows, key=lambda row: _GRADES.index(row.grade))


def _called(view: CodeView, path: str, uses: Iterable[Use]) -> list[PlaceRow]:
    return [_place_row(view, use.symbol, use.role, use.grade, path, list(use.lines)) for use in uses]


def _place_row(view: CodeView, other: SymbolId, role: str, grade: str, path: str, lines: Sequence[int]) -> PlaceRow:
    from periplus.base.text.secrets import mask_secrets

    line = min(lines)
    text, _ = mask_secrets(view.line(path, line)[:_TEXT_CHARACTERS_MAX])
    return PlaceRow(other.name or "the file", other.path, id_address(other), line, len(lines), role, grade, text)


_GRADES: Final = ("proven", "likely", "named")
_TEXT_CHARACTERS_MAX: Final = 160


def id_address(id_: SymbolId) -> str:
    """Return the address of a symbol or a file."""
    fields = {"path": id_.path} | ({"name": id_.name} if id_.name else {})
    return f"/code/symbol?{urlencode(fields, errors='surrogateescape')}"


def _picture(symbol: Symbol, callers: Sequence[PlaceRow], called: Sequence[PlaceRow]) -> Markup | str:
    """Return the symbol between those that name it and those that it names."""
    nodes = [
        Node(
            "",
            symbol.id.name,
            f"{symbol.kind} · {symbol.id.path.rpartition('/')[2]}",
            kind="current",
            title=str(symbol.id),
        )
    ]
    links: list[Link] = []
    seen: set[str] = set()
    more = 0
    for rows, is_caller in ((callers, True), (called, False)):
        known = [row for row in rows if row.grade != "named"]
        drawn = list({row.address: row for row in known if row.address not in seen}.values())
        seen.update(row.address for row in drawn)
        more += max(0, len(drawn) - _DRAWN_MAX)
        for row in drawn[:_DRAWN_MAX]:
            nodes.append(Node(row.address, row.name, row.path, row.address, title=f"{row.path}: {row.name}"))
            ends = (row.address, "") if is_caller else ("", row.address)
            links.append(Link(*ends, "plain" if row.grade == "proven" else "weak", f"{row.role}, {row.grade}"))
    if not links:
        return ""
    return layered_graph(nodes, links, label=f"Symbols that name {symbol.id.name}, and those that it names", more=more)


# -- what the project knows --------------------------------------------------------------------------------------------


def _memory(asked: Asked, path: str, name: str) -> list[KnownHit]:
    """Return memory in force about the symbol, its file, or a folder around it; what is about other symbols of the file only is left out."""
    from periplus.memory.retrieval.related import related

    journal, ground = asked.project.journal, asked.project.ground()
    brought_up(asked.project)
    hits: dict[str, Hit] = {}
    for about in (f"{path}:{name}", path) if name else (path,):
        found = related(journal, [about], now_ms=asked.context.now_ms(), ground=ground, limit=MEMORY_MAX)
        for hit in found.memory:
            if about != path or not name or not _is_about_others(asked, hit, path):
                hits.setdefault(hit.item_id, hit)
    return [_known(hit, f"/memory/{hit.item_id}") for hit in list(hits.values())[:MEMORY_MAX]]


def _is_about_others(asked: Asked, hit: Hit, path: str) -> bool:
    """Return True for memory that names symbols of the file, and neither the file nor a folder around it."""
    entity = asked.project.journal.get(hit.item_type, hit.item_id)
    about = entity.value.get("about") if entity is not None else None
    refs = [str(item.get("ref", "")) for item in about if isinstance(item, dict)] if isinstance(about, list) else []
    return bool(refs) and not any(f"{path}/".startswith(f"{ref.rstrip('/')}/") for ref in refs)


def _sessions(asked: Asked, path: str) -> list[KnownHit]:
    """Return the sessions and commits that touched the file, the newest first, each at the step that changed it as far as time suffices."""
    project = asked.project
    brought_up(project)
    mark = tuple(project.journal.end(name) for name in project.journal.lineages())
    return asked.context.cache.get(
        ("code sessions", path, mark), lambda: _sessions_read(project, path, asked.context.now_ms())
    )


def _sessions_read(project: Project, path: str, now_ms: int) -> list[KnownHit]:
    from periplus.memory.retrieval.related import related
    from periplus.web.pages.code.sessions import changing_step

    until = time.monotonic() + _STEPS_S
    found = []
    hits = related(project.journal, [path], now_ms=now_ms, limit=SESSIONS_MAX).work
    for hit in sorted(hits, key=lambda hit: hit.ts, reverse=True):
        step = hit.part if hit.part >= 0 else None
        if step is None and time.monotonic() < until:
            step = changing_step(project, hit.item_id, path)
        if step != _ONLY_READ:
            found.append(_known(hit, f"/sessions/{hit.item_id}{f'?from={step}' if step is not None else ''}"))
    return found


def _claims(asked: Asked, path: str, name: str) -> list[Claim]:
    """Return the live claims that cover the symbol or its file."""
    from periplus.memory.claim_status import live_claims, scopes_of
    from periplus.memory.scopes import literal_scope, overlap

    scope = literal_scope(path, is_file=True)
    if name:
        scope = scope._replace(symbol=tuple(name.split(".")))
    return [
        Claim(
            claim.item_id,
            str(claim.value.get("holder", "")),
            ", ".join(one.text for one in scopes_of(claim)),
            str(claim.value.get("expires", "")),
        )
        for claim in live_claims(asked.project.journal, asked.context.now_ms())
        if any(overlap(one, scope) for one in scopes_of(claim))
    ][:CLAIMS_MAX]


def _known(hit: Hit, address: str) -> KnownHit:
    return KnownHit(hit.item_id, hit.kind, " ".join(hit.text.split())[:300], hit.ts, address, hit.standing)


def _file_address(path: str) -> str:
    return f"/code/symbol?{urlencode({'path': path}, errors='surrogateescape')}"


def _folder_address(path: str) -> str:
    folder = path.rpartition("/")[0]
    return f"/code?{urlencode({'path': folder}, errors='surrogateescape')}" if folder else "/code"
