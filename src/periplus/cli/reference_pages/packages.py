"""docs/reference/packages.md: every package with its modules. See ``cli.reference``."""

from __future__ import annotations

__all__ = ["package_reference"]

import ast
import os
from collections.abc import Iterator
from typing import Final

import periplus

_LAYERS: Final = ("cli", "tui", "web", "server", "dispatch", "agent", "project", "interop", "memory", "code", "trail", "context", "journal", "objects", "merkle", "shell", "base")  # fmt: skip


def package_reference() -> str:
    """Return docs/reference/packages.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Packages and modules"
    yield ""
    yield "Written by `python -m periplus.cli.reference docs/reference` from the source. Layers stand from top to bottom: each imports only from those"
    yield "below it. How they work together: [architecture](../architecture.md)."
    top = os.path.dirname(os.path.abspath(periplus.__file__))
    for layer in _LAYERS:
        yield ""
        yield f"## {layer}"
        yield from _package(os.path.join(top, layer), layer)
    yield ""


def _package(folder: str, name: str) -> Iterator[str]:
    """The lines of one package, then those of the packages in it."""
    entries = sorted(os.listdir(folder))
    modules = [entry.removesuffix(".py") for entry in entries if entry.endswith(".py") and not entry.startswith("__")]
    inner = [entry for entry in entries if os.path.exists(os.path.join(folder, entry, "__init__.py"))]
    yield ""
    if "." in name or "/" in name:
        yield f"### {name}"
        yield ""
    yield _docstring(os.path.join(folder, "__init__.py"))
    if modules:
        yield ""
        yield "Modules: " + ", ".join(f"`{module}`" for module in modules) + "."
    for entry in inner:
        yield from _package(os.path.join(folder, entry), f"{name}.{entry}")


def _docstring(path: str) -> str:
    """The docstring of a module on one line."""
    with open(path, encoding="utf-8") as file:
        return " ".join((ast.get_docstring(ast.parse(file.read())) or "").split())
