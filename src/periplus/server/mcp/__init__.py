"""The MCP server: the project's memory for any client of the Model Context Protocol.

Theory of operation
-------------------
``catalogue`` is the table of tools, resources and prompts. ``tool_calls`` runs calls on the project, in one thread. Both are
independent of the protocol; ``sdk_server`` adapts them to the official SDK, which speaks both generations of it. Loading the SDK
takes over a second, so ``handshake`` answers a client's first requests from the catalogue while ``stdio`` loads the SDK; the SDK
then gets the earlier messages, and continues. ``http`` is the SDK's own transport, on loopback.

Commands, hooks and other servers may use the store at the same time.
"""

from __future__ import annotations

__all__ = []
