"""Clients of the makers of editors: Cline, Kilo Code, Continue, Copilot CLI, Qwen Code."""

from __future__ import annotations

__all__ = ["EDITOR_CLIENTS"]

from client_support import Client

EDITOR_CLIENTS: tuple[Client, ...] = ()
