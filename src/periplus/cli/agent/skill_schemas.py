"""JSON documents of ``skills`` and ``plugins``."""

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
    """A skill in use. ``held`` lists findings for which a skill from elsewhere is held back; ``used`` counts its uses in this
    project, ``last`` is the time of the last one.
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
    """A suggested skill. ``seen`` are the turns in which its commands worked."""

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
    """A file that is not used, and the reason."""

    file: str
    source: str
    text: str


class SkillsOut(msgspec.Struct, tag_field="schema", tag="periplus.skills/1"):
    """The skills of a session here, suggested skills, and unusable files. ``trusted``: the folder's own skills are included."""

    trusted: bool
    skills: list[SkillOut]
    candidates: list[SkillCandidateOut]
    problems: list[SkillProblemOut]


class SkillShownOut(msgspec.Struct, tag_field="schema", tag="periplus.skills.show/1"):
    """One of the two: a skill with its text and its files, or a candidate."""

    skill: SkillOut | None
    body: str
    files: list[str]
    candidate: SkillCandidateOut | None


class SkillDecidedOut(msgspec.Struct, tag_field="schema", tag="periplus.skills.decided/1"):
    """The decision on a candidate. ``counts``: a session here would now have the skill."""

    id: str
    name: str
    state: str
    file: str
    counts: bool


class SkillsMinedOut(msgspec.Struct, tag_field="schema", tag="periplus.skills.mined/1"):
    """Results of a session: new candidates, refused ones, and parts that could not be used.

    ``waiting`` counts all open candidates, including the new ones.
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
    """A server of a plugin, without its environment and headers."""

    name: str
    command: list[str]
    url: str


class PluginOut(msgspec.Struct):
    """A plugin. ``state`` is trusted, changed (since it was trusted), unknown, or broken, with ``problem``."""

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
    """The plugins. ``trusted``: the folder's own plugins are included."""

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
