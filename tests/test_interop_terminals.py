"""Sessions of agents in a terminal: real files counted here with plain json and SQLite, and what the formats hold."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from cli_support import Shell
from interop_samples import SAMPLES
from interop_samples_terminals import (
    CRUSH,
    GOOSE_DATABASE,
    GPTME,
    GROK_FOLDER,
    HERMES_DATABASE,
    KIMI_AGENTS,
    MS,
    OPENCLAW,
    TERMINAL_SAMPLES,
    VIBE_FOLDER,
    as_crush,
    as_goose,
    as_grok,
    as_hermes,
    as_logs,
    as_openclaw,
    as_vibe,
)
from interop_support import KEY, SHARED, Objects, check, named, plain, steps_of, write_lines
from periplus.base.errors import FormatError
from periplus.interop import import_transcripts
from periplus.trail.format.reader import TrailReader

pytestmark = pytest.mark.quick


def real(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"real transcripts are not beside the repository: no file {path}")
    return path


def take(path):
    found = list(import_transcripts(str(path), trail_key=KEY, put_object=Objects().put))
    for imported in found:
        check(imported)
        for child in imported.children:
            check(child)
    return found


def refused(path) -> str:
    with pytest.raises(FormatError) as caught:
        take(path)
    assert str(path) in str(caught.value)
    return caught.value.wrong


def lines_of(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def agrees(imported, expected: Counter) -> None:
    """Compare the counts with those of another reader: prompts, says, comments, tools, paired, model_calls."""
    counts = imported.counts
    for name in ("prompts", "says", "comments", "tools", "paired", "model_calls"):
        assert counts["tools_paired" if name == "paired" else name] == expected[name], name
    assert tuple(imported.tokens) == (expected["fresh"], expected["cached"], expected["out"])
    assert imported.unknown == {}
    assert imported.unreadable_lines == []
    assert all(step.source for step in steps_of(imported))


# -- Kimi Code


def kimi_counts(path) -> Counter:
    counts = Counter()
    calls, results = set(), set()
    for record in lines_of(path):
        event = record.get("event", {})
        part = event.get("part", {})
        origin = record.get("message", {}).get("origin", {})
        if record["type"] == "context.append_message":
            counts["prompts"] += origin in ({"kind": "user"}, {"kind": "system_trigger", "name": "subagent"})
        elif record["type"] == "usage.record":
            usage = record["usage"]
            counts["model_calls"] += 1
            counts["fresh"] += usage["inputOther"] + usage["inputCacheCreation"]
            counts["cached"] += usage["inputCacheRead"]
            counts["out"] += usage["output"]
        counts["says"] += part.get("type") == "text"
        counts["comments"] += part.get("type") == "think"
        if event.get("type") == "tool.call":
            calls.add(event["toolCallId"])
        if event.get("type") == "tool.result":
            results.add(event["toolCallId"])
    counts["tools"], counts["paired"] = len(calls), len(calls & results)
    return counts


@pytest.mark.parametrize("name", ["small.jsonl", "subagent_agent-0.jsonl"])
def test_real_logs_of_kimi_code(name):
    path = real(f"kimi-code/agent-sessions/{name}")
    (imported,) = take(path)
    agrees(imported, kimi_counts(path))
    assert take(path) == [imported]
    records = lines_of(path)
    times = [record["time"] for record in records if "time" in record] + [records[0]["created_at"]]
    assert (imported.started_ms, imported.ended_ms) == (min(times), max(times))
    assert imported.cwd == "/private/tmp/as-agent-lab/kimi/project"


def test_the_state_of_a_session_of_kimi_code_names_the_file_to_give():
    assert "name the main agent's own file, agents/main/wire.jsonl" in refused(
        real("kimi-code/agent-sessions/state.json")
    )


def test_subagents_of_kimi_code_are_children(tmp_path):
    path = as_logs(tmp_path, KIMI_AGENTS)
    (imported,) = take(path)
    (child,) = imported.children
    assert (imported.session_id, imported.cwd, imported.agent_id) == ("session_1", "/w", None)
    assert (child.agent, child.session_id, child.agent_id) == ("kimi-code/explore", "session_1", "agent-0")
    (spawn,) = named(imported, "AGENT_SPAWN")
    assert spawn.operands[2].value == child.trail_digest
    assert take(path.parents[1] / "agent-0" / "wire.jsonl") == [child]
    outcomes = [(step.outcome, step.exit_code) for step in named(imported, "COMMAND_RUN", "FILE_EDIT")]
    assert outcomes == [("failed", 2), ("denied", None)]


def test_links_beside_a_session_of_kimi_code_are_not_followed(tmp_path):
    path = as_logs(tmp_path, KIMI_AGENTS)
    agents = path.parents[1]
    os.rename(agents / "agent-0", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", agents / "agent-0")
    state = path.parents[2] / "state.json"
    state.write_text(json.dumps({"cwd": "/mine", "id": "session_9"}))
    os.rename(state, tmp_path / "state")
    os.symlink(tmp_path / "state", state)
    (imported,) = take(path)
    assert imported.children == ()
    assert (imported.session_id, imported.cwd) == ("session_1", "/w")


def test_other_versions_of_the_log_of_kimi_code_are_counted(tmp_path):
    records = [{**KIMI_AGENTS["main"][0], "protocol_version": "2.0"}, *KIMI_AGENTS["main"][1:]]
    (imported,) = take(as_logs(tmp_path, {**KIMI_AGENTS, "main": records}))
    assert imported.unknown["protocol 2.0"] == 1
    assert imported.counts["tools"] == 4
    cut = as_logs(tmp_path / "cut", {**KIMI_AGENTS, "main": KIMI_AGENTS["main"][3:]})  # without its first records
    assert take(cut)[0].counts["prompts"] == 1


def test_the_log_of_the_older_kimi_cli_is_told_apart(tmp_path):
    path = tmp_path / "wire.jsonl"
    message = {"timestamp": 1.5, "message": {"type": "TurnBegin", "payload": {"user_input": "go"}}}
    path.write_text(json.dumps({"type": "metadata", "protocol_version": "1.3"}) + "\n" + json.dumps(message) + "\n")
    assert "the older Kimi CLI" in refused(path)


# -- Crush, by its source alone: there is no real database


def test_subagents_of_crush_are_children(tmp_path):
    path = as_crush(tmp_path, CRUSH)
    (imported,) = take(path)
    (child,) = imported.children
    assert (imported.session_id, imported.cwd, imported.model) == ("s1", str(tmp_path), "m-1")
    assert (child.agent, child.session_id, child.title) == ("crush/subagent", "m2$$c3", "Count")
    (spawn,) = named(imported, "AGENT_SPAWN")
    assert spawn.operands[2].value == child.trail_digest
    (command,) = named(imported, "COMMAND_RUN")
    assert (command.outcome, command.exit_code, command.operands[1]) == ("failed", 2, "/w")
    assert [step.outcome for step in named(imported, "FILE_EDIT")] == ["denied"]
    assert (imported.started_ms, imported.ended_ms) == (MS, MS + 8000)
    assert imported.unknown == {"part: hologram": 1, "role: oracle": 1}
    assert imported.skipped == {"local command": 1}


def test_rows_that_repeat_a_session_of_crush_are_no_further_children(tmp_path):
    """A tree of eight levels, each session of which is there twenty times, would be 20 to the power of 8 sessions."""
    levels = [
        {"id": f"s{level}", "parent_session_id": f"s{level - 1}" if level else None, "created_at": MS // 1000 + level}
        for level in range(8)
    ]
    said = [{**CRUSH["messages"][0], "id": f"m{level}", "session_id": f"s{level}"} for level in range(8)]
    data = {"sessions": [*levels[:1], *(one for one in levels[1:] for _ in range(20))], "messages": said}
    (imported,) = take(as_crush(tmp_path, data))
    for level in range(1, 8):
        assert imported.skipped["session of a subagent that is left out"] == 19
        (imported,) = imported.children
        assert imported.session_id == f"s{level}"


def test_a_session_of_openclaw_with_several_parents_is_a_child_once(tmp_path):
    keys = [(level, one) for level in range(8) for one in range(6)]
    windows = [{"session_id": f"o{level}-{one}", "session_key": f"k{level}-{one}"} for level, one in keys]
    windows += [
        {"session_id": f"o{level}-{one}", "session_key": f"k{level}-{one}-{other}"}
        for level, one in keys if level for other in range(6)
    ]  # fmt: skip
    nodes = [
        {"session_key": f"k{level}-{one}-{other}", "spawned_by": f"k{level - 1}-{other}"}
        for level, one in keys if level for other in range(6)
    ]  # fmt: skip
    (event, *_) = [one for one in OPENCLAW["transcript_events"] if one["seq"] == 1]
    events = [{**event, "session_id": f"o{level}-{one}"} for level, one in keys]
    found = take(
        as_openclaw(tmp_path, {"session_windows": windows, "session_nodes": nodes, "transcript_events": events})
    )

    def ids(sessions):
        return [name for one in sessions for name in (one.session_id, *ids(one.children))]

    assert [one.session_id for one in found] == [f"o0-{one}" for one in range(6)]
    assert sorted(ids(found)) == sorted(f"o{level}-{one}" for level, one in keys)


def test_a_session_of_crush_that_grows_stays_one_trail_among_others(tmp_path):
    path = as_crush(tmp_path, CRUSH)
    more = [{"id": "s2", "title": "U", "created_at": MS // 1000 + 60}]
    said = {
        "id": "o1",
        "session_id": "s2",
        "role": "user",
        "parts": [{"type": "text", "data": {"text": "go"}}],
        "created_at": 9,
    }
    (before,) = take(path)
    as_crush(tmp_path, {"sessions": [*CRUSH["sessions"], *more], "messages": [*CRUSH["messages"], said]})
    first, second = take(path)
    assert (first, second.session_id, second.counts["prompts"]) == (before, "s2", 1)


# -- Hermes


def hermes_counts(path) -> Counter:
    counts = Counter()
    calls, results = set(), set()
    for message in json.loads(path.read_text("utf-8"))["messages"]:
        counts["prompts"] += message["role"] == "user"
        if message["role"] == "assistant":
            counts["says"] += bool(message["content"])
            counts["comments"] += "reasoning" in message
            calls |= {call["id"] for call in message.get("tool_calls", ())}
        if message["role"] == "tool":
            results.add(message["tool_call_id"])
    counts["tools"], counts["paired"] = len(calls), len(calls & results)
    return counts


@pytest.mark.parametrize(
    ("name", "cwd", "times"),
    [
        ("small.json", "/tmp/hermes-small", ("2026-04-29T20:00:00Z", "2026-04-29T20:00:04Z")),
        ("large.json", "~/Repository/Codex-History", ("2026-04-29T20:05:00.000Z", "2026-04-29T20:05:12.000Z")),
    ],
)
def test_real_documents_of_hermes(name, cwd, times):
    path = real(f"hermes/agent-sessions/{name}")
    (imported,) = take(path)
    agrees(imported, hermes_counts(path))
    assert take(path) == [imported]
    assert imported.cwd == cwd
    assert (imported.started_ms, imported.ended_ms) == tuple(milliseconds(text) for text in times)
    assert imported.model == json.loads(path.read_text("utf-8"))["model"]


def test_the_database_of_hermes(tmp_path):
    path = as_hermes(tmp_path, HERMES_DATABASE)
    (imported,) = take(path)
    (child,) = imported.children
    assert (imported.session_id, imported.cwd, imported.branch) == ("h1", "/w", "main")
    assert imported.tokens == (2 * 95, 2 * 60, 2 * 9)
    assert (child.agent, child.session_id, child.model, child.tokens.fresh) == ("hermes/subagent", "h2", "m-2", 7)
    (spawn,) = named(imported, "AGENT_SPAWN")
    assert spawn.operands[1:] == ("Count", spawn.operands[2])
    assert spawn.operands[2].value == child.trail_digest
    (command,) = named(imported, "COMMAND_RUN")
    assert (command.outcome, command.exit_code, command.operands[1]) == ("failed", 2, "/w")
    assert [step.outcome for step in named(imported, "FILE_EDIT")] == ["denied"]
    assert imported.counts["prompts"] == 3
    assert imported.counts["duplicates"] == 1
    assert imported.skipped == {"role: system": 1, "message of others, not to the agent": 1}
    assert (imported.started_ms, imported.ended_ms) == (MS, MS + 60_000)


def test_an_empty_subagent_of_hermes_hides_no_other(tmp_path):
    empty = {**HERMES_DATABASE["sessions"][1], "id": "h3", "started_at": MS / 1000 + 5}
    data = {**HERMES_DATABASE, "sessions": [*HERMES_DATABASE["sessions"], empty]}
    (imported,) = take(as_hermes(tmp_path, data))
    assert [child.session_id for child in imported.children] == ["h2", "h3"]
    (spawn,) = named(imported, "AGENT_SPAWN")
    assert spawn.operands[2].value == imported.children[0].trail_digest


def test_sessions_of_hermes_that_continue_another_are_their_own(tmp_path):
    first, child = HERMES_DATABASE["sessions"]
    data = {**HERMES_DATABASE, "sessions": [first, {**child, "source": "cli"}]}
    assert [(one.session_id, one.children) for one in take(as_hermes(tmp_path, data))] == [("h1", ()), ("h2", ())]


# -- gptme


def test_calls_of_gptme_stand_in_the_text(tmp_path):
    path = write_lines(tmp_path / "conversation.jsonl", GPTME)
    (imported,) = take(path)
    assert plain(imported) == [
        ("PROMPT", "Fix it"),
        ("MODEL_CALL", "m-1", 95, 60, 9, None),
        ("COMMENT", "hm"),
        ("SAY", "I look."),
        ("COMMAND_RUN", "ls", "/w"),
        ("FILE_EDIT", "/w/a", "1", "2"),
        ("SAY", "```python\nprint(1)\n```"),
        ("SAY", "And save."),
        ("FILE_WRITE", "/w/b", "sha256:2d711642"),
        ("SAY", "You could run:\n\n```shell\nls\n```"),
    ]
    ends = [(step.outcome, step.exit_code) for step in named(imported, "COMMAND_RUN", "FILE_EDIT", "FILE_WRITE")]
    assert ends == [("failed", 2), ("ok", None), ("denied", None)]
    assert (imported.session_id, imported.cwd) == (tmp_path.name, "/w")
    assert imported.counts["tools_paired"] == 3
    assert TrailReader(imported.trail).status == "success"


@pytest.mark.parametrize(
    "text", ["```shell\n" * 25_000, "```\n" * 40_000, "@shell(c): {" * 20_000, "@shell(c): {\n" * 20_000, "<thinking>" * 20_000,
             "````x\n```shell\nls\n```\n" * 9_000, "```patch a\n<<<<<<< ORIGINAL\n" * 9_000 + "```"],
)  # fmt: skip
def test_hostile_texts_of_gptme_give_a_sound_trail(tmp_path, text):
    path = write_lines(tmp_path / "conversation.jsonl", [*GPTME[:2], {**GPTME[2], "content": text}, GPTME[3]])
    (imported,) = take(path)
    assert imported.counts["prompts"] == 1


# -- OpenClaw


def test_the_database_of_openclaw(tmp_path):
    path = as_openclaw(tmp_path, OPENCLAW)
    (imported,) = take(path)
    (child,) = imported.children
    assert (imported.session_id, imported.cwd, imported.model) == ("o1", "/w", "m-1")
    assert (child.agent, child.session_id, child.title) == ("openclaw/subagent", "o2", "Count")
    assert imported.tokens == (95, 60, 9)
    assert [(step.outcome, step.exit_code) for step in named(imported, "COMMAND_RUN")] == [("failed", 2)]
    assert (imported.started_ms, imported.ended_ms) == (MS, MS + 5000)
    alone = as_openclaw(tmp_path, {**OPENCLAW, "session_nodes": []})
    assert [one.session_id for one in take(alone)] == ["o1", "o2"]


def test_records_that_openclaw_compressed_are_counted(tmp_path):
    path = as_openclaw(tmp_path, OPENCLAW)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE transcript_events SET event_json = NULL, event_zstd = x'28B52FFD' WHERE rowid = 3")
    (imported,) = take(path)
    assert imported.unreadable_lines == [3]
    assert imported.counts["tools"] == 1


# -- Grok Build


def grok_counts(path) -> Counter:
    counts = Counter()
    calls, results = set(), set()
    for record in lines_of(path):
        kind = record["type"]
        counts["prompts"] += kind == "user" and "prompt_index" in record
        counts["comments"] += kind == "reasoning"
        counts["says"] += kind == "assistant" and bool(record["content"])
        calls |= {call["id"] for call in record.get("tool_calls", ())}
        if kind == "tool_result":
            results.add(record["tool_call_id"])
        if kind == "backend_tool_call":  # the server's own, with no result
            calls.add(record["kind"]["id"])
            results.add(record["kind"]["id"])
    counts["tools"], counts["paired"] = len(calls), len(calls & results)
    return counts


def test_the_real_session_of_grok_build():
    path = real("grok-build/agent-sessions/chat_history.jsonl")
    summary = json.loads(path.with_name("summary.json").read_text("utf-8"))
    (imported,) = take(path)
    agrees(imported, grok_counts(path))
    assert take(path) == [imported]
    assert (imported.session_id, imported.cwd) == (summary["info"]["id"], summary["info"]["cwd"])
    assert (imported.started_ms, imported.ended_ms) == tuple(
        milliseconds(summary[name]) for name in ("created_at", "updated_at")
    )
    assert "name chat_history.jsonl beside it" in refused(path.with_name("summary.json"))


def test_subagents_of_grok_build_are_children(tmp_path):
    path = as_grok(tmp_path, GROK_FOLDER)
    (imported,) = take(path)
    (child,) = imported.children
    assert (imported.session_id, imported.branch, child.session_id, child.title) == ("g1", "main", "g2", "Count")
    assert take(path.parents[1] / "g2" / "chat_history.jsonl") == [child]
    (spawn,) = named(imported, "AGENT_SPAWN")
    assert spawn.operands[2].value == child.trail_digest
    assert [step.operands[0] for step in named(imported, "PROMPT")] == ["Fix it", "faster", "Stop"]
    outcomes = [(step.outcome, step.exit_code) for step in named(imported, "COMMAND_RUN", "FILE_READ", "WEB_SEARCH")]
    assert outcomes == [("failed", 2), ("cancelled", None), ("ok", None)]
    old = as_grok(tmp_path / "old", {**GROK_FOLDER, "summary": {**GROK_FOLDER["summary"], "chat_format_version": 2}})
    assert take(old)[0].unknown == {"chat format 2": 1, "teleport": 1}


@pytest.mark.parametrize("name", ["..", "../g2", "/etc", "g1", "a\0b", 7])
def test_subagents_of_grok_build_are_sessions_beside_it(tmp_path, name):
    meta = {**GROK_FOLDER["meta"], "child_session_id": name, "child_cwd": "/../.."}
    (imported,) = take(as_grok(tmp_path, {**GROK_FOLDER, "meta": meta}))
    assert imported.children == ()


def test_a_subagent_of_grok_build_in_a_worktree_is_found(tmp_path):
    path = as_grok(tmp_path, {**GROK_FOLDER, "meta": {**GROK_FOLDER["meta"], "child_cwd": "/w/tree"}})
    os.makedirs(path.parents[2] / "%2Fw%2Ftree")
    os.rename(path.parents[1] / "g2", path.parents[2] / "%2Fw%2Ftree" / "g2")
    (imported,) = take(path)
    assert [child.session_id for child in imported.children] == ["g2"]


# -- Mistral Vibe, by its source alone


def test_subagents_of_mistral_vibe_are_children(tmp_path):
    path = as_vibe(tmp_path, VIBE_FOLDER)
    (imported,) = take(path)
    (child,) = imported.children
    assert (imported.session_id, imported.cwd, imported.branch, imported.model) == ("v1", "/w", "main", "devstral")
    assert imported.tokens == (90, 60, 9)
    assert (child.agent, child.session_id, child.title) == ("mistral-vibe/explore", "v2", "Count")
    (spawn,) = named(imported, "AGENT_SPAWN")
    assert spawn.operands[:2] == ("explore", "Count")
    assert spawn.operands[2].value == child.trail_digest
    outcomes = [(step.outcome, step.exit_code) for step in named(imported, "COMMAND_RUN", "FILE_EDIT")]
    assert outcomes == [("failed", 2), ("cancelled", None)]
    assert imported.skipped == {"user: written by the program": 1, "local command": 1}
    assert (imported.started_ms, imported.ended_ms) == (MS, MS + 9000)


@pytest.mark.parametrize(
    "place", ["../other", "agents/..", "agents/../../x", "/etc", "agents/explore_1/more", "agents/a\0b", 7, None]
)
def test_subagents_of_mistral_vibe_are_inside_its_folder(tmp_path, place):
    (link,) = VIBE_FOLDER["meta"]["child_sessions"]
    meta = {**VIBE_FOLDER["meta"], "child_sessions": [{**link, "relative_path": place}]}
    (imported,) = take(as_vibe(tmp_path, {**VIBE_FOLDER, "meta": meta}))
    assert imported.children == ()


def test_a_subagent_of_mistral_vibe_that_is_named_again_and_again_is_one_child(tmp_path):
    path = as_vibe(tmp_path, VIBE_FOLDER)
    (link,) = VIBE_FOLDER["meta"]["child_sessions"]
    meta = {**VIBE_FOLDER["meta"], "child_sessions": [{**link, "tool_call_id": f"c{number}"} for number in range(900)]}
    folder = path.parent
    for _ in range(3):  # imported each time they are named, these were 900 to the power of 3
        (folder / "meta.json").write_text(json.dumps(meta), "utf-8")
        folder = folder / "agents" / "explore_1"
        folder.mkdir(parents=True, exist_ok=True)
        write_lines(folder / "messages.jsonl", VIBE_FOLDER["child"])
    (imported,) = take(path)
    for _ in range(3):
        (imported,) = imported.children
    assert imported.children == ()


def test_links_in_the_folders_of_grok_build_and_mistral_vibe_are_not_followed(tmp_path):
    for write, data, name in ((as_grok, GROK_FOLDER, "subagents"), (as_vibe, VIBE_FOLDER, "agents")):
        path = write(tmp_path, data)
        inside = path.parent / name
        os.rename(inside, tmp_path / name)
        os.symlink(tmp_path / name, inside)
        (imported,) = take(path)
        assert imported.children == ()


# -- Goose, by its source alone


@pytest.mark.parametrize("name", ["goose-lines", "goose-database"])
def test_both_forms_of_a_session_of_goose_are_the_same(name, tmp_path):
    (imported,) = take(SAMPLES[name].write(tmp_path, SAMPLES[name].data))
    assert [step[:2] for step in plain(imported)] == [
        ("MODEL_CALL", "m-1" if name == "goose-database" else "unknown"),
        ("PROMPT", "Fix it"), ("COMMENT", "hm"), ("SAY", "I look."), ("COMMAND_RUN", "ls"), ("FILE_EDIT", "/w/a"),
        ("TOOL_CALL", "github"), ("COMMENT", "So far"),
    ]  # fmt: skip
    assert (imported.cwd, imported.tokens) == ("/w", (150, 0, 9))
    assert [step.outcome for step in named(imported, "COMMAND_RUN", "FILE_EDIT", "TOOL_CALL")] == [
        "failed",
        "denied",
        "ok",
    ]
    assert imported.unknown == {"block: hologram": 1, "role: oracle": 1}
    assert imported.skipped == {"user: written by the program": 1, "block: systemNotification": 1}
    assert imported.ended_ms == MS + (9000 if name == "goose-database" else 7000)


# -- Databases


# Of each sample the table of its records, and a column that the importer reads.
RECORDS = {
    "crush-database": ("messages", "role"),
    "goose-database": ("messages", "role"),
    "hermes-database": ("messages", "role"),
    "openclaw-database": ("transcript_events", "event_json"),
}
DATABASES = pytest.mark.parametrize("name", [name for name in TERMINAL_SAMPLES if name.endswith("-database")])


@DATABASES
def test_nothing_is_written_beside_a_database_and_a_log_is_read(name, tmp_path):
    path = SAMPLES[name].write(tmp_path, SAMPLES[name].data)
    before = {one: one.read_bytes() for one in path.parent.iterdir()}
    (whole,) = take(path)
    assert {one: one.read_bytes() for one in path.parent.iterdir()} == before
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute(f"DELETE FROM {RECORDS[name][0]} WHERE rowid = 2")
        writer.commit()
        (imported,) = take(path)
        assert imported.counts["lines"] == whole.counts["lines"] - 1


@DATABASES
def test_a_database_with_a_view_or_without_its_end_is_refused(name, tmp_path):
    table = RECORDS[name][0]
    path = SAMPLES[name].write(tmp_path, SAMPLES[name].data)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO others")
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM others, others AS more")
    assert "SQLite database" in refused(path)
    path = SAMPLES[name].write(tmp_path, SAMPLES[name].data)
    path.write_bytes(path.read_bytes()[:-100])
    assert "SQLite database" in refused(path)


@DATABASES
def test_a_row_that_is_too_large_is_counted(name, tmp_path):
    table, column = RECORDS[name]
    path = SAMPLES[name].write(tmp_path, SAMPLES[name].data)
    (whole,) = take(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = zeroblob(40 << 20) WHERE rowid = 2")
    (imported,) = take(path)
    assert imported.unreadable_lines == [2]
    assert imported.counts["prompts"] == whole.counts["prompts"]


# -- All of them


def placed(home: Path, project: Path) -> dict[str, Path]:
    """Put a session of each format where its agent keeps it, held in the project; gives the files by format."""
    held = str(project)
    kimi = {**KIMI_AGENTS, "state": {**KIMI_AGENTS["state"], "cwd": held}}
    first, *others = HERMES_DATABASE["sessions"]
    elsewhere = {**first, "id": "h9", "cwd": str(home)}
    gptme = home / ".local/share/gptme/logs/2026-03-01-a"
    gptme.mkdir(parents=True)
    (gptme / "config.toml").write_text(f'[chat]\nmodel = "m"\nworkspace = "{held}"\n')
    claw = [{**one, "event_json": {**one["event_json"], "cwd": held}} for one in OPENCLAW["transcript_events"]]
    grok = {**GROK_FOLDER, "summary": {**GROK_FOLDER["summary"], "info": {"id": "g1", "cwd": held}}}
    vibe = {**VIBE_FOLDER, "meta": {**VIBE_FOLDER["meta"], "environment": {"working_directory": held}}}
    goose = [{**one, "working_dir": held} for one in GOOSE_DATABASE["sessions"]]
    return {
        "grok-build": as_grok(home / ".grok", grok),
        "mistral-vibe": as_vibe(home / ".vibe/logs", vibe),
        "goose": as_goose(home / ".local/share", {**GOOSE_DATABASE, "sessions": goose}),
        "openclaw": as_openclaw(home, {**OPENCLAW, "transcript_events": claw}),
        "gptme": write_lines(gptme / "conversation.jsonl", GPTME),
        "kimi-code": as_logs(home / ".kimi-code", kimi),
        "crush": as_crush(project, CRUSH),
        "hermes": as_hermes(home, {**HERMES_DATABASE, "sessions": [{**first, "cwd": held}, *others, elsewhere]}),
    }


def test_all_sessions_of_a_project_are_found(tmp_path):
    for name in ("shop", "home"):
        (tmp_path / name).mkdir()
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    shell("init")
    files = placed(shell.home, shell.folder)
    shell("trail", "import", "--all")
    listed = shell.json("trail", "list").trails
    agents = [one.value["agent"] for one in listed]
    assert {name.partition("/")[0] for name in agents} == set(files)
    before = {one.id for one in listed}
    shell("trail", "import", "--all")
    assert {one.id for one in shell.json("trail", "list").trails} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TERMINAL_SAMPLES))
def test_changed_bytes_give_an_error_or_a_sound_trail(name, tmp_path):
    path = SAMPLES[name].write(tmp_path, SAMPLES[name].data)
    whole = path.read_bytes()
    chance = random.Random(5)
    taken = 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 4, 40))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        try:
            take(path)
            taken += 1
        except FormatError as error:
            assert str(path) in str(error)  # noqa: PT017 - either is right
    assert taken > 20
