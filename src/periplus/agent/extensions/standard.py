"""The standard extensions of a session, in the order in which they are opened. Each row imports its part on demand."""

from __future__ import annotations

__all__ = ["STANDARD"]

from typing import Final

from periplus.agent.extensions.contract import Extension, ExtensionContext, Opener


def _perception(context: ExtensionContext) -> Extension | None:
    from periplus.agent.extensions.perception import open_perception

    return open_perception(context)


def _web_search(context: ExtensionContext) -> Extension | None:
    service = context.options.settings.search
    if service is None:
        return None
    from periplus.agent.models.api_keys import Keys
    from periplus.agent.tools.web.web_search import SEARCH_KEY, open_provider, web_search_tool

    key = Keys(context.options.config, context.options.environment).key(SEARCH_KEY)
    provider = open_provider(service, key)
    return Extension(tools=[web_search_tool(provider)], cancel=provider.cancel)


def _plugins(context: ExtensionContext) -> Extension | None:
    import os

    options = context.options
    folders = [os.path.join(options.config, "plugins")] if options.config else []
    folders += [os.path.join(context.root, ".periplus-plugins")] if options.settings.trusted else []
    if options.under is None and not any(map(os.path.lexists, folders)):
        return None  # as in most sessions, which then load nothing of plugins
    from periplus.agent.extensions.plugins import open_plugins

    return open_plugins(context)


def _skills(context: ExtensionContext) -> Extension | None:
    from periplus.agent.extensions.skills import open_skills

    return open_skills(context)


def _subagents(context: ExtensionContext) -> Extension | None:
    from periplus.agent.extensions.subagents import open_subagents

    return open_subagents(context)


def _servers(context: ExtensionContext) -> Extension | None:
    from periplus.agent.extensions.mcp_servers import open_servers

    return open_servers(context)


STANDARD: Final[tuple[Opener, ...]] = (
    _perception,
    _web_search,
    _plugins,
    _skills,
    _subagents,
    _servers,  # last, since others bring servers
)
