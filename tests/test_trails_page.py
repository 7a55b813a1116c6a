"""docs/guides/trails.md and sharing-trails.md are run as one: each command, in its order, with what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from test_readme import PROGRAM, ROOT, commands_of

PAGE = "".join((ROOT / "docs" / "guides" / f"{name}.md").read_text() for name in ("trails", "sharing-trails"))
PRICE = "def price(amount, discount):\n    return amount - discount\n"
TEST = "from src.price import price\n\n\ndef test_a_discount_is_a_share():\n    assert price(200, 0.1) == 180\n"
IGNORED = "__pycache__/\n.pytest_cache/\n*.proof\n*.pplt\n*.md\n"


def plain(text):
    """Without what differs from run to run."""
    text = re.sub(r"\b(trl|run)_[0-9a-z]{16}\b", r"\1_ID", text)
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "HEX", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d(:\d\d\.\d{3}Z)?", "TIME", text)
    text = re.sub(r"\+\d:\d\d:\d\d\.\d{3}", "+TIME", text)
    return re.sub(r"\b(\d,)?\d{3} bytes\b", "SIZE", text)


@pytest.mark.slow
def test_the_page_is_real(tmp_path):
    folder = tmp_path / "ada" / "shop"
    for name, text in {"src/price.py": PRICE, "tests/test_price.py": TEST, ".gitignore": IGNORED}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "agent.py").write_text(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1])
    environment = {
        **os.environ,
        "HOME": str(folder.parent),
        "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
        "COLUMNS": "100",
    }
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Prices with a discount"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)
    subprocess.run([PROGRAM, "init"], cwd=folder, env=environment, check=True, capture_output=True)
    trail = ""
    for command, shown in commands_of(PAGE):
        line, _, target = command.partition(" > ")
        words = shlex.split(re.sub(r"\btrl_[0-9a-z]{16}\b", trail, line))
        program = {"periplus": str(PROGRAM), "python": sys.executable}.get(words[0], words[0])
        done = subprocess.run(
            [program, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        code = 1 if "diff" in words or words[-2:] == ["--effects", "forged.pplt"] else 0
        assert (done.returncode, done.stderr) == (code, ""), command
        out = done.stdout.replace(str(folder), "/home/ada/shop")
        if target:
            (folder / target).write_text(out)
            continue
        assert plain(out) == plain("".join(f"{one}\n" for one in shown)), command
        if words[1:] == ["trail", "list"]:
            trail = out.split()[0]
    assert "Discounts are shares" in Path(folder / "report.md").read_text()
