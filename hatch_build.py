"""The native build: the codecs of trails and the import of Claude Code's sessions compiled. Nobody needs it.

Where there is a C compiler, the same modules that run as plain Python are compiled by mypyc, and ``base/_speed.c`` beside them; what they give is the
same, byte for byte. ``python hatch_build.py FOLDER`` makes a tree for PYTHONPATH; with HATCH_BUILD_HOOK_ENABLE_CUSTOM=1
in the environment ``pip wheel .`` makes a wheel for this machine. ``make native`` does both.
"""

from __future__ import annotations

__all__ = ["COMPILED", "NativeHook", "compile_tree", "get_build_hook", "is_current"]

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT: Final = os.path.dirname(os.path.abspath(__file__))
COMPILED: Final = (
    "periplus/base/secrets.py",
    "periplus/base/speed.py",
    "periplus/base/varint.py",
    "periplus/interop/calls.py",
    "periplus/interop/claude.py",
    "periplus/interop/claude_tools.py",
    "periplus/interop/commands.py",
    "periplus/interop/intake.py",
    "periplus/interop/lanes.py",
    "periplus/interop/lines.py",
    "periplus/interop/patches.py",
    "periplus/interop/test_runners.py",
    "periplus/interop/tools.py",
    "periplus/interop/values.py",
    "periplus/merkle/multiproof.py",
    "periplus/merkle/tiles.py",
    "periplus/merkle/tree.py",
    "periplus/trail/builder.py",
    "periplus/trail/codec.py",
    "periplus/trail/identity.py",
    "periplus/trail/shell_words.py",
    "periplus/trail/steps.py",
    "periplus/trail/strings.py",
)
_STAMP: Final = "SOURCES"  # in the tree: what it was made of
_SETUP: Final = """
from mypyc.build import mypycify
from setuptools import Extension, setup

setup(
    name="periplus-native",
    packages=[],
    ext_modules=[
        *mypycify([{config!r}, *{modules!r}], opt_level="3", debug_level="0", group_name="periplus"),
        Extension("periplus.base._speed", ["periplus/base/_speed.c"], extra_compile_args=["-O3"]),
        Extension("periplus.base._values", ["periplus/base/_values.c"], extra_compile_args=["-O3"]),
    ],
)
"""


def compile_tree(folder: str) -> list[str]:
    """Make ``folder`` the package with its compiled modules beside the plain ones; the paths of these, within it.

    Raises CalledProcessError, with what the compiler said in ``stderr``.
    """
    sources = _sources()
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(
            os.path.join(ROOT, "src", "periplus"),
            os.path.join(work, "periplus"),
            ignore=shutil.ignore_patterns("__pycache__", "*.so"),
        )
        setup = os.path.join(work, "setup.py")
        with open(setup, "w", encoding="utf-8") as file:
            config = f"--config-file={os.path.join(ROOT, 'pyproject.toml')}"
            file.write(_SETUP.format(config=config, modules=list(COMPILED)))
        subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
            cwd=work, check=True, capture_output=True, text=True, env={**os.environ, "MYPYPATH": work},
        )  # fmt: skip
        found = [
            os.path.relpath(os.path.join(place, name), work)
            for place, _, names in os.walk(work)
            for name in names
            if name.endswith(".so") and "build" not in os.path.relpath(place, work).split(os.sep)
        ]
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        shutil.copytree(os.path.join(work, "periplus"), os.path.join(folder, "periplus"),
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
        for path in found:
            shutil.copy(os.path.join(work, path), os.path.join(folder, path))
        with open(os.path.join(folder, _STAMP), "w", encoding="ascii") as file:
            file.write(sources)
    return sorted(found)


def is_current(folder: str) -> bool:
    """Whether ``folder`` is a tree that was made of the sources as they are now."""
    try:
        with open(os.path.join(folder, _STAMP), encoding="ascii") as file:
            return file.read() == _sources()
    except FileNotFoundError:
        return False


def _sources() -> str:
    state = hashlib.sha256(sys.version.encode())
    for place, folders, names in os.walk(os.path.join(ROOT, "src", "periplus")):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".c", ".h")):
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    state.update(path.encode() + b"\0" + file.read())
    return state.hexdigest()


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]  # of any configuration
    """Puts the compiled modules into a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        folder = os.path.join(self.directory, "native")
        for path in compile_tree(folder):
            build_data["force_include"][os.path.join(folder, path)] = path
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def get_build_hook() -> type[NativeHook]:
    return NativeHook


if __name__ == "__main__":
    try:
        print("\n".join(compile_tree(sys.argv[1])))
    except subprocess.CalledProcessError as failed:
        sys.exit(f"The native build did not succeed; the plain form works as before.\n{failed.stderr}")
