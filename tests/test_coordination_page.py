"""docs/guides/coordination.md is run: each command of the page, in its order, with what it shows and the exit codes that it names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from test_readme import PROGRAM, ROOT, commands_of

PAGE = (ROOT / "docs" / "guides" / "coordination.md").read_text()
ID = re.compile(r"\b(?:clm|con|pln|stp|hof|msg)_[0-9a-z]{16}\b")
CODES = {
    'periplus claim take "src/**/*.py" --as bob': 5,
    "periplus check src/auth.py --as bob": 1,
    "periplus plan next --as eve": 1,
}


def plain(text):
    """Without what differs from run to run."""
    text = re.sub(r"\b\d+ (min|s)\b", "SPAN", text)
    return ID.sub("ID", re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d", "TIME", text))


@pytest.mark.slow
def test_the_page_is_real(tmp_path):
    folder = tmp_path / "ada" / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "auth.py").write_text("def login(name, password):\n    ...\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERIPLUS_")}
    environment = {**kept, "HOME": str(folder.parent), "LOGNAME": "ada", "COLUMNS": "100", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True, capture_output=True)
    subprocess.run([PROGRAM, "init"], cwd=folder, env=environment, check=True, capture_output=True)
    ids = {}  # of the page, as they are here
    commands = commands_of(PAGE)
    assert len(commands) >= 15
    for command, shown in commands:
        words = shlex.split(ID.sub(lambda found: ids[found[0]], command))
        done = subprocess.run(
            [PROGRAM, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        out, page = done.stdout + done.stderr, "".join(f"{one}\n" for one in shown)
        assert done.returncode == CODES.get(command, 0), (command, out)
        assert plain(out) == plain(page), command
        for theirs, ours in zip(ID.findall(page), ID.findall(out), strict=True):
            assert ids.setdefault(theirs, ours) == ours, "the same entity all through the page"
