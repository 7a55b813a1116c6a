"""What each agent tells its hooks, and how it is answered: the closed set of events, pure."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.errors import FormatError, PeriplusError, UsageError
from periplus.base.text.secrets import mask_secrets
from periplus.interop.hooks.events import (
    AGENTS,
    KINDS,
    Answer,
    HookEvent,
    decode_event,
    encode_event,
    kind_of,
    mark_of,
    read_event,
    reply_to,
    touched_paths,
)
from periplus.interop.hooks.steps import steps_of
from periplus.trail import BY_CODE

# What the agents send, by their own documentation: the event, its document, and what of it must arrive.
CLAUDE = {
    "session_id": "c-1",
    "transcript_path": "/home/a/.claude/projects/p/c-1.jsonl",
    "cwd": "/p",
    "permission_mode": "default",
}
CODEX = {
    "session_id": "x-1",
    "transcript_path": None,
    "cwd": "/p",
    "model": "gpt-5",
    "turn_id": "turn-1",
    "permission_mode": "default",
}
GEMINI = {
    "session_id": "g-1",
    "transcript_path": "/home/a/.gemini/tmp/h/chats/session-1.json",
    "cwd": "/p",
    "timestamp": "2026-01-01T00:00:00Z",
}
CURSOR = {"conversation_id": "u-1", "generation_id": "n-1", "model": "m", "cursor_version": "2.4", "workspace_roots": ["/p"],
          "user_email": None, "transcript_path": None}  # fmt: skip
VSCODE = {"sessionId": "v-1", "cwd": "/p", "timestamp": "2026-01-01T00:00:00Z", "transcript_path": "/t.json"}
KIMI = {"session_id": "session_k", "cwd": "/p", "session_title": "Oil"}
GROK = {
    "sessionId": "grok-1",
    "cwd": "/p",
    "workspaceRoot": "/p",
    "timestamp": "2026-04-14T12:00:00Z",
    "permissionMode": "default",
}
HERMES = {"tool_name": None, "tool_input": None, "session_id": "h-1", "cwd": "/p"}
EVENTS = [
    ("claude-code", "SessionStart", {**CLAUDE, "source": "startup", "model": "m"}, {"kind": "session-start", "source": "startup", "model": "m"}),
    ("claude-code", "UserPromptSubmit", {**CLAUDE, "prompt": "Oil it"}, {"kind": "prompt", "prompt": "Oil it"}),
    ("claude-code", "PostToolUse", {**CLAUDE, "tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": "t",
     "tool_response": {"stdout": "ok", "stderr": "", "interrupted": False}, "duration_ms": 12, "agent_id": "a1", "agent_type": "Explore"},
     {"kind": "after-tool", "tool": "Bash", "call": "t", "duration_ms": 12, "sub": "a1", "sub_kind": "Explore"}),
    ("claude-code", "PostToolUseFailure", {**CLAUDE, "tool_name": "Bash", "tool_input": {"command": "make"}, "error": "Exit code 2"},
     {"kind": "after-tool", "is_failed": True, "error": "Exit code 2"}),
    ("claude-code", "PreCompact", {**CLAUDE, "trigger": "auto"}, {"kind": "compact", "source": "auto"}),
    ("claude-code", "SubagentStop", CLAUDE, {"kind": "subagent-end"}),
    ("claude-code", "Stop", CLAUDE, {"kind": "turn-end"}),
    ("claude-code", "SessionEnd", {**CLAUDE, "reason": "other"}, {"kind": "session-end", "source": "other"}),
    ("codex", "PostToolUse", {**CODEX, "tool_name": "Bash", "tool_input": {"command": "ls -R"}, "tool_response": "a.py", "tool_use_id": "t"},
     {"kind": "after-tool", "session": "x-1", "transcript": "", "response": "a.py"}),
    ("gemini", "BeforeAgent", {**GEMINI, "prompt": "Oil it"}, {"kind": "prompt", "session": "g-1"}),
    ("gemini", "AfterTool", {**GEMINI, "tool_name": "run_shell_command", "tool_input": {"command": "make"},
     "tool_response": {"llmContent": "done", "returnDisplay": "done"}}, {"kind": "after-tool", "tool": "run_shell_command"}),
    ("gemini", "AfterTool", {**GEMINI, "tool_name": "replace", "tool_input": {}, "tool_response": {"error": {"message": "no match"}}},
     {"is_failed": True, "error": "no match"}),
    ("gemini", "PreCompress", {**GEMINI, "trigger": "auto"}, {"kind": "compact"}),
    ("gemini", "AfterAgent", {**GEMINI, "prompt": "p", "prompt_response": "r"}, {"kind": "turn-end", "prompt": ""}),
    ("cursor", "sessionStart", CURSOR, {"kind": "session-start", "session": "u-1", "cwd": "/p", "version": "2.4"}),
    ("cursor", "beforeSubmitPrompt", {**CURSOR, "prompt": "Oil it", "attachments": []}, {"kind": "prompt"}),
    ("cursor", "postToolUse", {**CURSOR, "tool_name": "Shell", "tool_input": {"command": "make"}, "tool_output": '{"stdout":"ok"}', "duration": 5.5},
     {"kind": "after-tool", "duration_ms": 5, "response": '{"stdout":"ok"}'}),
    ("cursor", "afterFileEdit", {**CURSOR, "file_path": "/p/a.py", "edits": [{"old_string": "a", "new_string": "b"}]},
     {"kind": "after-tool", "tool": "Edit", "arguments": {"file_path": "/p/a.py", "edits": [{"old_string": "a", "new_string": "b"}]}}),
    ("cursor", "afterShellExecution", {**CURSOR, "command": "make", "output": "ok", "duration": 3}, {"tool": "Shell", "response": "ok"}),
    ("cursor", "stop", {**CURSOR, "status": "completed"}, {"kind": "turn-end"}),
    ("vscode", "PostToolUse", {**VSCODE, "tool_name": "editFiles", "tool_input": {"files": ["src/a.ts"]}, "tool_use_id": "t", "tool_response": "ok"},
     {"kind": "after-tool", "session": "v-1"}),
    ("opencode", "PostToolUse", {"session_id": "o-1", "cwd": "/p", "tool_name": "bash", "tool_input": {"command": "ls"}, "tool_response": "a"},
     {"kind": "after-tool", "session": "o-1"}),
    ("qwen-code", "PostToolUse", {**CLAUDE, "tool_name": "run_shell_command", "tool_input": {"command": "make", "is_background": False},
     "tool_response": {"llmContent": "Command: make", "returnDisplay": ""}, "tool_use_id": "toolu_1", "tool_call_id": "call_1", "duration_ms": 14},
     {"kind": "after-tool", "call": "toolu_1", "duration_ms": 14}),
    ("pi", "PostToolUseFailure", {"session_id": "p-1", "transcript_path": "/s.jsonl", "cwd": "/p", "tool_name": "edit", "tool_input": {"path": "a"}, "error": "no match"},
     {"kind": "after-tool", "session": "p-1", "transcript": "/s.jsonl", "is_failed": True, "error": "no match"}),
    ("kimi-code", "UserPromptSubmit", {**KIMI, "prompt": [{"type": "text", "text": "Oil"}, {"type": "image"}, {"type": "text", "text": "it"}], "is_steer": False},
     {"kind": "prompt", "session": "session_k", "prompt": "Oil\nit"}),
    ("kimi-code", "PostToolUse", {**KIMI, "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_call_id": "t", "tool_output": "a.py"},
     {"kind": "after-tool", "call": "t", "response": "a.py"}),
    ("kimi-code", "PostToolUseFailure", {**KIMI, "tool_name": "Bash", "tool_input": {}, "error": {"name": "Error", "message": "exit 2"}},
     {"is_failed": True, "error": "exit 2"}),
    ("copilot-cli", "PostToolUse", {"hook_event_name": "PostToolUse", "session_id": "d-1", "timestamp": "2026-11-29T01:40:31.251Z", "cwd": "/p", "tool_name": "Bash",
     "tool_input": {"command": "ls"}, "tool_result": {"result_type": "success", "text_result_for_llm": "a.py"}},
     {"kind": "after-tool", "session": "d-1", "call": "2026-11-29T01:40:31.251Z", "tool": "Bash", "response": {"result_type": "success", "text_result_for_llm": "a.py"}}),
    ("cline", "PostToolUse", {"session_id": "1_a", "cwd": "/p", "tool_name": "run_commands", "tool_input": {"command": "ls\npwd"}, "tool_response": "[]"},
     {"kind": "after-tool", "session": "1_a"}),
    ("kilo-code", "PostToolUse", {"session_id": "k-1", "cwd": "/p", "tool_name": "bash", "tool_input": {"command": "ls"}, "tool_response": "a"},
     {"kind": "after-tool", "session": "k-1"}),
    ("grok-build", "PostToolUse", {**GROK, "hookEventName": "post_tool_use", "toolName": "run_terminal_command", "toolUseId": "t", "toolInput": {"command": "ls"},
     "toolResult": "a.py", "toolInputTruncated": False, "durationMs": 7, "subagentType": "explore"},
     {"kind": "after-tool", "session": "grok-1", "call": "t", "arguments": {"command": "ls"}, "response": "a.py", "duration_ms": 7, "sub_kind": "explore"}),
    ("grok-build", "PostToolUse", {**GROK, "toolName": "search_replace", "toolInput": {"path": "a"}, "toolInputTruncated": True, "toolResult": ""}, {"arguments": None}),
    ("grok-build", "PostToolUseFailure", {**GROK, "toolName": "search_replace", "toolUseId": "t", "toolInput": {}, "error": "no match"},
     {"is_failed": True, "error": "no match"}),
    ("grok-build", "UserPromptSubmit", {**GROK, "prompt": "Oil it"}, {"kind": "prompt", "prompt": "Oil it"}),
    ("grok-build", "SubagentStop", {**GROK, "subagentId": "s", "subagentType": "explore"}, {"kind": "subagent-end", "sub": "s", "sub_kind": "explore"}),
    ("droid", "UserPromptSubmit", {**CLAUDE, "prompt": "Oil it"}, {"kind": "prompt", "session": "c-1"}),
    ("droid", "PostToolUse", {**CLAUDE, "tool_name": "Execute", "tool_input": {"command": "ls"}, "tool_response": "a.py"}, {"kind": "after-tool", "tool": "Execute"}),
    ("crush", "PreToolUse", {"event": "PreToolUse", "session_id": "313909e", "cwd": "/p", "tool_name": "edit", "tool_input": {"file_path": "a.py"}},
     {"kind": "before-tool", "session": "313909e", "tool": "edit"}),
    ("hermes", "on_session_start", {**HERMES, "extra": {"model": "m", "platform": "cli"}}, {"kind": "session-start", "session": "h-1", "model": "m"}),
    ("hermes", "pre_llm_call", {**HERMES, "extra": {"user_message": "Oil it", "conversation_history": []}}, {"kind": "prompt", "prompt": "Oil it"}),
    ("hermes", "post_tool_call", {**HERMES, "tool_name": "terminal", "tool_input": {"command": "ls"},
     "extra": {"result": '{"output": "a.py"}', "tool_call_id": "t", "duration_ms": 5, "status": "ok", "error_message": None}},
     {"kind": "after-tool", "call": "t", "response": '{"output": "a.py"}', "is_failed": False, "duration_ms": 5}),
    ("hermes", "post_tool_call", {**HERMES, "tool_name": "terminal", "tool_input": {}, "extra": {"result": "{}", "status": "error", "error_message": "boom"}},
     {"is_failed": True, "error": "boom"}),
    ("hermes", "on_session_end", {**HERMES, "extra": {"completed": True}}, {"kind": "turn-end"}),
    ("hermes", "on_session_finalize", {**HERMES, "extra": {}}, {"kind": "session-end"}),
]  # fmt: skip


def read(agent, name, document):
    return read_event(agent, name, document, 1_700_000_000_000, mask_secrets)


@pytest.mark.parametrize(
    ("agent", "name", "document", "expected"), EVENTS, ids=[f"{one[0]} {one[1]}" for one in EVENTS]
)
def test_what_agents_send(agent, name, document, expected):
    event = read(agent, name, document)
    assert {key: getattr(event, key) for key in expected} == expected
    assert (event.agent, event.name, event.at_ms) == (agent, name, 1_700_000_000_000)
    assert decode_event(encode_event(event)) == event


def test_each_agent_and_each_kind_is_among_them():
    assert {one[0] for one in EVENTS} == set(AGENTS)
    assert {read(*one[:3]).kind for one in EVENTS} == set(KINDS)


STEPS = [
    ("claude-code", "PostToolUse", "Read", {"file_path": "/p/a.py", "offset": 3, "limit": 2}, ("FILE_READ", "/p/a.py", "3-4")),
    ("codex", "PostToolUse", "apply_patch", {"command": "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n*** End Patch"}, ("FILE_EDIT", "a.py", "old", "new")),
    ("codex", "PostToolUse", "Bash", {"command": "frobnicate -x"}, ("COMMAND_RUN", "frobnicate -x", "/p")),
    ("gemini", "AfterTool", "replace", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, ("FILE_EDIT", "a.py", "x", "y")),
    ("cursor", "postToolUse", "Shell", {"command": "frobnicate"}, ("COMMAND_RUN", "frobnicate", "/p")),
    ("vscode", "PostToolUse", "run_in_terminal", {"command": "frobnicate"}, ("COMMAND_RUN", "frobnicate", "/p")),
    ("opencode", "PostToolUse", "read", {"filePath": "/p/a.py"}, ("FILE_READ", "/p/a.py", None)),
    ("pi", "PostToolUse", "edit", {"path": "a.py", "edits": [{"oldText": "x", "newText": "y"}]}, ("FILE_EDIT", "a.py", "x", "y")),
    ("claude-code", "PostToolUse", "mcp__db__query", {"sql": "select 1"}, ("TOOL_CALL", "db", "query", '{"sql":"select 1"}')),
]  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "name", "tool", "arguments", "expected"), STEPS, ids=[f"{one[0]} {one[2]}" for one in STEPS]
)
def test_calls_become_the_steps_of_their_agents_imports(agent, name, tool, arguments, expected):
    document = {"session_id": "s", "cwd": "/p", "tool_name": tool, "tool_input": arguments, "tool_response": "done"}
    kept = {}
    (found,) = steps_of([read(agent, name, document)], lambda data: kept.setdefault(data, b"x" * 32))
    place, live = found
    assert place == 0
    assert (BY_CODE[live.step.code].name, *live.step.operands) == expected
    assert (live.step.outcome, live.at_ms) == ("ok", 1_700_000_000_000)


FACTS = Answer("A fact.")
DENIED = Answer("A fact.", "deny", "bob has it")
ASKED = Answer("A fact.", "ask", "bob has it")
REPLIES = [
    ("claude-code", "SessionStart", FACTS, {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "A fact."}}),
    ("claude-code", "Stop", FACTS, None),
    ("claude-code", "PreToolUse", Answer(), None),
    ("claude-code", "PreToolUse", DENIED, {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "A fact.",
     "permissionDecision": "deny", "permissionDecisionReason": "bob has it"}}),
    ("codex", "PreToolUse", ASKED, {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "A fact."}}),
    ("gemini", "BeforeTool", DENIED, {"decision": "deny", "reason": "bob has it"}),
    ("gemini", "BeforeTool", ASKED, None),
    ("gemini", "BeforeAgent", FACTS, {"hookSpecificOutput": {"hookEventName": "BeforeAgent", "additionalContext": "A fact."}}),
    ("cursor", "sessionStart", FACTS, {"additional_context": "A fact."}),
    ("cursor", "beforeSubmitPrompt", FACTS, None),
    ("cursor", "preToolUse", ASKED, {"permission": "ask", "user_message": "bob has it", "agent_message": "bob has it"}),
    ("vscode", "UserPromptSubmit", FACTS, {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "A fact."}}),
    ("crush", "PreToolUse", FACTS, {"context": "A fact."}),
    ("crush", "PreToolUse", DENIED, {"context": "A fact.", "decision": "deny", "reason": "bob has it"}),
    ("droid", "PreToolUse", ASKED, {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "bob has it"}}),
    ("hermes", "pre_llm_call", FACTS, {"context": "A fact."}),
    ("hermes", "pre_tool_call", DENIED, {"decision": "block", "reason": "bob has it"}),
    ("hermes", "pre_tool_call", ASKED, None),
    ("kimi-code", "SessionStart", FACTS, None),
    ("kimi-code", "UserPromptSubmit", FACTS, {"message": "A fact."}),
    ("kimi-code", "PreToolUse", DENIED, {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
     "permissionDecisionReason": "bob has it"}}),
    ("opencode", "PreToolUse", DENIED, {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "A fact.",
     "permissionDecision": "deny", "permissionDecisionReason": "bob has it"}}),
    ("copilot-cli", "PreToolUse", DENIED, {"permissionDecision": "deny", "permissionDecisionReason": "bob has it"}),
    ("copilot-cli", "PostToolUse", FACTS, {"additionalContext": "A fact."}),
    ("qwen-code", "PreToolUse", ASKED, {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask",
     "permissionDecisionReason": "bob has it"}}),
    ("qwen-code", "PostToolUse", FACTS, {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "A fact."}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "name", "answer", "expected"),
    REPLIES,
    ids=[f"{one[0]} {one[1]} {one[2].decision or 'told'}" for one in REPLIES],
)
def test_answers_in_the_form_of_each_agent(agent, name, answer, expected):
    assert reply_to(HookEvent(kind_of(name), agent, "s", 0, name), answer) == expected


TOUCHED = [
    ("Edit", {"file_path": "a.py", "old_string": "x"}, (["a.py"], True)),
    ("Write", {"file_path": "a.py", "content": "x"}, (["a.py"], True)),
    ("NotebookEdit", {"notebook_path": "a.ipynb"}, (["a.ipynb"], True)),
    ("Read", {"file_path": "a.py"}, (["a.py"], False)),
    ("TodoWrite", {"todos": []}, ([], False)),
    ("replace", {"file_path": "a.py"}, (["a.py"], True)),
    ("editFiles", {"files": ["a.ts", "b.ts"]}, (["a.ts", "b.ts"], True)),
    ("apply_patch", {"command": "*** Begin Patch\n*** Add File: new.py\n+x\n*** Delete File: old.py\n*** End Patch"}, (["new.py", "old.py"], True)),
    ("apply_patch", "*** Update File: a.py\n*** Move to: b.py", (["a.py", "b.py"], True)),
    ("Edit", '{"file_path": "a.py"}', (["a.py"], True)),
    ("Edit", "{" * 5_000, ([], False)),
    ("Edit", None, ([], False)),
    ("Bash", {"command": "rm a.py"}, ([], False)),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "expected"), TOUCHED)
def test_the_paths_that_a_call_is_about_to_touch(tool, arguments, expected):
    assert touched_paths(HookEvent("before-tool", "claude-code", "s", 0, tool=tool, arguments=arguments)) == expected


@pytest.mark.parametrize(
    ("name", "document", "wrong"),
    [("Stop", [], "object"), ("Stop", {}, "session_id"), ("Stop", {"session_id": ""}, "session_id"), ("UserPromptSubmit", {"session_id": "s"}, "prompt"),
     ("PostToolUse", {"session_id": "s"}, "tool_name"), ("Stop", {"session_id": "s" * 201}, "session_id")],
)  # fmt: skip
def test_what_is_missing_is_named(name, document, wrong):
    with pytest.raises(FormatError, match=wrong):
        read("claude-code", name, document)


def test_names_that_are_not_known():
    with pytest.raises(UsageError, match="unknown event"):
        kind_of("Notification")
    with pytest.raises(UsageError, match="unknown agent"):
        read("emacs", "Stop", {"session_id": "s"})


def test_secrets_and_half_characters_go_before_anything_is_kept():
    secret = "ghp_" + "a1B2" * 9
    document = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": f"echo {secret}", "deep": [{"er": secret}]},
                "tool_response": {"stdout": f"{secret} \ud800", "originalFile": "x" * 1000}, "error": secret}  # fmt: skip
    event = read("claude-code", "PostToolUse", document)
    data = encode_event(event)
    assert secret.encode() not in data
    assert "originalFile" not in event.response
    assert "\ud800" not in event.response["stdout"]
    assert decode_event(data) == event


def test_a_mark_tells_what_was_said_and_by_whom_and_not_when():
    event = read("claude-code", "PostToolUse", {"session_id": "s", "tool_name": "Bash", "tool_use_id": "t"})
    assert mark_of(event) == mark_of(event._replace(at_ms=5))
    assert mark_of(event) != mark_of(event._replace(session="other"))
    assert mark_of(event._replace(agent="vscode")) != mark_of(event)
    prompt = event._replace(kind="prompt", call="", prompt="Do it")
    assert mark_of(prompt) == mark_of(prompt._replace(at_ms=9)) != mark_of(prompt._replace(prompt="Do it again"))
    assert mark_of(event._replace(response="a")) == mark_of(event)  # a call has its id


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(["session_id", "conversation_id", "tool_name", "tool_input", "tool_response", "prompt", "cwd", "error", "duration_ms",
                          "transcript_path", "workspace_roots", "agent_id", "edits", "command", "output"])  # fmt: skip
NAMES = st.sampled_from(sorted({one[1] for one in EVENTS} | {"PreToolUse", "BeforeTool", "preToolUse"}))


@pytest.mark.slow
@given(st.sampled_from(sorted(AGENTS)), NAMES, st.dictionaries(FIELDS, ANYTHING))
def test_whatever_is_sent_it_is_an_event_or_refused_by_name(agent, name, document):
    try:
        event = read(agent, name, {"session_id": "s", **document})
    except PeriplusError:
        return
    assert decode_event(encode_event(event)) == event
    for place, live in steps_of([event], lambda data: b"x" * 32 if data else b"y" * 32):
        assert place == 0
        assert BY_CODE[live.step.code]
    touched_paths(event)
    json.dumps(reply_to(event, DENIED))


@given(st.binary(max_size=60) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_whatever_lies_in_the_spool_is_an_event_or_refused(data):
    with pytest.raises(FormatError):
        decode_event(data)
