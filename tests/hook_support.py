"""Real recorded sessions as what the hooks of the same session would have been given on standard input."""

from __future__ import annotations

__all__ = ["TRANSCRIPTS", "hook", "hook_command", "told_by"]

import json
import os
import subprocess
import sys
from pathlib import Path

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "shared" / "transcripts" / "claude-code-jsonl"
_NOT_TYPED = ("<", "[Request interrupted", "Caveat: ")


def hook_command(*words):
    return [sys.executable, "-c", "from periplus.cli.entry import run; run()", "hook", *words]


def hook(event, document, *, cwd, agent="claude-code", environment=None, words=("--wait",), timeout=60):
    """Run the real command once; gives the finished process."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PERIPLUS_") and not name.endswith("_PROJECT_DIR")
    }
    env.update({"XDG_STATE_HOME": str(cwd), **(environment or {})})
    return subprocess.run(
        hook_command(event, "--agent", agent, *words),
        input=data,
        capture_output=True,
        cwd=cwd,
        env=env,
        timeout=timeout,
    )


def told_by(transcript):
    """The events of a session of Claude Code, from its own record: ``(event, document)`` in order; each in the folder in
    which it was. Commands that the program itself answered, such as /exit, reach no hook.
    """
    records = []
    for line in Path(transcript).read_text().splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    session = [one["sessionId"] for one in records if one.get("sessionId")][-1]
    common = {"session_id": session, "transcript_path": str(transcript), "permission_mode": "default"}
    calls = {}
    cwd = next((one["cwd"] for one in records if one.get("cwd")), "/nowhere")
    events = [("SessionStart", {"source": "startup", "cwd": cwd})]
    for record in records:
        message = record.get("message")
        if record.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue
        if record.get("isSidechain") or record.get("isMeta") or record.get("isCompactSummary"):
            continue
        cwd = record.get("cwd") or cwd
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
                events.append(("PreToolUse", {**_of_call(block), "cwd": cwd}))
            elif block["type"] == "tool_result":
                name, fields = _result(record, block, calls[block["tool_use_id"]])
                events.append((name, {**fields, "cwd": cwd}))
            elif block["type"] == "text" and record["type"] == "user" and not block["text"].startswith(_NOT_TYPED):
                events.append(("UserPromptSubmit", {"prompt": block["text"], "cwd": cwd}))
    events += [("Stop", {"stop_hook_active": False, "cwd": cwd}), ("SessionEnd", {"reason": "other", "cwd": cwd})]
    return [(name, {**common, "hook_event_name": name, **fields}) for name, fields in events]


def _of_call(call):
    return {"tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["id"]}


def _result(record, block, call):
    answer = record.get("toolUseResult", block.get("content"))
    if block.get("is_error"):
        text = block["content"] if isinstance(block["content"], str) else block["content"][0]["text"]
        text = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
        return "PostToolUseFailure", {**_of_call(call), "error": text, "is_interrupt": False}
    return "PostToolUse", {**_of_call(call), "tool_response": answer}
