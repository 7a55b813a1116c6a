"""Periplus: the memory and the logbook of coding agents."""

from __future__ import annotations

__all__ = ["Project", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The command line imports this package at every start: Project comes only when it is asked for.
    if name == "Project":
        from periplus.project import Project

        return Project
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
