"""The page before another site: an address from a stranger's text is shown before it is followed."""

from __future__ import annotations

__all__ = ["leave"]

import re
import urllib.parse
from typing import Final

from periplus.base.errors import UsageError
from periplus.base.named_tuple import NamedTuple
from periplus.web.pages.model import Asked, View

# What Python and browsers read in the same way: the URL Standard takes a backslash for a slash, decodes %2e in a host, and leaves out
# tabs and line breaks, none of which urllib does.
_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\]")
_NO_PART: Final = re.compile(r"[\x00-\x20\x7f\\\\]")


class _Target(NamedTuple):
    """An address that leads where it says: ``address`` names ``host`` itself. ``left_out`` is a name before the host."""

    address: str
    host: str
    is_foreign: bool
    left_out: str


def leave(asked: Asked) -> View:
    """Show an address of http or https, and its host as it is looked up."""
    text = asked.query.text("to")
    return View("leave.html", "Leave", {"text": text, "target": _target(text)})


def _target(text: str) -> _Target:
    try:
        parts = urllib.parse.urlsplit(text)
        name = parts.hostname or ""
        host = f"[{name}]" if ":" in name else name.encode("idna").decode("ascii").lower()
        port = f":{parts.port}" if parts.port is not None else ""
    except (ValueError, UnicodeError) as error:
        raise _no_address() from error
    if parts.scheme not in ("http", "https") or _NO_PART.search(text) or not _HOST.fullmatch(host):
        raise _no_address()
    address = urllib.parse.urlunsplit((parts.scheme, host + port, parts.path, parts.query, parts.fragment))
    is_foreign = host != name or any(label.startswith("xn--") for label in host.split("."))
    return _Target(address, host, is_foreign and ":" not in name, parts.netloc.rpartition("@")[0])


def _no_address() -> UsageError:
    return UsageError("this is no address of the web", safe="Nothing was opened.")
