"""Plugins: folders with a manifest that bring tools, hooks, skills and servers. Each is off until the user trusts it."""

from __future__ import annotations

__all__ = ["FoundPlugin", "Manifest", "PluginTrust", "find_plugins", "read_manifest"]

from periplus.agent.plugins.discovery import FoundPlugin, find_plugins
from periplus.agent.plugins.manifest import Manifest, read_manifest
from periplus.agent.plugins.trust_list import PluginTrust
