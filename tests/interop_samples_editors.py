"""Samples of sessions of agents in editors: the name of a sample, its format, its data, and how to write that down."""

from __future__ import annotations

__all__ = ["EDITOR_SAMPLES"]

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

T = "2026-03-01T10:00:0{}.000Z"
MS = 1772359200000


def _written(name: str, *, is_lines: bool = False) -> Callable[[Path, Any], Path]:
    def as_lines(folder: Path, records: Any) -> Path:
        path = folder / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
        return path

    def as_document(folder: Path, document: Any) -> Path:
        path = folder / name
        path.write_text(json.dumps(document, indent=1), "utf-8")
        return path

    return as_lines if is_lines else as_document


def _uri(path: str) -> dict[str, Any]:
    return {"$mid": 1, "fsPath": path, "external": f"file://{path}", "path": path, "scheme": "file"}


def _invocation(call_id: str, tool: str, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "toolInvocationSerialized", "toolCallId": call_id, "toolId": tool, "isConfirmed": {"type": 1}, "isComplete": True,
        "source": {"type": "internal", "label": "Built-In"}, "invocationMessage": {"value": f"Using {tool}"}, **fields,
    }  # fmt: skip


def _tree(*texts: str) -> dict[str, Any]:
    leaves = [{"type": 2, "text": text, "lineBreakBefore": True} for text in texts]
    return {"$mid": 20, "content": [{"$mid": 23, "value": {"node": {"type": 1, "ctor": 2, "children": leaves}}}]}


CHAT_REQUESTS = [
    {
        "requestId": "request_1", "timestamp": MS, "modelId": "copilot/claude-sonnet-4",
        "message": {"text": "Mend it", "parts": [{"kind": "text", "text": "Mend it"}]},
        "variableData": {"variables": [{"kind": "file", "id": "file:///w/a.ts", "name": "a.ts", "value": _uri("/w/a.ts")}]},
        "agent": {"id": "github.copilot.editsAgent", "extensionVersion": "0.31.5"},
        "response": [
            {"value": "I look at ", "baseUri": _uri("/w/")},
            {"kind": "inlineReference", "inlineReference": _uri("/w/a.ts")},
            {"kind": "undoStop", "id": "u1"},
            _invocation("t1", "copilot_readFile"), _invocation("t2", "copilot_replaceString", isConfirmed={"type": 0}),
            _invocation("s1", "copilot_findTextInFiles", subAgentInvocationId="t4", pastTenseMessage="Searched, no results"),
            {"kind": "textEditGroup", "uri": _uri("/w/a.ts"), "edits": [[{"text": "b", "range": {"startLineNumber": 1}}]]},
            {"kind": "hologram"},
        ],
        "result": {
            "timings": {"firstProgress": 9, "totalElapsed": 90},
            "metadata": {
                "sessionId": "inner", "promptTokens": 120, "outputTokens": 7,
                "toolCallRounds": [
                    {"id": "r1", "response": "I look at it.", "thinking": {"id": "th", "text": ["hm, ", "so"]}, "timestamp": MS + 1000,
                     "toolCalls": [
                         {"id": "t1", "name": "read_file", "arguments": '{"filePath": "/w/a.ts", "startLine": 1, "endLine": 9}'},
                         {"id": "t2", "name": "replace_string_in_file",
                          "arguments": '{"filePath": "/w/a.ts", "oldString": "a", "newString": "b"}'},
                         {"id": "t3", "name": "run_in_terminal", "arguments": '{"command": "npm test", "isBackground": false}'},
                         {"id": "t4", "name": "runSubagent", "arguments": '{"prompt": "Search it", "description": "search"}'},
                     ]},
                    {"id": "r2", "response": "It is mended.", "summary": "read and mended", "toolCalls": []},
                ],
                "toolCallResults": {
                    "t1": _tree("line 1", "line 2"),
                    "t2": {"content": [{"$mid": 21, "value": "The user cancelled the tool call."}]},
                    "t3": {"content": [{"$mid": 21, "value": "1 failed\nCommand exited with code 1"}]},
                    "t4": {"content": [{"$mid": 21, "value": "nothing"}]},
                },
            },
        },
        "novelty": 1,
    },
    {
        "requestId": "request_2", "timestamp": MS + 9000, "message": "And the rest", "variableData": {"variables": [
            {"kind": "image", "id": "i1", "name": "a.png"}, {"kind": "file", "id": "vscode.implicit.selection"}]},
        "response": [
            {"kind": "thinking", "value": "hm", "id": "x"}, {"value": "I run it."},
            _invocation("p1", "run_in_terminal", toolSpecificData={
                "kind": "terminal", "commandLine": {"original": "ls"}, "cwd": _uri("/w"), "language": "sh",
                "terminalCommandState": {"exitCode": 2, "duration": 40}, "terminalCommandOutput": {"text": "no such file"}}),
            _invocation("p2", "mcp_shop_list", source={"type": "mcp", "label": "shop"},
                        resultDetails={"input": '{"limit": 3}', "output": [{"isText": True, "value": "three"}], "isError": False}),
            _invocation("p3", "manage_todo_list", toolSpecificData={"kind": "todoList", "todoList": [{"id": "1", "title": "x"}]}),
            _invocation("p4", "runSubagent", toolSpecificData={"kind": "subagent", "prompt": "Go", "result": "gone"}),
            _invocation("p5", "copilot_readFile", invocationMessage={"value": "Reading", "uris": {"file:///w/a": _uri("/w/a")}},
                        resultDetails=[_uri("/w/a")]),
            _invocation("p6", "copilot_createFile", isComplete=False, isConfirmed=False),
            {"kind": "textEditGroup", "uri": _uri("/w/b.ts"), "edits": [[{"text": "c", "range": {"endLineNumber": 3}}], []]},
            {"value": "\n```\n"},
        ],
        "modelState": {"value": 3, "completedAt": MS + 9900}, "result": {"errorDetails": {"message": "quota", "code": "quotaExceeded"}},
        "usage": {"promptTokens": 50, "completionTokens": 4},
    },
]  # fmt: skip
CHAT = {
    "version": 3, "requesterUsername": "ada", "responderUsername": "GitHub Copilot", "initialLocation": "panel",
    "requests": CHAT_REQUESTS,
    "sessionId": "5b1f0000-0000-4000-8000-000000000001", "creationDate": MS - 1000, "customTitle": "Mending the till", "brandNew": True,
}  # fmt: skip
CHAT_LOG = [
    {"kind": 0, "v": {"version": 3, "creationDate": MS - 1000, "sessionId": "5b1f0000-0000-4000-8000-000000000002", "requests": [],
                      "responderUsername": "GitHub Copilot", "inputState": {"selectedModel": {"identifier": "copilot/gpt-5"}}}},
    {"kind": 1, "k": ["inputState", "inputText"], "v": "Mend"},
    {"kind": 2, "k": ["requests"], "v": [CHAT_REQUESTS[0]]},
    {"kind": 1, "k": ["customTitle"], "v": "Mending the till"},
    {"kind": 1, "k": ["inputState", "selectedModel"], "v": {"identifier": "copilot/gpt-6"}},
    {"kind": 2, "k": ["requests"], "v": [{**CHAT_REQUESTS[1], "response": [], "modelState": {"value": 0}}]},
    {"kind": 2, "k": ["requests", 1, "response"], "v": [{"value": "I ru"}]},
    {"kind": 2, "k": ["requests", 1, "response"], "i": 0, "v": CHAT_REQUESTS[1]["response"]},
    {"kind": 1, "k": ["requests", 1, "modelState"], "v": {"value": 1, "completedAt": MS + 9900}},
    {"kind": 3, "k": ["requests", 1, "result"]},
    {"kind": 1, "k": ["requests", 7, "result"], "v": {}},
    {"kind": 9, "k": ["requests"]},
]  # fmt: skip
CHAT_STREAM = [
    {"type": "session.start", "timestamp": T.format(0), "id": "e0", "parentId": None, "data": {
        "sessionId": "c1", "version": 1, "producer": "copilot-agent", "copilotVersion": "0.47.0", "vscodeVersion": "1.119.0"}},
    {"type": "user.message", "timestamp": T.format(1), "id": "e1", "data": {"content": "Add a comment", "attachments": []}},
    {"type": "assistant.message", "timestamp": T.format(2), "id": "e2", "data": {"content": "I read it.", "toolRequests": [
        {"toolCallId": "t1", "name": "read_file", "arguments": '{"filePath": "/w/a.ts", "startLine": 1, "endLine": 40}'}]}},
    {"type": "tool.execution_start", "timestamp": T.format(3), "id": "e3", "data": {
        "toolCallId": "t1", "toolName": "read_file", "arguments": {"filePath": "/w/a.ts"}}},
    {"type": "tool.execution_complete", "timestamp": T.format(4), "id": "e4", "data": {"toolCallId": "t1", "success": True}},
    {"type": "assistant.dreamed", "timestamp": T.format(5), "id": "e5", "data": {"content": "?"}},
    {"type": "assistant.message", "timestamp": T.format(6), "id": "e6", "data": {"content": "Now I edit.", "toolRequests": []}},
    {"type": "assistant.message", "timestamp": T.format(7), "id": "e7", "data": {"content": "Done.", "toolRequests": []}},
]  # fmt: skip

EDITOR_SAMPLES: dict[str, tuple[str, Any, Callable[[Path, Any], Path]]] = {
    "copilot-chat": ("copilot-chat", CHAT, _written("session.json")),
    "copilot-chat-log-lines": ("copilot-chat", CHAT_LOG, _written("session.jsonl", is_lines=True)),
    "copilot-chat-stream": ("copilot-chat", CHAT_STREAM, _written("stream.jsonl", is_lines=True)),
}
