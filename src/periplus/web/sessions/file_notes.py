"""Notes in a shared file, by which it can be made again from its trail: the options, and what made it."""

from __future__ import annotations

__all__ = ["NOTES_VERSION", "FileNotes", "Link"]

from typing import Final

import msgspec

NOTES_VERSION: Final = 1


class Link(msgspec.Struct, frozen=True):
    """The file of another session's trail, beside this one."""

    digest: str
    file: str


class FileNotes(msgspec.Struct, frozen=True):
    """``digest`` is that of the trail, ``parts`` are those of the subagents' trails within. ``carried`` names the
    objects outside of the trails that are shown. ``characters`` is the longest text that is shown whole, ``steps`` the
    number of steps; ``withheld`` are the fields that were left out of the trails. ``renderer`` identifies the code and templates that made the page.
    """

    digest: str
    program: str
    renderer: str
    characters: int
    steps: int
    has_trail: bool = False
    parts: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    home: str = ""
    links: tuple[Link, ...] = ()
    v: int = NOTES_VERSION
