"""The JSON document of ``mcp``."""

from __future__ import annotations

__all__ = ["MCP_SCHEMAS", "McpOut"]

from typing import Final

import msgspec


class McpOut(msgspec.Struct, tag_field="schema", tag="periplus.mcp/1"):
    """The address of the server, and whether it needs a token. Printed with --http, once it listens."""

    url: str
    token: bool


MCP_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"mcp": McpOut}
