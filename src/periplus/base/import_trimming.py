"""Libraries without what they load and a command of this project does not use: half of a short command's time is imports.

Each is hidden, or stood in for, while one library is loaded, and is as ever for who imports it later:

* ``typing_extensions``, where it is installed: msgspec takes it in place of ``typing``, and it loads ``inspect``. Python from 3.11
  on has all of it in ``typing``;
* ``textwrap``: msgspec asks it for one function when it writes a schema, which no command does; it is loaded then;
* what msgspec has beside JSON (``inspect``, which writes schemas, ``msgpack``, ``toml``, ``yaml``): loaded when it is used;
* ``platform``: msgspec loads ``uuid``, which asks it for the system's name and nothing else;
* ``gettext``: argparse asks it for translations of its words, of which there are none, and it loads ``locale`` to look for them.
"""

from __future__ import annotations

__all__ = ["load_argparse", "load_msgspec"]

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any


def load_msgspec() -> None:
    """Import msgspec, in a process of a command: before anything else does."""
    if "typing_extensions" in sys.modules or "msgspec" in sys.modules:
        return
    platform = ModuleType("platform")
    platform.system = lambda: os.uname().sysname  # type: ignore[attr-defined]  # a module of ours for a moment
    with _standing("platform", platform):
        import uuid  # noqa: F401 - to have it loaded
    with ExitStack() as stack:
        stack.enter_context(
            _standing("typing_extensions", None)
        )  # the import system takes that for a module that is not there
        stack.enter_context(_standing("textwrap", _Later("textwrap")))
        for part in ("inspect", "msgpack", "toml", "yaml"):
            stack.enter_context(_standing(f"msgspec.{part}", _Later(f"msgspec.{part}")))
        stack.enter_context(
            _standing("msgspec._json_schema", _later_functions("msgspec._json_schema", "schema", "schema_components"))
        )
        import msgspec  # noqa: F401 - to have it loaded


def load_argparse() -> None:
    """Import argparse, in a process of a command: before anything else does."""
    if "argparse" in sys.modules:
        return
    gettext = ModuleType("gettext")
    gettext.gettext = lambda message: message  # type: ignore[attr-defined]  # as above
    gettext.ngettext = lambda one, many, count: one if count == 1 else many  # type: ignore[attr-defined]  # as above
    with _standing("gettext", gettext):
        import argparse  # noqa: F401 - to have it loaded


class _Later(ModuleType):
    """Stands for a module in the names of who imported it, and loads it at the first use."""

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        return getattr(import_module(self.__name__), name)


def _later_functions(name: str, *functions: str) -> ModuleType:
    """As ``_Later``, for who takes these functions out of the module at once."""

    def later(function: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            from importlib import import_module

            return getattr(import_module(name), function)(*given, **named)

        return call

    module = ModuleType(name)
    for function in functions:
        setattr(module, function, later(function))
    return module


@contextmanager
def _standing(name: str, module: ModuleType | None) -> Iterator[None]:
    """``module`` in the place of the library ``name``, unless that is loaded already."""
    modules: dict[str, Any] = sys.modules
    if name in modules:
        yield
        return
    modules[name] = module
    try:
        yield
    finally:
        del modules[name]
