"""Requests to the model, from the display of a task: their times and their tokens.

The display lists the entries that the editor showed. A request is an entry ``api_req_started`` whose text is JSON. Its
``tokensIn`` are the fresh tokens. Newer versions name an ``apiProtocol``, and count cached tokens there as well: this is
so where ``tokensIn`` is not smaller than the cached tokens.
"""

from __future__ import annotations

__all__ = ["Request", "requests_in"]

from typing import Final, NamedTuple

from periplus.base.errors import PeriplusError
from periplus.interop.readers.json_stream import JsonReader
from periplus.interop.readers.json_values import decode_table, milliseconds_of, natural_of, table_of, text_of

_REQUESTS_MAX: Final = 100_000
_MILLIONTHS: Final = 1_000_000
_COST_MAX: Final = 1e9


class Request(NamedTuple):
    """``ended_ms`` is the time of the next entry, which shows the first words of the answer."""

    started_ms: int | None
    ended_ms: int | None
    fresh: int
    cached: int
    out: int
    cost_millionths: int | None

    @property
    def is_counted(self) -> bool:
        return bool(self.fresh or self.cached or self.out)


def requests_in(path: str) -> tuple[list[Request], bytes]:
    """Return the requests of the display at ``path`` in their order, and the SHA-256 of the file; nothing where it is
    missing or unreadable, because the conversation suffices.
    """
    requests: list[Request] = []
    reader = JsonReader(path)
    is_open = False
    try:
        for element in reader:
            entry = decode_table(element.data) if not element.name else None
            if entry is None:
                continue
            at_ms = milliseconds_of(entry.get("ts"))
            if is_open and at_ms is not None:
                requests[-1] = requests[-1]._replace(ended_ms=at_ms)
                is_open = False
            if entry.get("say") == "api_req_started" and len(requests) < _REQUESTS_MAX:
                requests.append(_request(at_ms, entry))
                is_open = True
    except PeriplusError:
        return [], b""
    return requests, reader.digest


def _request(at_ms: int | None, entry: dict[str, object]) -> Request:
    told = table_of(decode_table(text_of(entry.get("text")).encode("utf-8", "replace")))
    taken, cached, written = (natural_of(told.get(name)) for name in ("tokensIn", "cacheReads", "cacheWrites"))
    is_whole = "apiProtocol" in told and taken >= cached + written
    cost = told.get("cost")
    is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < _COST_MAX
    return Request(
        at_ms,
        None,
        taken - cached if is_whole else taken + written,
        cached,
        natural_of(told.get("tokensOut")),
        round(cost * _MILLIONTHS) if is_cost else None,  # type: ignore[operator]
    )
