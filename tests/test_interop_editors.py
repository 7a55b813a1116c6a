"""Real sessions of agents in editors, counted here with plain json, and what their formats allow."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from interop_samples_editors import CHAT, CHAT_LOG, CHAT_REQUESTS, EDITOR_SAMPLES
from interop_support import KEY, SHARED, Objects, named, plain, read, steps_of
from periplus.interop import find_sessions, import_transcripts
from periplus.interop.importers.copilot_chat import operation_log
from periplus.trail.format.reader import TrailReader
from periplus.trail.opcodes import opcode_name

pytestmark = pytest.mark.quick


def real(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"real transcripts are not beside the repository: no file {path}")
    return path


def written(name, folder, data=None):
    _, sample, write = EDITOR_SAMPLES[name]
    return write(folder, sample if data is None else data)


def counted(imported):
    counts = imported.counts
    return {name: counts[name] for name in ("prompts", "says", "comments", "tools", "tools_paired", "model_calls")}


def twice(path):
    options = {"trail_key": KEY, "put_object": Objects().put}
    first = list(import_transcripts(str(path), **options))
    assert list(import_transcripts(str(path), **options)) == first
    return first


def times_of(imported, *names):
    """Return the times of the named steps, in milliseconds since 1970."""
    now, found = TrailReader(imported.trail).header.started_ms, []
    for step in steps_of(imported):
        now += step.delta_ms
        if opcode_name(step.code) in names:
            found.append(now)
    return found


# ---- Copilot Chat


def chat_counts(document):
    """Count a session's document: every round of its requests, with its calls and their results."""
    counts = Counter(prompts=0, says=0, comments=0, tools=0, tools_paired=0, model_calls=0)
    for request in document["requests"]:
        counts["prompts"] += 1
        metadata = request["result"]["metadata"]
        for one in metadata["toolCallRounds"]:
            counts["says"] += bool(one["response"])
            counts["comments"] += bool(one.get("thinking"))
            for call in one["toolCalls"]:
                counts["tools"] += 1
                counts["tools_paired"] += call["id"] in metadata["toolCallResults"]
    return dict(counts)


def test_the_real_session_of_copilot_chat():
    path = real("copilot-chat/copilot_session_simple.json")
    document = json.loads(path.read_text("utf-8"))
    (imported,) = twice(path)
    assert counted(imported) == chat_counts(document)
    assert counted(imported) == {
        "prompts": 3,
        "says": 5,
        "comments": 0,
        "tools": 2,
        "tools_paired": 2,
        "model_calls": 0,
    }
    assert [step.operands[0] for step in named(imported, "PROMPT")] == [
        one["message"]["text"] for one in document["requests"]
    ]
    assert times_of(imported, "PROMPT") == [one["timestamp"] for one in document["requests"]]
    assert (imported.started_ms, imported.session_id) == (document["creationDate"], document["sessionId"])
    assert (imported.title, imported.model) == (document["customTitle"], "claude-sonnet-4")
    assert imported.cwd == "/Users/svarlamov/projects/testing-git"
    (edit,) = named(imported, "FILE_EDIT")
    arguments = json.loads(
        document["requests"][1]["result"]["metadata"]["toolCallRounds"][0]["toolCalls"][0]["arguments"]
    )
    assert list(edit.operands) == [arguments["filePath"], arguments["oldString"], arguments["newString"]]
    assert imported.unknown == {}


def test_the_real_stream_of_copilot_chat():
    path = real("copilot-chat/copilot_vscode_event_stream.jsonl")
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    kinds = Counter(event["type"] for event in events)
    (imported,) = twice(path)
    assert counted(imported) == {
        "prompts": kinds["user.message"], "says": kinds["assistant.message"], "comments": 0,
        "tools": kinds["tool.execution_start"], "tools_paired": kinds["tool.execution_complete"], "model_calls": 0,
    }  # fmt: skip
    assert (imported.format, imported.session_id) == ("copilot-chat", events[0]["data"]["sessionId"])
    assert [step.operands[0] for step in named(imported, "FILE_READ")] == ["/Users/test/project/src/main.ts"]


def test_a_request_of_copilot_chat_in_whole(tmp_path):
    imported = read(written("copilot-chat", tmp_path))
    assert plain(imported)[:14] == [
        ("PROMPT", "Mend it"),
        ("MODEL_CALL", "claude-sonnet-4", 120, 0, 7, None),
        ("COMMENT", "hm, so"),
        ("SAY", "I look at it."),
        ("FILE_READ", "/w/a.ts", "1-9"),
        ("FILE_EDIT", "/w/a.ts", "a", "b"),
        ("TEST_RUN", "npm test", None),
        ("AGENT_SPAWN", "agent", "Search it", None),
        ("LABEL", "subagent of t4"),
        ("TOOL_CALL", "", "grep_search", '{"shown":"Using copilot_findTextInFiles"}'),
        ("LABEL", "main"),
        ("COMMENT", "read and mended"),
        ("SAY", "It is mended."),
        ("PROMPT", "And the rest"),
    ]
    assert plain(imported)[14:] == [
        ("MODEL_CALL", "claude-sonnet-4", 50, 0, 4, None),
        ("COMMENT", "hm"),
        ("SAY", "I run it."),
        ("COMMAND_RUN", "ls", "/w"),
        ("TOOL_CALL", "shop", "mcp_shop_list", '{"limit":3}'),
        ("PLAN_UPDATE", '[{"id":"1","title":"x"}]'),
        ("AGENT_SPAWN", "agent", "Go", None),
        ("FILE_READ", "/w/a", None),
        ("TOOL_CALL", "", "create_file", '{"shown":"Using copilot_createFile"}'),
        ("FILE_EDIT", "/w/b.ts", "", "c"),
    ]
    steps = steps_of(imported)
    assert [(step.outcome, step.exit_code) for step in steps[4:8]] == [
        ("ok", None),
        ("denied", None),
        ("failed", 1),
        ("ok", None),
    ]
    assert [(step.outcome, step.exit_code, step.duration_ms) for step in steps[17:19]] == [
        ("failed", 2, 40),
        ("ok", None, None),
    ]
    assert steps[22].outcome == "denied"
    assert [step.note for step in named(imported, "PROMPT")] == ["with a file", "with an image"]
    assert times_of(imported, "SAY")[0] == CHAT_REQUESTS[0]["timestamp"] + 1000
    assert imported.ended_ms == CHAT_REQUESTS[1]["modelState"]["completedAt"]
    assert imported.unknown == {"member: brandNew": 1, "member: novelty": 1, "part: hologram": 1}
    assert imported.tokens == (170, 0, 11)


def test_a_log_of_changes_gives_the_session_that_it_ends_with(tmp_path):
    by_log = read(written("copilot-chat-log-lines", tmp_path))
    as_document = {
        **CHAT,
        "requests": [CHAT_REQUESTS[0], {**CHAT_REQUESTS[1], "result": {}, "modelState": {"value": 1}}],
    }
    (tmp_path / "other").mkdir()
    by_document = read(written("copilot-chat", tmp_path / "other", as_document))
    assert plain(by_log) == plain(by_document)
    assert (by_log.title, by_log.model) == ("Mending the till", "claude-sonnet-4")
    assert by_log.skipped["change of nothing"] == 1
    assert by_log.unknown == {"entry: 9": 1, "member: novelty": 1, "part: hologram": 1}


def test_requests_that_were_taken_back_are_no_steps(tmp_path):
    log = [
        *CHAT_LOG,
        {"kind": 2, "k": ["requests"], "i": 1, "v": [{"requestId": "r", "message": "Other", "response": []}]},
    ]
    imported = read(written("copilot-chat-log-lines", tmp_path, log))
    assert [step.operands[0] for step in named(imported, "PROMPT")] == ["Mend it", "Other"]
    shorter = [*CHAT_LOG, {"kind": 2, "k": ["requests"], "i": 0}]
    assert read(written("copilot-chat-log-lines", tmp_path, shorter)).counts["prompts"] == 0


def test_a_long_log_is_read_with_the_last_requests_in_memory(tmp_path):
    count = operation_log.REQUESTS_MAX + 40
    log = CHAT_LOG[:1] + [
        {"kind": 2, "k": ["requests"], "v": [{"requestId": f"r{at}", "message": f"number {at}", "response": []}]}
        for at in range(count)
    ]
    log += [
        {"kind": 1, "k": ["requests", 3, "message"], "v": "late"},
        {"kind": 1, "k": ["requests", count - 1, "message"], "v": "last"},
    ]
    imported = read(written("copilot-chat-log-lines", tmp_path, log))
    prompts = [step.operands[0] for step in named(imported, "PROMPT")]
    assert prompts == [*(f"number {at}" for at in range(count - 1)), "last"]
    assert imported.skipped["change of a request that was read"] == 1


def test_a_request_that_grows_without_end_is_cut_and_told(tmp_path):
    log = operation_log.OperationLog()
    list(log.feed(1, {"kind": 0, "v": {"requests": [{"response": []}]}}, 100))
    part = {"value": "x" * 1_000_000}
    for line in range(40):
        list(log.feed(line + 2, {"kind": 2, "k": ["requests", 0, "response"], "v": [part]}, 1_000_100))
    ((_, request),) = log.finish()
    assert 30 <= len(request["response"]) <= 34
    assert log.lost["change of a request that is too large"] == 40 - len(request["response"])
    log = operation_log.OperationLog()
    list(log.feed(1, {"kind": 0, "v": {"requests": [{"response": []}]}}, 100))
    for line in range(90):  # the same value, replaced: it never grows
        list(log.feed(line + 2, {"kind": 1, "k": ["requests", 0, "result"], "v": part}, 1_000_100))
    assert log.lost == {}


def test_sessions_of_a_window_are_found_by_its_folder(tmp_path):
    project, other = tmp_path / "my shop", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    for number, user in enumerate((".config/Code/User", "Library/Application Support/Code/User")):
        for window, folder in (("aa", project), ("bb", other)):
            storage = tmp_path / "home" / user / "workspaceStorage" / window
            (storage / "chatSessions").mkdir(parents=True)
            (storage / "workspace.json").write_text(json.dumps({"folder": folder.as_uri()}))
            (storage / "state.json").write_text("{}")
            (storage / "chatSessions" / f"{number}.json").write_text(json.dumps(CHAT))
            (storage / "chatSessions" / f"{number}-log.jsonl").write_text(
                "".join(json.dumps(one) + "\n" for one in CHAT_LOG)
            )
        empty = tmp_path / "home" / user / "globalStorage" / "emptyWindowChatSessions"
        empty.mkdir(parents=True)
        (empty / "e.jsonl").write_text(json.dumps(CHAT_LOG[0]) + "\n")
    found = find_sessions(str(tmp_path / "home"), str(project))
    assert sorted(os.path.basename(one.path) for one in found) == ["0-log.jsonl", "0.json", "1-log.jsonl", "1.json"]
    assert {(one.format, one.cwd) for one in found} == {("copilot-chat", str(project))}
    assert len(find_sessions(str(tmp_path / "home"))) == 10
    imported = read(Path(found[0].path))
    assert imported.cwd == str(project)
