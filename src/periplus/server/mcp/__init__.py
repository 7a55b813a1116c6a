"""The MCP server: the project's memory for any client of the Model Context Protocol.

Theory of operation
-------------------
``catalogue`` is the table of what there is, ``desk`` the one place where calls meet the project, in one thread of its own; both
know nothing of the protocol. ``sdk`` says the same to the official SDK, which speaks the protocol in both generations. ``front``
answers what a client asks first out of the catalogue, so that ``stdio`` is ready before the SDK, which takes over a second to load, is
there; the SDK is then told what was said, and goes on. ``http`` is the SDK's own transport, on loopback.

The server is a convenience and never an owner: commands, hooks and other servers use the store beside it.
"""

from __future__ import annotations

__all__ = []
