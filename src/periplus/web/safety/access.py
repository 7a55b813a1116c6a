"""Access to the page: decisions over the head of a request, without I/O.

Any web page can make a browser send requests to this machine, and any program on it can connect. So a request is answered only if

- ``Host`` is a name of this server, which ends DNS rebinding;
- ``Origin``, where there is one, is this server, and ``Sec-Fetch-Site`` says that no other site sent it;
- it has the cookie that the address with the token gave, once: a second use of that address is refused, and a new one is made.

The cookie is HttpOnly and SameSite=Strict; its name has the port, as cookies are shared by all ports of a host (RFC 6265, section 8.5).
"""

from __future__ import annotations

__all__ = ["Access", "Refusal"]

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

READERS_MAX: Final = 32
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

Refusal: TypeAlias = Literal["", "host", "origin", "site", "cookie", "token"]


class Access:
    """The tokens of one server. ``port`` is None behind a Unix socket: a browser then comes through a tunnel with a port of its own."""

    def __init__(self, port: int | None) -> None:
        self.port = port
        self.cookie_name = f"periplus_{port or 'socket'}"
        self._token = secrets.token_urlsafe(24)
        self._key = secrets.token_bytes(32)
        self._readers: OrderedDict[str, None] = OrderedDict()

    @property
    def token(self) -> str:
        """The token of the next address."""
        return self._token

    def enter(self, token: str) -> str:
        """Return the cookie for who has the token, which is then spent; empty for any other token."""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return ""
        self._token = secrets.token_urlsafe(24)
        reader = secrets.token_urlsafe(32)
        self._readers[reader] = None
        while len(self._readers) > READERS_MAX:
            self._readers.popitem(last=False)
        return reader

    def is_reader(self, cookie: str) -> bool:
        return any(hmac.compare_digest(cookie.encode(), one.encode()) for one in tuple(self._readers))

    def form_token(self, cookie: str) -> str:
        """Return the token of the forms that the reader with this cookie gets."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def is_form_of(self, cookie: str, token: str) -> bool:
        return hmac.compare_digest(self.form_token(cookie).encode(), token.encode())

    def refused(self, method: str, headers: Mapping[str, str], cookies: Iterable[str]) -> Refusal:
        """Return why a request is refused; empty where it is not. ``cookies`` are those of the name ``cookie_name``."""
        host = headers.get("host", "")
        if not self.is_own_host(host):
            return "host"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return "origin"
        is_link = method == "GET" and headers.get("sec-fetch-mode", "navigate") == "navigate" and (
            headers.get("sec-fetch-dest", "document") == "document"
        )  # fmt: skip
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_link:
            return "site"
        return "" if any(self.is_reader(one) for one in cookies) else "cookie"

    def is_own_host(self, host: str) -> bool:
        name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "80")
        if name not in _NAMES:
            return False
        return port.isascii() and port.isdigit() if self.port is None else port == str(self.port)
