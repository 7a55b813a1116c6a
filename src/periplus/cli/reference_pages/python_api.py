"""Generate docs/reference/python.md from ``Project`` and the types that it uses."""

from __future__ import annotations

__all__ = ["PARTS", "python_reference"]

import inspect
import re
from collections.abc import Iterator
from typing import Final

from periplus.journal import Entity, Writer
from periplus.memory import Filters, Memory, Remembered
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.plans import NewStep
from periplus.memory.coordination.sessions import NewSession
from periplus.memory.writing.lifecycle import Changed
from periplus.project.context_store.contexts import ProjectContexts
from periplus.project.knowledge.reflection import ProjectReflection
from periplus.project.knowledge.review import ProjectReview
from periplus.project.knowledge.work import ProjectWork
from periplus.project.project import Project

PARTS: Final = (
    ("Project", "from periplus import Project", Project),
    ("project.work", "", ProjectWork),
    ("project.reviewing", "", ProjectReview),
    ("project.reflection", "", ProjectReflection),
    ("project.contexts", "", ProjectContexts),
)
_VALUES: Final = (Writer, Memory, Filters, Remembered, Changed, Entity, Asked, NewStep, NewHandoff, NewSession)


def python_reference() -> str:
    """Return the text of docs/reference/python.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# The Python API"
    yield ""
    yield "Written by `python -m periplus.cli.reference docs/reference` from the code; [from Python](../guides/python.md) tells it with examples."
    for name, how, part in PARTS:
        yield ""
        yield f"## {name}"
        yield ""
        if how:
            yield f"`{how}`"
            yield ""
        yield _first(part)
        for method, value in sorted(_members(part).items()):
            if not method.startswith("_"):
                yield from _member(name, method, value)
    yield ""
    yield "## Values"
    for kind in _VALUES:
        yield ""
        yield f"### {kind.__name__}"
        yield ""
        yield f"`from {_module(kind)} import {kind.__name__}`"
        yield ""
        yield _first(kind)
        yield ""
        yield "```"
        hints, defaults = inspect.get_annotations(kind), getattr(kind, "_field_defaults", {})
        for field in getattr(kind, "_fields", ()):
            default = f" = {defaults[field]!r}" if field in defaults else ""
            hint = hints[field]
            yield f"{field}: {getattr(hint, '__forward_arg__', hint)}{default}"
        yield "```"
    yield ""


def _members(part: type) -> dict[str, object]:
    """The members of a class, with those of the classes that it is made from."""
    return {name: value for base in reversed(part.__mro__[:-1]) for name, value in vars(base).items()}


def _member(owner: str, name: str, value: object) -> Iterator[str]:
    is_static, is_class = isinstance(value, staticmethod), isinstance(value, classmethod)
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if isinstance(value, property):
        yield from ("", f"### {owner}.{name}", "", _first(value))
        return
    if not inspect.isfunction(function):
        return
    signature = inspect.signature(function)
    kept = list(signature.parameters.values())[0 if is_static else 1 :]
    said = signature.replace(parameters=kept)
    returns = said.return_annotation
    words = ", ".join(_parameters(kept))
    told = "" if returns is inspect.Signature.empty else f" -> {_plain(str(returns))}"
    yield from ("", f"### {owner}.{name}", "", "```", f"{name}({words}){told}", "```")
    text = _first(function)
    if text:
        yield from ("", f"{'A class method. ' if is_class or is_static else ''}{text}")


def _parameters(kept: list[inspect.Parameter]) -> Iterator[str]:
    is_named = False
    for one in kept:
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        default = "" if one.default is inspect.Parameter.empty else f" = {_default(one.default)}"
        yield f"{one.name}: {_plain(str(one.annotation))}{default}"


def _default(value: object) -> str:
    return getattr(value, "__name__", "…") if callable(value) else repr(value)


def _plain(annotation: str) -> str:
    return re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", annotation)


def _first(value: object) -> str:
    """Return the docstring of an object as one paragraph."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    name = getattr(value, "__name__", "")
    if text.startswith(f"{name}("):  # the generated docstring of a named tuple
        return ""
    return " ".join(text.split()).replace("``", "`")


def _module(kind: type) -> str:
    """Return the module to import a value from: the package, if it re-exports it."""
    import importlib

    package = kind.__module__.rpartition(".")[0]
    is_shown = kind.__name__ in getattr(importlib.import_module(package), "__all__", ())
    return package if is_shown else kind.__module__
