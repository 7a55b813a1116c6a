"""Packages whose public names are imported at first use.

A hook or ``check`` starts a process that needs a tenth of what a package offers. Type checkers see ordinary imports; at run
time the package has a ``__getattr__`` (PEP 562) from here. A public name must differ from the names of all submodules:
importing a submodule binds its name in the package, and ``__getattr__`` is not called for bound names.
"""

from __future__ import annotations

__all__ = ["lazily"]

from collections.abc import Callable, Mapping


def lazily(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for ``package``; ``places`` maps each name to its module."""

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import sys
        from importlib import import_module

        found: object = getattr(import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, found)  # next time the name is bound
        return found

    return find
