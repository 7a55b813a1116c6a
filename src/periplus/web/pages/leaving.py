"""The page before another site: an address from a stranger's text is shown before it is followed."""

from __future__ import annotations

__all__ = ["leave"]

import urllib.parse

from periplus.base.errors import UsageError
from periplus.web.pages.model import Asked, View


def leave(asked: Asked) -> View:
    """Show an address of http or https, and its host as it is looked up."""
    address = asked.query.text("to")
    try:
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname or ""
        looked_up = host.encode("idna").decode() if host else ""
    except (ValueError, UnicodeError):
        parts, host, looked_up = None, "", ""
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not looked_up
        or any(ord(one) < 0x21 for one in address)
    ):
        raise UsageError("this is no address of the web", safe="Nothing was opened.")
    return View("leave.html", "Leave", {"address": address, "host": looked_up, "is_foreign": looked_up != host.lower()})
