"""The overview: what is open and what waits, who works, what changed, how the store is."""

from __future__ import annotations

__all__ = ["overview"]

from periplus.web.pages.model import Asked, View


def overview(asked: Asked) -> View:
    """Show the state of the project at a glance."""
    status = asked.project.status()
    return View("overview.html", "Overview", {"status": status}, "periplus status")
