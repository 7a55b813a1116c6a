"""``CodeMap``: where everything in the code of a worktree is, and what depends on it.

Each question brings the index up to date first, within a budget of time; `freshness` says what is missing in the answer. Values such as
the environment come in as arguments; nothing here reads them from the process.
"""

from __future__ import annotations

__all__ = ["CodeMap", "Found", "ImpactAnswer", "Outline", "Shown", "Status", "Symbol"]

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from periplus.base.errors import EnvironmentFailure, NotFoundError, UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.code.index.database import Database, discard
from periplus.code.index.refresh import Freshness, Progress, Refresher
from periplus.code.queries.impact import Impact, impact_of, is_test
from periplus.code.queries.references import Place, Use, places_of, uses_of
from periplus.code.queries.symbol_lookup import symbols_named
from periplus.code.queries.symbol_text import Symbol, symbol_of
from periplus.code.queries.view import CodeView, SymbolId

if TYPE_CHECKING:
    from periplus.code.exports.graph import Graph
    from periplus.code.graph.reading import GraphReading
    from periplus.code.queries.runner_commands import TestCommand
    from periplus.code.queries.symbol_search import SearchHit
    from periplus.code.ranking.repository_map import RepositoryMap

HOOK_BUDGET_S: Final = 0.5
BUDGET_S: Final = 5.0
GRAPH_S_MAX: Final = 3_600.0
LAZY_S_MIN: Final = 1.0
_NEAREST: Final = 5


class Found(NamedTuple):
    """A page of symbols; ``total`` counts all of them."""

    symbols: tuple[Symbol, ...]
    total: int


class Outline(NamedTuple):
    """The symbols of one file in order; ``state`` says why there are none."""

    path: str
    language: str
    state: str
    symbols: tuple[Symbol, ...]


class Shown(NamedTuple):
    """One symbol with its text, the places that name it, what it names, and the tests that reach it."""

    symbol: Symbol
    text: str
    places: tuple[Place, ...]
    uses: tuple[Use, ...]
    tests: tuple[SymbolId, ...]


class ImpactAnswer(NamedTuple):
    """Everything that depends on what was asked for, the tests among it, and how to run them."""

    impact: Impact
    removed: tuple[SymbolId, ...]
    tests: tuple[SymbolId, ...]
    commands: tuple[TestCommand, ...]


class Status(NamedTuple):
    """Counts of a view. ``languages`` maps a language to files, lines, symbols; ``unparsed`` maps a reason to a number of files."""

    root: str
    languages: Mapping[str, tuple[int, int, int]]
    files: int
    unparsed: Mapping[str, int]
    failed: tuple[tuple[str, str], ...]
    source_bytes: int
    index_bytes: int
    edges: Mapping[str, int]


def index_busy(error: sqlite3.OperationalError, path: str) -> EnvironmentFailure:
    """Return the error for an index that cannot be read or written now, though it is not damaged."""
    return EnvironmentFailure(
        f"the index of the code map cannot be used: {error} ({path})", safe="Nothing was lost: it is derived from the files.",
        mend="Repeat the command; another process may be writing, or the disk be full.",
    )  # fmt: skip


class CodeMap:
    """The code map of the worktree ``root``, with its index in the file ``index``. Close it, or use it as a context manager."""

    def __init__(
        self,
        root: str,
        index: str,
        *,
        environment: Mapping[str, str],
        budget_s: float = BUDGET_S,
        workers: int = 0,
        progress: Progress | None = None,
        go_on: Callable[[], None] | None = None,
        is_hurried: bool = False,
    ) -> None:
        """``go_on`` starts another process that parses what the budget did not suffice for. ``is_hurried`` parses a few files at most, see
        ``Refresher.refresh``.
        """
        self.root = root
        self.freshness = Freshness()
        self._index = index
        self._environment = environment
        self._budget_s = budget_s
        self._workers = workers
        self._progress = progress
        self._go_on = go_on
        self._is_hurried = is_hurried
        self._database = Database(index)
        self._refresher = Refresher(self._database, root, environment)
        self._view: CodeView | None = None
        self.unsearchable = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def view(self, *, with_graph: bool = False) -> CodeView:
        """Return the view, brought up to date within the budget; ``with_graph`` the graph too, which a budget over BUDGET_S includes in any
        case. Damage of the index has it made anew.
        """
        end = time.monotonic() + self._budget_s
        with_graph = with_graph or self._budget_s > BUDGET_S
        try:
            self._refresh()
            if with_graph:
                self._link(end)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and not str(error).startswith("no such"):
                raise index_busy(error, self._index) from error
            self._database.close()
            discard(self._index)
            self._database = Database(self._index)
            self._refresher = Refresher(self._database, self.root, self._environment)
            self._refresh()
            if with_graph:
                self._link(end)
        self._view = CodeView(self._database, self._refresher.view.id, self.root)
        return self._view

    def last_view(self) -> CodeView:
        """Return the view of the last question, as it was then."""
        return self._view or self.view()

    def _refresh(self) -> None:
        self.freshness = self._refresher.refresh(
            self._budget_s, workers=self._workers, progress=self._progress, is_hurried=self._is_hurried
        )
        if self.freshness.waiting and self._go_on is not None:
            self._go_on()

    def _link(self, end: float) -> None:
        """Bring the graph up to date, or have another process do it."""
        from periplus.code.graph.update import ensure_graph

        is_linked = not self.freshness.waiting and ensure_graph(
            self._database, self._refresher.view.id, self.root, end - time.monotonic(),
            is_patient=self._go_on is None or self._budget_s > BUDGET_S,
        )  # fmt: skip
        self.freshness = self.freshness._replace(has_graph=is_linked)
        if not is_linked and not self.freshness.waiting and self._go_on is not None and self._budget_s <= BUDGET_S:
            self._go_on()

    # -- questions -----------------------------------------------------------------------------------------------------

    def symbols(self, typed: str, view: CodeView | None = None) -> list[SymbolId]:
        """Return the symbols that ``typed`` names. Raises NotFoundError with the nearest names where there is none."""
        view = view or self.view()
        found = symbols_named(view, typed)
        if not found:
            from periplus.code.queries.symbol_search import find_symbols

            near = find_symbols(view, typed.rpartition("/")[2], ("", "", ""), (0, _NEAREST))[0]
            raise NotFoundError(
                f"no symbol or file is called {typed!r}", safe="Nothing was changed.",
                mend=f"The nearest: {', '.join(str(one.id) for one in near)}" if near else "periplus code search finds symbols by what they do.",
            )  # fmt: skip
        return found

    def find(
        self, name: str, *, kind: str = "", path: str = "", language: str = "", limit: int = 30, offset: int = 0
    ) -> Found:
        """Return the symbols that ``name`` may mean, the best first: the same name, a beginning, parts, a misspelling; exported ones first,
        tests last, then those that more files mention. ``path`` is a file or folder.
        """
        from periplus.code.queries.symbol_search import find_symbols

        return Found(*find_symbols(self.view(), name, (kind, path, language), (offset, limit)))

    def search(
        self, question: str, *, kind: str = "", path: str = "", language: str = "", limit: int = 10, offset: int = 0
    ) -> list[SearchHit]:
        """Return the symbols that ``question`` describes, the best first. The search table is brought up to date first, within the budget;
        ``unsearchable`` counts the files that are left.
        """
        import time

        from periplus.code.queries.symbol_search import make_searchable, search_symbols

        deadline = time.monotonic() + self._budget_s
        view = self.view()
        self.unsearchable = make_searchable(view, deadline, self._progress)
        if self.unsearchable and self._go_on is not None and not self.freshness.waiting:
            self._go_on()
        return search_symbols(view, question, (kind, path, language), (offset, limit))

    def outline(self, path: str) -> Outline:
        """Return the symbols of a file. Raises NotFoundError where the worktree has no such file."""
        view = self.view()
        if not view.sources.exists(path):
            raise NotFoundError(
                f"the worktree has no file {path}",
                safe="Nothing was changed.",
                mend="periplus code find NAME searches symbols",
            )
        file = view.file(path)
        state, language = view.state(path)
        symbols = (
            tuple(symbol_of(view, file, number) for number in range(len(file.definitions))) if file is not None else ()
        )
        return Outline(path, language, state, symbols)

    def references(self, typed: str) -> list[tuple[SymbolId, list[Place]]]:
        """Return the places that name each symbol that ``typed`` names."""
        view = self.view()
        return [(symbol, places_of(view, symbol)) for symbol in self.symbols(typed, view)]

    def calls(self, typed: str) -> list[tuple[SymbolId, list[Use]]]:
        """Return what each symbol that ``typed`` names refers to."""
        view = self.view()
        return [(symbol, uses_of(view, symbol)) for symbol in self.symbols(typed, view)]

    def show(self, typed: str) -> list[Shown]:
        """Return everything about each symbol that ``typed`` names."""
        view = self.view(with_graph=True)
        seconds = max(self._budget_s, LAZY_S_MIN)
        return [shown for symbol in self.symbols(typed, view) if (shown := _shown(view, symbol, seconds)) is not None]

    def impact(self, targets: Iterable[str], *, depth_max: int = 100) -> ImpactAnswer:
        """Return what depends on paths and symbols."""
        view = self.view(with_graph=True)
        seeds = [symbol for typed in targets for symbol in self.symbols(typed, view)]
        if not seeds:
            raise UsageError(
                "nothing was named", safe="Nothing was changed.", mend="periplus code impact PATH, SYMBOL or --diff"
            )
        return _answer(view, seeds, (), depth_max, max(self._budget_s, LAZY_S_MIN))

    def impact_of_diff(self, revision: str = "HEAD", *, depth_max: int = 100) -> ImpactAnswer:
        """Return what depends on the symbols in which the worktree differs from ``revision``."""
        from periplus.code.queries.changes import touched_symbols

        view = self.view(with_graph=True)
        touched = touched_symbols(view, revision, self._environment)
        return _answer(view, touched.symbols, touched.removed, depth_max, max(self._budget_s, LAZY_S_MIN))

    def map(
        self, task: str = "", budget_tokens: int = 4_000, seeds: Mapping[str, float] | None = None
    ) -> RepositoryMap:
        """Return the repository for ``task`` in a number of tokens. ``seeds`` are files with weights that the caller knows of: open ones,
        recent work, what memory names.
        """
        from periplus.code.ranking.repository_map import repository_map

        return repository_map(self.view(with_graph=True), task, budget_tokens, seeds)

    def graph(self) -> Graph:
        """Return all files, symbols and edges for the encoders of `code.exports`. The budget does not count."""
        from periplus.code.queries.graph_values import whole_graph

        view, graph = self._with_graph()
        return whole_graph(view, graph)

    def around(self, symbol: SymbolId, depth: int = 2) -> Graph:
        """Return the part of the graph within ``depth`` edges of ``symbol``. The budget does not count."""
        from periplus.code.queries.graph_values import graph_around

        view, graph = self._with_graph()
        return graph_around(view, graph, symbol, depth)

    def _with_graph(self) -> tuple[CodeView, GraphReading]:
        from periplus.code.graph.update import ensure_graph

        view = self.view()
        ensure_graph(self._database, view.id, self.root, GRAPH_S_MAX, is_patient=True)
        if view.graph is None:
            raise EnvironmentFailure(
                "the graph could not be made: another process writes the index",
                mend="Repeat the command a little later.",
            )
        self.freshness = self.freshness._replace(has_graph=True)
        return view, view.graph

    def status(self) -> Status:
        """Return counts of the view."""
        import os

        view = self.view()
        rows = view.database.execute(
            "SELECT b.language, b.state, count(*), sum(b.lines), sum(b.symbols), sum(b.size) FROM entry e JOIN blob b ON b.id = e.blob"
            " WHERE e.view = ? GROUP BY b.language, b.state",
            (view.id,),
        ).fetchall()
        languages: dict[str, tuple[int, int, int]] = {}
        unparsed: Counter[str] = Counter()
        size = 0
        for language, state, files, lines, symbols, size_bytes in rows:
            size += size_bytes
            if state not in ("parsed", "errors"):
                unparsed[state] += files
                continue
            name = language.partition(":")[0]
            before = languages.get(name, (0, 0, 0))
            languages[name] = (before[0] + files, before[1] + lines, before[2] + symbols)
        for state, files in view.database.execute(
            "SELECT state, count(*) FROM entry WHERE view = ? AND blob IS NULL AND state != 'gone' GROUP BY state",
            (view.id,),
        ):
            unparsed[state.removesuffix("_own")] += files
        total = sum(files for files, _, _ in languages.values()) + sum(unparsed.values())
        return Status(
            self.root, dict(sorted(languages.items())), total, dict(sorted(unparsed.items())), view.failures(), size,
            sum(os.path.getsize(path) for ending in ("", "-wal") if os.path.exists(path := self._index + ending)),
            view.graph.store.counts() if view.graph is not None else {},
        )  # fmt: skip


def _shown(view: CodeView, symbol: SymbolId, seconds: float) -> Shown | None:
    found = view.definition(symbol)
    if found is None:
        return None
    file, number, one = found
    text = view.text(symbol.path)[one.start_byte : one.end_byte].decode("utf-8", "replace")
    reached = impact_of(view, [symbol], depth_max=4, seconds_max=seconds)
    tests = tuple(one.symbol for one in reached.dependents if one.is_test)
    return Shown(
        symbol_of(view, file, number), text, tuple(places_of(view, symbol)), tuple(uses_of(view, symbol)), tests
    )


def _answer(
    view: CodeView, seeds: Sequence[SymbolId], removed: tuple[SymbolId, ...], depth_max: int, seconds: float
) -> ImpactAnswer:
    from periplus.code.queries.runner_commands import commands_for

    impact = impact_of(view, [*seeds, *removed], depth_max=depth_max, seconds_max=seconds)
    tests = tuple(
        dict.fromkeys(
            [
                *(seed for seed in seeds if is_test(view, seed)),
                *(one.symbol for one in impact.dependents if one.is_test),
            ]
        )
    )
    return ImpactAnswer(impact, removed, tests, tuple(commands_for(view, tests)))
