"""Shorter imports of libraries: half of a short command's time is spent in imports.

While a library is loaded, modules that it imports and no command uses are hidden or replaced. They are available as
usual afterwards:

* ``typing_extensions``: msgspec prefers it to ``typing``, and it loads ``inspect``. Python 3.11 and later have all of it
  in ``typing``;
* ``textwrap``: msgspec uses one function of it to write schemas, which no command does;
* the parts of msgspec beside JSON (``inspect``, ``msgpack``, ``toml``, ``yaml``): loaded at first use;
* ``platform``: msgspec loads ``uuid``, which asks it for the system's name and nothing else;
* ``gettext``: argparse uses it for translations, which do not exist, and it loads ``locale``;
* ``importlib.resources``: a grammar of tree-sitter reads its queries through it, which nobody asks for; it loads ``tempfile``,
  ``shutil`` and ``urllib``.
"""

from __future__ import annotations

__all__ = ["load_argparse", "load_grammar", "load_msgspec"]

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any


def load_msgspec() -> None:
    """Import msgspec with fewer modules, in the process of a command, before anything else imports it."""
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
    """Import argparse with fewer modules, in the process of a command, before anything else imports it."""
    if "argparse" in sys.modules:
        return
    gettext = ModuleType("gettext")
    gettext.gettext = lambda message: message  # type: ignore[attr-defined]  # as above
    gettext.ngettext = lambda one, many, count: one if count == 1 else many  # type: ignore[attr-defined]  # as above
    with _standing("gettext", gettext):
        import argparse  # noqa: F401 - to have it loaded


def load_grammar(name: str) -> ModuleType:
    """Import the grammar ``name`` of tree-sitter with fewer modules, where no other thread could import them meanwhile."""
    from importlib import import_module

    threading = sys.modules.get("threading")
    if name in sys.modules or (threading is not None and threading.active_count() > 1):
        return import_module(name)
    with _standing("importlib.resources", _later_functions("importlib.resources", "files")):
        return import_module(name)


class _Later(ModuleType):
    """Placeholder of a module that loads it at first use."""

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        return getattr(import_module(self.__name__), name)


def _later_functions(name: str, *functions: str) -> ModuleType:
    """Return a placeholder module whose ``functions`` load the real one when they are called."""

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
    """Replace the library ``name`` by ``module`` in ``sys.modules`` during the block, unless it is loaded already."""
    modules: dict[str, Any] = sys.modules
    if name in modules:
        yield
        return
    modules[name] = module
    try:
        yield
    finally:
        del modules[name]
