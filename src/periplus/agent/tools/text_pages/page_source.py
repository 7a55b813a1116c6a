"""Pages: texts that are not files but are read, listed and searched like files, by a handle ``@periplus/…``.

Earlier turns, outputs of commands, memory: each backend is a ``PageSource``, and ``Pages`` routes a handle to the source of its folder. A
page is text, and is read in windows like a file.
"""

from __future__ import annotations

__all__ = ["HANDLE_PREFIX", "Page", "PageMatch", "PageSource", "Pages", "is_handle", "search_pages"]

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from periplus.base.errors import NotFoundError

HANDLE_PREFIX: Final = "@periplus/"
_LISTED_MAX: Final = 10_000


class Page(NamedTuple):
    """A page in a listing. ``size`` in characters, 0 if not known."""

    handle: str
    title: str = ""
    size: int = 0


class PageMatch(NamedTuple):
    """A line of a page that matches a pattern; ``line`` counts from 1."""

    handle: str
    line: int
    text: str


@runtime_checkable
class PageSource(Protocol):
    """A folder of pages. Handles are complete (``@periplus/turns/12.md``); ``prefix`` is a handle or the beginning of several.

    ``read`` raises NotFoundError for a missing page. ``search`` takes a pattern of the search tool and may use ``search_pages``; it raises
    UsageError for an invalid pattern.
    """

    def list(self, prefix: str) -> Sequence[Page]: ...

    def read(self, handle: str) -> str: ...

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]: ...


def is_handle(path: str) -> bool:
    return path == HANDLE_PREFIX[:-1] or path.startswith(HANDLE_PREFIX)


def search_pages(
    source: PageSource, pattern: str, prefix: str, is_looked_in: Callable[[Page], bool] = lambda _: True
) -> list[PageMatch]:
    """Search the pages under ``prefix`` line by line, for a source without an index of its own."""
    from periplus.agent.tools.text_pages.pattern_matching import match_texts
    from periplus.agent.tools.text_pages.search_patterns import Pattern

    names = [page.handle for page in source.list(prefix)[:_LISTED_MAX] if is_looked_in(page)]
    found = match_texts(Pattern.parse(pattern), ((name, source.read(name)) for name in names))
    return [PageMatch(name, line, text) for name, line, text in found]


class Pages:
    """Several sources as one, by their folder below ``@periplus/`` (``turns``, ``output``)."""

    def __init__(self, sources: Mapping[str, PageSource] | None = None, rest: PageSource | None = None) -> None:
        self._sources = dict(sources or {})
        self._rest = rest

    def add(self, folder: str, source: PageSource) -> None:
        self._sources[folder] = source

    def list(self, prefix: str) -> Sequence[Page]:
        found = [page for source in self._asked(prefix) for page in source.list(prefix)]
        return sorted(set(found))

    def read(self, handle: str) -> str:
        for source in self._asked(handle):
            try:
                return source.read(handle)
            except NotFoundError:
                continue
        raise NotFoundError(f"no page {handle}", mend=f"list(path='{HANDLE_PREFIX[:-1]}') shows what there is.")

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return sorted(match for source in self._asked(prefix) for match in source.search(pattern, prefix))

    def _asked(self, prefix: str) -> Sequence[PageSource]:
        folder, slash, _ = prefix.removeprefix(HANDLE_PREFIX).partition("/")
        if slash and folder in self._sources:
            return [self._sources[folder]]
        if slash:
            return [self._rest] if self._rest is not None else []
        return [*self._sources.values(), *([self._rest] if self._rest is not None else [])]
