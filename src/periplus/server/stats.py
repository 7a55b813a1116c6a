"""Statistics of a context server."""

from __future__ import annotations

__all__ = ["STATS_SCHEMA", "Stats"]

from collections import Counter
from typing import Any, Final

from periplus.server.quota import Unreferenced

STATS_SCHEMA: Final = "periplus/context-server-stats/1"


class Stats:
    """Counters since the start, with current numbers beside totals."""

    def __init__(self, unreferenced: Unreferenced) -> None:
        self._unreferenced = unreferenced
        self.connections = 0
        self.connections_open = 0
        self.refused: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.requests_open = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.chunks = 0
        self.objects_in = 0
        self.objects_out = 0
        self.errors: Counter[str] = Counter()
        self.cancelled = 0

    def document(self, uptime_ms: int) -> dict[str, Any]:
        """Return the statistics as `periplus context serve --stats` prints them."""
        return {
            "schema": STATS_SCHEMA,
            "uptime_ms": uptime_ms,
            "connections": {
                "open": self.connections_open,
                "total": self.connections,
                "refused": dict(sorted(self.refused.items())),
            },
            "requests": {
                "open": self.requests_open,
                "total": self.requests.total(),
                "by_type": dict(sorted(self.requests.items())),
                "cancelled": self.cancelled,
            },
            "bytes": {"in": self.bytes_in, "out": self.bytes_out},
            "chunks": self.chunks,
            "objects": {"in": self.objects_in, "out": self.objects_out},
            "unreferenced": {
                "objects": self._unreferenced.objects,
                "bytes": self._unreferenced.used_bytes,
                "bytes_max": self._unreferenced.bytes_max,
                "connection_bytes_max": self._unreferenced.share_bytes_max,
            },
            "errors": dict(sorted(self.errors.items())),
        }
