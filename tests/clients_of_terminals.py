"""Clients for the terminal: Kimi Code, Crush, Pi, OpenClaw, Droid, Hermes, gptme, aider."""

from __future__ import annotations

__all__ = ["TERMINAL_CLIENTS"]

from client_support import Client

TERMINAL_CLIENTS: tuple[Client, ...] = ()
