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


def _task(*folders: str) -> Callable[[Path, Any], Path]:
    """Write a task's folder: the conversation, the display, and facts."""

    def as_task(folder: Path, data: Any) -> Path:
        inner = folder.joinpath(*folders)
        inner.mkdir(parents=True, exist_ok=True)
        names = {
            "history": "api_conversation_history",
            "display": "ui_messages",
            "facts": "task_metadata",
            "item": "history_item",
        }
        for name, file in names.items():
            (inner / f"{file}.json").unlink(missing_ok=True)
            if isinstance(data, dict) and name in data:
                (inner / f"{file}.json").write_text(json.dumps(data[name], indent=1), "utf-8")
        return inner / "api_conversation_history.json"

    return as_task


DETAILS = (
    "<environment_details>\n# VSCode Visible Files\na.py\n\n# Current Working Directory (/w/shop) Files\na.py\nb.py\n\n# Current Mode\nACT MODE\n"
    "</environment_details>"
)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _request(at: int, **told: Any) -> dict[str, Any]:
    return {"ts": MS + at, "type": "say", "say": "api_req_started", "text": json.dumps({"request": "…", **told})}


# As Cline wrote it until 2025, and others still do for models without calls of tools.
TASK_IN_XML = {
    "history": [
        {"role": "user", "content": [_text("<task>\nMend the till\n</task>"), _text(DETAILS)]},
        {"role": "assistant", "content": [_text(
            "<thinking>\nFirst read.\n</thinking>\nI read it with <read_file> now.\n\n<read_file>\n<path>a.py</path>\n</read_file>")]},
        {"role": "user", "content": [_text("[read_file for 'a.py'] Result:"), _text("x = 1\n</content> and <path>"), _text(DETAILS)]},
        {"role": "assistant", "content": [_text(
            "<write_to_file>\n<path>b.py</path>\n<content>\nprint('</content>')\n</content>\n<line_count>1</line_count>\n</write_to_file>")]},
        {"role": "user", "content": [
            _text("[write_to_file for 'b.py'] Result:\nThe user denied this operation and provided the following feedback:\n"
                  "<feedback>\nNot that file\n</feedback>"), {"type": "image", "source": {"type": "base64", "data": "x"}}]},
        {"role": "assistant", "content": [_text(
            "<replace_in_file>\n<path>a.py</path>\n<diff>\n------- SEARCH\nx = 1\n=======\nx = 2\n+++++++ REPLACE\n\n<<<<<<< SEARCH\ny\n=======\n"
            ">>>>>>> REPLACE\n</diff>\n</replace_in_file>")]},
        {"role": "user", "content": [_text("[replace_in_file for 'a.py'] Result:\nThe content was saved.\n" + DETAILS)]},
        {"role": "assistant", "content": [_text(
            "<execute_command>\n<command>pytest -q</command>\n<requires_approval>false</requires_approval>\n</execute_command>")]},
        {"role": "user", "content": [_text("[execute_command for 'pytest -q'] Result:"), _text("Command failed. Exit code: 1\nOutput:\n1 failed")]},
        {"role": "assistant", "content": [_text(
            '<ask_followup_question>\n<question>Which till?</question>\n<options>["a"]</options>\n</ask_followup_question>')]},
        {"role": "user", "content": [_text("[ask_followup_question for 'Which till?'] Result:\n<answer>\nthe old one\n</answer>")]},
        {"role": "assistant", "content": [_text(
            '<use_mcp_tool>\n<server_name>shop</server_name>\n<tool_name>list</tool_name>\n<arguments>\n{"limit": 3}\n</arguments>\n</use_mcp_tool>')]},
        {"role": "user", "content": [
            _text("[use_mcp_tool for 'shop'] Result:\nThe tool execution failed with the following error:\n<error>\nno\n</error>")]},
        {"role": "assistant", "content": "I only talk."},
        {"role": "user", "content": [_text("[ERROR] You did not use a tool in your previous response!"), {"type": "hologram"}]},
        {"role": "assistant", "content": [_text("<plan_mode_respond>\n<response>A plan.</response>\n</plan_mode_respond>")]},
        {"role": "user", "content": [_text("[plan_mode_respond] Result:\n<user_message>\nDo it\n</user_message>")]},
        {"role": "assistant", "content": [_text("<attempt_completion>\n<result>\nMended.\n</result>\n</attempt_completion>")]},
        {"role": "oracle", "content": "?"},
    ],
    "display": [
        {"ts": MS, "type": "say", "say": "text", "text": "Mend the till"},
        _request(1000, tokensIn=10, tokensOut=5, cacheWrites=100, cacheReads=0, cost=0.25),
        {"ts": MS + 2000, "type": "say", "say": "reasoning", "text": "First read."},
        *(_request(10_000 * at, tokensIn=3, tokensOut=2, cacheWrites=1, cacheReads=100) for at in range(1, 8)),
        {"ts": MS + 90_000, "type": "ask", "ask": "completion_result", "text": ""},
        _request(95_000, tokensIn=1),
        _request(99_000, cancelReason="user_cancelled"),
    ],
    "facts": {"files_in_context": [], "model_usage": [{"ts": MS, "model_id": "claude-x", "model_provider_id": "p", "mode": "act"}],
              "environment_history": [{"ts": MS, "cline_version": "3.40"}]},
}  # fmt: skip
# As Roo Code writes it now, and Cline for models with calls of tools.
TASK_NATIVE = {
    "history": [
        {"role": "user", "ts": MS, "content": [_text("<user_message>\nMend the till\n</user_message>"),
                                               _text(DETAILS.replace("Working", "Workspace"))]},
        {"role": "assistant", "type": "reasoning", "ts": MS + 4000, "summary": [{"type": "summary_text", "text": "I think."}]},
        {"role": "assistant", "ts": MS + 5000, "reasoning_content": "hm", "content": [
            _text("I look."), {"type": "thinking", "thinking": "so"},
            {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"files": [{"path": "a.py", "line_ranges": [[1, 9]]}, {"path": "b.py"}]}},
            {"type": "tool_use", "id": "t2", "name": "apply_diff", "input": {
                "path": "a.py", "diff": "<<<<<<< SEARCH\n:start_line:3\n-------\nx\n=======\ny\n>>>>>>> REPLACE"}},
            {"type": "tool_use", "id": "t3", "name": "execute_command", "input": {"command": "ls", "cwd": "/w"}},
            {"type": "tool_use", "id": "t4", "name": "mcp--shop--list", "input": {"limit": 3}},
            {"type": "tool_use", "id": "t5", "name": "new_task", "input": {"mode": "code", "message": "Count them"}},
            {"type": "tool_use", "id": "t6", "name": "update_todo_list", "input": {"todos": "[x] read\n[ ] mend"}}]},
        {"role": "user", "ts": MS + 6000, "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "File: a.py\n1 | x"},
            {"type": "tool_result", "tool_use_id": "t2", "content": '{"status": "denied", "feedback": "Not yet"}'},
            {"type": "tool_result", "tool_use_id": "t3", "content": [_text("Command executed. Exit code: 0\nOutput:\na.py")]},
            {"type": "tool_result", "tool_use_id": "t4", "content": '{"status": "error", "message": "no"}'},
            {"type": "tool_result", "tool_use_id": "t5", "content": "3", "is_error": True},
            {"type": "tool_result", "tool_use_id": "t9", "content": "?"}, _text(DETAILS)]},
        {"role": "user", "isSummary": True, "ts": MS + 6500, "content": [_text("It was about a till.")]},
        {"role": "assistant", "isTruncationMarker": True, "content": "cut", "ts": MS + 6600},
        {"role": "assistant", "ts": MS + 7000, "modelInfo": {"modelId": "m-2"}, "content": [
            {"type": "tool_use", "id": "t7", "name": "attempt_completion", "input": {"result": "Mended."}}, {"type": "hologram"}]},
    ],
    "display": [
        _request(1000, apiProtocol="anthropic", tokensIn=130, tokensOut=5, cacheWrites=20, cacheReads=100, cost=0.5),
        _request(6200, apiProtocol="anthropic", tokensIn=4, tokensOut=2, cacheWrites=10, cacheReads=120),
        _request(6900, apiProtocol="openai", tokensIn=50, tokensOut=1, cacheReads=40),
    ],
    "item": {"id": "0193e0c7-0000-7000-8000-000000000001", "number": 1, "ts": MS, "task": "Mend the till", "tokensIn": 9, "tokensOut": 1,
             "totalCost": 0, "workspace": "/w/shop", "mode": "code"},
}  # fmt: skip


def _event(kind: str, status: str = "done", **facts: Any) -> dict[str, Any]:
    return {"status": status, "type": kind, kind: facts}


WINDSURF = [
    _event("user_input", user_response="Mend the till"),
    _event("planner_response", response="I look.", thinking="hm"),
    _event("view_file", path="file:///w/a%20b.py", start_line=0, end_line=8, content="1: x"),
    _event("code_action", acknowledgement_type="ACKNOWLEDGEMENT_TYPE_REJECT", path="file:///w/a.py", new_content="y", original_content="x"),
    _event("run_command", command="pytest -q", cwd="/w", exit_code=1, output="1 failed", user_rejected=False),
    _event("run_command", command="rm -r x", cwd="/w", user_rejected=True),
    _event("grep_search", query="till", search_path="file:///w", total_results=0),
    _event("find", pattern="*.py", search_directory="/w", output="/w/a.py", total_results=1),
    _event("list_directory", path="file:///w"),
    _event("list_resources", "error", server_name="memory"),
    _event("mcp_tool", server_name="shop", tool_name="list", arguments={"limit": 3}, result=[{"text": "three"}]),
    _event("search_web", query="tills", summary="many"),
    _event("checkpoint"), _event("oracle", "dreaming", thought="?"),
    {"status": "done", "type": "hologram"},
    _event("planner_response", "canceled", response="Mended, almost."),
    _event("run_command", "running", command="sleep 9", cwd="/w"),
]  # fmt: skip


def _step(index: int, kind: str, source: str = "MODEL", **fields: Any) -> dict[str, Any]:
    return {
        "step_index": index,
        "source": source,
        "type": kind,
        "status": "DONE",
        "created_at": T.format(index % 10),
        **fields,
    }


def _ask(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": {key: json.dumps(value) for key, value in arguments.items()}}


ANTIGRAVITY = [
    _step(0, "USER_INPUT", "USER_EXPLICIT", content="<USER_REQUEST>\nMend the till\n</USER_REQUEST>\n<USER_SETTINGS_CHANGE>\nThe user "
          "changed setting `Model Selection` from None to Gemini 3.5 Flash (Medium).\n</USER_SETTINGS_CHANGE>"),
    _step(1, "CONVERSATION_HISTORY", "SYSTEM"),
    _step(2, "PLANNER_RESPONSE", thinking="First look.", content="I look.", tool_calls=[
        _ask("view_file", AbsolutePath="/w/a.py", StartLine=1, EndLine=9), _ask("run_command", CommandLine="pytest -q", Cwd="/w"),
        _ask("replace_file_content", TargetFile="/w/a.py", TargetContent="x", ReplacementContent="y"),
        _ask("multi_replace_file_content", TargetFile="/w/b.py", ReplacementChunks=[{"TargetContent": "1", "ReplacementContent": "2"}]),
        _ask("mcp_shop_list", limit=3), {"name": "find_by_name", "args": {"SearchDirectory": "/w", "Pattern": "*.py"}}]),
    _step(3, "VIEW_FILE", content="1: x", truncated_fields=["content"]),
    _step(4, "RUN_COMMAND", content="The command failed with exit code: 1\nOutput:\n1 failed"),
    _step(5, "CODE_ACTION", content="Created file"), _step(6, "CODE_ACTION", status="ERROR", content="no such text"),
    _step(6, "GENERIC", content="three"), _step(6, "GREP_SEARCH", content="a.py: till"), _step(6, "BROWSER_NAVIGATE", content="opened"),
    _step(7, "CHECKPOINT", "SYSTEM", content="# Resuming"), _step(7, "SYSTEM_MESSAGE", "SYSTEM", content="?"),
    _step(7, "HOLOGRAM", "SYSTEM", content="?"),
    _step(8, "PLANNER_RESPONSE", content="Mended.", status="DREAMING"), _step(9, "LIST_DIRECTORY", status="RUNNING", content=""),
]  # fmt: skip

EDITOR_SAMPLES: dict[str, tuple[str, Any, Callable[[Path, Any], Path]]] = {
    "copilot-chat": ("copilot-chat", CHAT, _written("session.json")),
    "copilot-chat-log-lines": ("copilot-chat", CHAT_LOG, _written("session.jsonl", is_lines=True)),
    "cline-task": ("cline", TASK_IN_XML, _task("saoudrizwan.claude-dev", "tasks", "1772359200000")),
    "roo-code": (
        "roo-code",
        TASK_NATIVE,
        _task("rooveterinaryinc.roo-cline", "tasks", "0193e0c7-0000-7000-8000-000000000001"),
    ),
    "kilo-code-task": (
        "kilo-code",
        TASK_NATIVE,
        _task("kilocode.kilo-code", "tasks", "0193e0c7-0000-7000-8000-000000000002"),
    ),
    "windsurf-lines": ("windsurf", WINDSURF, _written("session.jsonl", is_lines=True)),
    "antigravity-lines": ("antigravity", ANTIGRAVITY, _written("session.jsonl", is_lines=True)),
    "copilot-chat-stream": ("copilot-chat", CHAT_STREAM, _written("stream.jsonl", is_lines=True)),
}
