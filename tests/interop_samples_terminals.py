"""Samples of the sessions of agents in a terminal, merged into those of ``interop_samples``: format, data, and how to write it down."""

from __future__ import annotations

__all__ = ["TERMINAL_SAMPLES"]

import json
from collections.abc import Callable
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

TERMINAL_SAMPLES: dict[str, tuple[str, Any, Callable[[Path, Any], Path]]] = {
    "kimi-code-lines": ("kimi-code", KIMI, as_lines),
    "kimi-code-folder": ("kimi-code", KIMI_AGENTS, as_logs),
}
