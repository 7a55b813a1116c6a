"""Real sessions of agents in editors, counted here with plain json, and what their formats allow."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from cli_support import Shell, make_repository
from interop_samples import OPENCODE, as_database
from interop_samples_editors import CHAT, CHAT_LOG, CHAT_REQUESTS, EDITOR_SAMPLES, TASK_IN_XML, TASK_NATIVE
from interop_support import KEY, SHARED, Objects, named, plain, read, steps_of
from periplus.base.errors import FormatError
from periplus.interop import find_sessions, import_transcripts
from periplus.interop.importers.cline_tasks.xml_calls import parts_of
from periplus.interop.importers.copilot_chat import operation_log
from periplus.interop.readers.json_values import Moment
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


def test_many_requests_in_one_entry_take_linear_time():
    count = 300_000
    log = operation_log.OperationLog()
    begun = time.process_time()
    given = [at for at, _ in log.feed(7, {"kind": 0, "v": {"requests": [{} for _ in range(count)]}}, 3 * count)]
    assert given == [7] * (count - operation_log.REQUESTS_MAX)
    assert len(list(log.finish())) == operation_log.REQUESTS_MAX
    assert time.process_time() - begun < 10  # it is 0.2 s; one by one from the front of the list it was over 30 s


def test_a_secret_that_the_limit_of_a_title_cuts_is_masked(tmp_path):
    title = "x" * 100 + " ghp_" + "a1B2c3D4e5F6" * 3
    imported = read(written("copilot-chat", tmp_path, {**CHAT, "customTitle": title}))
    assert "ghp_" not in imported.title


def test_requests_that_were_read_and_taken_back_stay_and_the_next_have_their_places(tmp_path):
    count = operation_log.REQUESTS_MAX + 10
    log = CHAT_LOG[:1] + [
        {"kind": 2, "k": ["requests"], "v": [{"requestId": "r", "message": f"number {at}"}]} for at in range(count)
    ]
    log += [
        {"kind": 2, "k": ["requests"], "i": 4, "v": [{"requestId": "s", "message": "instead"}]},
        {"kind": 1, "k": ["requests", 4, "message"], "v": "changed"},
        {"kind": 1, "k": ["requests"], "v": [*({"message": "again"} for _ in range(5)), {"message": "more"}]},
    ]
    imported = read(written("copilot-chat-log-lines", tmp_path, log))
    prompts = [step.operands[0] for step in named(imported, "PROMPT")]
    assert prompts == [*(f"number {at}" for at in range(10)), "again", "more"]
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


# ---- Task folders of Cline, Roo Code and Kilo Code


def display_sums(entries):
    """Sum the tokens of a display: fresh, cached, output; what newer versions of Roo Code count twice is taken away."""
    sums = [0, 0, 0]
    for entry in entries:
        if entry.get("say") == "api_req_started":
            told = json.loads(entry["text"])
            taken, read, wrote = (told.get(name, 0) for name in ("tokensIn", "cacheReads", "cacheWrites"))
            is_whole = "apiProtocol" in told and taken >= read + wrote
            sums[0] += taken - read if is_whole else taken + wrote
            sums[1] += read
            sums[2] += told.get("tokensOut", 0)
    return tuple(sums)


def test_a_task_with_calls_as_text(tmp_path):
    path = written("cline-task", tmp_path)
    (imported,) = twice(path)
    assert [one for one in plain(imported) if one[0] != "MODEL_CALL"] == [
        ("PROMPT", "Mend the till"),
        ("COMMENT", "\nFirst read.\n"),
        ("SAY", "I read it with <read_file> now."),
        ("FILE_READ", "a.py", None),
        ("FILE_WRITE", "b.py", "sha256:" + hashlib.sha256(b"print('</content>')").hexdigest()[:8]),
        ("PROMPT", "Not that file"),
        ("FILE_EDIT", "a.py", "x = 1", "x = 2"),
        ("FILE_EDIT", "a.py", "y", ""),
        ("TEST_RUN", "pytest -q", None),
        ("ASK", "Which till?", "the old one"),
        ("TOOL_CALL", "shop", "list", '{"limit":3}'),
        ("SAY", "I only talk."),
        ("SAY", "A plan."),
        ("PROMPT", "Do it"),
        ("TOOL_CALL", "", "attempt_completion", '{"result":"Mended."}'),
    ]
    outcomes = {
        step.operands[0]: step.outcome for step in named(imported, "FILE_READ", "FILE_WRITE", "TEST_RUN", "TOOL_CALL")
    }
    assert outcomes == {"a.py": "ok", "b.py": "denied", "pytest -q": "failed", "shop": "failed", "": "ok"}
    assert imported.tokens == display_sums(TASK_IN_XML["display"])
    assert imported.counts["model_calls"] == 9
    assert next(step.operands[4] for step in named(imported, "MODEL_CALL")) == 250_000
    assert (imported.cwd, imported.model, imported.session_id) == ("/w/shop", "claude-x", "1772359200000")
    assert TrailReader(imported.trail).header.tool_version == "3.40"
    assert TrailReader(imported.trail).status == "success"
    starts = [entry["ts"] for entry in TASK_IN_XML["display"] if entry.get("say") == "api_req_started"]
    assert times_of(imported, "PROMPT") == [starts[0], starts[2], starts[8]]


@pytest.mark.parametrize("name", ["roo-code", "kilo-code-task"])
def test_a_task_with_calls_as_blocks(tmp_path, name):
    (imported,) = twice(written(name, tmp_path))
    assert imported.format == imported.agent == name.removesuffix("-task")
    assert [one for one in plain(imported) if one[0] != "MODEL_CALL"] == [
        ("PROMPT", "Mend the till"),
        ("COMMENT", "I think."),
        ("COMMENT", "hm"),
        ("SAY", "I look."),
        ("COMMENT", "so"),
        ("FILE_READ", "a.py", "1-9"),
        ("FILE_READ", "b.py", None),
        ("FILE_EDIT", "a.py", "x", "y"),
        ("COMMAND_RUN", "ls", "/w"),
        ("TOOL_CALL", "shop", "list", '{"limit":3}'),
        ("AGENT_SPAWN", "agent", "Count them", None),
        ("PLAN_UPDATE", '["[x] read","[ ] mend"]'),
        ("PROMPT", "Not yet"),
        ("COMMENT", "It was about a till."),
        ("TOOL_CALL", "", "attempt_completion", '{"result":"Mended."}'),
    ]
    outcomes = [
        step.outcome for step in named(imported, "FILE_EDIT", "COMMAND_RUN", "TOOL_CALL", "AGENT_SPAWN", "PLAN_UPDATE")
    ]
    assert outcomes == ["denied", "ok", "failed", "failed", "unknown", "ok"]
    assert imported.tokens == display_sums(TASK_NATIVE["display"])
    # One request is told before the first answer, the others between it and the last one.
    ops = [one[0] for one in plain(imported)]
    assert [at for at, op in enumerate(ops) if op == "MODEL_CALL"] == [2, 15, 16]
    assert (imported.cwd, imported.title, imported.model) == ("/w/shop", "Mend the till", "m-2")
    assert named(imported, "COMMAND_RUN")[0].duration_ms == 1000


def test_a_conversation_alone_is_imported_with_what_it_has(tmp_path):
    history = json.loads(json.dumps(TASK_IN_XML["history"]))
    history[1]["metrics"] = {"tokens": {"prompt": 100, "completion": 7, "cached": 60}, "cost": 0.1}
    path = tmp_path / "copy.json"
    path.write_text(json.dumps(history))
    imported = read(path)
    assert imported.format == "cline"
    assert (imported.tokens, imported.counts["model_calls"]) == ((40, 60, 7), 1)
    assert imported.started_ms is None
    path.write_text(json.dumps(TASK_NATIVE["history"]))
    assert read(path).format == "roo-code"


@pytest.mark.parametrize(
    ("name", "key"), [("ui_messages.json", "display"), ("task_metadata.json", "facts"), ("history_item.json", "item")]
)
def test_the_wrong_file_of_a_task_is_refused_with_the_right_one(tmp_path, name, key):
    path = tmp_path / name
    path.write_text(
        json.dumps(
            (TASK_IN_XML | TASK_NATIVE | {"display": TASK_IN_XML["display"], "facts": TASK_IN_XML["facts"]})[key]
        )
    )
    with pytest.raises(FormatError, match=r"name api_conversation_history\.json, beside it"):
        read(path)


def test_files_beside_a_task_are_read_only_if_they_are_its_own(tmp_path):
    path = written("roo-code", tmp_path)
    whole = read(path)
    display = path.with_name("ui_messages.json")
    moved = tmp_path / "elsewhere.json"
    display.rename(moved)
    display.symlink_to(moved)
    linked = read(path)
    assert (linked.counts["model_calls"], linked.counts["steps"]) == (0, whole.counts["steps"] - 3)
    display.unlink()
    display.write_bytes(b'[{"ts": 1, "say": "api_req_started", "text": "{\\"tokensIn\\": 3}"}, {"ts"')
    assert read(path).tokens.fresh == 3
    display.write_bytes(b"\0\1")
    assert read(path).tokens == (0, 0, 0)


def test_tasks_are_found_by_the_folder_that_the_editor_told_the_model(tmp_path):
    project = tmp_path / 'größe "a" (1)'
    project.mkdir()
    places = {
        "cline": ".config/Code/User/globalStorage/saoudrizwan.claude-dev",
        "roo-code": "Library/Application Support/Cursor/User/globalStorage/rooveterinaryinc.roo-cline",
        "kilo-code": ".vscode-server/data/User/globalStorage/kilocode.kilo-code",
    }
    for folder in places.values():
        for number, cwd in enumerate((project, tmp_path / "other")):
            task = tmp_path / "home" / folder / "tasks" / f"000000000000{number}"
            task.mkdir(parents=True)
            text = f"<environment_details>\n# Current Working Directory ({cwd}) Files\n</environment_details>"
            messages = [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "<task>\ngo\n</task>"}, {"type": "text", "text": text}],
                }
            ]
            (task / "api_conversation_history.json").write_text(json.dumps(messages, ensure_ascii=number == 0))
            (task / "ui_messages.json").write_text("[]")
    found = find_sessions(str(tmp_path / "home"), str(project))
    assert sorted(one.format for one in found) == sorted(places)
    assert {one.cwd for one in found} == {str(project)}
    for one in found:
        imported = read(Path(one.path))
        assert (imported.format, imported.cwd, imported.session_id) == (one.format, str(project), "0000000000000")


def test_a_model_s_text_is_taken_apart_as_its_agent_does_it():
    said = "Use <read_file> so.\n<thinking>a</thinking>\n<write_to_file><path>p</path><content>\n<path>x</path>\n</content></write_to_file> and <list_files>"
    assert [(part.name, part.text, part.arguments) for part in parts_of(said)] == [
        ("", "Use <read_file> so.\n", {}),
        ("thinking", "a", {}),
        ("", "\n", {}),
        ("write_to_file", "", {"path": "p", "content": "<path>x</path>"}),
        ("", " and <list_files>", {}),
    ]
    assert [part.arguments for part in parts_of("<execute_command>\n<command>ls -l") if part.name] == [
        {"command": "ls -l"}
    ]
    assert [part.name for part in parts_of("<condense></condense><thinking>open")] == ["", "condense", ""]
    for hostile in (
        "<read_file><path>" * 20_000,
        "<thinking>" * 20_000,
        "<write_to_file>\n<content>" * 20_000,
        "</content>" * 20_000,
    ):
        assert sum(len(part.text) for part in parts_of(hostile)) <= len(hostile)


# ---- Kilo Code's database


def kilo_database(folder):
    """Write a database as kilo 7 does: opencode's tables, tables of its own, an index that computes from JSON."""
    path = as_database(folder, OPENCODE)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE kilo_board (id TEXT PRIMARY KEY)")
        connection.execute("CREATE INDEX recall_message_role_idx ON message (session_id, json_extract(data, '$.role'))")
    return path


def test_the_database_of_kilo_code_is_read_like_opencode_s(tmp_path):
    (imported,) = twice(kilo_database(tmp_path))
    (tmp_path / "other").mkdir()
    (other,) = twice(as_database(tmp_path / "other", OPENCODE))
    assert (imported.format, imported.agent, other.format) == ("kilo-code", "kilo-code", "opencode")
    assert [child.agent for child in imported.children] == ["kilo-code/subagent"]
    assert [one for one in plain(imported) if one[0] != "AGENT_SPAWN"] == [
        one for one in plain(other) if one[0] != "AGENT_SPAWN"
    ]
    assert imported.tokens == other.tokens


def test_a_database_whose_columns_are_computed_is_not_trusted(tmp_path):
    path = tmp_path / "kilo.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE kilo_board (id TEXT)")
        connection.execute(
            "CREATE TABLE message (id TEXT, session_id TEXT, raw TEXT, data TEXT AS (json_extract(raw, '$.x')))"
        )
        connection.execute("CREATE TABLE part (id TEXT, message_id TEXT, data TEXT)")
        connection.execute("INSERT INTO message (id, session_id, raw) VALUES ('m', 's', '{\"x\": 1}')")
    with pytest.raises(FormatError):
        read(path)


def test_sessions_in_kilo_s_database_are_those_of_the_project(tmp_path):
    home = tmp_path / ".local/share/kilo"
    home.mkdir(parents=True)
    path = kilo_database(home)
    path.rename(home / "kilo.db")
    (found,) = find_sessions(str(tmp_path), "/w")
    assert (found.format, os.path.basename(found.path)) == ("kilo-code", "kilo.db")
    options = {"trail_key": KEY, "put_object": Objects().put}
    assert len(list(import_transcripts(found.path, folders=("/w",), **options))) == 1
    assert list(import_transcripts(found.path, folders=("/elsewhere",), **options)) == []


# ---- Windsurf and Antigravity


def test_the_real_transcript_of_windsurf():
    path = real("windsurf/windsurf-session-simple.jsonl")
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    kinds = Counter(event["type"] for event in events)
    (imported,) = twice(path)
    calls = len(events) - kinds["user_input"] - kinds["planner_response"]
    assert counted(imported) == {
        "prompts": kinds["user_input"], "says": kinds["planner_response"], "comments": 0,
        "tools": calls, "tools_paired": calls, "model_calls": 0,
    }  # fmt: skip
    assert (kinds["user_input"], kinds["planner_response"], calls) == (4, 5, 18)
    assert imported.counts["steps"] == len(events)
    reads = [event["view_file"] for event in events if event["type"] == "view_file"]
    assert [step.operands for step in named(imported, "FILE_READ")] == [
        (one["path"].removeprefix("file://"), f"{one['start_line'] + 1}-{one['end_line'] + 1}") for one in reads
    ]
    runs = [event["run_command"] for event in events if event["type"] == "run_command"]
    assert [step.exit_code for step in named(imported, "COMMAND_RUN", "GIT_COMMIT")] == [
        one["exit_code"] for one in runs
    ]
    wrote = [event["code_action"]["new_content"] for event in events if event["type"] == "code_action"]
    assert [step.operands[1].value for step in named(imported, "FILE_WRITE")] == [
        hashlib.sha256(one.encode()).digest() for one in wrote
    ]
    assert [step.outcome for step in named(imported, "TOOL_CALL")] == ["failed"]
    assert (imported.cwd, imported.unknown) == (runs[0]["cwd"], {})


def test_events_of_windsurf(tmp_path):
    imported = read(written("windsurf-lines", tmp_path))
    assert plain(imported)[2:14] == [
        ("SAY", "I look."),
        ("FILE_READ", "/w/a b.py", "1-9"),
        ("FILE_WRITE", "/w/a.py", "sha256:" + hashlib.sha256(b"y").hexdigest()[:8]),
        ("TEST_RUN", "pytest -q", None),
        ("COMMAND_RUN", "rm -r x", "/w"),
        ("SEARCH_CODE", "till", "/w"),
        ("FILE_LIST", "/w/*.py"),
        ("FILE_LIST", "/w"),
        ("TOOL_CALL", "memory", "list_resources", '{"server_name":"memory"}'),
        ("TOOL_CALL", "shop", "list", '{"server_name":"shop","tool_name":"list","arguments":{"limit":3}}'),
        ("WEB_SEARCH", "tills"),
        ("TOOL_CALL", "", "oracle", '{"thought":"?"}'),
    ]
    outcomes = [step.outcome for step in steps_of(imported)[3:14]]
    assert outcomes == ["ok", "denied", "failed", "denied", "ok", "ok", "ok", "failed", "ok", "ok", "ok"]
    assert imported.unknown == {"hologram": 1, "status: dreaming": 1}
    assert TrailReader(imported.trail).status == "partial"


def antigravity_counts(steps):
    """Count a transcript: a result without an open call of its kind is an action of its own."""
    gives = {
        "list_dir": "LIST_DIRECTORY",
        "view_file": "VIEW_FILE",
        "run_command": "RUN_COMMAND",
        "write_file": "CODE_ACTION",
    }
    counts = Counter(prompts=0, says=0, comments=0, tools=0, tools_paired=0, model_calls=0)
    waiting = []
    for step in steps:
        kind = step["type"]
        if kind == "USER_INPUT":
            counts["prompts"] += 1
        elif kind == "PLANNER_RESPONSE":
            counts["says"] += bool(step.get("content"))
            counts["comments"] += bool(step.get("thinking"))
            waiting = [gives[call["name"]] for call in step.get("tool_calls", [])]
            counts["tools"] += len(waiting)
        elif kind == "CHECKPOINT":
            counts["comments"] += 1
        elif kind not in ("CONVERSATION_HISTORY", "SYSTEM_MESSAGE"):
            counts["tools_paired"] += 1
            if kind in waiting:
                waiting.remove(kind)
            else:
                counts["tools"] += 1
    return dict(counts)


def test_the_real_transcript_of_antigravity():
    path = real("antigravity/agent-sessions/cli_small.jsonl")
    steps = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    (imported,) = twice(path)
    assert counted(imported) == antigravity_counts(steps)
    assert counted(imported) == {
        "prompts": 2,
        "says": 1,
        "comments": 4,
        "tools": 10,
        "tools_paired": 10,
        "model_calls": 0,
    }
    assert plain(imported)[2] == ("FILE_LIST", "/tmp/repo")
    assert (imported.model, imported.unknown) == ("Gemini 3.5 Flash (Medium)", {})
    assert times_of(imported, "PROMPT", "SAY")[:2] == [
        Moment().read(steps[0]["created_at"]),
        Moment().read(steps[6]["created_at"]),
    ]
    short = sum("content" in step.get("truncated_fields", []) for step in steps)
    assert imported.skipped["text that the agent shortened"] == short


def test_the_documents_of_antigravity_are_refused(tmp_path):
    document = tmp_path / ".gemini/antigravity-cli/brain/one/task.md"
    document.parent.mkdir(parents=True)
    document.write_text("# Task\n")
    for path in (real("antigravity/agent-sessions/small.md"), document):
        with pytest.raises(FormatError, match=r"name \.system_generated/logs/transcript\.jsonl beside it"):
            read(path)
    (tmp_path / "task.md").write_text("# Task\n")
    with pytest.raises(FormatError, match=r"it looks like Markdown$"):
        read(tmp_path / "task.md")


def test_steps_of_antigravity(tmp_path):
    logs = tmp_path / "brain" / "c-1" / ".system_generated" / "logs"
    logs.mkdir(parents=True)
    path = written("antigravity-lines", tmp_path)
    imported = read(path.rename(logs / "transcript.jsonl"))
    assert plain(imported) == [
        ("PROMPT", "Mend the till"),
        ("COMMENT", "First look."),
        ("SAY", "I look."),
        ("FILE_READ", "/w/a.py", "1-9"),
        ("TEST_RUN", "pytest -q", None),
        ("FILE_EDIT", "/w/a.py", "x", "y"),
        ("FILE_EDIT", "/w/b.py", "1", "2"),
        ("TOOL_CALL", "", "mcp_shop_list", '{"limit":3}'),
        ("FILE_LIST", "/w/*.py"),
        ("TOOL_CALL", "", "grep_search", "{}"),
        ("TOOL_CALL", "", "browser_navigate", "{}"),
        ("COMMENT", "# Resuming"),
        ("SAY", "Mended."),
        ("TOOL_CALL", "", "list_directory", "{}"),
    ]
    steps = steps_of(imported)
    assert [(step.outcome, step.exit_code) for step in steps[3:9]] == [
        ("ok", None), ("failed", 1), ("ok", None), ("failed", None), ("ok", None), ("unknown", None),
    ]  # fmt: skip
    assert [step.result is None for step in steps[3:5]] == [True, False]  # the first was shortened
    assert (imported.cwd, imported.session_id) == ("/w", "c-1")
    assert imported.unknown == {"BROWSER_NAVIGATE": 1, "HOLOGRAM": 1}


# ---- All of them, as a person finds and damages them


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    return Shell(make_repository(tmp_path / "shop"), tmp_path / "home")


def test_all_sessions_of_a_project_are_imported_by_one_command(sh):
    home, shop = sh.home, sh.folder
    sh("init")
    user = home / ".config/Code/User"
    window = user / "workspaceStorage/aa"
    (window / "chatSessions").mkdir(parents=True)
    (window / "workspace.json").write_text(json.dumps({"folder": shop.as_uri()}))
    written("copilot-chat", window / "chatSessions")
    written("copilot-chat-log-lines", window / "chatSessions")
    here = json.loads(json.dumps(TASK_IN_XML).replace("/w/shop", str(shop)))
    for extension in ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"):
        task = user / "globalStorage" / extension / "tasks" / "1772359200000"
        task.mkdir(parents=True)
        (task / "api_conversation_history.json").write_text(json.dumps(here["history"]))
        (task / "ui_messages.json").write_text(json.dumps(here["display"]))
    for name, folder in (("windsurf-lines", ".windsurf/transcripts"),
                         ("antigravity-lines", ".gemini/antigravity-cli/brain/c-1/.system_generated/logs")):  # fmt: skip
        (home / folder).mkdir(parents=True)
        text = json.dumps(EDITOR_SAMPLES[name][1]).replace('"/w"', json.dumps(str(shop)))
        text = text.replace(json.dumps('"/w"')[1:-1], json.dumps(json.dumps(str(shop)))[1:-1])
        path = written(name, home / folder, json.loads(text))
        path.rename(path.with_name("transcript.jsonl"))
    told = json.loads(sh("trail", "import", "--all", "--json").out)
    formats = Counter(one["value"]["format"] for one in told["trails"])
    assert formats == {"copilot-chat": 2, "cline": 1, "roo-code": 1, "kilo-code": 1, "windsurf": 1, "antigravity": 1}
    again = json.loads(sh("trail", "import", "--all", "--json").out)
    assert len(again["trails"]) == len(told["trails"])
    assert not any(one["changed"] for one in again["trails"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["copilot-chat/copilot_session_simple.json", "copilot-chat/copilot_vscode_event_stream.jsonl",
                                  "windsurf/windsurf-session-simple.jsonl", "antigravity/agent-sessions/cli_small.jsonl"])  # fmt: skip
def test_damaged_real_files_are_imported_or_refused(tmp_path, name):
    source = real(name)
    data = source.read_bytes()
    path = tmp_path / source.name
    chance = random.Random(name)
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(damaged))
            if chance.random() < 0.5:
                damaged[at] = chance.randrange(256)
            else:
                del damaged[at : at + chance.randint(1, 400)]
        path.write_bytes(bytes(damaged))
        try:
            read(path)
        except FormatError as error:
            assert str(path) in str(error)  # noqa: PT017 - either is right
