"""What ``--json`` prints of ``mcp``. See ``cli.schemas``."""

from __future__ import annotations

__all__ = ["MCP_SCHEMAS", "McpOut"]

from typing import Final

import msgspec


class McpOut(msgspec.Struct, tag_field="schema", tag="periplus.mcp/1"):
    """Where the server listens, and whether it wants a token; printed with --http, once it does."""

    url: str
    token: bool


MCP_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"mcp": McpOut}
