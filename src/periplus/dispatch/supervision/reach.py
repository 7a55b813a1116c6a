"""Files that a step touches: those that it is about and, where the project has a code map, those that depend on them."""

from __future__ import annotations

__all__ = ["Reach"]

import importlib.util
from typing import TYPE_CHECKING, Final

from periplus.base.errors import PeriplusError
from periplus.memory.coordination.plans import scopes_of_step

if TYPE_CHECKING:
    from periplus.project import Project

_DEPTH: Final = 2
_FILES_MAX: Final = 500


class Reach:
    """The reach of steps, found once for each: it only orders them, so it may be a little old."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[str, frozenset[str]] = {}
        self._has_code = importlib.util.find_spec("tree_sitter") is not None

    def of(self, step_id: str) -> frozenset[str]:
        """Return the files that a change for the step touches or reaches."""
        if step_id not in self._known:
            step = self._project.journal.get("step", step_id)
            names = [scope.text for scope in scopes_of_step(step)] if step is not None else []
            self._known[step_id] = frozenset(names) | self._dependents(names)
        return self._known[step_id]

    def _dependents(self, names: list[str]) -> frozenset[str]:
        if not names or not self._has_code:
            return frozenset()
        try:
            found = self._project.code.impact(names, depth_max=_DEPTH)
        except (PeriplusError, OSError):
            return frozenset()  # a folder, a pattern, or a file that is to be written
        return frozenset([one.symbol.path for one in found.impact.dependents][:_FILES_MAX])
