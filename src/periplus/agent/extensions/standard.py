"""The standard extensions of a session, in the order in which they are opened. Each row imports its part on demand."""

from __future__ import annotations

__all__ = ["STANDARD"]

from typing import Final

from periplus.agent.extensions.contract import Extension, ExtensionContext, Opener


def _perception(room: ExtensionContext) -> Extension | None:
    from periplus.agent.extensions.perception import open_perception

    return open_perception(room)


def _web_search(room: ExtensionContext) -> Extension | None:
    service = room.begun.settings.search
    if service is None:
        return None
    from periplus.agent.models.api_keys import Keys
    from periplus.agent.tools.web.web_search import SEARCH_KEY, open_provider, web_search_tool

    key = Keys(room.begun.config, room.begun.environment).key(SEARCH_KEY)
    provider = open_provider(service, key)
    return Extension(tools=[web_search_tool(provider)], cancel=provider.cancel)


def _plugins(room: ExtensionContext) -> Extension | None:
    import os

    begun = room.begun
    folders = [os.path.join(begun.config, "plugins")] if begun.config else []
    folders += [os.path.join(room.root, ".periplus-plugins")] if begun.settings.trusted else []
    if begun.under is None and not any(map(os.path.lexists, folders)):
        return None  # as in most sessions, which then load nothing of plugins
    from periplus.agent.extensions.plugins import open_plugins

    return open_plugins(room)


def _skills(room: ExtensionContext) -> Extension | None:
    from periplus.agent.extensions.skills import open_skills

    return open_skills(room)


def _subagents(room: ExtensionContext) -> Extension | None:
    from periplus.agent.extensions.subagents import open_subagents

    return open_subagents(room)


def _servers(room: ExtensionContext) -> Extension | None:
    from periplus.agent.extensions.mcp_servers import open_servers

    return open_servers(room)


STANDARD: Final[tuple[Opener, ...]] = (
    _perception,
    _web_search,
    _plugins,
    _skills,
    _subagents,
    _servers,  # last, since others bring servers
)
