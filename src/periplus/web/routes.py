"""Addresses of the page: which function answers each. The modules of the functions are imported when they are first asked for."""

from __future__ import annotations

__all__ = ["ACTS", "NAVIGATION", "ROUTES", "Route", "load"]

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from periplus.base.named_tuple import NamedTuple


class Route(NamedTuple):
    """An address, with ``{name}`` for its parts (``{name:path}`` takes slashes, too), and ``module:function``."""

    address: str
    target: str


# The pages of the navigation, with the key that opens each after `g`.
NAVIGATION: Final[tuple[tuple[str, str, str], ...]] = (
    ("/", "Overview", "o"),
    ("/memory", "Memory", "m"),
    ("/sessions", "Sessions", "s"),
    ("/journal", "Journal", "j"),
    ("/work", "Work", "w"),
    ("/code", "Code", "c"),
    ("/contexts", "Contexts", "x"),
    ("/health", "Health", "h"),
)
ROUTES: Final[tuple[Route, ...]] = (
    # overview
    Route("/", "periplus.web.pages.overview:overview"),
    Route("/leave", "periplus.web.pages.leaving:leave"),
    # memory
    # sessions
    # journal
    # work
    # run
    # code
    # contexts
    # health
)
ACTS: Final[tuple[Route, ...]] = (
    # overview
    Route("/seen", "periplus.web.pages.overview:seen"),
    # memory
    # sessions
    # journal
    # work
    # contexts
    # health
)


def load(target: str) -> Callable[..., Any]:
    """Return the function of ``module:function``."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
