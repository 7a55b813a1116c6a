"""The JSON document of ``web``."""

from __future__ import annotations

__all__ = ["WEB_SCHEMAS", "WebOut"]

from typing import Final

import msgspec


class WebOut(msgspec.Struct, tag_field="schema", tag="periplus.web/1"):
    """The address that lets one browser in, and the Unix socket that the page listens on, if it does. Printed once it listens."""

    url: str
    socket: str


WEB_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"web": WebOut}
