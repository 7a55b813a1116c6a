"""``periplus loop`` and roles of ``periplus dispatch start``, as a person types them, with a scripted agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from cli_support import Shell
from dispatch_agents import agent_row
from dispatch_support import git
from periplus.project import Project

FAILS = "import sys\nprint('expected 2, got 3')\nsys.exit(1)\n"


@pytest.fixture
def sh(tmp_path):
    for name in ("home/.config/periplus", "project"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/.config/periplus/agent.toml").write_text(agent_row())
    (tmp_path / "project/README.md").write_text("# Shop\n\nPython 3.11 has to work.\n")
    (tmp_path / "project/.gitignore").write_text(".periplus/\n")
    for words in (["init", "-q", "-b", "main"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.org"], ["add", "."],
                  ["commit", "-qm", "Begin"]):  # fmt: skip
        git(tmp_path / "project", *words)
    Project.init(os.fspath(tmp_path / "project"))
    return Shell(tmp_path / "project", tmp_path / "home")


def task(text, *acts):
    """A task with the script of the agent that does it."""
    return f"{text}\n\n```worker\n{json.dumps(list(acts))}\n```\n"


def test_a_store_without_loops(sh):
    assert sh("loop", code=1).lines == ['There are no loops. Next: periplus loop open KIND "TEXT" --agent NAME']
    sh.fails("loop", "show", code=1, wrong="there is no loop")
    sh.fails("loop", "next", code=1, wrong="periplus loop open KIND")


def test_a_loop_is_opened_shown_and_closed(sh):
    opened = sh.json("loop", "open", "debug", "It adds wrongly", "--agent", "scripted", "--command", "make 'all tests'")
    loop = opened.loop
    assert (loop.kind, loop.phase, loop.state, loop.command) == ("debug", "reproduce", "open", ["make", "all tests"])
    assert loop.branch == f"periplus/{loop.id}"
    assert sh("loop").lines == [f"{loop.id} debug, at reproduce: It adds wrongly"]
    assert sh("loop", "show").lines[-1] == f"To go on: periplus loop next {loop.id}"
    (order,) = sh.json("loop", "next", "--dry-run").orders
    assert order.startswith("It adds wrongly\n\nPhase reproduce, agent 1 of 1: Find a command that fails")
    assert sh("loop", "close", "--reason", "it was me").lines[0].startswith(f"Closed {loop.id}.")
    assert sh("loop", "close").lines == [f"{loop.id} is closed already."]
    assert sh("loop", "list").lines == [f"{loop.id} debug, closed: it was me: It adds wrongly"]
    assert sh.json("loop", "list", "--open", code=1).loops == []
    sh.fails("loop", "next", code=5, wrong="is closed: it was me")


@pytest.mark.slow
def test_a_phase_is_done_and_its_evidence_shown(sh):
    artifact = {"argv": [os.path.realpath(sys.executable), "fails.py"], "symptom": "expected 2, got 3"}
    text = task(
        "It adds wrongly",
        {"write": {"fails.py": FAILS}},
        {"commit": "Reproduce"},
        {"result": {"status": "done", "artifact": artifact}},
    )
    loop = sh.json("loop", "open", "debug", text, "--agent", "scripted").loop
    done = sh("loop", "next")
    assert "reproduce: opened" in done.lines
    shown = sh.json("loop", "show")
    assert shown.loop.phase == "hypotheses"
    assert [(one.by, one.agent, json.loads(one.text)) for one in shown.artifacts] == [("agent 1", "scripted", artifact)]
    assert [(one.code, one.output.strip()) for one in shown.checks] == [(1, "expected 2, got 3")]
    assert git(sh.folder, "show", f"{loop.branch}:fails.py").startswith("import sys")
    out = sh("loop", "show").out
    assert "(exit code 1, at " in out
    shut = sh.json("loop", "next", code=1)  # the same artifact is none of this phase
    assert [(one.phase, one.outcome) for one in shut.phases] == [("hypotheses", "shut")]
    assert shut.loop.missing
    assert "missing" in sh("loop").out


@pytest.mark.slow
def test_an_onboarder_needs_no_oracle_and_its_candidates_are_listed(sh):
    rule = {"kind": "constraint", "text": "Python 3.11 has to work.", "evidence": ["README.md:3"]}
    text = task("Read this project", {"result": {"status": "done", "summary": "read it", "proposals": [rule]}})
    sh("dispatch", "start", text, "--agent", "scripted", "--role", "onboarder")
    (found,) = sh.json("candidates", "list").candidates
    assert found.text == "Python 3.11 has to work."
    assert [one.quote for one in sh.json("candidates", "show", found.id).candidate.evidence] == ["README.md:3"]


@pytest.mark.slow
def test_a_command_that_is_killed_is_followed_by_one_that_starts_no_agent_twice(sh, tmp_path):
    artifact = {"argv": [os.path.realpath(sys.executable), "fails.py"], "symptom": "expected 2, got 3"}
    started, gate = tmp_path / "started", tmp_path / "gate"
    text = task(
        "It adds wrongly", {"append": {str(started): "."}}, {"wait_for": str(gate)}, {"write": {"fails.py": FAILS}}, {"commit": "Reproduce"},
        {"result": {"status": "done", "artifact": artifact}},
    )  # fmt: skip
    sh("loop", "open", "debug", text, "--agent", "scripted")
    first = sh.start("loop", "next", stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not started.exists():
        assert first.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    first.kill()
    first.wait()
    gate.touch()
    assert "reproduce: opened" in sh("loop", "next").lines
    assert started.read_text() == "."
    shown = sh.json("loop", "show")
    assert (shown.loop.tries, len(shown.artifacts), len(shown.checks)) == (1, 1, 1)
