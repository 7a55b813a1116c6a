"""docs/guides/contexts.md and context-sharing.md are run as one: each command, in its order, with what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from test_readme import PROGRAM, ROOT, commands_of

PAGE = "".join((ROOT / "docs" / "guides" / f"{name}.md").read_text() for name in ("contexts", "context-sharing"))


def plain(text):
    """Without what differs from run to run."""
    text = re.sub(r"\b(con|dec|trp|lin)_[0-9a-z]{16}\b", r"\1_ID", text)
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "HEX", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d(:\d\d\.\d{3}Z)?", "TIME", text)
    return re.sub(r"\b(\d,)?\d{3} bytes\b", "SIZE", text).replace("(plain Python)", "(native)")


def run_page(page, folder, check):
    (folder / "shop").mkdir(parents=True)
    (folder / "laptop").mkdir()
    shop = folder / "shop"
    (facts,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    texts = {
        "facts": facts, "idea": '{"content": "Sessions could live in Redis", "type": "Idea"}\n',
        "more": '{"content": "The reef is sharp", "type": "Fact"}\n', "late": '{"content": "The tide turns at six", "type": "Fact"}\n',
    }  # fmt: skip
    for name, text in texts.items():
        (shop / f"{name}.jsonl").write_text(text)
    environment = {**os.environ, "HOME": str(folder), "LOGNAME": "ada", "COLUMNS": "100"}
    subprocess.run([PROGRAM, "init"], cwd=shop, env=environment, check=True, capture_output=True)
    for command, shown in commands_of(page):
        words = shlex.split(command)
        done = subprocess.run(
            [PROGRAM, *words[1:]], cwd=shop, env=environment, capture_output=True, text=True, timeout=120
        )
        assert (words[0], done.returncode, done.stderr) == ("periplus", 0, ""), command
        check(command, done.stdout.replace(str(folder), "/home/ada"), shown)


@pytest.mark.slow
def test_the_page_is_real(tmp_path):
    def check(command, out, shown):
        assert plain(out) == plain("".join(f"{one}\n" for one in shown)), command

    run_page(PAGE, tmp_path / "ada", check)
