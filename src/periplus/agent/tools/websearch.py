"""The tool ``web_search``, through a provider that the person configured; without one there is no such tool.

A provider is a function. ``JsonProvider`` is one for services that answer a GET with JSON: where the question goes into the address, where the key
goes into a header, and where in the answer the results are. Its key is sent to that address alone and over no redirect.
"""

from __future__ import annotations

__all__ = ["JsonProvider", "SearchProvider", "WebHit", "web_search_tool"]

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from periplus.agent.contracts import Access, ToolResult
from periplus.agent.tools.fetching import Fetcher
from periplus.agent.tools.table import Arguments, Parameter, Tool
from periplus.base.errors import EnvironmentFailure, FormatError, UsageError

HITS_MAX: Final = 20
_TEXT_CHARS_MAX: Final = 400
_PARAMETERS: Final = (
    Parameter("query", "text", required=True, most=500),
    Parameter("count", "integer", "default 8", least=1, most=HITS_MAX),
)


class WebHit(NamedTuple):
    """A page that was found."""

    title: str
    url: str
    text: str = ""


SearchProvider: TypeAlias = Callable[[str, int], Sequence[WebHit]]


class JsonProvider:
    """``address`` has ``{query}`` and may have ``{count}``; ``results`` names the way to the list of results, by dots."""

    def __init__(
        self, address: str, *, results: str, title: str = "title", url: str = "url", text: str = "description",
        headers: Mapping[str, str] | None = None, fetcher: Fetcher | None = None,
    ) -> None:  # fmt: skip
        if "{query}" not in address:
            raise UsageError(
                "the address of a search provider has no {query}", mend="Write {query} where the question goes."
            )
        self._address, self._results = address, results.split(".") if results else []
        self._names = (title, url, text)
        self._headers = dict(headers or {})
        self._fetcher = fetcher or Fetcher()

    def __call__(self, query: str, count: int) -> list[WebHit]:
        """Raises EnvironmentFailure for an answer that is none, FormatError for one without results where they should be."""
        url = self._address.replace("{query}", quote(query, safe="")).replace("{count}", str(count))
        found = self._fetcher.fetch(url, headers=self._headers, redirects=0)
        if found.status >= 400 or found.is_cut:
            raise EnvironmentFailure(
                f"the search provider answers {found.status}{', and too much' if found.is_cut else ''}"
            )
        try:
            at: Any = json.loads(found.body)
            for name in self._results:
                at = at[name]
            rows = [tuple(str(row.get(name) or "") for name in self._names) for row in at[:count]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError(
                f"the search provider's answer has no results at {'.'.join(self._results) or 'its top'}"
            ) from error
        return [WebHit(*row) for row in rows if row[1].startswith(("http://", "https://"))]


def web_search_tool(provider: SearchProvider) -> Tool:
    def run(args: Arguments) -> ToolResult:
        rows = [
            f"{hit.title}\n  {hit.url}\n  {' '.join(hit.text.split())[:_TEXT_CHARS_MAX]}".rstrip()
            for hit in provider(args.text("query"), args.integer("count", 8))[:HITS_MAX]
        ]
        return ToolResult(outcome="ok", output="\n".join(rows) or "nothing was found")

    return Tool(
        "web_search", "Search the web.", _PARAMETERS, run, lambda _: (Access(resource="network:web", mode="read"),)
    )
