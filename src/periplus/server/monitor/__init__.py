"""The page of ``periplus run --monitor``: on this machine alone, for who has its address, and only to look at."""

from __future__ import annotations

__all__ = ["Desk", "Monitor"]

from periplus.server.monitor.episode_queries import Desk
from periplus.server.monitor.http_server import Monitor
