"""The table of agents in docs/guides/agents/all.md, from their rows."""

from __future__ import annotations

__all__ = ["agent_lines"]

from collections.abc import Iterator
from typing import Final

from periplus.interop.agents import Agent, Scope, Site, all_agents

_PROJECT: Final = "/a-project"
_HOME: Final = "/a-home"


def agent_lines() -> Iterator[str]:
    """Yield the lines of the table: what each agent gets in a project, then for a person."""
    yield "| agent | server | instructions | skill | basis |"
    yield "|---|---|---|---|---|"
    for agent in all_agents():
        cells = [_paths(agent, kind) for kind in ("server", "instructions", "skill")]
        basis = (
            f"tried: {agent.tried}" if agent.tried else f"listed: {agent.listed}" if agent.listed else "documentation"
        )
        yield f"| `{agent.name}` | {' | '.join(cells)} | {basis} |"


def _paths(agent: Agent, kind: str) -> str:
    both = []
    scopes: tuple[Scope, ...] = ("project", "user")
    for scope in scopes:
        paths = [_shown(part.path) for part in agent.parts(_site(scope)) if part.what == kind]
        both.append(", ".join(f"`{path.removesuffix('/periplus/SKILL.md')}`" for path in paths) or "–")
    return "; ".join(both) if both != ["–", "–"] else "–"


def _site(scope: Scope) -> Site:
    return Site(
        scope,
        _PROJECT,
        _HOME,
        f"{_HOME}/.config",
        f"{_HOME}/.codex",
        is_mac=False,
        command=("periplus",),
        rules="\n",
        greeting="\n",
    )


def _shown(path: str) -> str:
    return path.removeprefix(f"{_PROJECT}/").replace(_HOME, "~")
