"""Skills and their files as pages: ``@periplus/skills/NAME/…``, read, listed and searched with the ordinary file tools.

A skill's own file stays as it was when the session began. The files beside it are read in place, below the root that the user trusts: no
link is followed, and no path leads out. Files that a rule keeps from being read, and withheld skills, are not read here either.
"""

from __future__ import annotations

__all__ = ["SKILLS_ROOT", "SkillPages"]

import posixpath
from collections.abc import Callable, Sequence
from typing import Final

from periplus.agent.skills.discovery import FoundSkills
from periplus.agent.skills.skill import SKILL_FILE, Skill
from periplus.agent.tools.files.text_encoding import BinaryFileError, decode
from periplus.agent.tools.text_pages.page_source import Page, PageMatch, search_pages
from periplus.base.errors import NotFoundError, PeriplusError, RefusedError
from periplus.base.filesystem.confined_folder import Confined, Limits

SKILLS_ROOT: Final = "@periplus/skills/"
_LIMITS: Final = Limits(file_bytes_max=2 << 20, entries_max=2_000)
_TITLE: Final = 200


class SkillPages:
    """Satisfies ``page_source.PageSource``."""

    def __init__(self, found: FoundSkills, unread: Callable[[str], bool] = lambda _: False) -> None:
        """``unread`` is called with the absolute path of a file, and with its handle."""
        self._found, self._unread = found, unread

    def list(self, prefix: str) -> Sequence[Page]:
        """One line for each skill; below a skill, all of its files."""
        pages = []
        for skill in self._found.skills:
            title = "held back" if skill.is_held else skill.description[:_TITLE]
            pages.append(Page(skill.handle, title, len(skill.body)))
            if prefix.startswith(f"{SKILLS_ROOT}{skill.name}/"):
                pages += self.files(skill)
        return sorted(page for page in pages if page.handle.startswith(prefix))

    def files(self, skill: Skill) -> Sequence[Page]:
        """The files beside the skill's own; only regular files are listed."""
        try:
            with Confined(skill.root, limits=_LIMITS) as confined:
                entries = list(confined.walk(skill.folder))
        except PeriplusError:
            return []  # the folder is gone, or became a link: the skill itself stays known
        own = len(skill.folder) + 1
        return [
            Page(f"{SKILLS_ROOT}{skill.name}/{entry.path[own:]}", "", entry.size)
            for entry in entries
            if entry.path[own:] != SKILL_FILE and not self._is_unread(skill, entry.path[own:])
        ]

    def read(self, handle: str) -> str:
        name, _, path = handle.removeprefix(SKILLS_ROOT).partition("/")
        skill = self._found.named(name)
        if skill is None:
            raise NotFoundError(f"no skill {name[:80]!r}", mend=f"list(path={SKILLS_ROOT!r}) shows which there are.")
        if skill.is_held:
            raise RefusedError(
                f"the skill {skill.name} is held back: it says {', '.join(skill.held)}", mend="Tell the person."
            )
        if path in ("", SKILL_FILE):
            return f"# {skill.name}\n{skill.description}\n\n{skill.body}\n"
        if self._is_unread(skill, path):
            raise RefusedError("a rule forbids reading what is there")
        with Confined(skill.root, limits=_LIMITS) as confined:
            data = confined.read(f"{skill.folder}/{path}")
        try:
            return decode(data).lines.text
        except BinaryFileError:
            return f"[{path} is binary: {len(data):,} bytes, which are not shown here]\n"

    def search(self, pattern: str, prefix: str) -> Sequence[PageMatch]:
        return search_pages(self, pattern, prefix, lambda page: not self._is_held(page.handle))

    def _is_held(self, handle: str) -> bool:
        skill = self._found.named(handle.removeprefix(SKILLS_ROOT).partition("/")[0])
        return skill is not None and skill.is_held

    def _is_unread(self, skill: Skill, path: str) -> bool:
        path = posixpath.normpath(path)
        return self._unread(skill.place_of(path)) or self._unread(f"{SKILLS_ROOT}{skill.name}/{path}")
