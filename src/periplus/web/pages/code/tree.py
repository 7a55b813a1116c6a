"""The tree map of the project, and the search for its symbols."""

from __future__ import annotations

__all__ = ["tree"]

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from periplus.base.errors import NotFoundError
from periplus.web.pages.code.folders import (
    Amount,
    Child,
    Folder,
    children_of,
    folder_at,
    folder_tree,
    greatest_value,
    levelled,
    tiles_of,
)
from periplus.web.pages.code.measures import MEASURES, Measure, legend_of, level_of, measured, scale_of, value_text
from periplus.web.pages.code.opening import code_map, command_line, lacks_of, project_path
from periplus.web.pages.model import Asked, View, link
from periplus.web.rendering.text import bytes_text, count_text
from periplus.web.rendering.treemap import treemap

if TYPE_CHECKING:
    from periplus.code.code_map import CodeMap
    from periplus.code.queries.file_sizes import FileSize
    from periplus.code.queries.symbol_text import Symbol

SYMBOLS_PER_PAGE: Final = 50
ROWS_PER_PAGE: Final = 200
_SORTS: Final = ("", *(sign + name for name in ("lines", "bytes", "files", "name", "value") for sign in ("-", "")))
_NAMES: Final[dict[Measure, str]] = {"memory": "Memory", "work": "Work", "age": "Last change", "stale": "Stale memory"}


class Row(NamedTuple):
    """A file or folder of the table; ``value`` is as a person reads it."""

    name: str
    address: str
    files: int
    lines: int
    bytes: int
    value: str
    level: int
    state: str


class _Files(NamedTuple):
    """The files of a view, and their tree; kept between requests."""

    sizes: tuple[FileSize, ...]
    root: Folder
    paths: Mapping[str, bool]


def tree(asked: Asked) -> View:
    """Show the files of a folder as areas, coloured by what is known of them, and as a table; or the symbols that ``q`` finds."""
    chosen = asked.query.choice("by", MEASURES)
    by = next(one for one in MEASURES if one == chosen)
    path = project_path(asked.query.text("path"))
    typed = asked.query.text("q")
    with code_map(asked, may_be_empty=True) as opened:
        if typed:
            return _found(asked, opened, typed, path)
        files = _files(asked, opened)
        lacks = lacks_of(opened, files.sizes)
    folder = files.root if lacks.waiting and not files.sizes else folder_at(files.root, path)
    if folder is None:
        raise NotFoundError(f"the project has no folder {path}", safe="Nothing was changed.", mend="Begin at /code.")
    of: Amount = "bytes" if asked.query.choice("of", ("lines", "bytes")) == "bytes" or not files.root.lines else "lines"
    told = measured(asked, by, files.paths)
    value_of = told.lookup()
    now_s = asked.context.now_ms() // 1000
    address = _addresses(asked)
    tiles = tiles_of(
        folder, value_of, of, lambda name, amount, value: f"{name}: {_amount_text(of, amount)}, {value_text(by, value, now_s)}", address
    )  # fmt: skip
    scale = scale_of(by, greatest_value(tiles))

    def level(value: int) -> int:
        return level_of(by, value, now_s, scale)

    sort = asked.query.choice("sort", _SORTS) or f"-{of}"
    children = _sorted(children_of(folder, value_of), sort)
    page = asked.query.number("page", 1, least=1)
    rows = [
        _row(child, value_text(by, child.value, now_s), level(child.value), address)
        for child in children[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]
    ]
    label = f"Files of {path or 'the project'} by size, coloured by {_NAMES[by].lower()}"
    shown = treemap(levelled(tiles, level), label=label) if folder.amount(of) else ""
    return View(
        "code/tree.html", path or "Code",
        {
            "picture": shown, "rows": rows, "page": page, "has_more": len(children) > page * ROWS_PER_PAGE, "total": count_text(len(children), "entry"),
            "sort": sort, "by": by, "of": of, "path": path, "crumbs": _crumbs(asked, path), "folder": folder, "lacks": lacks, "note": told.note,
            "measures": [(one, _NAMES[one]) for one in MEASURES], "measure": _NAMES[by], "typed": "",
            "legend": legend_of(by, scale),
        },
        "periplus code status",
    )  # fmt: skip


def _files(asked: Asked, opened: CodeMap) -> _Files:
    from periplus.code.queries.file_sizes import file_sizes, view_mark

    view = opened.view()

    def make() -> _Files:
        sizes = tuple(file_sizes(view))
        return _Files(sizes, folder_tree(sizes), {file.path: file.is_changed for file in sizes})

    return asked.context.cache.get(("code files", view.root, view_mark(view)), make)


def _found(asked: Asked, opened: CodeMap, typed: str, path: str) -> View:
    """Show the symbols that a name finds."""
    page = asked.query.number("page", 1, least=1, most=1_000)
    found = opened.find(typed, path=path, limit=SYMBOLS_PER_PAGE, offset=(page - 1) * SYMBOLS_PER_PAGE)
    rows = [(symbol, symbol_address(symbol)) for symbol in found.symbols]
    return View(
        "code/found.html", f"Code: {typed[:60]}",
        {
            "typed": typed, "rows": rows, "total": found.total, "page": page, "has_more": found.total > page * SYMBOLS_PER_PAGE,
            "path": path, "lacks": lacks_of(opened),
        },
        command_line("code", "find", typed),
    )  # fmt: skip


def symbol_address(symbol: Symbol) -> str:
    """Return the address of a symbol's page."""
    fields = {"path": symbol.id.path, "name": symbol.id.name}
    if symbol.id.ordinal:
        fields["ordinal"] = str(symbol.id.ordinal + 1)
    return f"/code/symbol?{urlencode(fields, errors='surrogateescape')}"


def _addresses(asked: Asked) -> Callable[[str, bool], str]:
    """Return a function that gives the address of a folder on this page, or of a file."""
    kept = [(name, asked.query.text(name)) for name in ("by", "of", "sort") if asked.query.text(name)]

    def address(path: str, is_folder: bool) -> str:  # noqa: FBT001 - the shape of a callback
        if not is_folder:
            return f"/code/symbol?{urlencode({'path': path}, errors='surrogateescape')}"
        return f"{asked.base}?{urlencode([*kept, ('path', path)], errors='surrogateescape')}"

    return address


def _crumbs(asked: Asked, path: str) -> list[tuple[str, str]]:
    """Return the folders around ``path`` with their addresses; the last one has none."""
    parts = path.split("/") if path else []
    address = _addresses(asked)
    above = [(part, address("/".join(parts[: end + 1]), True)) for end, part in enumerate(parts[:-1])]
    return [("project", link(asked.base, asked.query, path=None, page=None)), *above, (parts[-1], "")] if parts else []


def _sorted(children: list[Child], sort: str) -> list[Child]:
    key = sort.removeprefix("-")
    ordered = sorted(children, key=lambda one: one.name)
    if key != "name":
        ordered.sort(key=attrgetter(key), reverse=sort.startswith("-"))
    elif sort.startswith("-"):
        ordered.reverse()
    return ordered


def _row(child: Child, value: str, level: int, address: Callable[[str, bool], str]) -> Row:
    return Row(
        child.name, address(child.path, child.is_folder), child.files, child.lines, child.bytes, value, level, child.state
    )  # fmt: skip


def _amount_text(of: Amount, amount: int) -> str:
    return count_text(amount, "line") if of == "lines" else bytes_text(amount)
