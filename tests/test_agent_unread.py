"""What rules keep from being read: by every tool, by what is looked up for the tail, and by commands in each sandbox."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agent_tools_support import HOST_ENVIRONMENT, edit
from periplus.agent.perception.file_retriever import FolderRetriever
from periplus.agent.policies.permission import MODES, Permission, parse_rule
from periplus.agent.sandbox import find_sandbox
from periplus.agent.tools import HostParts, open_host
from periplus.agent.tools.files import read_restrictions as unread_module
from periplus.agent.tools.files.read_restrictions import ReadRestrictions
from periplus.base.errors import RefusedError
from periplus.base.filesystem.confined_folder import Confined

CANARY = "canary-5f2c"
FILES = ("secrets/prod.txt", "deep/secrets/dev.txt", "keys/a.pem", "deep/b.pem", "plain.txt", "deep/plain.txt")
LAYERS = [
    find
    for layer in ("bubblewrap", "landlock")
    if (find := find_sandbox("/usr/bin:/bin", layers=(layer,))).layer == layer
]


def folder_of(tmp_path):
    for path in FILES:
        full = tmp_path / "work" / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(f"{CANARY} in {path}\n")
    return tmp_path / "work"


def rules(*texts):
    return [parse_rule(text) for text in texts]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("effect", ["deny", "ask"])
def test_a_rule_of_reading_counts_for_every_tool_of_files(mode, effect):
    permission = Permission(mode, rules(f"{effect} read(secrets/**)", "allow edit(secrets/**)"), workspace="/work")
    calls = [("read", {"path": "secrets/a"}), ("list", {"path": "secrets"}), ("search", {"pattern": "x", "path": "secrets/a"}),
             ("search", {"pattern": "x", "path": "/work/secrets"}), ("edit", edit("secrets/a", "x", "y")),
             ("edit", {"edits": [{"path": "a", "move_to": "secrets/a"}]}), ("write", {"path": "./secrets/../secrets/a", "content": ""})]  # fmt: skip
    for name, args in calls:
        decision = permission.authorize_tool(name, args)
        assert (decision.allow, decision.ask) == (effect == "ask", effect == "ask"), name
    assert permission.authorize_tool("read", {"path": "secret"}).allow
    assert permission.authorize_tool("list", {"path": "."}).allow
    assert permission.unread(effect) == ("secrets/**",)


def test_an_allowance_to_read_allows_nothing_else():
    permission = Permission("ask", rules("allow read(src/**)", "allow r*(src/**)"), workspace="/work")
    assert permission.authorize_tool("edit", edit("src/a", "x", "y")).ask
    assert permission.unread("deny") == ()


@pytest.mark.parametrize(
    "unread", [ReadRestrictions(["secrets/**", "**/*.pem"]), ReadRestrictions(asked=["secrets/**", "**/*.pem"])]
)
def test_what_looks_at_many_files_leaves_them_out_and_says_so(tmp_path, unread):
    work = folder_of(tmp_path)
    host = open_host(
        HostParts(root=str(work), state=str(tmp_path / "state"), environment=HOST_ENVIRONMENT, unread=unread)
    )
    try:
        searched = host.run("search", {"pattern": CANARY, "ignored": True}).output
        listed = host.run("list", {"glob": "**", "ignored": True}).output
        shallow = host.run("list", {}).output
    finally:
        host.close()
    for text in (searched, listed):
        assert "prod.txt" not in text
        assert ".pem" not in text
        assert "deep/secrets/dev.txt" in text
        assert "plain.txt" in text
        assert "entries are left out: a rule forbids reading what is there" in text
    assert "secrets/" not in shallow.split("\n")
    found = {one.path for one in FolderRetriever(str(work), unread).retrieve(CANARY, 20)}
    assert found == {"plain.txt", "deep/plain.txt", "deep/secrets/dev.txt"}


@pytest.mark.parametrize("sandbox", LAYERS, ids=lambda one: one.layer)
def test_a_command_sees_nothing_of_what_may_not_be_read(tmp_path, sandbox):
    work = folder_of(tmp_path)
    (work / "link").symlink_to("secrets/prod.txt")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "held").write_text(CANARY)
    unread = ReadRestrictions(["secrets/**", "**/*.pem", str(tmp_path / "outside")], asked=["deep/plain.txt"])
    parts = HostParts(
        root=str(work), state=str(tmp_path / "state"), environment=HOST_ENVIRONMENT, unread=unread, sandbox=sandbox
    )
    host = open_host(parts)
    try:
        shown = host.run(
            "shell",
            {
                "command": f"cat secrets/* keys/a.pem deep/b.pem link {tmp_path}/outside/*; echo x > secrets/prod.txt; mv secrets moved"
            },
        )
        rest = host.run(
            "shell", {"command": "cat plain.txt deep/plain.txt deep/secrets/dev.txt && echo new > deep/secrets/new.txt"}
        )
        code = host.run("code", {"source": "import os\nfor path in ('secrets/prod.txt', 'keys/a.pem', 'plain.txt'):\n"
                                           "    try: print(open(path).read())\n    except OSError as error: print(error)\n"})  # fmt: skip
    finally:
        host.close()
    assert CANARY not in shown.output
    assert rest.output.count(CANARY) == 3
    assert code.output.count(CANARY) == 1
    assert {path: (work / path).read_text() for path in FILES} == {path: f"{CANARY} in {path}\n" for path in FILES}
    assert (work / "deep/secrets/new.txt").read_text() == "new\n"


def test_where_the_files_of_a_rule_cannot_be_found_no_command_runs(tmp_path, monkeypatch):
    work = folder_of(tmp_path)
    folder = Confined(str(work))
    try:
        assert ReadRestrictions(["secrets/**", "secrets/prod.txt", "gone/**"]).masked(folder) == [str(work / "secrets")]
        assert sorted(ReadRestrictions(["**/*.pem"]).masked(folder)) == sorted(
            str(work / path) for path in ("keys/a.pem", "deep/b.pem")
        )
        assert ReadRestrictions(["deep/*.pem", "nowhere/*.pem"]).masked(folder) == [str(work / "deep/b.pem")]
        assert ReadRestrictions(asked=["**"]).masked(folder) == []
        monkeypatch.setattr(unread_module, "MASKED_MAX", 1)
        for glob, why in (("**/*.pem", "over 1 paths"), ("/etc/*.key", "only full paths")):
            with pytest.raises(RefusedError, match=why):
                ReadRestrictions([glob]).masked(folder)
        (work / "locked").mkdir(mode=0)
        if os.geteuid():
            with pytest.raises(RefusedError):
                ReadRestrictions(["**/*.key"]).masked(folder)
    finally:
        (work / "locked").chmod(0o700) if (work / "locked").exists() else None
        folder.close()


def test_the_page_names_tests_that_there_are():
    root = Path(__file__).parent.parent
    named = re.findall(
        r"`(tests/\w+\.py)(?:::(\w+))?(?:\[([\w-]+)\])?`",
        (root / "docs" / "internals" / "agent-threats.md").read_text(),
    )
    assert len(named) >= 12
    scenarios = "".join(path.read_text() for path in (root / "tests").glob("agent_scenarios_*.py"))
    for file, name, case in named:
        assert not name or f"def {name}(" in (root / file).read_text(), name
        assert not case or f"def {case.replace('-', '_')}(" in scenarios, case
