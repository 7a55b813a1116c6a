"""Map of a project as pages: its files, the likeliest for the task first, with the symbols that they define.

    @periplus/map/index.md        the whole project, ranked for the request of this turn
    @periplus/map/src/app.md      one folder

A page is made when it is read, from the files as they are then. Nothing is kept, and every page is bounded.
"""

from __future__ import annotations

__all__ = ["MAP_ROOT", "MapPages", "overview"]

import posixpath
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from periplus.agent.perception.file_ranking import Ranked, Task, ranked
from periplus.agent.perception.graded_uses import CodeAtHand
from periplus.agent.perception.project_files import Bounds, Tree, look_at
from periplus.agent.tape.fence import left_out, one_line
from periplus.agent.tools.text_pages.page_source import Page, PageMatch, search_pages
from periplus.base.errors import NotFoundError, PeriplusError
from periplus.base.filesystem.confined_folder import Confined, judge_path
from periplus.base.text.token_estimate import estimate_tokens

if TYPE_CHECKING:
    from periplus.code import Symbol

MAP_ROOT: Final = "@periplus/map/"
TOKENS_MAX: Final = 2_400
LIKELY_MAX: Final = 30
FOLDERS_MAX: Final = 60
PARSED_MAX: Final = 40
PARSED_BYTES_MAX: Final = 256 << 10
PARSE_SECONDS_MAX: Final = 2.0
SYMBOLS_MAX: Final = 12
INNER_MAX: Final = 6
OVERVIEW_BOUNDS: Final = Bounds(entries=4_000, folder_entries=2_000, depth=8, seconds=0.5)
OVERVIEW_FOLDERS: Final = 10
OVERVIEW_FILES: Final = 12
_INDEX: Final = "index"


class MapPages:
    """Satisfies ``page_source.PageSource``. ``task`` is called when a page is read."""

    def __init__(
        self, root: str, task: Callable[[], Task], *, bounds: Bounds | None = None, unread: Callable[[str], bool] = lambda _: False,
        monotonic_s: Callable[[], float] = time.monotonic, code: CodeAtHand = nullcontext,
    ) -> None:  # fmt: skip
        """``code`` opens the code map of the project, or None where it is not at hand: then files are parsed."""
        self._code = code
        self._root, self._task, self._bounds, self._monotonic_s = root, task, bounds or Bounds(), monotonic_s
        self._unread = unread

    def list(self, prefix: str) -> Sequence[Page]:
        index = Page(f"{MAP_ROOT}{_INDEX}.md", "the project's files, the likeliest for the task first")
        if not prefix.startswith(MAP_ROOT):
            return [index] if index.handle.startswith(prefix) else []
        tree = look_at(self._root, "", self._bounds, unread=self._unread, monotonic_s=self._monotonic_s)
        pages = [
            Page(_handle(path), f"{count:,} file{'s' * (count != 1)}") for path, count in tree.counts.items() if path
        ]
        return [page for page in [index, *sorted(pages)] if page.handle.startswith(prefix)]

    def read(self, handle: str) -> str:
        folder = _folder_of(handle)
        try:
            tree = look_at(self._root, folder, self._bounds, unread=self._unread, monotonic_s=self._monotonic_s)
        except PeriplusError as error:
            raise NotFoundError(
                f"no page {handle}: {error}", mend=f"list(path='{MAP_ROOT}') shows what there is."
            ) from error
        task = self._task()
        rows = ranked(tree.files, task)
        writer = _Writer(TOKENS_MAX)
        writer.lines([*_head(folder, tree, task), *_unseen(tree)])
        if folder:
            self._files_of(writer, folder, rows)
            self._folders(writer, tree, folder)
        else:
            self._likely(writer, rows)
            self._folders(writer, tree, folder)
            self._files_of(writer, folder, rows)
        return writer.text()

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        if not prefix.startswith(MAP_ROOT) or not prefix.endswith(".md"):
            return []  # the search tool covers all folders at once, and faster
        return search_pages(self, pattern, prefix)

    def _likely(self, writer: _Writer, rows: Sequence[Ranked]) -> None:
        likely = [row for row in rows if row.why][:LIKELY_MAX]
        if likely:
            writer.lines(["", "## Likely to matter for this request"])
            writer.rows(self._described(likely), len(likely), "files", lambda shown: _page_of(likely[shown]))

    def _files_of(self, writer: _Writer, folder: str, rows: Sequence[Ranked]) -> None:
        own = [row for row in rows if posixpath.dirname(row.entry.path) == folder]
        if own:
            writer.lines(["", f"## Files of {folder or 'the project itself'}"])
            writer.rows(self._described(own), len(own), "files", lambda _: f"list(path={folder or '.'!r})")

    def _folders(self, writer: _Writer, tree: Tree, folder: str) -> None:
        inner = tree.inner(folder)
        if not inner:
            return
        kinds = _kinds(tree, folder)
        writer.lines(["", "## Folders"])
        shown = sorted(inner, key=lambda path: (-tree.counts[path], path))[:FOLDERS_MAX]
        rows = (f"{path}/ {_many(tree.counts[path])}{kinds.get(path, '')}: {_handle(path)}" for path in shown)
        writer.rows(rows, len(inner), "folders", lambda _: f"list(path='{MAP_ROOT}')")

    def _described(self, rows: Sequence[Ranked]) -> Iterable[str]:
        """One line for each file: size, definitions, reason for its rank. The code map is asked for them first. Only as many files are parsed
        as are asked for and time allows.
        """
        from periplus.code.symbols import language_of, symbols_in

        deadline = self._monotonic_s() + PARSE_SECONDS_MAX
        parsed = 0
        with Confined(self._root) as held, self._code() as view:
            for row in rows:
                entry = row.entry
                known = view.file(entry.path) if view is not None else None
                what = _definitions(symbols_in(known.facts)) if known is not None else ""
                is_in_time = parsed < PARSED_MAX and self._monotonic_s() < deadline
                if known is None and is_in_time and entry.size <= PARSED_BYTES_MAX and language_of(entry.path):
                    parsed += 1
                    what = _defines(held, entry.path)
                why = f" [{one_line(row.why, 120)}]" if row.why else ""
                yield f"{entry.path} {entry.size:,} bytes{what}{why}"


def overview(root: str, unread: Callable[[str], bool] = lambda _: False) -> tuple[str, str]:
    """Overview for the first tail of a session: counts and the top folders, or all files of a small project."""
    try:
        tree = look_at(root, "", OVERVIEW_BOUNDS, unread=unread)
    except PeriplusError:
        return "", ""
    if not tree.files:
        return "", ""
    more = "over " if tree.stopped else ""
    text = f"{more}{_many(len(tree.files))}; read(path='{MAP_ROOT}{_INDEX}.md') has them ranked for what you do"
    if len(tree.files) <= OVERVIEW_FILES and not tree.stopped:
        return text, ", ".join(sorted(entry.path for entry in tree.files))
    kinds = _kinds(tree, "")
    inner = sorted(tree.inner(""), key=lambda path: (-tree.counts[path], path))
    lines = [f"{path}/ {_many(tree.counts[path])}{kinds.get(path, '')}" for path in inner[:OVERVIEW_FOLDERS]]
    if len(inner) > OVERVIEW_FOLDERS:
        lines.append(left_out(len(inner) - OVERVIEW_FOLDERS, "folders", "list(path='.')"))
    return text, "\n".join(lines)


class _Writer:
    """Lines within a token budget; lines that do not fit are counted."""

    def __init__(self, tokens_max: int) -> None:
        self._left = tokens_max
        self._lines: list[str] = []

    def lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._left -= estimate_tokens(line) + 1
            self._lines.append(line)

    def rows(self, rows: Iterable[str], count: int, what: str, call: Callable[[int], str]) -> None:
        """Write a section: at most half of the remaining budget, so that the next has room, but always its first row."""
        room = max(self._left // 2, 200)
        shown = 0
        for row in rows:
            size = estimate_tokens(row) + 1
            if size > room and shown:
                break
            room -= size
            self.lines([row])
            shown += 1
        if shown < count:
            self.lines([left_out(count - shown, what, call(shown))])

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _head(folder: str, tree: Tree, task: Task) -> list[str]:
    what = f"{folder}/" if folder else "this project"
    ranked_for = f"; ranked for: {one_line(task.text, 160)}" if task.text.strip() else ""
    size = f"{_many(len(tree.files))} in {len(tree.counts):,} folder{'s' * (len(tree.counts) != 1)}"
    return [f"# Map of {what}", f"{size}, without what .gitignore names{ranked_for}"]


def _unseen(tree: Tree) -> list[str]:
    lines = [f"not seen: {one}" for one in tree.unseen[:8]]
    if len(tree.unseen) > len(lines):
        lines.append(f"not seen: {len(tree.unseen) - len(lines):,} folders more")
    if tree.kept_back:
        lines.append(f"not shown: {tree.kept_back:,} entries that a rule keeps from being read")
    if tree.stopped:
        lines.append(
            f"the walk stopped here: {tree.stopped}; what lies deeper is not counted, its folders have pages of their own"
        )
    return lines


def _kinds(tree: Tree, folder: str) -> dict[str, str]:
    """The most common suffix of the files below each inner folder."""
    counters: dict[str, Counter[str]] = {}
    lead = f"{folder}/" if folder else ""
    for entry in tree.files:
        inner, slash, _ = entry.path[len(lead) :].partition("/")
        if slash:
            suffix = posixpath.splitext(entry.path)[1][:12]
            counters.setdefault(lead + inner, Counter())[suffix] += 1
    found = {}
    for path, counter in counters.items():
        suffix, _ = min(counter.items(), key=lambda item: (-item[1], item[0]))
        found[path] = f", mostly {suffix}" if suffix else ""
    return found


def _defines(held: Confined, path: str) -> str:
    from periplus.code.symbols import symbols_of

    try:
        return _definitions(symbols_of(path, held.read(path)).found)
    except PeriplusError:
        return ""


def _definitions(found: Sequence[Symbol]) -> str:
    """The public definitions of a file, with the names inside each; its constants if it has no others."""
    public = [one for one in found if one.name.count(".") <= 1 and not one.name.rpartition(".")[2].startswith("_")]
    public = [one for one in public if not one.name.startswith("_")]
    outer = [one for one in public if "." not in one.name]
    main = [one for one in outer if one.kind != "value"] or outer
    rows = []
    for one in main[:SYMBOLS_MAX]:
        inner = [n.name.rpartition(".")[2] for n in public if n.name.startswith(f"{one.name}.") and n.kind != "value"]
        more = f", {len(inner) - INNER_MAX} more" if len(inner) > INNER_MAX else ""
        within = f" ({', '.join(one_line(name, 60) for name in inner[:INNER_MAX])}{more})" if inner else ""
        rows.append(f"{one.kind} {one_line(one.name, 80)} {one.start_line}-{one.end_line}{within}")
    if len(main) > SYMBOLS_MAX:
        rows.append(f"{len(main) - SYMBOLS_MAX} more")
    return f": {', '.join(rows)}" if rows else ""


def _handle(folder: str) -> str:
    return f"{MAP_ROOT}{folder or _INDEX}.md" if folder != _INDEX else f"{MAP_ROOT}{_INDEX}/{_INDEX}.md"


def _page_of(row: Ranked) -> str:
    """The call that shows a file of the map, for one that had no room."""
    return f"read(path={_handle(posixpath.dirname(row.entry.path))!r})"


def _folder_of(handle: str) -> str:
    """The folder of a page. Raises NotFoundError if there is no such page."""
    name = handle.removeprefix(MAP_ROOT)
    if not name.endswith(".md") or name == handle:
        raise NotFoundError(f"no page {handle}", mend=f"list(path='{MAP_ROOT}') shows what there is.")
    folder = name.removesuffix(".md")
    if folder == _INDEX:
        return ""
    if folder == f"{_INDEX}/{_INDEX}":
        return _INDEX
    try:
        return "/".join(judge_path(folder))
    except PeriplusError as error:
        raise NotFoundError(f"no page {handle}: {error}") from error


def _many(count: int) -> str:
    return f"{count:,} file{'s' * (count != 1)}"
