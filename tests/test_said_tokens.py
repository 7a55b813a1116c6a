"""Tokens that hooks say are counted by agent, in the last session and in all, in a bounded file without a lost line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_support import Shell, fill
from hook_support import hook
from periplus.base.text.token_estimate import estimate_tokens
from periplus.journal import Writer
from periplus.project import Project
from periplus.project.agent_hooks.said_tokens import SaidTokens, add_said, fold, read_said
from web_support import Site

WORDS = "The lock is taken for the whole import"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path / "project", tmp_path / "home")
    fill(shell)
    return shell


def begun(place, session, *, agent="claude-code", event="SessionStart", **more):
    """The texts that a hook gives the model of a session that begins."""
    document = {"session_id": session, "cwd": os.fspath(place.folder), "source": "startup", **more}
    done = hook(event, document, cwd=place.folder, agent=agent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""


def test_what_hooks_said_is_counted_by_agent_and_session(place):
    place("remember", "Tokens never reach the log", "--type", "constraint", "--about", "src/auth.py")
    first, second = begun(place, "one"), begun(place, "two")
    assert "Tokens never reach the log" in first
    read = {"tool_name": "Read", "tool_input": {"file_path": "src/auth.py"}, "tool_use_id": "t"}
    of_file = begun(place, "two", event="PreToolUse", **read)
    assert "src/auth.py: constraint" in of_file
    assert begun(place, "two", event="PreToolUse", **read) == "", "it was told"
    codex = begun(place, "one", agent="codex")
    rows = {one.name: one.said for one in place.json("agents").agents}
    last = estimate_tokens(second) + estimate_tokens(of_file)
    assert (rows["claude-code"].last_session, rows["claude-code"].all_sessions) == (last, estimate_tokens(first) + last)
    assert rows["claude-code"].sessions == 2
    assert (rows["codex"].last_session, rows["codex"].sessions) == (estimate_tokens(codex), 1)
    assert rows["cursor"] is None
    told = place("agents").lines
    assert (
        f"Hooks said to claude-code about {last:,} tokens in its last session, {estimate_tokens(first) + last:,} in 2 sessions."
        in told
    )
    assert f"Hooks said to codex about {estimate_tokens(codex):,} tokens in its last session." in told
    assert (place.folder / ".periplus/hooks/said").stat().st_mode & 0o777 == 0o600


def test_a_refusal_counts_and_silence_does_not(place):
    place("claim", "take", "src/auth.py", "--as", "grace")
    edit = {"tool_name": "Edit", "tool_input": {"file_path": "src/auth.py", "old_string": "a", "new_string": "b"}}
    document = {"session_id": "one", "cwd": os.fspath(place.folder), "tool_use_id": "t", **edit}
    output = json.loads(hook("PreToolUse", document, cwd=place.folder).stdout)["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    texts = (output.get("additionalContext", ""), output["permissionDecisionReason"])
    hooks = os.fspath(place.folder / ".periplus/hooks")
    assert read_said(hooks)["claude-code"].tokens == sum(map(estimate_tokens, texts))
    before = read_said(hooks)
    hook("PreToolUse", {**document, "tool_input": {"file_path": "src/none.py"}}, cwd=place.folder)
    assert read_said(hooks) == before


def test_each_connected_agent_has_its_cost(place):
    env = {"XDG_CONFIG_HOME": os.fspath(place.home / "config")}
    place("connect", "claude-code", "aider", env=env)
    place("connect", "cline", "--scope", "user", env=env)
    rows = {one.name: one.tokens for one in place.json("agents", env=env).agents}
    assert rows["claude-code"].tools > 1_000
    assert (rows["aider"].tools, rows["aider"].instructions, rows["aider"].skill) == (0, 0, 0)
    assert rows["aider"].block > 0
    assert rows["cline"].tools == rows["claude-code"].tools
    assert rows["codex"] is None
    line = next(
        line for line in place("agents", env=env).lines if line.startswith("A connected agent spends at most about ")
    )
    assert f"aider {rows['aider'].block:,}." in line
    place("connect", "cline", env=env)
    both = next(one.tokens for one in place.json("agents", env=env).agents if one.name == "cline")
    assert both.block > rows["cline"].block, "it reads both"
    assert (both.tools, both.skill) == (rows["cline"].tools, rows["cline"].skill)


def test_the_page_shows_what_agents_spend(place):
    with Site(place.folder) as site:
        assert "No agent is connected here." in site.get("/health").text
    place("connect", "zed")
    place("remember", "Tokens never reach the log", "--type", "constraint")
    said = estimate_tokens(begun(place, "one", agent="codex"))
    with Site(place.folder) as site:
        text = site.get("/health").text
    table = text[text.index("Tokens that agents spend") :]
    tokens = next(one.tokens for one in place.json("agents").agents if one.name == "zed")
    assert "connected: project" in table
    total = tokens.tools + tokens.instructions + tokens.block + tokens.skill
    assert (
        f"{total:,} tools {tokens.tools:,}, instructions {tokens.instructions:,}, block {tokens.block:,}, skill 0"
        in table
    )
    assert "not connected" in table, "Codex, which hooks told something"
    assert said
    assert re.search(rf"not connected {said:,}20\d\d-\d\d-\d\d \d\d:\d\d {said:,}1 session", table)


# -- the file --------------------------------------------------------------------------------------------------------


def test_folding_keeps_the_sums(tmp_path):
    hooks = os.fspath(tmp_path)
    fold(hooks)
    assert not os.listdir(hooks)
    for number in range(3_000):
        add_said(hooks, ("codex", "claude-code")[number % 5 == 0], f"session {number // 5}", (WORDS,), number)
    add_said(hooks, "cursor", "only", (WORDS, WORDS), 3)
    before = read_said(hooks)
    one = estimate_tokens(WORDS)
    assert before["cursor"] == SaidTokens(2 * one, 2 * one, 1, 3)
    assert before["codex"].tokens == 2_400 * one
    size = os.path.getsize(tmp_path / "said")
    fold(hooks)
    assert os.path.getsize(tmp_path / "said") < size / 3
    assert read_said(hooks) == before
    held = (tmp_path / "said").read_bytes()
    fold(hooks)
    assert (tmp_path / "said").read_bytes() == held, "it is small"
    add_said(hooks, "cursor", "only", (WORDS,), 4_000)
    add_said(hooks, "codex", "another", (WORDS,), 4_001)
    assert read_said(hooks)["cursor"] == SaidTokens(3 * one, 3 * one, 1, 4_000)
    assert read_said(hooks)["codex"] == SaidTokens(
        one, before["codex"].tokens + one, before["codex"].sessions + 1, 4_001
    )


@pytest.mark.slow
def test_no_line_is_lost_while_the_file_is_folded(tmp_path):
    code = (
        "import sys\nfrom periplus.project.agent_hooks.said_tokens import add_said\n"
        "for number in range(2_000):\n    add_said(sys.argv[1], 'codex', f'{sys.argv[2]} {number}', ('word',), number)\n"
    )
    adding = [subprocess.Popen([sys.executable, "-c", code, os.fspath(tmp_path), str(one)]) for one in range(3)]
    folded = 0
    while any(one.poll() is None for one in adding):
        before = os.stat(tmp_path / "said").st_ino if (tmp_path / "said").exists() else 0
        fold(os.fspath(tmp_path))
        folded += bool(before) and os.stat(tmp_path / "said").st_ino != before
    assert [one.returncode for one in adding] == [0, 0, 0]
    assert folded
    said = read_said(os.fspath(tmp_path))["codex"]
    assert (said.tokens, said.sessions) == (6_000, 6_000)


@given(st.binary(max_size=400) | st.lists(st.sampled_from((
    b"codex 53f6d77594cce6c0 5 7", b"codex - 5 7 3", b"codex - 5 7", b"codex 53f6d77594cce6c0 -5 7", b"codex x 5 7", b"\xff", b"",
    b"Codex 53f6d77594cce6c0 5 7", b"codex 53f6d77594cce6c0 5 " + b"9" * 400,
))).map(b"\n".join))  # fmt: skip
def test_any_bytes_are_read_as_counts(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("said")
    (folder / "said").write_bytes(data)
    (folder / "said").chmod(0o600)
    for said in read_said(os.fspath(folder)).values():
        assert 0 <= said.last_tokens <= said.tokens
        assert said.sessions >= 1


def test_a_file_of_others_counts_nothing_and_is_left(tmp_path):
    hooks = os.fspath(tmp_path)
    line = b"codex 53f6d77594cce6c0 5 7\n"
    (tmp_path / "said").write_bytes(line)
    (tmp_path / "said").chmod(0o664)
    assert read_said(hooks) == {}
    add_said(hooks, "codex", "one", (WORDS,), 1)
    fold(hooks)
    assert (tmp_path / "said").read_bytes() == line
    (tmp_path / "said").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "said").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        add_said(hooks, "codex", "one", (WORDS,), 1)
    assert read_said(hooks) == {}
    assert (tmp_path / "elsewhere").read_bytes() == line


def test_a_file_that_is_too_long_grows_no_further(tmp_path):
    (tmp_path / "said").write_bytes(b"codex 53f6d77594cce6c0 5 1\n" * 50_000)
    (tmp_path / "said").chmod(0o600)
    add_said(os.fspath(tmp_path), "codex", "one", (WORDS,), 9)
    assert read_said(os.fspath(tmp_path))["codex"] == SaidTokens(50_000, 50_000, 1, 5)
    fold(os.fspath(tmp_path))
    add_said(os.fspath(tmp_path), "codex", "one", (WORDS,), 9)
    assert read_said(os.fspath(tmp_path))["codex"].tokens == 50_000 + estimate_tokens(WORDS)


def test_a_settled_store_folds_it(place):
    place("remember", "Tokens never reach the log", "--type", "constraint")
    begun(place, "one")
    path = place.folder / ".periplus/hooks/said"
    path.write_bytes(path.read_bytes() + b"codex 53f6d77594cce6c0 5 1\n" * 3_000)
    begun(place, "two")
    assert path.stat().st_size < 1_000
    with Project.open(os.fspath(place.folder), Writer.named("ada")) as project:
        assert project.hooks.said()["codex"] == SaidTokens(3_000, 3_000, 1, 5)
        assert project.hooks.said()["claude-code"].sessions == 2
