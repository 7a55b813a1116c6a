"""The page of ``periplus run --monitor``: read-only, on this machine, for whoever has its address."""

from __future__ import annotations

__all__ = ["Desk", "Monitor"]

from periplus.server.monitor.episode_queries import Desk
from periplus.server.monitor.http_server import Monitor
