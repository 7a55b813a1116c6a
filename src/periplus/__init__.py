"""Periplus: the memory and the logbook of coding agents."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as that of `typing`, which takes longer to load than all else before an interrupt is caught
if TYPE_CHECKING:
    from periplus.journal import Writer
    from periplus.project import Project

__all__ = ["Project", "Writer", "__version__"]

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    # The command line imports this package at every start: these come only when they are asked for.
    if name == "Project":
        from periplus.project import Project

        return Project
    if name == "Writer":
        from periplus.journal import Writer

        return Writer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _MovedModules:
    """Finds modules by the names that they had in 0.1; asked only where no module has the name."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> object:
        if not name.startswith("periplus."):
            return None
        from periplus.base.moved_modules import find_moved

        return find_moved(name)


sys.meta_path.append(_MovedModules)  # type: ignore[arg-type]  # a finder needs no more than this
