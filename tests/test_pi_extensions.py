"""The extensions that stand in place of a server and of hooks in Pi, run by Node as Pi loads them, beside a program that answers as told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from periplus.interop.agents import Site, agent_named
from periplus.interop.agents.config_files import Keeping, apply, plan_connect
from periplus.interop.hooks.events import kind_of, read_event

# A character of two bytes lies across an end of 64 KiB, at which a pipe is read in two pieces.
BRIEF = "é" * 40_000 + "." + "é" * 40_000
FAKE = """\
import json, os, sys

def note(*said):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps(said) + "\\n")

if sys.argv[1] == "hook":
    said = json.load(sys.stdin)
    note(sys.argv[2], said)
    out = {}
    if sys.argv[2] == "SessionStart": out = {"additionalContext": "é" * 40_000 + "." + "é" * 40_000}
    if sys.argv[2] == "PreToolUse" and said["tool_name"] == "read": out = {"additionalContext": "of a.py"}
    if sys.argv[2] == "PreToolUse" and said["tool_name"] == "edit":
        decision = said["tool_input"]["path"]
        out = {"permissionDecision": decision, "permissionDecisionReason": f"claimed: {decision}"}
    said = json.dumps({"hookSpecificOutput": out}, ensure_ascii=False) if sys.argv[2] != "Stop" else "no JSON"
    sys.stdout.buffer.write(said.encode())
    sys.exit()
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method", "an answer")
    note(method, asked.get("params"))
    if method == "notifications/initialized":
        print("no JSON", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}), sep="\\n", flush=True)
    if "id" not in asked or "error" in asked or (name := asked.get("params", {}).get("name")) == "slow":
        continue
    if name == "die":
        sys.exit(3)
    tools = [{"name": name, "description": f"It can {name}", "inputSchema": {"type": "object"}} for name in ("recall", "fail", "slow", "die")]
    answer = {"tools": tools, "content": [{"type": "text", "text": f"{name}!"}, {"type": "image"}], "isError": name == "fail"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
DRIVER = """\
import server from "./server.mjs"
import hooks from "./hooks.mjs"

const tools = {}
const handlers = {}
const sent = []
const pi = {
  on: (name, handler) => (handlers[name] ??= []).push(handler),
  registerTool: (tool) => (tools[tool.name] = tool),
  sendMessage: (message, options) => sent.push([message.content, options.deliverAs]),
}
await server(pi)
await hooks(pi)
const asked = []
const ctx = {
  cwd: process.cwd(),
  model: { id: "m" },
  hasUI: true,
  ui: { confirm: async (title, text) => (asked.push(text), false) },
  sessionManager: { getSessionId: () => "s1", getSessionFile: () => "/s1.jsonl" },
}
const emit = async (name, event = {}) => (await Promise.all(handlers[name].map((one) => one(event, ctx)))).find(Boolean)
const call = async (name, signal) => {
  try {
    return (await tools[`periplus_${name}`].execute("c", { question: "why" }, signal)).content
  } catch (error) {
    return `Error: ${error.message}`
  }
}

await emit("session_start", { reason: "startup" })
const said = [await emit("before_agent_start", { prompt: "do it" }), await emit("before_agent_start", { prompt: "again" })]
const tool = (toolName, path) => emit("tool_call", { toolName, toolCallId: "c1", input: { path } })
const calls = [await tool("ls", "a.py"), await tool("read", "a.py"), await tool("edit", "deny"), await tool("edit", "ask")]
ctx.hasUI = false
calls.push(await tool("edit", "ask"))
await emit("tool_result", { toolName: "bash", toolCallId: "c2", input: {}, isError: false, content: [{ type: "text", text: "a.py" }] })
await emit("tool_result", { toolName: "bash", toolCallId: "c3", input: {}, isError: true, content: [{ type: "text", text: "exit 2" }] })
await emit("agent_end")
const names = Object.keys(tools)
const results = []
if (names.length) {
  const stop = new AbortController()
  const slow = call("slow", stop.signal)
  setTimeout(() => stop.abort(), 1)
  results.push(await call("recall"), await call("fail"), await slow, await call("die"), await call("recall"))
}
await emit("session_shutdown", { reason: "quit" })
console.log(JSON.stringify({ said, calls, asked, sent, names, results }))
"""


@pytest.fixture
def run(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    program = tmp_path / "a b/periplus"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{FAKE}", "utf-8")
    program.chmod(0o755)
    paths = [os.fspath(tmp_path / name) for name in ("project", "home", "config", "codex")]
    (tmp_path / "project").mkdir()
    site = Site("project", *paths, False, (os.fspath(program),), "Rules.\n", "Elsewhere.\n")
    keeping = Keeping(os.fspath(tmp_path / "kept"))
    apply(plan_connect(site, [agent_named("pi")], keeping), keeping)
    for name in ("server", "hooks"):
        shutil.copy(tmp_path / f"project/.pi/extensions/periplus-{name}.ts", tmp_path / f"{name}.mjs")
    (tmp_path / "run.mjs").write_text(DRIVER)

    def run(*, is_there=True):
        if not is_there:
            program.unlink()
        env = {**os.environ, "NOTES": os.fspath(tmp_path / "notes")}
        words = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True, "timeout": 60, "check": True}
        done = json.loads(subprocess.run([node, "run.mjs"], **words).stdout)
        notes = (tmp_path / "notes").read_text().splitlines() if is_there else []
        return done, [json.loads(line) for line in notes]

    return run


def test_the_server_is_asked_by_tools_of_pi(run):
    done, notes = run()
    assert done["names"] == [f"periplus_{name}" for name in ("recall", "fail", "slow", "die")]
    recalled = [{"type": "text", "text": "recall!"}]
    cancelled, died = "Error: cancelled", "Error: Periplus has ended"
    assert done["results"] == [recalled, "Error: fail!", cancelled, died, recalled]
    methods = [method for method, _ in notes if "/" in method or method == "initialize"]
    assert methods.count("initialize") == 2, "started again after it ended"
    assert ["tools/call", {"name": "recall", "arguments": {"question": "why"}}] in notes
    assert "notifications/cancelled" in methods
    assert ["an answer", None] in notes, "to what Pi cannot do"


def test_hooks_are_told_and_answer(run):
    done, notes = run()
    assert [one and one["message"]["content"] for one in done["said"]] == [BRIEF, None]
    assert done["sent"] == [["of a.py", "steer"]]
    refused = [{"block": True, "reason": f"claimed: {one}"} for one in ("deny", "ask")]
    assert done["calls"] == [None, None, *refused, None], "nobody can be asked without a screen"
    assert done["asked"] == ["claimed: ask"]
    told = [(name, said) for name, said in notes if name[0].isupper()]
    assert [name for name, _ in told] == [
        "SessionStart", "UserPromptSubmit", "UserPromptSubmit", *4 * ["PreToolUse"], "PostToolUse", "PostToolUseFailure",
        "Stop", "SessionEnd",
    ]  # fmt: skip
    for name, said in told:
        event = read_event("pi", name, said, 0, lambda text: (text, 0))
        assert (event.kind, event.session, event.transcript) == (kind_of(name), "s1", "/s1.jsonl")
    assert told[-4][1]["tool_response"] == "a.py"
    assert told[-3][1]["error"] == "exit 2"


def test_without_periplus_pi_is_undisturbed(run):
    done, _ = run(is_there=False)
    assert done == {"said": [None, None], "calls": 5 * [None], "asked": [], "sent": [], "names": [], "results": []}
