"""The tool ``web_search``, through a provider that the person configured. Without one there is no such tool.

A provider is a function. ``JsonProvider`` serves services that answer a GET with JSON: it knows where the query goes in the address, which
header has the key, and where the results are in the answer. The key is sent to that address alone and over no redirect.
"""

from __future__ import annotations

__all__ = [
    "SEARCH_KEY",
    "JsonProvider",
    "SearchProvider",
    "SearchService",
    "WebHit",
    "open_provider",
    "web_search_tool",
]

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from periplus.agent.contracts import Access, ToolResult
from periplus.agent.tools.tool_table import Arguments, Parameter, Tool
from periplus.agent.tools.web.page_fetch import Fetcher
from periplus.base.errors import EnvironmentFailure, FormatError, UsageError

HITS_MAX: Final = 20
SEARCH_KEY: Final = "search"
"""The name of the provider's key: ``periplus models key search``."""
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_TEXT_CHARS_MAX: Final = 400
_PARAMETERS: Final = (
    Parameter("query", "text", required=True, most=500),
    Parameter("count", "integer", "default 8", least=1, most=HITS_MAX),
)


class WebHit(NamedTuple):
    """A search result."""

    title: str
    url: str
    text: str = ""


SearchProvider: TypeAlias = Callable[[str, int], Sequence[WebHit]]


class JsonProvider:
    """``address`` has ``{query}`` and may have ``{count}``; ``results`` is the dotted path to the list of results."""

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

    def cancel(self) -> None:
        """Cancel the current requests, from any thread."""
        self._fetcher.cancel()

    def __call__(self, query: str, count: int) -> list[WebHit]:
        """Search. Raises EnvironmentFailure for a failed request, FormatError for an answer without results in their place."""
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


class SearchService(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search provider in the user's settings (``[search]``). ``key_header`` is the header of the key, after ``key_prefix``."""

    address: str
    results: str = ""
    title: str = "title"
    url: str = "url"
    text: str = "description"
    key_header: str = ""
    key_prefix: str = ""


def open_provider(service: SearchService, key: str) -> JsonProvider:
    """Open the provider with its key. It may be on this machine, since the user says so; no other private address is reached.

    Raises UsageError for an invalid address, a missing key, and a key that would be sent without TLS.
    """
    try:
        parts = urlsplit(service.address)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        parts, host, port = urlsplit(""), "", 0
    if parts.scheme not in ("http", "https") or not host or parts.username:
        raise UsageError("search.address is not an address of a web service", safe="Nothing was sent.",
                         mend="Write it as https://host/path?q={query}, without a key in it.")  # fmt: skip
    if service.key_header and not key:
        raise UsageError("there is no key for the search provider", safe="Nothing was sent.",
                         mend=f"Give one: periplus models key {SEARCH_KEY}")  # fmt: skip
    is_local, ports = host in _LOCAL_HOSTS, frozenset({port})
    if service.key_header and parts.scheme == "http" and not is_local:
        raise UsageError(f"the key of the search provider would go to {host} without TLS", safe="Nothing was sent.",
                         mend="Use https.")  # fmt: skip
    fetcher = Fetcher(ports=ports)
    if is_local:
        fetcher = Fetcher(ports=ports, is_allowed=lambda address: address in _LOCAL_HOSTS, check_name=lambda name: name)
    return JsonProvider(
        service.address, results=service.results, title=service.title, url=service.url, text=service.text,
        headers={service.key_header: f"{service.key_prefix}{key}"} if service.key_header else {},
        fetcher=fetcher,
    )  # fmt: skip


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
