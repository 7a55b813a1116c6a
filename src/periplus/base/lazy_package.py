"""A package whose public names are imported when they are first asked for.

A hook or ``check`` starts a process that needs a tenth of what a package offers. Type checkers see ordinary imports; at run time the
package has a ``__getattr__`` (PEP 562) from here. A name must differ from that of every submodule: importing a submodule binds its
name in the package, and nobody asks ``__getattr__`` then.
"""

from __future__ import annotations

__all__ = ["lazily"]

from collections.abc import Callable, Mapping


def lazily(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """A ``__getattr__`` for ``package``: ``places`` says in which of its modules each name is."""

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import sys
        from importlib import import_module

        found: object = getattr(import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, found)  # the next time nobody asks
        return found

    return find
