"""Names of modules that users had from the documentation of 0.1 go on working."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from periplus.base.moved_modules import MOVED

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_name_gives_the_module_and_a_warning(old, new):
    with pytest.warns(DeprecationWarning, match=f"periplus.{old} is periplus.{new} since 0.2") as caught:
        found = importlib.import_module(f"periplus.{old}")
    assert found is importlib.import_module(f"periplus.{new}")
    assert found.__spec__.name == f"periplus.{new}"
    assert len(caught) == 1
    del sys.modules[f"periplus.{old}"]


def test_the_warning_points_to_the_line_that_imports(tmp_path):
    script = tmp_path / "use.py"
    script.write_text("from periplus.journal.standing import ReplacedError\nprint(ReplacedError.__module__)\n")
    done = subprocess.run([sys.executable, "-W", "default", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "periplus.journal.storage.store_identity\n"
    assert f"{script}:1: DeprecationWarning" in done.stderr


def test_a_name_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"periplus\.journal\.nothing"):
        importlib.import_module("periplus.journal.nothing")
