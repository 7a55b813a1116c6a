"""Places in files as agents name them: ``path:line``."""

from __future__ import annotations

__all__ = ["parse_place"]

import re
from typing import Final

from periplus.base.errors import ConfinementError
from periplus.base.filesystem.confined_folder import judge_path

_PLACE: Final = re.compile(r"(.{1,1000}?):([0-9]{1,8})(?:[:-][0-9]{1,8})?")


def parse_place(text: str) -> tuple[str, int] | None:
    """Parse ``path:line``, also with a column or a last line behind it. A path that leads out of a repository is none."""
    match = _PLACE.fullmatch(text.strip().removeprefix("./"))
    if match is None or int(match[2]) == 0:
        return None
    try:
        return "/".join(judge_path(match[1])), int(match[2])
    except ConfinementError:
        return None
