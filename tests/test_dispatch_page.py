"""docs/guides/dispatch.md is run: each command of the page, in its order, with what it shows. A script plays the agent."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from test_readme import PROGRAM, ROOT, commands_of

PAGE = (ROOT / "docs" / "guides" / "dispatch.md").read_text()
BOTH = PAGE + (ROOT / "docs" / "guides" / "dispatch-details.md").read_text()
WORKER = ROOT / "src" / "periplus" / "cli" / "tour" / "tour_worker.py"
ID = re.compile(r"\b(?:dsp|pln|stp)_[0-9a-z]{16}\b")
FILES = {
    "slug.sh": "#!/bin/sh\nprintf '%s\\n' \"$*\" | tr 'A-Z' 'a-z' | tr ' ' '-'\n",
    "test.sh": 'got=$(sh slug.sh Set Sail)\nif [ "$got" != set-sail ]; then echo "wanted set-sail, got $got"; exit 1; fi\n',
}


def plain(text):
    """Without what differs from run to run: times, commits, and ids but for their order."""
    text = re.sub(r"(?m)^\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{12}\b", "COMMIT", text)
    text = re.sub(r"(?m)( {3,}|, )\d+m?\d*s\b", "", text)
    return ID.sub("ID", text)


@pytest.mark.slow
def test_the_page_is_real(tmp_path):
    home, folder = tmp_path / "ada", tmp_path / "ada" / "shop"
    settings = home / ".config" / "periplus" / "agent.toml"
    for path, text in {**{folder / name: text for name, text in FILES.items()},
                       settings: f"[agents.anna]\ncommand = {json.dumps([sys.executable, '-P', str(WORKER)])}\n"}.items():  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    settings.chmod(0o600)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERIPLUS_", "XDG_", "GIT_"))}
    environment = {**kept, "HOME": str(home), "LOGNAME": "ada", "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (
        "git init -q -b main", "git config user.name Ada", "git config user.email ada@example.org", "git add .",
        "git commit -qm Slugs", f"{PROGRAM} init",
    ):  # fmt: skip
        subprocess.run(words.split(), cwd=folder, env=environment, check=True, capture_output=True)
    ids = {}  # of the page, as they are here
    commands = commands_of(PAGE)
    assert len(commands) >= 4
    for command, shown in commands:
        words = shlex.split(ID.sub(lambda found: ids[found[0]], command))
        words = [str(PROGRAM), *words[1:]] if words[0] == "periplus" else words
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        out, page = done.stdout + done.stderr, "".join(f"{one}\n" for one in shown)
        assert done.returncode == 0, (command, out)
        assert plain(out) == plain(page), command
        for theirs, ours in zip(ID.findall(page), ID.findall(out), strict=True):
            assert ids.setdefault(theirs, ours) == ours, "the same entity all through the page"


def test_options_and_commands_of_the_page_exist():
    """What the page only mentions: each option is one of ``dispatch start``, each command one of the program."""
    usage = subprocess.run([PROGRAM, "dispatch", "start", "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"(--[a-z][a-z-]+)", BOTH)) - {
        "--check",
        "--json",
        "--quiet",
        "--ff-only",
        "--step",
        "--file",
    }
    assert options <= set(re.findall(r"--[a-z-]+", usage))
    actions = subprocess.run([PROGRAM, "dispatch", "--help"], capture_output=True, text=True, check=True).stdout
    for action in set(re.findall(r"periplus dispatch ([a-z]+)", BOTH)):
        assert f"    {action} " in actions
