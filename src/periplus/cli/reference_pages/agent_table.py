"""The tables of agents, from their rows: docs/guides/agents/all.md has what works, docs/reference/agent-files.md the files."""

from __future__ import annotations

__all__ = ["agent_files_reference", "support_lines"]

import os
from collections.abc import Iterator
from typing import Final

from periplus.interop.agents import Agent, Scope, Site, all_agents
from periplus.interop.agents.config_parts import Part
from periplus.interop.hooks.events import AGENTS as HOOK_AGENTS
from periplus.interop.hooks.events import HookKind

_PROJECT: Final = "/a-project"
_HOME: Final = "/a-home"
_SCOPES: Final[tuple[Scope, ...]] = ("project", "user")
_TOLD_AT: Final[dict[HookKind, str]] = {
    "session-start": "start", "prompt": "prompt", "before-tool": "call", "after-tool": "result",
}  # fmt: skip


def support_lines() -> Iterator[str]:
    """Yield the lines of the table of what works with each agent."""
    yield "| agent | server | hooks | text, skill | sessions | tried |"
    yield "|---|---|---|---|---|---|"
    for agent in all_agents():
        texts = (_scopes(agent, "instructions"), _scopes(agent, "skill"))
        cells = (_scopes(agent, "server"), _hooks(agent), ",".join(texts), _code(agent.format), _tried(agent))
        yield f"| `{agent.name}` | {' | '.join(cells)} |"


def agent_files_reference() -> str:
    """Return docs/reference/agent-files.md."""
    return "\n".join(_file_lines())


def _file_lines() -> Iterator[str]:
    yield "# Configuration files of agents"
    yield ""
    yield "Written by `python -m periplus.cli.reference docs/reference` from the rows of agents. In each cell stand the files of a project, then those of a person"
    yield "that `periplus connect` writes; – where there is none. `CODEX_HOME` and `XDG_CONFIG_HOME` are honoured. Summary: [all agents](../guides/agents/all.md)."
    yield ""
    yield "| agent | server | hooks | instructions | skill | known from |"
    yield "|---|---|---|---|---|---|"
    for agent in all_agents():
        cells = [_paths(agent, kind) for kind in ("server", "hooks", "instructions", "skill")]
        yield f"| {agent.title} (`{agent.name}`) | {' | '.join(cells)} | {'; '.join(agent.sources)} |"
    yield ""


def _scopes(agent: Agent, kind: str) -> str:
    """Return the letters of the scopes in which the agent gets a part."""
    return "".join(scope[0].upper() for scope in _SCOPES if _parts(agent, scope, kind)) or "–"


def _hooks(agent: Agent) -> str:
    hooks = HOOK_AGENTS.get(agent.name)
    if hooks is None or _scopes(agent, "hooks") == "–":
        return "–"
    words = [word for kind, word in _TOLD_AT.items() if kind in hooks.tells] + ["ask"] * hooks.asks
    return f"{_scopes(agent, 'hooks')}: {','.join(words) or '–'}"


def _tried(agent: Agent) -> str:
    return agent.tried or (f"lists-it {agent.listed}" if agent.listed else "–")


def _code(text: str) -> str:
    return f"`{text}`" if text else "–"


def _paths(agent: Agent, kind: str) -> str:
    both = [", ".join(f"`{_shown(part.path)}`" for part in _parts(agent, scope, kind)) or "–" for scope in _SCOPES]
    return "; ".join(both) if both != ["–", "–"] else "–"


def _parts(agent: Agent, scope: Scope, kind: str) -> list[Part]:
    return [part for part in agent.parts(_site(scope)) if part.what == kind]


def _site(scope: Scope) -> Site:
    config, codex = os.path.join(_HOME, ".config"), os.path.join(_HOME, ".codex")
    return Site(scope, _PROJECT, _HOME, config, codex, is_mac=False, command=("periplus",), rules="\n", greeting="\n")


def _shown(path: str) -> str:
    return path.removeprefix(f"{_PROJECT}/").replace(_HOME, "~").removesuffix("/periplus/SKILL.md")
