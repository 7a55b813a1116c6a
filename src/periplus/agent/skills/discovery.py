"""Discovery of skills, and their precedence: the user's before the project's, the project's before those of plugins.

No link is followed on the way to a skill or within one. A skill that cannot be read is reported with file and line, and affects no other.
"""

from __future__ import annotations

__all__ = ["PROJECT_FOLDERS", "FoundSkills", "SkillPlace", "SkillProblem", "find_skills", "places_of"]

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from periplus.agent.skills.skill import FILE_BYTES_MAX, SKILL_FILE, USER, Skill, read_skill
from periplus.base.errors import NotFoundError, PeriplusError, RefusedError
from periplus.base.filesystem.confined_folder import Confined, Limits

PROJECT_FOLDERS: Final = (".agents/skills", ".claude/skills")
SKILLS_MAX: Final = 200
_LIMITS: Final = Limits(file_bytes_max=FILE_BYTES_MAX, entries_max=2_000)


class SkillPlace(NamedTuple):
    """A place of skills: ``folder`` below ``root`` has a folder for each skill. We may open ``root``; below it no link is followed.
    ``origin`` is the folder that ``root`` is a copy of.
    """

    root: str
    folder: str
    source: str
    origin: str = ""


class SkillProblem(NamedTuple):
    """A skill that is ignored, and why: an error in its file, or another of its name that takes precedence."""

    file: str
    source: str
    text: str


class FoundSkills(NamedTuple):
    skills: tuple[Skill, ...]
    problems: tuple[SkillProblem, ...]

    def named(self, name: str) -> Skill | None:
        return next((one for one in self.skills if one.name == name), None)


def places_of(config: str, root: str, *, is_trusted: bool) -> list[SkillPlace]:
    """The user's folder, and those of a trusted project. Nothing of an untrusted project is opened."""
    found = [SkillPlace(config, "skills", USER)] if config else []
    if is_trusted:
        found += [SkillPlace(root, folder, "project") for folder in PROJECT_FOLDERS]
    return found


def find_skills(places: Sequence[SkillPlace], unread: Callable[[str], bool] = lambda _: False) -> FoundSkills:
    """Find the skills of all places, by name, without those that ``unread`` keeps back (by the path of the file, or its handle)."""
    held: dict[str, Skill] = {}
    problems: list[SkillProblem] = []
    for place in places:
        for one in _of_place(place, unread):
            if isinstance(one, SkillProblem):
                problems.append(one)
            elif one.name in held:
                why = f"there is another {one.name!r} ({held[one.name].source}), which takes precedence"
                problems.append(SkillProblem(one.file, one.source, why))
            else:
                held[one.name] = one
    return FoundSkills(tuple(sorted(held.values(), key=lambda one: one.name)), tuple(problems))


def _of_place(place: SkillPlace, unread: Callable[[str], bool]) -> list[Skill | SkillProblem]:
    shown = os.path.join(place.root, place.folder)
    try:
        with Confined(place.root, limits=_LIMITS) as confined:
            return _listed(confined, place, shown, unread)
    except NotFoundError:
        return []
    except PeriplusError as error:
        return [SkillProblem(shown, place.source, str(error))]


def _listed(
    confined: Confined, place: SkillPlace, shown: str, unread: Callable[[str], bool]
) -> list[Skill | SkillProblem]:
    held = confined.stat(place.folder)
    if held is None:
        return []
    if held.kind != "folder":
        return [SkillProblem(shown, place.source, f"it is a {held.kind}, not a folder: links are not followed")]
    found: list[Skill | SkillProblem] = []
    for entry in confined.list(place.folder):
        name = entry.path.rpartition("/")[2]
        if name.startswith("."):
            continue
        if entry.kind == "link":
            found.append(
                SkillProblem(os.path.join(place.root, entry.path), place.source, "it is a link, which is not followed")
            )
            continue
        if entry.kind != "folder":
            continue
        if len(found) >= SKILLS_MAX:
            found.append(SkillProblem(shown, place.source, f"more than {SKILLS_MAX} skills: the rest is left out"))
            break
        file = f"{entry.path}/{SKILL_FILE}"
        path = os.path.join(place.root, file)
        try:
            if confined.stat(file) is None:
                raise NotFoundError(f"there is no {SKILL_FILE} in it")
            own = os.path.join(place.origin, file) if place.origin else path
            if unread(own) or unread(f"@periplus/skills/{name}/{SKILL_FILE}"):
                raise RefusedError("a rule forbids reading it")
            skill = read_skill(confined.read(file), place.root, entry.path, place.source)
            found.append(replace(skill, origin=place.origin))
        except PeriplusError as error:
            found.append(SkillProblem(path, place.source, str(error)))
    return found
