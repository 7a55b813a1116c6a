"""One small session in each foreign format, with every kind of record that its importer knows, to be changed by tests."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from interop_samples_archives import ARCHIVE_SAMPLES
from interop_samples_editors import EDITOR_SAMPLES
from interop_samples_terminals import TERMINAL_SAMPLES

T = "2026-03-01T10:00:0{}.000Z"


class Sample(NamedTuple):
    """``data`` as the file's records or its document, and how to write that down; gives the path to import."""

    format: str
    data: Any
    write: Callable[[Path, Any], Path]


def as_lines(folder: Path, records: Any) -> Path:
    path = folder / "session.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def as_document(folder: Path, document: Any) -> Path:
    path = folder / "session.json"
    path.write_text(json.dumps(document, indent=1), "utf-8")
    return path


GEMINI_LINES = [
    {"sessionId": "g1", "projectHash": "0" * 64, "startTime": T.format(0), "lastUpdated": T.format(9), "kind": "main"},
    {"id": "m1", "timestamp": T.format(1), "type": "user", "content": [{"text": "list"}, {"inlineData": {"data": "x"}}]},
    {"$set": {"lastUpdated": T.format(1)}},
    {
        "id": "m2", "timestamp": T.format(2), "type": "gemini", "content": "I list.", "model": "gemini-3",
        "thoughts": [{"subject": "Plan", "description": "first ls", "timestamp": T.format(2)}],
        "tokens": {"input": 100, "output": 7, "cached": 60, "thoughts": 3, "tool": 0, "total": 110},
        "toolCalls": [
            {"id": "c1", "name": "run_shell_command", "args": {"command": "ls", "directory": "/w"}, "status": "success",
             "timestamp": T.format(3), "result": [{"functionResponse": {"response": {"output": "a\nExit Code: 2"}}}]},
            {"id": "c2", "name": "replace", "args": {"file_path": "/w/a", "old_string": "1", "new_string": "2"}},
        ],
    },
    {"id": "m2", "timestamp": T.format(4), "type": "gemini", "content": "I list.", "toolCalls": [
        {"id": "c2", "name": "replace", "args": {}, "status": "cancelled", "resultDisplay": "no"}]},
    {"id": "m3", "timestamp": T.format(5), "type": "info", "content": "Request cancelled."},
    {"id": "m4", "timestamp": T.format(5), "type": "error", "content": "quota"},
    {"$rewindTo": "m1"},
    {"id": "m5", "timestamp": T.format(6), "type": "model", "parts": [
        {"text": "hm", "thought": True}, {"functionCall": {"id": "c3", "name": "mcp__srv__tool", "args": {"a": "b"}}}]},
    {"id": "m6", "timestamp": T.format(7), "type": "shiny", "content": "?"},
]  # fmt: skip
GEMINI_DOCUMENT = {
    "sessionId": "g2", "projectHash": "1" * 64, "startTime": T.format(0), "lastUpdated": T.format(9),
    "messages": [record for record in GEMINI_LINES[1:] if "type" in record],
}  # fmt: skip

MINI = {
    "info": {
        "exit_status": "Submitted", "submission": "diff", "mini_version": "1.9", "model_stats": {"api_calls": 2},
        "config": {"model": {"model_name": "m-1"}, "environment": {"cwd": "/w"}},
    },
    "messages": [
        {"role": "system", "content": "You run commands."},
        {"role": "user", "content": "Please fix it."},
        {"role": "assistant", "content": "THOUGHT: test\n\n```bash\npytest -q\n```", "extra": {
            "timestamp": 1760000000.5, "response": {"model": "m-1", "usage": {
                "prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 20}}}}},
        {"role": "user", "content": "<returncode>1</returncode>\n<output>\n1 failed\n</output>"},
        {"role": "assistant", "content": [{"type": "text", "text": "no command"}], "reasoning_content": "hm"},
        {"role": "user", "content": "Please always provide EXACTLY ONE action."},
        {"role": "assistant", "content": "two", "tool_calls": [
            {"id": "t1", "function": {"name": "bash", "arguments": '{"command": "cat a"}'}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "text of a", "extra": {"returncode": 0}},
        {"role": "assistant", "content": "```bash\na\n```\n```bash\nb\n```"},
        {"role": "critic", "content": "?"},
        {"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}},
    ],
    "trajectory_format": "mini-swe-agent-1",
}  # fmt: skip

SWE = {
    "environment": "main",
    "trajectory": [
        {"thought": "make", "response": "make", "action": "create a.py", "observation": "[File: a.py]", "execution_time": 0.25,
         "state": {"open_file": "/w/a.py", "working_dir": "/w"}},
        {"thought": "", "action": "edit 1:2\nprint(1)\nend_of_edit", "observation": "ok",
         "state": '{"open_file": "/w/a.py", "working_dir": "/w"}'},
        {"action": "open b.py 7", "observation": "…", "state": {}},
        {"action": "str_replace_editor create /w/c.py --file_text 'x y'", "observation": "done"},
        {"action": "str_replace_editor view /w/c.py --view_range 1 5", "observation": "x y"},
        {"action": "search_dir word src", "observation": "none"},
        {"action": "python a.py", "observation": None},
        {"action": "", "response": "I am lost", "observation": "say a command"},
    ],
    "history": [
        {"role": "system", "content": "A shell.", "message_type": "system_prompt"},
        {"role": "user", "content": "a demonstration", "is_demo": True},
        {"role": "user", "content": [{"type": "text", "text": "Solve the issue."}], "message_type": "observation"},
        {"role": "assistant", "content": "make", "message_type": "action"},
    ],
    "info": {"exit_status": "submitted (exit_cost)", "submission": "diff", "swe_agent_version": "1.1",
             "model_stats": {"tokens_sent": 900, "tokens_received": 80, "api_calls": 8}},
    "replay_config": {"agent": {"model": {"name": "gpt-x"}}, "env": {"repo": {"base_commit": "a1" * 20}}},
}  # fmt: skip
SWE_HISTORY = {
    "history": [
        {"role": "system", "content": "A shell.", "message_type": "system_prompt"},
        {"role": "user", "content": "Solve it.", "message_type": "observation"},
        {"role": "assistant", "content": "find", "thought": "find", "message_type": "action", "tool_calls": [
            {"id": "t1", "function": {"name": "find_file", "arguments": '{"file_name": "a.py"}'}}]},
        {"role": "tool", "content": "a.py\n(Open file: /w/a.py)\n(Current directory: /w)\nbash-$", "tool_call_ids": ["t1"]},
        {"role": "assistant", "content": "edit", "message_type": "action", "tool_calls": [
            {"id": "t2", "function": {"name": "edit", "arguments": '{"search": "a", "replace": "b"}'}}]},
        {"role": "tool", "content": "edited", "tool_call_ids": ["t2"]},
        {"role": "assistant", "content": "run", "action": "ls -l"},
        {"role": "user", "content": "total 0"},
        {"role": "oracle", "content": "?"},
    ]
}  # fmt: skip


def _zero(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, "timestamp": f"2026-03-01T10:00:{number:02}", "source": "agent", "message": "m", **fields}


def _metadata(name: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 40, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 10}}
    return {"function_name": "f", "tool_call_id": "t", "model_response": {"id": name, "model": "llama", "usage": usage}}


HANDS_ZERO = [
    _zero(0, action="system", args={"content": "You are", "openhands_version": "0.35"}),
    _zero(1, source="user", action="message", args={"content": "Fix it", "image_urls": ["http://x/i.png"]}),
    _zero(2, source="user", action="recall", args={"query": "Fix it"}),
    _zero(3, source="environment", observation="recall", cause=2, content="context", extras={}),
    _zero(4, action="run", args={"command": "ls", "thought": "Look."}, tool_call_metadata=_metadata("r1")),
    _zero(5, observation="run", cause=4, content="a", success=True, extras={
        "metadata": {"exit_code": 0, "working_dir": "/w"}}),
    _zero(6, action="edit", args={"command": "str_replace", "path": "/w/a", "old_str": "1", "new_str": "2", "thought": ""}),
    _zero(7, observation="error", cause=6, content="no such text", extras={}),
    _zero(8, action="read", args={"path": "/w/a", "start": 3, "end": 9}),
    _zero(9, observation="read", cause=8, content="text", extras={}),
    _zero(10, action="delegate", args={"agent": "Browser", "inputs": {"task": "look it up"}}),
    _zero(11, observation="user_rejected", cause=10, content="no", extras={}),
    _zero(12, action="call_tool_mcp", args={"name": "tool", "arguments": {"deep": ["value"]}}),
    _zero(13, action="think", args={"thought": "Hm."}),
    _zero(14, action="telepathy", args={"target": "you"}),
    _zero(15, action="finish", args={"final_thought": "Done.", "task_completed": "true"}),
    _zero(16, observation="success", cause=99, content="late", extras={}),
    _zero(17, weather="rain"),
]  # fmt: skip
HANDS_EVALUATION = {
    "instance_id": "proj-1", "test_result": {"git_patch": "diff"}, "instruction": "Fix it", "error": None,
    "metadata": {"llm_config": {"model": "llama"}}, "history": HANDS_ZERO, "instance": {"base_commit": "b2" * 20},
}  # fmt: skip


def _one(number: int, kind: str, **fields: Any) -> dict[str, Any]:
    stamp = f"2026-03-01T10:00:{number:02}.5"
    return {"id": f"e{number}", "timestamp": stamp, "source": "agent", "kind": kind, **fields}


def _text(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


HANDS_ONE = [
    _one(0, "ConversationStateUpdateEvent", source="environment", key="execution_status", value="running"),
    _one(1, "MessageEvent", source="user", llm_message={"role": "user", "content": _text("Fix it")}),
    _one(2, "ConversationStateUpdateEvent", source="environment", key="stats", value={"usage_to_metrics": {"default": {
        "model_name": "mm", "accumulated_token_usage": {"prompt_tokens": 30, "completion_tokens": 4, "cache_read_tokens": 9}}}}),
    _one(3, "ActionEvent", thought=_text("<think>hm</think>I run."), reasoning_content="hm", tool_name="terminal",
         tool_call_id="t1", action={"kind": "TerminalAction", "command": "make test", "is_input": False}),
    _one(4, "ObservationEvent", source="environment", action_id="e3", tool_call_id="t1", observation={
        "kind": "TerminalObservation", "content": _text("ok"), "exit_code": 0, "metadata": {"working_dir": "/w"}}),
    _one(5, "ActionEvent", thought=[], thinking_blocks=[{"thinking": "so"}], tool_name="file_editor", tool_call_id="t2",
         action={"kind": "FileEditorAction", "command": "create", "path": "/w/n", "file_text": "new"}),
    _one(6, "AgentErrorEvent", tool_call_id="t2", error="cannot"),
    _one(7, "ActionEvent", tool_name="task_tracker", action={"kind": "TaskTrackerAction", "task_list": [{"title": "a"}]}),
    _one(8, "UserRejectObservation", action_id="e7", rejection_reason="not now"),
    _one(9, "ActionEvent", tool_name="srv_tool", action={"kind": "MCPToolAction", "data": {"q": ["v"]}}),
    _one(10, "ActionEvent", tool_name="bad", action=None, tool_call={"name": "bad", "arguments": '{"a": "b"}'}),
    _one(11, "ActionEvent", tool_name="think", action={"kind": "ThinkAction", "thought": "Hm."}),
    _one(12, "MessageEvent", llm_message={"role": "assistant", "content": _text("I said."), "reasoning_content": "r"}),
    _one(13, "Condensation", summary="short"),
    _one(14, "BrandNewEvent", text="?"),
    _one(15, "ActionEvent", tool_name="finish", action={"kind": "FinishAction", "message": "Done."}),
    _one(16, "ConversationStateUpdateEvent", key="full_state", value={"id": "conv", "execution_status": "finished"}),
]  # fmt: skip
HANDS_FOLDER = {
    "card": {"id": "conv-1", "persistence_dir": "/p", "execution_status": "idle", "workspace": {"working_dir": "/w"},
             "agent": {"llm": {"model": "mm", "api_key": "**********"}}},
    "events": HANDS_ONE,
}  # fmt: skip


def as_conversation(folder: Path, data: Any) -> Path:
    events = folder / "events"
    events.mkdir(exist_ok=True)
    for old in events.iterdir():
        old.unlink()
    for number, event in enumerate(data["events"]):
        (events / f"event-{number:05}-e{number}.json").write_text(json.dumps(event), "utf-8")
    card = folder / "base_state.json"
    card.write_text(json.dumps(data["card"], indent=1), "utf-8")
    return card


def _time(number: int) -> dict[str, int]:
    return {"start": 1760000000000 + number * 1000, "end": 1760000000500 + number * 1000}


OPENCODE = {
    "session": [
        {"id": "ses_a", "projectID": "p", "parentID": None, "directory": "/w", "version": "1.3", "title": "T",
         "time": {"created": 1760000000000, "updated": 1760000009000}},
        {"id": "ses_b", "projectID": "p", "parentID": "ses_a", "directory": "/w", "version": "1.3", "title": "C",
         "time": {"created": 1760000003000, "updated": 1760000004000}},
    ],
    "message": [
        {"id": "msg_1", "sessionID": "ses_a", "role": "user", "time": {"created": 1760000000000}},
        {"id": "msg_2", "sessionID": "ses_a", "role": "assistant", "time": {"created": 1760000001000}, "modelID": "gpt",
         "path": {"cwd": "/w", "root": "/w"}, "tokens": {"input": 9, "output": 2, "reasoning": 1,
                                                        "cache": {"read": 5, "write": 3}}},
        {"id": "msg_3", "sessionID": "ses_a", "role": "assistant", "time": {"created": 1760000005000},
         "model": {"modelID": "gpt"}, "error": {"name": "MessageAbortedError", "data": {"message": "stop"}}},
        {"id": "msg_4", "sessionID": "ses_b", "role": "user", "time": {"created": 1760000003000}},
        {"id": "msg_5", "sessionID": "ses_b", "role": "narrator", "time": {"created": 1760000003500}},
    ],
    "part": [
        {"id": "prt_1", "messageID": "msg_1", "type": "text", "text": "Fix it"},
        {"id": "prt_2", "messageID": "msg_1", "type": "file", "filename": "a.png", "url": "file:///w/a.png"},
        {"id": "prt_3", "messageID": "msg_1", "type": "text", "text": "made up", "synthetic": True},
        {"id": "prt_4", "messageID": "msg_2", "type": "step-start"},
        {"id": "prt_5", "messageID": "msg_2", "type": "reasoning", "text": "Hm."},
        {"id": "prt_6", "messageID": "msg_2", "type": "text", "text": "I run."},
        {"id": "prt_7", "messageID": "msg_2", "type": "tool", "tool": "bash", "callID": "c1", "state": {
            "status": "completed", "input": {"command": "ls", "workdir": "/w"}, "output": "a", "metadata": {"exit": 3},
            "time": _time(1)}},
        {"id": "prt_8", "messageID": "msg_2", "type": "tool", "tool": "task", "callID": "c2", "state": {
            "status": "completed", "input": {"prompt": "look", "subagent_type": "general"}, "output": "seen",
            "metadata": {"sessionId": "ses_b"}, "time": _time(2)}},
        {"id": "prt_9", "messageID": "msg_2", "type": "tool", "tool": "edit", "callID": "c3", "state": {
            "status": "error", "input": {"filePath": "/w/a", "oldString": "1", "newString": "2"},
            "error": "The user rejected permission to use this tool", "time": _time(3)}},
        {"id": "prt_A", "messageID": "msg_2", "type": "tool", "tool": "question", "callID": "c4", "state": {
            "status": "completed", "input": {"questions": [{"question": "Which?"}]}, "output": "x",
            "metadata": {"answers": [["this"]]}, "time": _time(4)}},
        {"id": "prt_B", "messageID": "msg_2", "type": "step-finish", "tokens": {"input": 9, "output": 2,
                                                                               "cache": {"read": 5, "write": 3}}},
        {"id": "prt_C", "messageID": "msg_3", "type": "tool", "tool": "write", "callID": "c5", "state": {
            "status": "running", "input": {"filePath": "/w/n", "content": "new"}, "time": _time(5)}},
        {"id": "prt_D", "messageID": "msg_3", "type": "hologram", "text": "?"},
        {"id": "prt_E", "messageID": "msg_4", "type": "text", "text": "look"},
    ],
}  # fmt: skip


def as_storage(folder: Path, data: Any) -> Path:
    """The older files: each card, message and part in a file of its own."""
    import shutil

    storage = folder / "storage"
    shutil.rmtree(storage, ignore_errors=True)

    def put(name: str, value: Any) -> Path:
        path = storage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), "utf-8")
        return path

    where = {part["id"]: part["messageID"] for part in OPENCODE["part"]}
    for message, original in zip(data["message"], OPENCODE["message"], strict=True):
        put(f"message/{original['sessionID']}/{original['id']}.json", message)
    for part, original in zip(data["part"], OPENCODE["part"], strict=True):
        put(f"part/{where[original['id']]}/{original['id']}.json", part)
    paths = [
        put(f"session/p/{original['id']}.json", card)
        for card, original in zip(data["session"], OPENCODE["session"], strict=True)
    ]
    return paths[0]


def as_database(folder: Path, data: Any) -> Path:
    path = folder / "opencode.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous=OFF")  # thousands of them are written, and none outlives its test
        connection.execute("CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, version TEXT)")
        connection.execute(
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT)"
        )
        connection.execute("CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, data TEXT)")
        for card, one in zip(data["session"], OPENCODE["session"], strict=True):
            given = [card.get(name) if isinstance(card, dict) else None for name in ("directory", "version")]
            facts = [str(fact).encode("utf-8", "replace").decode() for fact in given]
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?)", (one["id"], one["parentID"], *facts))
        for message, original in zip(data["message"], OPENCODE["message"], strict=True):
            row = (original["id"], original["sessionID"], original["time"]["created"], json.dumps(message))
            connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
        for part, original in zip(data["part"], OPENCODE["part"], strict=True):
            connection.execute(
                "INSERT INTO part VALUES (?, ?, ?)", (original["id"], original["messageID"], json.dumps(part))
            )
    connection.close()
    return path


COPILOT = [
    {"type": kind, "data": data, "id": f"e{number}", "timestamp": f"2026-03-01T10:00:{number:02}.000Z", "parentId": None}
    for number, (kind, data) in enumerate([
        ("session.start", {"sessionId": "cp", "copilotVersion": "1.0", "selectedModel": "gpt-5",
                           "context": {"cwd": "/w", "headCommit": "c3" * 20}}),
        ("session.model_change", {"newModel": "gpt-5-mini"}),
        ("user.message", {"content": "List", "attachments": [{"type": "file", "path": "/w/a"}]}),
        ("assistant.message", {"content": "I list.", "reasoningText": "hm", "outputTokens": 12, "model": "gpt-5-mini",
                               "toolRequests": [{"toolCallId": "c1", "name": "bash", "arguments": '{"command": "ls"}'}]}),
        ("tool.execution_start", {"toolCallId": "c1", "toolName": "bash", "arguments": {"command": "ls"}}),
        ("tool.execution_complete", {"toolCallId": "c1", "success": True, "result": {
            "content": "a\n<exited with exit code 2>"}}),
        ("tool.execution_start", {"toolCallId": "c2", "toolName": "create", "arguments": {"path": "/w/n", "file_text": "x"}}),
        ("tool.execution_complete", {"toolCallId": "c2", "result": {"result_type": "rejected", "text_result_for_llm": "no"}}),
        ("assistant.message", {"content": "In a subagent.", "parentToolCallId": "c9", "toolRequests": []}),
        ("tool.execution_start", {"toolCallId": "c3", "toolName": "view", "arguments": {"path": "/w/a"}}),
        ("tool.execution_complete", {"toolCallId": "c3", "success": False, "error": {"message": "gone", "code": "x"}}),
        ("session.error", {"message": "quota"}),
        ("abort", {"reason": "user"}),
        ("session.brand_new", {"text": "?"}),
    ])
]  # fmt: skip

QWEN = [
    {"uuid": f"u{number}", "parentUuid": parent, "sessionId": "q1", "timestamp": f"2026-03-01T10:00:{number:02}.000Z",
     "cwd": "/w", "version": "0.2", **record}
    for number, (parent, record) in enumerate([
        (None, {"type": "user", "systemPayload": {"displayText": "Look."}, "message": {"role": "user", "parts": [
            {"text": "Look."}, {"text": "<qwen:user-prompt-submit-context>x"}, {"inlineData": {"data": "x"}}]}}),
        ("u0", {"type": "assistant", "model": "coder", "usageMetadata": {
            "promptTokenCount": 20, "cachedContentTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 1},
            "message": {"role": "model", "parts": [
                {"text": "hm", "thought": True}, {"text": "I look."},
                {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "/w/a", "offset": 2, "limit": 3}}},
                {"functionCall": {"id": "c2", "name": "run_shell_command", "args": {"command": "ls", "directory": "/w"}}}]}}),
        ("u1", {"type": "tool_result", "toolCallResult": {"callId": "c1", "status": "success"}, "message": {"parts": [
            {"functionResponse": {"id": "c1", "response": {"output": "text"}}}]}}),
        ("u2", {"type": "tool_result", "toolCallResult": {"callId": "c2", "status": "error"}, "message": {"parts": [
            {"functionResponse": {"id": "c2", "response": {"error": "bad"}}}]}}),
        ("u0", {"type": "assistant", "model": "coder", "message": {"parts": [{"text": "Another branch."}]}}),
        ("u4", {"type": "system", "subtype": "rewind", "systemPayload": {"targetUuid": "u0"}}),
        ("u5", {"type": "user", "subtype": "notification", "message": {"parts": [{"text": "ding"}]}}),
        ("u5", {"type": "novelty", "message": {"parts": []}}),
    ])
]  # fmt: skip

DROID = [
    {"type": "session_start", "id": "d1", "title": "T", "cwd": "/w", "owner": "ada", "version": "0.81"},
    {"type": "message", "id": "m1", "timestamp": T.format(1), "message": {"role": "user", "content": [
        {"type": "text", "text": "Run it"}, {"type": "text", "text": "<system-reminder>x"}, {"type": "image", "source": "x"}]}},
    {"type": "message", "id": "m2", "timestamp": T.format(2), "message": {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I run."},
        {"type": "tool_use", "id": "t1", "name": "Execute", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "t2", "name": "ApplyPatch", "input": {
            "input": "*** Begin Patch\n*** Update File: /w/a\n@@\n-1\n+2\n*** End Patch"}}]}},
    {"type": "message", "id": "m3", "timestamp": T.format(3), "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "Error: Command failed (exit code: 3)\nno"},
        {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "done"}]}]}},
    {"type": "todo_state", "id": "s1", "timestamp": T.format(4), "todos": {"todos": "1. x"}},
    {"type": "message", "id": "m4", "timestamp": T.format(5), "message": {"role": "critic", "content": "?"}},
    {"type": "novelty", "id": "n1"},
]  # fmt: skip
DROID_PRINTED = [
    {"type": "system", "session_id": "d2", "timestamp": T.format(0), "model": "m", "cwd": "/w"},
    {"type": "message", "session_id": "d2", "timestamp": T.format(1), "role": "user", "text": "Run it"},
    {"type": "message", "session_id": "d2", "timestamp": T.format(2), "role": "assistant", "text": "I run."},
    {"type": "tool_call", "session_id": "d2", "timestamp": T.format(3), "toolCallId": "c1", "toolName": "Shell",
     "parameters": {"command": "ls"}},
    {"type": "tool_result", "session_id": "d2", "timestamp": T.format(4), "toolCallId": "c1",
     "value": {"stdout": "a", "stderr": "b", "exitCode": 1}},
    {"type": "tool_call", "session_id": "d2", "timestamp": T.format(5), "toolCallId": "c2", "toolName": "Read",
     "parameters": {"path": "/w/a"}},
    {"type": "tool_result", "session_id": "d2", "timestamp": T.format(5), "toolCallId": "c2", "value": "text of a"},
    {"type": "novelty", "session_id": "d2"},
    {"type": "completion", "session_id": "d2", "timestamp": T.format(6), "finalText": "Done"},
]  # fmt: skip

PI = [
    {"type": "session", "version": 3, "id": "p1", "timestamp": T.format(0), "cwd": "/w"},
    {"type": "model_change", "id": "a0", "parentId": None, "timestamp": T.format(0), "provider": "x", "modelId": "pm"},
    {"type": "message", "id": "a1", "parentId": "a0", "timestamp": T.format(1), "message": {"role": "user", "content": [
        {"type": "text", "text": "Edit it"}, {"type": "image", "data": "x"}]}},
    {"type": "message", "id": "a2", "parentId": "a1", "timestamp": T.format(2), "message": {
        "role": "assistant", "model": "pm", "usage": {"input": 9, "output": 2, "cacheRead": 4, "cacheWrite": 1},
        "stopReason": "toolUse", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I edit."},
            {"type": "toolCall", "id": "c1", "name": "edit", "arguments": {
                "path": "/w/a", "edits": [{"oldText": "1", "newText": "2"}]}},
            {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {"command": "ls"}}]}},
    {"type": "message", "id": "a3", "parentId": "a2", "timestamp": T.format(3), "message": {
        "role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": "done"}], "isError": False}},
    {"type": "message", "id": "a4", "parentId": "a3", "timestamp": T.format(3), "message": {
        "role": "toolResult", "toolCallId": "c2", "content": "no", "isError": True}},
    {"type": "compaction", "id": "a5", "parentId": "a4", "timestamp": T.format(4), "summary": "What was done."},
    {"type": "message", "id": "a6", "parentId": "a5", "timestamp": T.format(5), "message": {
        "role": "bashExecution", "command": "ls", "output": "a"}},
    {"type": "message", "id": "a7", "parentId": "a1", "timestamp": T.format(6), "message": {
        "role": "assistant", "content": "Another branch.", "stopReason": "aborted"}},
    {"type": "message", "id": "a8", "parentId": "a7", "timestamp": T.format(7), "message": {"role": "oracle", "content": "?"}},
    {"type": "novelty", "id": "a9", "parentId": "a8"},
]  # fmt: skip

CURSOR = [
    {"role": "user", "message": {"content": [{"type": "text", "text": "<user_query>\nLook\n</user_query>"}, {"type": "image"}]}},
    {"role": "assistant", "message": {"content": [
        {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
        {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_use", "name": "Agent", "input": {"prompt": "List files", "description": "d"}}]}},
    {"role": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}], "is_error": True}]}},
    {"role": "assistant", "message": {"content": [
        {"type": "tool_use", "name": "Write", "input": {"path": "/w/n", "contents": "new"}}, {"type": "hologram"}]}},
    {"type": "turn_ended", "status": "aborted"},
    {"role": "narrator", "message": {"content": [{"type": "text", "text": "?"}]}},
]  # fmt: skip

AMP = {
    "v": 220, "id": "T-1", "created": 1760000000000,
    "messages": [
        {"role": "user", "messageId": 0, "content": [{"type": "text", "text": "Read it"}, {"type": "image", "source": "x"}],
         "meta": {"sentAt": 1760000001000}},
        {"role": "assistant", "messageId": 1, "state": {"type": "complete"}, "usage": {
            "model": "m", "inputTokens": 3, "outputTokens": 2, "cacheCreationInputTokens": 4, "cacheReadInputTokens": 5,
            "timestamp": T.format(2)},
         "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "I read."},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "/w/a"}},
            {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"cmd": "ls", "cwd": "/w"}}]},
        {"role": "user", "messageId": 2, "content": [
            {"type": "tool_result", "toolUseID": "t1", "run": {"status": "done", "result": {"content": "text"}}},
            {"type": "tool_result", "toolUseID": "t2", "run": {"status": "error", "error": {"message": "no"}}}]},
        {"role": "assistant", "messageId": 3, "state": {"type": "cancelled"}, "content": [{"type": "hologram"}]},
        {"role": "oracle", "messageId": 4, "content": "?"},
    ],
    "env": {"initial": {"trees": [{"uri": "file:///w", "repository": {"sha": "d4" * 20}}], "platform": {"clientVersion": "0"}}},
    "title": "T",
}  # fmt: skip
CONTINUE = {
    "sessionId": "k1", "title": "T", "workspaceDirectory": "/w",
    "history": [
        {"message": {"role": "user", "content": [{"type": "text", "text": "Edit it"}, {"type": "imageUrl"}]}},
        {"message": {"role": "assistant", "content": "I edit.", "toolCalls": [
            {"id": "c1", "function": {"name": "Edit", "arguments": '{"filepath": "/w/a"}'}},
            {"id": "c2", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}]},
         "reasoning": {"text": "hm"},
         "toolCallStates": [{"toolCallId": "c1", "status": "errored", "output": [{"content": "no", "name": "r"}],
                             "toolCall": {"id": "c1", "function": {"name": "Edit", "arguments": '{"filepath": "/w/a"}'}}}]},
        {"message": {"role": "system", "content": "rules"}},
        {"message": {"role": "thinking", "content": "so"}},
        {"message": {"role": "oracle", "content": "?"}},
    ],
    "usage": {"promptTokens": 9, "completionTokens": 2, "promptTokensDetails": {"cachedTokens": 4, "cacheWriteTokens": 1}},
}  # fmt: skip

ATIF = {
    "schema_version": "ATIF-v1.8", "session_id": "s1", "trajectory_id": "t1", "notes": "n",
    "agent": {"name": "harbor-agent", "version": "1.2", "model_name": "m", "extra": {"cwd": "/w"},
              "tool_definitions": [{"type": "function", "function": {"name": "bash"}}]},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be good.", "timestamp": T.format(0)},
        {"step_id": 2, "source": "user", "timestamp": T.format(1), "message": [
            {"type": "text", "text": "Look at it"}, {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
            {"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav", "duration_sec": 1.5}}]},
        {"step_id": 3, "source": "agent", "timestamp": T.format(2), "model_name": "m2", "reasoning_effort": "high",
         "message": "I look.", "reasoning_content": "hm", "llm_call_count": 1,
         "tool_calls": [
             {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}},
             {"tool_call_id": "c2", "function_name": "delegate_task", "arguments": {"prompt": "Count"}, "extra": {"timeout": 3}},
             {"tool_call_id": "c3", "function_name": "oracle", "arguments": {"q": [1, {"a": None}]}, "hologram": 1}],
         "observation": {"results": [
             {"source_call_id": "c1", "content": "a\n", "extra": {"exit_code": 2}},
             {"source_call_id": "c2", "content": [{"type": "text", "text": "3"}],
              "subagent_trajectory_ref": [{"trajectory_id": "t2", "session_id": "s1"}]},
             {"source_call_id": "c4", "content": "?"}]},
         "metrics": {"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 7, "cost_usd": 0.0125,
                     "completion_token_ids": [1, 2], "logprobs": [-0.5], "extra": {"reasoning_tokens": 3}}},
        {"step_id": 4, "source": "system", "message": "Summed up.", "observation": {"results": [
            {"content": "sum", "subagent_trajectory_ref": [{"trajectory_path": "other.json"}]}]}},
        {"step_id": 5, "source": "user", "message": "again", "is_copied_context": True},
        {"step_id": 6, "source": "agent", "message": "Done.", "timestamp": T.format(5)},
        {"step_id": 7, "source": "oracle", "message": "?", "novelty": 1},
    ],
    "final_metrics": {"total_prompt_tokens": 100, "total_steps": 7},
    "continued_trajectory_ref": "more.json", "extra": {"a": 1}, "novelty": [],
    "subagent_trajectories": [
        {"schema_version": "ATIF-v1.8", "trajectory_id": "t2", "session_id": "s1", "agent": {"name": "counter", "version": "1"},
         "steps": [{"step_id": 1, "source": "user", "message": "Count"}, {"step_id": 2, "source": "agent", "message": "3"}]}],
}  # fmt: skip

SAMPLES = {
    "atif": Sample("atif", ATIF, as_document),
    "amp": Sample("amp", AMP, as_document),
    "continue": Sample("continue", CONTINUE, as_document),
    "copilot": Sample("copilot-cli", COPILOT, as_lines),
    "qwen": Sample("qwen-code", QWEN, as_lines),
    "droid": Sample("droid", DROID, as_lines),
    "droid-printed": Sample("droid", DROID_PRINTED, as_lines),
    "pi": Sample("pi-agent", PI, as_lines),
    "cursor": Sample("cursor", CURSOR, as_lines),
    "gemini-lines": Sample("gemini-cli", GEMINI_LINES, as_lines),
    "gemini-document": Sample("gemini-cli", GEMINI_DOCUMENT, as_document),
    "mini-swe-agent": Sample("mini-swe-agent", MINI, as_document),
    "swe-agent": Sample("swe-agent-traj", SWE, as_document),
    "swe-agent-history": Sample("swe-agent-traj", SWE_HISTORY, as_document),
    "openhands-0-lines": Sample("openhands", HANDS_ZERO, as_lines),
    "openhands-0-list": Sample("openhands", HANDS_ZERO, as_document),
    "openhands-evaluation": Sample("openhands", [HANDS_EVALUATION], as_lines),
    "openhands-1-lines": Sample("openhands", HANDS_ONE, as_lines),
    "openhands-1-folder": Sample("openhands", HANDS_FOLDER, as_conversation),
    "opencode-files": Sample("opencode", OPENCODE, as_storage),
    "opencode-database": Sample("opencode", OPENCODE, as_database),
    **{name: Sample(*parts) for name, parts in TERMINAL_SAMPLES.items()},
    **{name: Sample(*parts) for name, parts in EDITOR_SAMPLES.items()},
    **{name: Sample(*parts) for name, parts in ARCHIVE_SAMPLES.items()},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value within ``value``, with the way to it."""
    if path:
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*path, name))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of ``value`` with another value at the end of the way."""
    result = copy.copy(value)
    result[path[0]] = changed(value[path[0]], path[1:], new) if len(path) > 1 else new
    return result
