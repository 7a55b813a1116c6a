"""Real sessions of OpenHands, SWE-agent, mini-swe-agent, Gemini CLI and opencode: counted here with plain json, and compared."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from interop_support import SHARED, named, plain, read, steps_of
from periplus.trail.format.reader import TrailReader
from periplus.trail.opcodes import opcode_name

pytestmark = pytest.mark.quick


def real(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"real transcripts are not beside the repository: no file {path}")
    return path


def agrees(imported, expected, *, model_calls=0):
    counts = imported.counts
    for name in ("prompts", "says", "comments", "tools", "paired"):
        assert counts["tools_paired" if name == "paired" else name] == expected[name], name
    assert counts["model_calls"] == model_calls
    # Each call of these files became one step.
    assert counts["steps"] == sum(expected[name] for name in ("prompts", "says", "comments", "tools")) + model_calls
    assert imported.unknown == {}
    assert imported.unreadable_lines == []
    sources = [step.source for step in steps_of(imported)]
    assert all(sources)


def gemini_counts(messages):
    counts, seen = Counter(), set()
    for message in messages:
        content = message.get("content") or message.get("parts") or ""
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        if message["type"] == "user":
            counts["prompts"] += 1
        elif message["type"] in ("gemini", "model"):
            counts["says"] += bool(text)
            counts["comments"] += len(message.get("thoughts", []))
            counts["models"] += "tokens" in message
            for call in message.get("toolCalls", []):
                assert call["id"] not in seen
                seen.add(call["id"])
                counts["tools"] += 1
                counts["paired"] += "result" in call
    return counts


@pytest.mark.parametrize(
    "name", ["gemini-session-simple.jsonl", "agent-sessions/jsonl_v040.jsonl", "agent-sessions/small.json", "agent-sessions/large.json"]
)  # fmt: skip
def test_gemini_cli(name):
    path = real(f"gemini-cli/{name}")
    text = path.read_text("utf-8")
    if name.endswith(".jsonl"):
        messages = [record for record in map(json.loads, text.splitlines()) if "type" in record]
    else:
        messages = json.loads(text)["messages"]
    expected = gemini_counts(messages)
    agrees(read(path), expected, model_calls=expected["models"])


def test_gemini_cli_knows_how_commands_ended():
    imported = read(real("gemini-cli/agent-sessions/large.json"))
    assert [(step.outcome, step.exit_code) for step in named(imported, "COMMAND_RUN")] == [("ok", 0), ("failed", 1)]
    assert imported.tokens == (100, 0, 10)
    cached = read(real("gemini-cli/agent-sessions/jsonl_v040.jsonl"))
    assert cached.tokens == (11855 + 12069 - 11502, 11502, 81 + 147)


def test_openhands_evaluation():
    path = real("openhands/v0-ponylang__ponyc-4595.jsonl")
    record = json.loads(path.read_text("utf-8"))
    history = record["history"]
    actions = [event for event in history if "action" in event]
    calls = [event for event in actions if event["action"] in ("run", "read", "edit")]
    causes = {event["cause"] for event in history if "observation" in event}
    responses = {
        event["tool_call_metadata"]["model_response"]["id"] for event in actions if "tool_call_metadata" in event
    }
    thoughts = [event["args"].get("thought") for event in calls] + [actions[-1]["args"]["final_thought"]]
    expected = Counter(
        prompts=1, comments=sum(event["action"] == "think" for event in actions), says=sum(map(bool, thoughts)),
        tools=len(calls), paired=sum(event["id"] in causes for event in calls),
    )  # fmt: skip
    imported = read(path)
    agrees(imported, expected, model_calls=len(responses))
    assert imported.tokens == (565158, 0, 2558) == (
        record["metrics"]["accumulated_token_usage"]["prompt_tokens"], 0,
        record["metrics"]["accumulated_token_usage"]["completion_tokens"],
    )  # fmt: skip
    exit_codes = [event["extras"]["metadata"]["exit_code"] for event in history if event.get("observation") == "run"]
    runs = [step for step in steps_of(imported) if opcode_name(step.code) in ("COMMAND_RUN", "SEARCH_CODE", "TEST_RUN")]
    assert [step.exit_code for step in runs] == exit_codes
    reader = TrailReader(imported.trail)
    assert reader.header.base.value.hex() == record["instance"]["base_commit"]
    assert reader.status == "partial"  # as the agent itself said


def test_openhands_events():
    path = real("openhands/v1-goal-events.jsonl")
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    ids = {event["id"] for event in events if event["kind"] == "ActionEvent"}
    observations = [event for event in events if event["kind"] == "ObservationEvent"]
    imported = read(path)
    agrees(imported, Counter(says=1, comments=2, tools=len(ids), paired=sum(o["action_id"] in ids for o in observations)),
           model_calls=4)  # fmt: skip
    assert imported.skipped["result without its call"] == sum(o["action_id"] not in ids for o in observations)
    stats = [event["value"] for event in events if event.get("key") == "stats"]
    usage = stats[-1]["usage_to_metrics"]["default"]["accumulated_token_usage"]
    cached = usage["cache_read_tokens"]
    assert imported.tokens == (usage["prompt_tokens"] - cached, cached, usage["completion_tokens"])


def test_openhands_state_without_events():
    imported = read(real("openhands/v1-base_state.json"))
    assert imported.counts["steps"] == 0
    assert imported.session_id == "11111111-2222-3333-4444-555555555555"
    assert imported.skipped == {"state without events beside it": 1}


@pytest.mark.parametrize("name", ["ctf__pwn__warmup.traj", ("replay__marshmallow-code__marshmallow-1867__function_calling"
                                  "__install-1__marshmallow-code__marshmallow-1867.traj")])  # fmt: skip
def test_swe_agent_trajectories(name):
    path = real(f"swe-agent-traj/{name}")
    document = json.loads(path.read_text("utf-8"))
    steps = document["trajectory"]
    imported = read(path)
    agrees(imported, Counter(prompts=1, says=len(steps), tools=len(steps), paired=len(steps)))
    (prompt,) = named(imported, "PROMPT")
    first = next(message for message in document["history"] if message["role"] == "user")
    assert imported.title in " ".join(first["content"].split()) or imported.title.endswith("…")
    assert prompt.outcome == "ok"
    done = [step for step in steps_of(imported) if opcode_name(step.code) not in ("PROMPT", "SAY")]
    assert [step.result_size for step in done] == [len(step["observation"].encode()) for step in steps]
    if "replay_config" in document:
        assert [step.duration_ms for step in done] == [round(step["execution_time"] * 1000) for step in steps]
        commit = document["replay_config"]["env"]["repo"]["base_commit"]
        assert TrailReader(imported.trail).header.base.value.hex() == commit


def test_swe_agent_demonstration():
    path = real("swe-agent-traj/function_calling_simple.traj")
    messages = json.loads(path.read_text("utf-8"))["history"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    results = [name for message in messages for name in message.get("tool_call_ids") or ()]
    imported = read(path)
    agrees(imported, Counter(prompts=1, says=5, tools=len(calls), paired=len(set(calls) & set(results))))
    assert [step[:2] for step in plain(imported) if step[0] == "FILE_EDIT"] == [
        ("FILE_EDIT", "/SWE-agent__test-repo/tests/missing_colon.py")
    ]
    assert imported.cwd == "/SWE-agent__test-repo"


def test_mini_swe_agent():
    imported = read(real("mini-swe-agent/local.traj.json"))
    agrees(imported, Counter(prompts=1, says=2, tools=2, paired=2))
    commands = named(imported, "COMMAND_RUN")
    assert [(step.operands[0], step.exit_code) for step in commands] == [
        ("echo 'hello world'", 0), ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", None)
    ]  # fmt: skip


def opencode_counts(messages, parts_of):
    counts = Counter()
    for message in messages:
        for part in parts_of(message["id"]):
            if part["type"] == "text":
                counts["prompts" if message["role"] == "user" else "says"] += 1
            elif part["type"] == "reasoning":
                counts["comments"] += 1
            elif part["type"] == "tool":
                counts["tools"] += 1
                counts["paired"] += part["state"]["status"] in ("completed", "success", "error")
    return counts


@pytest.mark.parametrize(("name", "model_calls"), [("small", 0), ("large", 1)])
def test_opencode_files(name, model_calls):
    path = real(f"opencode/agent-sessions/storage_v2/session/proj_test/ses_s_stage0_{name}.json")
    storage = path.parents[2]

    def documents(folder):
        return [json.loads(one.read_text("utf-8")) for one in sorted(folder.glob("*.json"))]

    expected = opencode_counts(
        documents(storage / f"message/s_stage0_{name}"), lambda m: documents(storage / "part" / m)
    )
    imported = read(path)
    agrees(imported, expected, model_calls=model_calls)
    (command,) = named(imported, "COMMAND_RUN")
    assert (command.exit_code, command.duration_ms) == ((0, 500) if name == "small" else (1, 500))


def test_opencode_database():
    path = real("opencode/opencode.db")
    before = {one.name: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection, connection:
        messages = [{"id": key, **json.loads(data)} for key, data in connection.execute("SELECT id, data FROM message")]
        parts = {}
        for key, data in connection.execute("SELECT message_id, data FROM part ORDER BY id"):
            parts.setdefault(key, []).append(json.loads(data))
    connection.close()
    imported = read(path)
    agrees(imported, opencode_counts(messages, parts.__getitem__), model_calls=1)
    assert (imported.session_id, imported.cwd, imported.model) == ("test-session-123", "/Users/test/project", "gpt-5")
    assert {one.name: one.read_bytes() for one in path.parent.iterdir() if one.is_file()} == before


def test_at_least_99_of_100_calls_find_their_result():
    paired = expected = 0
    for folder, pattern in (("openhands", "*.jsonl"), ("swe-agent-traj", "*.traj"), ("mini-swe-agent", "*.json"),
                            ("gemini-cli/agent-sessions", "*.json*"), ("opencode", "opencode.db"),
                            ("opencode/agent-sessions/storage_v2/session", "*/*.json")):  # fmt: skip
        for path in sorted(real(folder).glob(pattern)):
            counts = read(path).counts
            paired += counts["tools_paired"]
            expected += counts["tools"]
    assert expected >= 54
    assert paired >= 0.99 * expected


# Steps, prompts, calls, calls with a result; as counted by hand where the files are small.
NUMBERS = {
    "copilot-cli/agent-sessions/large.jsonl": (8, 3, 2, 1),
    "copilot-cli/agent-sessions/small.jsonl": (14, 2, 2, 2),
    "copilot-cli/agent-sessions/subdir_v1/aaaabbbb-1111-2222-3333-ccccddddeeee/events.jsonl": (5, 1, 1, 1),
    "copilot-cli/copilot_cli_session_events.jsonl": (3, 1, 1, 1),
    "copilot-chat/copilot_vscode_event_stream.jsonl": (5, 1, 2, 2),
    "cursor/cursor-session-simple.jsonl": (21, 1, 10, 0),
    "cursor/agent-sessions/large.jsonl": (10, 3, 2, 2),
    "cursor/agent-sessions/subagent/parent.jsonl": (3, 1, 1, 0),
    "droid/droid-session.jsonl": (7, 1, 5, 5),
    "droid/agent-sessions/session_store_small.jsonl": (2, 1, 1, 1),
    "droid/agent-sessions/session_store_large.jsonl": (6, 2, 1, 1),
    "droid/agent-sessions/stream_json_small.jsonl": (3, 1, 1, 1),
    "droid/agent-sessions/stream_json_large.jsonl": (4, 1, 1, 1),
    "pi-agent/pi-session-tool.jsonl": (3, 1, 1, 1),
    "pi-agent/agent-sessions/small.jsonl": (8, 2, 0, 0),
    "openclaw/agent-sessions/large.jsonl": (6, 1, 2, 2),
    "qwen-code/agent-sessions/019f0000-0000-7000-8000-000000000001.jsonl": (4, 1, 1, 1),
    "qwen-code/agent-sessions/019f0000-0000-7000-8000-000000000004.jsonl": (8, 2, 1, 0),
    "qwen-code/agent-sessions/019f0000-0000-7000-8000-000000000005.jsonl": (2, 1, 0, 0),
    "amp/T-019ca1ce-3ae2-7686-a41e-ccc078837f8a.json": (11, 1, 4, 4),
    "continue/continue-cli-session-simple.json": (6, 1, 2, 2),
}


def test_the_numbers_of_the_others():
    found = {}
    for name in NUMBERS:
        counts = read(real(name)).counts
        found[name] = tuple(counts[one] for one in ("steps", "prompts", "tools", "tools_paired"))
    assert found == NUMBERS


def test_cursor_s_subagent_is_a_child():
    imported = read(real("cursor/agent-sessions/subagent/parent.jsonl"))
    (child,) = imported.children
    (spawn,) = named(imported, "AGENT_SPAWN")
    assert spawn.operands[2].value == child.trail_digest
