"""The extensions that every session of a face has, in the order in which they are opened. A row imports its part when it is asked."""

from __future__ import annotations

__all__ = ["STANDARD"]

from typing import Final

from periplus.agent.extension import Extension, Opener, Room


def _skills(room: Room) -> Extension | None:
    from periplus.agent.skills.opening import open_skills

    return open_skills(room)


STANDARD: Final[tuple[Opener, ...]] = (_skills,)
