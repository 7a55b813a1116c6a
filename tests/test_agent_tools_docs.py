"""What docs/guides/agent/tools.md, writing-tools.md and sandbox.md show is run, and their tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from agent_tools_support import PATH
from periplus.agent.sandbox import find_sandbox
from periplus.agent.tools import HostParts, open_host

DOCS = Path(__file__).resolve().parents[1] / "docs" / "guides" / "agent"
TOOLS, WRITING, SANDBOX = ((DOCS / f"{name}.md").read_text() for name in ("tools", "writing-tools", "sandbox"))


def blocks(page, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_host_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    exec(compile(blocks(TOOLS)[0], "docs/guides/agent/tools.md", "exec"), {})
    assert capsys.readouterr().out == blocks(TOOLS, "text")[0]
    assert not (tmp_path / "work" / "engine.py").exists()


def test_the_tool_of_the_page(tmp_path):
    values = {}
    exec(compile(blocks(WRITING)[0], "docs/guides/agent/writing-tools.md", "exec"), values)
    (tmp_path / "work").mkdir()
    parts = HostParts(
        root=str(tmp_path / "work"),
        state=str(tmp_path / "state"),
        environment={"PATH": PATH},
        more=[values["counting"]],
    )
    host = open_host(parts)
    try:
        assert host.run("count_words", {"text": "a b a"}).output == "3 words"
        assert host.run("count_words", {"text": "a b a", "word": "a"}).output == "2 words"
        assert "text is missing" in host.run("count_words", {}).output
        assert "count_words" in {one.name for one in host.schemas()}
    finally:
        host.close()


def test_the_table_names_the_tools_in_their_order(tmp_path):
    from test_agent_host import Shelf

    (tmp_path / "work").mkdir()
    parts = HostParts(
        root=str(tmp_path / "work"), state=str(tmp_path / "state"), environment={"PATH": PATH}, memory=Shelf()
    )
    host = open_host(parts)
    try:
        named = re.findall(r"^\| `(\w+)` \|", TOOLS, re.MULTILINE)
        assert named == [one.name for one in host.schemas()]
    finally:
        host.close()


def test_the_sandbox_of_the_page(capsys):
    exec(compile(blocks(SANDBOX)[0], "docs/guides/agent/sandbox.md", "exec"), {})
    found = find_sandbox(PATH)
    assert capsys.readouterr().out == f"{found.layer} - {found.about}\n"
