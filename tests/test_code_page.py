"""docs/guides/code.md is run: each command, in its order, with what it shows."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from code_page_project import make_shop
from test_readme import PROGRAM, ROOT, commands_of


@pytest.mark.slow
def test_the_page_is_real(tmp_path):
    shop = tmp_path / "shop"
    shop.mkdir()
    environment = {**os.environ, "HOME": str(tmp_path), "LOGNAME": "ada", "COLUMNS": "100"}
    make_shop(shop, environment)
    commands = commands_of((ROOT / "docs" / "guides" / "code.md").read_text())
    assert len(commands) == 11
    for command, shown in commands:
        words = shlex.split(command)
        program = [PROGRAM] if words[0] == "periplus" else words[:1]
        done = subprocess.run(
            [*program, *words[1:]], cwd=shop, env=environment, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout == "".join(f"{line}\n" for line in shown), command
