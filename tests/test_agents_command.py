"""``periplus agents``: which agents are found here, connected, heard through their hooks, and have sessions to import."""

from __future__ import annotations

import json
import os

import pytest

from cli_support import Shell, fill
from interop_samples_terminals import CRUSH, as_crush
from periplus.interop.agents import AGENT_NAMES


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    fill(shell)
    return shell


def rows(sh, **more):
    return {one.name: one for one in sh.json("agents", **more).agents}


def test_all_known_agents_are_listed_and_none_is_found_on_a_bare_machine(sh):
    told = rows(sh, env={"PATH": "/nonexistent"})
    assert tuple(told) == AGENT_NAMES
    assert not any(one.found or one.connected or one.heard or one.waiting for one in told.values())
    assert told["codex"].parts == ["server", "hooks", "instructions", "skill"]
    assert told["aider"].parts == ["instructions"]
    assert told["zed"].waiting is None
    assert (told["codex"].tried, told["cursor"].tried) == ("0.171", "")
    assert told["auggie"].listed
    said = sh("agents", env={"PATH": "/nonexistent"})
    assert said.lines[-1] == "No agent is connected. Next: periplus connect"
    assert not any(line.startswith("aider") for line in said.lines)
    assert any(line.startswith("aider") for line in sh("agents", "--all").lines)


def test_found_by_program_or_files_and_connected_in_each_scope(sh):
    program = sh.home / "bin/zed"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho Zed 1.2.3\n")
    program.chmod(0o755)
    (sh.home / ".kiro").mkdir()
    env = {"PATH": os.fspath(program.parent), "XDG_CONFIG_HOME": os.fspath(sh.home / "config")}
    sh("connect", "kiro", env=env)
    sh("connect", "kiro", "zed", "--scope", "user", env=env)
    told = rows(sh, env=env)
    assert (told["zed"].found, told["zed"].program) == (True, os.fspath(program))
    assert (told["kiro"].found, told["kiro"].program) == (True, "")
    assert (told["zed"].version, told["kiro"].version) == ("1.2.3", "")
    assert {name: one.connected for name, one in told.items() if one.connected} == {
        "kiro": ["project", "user"],
        "zed": ["user"],
    }
    sh("disconnect", "kiro", env=env)
    assert rows(sh, env=env)["kiro"].connected == ["user"]


def test_what_an_agent_does_not_have_is_not_checked(sh):
    """Windsurf has servers for a person only, and no hooks of ours: both scopes belong together."""
    sh("connect", "windsurf", "aider")
    sh("connect", "windsurf", "--scope", "user", env={"XDG_CONFIG_HOME": os.fspath(sh.home / "config")})
    found = sh.json("connect", "--check", "windsurf", "aider")
    assert [(one.agent, one.what) for one in found.findings if one.what != "command"] == [
        ("windsurf", "instructions"),
        ("windsurf", "skill"),
        ("aider", "instructions"),
    ]


def test_hooks_are_heard(sh):
    assert rows(sh)["codex"].heard is None
    event = {"session_id": "one", "cwd": os.fspath(sh.folder), "source": "startup"}
    sh("hook", "SessionStart", "--agent", "codex", stdin=json.dumps(event))
    sh("status")
    told = rows(sh)
    assert told["codex"].heard
    assert told["cursor"].heard is None


def test_sessions_without_a_trail_are_counted(sh):
    folder = sh.home / ".claude/projects/shop"
    folder.mkdir(parents=True)
    for name in ("3f0c1f0e-0000-4000-8000-000000000001", "3f0c1f0e-0000-4000-8000-000000000002"):
        line = {"type": "user", "sessionId": name, "cwd": os.fspath(sh.folder), "uuid": f"u-{name}", "parentUuid": None,
                "timestamp": "2026-01-02T03:04:05.000Z", "message": {"role": "user", "content": "Hello"}}  # fmt: skip
        (folder / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    assert rows(sh)["claude-code"].waiting == 2
    assert "Next, import what waits" not in sh("agents").out, "nothing is connected, which comes first"
    sh("trail", "import", folder / "3f0c1f0e-0000-4000-8000-000000000001.jsonl")
    assert rows(sh)["claude-code"].waiting == 1
    sh("trail", "import", "--all")
    assert rows(sh)["claude-code"].waiting == 0


def test_the_cost_is_that_of_what_agents_give_their_models(sh):
    tokens = sh.json("agents").tokens
    assert tokens.tools > tokens.block > tokens.instructions > tokens.skill > 0
    assert f"about {tokens.tools + tokens.instructions + tokens.block + tokens.skill:,} tokens" in sh("agents").out


def test_a_program_that_the_project_brings_is_not_started(sh):
    program = sh.folder / "node_modules/.bin/zed"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {sh.home}/started\necho 1.2.3\n")
    program.chmod(0o755)
    told = rows(sh, env={"PATH": os.fspath(program.parent)})
    assert (told["zed"].program, told["zed"].version) == (os.fspath(program), "")
    assert not (sh.home / "started").exists()


def test_sessions_in_a_database_are_counted_one_by_one(sh):
    as_crush(sh.folder, CRUSH)
    assert rows(sh)["crush"].waiting == 1
    sh("trail", "import", "--all")
    assert rows(sh)["crush"].waiting == 0
    (sh.folder / ".crush/crush.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    assert rows(sh)["crush"].waiting == 1
