"""Samples of the sessions of agents in a terminal, merged into those of ``interop_samples``: format, data, and how to write it down."""

from __future__ import annotations

__all__ = ["TERMINAL_SAMPLES"]

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

T = "2026-03-01T10:00:0{}.000Z"
MS = 1_772_359_200_000


def as_lines(folder: Path, records: Any) -> Path:
    path = folder / "session.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def as_logs(folder: Path, agents: Any) -> Path:
    """The folder of a session of Kimi Code: a log for each agent, and the state of the session."""
    session = folder / "sessions" / "wd_w" / "session_1"
    for name, records in agents.items():
        path = session / "agents" / name / "wire.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "state":
            (session / "state.json").write_text(json.dumps(records), "utf-8")
        else:
            path.write_text(
                "".join(json.dumps(one) + "\n" for one in (records if isinstance(records, list) else ())), "utf-8"
            )
    return session / "agents" / "main" / "wire.jsonl"


def _said(at: int, role: str, text: str, kind: str, **origin: Any) -> dict[str, Any]:
    message = {
        "role": role,
        "content": [{"type": "text", "text": text}],
        "toolCalls": [],
        "origin": {"kind": kind, **origin},
    }
    return {"type": "context.append_message", "message": message, "time": MS + at, "agentId": "main"}


def _event(at: int, **event: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "agentId": "main", "event": event, "time": MS + at}


_USAGE = {"inputOther": 1652, "output": 136, "inputCacheRead": 12544, "inputCacheCreation": 8}
KIMI = [
    {"type": "metadata", "protocol_version": "1.5", "created_at": MS},
    {"type": "profile.bind", "modelAlias": "moon/k2", "profileName": "agent", "systemPrompt": "You are",
     "environmentDisclosure": {"cwd": "/w"}, "time": MS},
    {"type": "turn.prompt", "input": [{"type": "text", "text": "Fix it"}], "origin": {"kind": "user"}, "time": MS + 1},
    _said(2, "user", "Fix it", "user"),
    _said(3, "user", "<system-reminder>now</system-reminder>", "injection", variant="date_change"),
    _event(4, type="step.begin", uuid="s1", turnId="0", step=1),
    {"type": "llm.request", "model": "k2-code", "modelAlias": "moon/k2", "time": MS + 5},
    {"type": "usage.record", "model": "moon/k2", "usage": _USAGE, "usageScope": "turn", "time": MS + 6},
    _event(7, type="content.part", stepUuid="s1", part={"type": "think", "think": "hm"}),
    _event(8, type="content.part", stepUuid="s1", part={"type": "text", "text": "I look."}),
    _event(9, type="content.part", stepUuid="s1", part={"type": "image_url", "imageUrl": {"url": "blobref:x"}}),
    _event(10, type="content.part", stepUuid="s1", part={"type": "hologram"}),
    _event(11, type="tool.call", toolCallId="c1", name="Bash", args={"command": "ls", "cwd": "/w"}),
    _event(12, type="tool.result", toolCallId="c1",
           result={"output": "Process exited with code 2\nCommand failed with exit code: 2.", "isError": True, "durationMs": 1}),
    _event(13, type="tool.call", toolCallId="c2", name="Edit", args={"path": "/w/a", "old_string": "1", "new_string": "2"}),
    {"type": "permission.record_approval_result", "toolCallId": "c2", "result": {"decision": "rejected"}, "time": MS + 14},
    _event(15, type="tool.result", toolCallId="c2", result={"output": [{"type": "text", "text": "no"}], "isError": True}),
    _event(16, type="tool.call", toolCallId="c3", name="Agent", args={"prompt": "Count", "description": "c", "subagent_type": "explore"}),
    {"type": "subagent.spawned", "subagentId": "agent-0", "parentToolCallId": "c3", "time": MS + 17},
    _event(18, type="tool.result", toolCallId="c3", result={"output": "agent_id: agent-0\nstatus: completed\n\n[summary]\n3"}),
    _event(19, type="step.end", uuid="s1", usage=_USAGE, finishReason="tool_use"),
    {"type": "context.apply_compaction", "summary": "So far", "compactedCount": 3, "time": MS + 20},
    {"type": "context.undo", "count": 1, "time": MS + 21},
    {"type": "turn.cancel", "time": MS + 22},
    {"type": "context.append_message", "time": MS + 23, "message": {
        "role": "assistant", "content": [{"type": "text", "text": "As before."}],
        "toolCalls": [{"type": "function", "id": "c4", "function": {"name": "Read", "arguments": '{"path": "/w/a"}'}}]}},
    {"type": "context.append_message", "time": MS + 24, "message": {
        "role": "tool", "content": [{"type": "text", "text": "2"}], "toolCallId": "c4", "toolCalls": []}},
    {"type": "turn.ended", "turnId": 0, "reason": "failed", "time": MS + 25},
    {"type": "teleport.begin", "time": MS + 26},
]  # fmt: skip
KIMI_AGENTS = {
    "main": KIMI,
    "agent-0": [
        {"type": "metadata", "protocol_version": "1.5", "created_at": MS + 16},
        {"type": "profile.bind", "profileName": "explore", "modelAlias": "moon/k2", "time": MS + 16},
        _said(17, "user", "Count", "system_trigger", name="subagent"),
        _event(18, type="content.part", part={"type": "text", "text": "3"}),
    ],
    "state": {
        "id": "session_1",
        "version": 2,
        "cwd": "/w",
        "agents": {"main": {"homedir": "/h", "type": "main"}},
        "createdAt": MS,
    },
}


def as_database(path: Path, tables: dict[str, str], data: Any) -> Path:
    """A database with ``tables``, by their columns, and their rows; what is no cell is JSON in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, columns in tables.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            names = [column.split()[0] for column in columns.split(", ")]
            rows = data.get(table)
            for row in rows if isinstance(rows, list) else ():
                if isinstance(row, dict):
                    cells = [_cell(row.get(name)) for name in names]
                    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", cells)
    return path


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    return json.dumps(value)


# The tables of Crush as its migrations leave them, without keys and triggers: any row must be possible.
CRUSH_TABLES = {
    "sessions": "id TEXT, parent_session_id TEXT, title TEXT, message_count INTEGER, prompt_tokens INTEGER, "
    "completion_tokens INTEGER, cost REAL, updated_at INTEGER, created_at INTEGER, summary_message_id TEXT, todos TEXT",
    "messages": "id TEXT, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INTEGER, updated_at INTEGER, "
    "finished_at INTEGER, provider TEXT, is_summary_message INTEGER",
    "files": "id TEXT, session_id TEXT, path TEXT, content TEXT, version INTEGER, created_at INTEGER, updated_at INTEGER",
}


def as_crush(folder: Path, data: Any) -> Path:
    return as_database(folder / ".crush" / "crush.db", CRUSH_TABLES, data)


def _row(
    at: int, name: str, session: str, role: str, *parts: tuple[str, dict[str, Any]], **more: Any
) -> dict[str, Any]:
    made = [{"type": kind, "data": part} for kind, part in parts]
    return {"id": name, "session_id": session, "role": role, "parts": made, "model": "m-1", "created_at": MS // 1000 + at,
            "updated_at": MS // 1000 + at, "is_summary_message": 0, **more}  # fmt: skip


CRUSH = {
    "sessions": [
        {"id": "s1", "title": "T", "prompt_tokens": 900, "completion_tokens": 20, "created_at": MS // 1000, "updated_at": MS // 1000},
        {"id": "m2$$c3", "parent_session_id": "s1", "title": "New Agent Session", "created_at": MS // 1000 + 4},
        {"id": "title-s1", "parent_session_id": "s1", "title": "Generate a title", "created_at": MS // 1000},
    ],
    "messages": [
        _row(1, "m1", "s1", "user", ("text", {"text": "Fix it"}), ("binary", {"Path": "a.png", "MIMEType": "image/png"}),
             ("finish", {"reason": "stop", "time": 0})),
        _row(2, "m2", "s1", "assistant", ("reasoning", {"thinking": "hm", "signature": ""}), ("text", {"text": "I look."}),
             ("tool_call", {"id": "c1", "name": "bash", "input": '{"command": "ls", "working_dir": "/w"}', "finished": True}),
             ("tool_call", {"id": "c2", "name": "edit", "input": '{"file_path": "/w/a", "old_string": "1", "new_string": "2"}'}),
             ("tool_call", {"id": "c3", "name": "agent", "input": '{"prompt": "Count"}', "finished": True}),
             ("finish", {"reason": "tool_use", "time": MS // 1000 + 3})),
        _row(4, "m3", "s1", "tool",
             ("tool_result", {"tool_call_id": "c1", "name": "bash", "content": "a\nExit code 2", "is_error": False}),
             ("tool_result", {"tool_call_id": "c2", "name": "edit", "content": "User denied permission", "is_error": True}),
             ("tool_result", {"tool_call_id": "c3", "name": "agent", "content": "3", "is_error": False}),
             ("finish", {"reason": "stop", "time": 0})),
        _row(5, "m4", "s1", "user", ("shell_command", {"command": "ls", "output": "a", "exit_code": 0})),
        _row(6, "m5", "s1", "assistant", ("text", {"text": "So far"}), is_summary_message=1),
        _row(7, "m6", "s1", "assistant", ("hologram", {"a": "b"}), ("finish", {"reason": "canceled", "message": "User canceled request"})),
        _row(8, "m7", "s1", "oracle", ("text", {"text": "?"})),
        _row(4, "n1", "m2$$c3", "user", ("text", {"text": "Count"})),
        _row(4, "n2", "m2$$c3", "assistant", ("text", {"text": "3"}), ("finish", {"reason": "end_turn"})),
    ],
}  # fmt: skip


def as_document(folder: Path, document: Any) -> Path:
    path = folder / "session.json"
    path.write_text(json.dumps(document, indent=1), "utf-8")
    return path


def _asked(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "id": call_id,
        "call_id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


HERMES_MESSAGES = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "Fix it"}, {"type": "image_url", "image_url": {"url": "data:x"}}],
    },
    {
        "role": "assistant",
        "content": "I look.",
        "reasoning": "hm",
        "finish_reason": "tool_calls",
        "tool_calls": [
            _asked("c1", "terminal", command="ls", workdir="/w"),
            _asked("c2", "patch", path="/w/a", old_string="1", new_string="2", mode="replace"),
            _asked("c3", "delegate_task", goal="Count", context="here"),
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "c1",
        "tool_name": "terminal",
        "content": '{"output": "a", "exit_code": 2, "error": null}',
    },
    {
        "role": "tool",
        "tool_call_id": "c2",
        "tool_name": "patch",
        "content": '{"status": "blocked", "error": "BLOCKED: denied"}',
    },
    {"role": "tool", "tool_call_id": "c3", "tool_name": "delegate_task", "content": '{"status": "dispatched"}'},
    {"role": "system", "content": "rules"},
    {"role": "assistant", "content": "Half of", "finish_reason": "length"},
    {"role": "oracle", "content": "?"},
]
HERMES = {
    "session_id": "h1", "model": "m-1", "platform": "cli", "session_start": T.format(0), "last_updated": T.format(9),
    "model_config": {"cwd": "/w"}, "message_count": 8, "tools": [], "messages": HERMES_MESSAGES,
}  # fmt: skip
# The columns of Hermes 0.19 that tell of a session.
HERMES_TABLES = {
    "sessions": "id TEXT, source TEXT, model TEXT, model_config TEXT, system_prompt TEXT, parent_session_id TEXT, started_at REAL, "
    "ended_at REAL, end_reason TEXT, message_count INTEGER, input_tokens INTEGER, output_tokens INTEGER, cache_read_tokens INTEGER, "
    "cache_write_tokens INTEGER, cwd TEXT, git_branch TEXT, title TEXT",
    "messages": "id INTEGER, session_id TEXT, role TEXT, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, "
    "timestamp REAL, finish_reason TEXT, reasoning TEXT, reasoning_content TEXT, observed INTEGER, active INTEGER, compacted INTEGER",
    "session_model_usage": "session_id TEXT, model TEXT, task TEXT, api_call_count INTEGER, input_tokens INTEGER, output_tokens INTEGER, "
    "cache_read_tokens INTEGER, cache_write_tokens INTEGER",
}
_USED = {"api_call_count": 2, "input_tokens": 90, "output_tokens": 9, "cache_read_tokens": 60, "cache_write_tokens": 5}


def as_hermes(folder: Path, data: Any) -> Path:
    return as_database(folder / ".hermes" / "state.db", HERMES_TABLES, data)


def _kept(number: int, session: str, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": number, "session_id": session, "timestamp": MS / 1000 + number, "active": 1, "compacted": 0, "observed": 0,
            **message, **more}  # fmt: skip


HERMES_DATABASE = {
    "sessions": [
        {"id": "h1", "source": "cli", "model": "m-1", "started_at": MS / 1000, "ended_at": MS / 1000 + 60, "cwd": "/w", "git_branch": "main"},
        {"id": "h2", "source": "subagent", "model": "m-2", "parent_session_id": "h1", "started_at": MS / 1000 + 3, "input_tokens": 7},
    ],
    "messages": [
        *(_kept(number, "h1", message) for number, message in enumerate(HERMES_MESSAGES, 1)),
        _kept(9, "h1", {"role": "user", "content": "between others"}, observed=1),
        _kept(10, "h1", {"role": "user", "content": "again"}, active=0, compacted=1),
        _kept(11, "h1", {"role": "assistant", "content": "So far: all."}),
        _kept(12, "h1", {"role": "user", "content": "again"}),
        _kept(13, "h1", {"role": "user", "content": "again"}),
        _kept(20, "h2", {"role": "user", "content": "Count"}),
        _kept(21, "h2", {"role": "assistant", "content": "3", "finish_reason": "stop"}),
    ],
    "session_model_usage": [
        {"session_id": "h1", "model": "m-1", "task": "", **_USED}, {"session_id": "h1", "model": "m-1", "task": "title", **_USED}],
}  # fmt: skip
_FIRST: dict[str, Any] = HERMES_DATABASE["messages"][0]
HERMES_DATABASE["messages"][0] = {**_FIRST, "content": "\0json:" + json.dumps(_FIRST["content"])}


def _gptme(at: int, role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": f"2026-03-01T10:00:0{at}.250000", **more}


GPTME = [
    _gptme(0, "system", "## System\n\n**OS:** Linux\n**Working Directory:** /w", hide=True, pinned=True),
    _gptme(1, "user", "Fix it", files=["/w/a.png"]),
    _gptme(2, "assistant", "<thinking>\nhm\n</thinking>\n\nI look.\n\n```shell\nls\n```\n\n```patch /w/a\n<<<<<<< ORIGINAL\n1\n=======\n2\n"
           ">>>>>>> UPDATED\n```\n\n```python\nprint(1)\n```\n", metadata={"model": "m-1", "usage": {
               "input_tokens": 90, "output_tokens": 9, "cache_read_tokens": 60, "cache_creation_tokens": 5},
               "timings": {"tool_ms_by_name": {"shell": 1.5}}}),
    _gptme(3, "system", "Ran command: `ls`\n\nReturn code: 2\n"),
    _gptme(4, "system", "Patch successfully applied to `/w/a`"),
    _gptme(5, "assistant", 'And save.\n@save(c3): {"path": "/w/b", "content": "x"}'),
    _gptme(6, "system", "Aborted, user chose not to save", call_id="c3", metadata={"tool": "save"}),
    _gptme(7, "user", "<system>No tool call detected in last message.</system>"),
    _gptme(8, "oracle", "?"),
    _gptme(9, "assistant", "You could run:\n\n```shell\nls\n```"),
]  # fmt: skip


OPENCLAW_TABLES = {
    "session_windows": "session_id TEXT, session_key TEXT, created_at INTEGER",
    "session_nodes": "session_key TEXT, spawned_by TEXT, entry_json TEXT",
    "transcript_events": "session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER, event_zstd BLOB",
}


def as_openclaw(folder: Path, data: Any) -> Path:
    return as_database(
        folder / ".openclaw" / "agents" / "main" / "agent" / "openclaw-agent.sqlite", OPENCLAW_TABLES, data
    )


def _events(session: str, *records: dict[str, Any]) -> list[dict[str, Any]]:
    first = {"type": "session", "version": 4, "id": session, "cwd": "/w"}
    said = enumerate([first, *records])
    return [
        {"session_id": session, "seq": n, "created_at": MS + n, "event_json": {**one, "timestamp": T.format(n)}}
        for n, one in said
    ]


def _message(name: str, parent: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": name, "parentId": parent, "message": {"role": role, "content": content, **more}}


OPENCLAW = {
    "session_windows": [{"session_id": "o1", "session_key": "agent:main:main"}, {"session_id": "o2", "session_key": "agent:main:subagent:x"}],
    "session_nodes": [{"session_key": "agent:main:main"}, {"session_key": "agent:main:subagent:x", "spawned_by": "agent:main:main"}],
    "transcript_events": [
        *_events(
            "o1",
            {"type": "model_change", "modelId": "m-1", "id": "a"},
            _message("b", "a", "user", "Fix it"),
            _message("c", "b", "assistant", [
                {"type": "text", "text": "I look."}, {"type": "toolCall", "id": "t1", "name": "exec", "arguments": {"command": "ls"}}],
                usage={"input": 90, "output": 9, "cacheRead": 60, "cacheWrite": 5}, model="m-1", stopReason="toolUse"),
            _message("d", "c", "toolResult", [{"type": "text", "text": "no"}], toolCallId="t1", details={"exitCode": 2}),
            {"type": "teleport", "id": "e", "parentId": "d"},
        ),
        *_events("o2", _message("a", "", "user", "Count"), _message("b", "a", "assistant", [{"type": "text", "text": "3"}])),
    ],
}  # fmt: skip


GROK = [
    {"type": "system", "content": "You are"},
    {"type": "user", "content": [{"type": "text", "text": "<user_info/>"}], "synthetic_reason": "environment_context"},
    {"type": "user", "content": [{"type": "text", "text": "Fix it"}, {"type": "image", "url": "data:x"}], "prompt_index": 0},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
    {"type": "assistant", "content": "I look.", "model_id": "grok-4.5", "tool_calls": [
        {"id": "c1", "name": "run_terminal_cmd", "arguments": '{"command": "ls"}'},
        {"id": "c3", "name": "task", "arguments": '{"prompt": "Count", "subagent_type": "explore"}'},
        {"id": "c2", "name": "read_file", "arguments": '{"target_file": "/w/a"}'}]},
    {"type": "tool_result", "tool_call_id": "c1", "content": "exit: 2\nno such file"},
    {"type": "backend_tool_call", "kind": {"tool_type": "web_search", "action": {"type": "search", "query": "q"}, "status": "completed"}},
    {"type": "user", "content": [{"type": "text", "text": "<user_query>\nfaster\n</user_query>"}], "synthetic_reason": "interjection"},
    {"type": "user", "content": [{"type": "text", "text": "Stop"}], "prompt_index": 1, "prior_turn_interrupt": "mid_turn_abort"},
    {"type": "teleport", "content": "?"},
]  # fmt: skip
GROK_FOLDER = {
    "session": GROK,
    "summary": {"info": {"id": "g1", "cwd": "/w"}, "created_at": T.format(0), "updated_at": T.format(9), "chat_format_version": 1,
                "current_model_id": "grok-4.5", "head_branch": "main", "num_chat_messages": 9},
    "meta": {"subagent_id": "a1", "child_session_id": "g2", "subagent_type": "explore", "prompt": "Count", "child_cwd": "/w"},
    "child": [{"type": "user", "content": [{"type": "text", "text": "Count"}], "prompt_index": 0},
              {"type": "assistant", "content": "3", "model_id": "grok-4.5"}],
}  # fmt: skip


def _put(path: Path, value: Any, *, is_document: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    records = value if isinstance(value, list) else ()
    path.write_text(json.dumps(value) if is_document else "".join(json.dumps(one) + "\n" for one in records), "utf-8")
    return path


def as_grok(folder: Path, data: Any) -> Path:
    sessions = folder / "sessions" / "%2Fw"
    _put(sessions / "g1" / "subagents" / "a1" / "meta.json", data.get("meta"), is_document=True)
    _put(sessions / "g1" / "summary.json", data.get("summary"), is_document=True)
    _put(sessions / "g2" / "summary.json", {"info": {"id": "g2", "cwd": "/w"}}, is_document=True)
    _put(sessions / "g2" / "chat_history.jsonl", data.get("child"))
    return _put(sessions / "g1" / "chat_history.jsonl", data.get("session"))


VIBE = [
    {"role": "user", "content": "Fix it", "injected": False, "message_id": "a", "images": [{"path": "/w/a.png"}]},
    {"role": "user", "content": "<reminder/>", "injected": True, "message_id": "b"},
    {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "message_id": "c", "injected": False, "tool_calls": [
        {"id": "c1", "index": 0, "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
        {"id": "c2", "type": "function", "function": {
            "name": "edit", "arguments": '{"file_path": "/w/a", "old_string": "1", "new_string": "2"}'}},
        {"id": "c3", "type": "function", "function": {"name": "task", "arguments": '{"task": "Count", "agent": "explore"}'}}]},
    {"role": "tool", "content": "<tool_error>Command failed</tool_error>", "tool_call_id": "c1", "injected": False,
     "tool_result": {"output": {"exit_code": 2}, "cancelled": False}},
    {"role": "tool", "content": "<user_cancellation>no</user_cancellation>", "tool_call_id": "c2", "injected": False},
    {"role": "tool", "content": "3", "tool_call_id": "c3", "injected": False, "tool_result": {"output": {}, "duration": 0.5}},
    {"role": "user", "content": "! ls", "injected": False, "message_id": "d", "manual_shell": {"command": "ls", "exit_code": 0}},
    {"role": "user", "content": "So far", "injected": True, "message_id": "e", "context_boundary": "compaction"},
    {"role": "assistant", "content": [{"type": "hologram"}], "message_id": "f"},
    {"role": "oracle", "content": "?", "message_id": "g"},
]  # fmt: skip
VIBE_FOLDER = {
    "session": VIBE,
    "meta": {"session_id": "v1", "start_time": T.format(0), "end_time": T.format(9), "git_branch": "main",
             "environment": {"working_directory": "/w"}, "config": {"active_model": "devstral"},
             "stats": {"session_prompt_tokens": 150, "session_cached_tokens": 60, "session_completion_tokens": 9},
             "child_sessions": [{"session_id": "v2", "tool_call_id": "c3", "agent": "explore", "relative_path": "agents/explore_1"}]},
    "child": [{"role": "user", "content": "Count", "message_id": "x"}, {"role": "assistant", "content": "3", "message_id": "y"}],
}  # fmt: skip


def as_vibe(folder: Path, data: Any) -> Path:
    session = folder / "session" / "session_20260301_100000_v1"
    _put(session / "meta.json", data.get("meta"), is_document=True)
    _put(session / "agents" / "explore_1" / "meta.json", {"session_id": "v2"}, is_document=True)
    _put(session / "agents" / "explore_1" / "messages.jsonl", data.get("child"))
    return _put(session / "messages.jsonl", data.get("session"))


def _goose(at: int, role: str, *content: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"id": f"m{at}", "role": role, "created": MS // 1000 + at, "content": list(content), "metadata": metadata}


def _request(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    call = {"status": "success", "value": {"name": name, "arguments": arguments}}
    return {"type": "toolRequest", "id": call_id, "toolCall": call}


def _response(call_id: str, text: str, **more: Any) -> dict[str, Any]:
    result = {"status": "success", "value": {"content": [{"type": "text", "text": text}], **more}}
    return {"type": "toolResponse", "id": call_id, "toolResult": result}


GOOSE_MESSAGES = [
    _goose(1, "user", {"type": "text", "text": "Fix it"}, {"type": "image", "data": "x", "mimeType": "image/png"}),
    _goose(2, "assistant", {"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "I look."},
           _request("c1", "developer__shell", command="ls"),
           _request("c2", "developer__text_editor", command="str_replace", path="/w/a", old_str="1", new_str="2"),
           _request("c3", "github__list", page=1)),
    _goose(3, "user", _response("c1", "no", isError=True),
           {"type": "toolResponse", "id": "c2", "toolResult": {"status": "error", "error": "The user has declined to run this tool."}},
           {"type": "toolResponse", "id": "c3", "toolResult": {"status": "success", "value": [{"type": "text", "text": "one"}]}}),
    _goose(4, "assistant", {"type": "text", "text": "So far"}, userVisible=False, agentVisible=True),
    _goose(5, "user", {"type": "text", "text": "go on"}, userVisible=False),
    _goose(6, "assistant", {"type": "hologram"}, {"type": "systemNotification", "msg": "x"}),
    _goose(7, "oracle", {"type": "text", "text": "?"}),
]  # fmt: skip
GOOSE = [
    {"description": "T", "working_dir": "/w", "message_count": 7, "total_tokens": 159, "input_tokens": 10, "output_tokens": 1,
     "accumulated_input_tokens": 150, "accumulated_output_tokens": 9},
    *GOOSE_MESSAGES,
]  # fmt: skip
GOOSE_TABLES = {
    "sessions": "id TEXT, name TEXT, session_type TEXT, working_dir TEXT, created_at TIMESTAMP, updated_at TIMESTAMP, "
    "accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER, provider_name TEXT, model_config_json TEXT",
    "messages": "id INTEGER, message_id TEXT, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT",
}
GOOSE_DATABASE = {
    "sessions": [{"id": "20260301_1", "session_type": "user", "working_dir": "/w", "created_at": "2026-03-01 10:00:00",
                  "updated_at": "2026-03-01 10:00:09", "accumulated_input_tokens": 150, "accumulated_output_tokens": 9,
                  "model_config_json": {"model_name": "m-1"}}],
    "messages": [
        {"id": n, "session_id": "20260301_1", "role": one["role"], "content_json": one["content"], "created_timestamp": one["created"],
         "metadata_json": one["metadata"]} for n, one in enumerate(GOOSE_MESSAGES, 1)],
}  # fmt: skip


def as_goose(folder: Path, data: Any) -> Path:
    return as_database(folder / "goose" / "sessions" / "sessions.db", GOOSE_TABLES, data)


TERMINAL_SAMPLES: dict[str, tuple[str, Any, Callable[[Path, Any], Path]]] = {
    "kimi-code-lines": ("kimi-code", KIMI, as_lines),
    "kimi-code-folder": ("kimi-code", KIMI_AGENTS, as_logs),
    "crush-database": ("crush", CRUSH, as_crush),
    "openclaw-database": ("openclaw", OPENCLAW, as_openclaw),
    "grok-build-lines": ("grok-build", GROK, as_lines),
    "grok-build-folder": ("grok-build", GROK_FOLDER, as_grok),
    "mistral-vibe-lines": ("mistral-vibe", VIBE, as_lines),
    "mistral-vibe-folder": ("mistral-vibe", VIBE_FOLDER, as_vibe),
    "goose-lines": ("goose", GOOSE, as_lines),
    "goose-database": ("goose", GOOSE_DATABASE, as_goose),
    "gptme-lines": ("gptme", GPTME, as_lines),
    "hermes-document": ("hermes", HERMES, as_document),
    "hermes-database": ("hermes", HERMES_DATABASE, as_hermes),
}
