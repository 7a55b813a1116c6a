"""Adapters of agents: their command lines and environments, what their output tells, and agents of a user's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_agents import PROGRAM, RESULT, agent_row, prompt_of
from periplus.agent.settings import load_settings
from periplus.base.errors import NotFoundError, RefusedError, UsageError
from periplus.dispatch.adapters import ADAPTERS, Sought, Spent, Start, adapter_named, adapters_with, check
from periplus.dispatch.adapters.environment import COMMON
from periplus.interop.agents import AGENT_NAMES
from periplus.interop.formats import format_of
from periplus.project.agent_hooks.connection import Machine

SESSION = "6e3c2a0e-7d0f-4c3c-9f4f-0c1f6f1d2b3a"
PROMPT = "Harden the password check, and tell nobody"
SECRETS = {
    "ANTHROPIC_API_KEY": "sk-anthropic", "OPENAI_API_KEY": "sk-openai", "CODEX_API_KEY": "sk-codex", "GEMINI_API_KEY": "sk-gemini",
    "AWS_SECRET_ACCESS_KEY": "aws", "GITHUB_TOKEN": "gh", "SSH_AUTH_SOCK": "/run/agent", "DATABASE_URL": "postgres://", "OPENROUTER_API_KEY": "or",
    "PERIPLUS_SECRET": "ours", "GIT_DIR": "/elsewhere", "GIT_CONFIG_COUNT": "1", "PYTHONPATH": "/evil", "LD_PRELOAD": "/evil.so", "NODE_OPTIONS": "-r evil",
}  # fmt: skip
KEYS = {
    "periplus": {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"},
    "claude-code": {"ANTHROPIC_API_KEY"},
    "codex": {"OPENAI_API_KEY", "CODEX_API_KEY"},
    "gemini": {"GEMINI_API_KEY"},
    "opencode": {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
    "aider": {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
}
GIVEN = {
    "PATH", "TERM", "PERIPLUS_AGENT", "PERIPLUS_SESSION", "PERIPLUS_RUN", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL", "GIT_TERMINAL_PROMPT", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0",
}  # fmt: skip
each = pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)


@pytest.fixture
def programs(tmp_path):
    """A folder with a program of every name, each of which only prints its options."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("periplus", *(name for adapter in ADAPTERS for name in adapter.programs)):
        (folder / name).write_text("#!/bin/sh\necho 1.2.3\n")
        (folder / name).chmod(0o755)
    return folder


def started(tmp_path, programs, **more):
    person = {
        "HOME": os.fspath(tmp_path / "home"),
        "PATH": f"{programs}:.:bin",
        "LANG": "C.UTF-8",
        "LC_TIME": "C",
        "https_proxy": "http://p",
    }
    (tmp_path / "prompt").write_text(PROMPT)
    environment = person | SECRETS | more.pop("environment", {})
    return Start(
        os.fspath(tmp_path), os.fspath(tmp_path / "run"), "run_1", SESSION, os.fspath(tmp_path / "prompt"), environment,
        email="ada@example.org", excludes="/state/excludes", **more,
    )  # fmt: skip


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_row_is_connected_by_a_known_name_and_tried_with_the_client_that_is_tested():
    names = [adapter.name for adapter in ADAPTERS]
    assert names == ["periplus", "claude-code", "codex", "gemini", "opencode", "aider"]
    assert {adapter.connects for adapter in ADAPTERS} - {""} <= {*AGENT_NAMES}
    package = json.loads((Path(__file__).parent / "clients" / "package.json").read_text())
    tried = package["devDependencies"] | package["optionalDependencies"]
    for adapter in ADAPTERS:
        for name, version in tried.items():
            if adapter.programs and adapter.programs[0] in name:
                assert version.startswith(adapter.versions + "."), adapter.name


@each
def test_the_prompt_is_in_no_argument(adapter, tmp_path, programs):
    start = started(tmp_path, programs)
    command = adapter.start(start)
    assert PROMPT not in " ".join(command.argv)
    assert (start.prompt_path in command.argv) == (command.prompt == "file")
    assert os.path.isabs(command.argv[0])


@each
def test_a_session_is_named_or_resumed(adapter, tmp_path, programs):
    new = adapter.start(started(tmp_path, programs)).argv
    again = adapter.start(started(tmp_path, programs, resume="ses_of_agent")).argv
    assert new != again
    assert "ses_of_agent" not in new
    if adapter.name != "aider":  # goes on with the history in the worktree
        assert (SESSION in new) == adapter.chooses
        assert "ses_of_agent" in again
        assert SESSION not in again


@each
def test_a_model_is_passed_on(adapter, tmp_path, programs):
    argv = adapter.start(started(tmp_path, programs, model="some/model")).argv
    assert argv[argv.index("--model") + 1] == "some/model"
    assert "--model" not in adapter.start(started(tmp_path, programs)).argv


def test_limits_are_passed_to_agents_that_can_limit_themselves(tmp_path, programs):
    ours = adapter_named("periplus").start(started(tmp_path, programs, cents=150, tokens=9)).argv
    assert ours[-4:] == ("--budget", "150", "--budget-tokens", "9")
    claude = adapter_named("claude-code")
    assert claude.start(started(tmp_path, programs, cents=150)).argv[-2:] == ("--max-budget-usd", "1.50")
    assert "--max-budget-usd" not in claude.start(started(tmp_path, programs, cents=150, resume="x")).argv


def test_codex_is_given_the_server_and_reviewed_hooks_as_settings_of_the_run(tmp_path, programs):
    argv = adapter_named("codex").start(started(tmp_path, programs, command=("/opt/per iplus", "-x"))).argv
    settings = {}
    for at, word in enumerate(argv):
        if word == "-c":
            name, _, value = argv[at + 1].partition("=")
            settings[name] = tomllib.loads(f"v = {value}")["v"]
    assert settings["mcp_servers.periplus"]["command"] == "/opt/per iplus"
    assert settings["mcp_servers.periplus"]["args"] == ["-x", "mcp"]
    hooks = settings["hooks"]
    state = hooks.pop("state")
    assert "'/opt/per iplus' -x hook PreToolUse --agent codex" in hooks["PreToolUse"][0]["hooks"][0]["command"]
    assert len(state) == sum(len(group["hooks"]) for groups in hooks.values() for group in groups)
    assert all(one["trusted_hash"].startswith("sha256:") for one in state.values())
    assert not any(word.startswith("projects") for word in argv)


def test_a_program_that_is_not_there_is_told_with_what_to_do(tmp_path, programs):
    (programs / "codex").unlink()
    with pytest.raises(NotFoundError, match="Codex is not installed") as caught:
        adapter_named("codex").start(started(tmp_path, programs))
    assert "periplus dispatch agents codex --check" in caught.value.mend


def test_an_unknown_agent_is_told_with_the_known_ones():
    with pytest.raises(NotFoundError) as caught:
        adapter_named("cursor")
    assert "claude-code" in caught.value.mend


# -- the environment -------------------------------------------------------------------------------------------------


@each
def test_no_other_variable_and_no_secret_of_another_agent_is_passed_on(adapter, tmp_path, programs):
    made = adapter.start(
        started(tmp_path, programs, environment={name: "x" for name in COMMON if name != "HOME"})
    ).environment
    assert {name for name in SECRETS if made.get(name) == SECRETS[name]} - {"GIT_CONFIG_COUNT"} == KEYS[adapter.name]
    named = {*COMMON, *adapter.environment, *adapter.constants, *GIVEN, "LC_TIME"}
    assert set(made) <= named
    assert set(COMMON) <= set(made)


@each
def test_the_environment_says_who_works_and_leaves_relative_folders_out(adapter, tmp_path, programs):
    made = adapter.start(started(tmp_path, programs, agent="worker-3")).environment
    assert made["PATH"] == os.fspath(programs)
    assert (made["PERIPLUS_AGENT"], made["PERIPLUS_RUN"], made["PERIPLUS_SESSION"]) == ("worker-3", "run_1", SESSION)
    assert (made["GIT_AUTHOR_NAME"], made["GIT_AUTHOR_EMAIL"]) == ("worker-3 (periplus)", "ada@example.org")
    assert (made["GIT_CONFIG_KEY_0"], made["GIT_CONFIG_VALUE_0"]) == ("core.excludesFile", "/state/excludes")
    assert (made["TERM"], made["GIT_TERMINAL_PROMPT"], made["https_proxy"], made["LC_TIME"]) == (
        "dumb",
        "0",
        "http://p",
        "C",
    )


# -- output ----------------------------------------------------------------------------------------------------------


def _lines(*values):
    return b"".join((value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n" for value in values)


def _claude_message(name, text, **usage):
    return {
        "type": "assistant", "session_id": SESSION, "parent_tool_use_id": None,
        "message": {"id": name, "role": "assistant", "content": [{"type": "text", "text": text}], "usage": usage},
    }  # fmt: skip


_CLAUDE_MODEL = {
    "inputTokens": 700,
    "outputTokens": 40,
    "cacheReadInputTokens": 200,
    "cacheCreationInputTokens": 100,
    "costUSD": 0.0042,
}
_CLAUDE_RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "session_id": SESSION, "result": "Done.", "permission_denials": [],
    "total_cost_usd": 0.021, "usage": {"input_tokens": 700, "output_tokens": 40, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 100},
    "modelUsage": {"claude-opus-5-5": {"inputTokens": 5000, "outputTokens": 50, "costUSD": 0.021}},
    "model_usage_since_last_result": {"claude-opus-5-5": _CLAUDE_MODEL},
}  # fmt: skip
_REFUSED_BY_HOOK = {
    "type": "user",
    "tool_result_meta": [
        {"id": "call_3", "permission_decision": {"decision": "reject", "source": "hook", "reason_type": "hook"}}
    ],
}
_THREAD = "01a22337-4a36-7fe0-b706-ccf7b5fc9d8b"
_NOT_SIGNED_IN = "unexpected status 401 Unauthorized: Incorrect API key, url: http://127.0.0.1/v1/responses"


def _step(reason, **cache):
    return {
        "type": "step_finish", "sessionID": "ses_ddcc77ff2ffeRNky3pA2KEKzWu",
        "part": {"type": "step-finish", "reason": reason, "cost": 0.0021,
                 "tokens": {"total": 1010, "input": 700, "output": 8, "reasoning": 2, "cache": {"write": 100, "read": 200, **cache}}},
    }  # fmt: skip


def _answer(text="", agent=""):
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "cached": 200, "cost": 2100}
    return {"event": "answer_completed", "turn": 1, "agent": agent, "text": text, "calls": 0, "usage": usage}


SAMPLES = {
    "claude-code": (
        _lines(
            {"type": "system", "subtype": "init", "session_id": SESSION, "model": "claude-opus-5-5"},
            b"a warning on standard error",
            _claude_message("msg_1", "I look.", input_tokens=1000, output_tokens=1),
            _claude_message("msg_1", "", input_tokens=1000, output_tokens=1),
            _CLAUDE_RESULT,
        ),
        (SESSION, Spent(1000, 200, 40, 4200), "Done.", "done", "", ""),
    ),
    "codex": (
        _lines(
            b"WARNING: proceeding, even though we could not create PATH aliases",
            {"type": "thread.started", "thread_id": _THREAD},
            {"type": "turn.started"},
            {"type": "error", "message": "Reconnecting... 1/5 (unexpected status 401 Unauthorized)"},
            {"type": "item.completed", "item": {"id": "item_5", "type": "agent_message", "text": "Done."}},
            {"type": "turn.completed", "usage": {"input_tokens": 4000, "cached_input_tokens": 300, "output_tokens": 40, "reasoning_output_tokens": 9}},
        ),
        (_THREAD, Spent(4000, 300, 40), "Done.", "done", "", ""),
    ),
    "gemini": (
        _lines(
            b"YOLO mode is enabled. All tool calls will be automatically approved.",
            {"type": "init", "session_id": SESSION, "model": "gemini-2.5-pro"},
            {"type": "message", "role": "user", "content": "Do it"},
            {"type": "message", "role": "assistant", "content": "First.", "delta": True},
            {"type": "tool_use", "tool_name": "read_file", "tool_id": "1", "parameters": {}},
            {"type": "message", "role": "assistant", "content": "Do", "delta": True},
            {"type": "message", "role": "assistant", "content": "ne.", "delta": True},
            {"type": "result", "status": "success", "stats": {"total_tokens": 4060, "input_tokens": 4000, "output_tokens": 40, "cached": 300}},
        ),
        (SESSION, Spent(4000, 300, 60), "Done.", "done", "", ""),
    ),
    "opencode": (
        _lines(
            _step("tool-calls"),
            {"type": "text", "sessionID": "ses_ddcc77ff2ffeRNky3pA2KEKzWu", "part": {"type": "text", "text": "Done."}},
            _step("stop"),
        ),
        ("ses_ddcc77ff2ffeRNky3pA2KEKzWu", Spent(2000, 400, 20, 4200), "Done.", "done", "", ""),
    ),
    "periplus": (
        _lines(
            {"event": "run_started", "turn": 0, "session": SESSION, "model": "anthropic/m", "mode": "autonomous"},
            _answer("I look."),
            _answer("Not mine.", agent=f"{SESSION}/1"),
            {"event": "retry_scheduled", "turn": 1, "attempt": 1, "wait_ms": 9, "error": "the provider answered 529"},
            _answer("Done."),
            {"event": "turn_ended", "turn": 1, "reason": "done", "note": "", "text": "Done.", "usage": {}},
        ),
        (SESSION, Spent(3000, 600, 30, 6300), "Done.", "done", "", ""),
    ),
    "aider": (
        _lines(
            b"Aider v0.86.1", b"Applied edit to src/auth.py", b"Tokens: 4.5k sent, 1.2k cache hit, 300 received. Cost: $0.01 message, $0.01 session.",
            b"Tokens: 12k sent, 54 received. Cost: $0.04 message, $0.05 session.",
        ),
        ("", Spent(16_500, 1_200, 354, 50_000), "Applied edit to src/auth.py", "", "", ""),
    ),
}  # fmt: skip


def _state(reading):
    return (reading.session, reading.spent, reading.last_text, reading.ended, reading.wants, reading.problem)


@each
def test_output_tells_session_usage_and_last_words_however_it_is_cut(adapter):
    data, wanted = SAMPLES[adapter.name]
    for cut in range(len(data) + 1):
        reading = adapter.reading()
        reading.feed(data[:cut])
        reading.feed(data[cut:])
        assert _state(reading) == wanted
    reading = adapter.reading()
    for byte in data[:-1]:
        reading.feed(bytes([byte]))
    reading.close()
    assert _state(reading) == wanted
    assert (reading.tokens_in, reading.cached, reading.out, reading.cost_millionths) == wanted[1]


def test_what_codex_tells_of_a_session_that_goes_on_is_counted_once():
    adapter = adapter_named("codex")
    assert [one.name for one in ADAPTERS if one.adds_up] == ["codex"]
    reading = adapter.reading(Spent(3000, 100, 30))
    reading.feed(SAMPLES["codex"][0])
    assert reading.spent == Spent(1000, 200, 10)


def test_claude_code_that_is_killed_has_told_what_it_asked():
    reading = adapter_named("claude-code").reading()
    reading.feed(
        _lines(
            _claude_message(
                "a", "One", input_tokens=5, cache_read_input_tokens=90, cache_creation_input_tokens=5, output_tokens=1
            )
        )
    )
    reading.feed(_lines(_CLAUDE_RESULT, _claude_message("b", "Two", input_tokens=7, output_tokens=1)))
    assert reading.spent == Spent(1007, 200, 41, 4200)
    assert reading.last_text == "Two"


@pytest.mark.parametrize(
    ("name", "lines", "code", "wants", "told"),
    [
        ("claude-code", _lines({"type": "result", "is_error": True, "subtype": "success", "result": "Not logged in · Please run /login"}), 1, "login", "type /login"),
        ("claude-code", _lines({"type": "result", "is_error": True, "subtype": "error_max_budget_usd", "errors": ["Reached maximum budget ($1)"]}), 1, "limit", "maximum budget"),
        ("claude-code", _lines({"type": "result", "is_error": True, "subtype": "error_during_execution", "errors": ["No conversation found"]}), 1, "", "No conversation"),
        ("claude-code", _lines({**_CLAUDE_RESULT, "permission_denials": [{"tool_name": "mcp__x__y"}]}), 0, "permission", "mcp__x__y"),
        ("claude-code", _lines(_REFUSED_BY_HOOK, {**_CLAUDE_RESULT, "permission_denials": [{"tool_name": "Edit", "tool_use_id": "call_3"}]}), 0, "", ""),
        ("claude-code", _lines({"type": "system", "subtype": "api_retry", "error": "authentication_failed", "error_status": 401}), None, "login", "/login"),
        ("claude-code", b"--dangerously-skip-permissions cannot be used with root\n", 1, "", "ended with 1: --dangerously"),
        ("codex", _lines({"type": "turn.failed", "error": {"message": _NOT_SIGNED_IN}}), 1, "login", "codex login"),
        ("codex", _lines({"type": "turn.failed", "error": {"message": "Quota exceeded. Check your plan and billing details."}}), 1, "limit", "Quota"),
        ("codex", _lines({"type": "error", "message": "Reconnecting... waiting for network (Connection failed: error sending request)"}), None, "network", "network"),
        ("codex", b"Error: thread/resume: thread/resume failed: no rollout found for thread id 1\n", 1, "", "no rollout found"),
        ("gemini", b"Invalid auth method selected.\n", 41, "login", "GEMINI_API_KEY"),
        ("gemini", _lines({"type": "result", "status": "error", "error": {"message": "API key not valid. Please pass a valid API key."}}), 144, "login", "not valid"),
        ("gemini", b"", 53, "limit", "turns"),
        ("opencode", _lines({"type": "error", "error": {"name": "APIError", "data": {"message": "Incorrect", "statusCode": 401}}}), 1, "login", "opencode auth login"),
        ("opencode", b"\x1b[91m\x1b[1mError: \x1b[0mSession not found\n", 1, "", "ended with 1: Error: Session not found"),
        ("periplus", _lines({"event": "turn_ended", "turn": 1, "reason": "budget", "note": "9 cents", "text": ""}), 7, "limit", "budget: 9 cents"),
        ("periplus", b"periplus: no model is chosen\n", 2, "", "no model is chosen"),
        ("aider", b"litellm.AuthenticationError: AnthropicException - invalid x-api-key\n", 0, "login", "ANTHROPIC_API_KEY"),
        ("codex", b"", None, "", "killed"),
        ("codex", SAMPLES["codex"][0], 0, "", ""),
    ],
)  # fmt: skip
def test_how_a_run_ends_is_told_in_words(name, lines, code, wants, told):
    adapter = adapter_named(name)
    reading = adapter.reading()
    reading.feed(lines)
    explanation = adapter.explanation(reading, code)
    assert explanation.wants == wants
    assert told in explanation.text
    assert bool(explanation.text) == bool(told)


_HOSTILE = [
    b"{" * 100_000, b"[" * 100_000, b'{"type":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, b"\xff\xfe\x00{}", b'{"type": "result"', b"null", b"[]", b'"x"',
    *(json.dumps(value).encode() for value in (
        {"type": "result", "usage": [], "model_usage_since_last_result": {"m": 7}, "errors": [{}], "is_error": [1], "stats": "x"},
        {"type": "assistant", "message": {"content": "x", "usage": 3, "id": ["a"]}},
        {"type": "turn.completed", "usage": {"input_tokens": -5, "output_tokens": True, "cached_input_tokens": 1e300}},
        {"type": "usage", "tokens_in": 1 << 80, "out": "7", "cached": None, "cost": -1},
        {"type": "usage", "cost": 1e308},
        {"type": "step_finish", "part": {"tokens": {"cache": 9, "input": [1]}, "cost": "9"}},
        {"type": "session", "id": "../../x"}, {"type": "thread.started", "thread_id": "-rf"}, {"type": "wants", "what": ["login"]},
        {"event": "answer_completed", "usage": {"prompt_tokens": 10**30, "cost": 1.5}}, {"event": "turn_ended", "reason": {}, "note": 7},
        {"type": "init", "session_id": "a\n b"}, {"type": "text", "text": 8, "part": {"text": 9}}, {"type": "error", "error": 5, "message": 6},
    )),
    b'{"type":"usage","cost":NaN}', b'{"type":"usage","cost":Infinity}', b"Tokens: 99999999999999999999k sent, 1.1.1k received. Cost: $9..9 session.",
]  # fmt: skip


def _row(tmp_path, text=""):
    folder = tmp_path / "config"
    folder.mkdir(exist_ok=True)
    path = folder / "agent.toml"
    path.write_text(text or agent_row())
    path.chmod(0o600)
    return load_settings(os.fspath(folder), os.fspath(tmp_path), trusted=True, environment={}, flags={}).agents


@pytest.mark.parametrize("line", _HOSTILE, ids=range(len(_HOSTILE)))
def test_hostile_lines_are_read_as_nothing(line, tmp_path):
    for adapter in adapters_with(_row(tmp_path)).values():
        reading = adapter.reading()
        reading.feed(line + b"\n")
        assert reading.spent == Spent(), adapter.name
        assert reading.session == ""
        reading.feed(SAMPLES[adapter.name][0] if adapter.name in SAMPLES else b'{"type":"usage","tokens_in":1}\n')
        assert reading.spent != Spent(), adapter.name


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_make_a_reader_fail(pieces):
    for adapter in ADAPTERS:
        reading = adapter.reading()
        for piece in pieces:
            reading.feed(piece)
            reading.feed(b'{"type":')
        reading.close()
        assert len(reading.last_line) <= 4_000


@each
def test_a_line_without_end_costs_no_memory_and_hides_none_after_it(adapter):
    data, wanted = SAMPLES[adapter.name]
    reading = adapter.reading()
    for _ in range(20):
        reading.feed(b'{"type":"' + b"x" * (1 << 20))
    assert len(reading._rest) <= 8 << 20
    reading.feed(b'"}\n' + data)
    assert _state(reading) == wanted


def test_words_are_cut_and_move_no_cursor():
    reading = adapter_named("codex").reading()
    words = "\x1b[31mred\x1b[0m \x9b31m \x07" + "x" * 10_000
    reading.feed(_lines({"type": "item.completed", "item": {"type": "agent_message", "text": words}}))
    assert len(reading.last_text) == 4_000
    assert reading.last_text.startswith("red 31m")


# -- transcripts -----------------------------------------------------------------------------------------------------


def _put(path, text="{}"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return os.fspath(path)


def test_a_transcript_is_found_where_the_agent_keeps_it(tmp_path):
    home, worktree = tmp_path / "ho[m]e", tmp_path / "tree"
    sought = Sought(SESSION, os.fspath(worktree), {"HOME": os.fspath(home)})
    wanted = {
        "periplus": [],
        "claude-code": [_put(home / f".claude/projects/-tree/{SESSION}.jsonl")],
        "codex": [_put(home / f".codex/sessions/2026/11/28/rollout-2026-11-28T17-32-36-{SESSION}.jsonl")],
        "gemini": [
            _put(
                home / f".gemini/tmp/tree/chats/session-2026-11-28T17-36-{SESSION[:8]}.jsonl",
                f'{{"sessionId":"{SESSION}"}}',
            )
        ],
        "opencode": [_put(home / ".local/share/opencode/opencode.db")],
        "aider": [_put(worktree / ".aider.chat.history.md")],
    }
    _put(
        home / f".gemini/tmp/other/chats/session-2026-11-28T17-36-{SESSION[:8]}.jsonl",
        f'{{"sessionId":"{SESSION[:8]}-another"}}',
    )
    _put(home / ".codex/sessions/2026/11/28/rollout-2026-11-28T17-32-36-another.jsonl")
    for adapter in ADAPTERS:
        assert adapter.transcripts(sought) == wanted[adapter.name]
        if wanted[adapter.name]:
            places = format_of({"gemini": "gemini-cli"}.get(adapter.name, adapter.name)).places
            assert any("/".join(place.folder) in wanted[adapter.name][0] for place in places)
    elsewhere = sought._replace(environment={"HOME": "/nonexistent", "CLAUDE_CONFIG_DIR": os.fspath(home / ".claude")})
    assert adapter_named("claude-code").transcripts(elsewhere) == wanted["claude-code"]
    assert adapter_named("claude-code").transcripts(sought._replace(session="*")) == []


# -- agents of a user's own ------------------------------------------------------------------------------------------


def ran(adapter, start, prompt):
    """What a run of the process tells: its exit code, and its reading."""
    command = adapter.start(start)
    Path(start.prompt_path).write_text(prompt)
    stdin = prompt.encode() if command.prompt == "stdin" else b""
    done = subprocess.run(
        command.argv, cwd=start.worktree, env=command.environment, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=60, check=False,
    )  # fmt: skip
    reading = adapter.reading()
    reading.feed(done.stdout)
    reading.close()
    return done.returncode, reading


@pytest.mark.parametrize("prompt", ["stdin", "file"])
def test_a_command_of_the_user_works_on_a_prompt(prompt, tmp_path, programs):
    adapter = adapter_named("scripted", _row(tmp_path, agent_row(prompt=prompt, environment=["MINE"])))
    acts = prompt_of(
        {"usage": {"tokens_in": 1200, "cached": 200, "out": 30, "cost": 0.004}},
        {"usage": {"tokens_in": 10, "out": 1}},
        {"write": {"src/a.py": "x = 1\n"}},
        {"environment": "seen.json"},
        {"lie": "It is done."},
        {"print": "Bye"},
    )
    code, reading = ran(adapter, started(tmp_path, programs, environment={"MINE": "1"}), acts)
    assert (code, reading.session, reading.spent, reading.last_text) == (0, SESSION, Spent(1210, 200, 31, 4000), "Bye")
    assert (tmp_path / "src/a.py").read_text() == "x = 1\n"
    assert json.loads((tmp_path / RESULT).read_text()) == {
        "v": 1,
        "run": "run_1",
        "status": "done",
        "summary": "It is done.",
    }
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert set(SECRETS) & set(seen) == {"GIT_CONFIG_COUNT"}
    assert seen["MINE"] == "1"
    assert set(seen) - {"LC_CTYPE"} <= {*COMMON, *GIVEN, "MINE", "LC_TIME"}  # LC_CTYPE is Python's own doing


def test_a_command_of_the_user_fails_in_words_and_goes_on(tmp_path, programs):
    adapter = adapter_named("scripted", _row(tmp_path))
    code, reading = ran(
        adapter, started(tmp_path, programs), prompt_of({"wants": {"what": "login", "text": "Key is old"}}, {"exit": 3})
    )
    assert code == 3
    explanation = adapter.explanation(reading, code)
    assert explanation.wants == "login"
    assert explanation.text.startswith("Key is old. Sign in to scripted")
    resumed = adapter.start(started(tmp_path, programs, resume="theirs")).argv
    assert resumed[-3:] == ("--session", "theirs", "--resumed")
    assert adapter.can_resume
    assert not adapter_named("once", _row(tmp_path, agent_row("once", resume=False))).can_resume


def test_places_are_filled_in_once_and_patterns_are_literal(tmp_path, programs):
    home = tmp_path / "home"
    kept = _put(home / ".mine" / "s1.jsonl")
    _put(home / ".mine" / "s2.jsonl")
    rows = _row(
        tmp_path,
        '[agents.mine]\ncommand = ["mine", "{model}", "{worktree}"]\ntranscript = "{home}/.mine/{session}.jsonl"\n',
    )
    (programs / "mine").write_text("#!/bin/sh\n")
    (programs / "mine").chmod(0o755)
    adapter = adapter_named("mine", rows)
    assert adapter.start(started(tmp_path, programs, model="{session}")).argv[1:] == ("{session}", os.fspath(tmp_path))
    sought = Sought("s1", os.fspath(tmp_path), {"HOME": os.fspath(home)})
    assert adapter.transcripts(sought) == [kept]
    assert adapter.transcripts(sought._replace(session="*")) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agents = 3", "agents is a table"),
        ("[agents.Mine]\ncommand = ['x']", "a name has small letters"),
        ("[agents]\nmine = 1", "an agent is a table"),
        ("[agents.mine]\nprompt = 'stdin'", "the command is missing"),
        ("[agents.mine]\ncommand = 'x'", "command is a list"),
        ("[agents.mine]\ncommand = ['./x']", "depends on the folder"),
        ("[agents.mine]\ncommand = ['x', '{prompt}']", "every process of this machine"),
        ("[agents.mine]\ncommand = ['x', '{promptfile}']", "unknown {promptfile}"),
        ("[agents.mine]\ncommand = ['x']\nprompt = 'file'", "does not name {prompt_file}"),
        ("[agents.mine]\ncommand = ['x']\nprompt = 'argv'", "prompt is stdin or file"),
        ("[agents.mine]\ncommand = ['x']\nresume = ['y', '{session}']", "another program"),
        ("[agents.mine]\ncommand = ['x']\nenvironment = ['A B']", "not the name of a variable"),
        ("[agents.mine]\ncommand = ['x']\ntranscript = '{model}'", "transcript has an unknown {model}"),
        ("[agents.mine]\ncommand = ['x']\nshell = true", "there is no 'shell'"),
    ],
)
def test_a_wrong_row_is_refused_with_its_reason(text, told, tmp_path):
    with pytest.raises(UsageError, match="agents") as caught:
        _row(tmp_path, text)
    assert told in str(caught.value)
    assert caught.value.safe == "Nothing was run."


def test_a_name_of_the_table_is_not_taken(tmp_path):
    with pytest.raises(UsageError, match=r"agents\.codex: there is an agent of this name"):
        adapters_with(_row(tmp_path, agent_row("codex")))


def test_a_project_cannot_define_agents(tmp_path):
    (tmp_path / "periplus.toml").write_text("[agents.mine]\ncommand = ['evil']\n")
    with pytest.raises(RefusedError, match="a project cannot define agents") as caught:
        load_settings(os.fspath(tmp_path / "none"), os.fspath(tmp_path), trusted=True, environment={}, flags={})
    assert "agent.toml" in caught.value.mend
    assert (
        load_settings(os.fspath(tmp_path / "none"), os.fspath(tmp_path), trusted=False, environment={}, flags={}).agents
        == ()
    )


def test_a_file_that_others_can_write_defines_no_agents(tmp_path):
    _row(tmp_path)
    (tmp_path / "config" / "agent.toml").chmod(0o666)
    with pytest.raises(RefusedError, match="can be written by others"):
        load_settings(os.fspath(tmp_path / "config"), os.fspath(tmp_path), trusted=False, environment={}, flags={})


# -- trying an agent -------------------------------------------------------------------------------------------------


def _machine(tmp_path, programs, **environment):
    home = os.fspath(tmp_path / "home")
    environment = {"HOME": home, "PATH": f"{programs}:/usr/bin:/bin"} | environment
    return Machine(home, f"{home}/.config", f"{home}/.codex", False, (os.fspath(programs),), ("periplus",), environment)


def _program(programs, name, body):
    (programs / name).write_text(f"#!{sys.executable} -P\nimport sys\n{body}\n")


def _found(findings):
    return {finding.what: (finding.says, finding.wrong, finding.mend) for finding in findings}


def test_what_keeps_an_agent_from_working_is_told_in_words(tmp_path, programs):
    aider, scratch = adapter_named("aider"), os.fspath(tmp_path)
    good = "print('aider 0.86.1' if '--version' in sys.argv else '--message-file --yes-always --restore-chat-history')"
    _program(programs, "aider", good)
    found = _found(check(aider, _machine(tmp_path, programs, OPENAI_API_KEY="sk-1"), scratch))
    assert all(not wrong for _, wrong, _ in found.values())
    assert found["login"] == ("OPENAI_API_KEY is set", "", "")
    assert "sk-1" not in str(found)
    assert _found(check(aider, _machine(tmp_path, programs), scratch))["login"][2].startswith("Set the key")

    _program(programs, "aider", good.replace("--yes-always ", ""))
    assert (
        _found(check(aider, _machine(tmp_path, programs), scratch))["starts"][1] == "this version has no --yes-always"
    )
    _program(programs, "aider", "sys.exit('libfoo is missing')")
    says, wrong, mend = _found(check(aider, _machine(tmp_path, programs), scratch))["starts"]
    assert (says, wrong) == ("", "it ended with 1: libfoo is missing")
    assert f"{programs / 'aider'} --help" in mend
    (programs / "aider").unlink()
    assert _found(check(aider, _machine(tmp_path, programs), scratch)) == {
        "program": ("", "aider is not on the PATH", "Install aider, or put it on your PATH.")
    }


def test_a_command_of_the_user_is_only_looked_for(tmp_path, programs):
    row = _row(tmp_path, f"[agents.mine]\ncommand = ['{programs}/mine']\n")
    _program(programs, "mine", f"open('{tmp_path}/was-started', 'w')")
    (programs / "mine").chmod(0o755)
    found = _found(check(adapter_named("mine", row), _machine(tmp_path, programs), os.fspath(tmp_path)))
    assert list(found) == ["program", "login"]
    assert not (tmp_path / "was-started").exists()


def test_the_worker_plays_by_attempt_and_leaves_processes_behind(tmp_path):
    """What others build on: roles that end, hang, flood or detach."""

    def play(script, **environment):
        return subprocess.run(
            [sys.executable, PROGRAM], cwd=tmp_path, input=json.dumps([]) if environment else prompt_of(**script) if isinstance(script, dict) else prompt_of(*script),
            capture_output=True, text=True, timeout=60, check=False, env={"PATH": os.environ["PATH"], "PERIPLUS_RUN": "run_7", **environment},
        )  # fmt: skip

    attempts = {
        "counter": os.fspath(tmp_path / "count"),
        "attempts": [[{"exit": 4}], [{"question": {"question": "Which?", "options": ["a"]}}]],
    }
    assert [play(attempts).returncode for _ in range(3)] == [4, 0, 0]
    asked = json.loads((tmp_path / RESULT).read_text())
    assert asked == {"v": 1, "run": "run_7", "status": "question", "question": "Which?", "options": ["a"]}
    assert len(play([{"flood": 100_000}]).stdout) >= 100_000
    assert play([{"signal": "SIGKILL"}]).returncode == -9
    assert "from the variable" in play([], WORKER_SCRIPT='[{"say": "from the variable"}]').stdout
    assert play([{"detach": {"seconds": 0, "write": {"left": "behind"}}}, {"wait_for": "left"}]).returncode == 0
    assert (tmp_path / "left").read_text() == "behind"
