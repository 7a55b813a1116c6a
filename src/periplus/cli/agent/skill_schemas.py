"""What ``skills`` and ``plugins`` print with --json."""

from __future__ import annotations

__all__ = [
    "SKILL_SCHEMAS",
    "PluginHookOut",
    "PluginOut",
    "PluginServerOut",
    "PluginToolOut",
    "PluginsOut",
    "SkillCandidateOut",
    "SkillDecidedOut",
    "SkillOut",
    "SkillProblemOut",
    "SkillShownOut",
    "SkillsMinedOut",
    "SkillsOut",
]

from typing import Final

import msgspec


class SkillOut(msgspec.Struct):
    """A skill that counts. ``held`` is what was found in it, for which it is held back where it is not your own; ``used`` is how often it was
    taken in this project, ``last`` when.
    """

    name: str
    source: str
    description: str
    file: str
    held: list[str]
    notes: list[str]
    offered: bool
    used: int
    last: str


class SkillCandidateOut(msgspec.Struct):
    """A skill that sessions suggest; ``seen`` are the turns in which its commands worked."""

    id: str
    name: str
    state: str
    description: str
    body: str
    rule: str
    wording: str
    commands: list[str]
    seen: list[str]
    failed: int
    accepted_as: str
    reason: str


class SkillProblemOut(msgspec.Struct):
    """A file that does not count, and why."""

    file: str
    source: str
    text: str


class SkillsOut(msgspec.Struct, tag_field="schema", tag="periplus.skills/1"):
    """The skills that a session here would have, what sessions suggest, and what does not count. ``trusted``: the folder's own are among them."""

    trusted: bool
    skills: list[SkillOut]
    candidates: list[SkillCandidateOut]
    problems: list[SkillProblemOut]


class SkillShownOut(msgspec.Struct, tag_field="schema", tag="periplus.skills.show/1"):
    """One of the two: a skill with its text and the names of its files, or a candidate."""

    skill: SkillOut | None
    body: str
    files: list[str]
    candidate: SkillCandidateOut | None


class SkillDecidedOut(msgspec.Struct, tag_field="schema", tag="periplus.skills.decided/1"):
    """What became of a candidate. ``counts``: a session here would have the skill now."""

    id: str
    name: str
    state: str
    file: str
    counts: bool


class SkillsMinedOut(msgspec.Struct, tag_field="schema", tag="periplus.skills.mined/1"):
    """What a session taught: candidates that are new, those that were refused, and what could not be learned from.

    ``waiting`` counts the skills that it was seen to work by and nobody has decided on, the new ones among them.
    """

    session: str
    lessons: int
    skills: int
    waiting: int
    rejected: int
    errors: list[str]


class PluginToolOut(msgspec.Struct):
    name: str
    description: str
    command: list[str]
    accesses: list[str]


class PluginHookOut(msgspec.Struct):
    seam: str
    command: list[str]


class PluginServerOut(msgspec.Struct):
    """Without what it is given of environment and headers."""

    name: str
    command: list[str]
    url: str


class PluginOut(msgspec.Struct):
    """A plugin. ``state``: trusted, changed (since it was), unknown, or broken, of which ``problem`` says why."""

    name: str
    version: str
    description: str
    source: str
    state: str
    path: str
    problem: str
    unsandboxed: bool
    skills: bool
    tools: list[PluginToolOut]
    hooks: list[PluginHookOut]
    servers: list[PluginServerOut]


class PluginsOut(msgspec.Struct, tag_field="schema", tag="periplus.plugins/1"):
    """The plugins that there are. ``trusted``: the folder's own are among them."""

    trusted: bool
    plugins: list[PluginOut]


SKILL_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {
    "skills list": SkillsOut,
    "skills show": SkillShownOut,
    "skills accept": SkillDecidedOut,
    "skills refuse": SkillDecidedOut,
    "skills mine": SkillsMinedOut,
    "plugins list": PluginsOut,
    "plugins trust": PluginsOut,
    "plugins untrust": PluginsOut,
}
