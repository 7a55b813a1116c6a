"""The code map of a project, and what the project knows of a symbol: memory about it, live claims, the session that changed it last."""

from __future__ import annotations

__all__ = [
    "SymbolKnowledge",
    "code_of",
    "fresh_view",
    "hurried_map",
    "knowledge_of",
    "memory_of_symbols",
    "most_dependents_in",
    "parse_of",
    "seeds_of",
]

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.base.errors import UsageError
from periplus.journal import Layout

if TYPE_CHECKING:
    from periplus.code import Symbols
    from periplus.code.code_map import CodeMap
    from periplus.code.queries.dependents import Dependents
    from periplus.code.queries.view import CodeView
    from periplus.project.store import ProjectStore

_MEMORY_MAX: Final = 20
_SEEDS_MAX: Final = 20
_DEPENDENTS_MAX: Final = 3
_PATHS_MAX: Final = 20
_DEFINING_MAX: Final = 3  # files that define a name: of a commoner one it is not known which is meant


class SymbolKnowledge(NamedTuple):
    """``memory`` are hits of memory about the symbol or its file, ``claims`` lines of live claims on it, ``changed_by`` the session or commit
    that touched its file last; empty where none did.
    """

    memory: tuple[str, ...]
    claims: tuple[str, ...]
    changed_by: str


def code_of(project: ProjectStore) -> CodeMap:
    """Return the code map of the worktree that is worked in; it is closed with the project."""
    if project.opened_code is None:
        from periplus.code.code_map import CodeMap
        from periplus.interop.git_history.git_process import environment

        project.opened_code = CodeMap(project.top, Layout(project.root).code, environment=environment())
    return project.opened_code


def hurried_map(index: str, top: str) -> CodeMap:
    """Return the code map of the worktree ``top`` for an answer in a hurry: it parses a few files at most."""
    from periplus.code.code_map import HOOK_BUDGET_S, CodeMap
    from periplus.interop.git_history.git_process import environment

    return CodeMap(top, index, environment=environment(), budget_s=HOOK_BUDGET_S, is_hurried=True)


@contextlib.contextmanager
def fresh_view(index: str, top: str, *, with_graph: bool = False) -> Iterator[CodeView | None]:
    """Open the view of the worktree ``top`` in a hurry; None where the index at ``index`` has none, or it is behind by more than a few files.

    Nothing is made for the question: an index that nobody asked for is not begun. ``with_graph`` brings its graph up to date, too, if that is soon done.
    """
    from periplus.base.errors import EnvironmentFailure
    from periplus.code.index.glance import has_view

    if not has_view(index, top):
        yield None
        return
    with hurried_map(index, top) as code_map:
        try:
            view: CodeView | None = code_map.view(with_graph=with_graph)
        except EnvironmentFailure:  # git is too slow, or gone
            view = None
        yield None if code_map.freshness.waiting or code_map.freshness.is_behind else view


def memory_of_symbols(project: ProjectStore, text: str) -> dict[tuple[str, str], str]:
    """Return the memory about symbols that ``text`` names and the code map knows, and about their files, by key, with what it is about. The
    index is asked as it is.
    """
    index = Layout(project.root).code
    if not os.path.exists(index):
        return {}
    from periplus.code.index.glance import defining
    from periplus.memory.text.named_symbols import about_symbols, symbol_words

    words = symbol_words(text)
    if not words:
        return {}
    files = defining(index, project.top, [word.rpartition(".")[2] for word in words], _DEFINING_MAX)
    return about_symbols(
        project.journal, [(path, word) for word in words for path in files.get(word.rpartition(".")[2], ())]
    )


def parse_of(project: ProjectStore) -> Callable[[str, bytes], Symbols]:
    """Return a function that gives the symbols of a file as ``symbols_of`` does: from the index of the code map, where that has the contents."""

    def parse(path: str, data: bytes) -> Symbols:
        from periplus.code.index.known_symbols import KnownSymbols

        return KnownSymbols(Layout(project.root).code)(path, data)

    return parse


def most_dependents_in(project: ProjectStore, paths: Sequence[str]) -> tuple[Dependents, ...]:
    """Return the symbols that the files (or FILE:SYMBOL) ``paths`` export and on which most depends. None where the code map of the worktree was
    never made, or is behind by more than a few files.
    """
    top = project.top
    asked = [path for path in paths if os.path.isfile(os.path.join(top, path.partition(":")[0]))][:_PATHS_MAX]
    if not asked:
        return ()
    found: list[Dependents] = []
    with fresh_view(Layout(project.root).code, top) as view:
        if view is None:
            return ()
        from periplus.code.code_map import HOOK_BUDGET_S
        from periplus.code.queries.dependents import dependents_of, most_dependents
        from periplus.code.queries.symbol_lookup import symbols_named

        until = time.monotonic() + HOOK_BUDGET_S
        for path in asked:
            if view.sources.exists(path):
                found += most_dependents(view, path, _DEPENDENTS_MAX, until)
            elif ":" in path:
                found += [
                    one for symbol in symbols_named(view, path) if (one := dependents_of(view, symbol)) is not None
                ]
    found.sort(key=lambda one: (-one.total, one.symbol))
    return tuple(one for one in found if one.total)[:_DEPENDENTS_MAX]


def knowledge_of(project: ProjectStore, path: str, name: str) -> SymbolKnowledge:
    """Return what the project knows of the symbol ``name`` of the file ``path`` (of the file, where it is empty)."""
    from periplus.memory.retrieval.related import related

    now_ms = project.journal.clock.now_ms()
    project.journal.refresh()
    found = related(project.journal, [f"{path}:{name}" if name else path], now_ms=now_ms, limit=_MEMORY_MAX)
    work = related(project.journal, [path], now_ms=now_ms, limit=1).work
    return SymbolKnowledge(
        tuple(f"{hit.item_id} {' '.join(hit.text.split())}" for hit in found.memory),
        _claims_on(project, path, name, now_ms),
        f"{work[0].item_id} {work[0].ts[:10]} {' '.join(work[0].text.split())}" if work else "",
    )


def seeds_of(project: ProjectStore, task: str) -> dict[str, float]:
    """Return the files that earlier work and memory connect with ``task``, with weights of at most 1."""
    from periplus.memory.retrieval.file_votes import likely_files

    votes = likely_files(project.journal, task, names=(), most=_SEEDS_MAX)
    best = max((vote.score for vote in votes), default=0)
    return {vote.path: vote.score / best for vote in votes if vote.score > 0}


def _claims_on(project: ProjectStore, path: str, name: str, now_ms: int) -> tuple[str, ...]:
    from periplus.memory.claim_status import live_claims, scopes_of
    from periplus.memory.scopes import literal_scope, overlap, parse_scope

    try:
        asked = parse_scope(f"{path}:{name}") if name else literal_scope(path, is_file=True)
    except UsageError:  # a name that no claim can have
        asked = literal_scope(path, is_file=True)
    return tuple(
        f"{claim.item_id} {claim.value.get('holder')}: {', '.join(scope.text for scope in scopes_of(claim))}"
        for claim in live_claims(project.journal, now_ms)
        if any(overlap(scope, asked) for scope in scopes_of(claim))
    )
