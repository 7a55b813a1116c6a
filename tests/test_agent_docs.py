"""What docs/agent/ shows is run, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from agent_hook_contract import check_hook
from agent_support import Bench
from periplus.agent.contracts import StopReason
from periplus.agent.episodes import Fed
from periplus.agent.hooks import SEAMS
from periplus.agent.models.scripted import answer, call

DOCS = Path(__file__).resolve().parents[1] / "docs" / "guides" / "agent"
LOOP, HOOKS = (DOCS / "loop.md").read_text(), (DOCS / "hooks.md").read_text()


def block(page):
    return re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]


def rows(page, heading):
    """The first cells of the table behind a heading, without their code marks."""
    behind = page.split(heading, 1)[1]
    table = re.search(r"(?:^\|.*\n)+", behind, re.MULTILINE)[0].splitlines()[2:]
    return [re.search(r"`(\w+)", line)[1] for line in table]


def test_the_session_of_ten_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    values = {}
    exec(compile(block(LOOP), "docs/guides/agent/loop.md", "exec"), values)
    values["host"].close()
    assert capsys.readouterr().out == "done · The engine is oiled.\n['ok']\n"
    assert (tmp_path / "work" / "oil.txt").read_text() == "oil\n"


@pytest.mark.slow
def test_the_hook_of_the_page(tmp_path):
    values = {}
    exec(compile(block(HOOKS), "docs/guides/agent/hooks.md", "exec"), values)
    check_hook(values["House"])
    script = [
        answer("", call("write", path="vendor/x", content="x"), call("read", path="a")),
        "done",
        answer("", call("append", path="CHANGELOG.md", text="- oil")),
        "done now",
    ]
    bench = Bench(tmp_path, script, hooks=[values["House"]()])
    (bench.host.folder / "a").write_text("for ACME Ltd")
    assert bench.turn().text == "done now"
    assert bench.client.requests[1][0][-2].content == "Denied: vendor/ is not ours to change"
    assert bench.client.requests[1][0][-1].content == "for the customer"
    assert [one.text for one in bench.of(Fed)] == ["Write a line into CHANGELOG.md before you are done."]


def test_the_tables_are_those_of_the_code():
    assert rows(LOOP, "## How a turn ends") == list(get_args(StopReason))
    assert rows(HOOKS, "# Writing a hook") == list(SEAMS)
    closed = {
        line.split("`")[1].split("(")[0]
        for line in HOOKS.split("## An example")[0].splitlines()
        if line.startswith("| `") and line.split("|")[4].strip() in ("parked", "nothing is sent", "denied", "withheld")
    }
    assert closed == {name for name, seam in SEAMS.items() if seam.is_policy}
