from __future__ import annotations

import hashlib
import hmac
import json
import shutil

import pytest

from interop_support import FIXTURES, KEY, Objects, named, plain, read, steps_of, write_lines
from periplus.interop import import_transcript
from periplus.interop.conversion import intake
from periplus.trail.format.reader import TrailReader
from periplus.trail.opcodes import opcode_name

pytestmark = pytest.mark.quick

CWD = "/home/ada/harbour"
SESSION = "5b1c2f60-0000-4000-8000-00000000c0de"


def prompt(text, uuid="u1", **more):
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}, **more}


def call(name, arguments, call_id="t1", uuid="a1", **more):
    block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    return {"type": "assistant", "uuid": uuid, "message": {"role": "assistant", "content": [block]}, **more}


def result(content, call_id="t1", uuid="r1", **more):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    if "is_error" in more:
        block["is_error"] = more.pop("is_error")
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": [block]}, **more}


def test_every_tool_becomes_its_step():
    imported = read(FIXTURES / "claude-mappings.jsonl")
    lamp = f"{CWD}/lamp.py"
    assert [step for step in plain(imported) if step[0] != "MODEL_CALL"] == [
        ("PROMPT", "/model harbour-1"),
        ("PROMPT", "Make the lamp\nblink"),
        ("COMMENT", "First look at the lamp."),
        ("SAY", "I read the lamp first."),
        ("FILE_READ", lamp, "520-549"),
        ("FILE_READ", f"{CWD}/notes.md", None),
        ("FILE_WRITE", f"{CWD}/new.py", "sha256:" + hashlib.sha256(b"print('hello')\n").hexdigest()[:8]),
        ("FILE_EDIT", lamp, "ON = True", "ON = blink()"),
        ("FILE_EDIT", lamp, "a", "b"),
        ("FILE_EDIT", lamp, "c", "d"),
        ("FILE_EDIT", f"{CWD}/tide.ipynb", "", "x = 1"),
        ("COMMAND_RUN", "ls -l", CWD),
        ("TEST_RUN", "pytest -q tests", 12),
        ("COMMAND_RUN", "make lamp", CWD),
        ("GIT_COMMIT", "harbour", "Blink", None),
        ("GIT_PUSH", "harbour", "origin"),
        ("SEARCH_CODE", "lamp|light", "src"),
        ("COMMAND_RUN", "sleep 99", CWD),
        ("SEARCH_CODE", "blink", "src"),
        ("FILE_LIST", f"{CWD}/**/*.md"),
        ("FILE_LIST", f"{CWD}/src"),
        ("WEB_FETCH", "https://lamps.example/spec"),
        ("WEB_SEARCH", "lighthouse rhythm"),
        ("PLAN_UPDATE", '[{"content":"blink","status":"pending","activeForm":"Blinking"}]'),
        ("PLAN_UPDATE", '{"plan":"1. blink"}'),
        ("SPELL_CAST", "signals:morse", '{"args":"SOS"}'),
        ("ASK", "Which colour?", "white"),
        ("TOOL_CALL", "tides", "next_high", '{"port":"Brest"}'),
        ("TOOL_CALL", "", "KillShell", '{"shell_id":"7"}'),
        ("TOOL_CALL", "", "Read", '{"offset":1}'),
        ("AGENT_SPAWN", "pilot", "Sound the depth at the pier.", None),
        ("FILE_WRITE", "/etc/x", "sha256:" + hashlib.sha256(b"x").hexdigest()[:8]),
        ("PROMPT", "and a horn"),
        ("PROMPT", "like this one"),
        ("SAY", "Done."),
        ("COMMENT", "Another session said this."),
        ("SAY", "No response requested."),
        ("COMMAND_RUN", "true", CWD),
    ]


def test_facts_of_the_session():
    imported = read(FIXTURES / "claude-mappings.jsonl")
    reader = TrailReader(imported.trail)
    assert (imported.format, imported.agent, imported.session_id) == ("claude-code", "claude-code", SESSION)
    assert (imported.cwd, imported.model, imported.agent_id) == (CWD, "claude-harbour-1", None)
    assert imported.title == "Make the lamp blink"
    assert imported.source_sha256 == hashlib.sha256((FIXTURES / "claude-mappings.jsonl").read_bytes()).digest()
    assert imported.ended_ms - imported.started_ms == 67_000
    assert reader.header.trail_id == SESSION
    assert (reader.header.tool, reader.header.tool_version) == ("claude-code", "2.1.40")
    assert reader.header.source.value == imported.source_sha256
    assert reader.secret == hmac.digest(KEY, imported.source_sha256, "sha256")
    assert reader.status == "cancelled"
    assert imported.files == (
        f"{CWD}/lamp.py", f"{CWD}/notes.md", f"{CWD}/new.py", f"{CWD}/tide.ipynb", "/etc/x",
    )  # fmt: skip


def test_records_that_are_no_steps_are_counted():
    imported = read(FIXTURES / "claude-mappings.jsonl")
    assert imported.skipped == {
        "user: written by the program": 1,
        "local command": 1,
        "system reminder": 1,
        "interruption": 1,
        "file-history-snapshot": 1,
        "system: session_start": 1,
        "progress": 1,
        "attachment: todo_reminder": 1,
    }
    assert imported.unknown == {"hologram": 1, "block: sculpture": 1}
    counts = imported.counts
    assert (counts["prompts"], counts["says"], counts["comments"]) == (4, 3, 2)
    assert (counts["tools"], counts["tools_paired"], counts["model_calls"]) == (27, 26, 28)


def test_outcomes_and_results():
    imported = read(FIXTURES / "claude-mappings.jsonl")
    by_text = {step.operands[0]: step for step in named(imported, "COMMAND_RUN", "TEST_RUN")}
    made = by_text["make lamp"]
    assert (made.outcome, made.exit_code, made.error) == ("failed", 2, "Exit code 2\nno rule")
    assert by_text["sleep 99"].outcome == "cancelled"
    assert by_text["true"].outcome == "cancelled"  # interrupted before any result came
    listed = by_text["ls -l"]
    assert (listed.outcome, listed.duration_ms, listed.result_size) == ("ok", 1000, len("total 0"))
    assert listed.result.value == hashlib.sha256(b"total 0").digest()
    assert by_text["pytest -q tests"].note == f"cd {CWD} && pytest -q tests 2>&1 | tail -5"
    plans = named(imported, "PLAN_UPDATE")
    assert [step.outcome for step in plans] == ["ok", "denied"]
    assert named(imported, "FILE_WRITE")[1].outcome == "denied"
    odd = next(step for step in named(imported, "TOOL_CALL") if step.operands[1] == "Read")
    assert (odd.outcome, odd.error) == ("failed", "file_path missing")
    tides = named(imported, "TOOL_CALL")[0]
    assert tides.result.value == hashlib.sha256(b"04:12\n[image]").digest()
    assert steps_of(imported)[11].source == 15


def test_a_result_stands_once_with_the_last_step_of_its_call():
    edits = [
        step for step in named(read(FIXTURES / "claude-mappings.jsonl"), "FILE_EDIT") if step.operands[1] in ("a", "c")
    ]
    assert [step.result is not None for step in edits] == [False, True]
    assert [step.outcome for step in edits] == ["ok", "ok"]


def test_model_calls_count_once_a_message_with_the_last_usage():
    imported = read(FIXTURES / "claude-mappings.jsonl")
    first = named(imported, "MODEL_CALL")[0]
    assert first.operands[:4] == ("claude-harbour-1", 15, 100, 9)
    assert imported.tokens == (28 * 15, 28 * 100, 9 + 27 * 7)


def test_branches_and_sidechains_have_labels():
    assert [
        step for step in plain(read(FIXTURES / "claude-branches.jsonl")) if step[0] in ("LABEL", "PROMPT", "SAY")
    ] == [
        ("PROMPT", "Draw a chart"),
        ("SAY", "First chart."),
        ("SAY", "Both drawn."),
        ("PROMPT", "In blue, please"),
        ("SAY", "Blue."),
        ("LABEL", "branch from step 6"),
        ("PROMPT", "In red, please"),
        ("SAY", "Red."),
        ("LABEL", "main"),
        ("PROMPT", "Darker blue"),
        ("SAY", "Dark blue."),
        ("LABEL", "back to branch from step 6"),
        ("PROMPT", "Darker red"),
        ("LABEL", "sidechain b12"),
        ("PROMPT", "Check the legend"),
        ("SAY", "Legend fine."),
        ("LABEL", "back to branch from step 6"),
        ("SAY", "Dark red."),
    ]


def test_the_step_that_a_branch_names_is_the_last_before_it():
    imported = read(FIXTURES / "claude-branches.jsonl")
    assert plain(imported)[6] == ("SAY", "Both drawn.")
    assert imported.title == "Draw a chart"


def test_two_branches_from_one_step_have_two_names(tmp_path):
    records = [prompt("a", "u1"), *(prompt(text, text, parentUuid="u1") for text in "bcd")]
    assert plain(read(write_lines(tmp_path / "s.jsonl", records))) == [
        ("PROMPT", "a"), ("PROMPT", "b"),
        ("LABEL", "branch from step 0"), ("PROMPT", "c"),
        ("LABEL", "branch from step 0 (2)"), ("PROMPT", "d"),
    ]  # fmt: skip


def test_parallel_results_come_in_any_order_and_steps_stay_in_the_order_of_calls():
    runs = named(read(FIXTURES / "claude-branches.jsonl"), "COMMAND_RUN")
    assert [step.operands[0] for step in runs] == ["draw 1", "draw 2"]
    assert [step.duration_ms for step in runs] == [3000, 1000]
    assert [step.result.value for step in runs] == [hashlib.sha256(text).digest() for text in (b"1", b"2")]


def test_subagents_beside_the_session_are_children_and_their_digests_stand_where_they_were_spawned():
    imported = read(FIXTURES / "harbour.jsonl")
    by_id = {child.agent_id: child for child in imported.children}
    assert sorted(by_id) == ["c01", "c02", "c03", "c04"]
    assert {child.agent for child in imported.children} == {"claude-code/pilot", "claude-code/diver"}
    spawned = [step.operands[2] and step.operands[2].value for step in named(imported, "AGENT_SPAWN")]
    # by the id in the result, by the same prompt, by order, and one that left no file
    assert spawned == [by_id[name].trail_digest for name in ("c01", "c02", "c03")] + [None]
    inner = named(by_id["c01"], "AGENT_SPAWN")
    assert [step.operands[2].value for step in inner] == [by_id["c04"].trail_digest]
    assert TrailReader(by_id["c02"].trail).header.trail_id == f"{imported.session_id}/c02"
    assert not named(by_id["c02"], "LABEL")


def test_a_damaged_subagent_file_does_not_take_the_session_with_it(tmp_path):
    shutil.copytree(FIXTURES / "harbour", tmp_path / "harbour")
    shutil.copy(FIXTURES / "harbour.jsonl", tmp_path)
    (tmp_path / "harbour/subagents/agent-c02.jsonl").write_bytes(b"\0\0\0")
    imported = read(tmp_path / "harbour.jsonl")
    assert [child.agent_id for child in imported.children] == ["c04", "c01", "c03"]
    assert imported.skipped["file of a subagent that cannot be read"] == 1


def test_calls_without_ids_pair_by_their_record_and_then_by_order():
    imported = read(FIXTURES / "claude-no-ids.jsonl")
    runs = named(imported, "COMMAND_RUN")
    assert [step.operands[0] for step in runs] == ["one", "two", "three"]
    assert [step.outcome for step in runs] == ["ok", "failed", "ok"]
    assert [step.result.value for step in runs] == [hashlib.sha256(text).digest() for text in (b"1", b"2", b"3")]
    assert imported.skipped == {"result without its call": 2}
    assert imported.session_id == imported.source_sha256.hex()[:16]


def test_a_resumed_session_repeats_its_history_and_counts_once(tmp_path):
    lines = (FIXTURES / "claude-branches.jsonl").read_text().splitlines()
    resumed = [json.loads(line) | {"sessionId": "another"} for line in lines]
    new = prompt("And green", "u-new", parentUuid=resumed[-1]["uuid"], sessionId="another")
    both = read(write_lines(tmp_path / "both.jsonl", [*map(json.loads, lines), *resumed, new]))
    once = read(write_lines(tmp_path / "once.jsonl", [*map(json.loads, lines), new]))
    assert plain(both) == plain(once)
    assert both.counts["duplicates"] == len(lines)
    assert both.session_id == "another"


def test_two_records_under_one_uuid_that_differ_are_both_kept(tmp_path):
    imported = read(write_lines(tmp_path / "s.jsonl", [prompt("one", "same"), prompt("three", "same")]))
    assert plain(imported) == [("PROMPT", "one"), ("PROMPT", "three")]
    assert imported.counts["duplicates"] == 0


def test_an_unanswered_call_is_unknown_and_the_run_partial(tmp_path):
    imported = read(
        write_lines(tmp_path / "s.jsonl", [prompt("go"), call("Bash", {"command": "ls"}), prompt("hm", "u2")])
    )
    assert [step.outcome for step in steps_of(imported)] == ["ok", "unknown", "ok"]
    assert TrailReader(imported.trail).status == "partial"
    assert imported.counts["tools_paired"] == 0


def test_the_queue_of_open_calls_is_bounded(tmp_path):
    count = intake.PENDING_CALLS_MAX + 10
    calls = [call("Bash", {"command": f"run {n}"}, f"t{n}", f"a{n}") for n in range(count)]
    imported = read(
        write_lines(tmp_path / "s.jsonl", [*calls, result("first", "t0"), result("last", f"t{count - 1}", "r2")])
    )
    runs = named(imported, "COMMAND_RUN")
    assert [step.operands[0] for step in runs] == [f"run {n}" for n in range(count)]
    assert [step.outcome for step in runs] == ["unknown"] * (count - 1) + ["ok"]
    assert imported.skipped["result too late"] == 1


def test_large_texts_go_to_the_objects(tmp_path):
    from interop_support import KEY

    text, content = "wave " * 2000, "sea\n" * 3000
    path = write_lines(tmp_path / "s.jsonl", [prompt(text), call("Write", {"file_path": "/a", "content": content})])
    objects = Objects()
    imported = import_transcript(str(path), trail_key=KEY, put_object=objects.put)
    asked, wrote = steps_of(imported)
    assert objects[asked.operands[0].sha256] == text.encode()
    assert objects[wrote.operands[1].value] == content.encode()


def test_secrets_are_masked_wherever_they_stand(tmp_path):
    secret = "ghp_" + "A1b2C3d4E5" * 3 + "f6G7h8"
    records = [
        prompt(f"use {secret}", cwd=f"/home/{secret}", sessionId=secret),
        call("Bash", {"command": f"curl -H 'x: {secret}' https://a.example && pytest"}),
        result(f"Exit code 1\nwrong {secret}", is_error=True),
        call("Write", {"file_path": f"/{secret}", "content": f"token {secret}"}, "t2", "a2"),
        call("Edit", {"file_path": "/a", "old_string": secret, "new_string": "b"}, "t3", "a3"),
        call("mcp__x__y", {"deep": [{"key": secret, secret: 1}]}, "t4", "a4"),
        call("AskUserQuestion", {"questions": [{"question": "which?"}]}, "t5", "a5"),
        result(f"answer {secret}", "t5", "r5"),
        call(secret, {}, "t6", "a6"),
    ]
    path = write_lines(tmp_path / "s.jsonl", records)
    from interop_support import KEY

    objects = Objects()
    imported = import_transcript(str(path), trail_key=KEY, put_object=objects.put)
    assert secret.encode() not in imported.trail
    assert not any(secret.encode() in data for data in objects.values())
    assert secret not in str(imported._replace(trail=b""))
    assert imported.masked >= 9


def test_half_characters_and_numbers_out_of_range_are_mended(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        b'{"type":"user","uuid":"u1","message":{"role":"user","content":"cut \\ud83d off"},"n":1e999}\n'
        b'{"type":"assistant","uuid":"a1","message":{"content":[{"type":"tool_use","id":"t","name":"X","input":'
        b'{"n":123456789012345678901234567890,"f":1.5}}]}}\n'
    )
    assert plain(read(path)) == [
        ("PROMPT", "cut \ufffd off"),
        ("TOOL_CALL", "", "X", '{"n":"123456789012345678901234567890","f":1.5}'),
    ]


def test_importing_twice_gives_the_same_bytes(tmp_path):
    for name in ("claude-mappings", "claude-branches", "harbour", "claude-no-ids"):
        first, second = read(FIXTURES / f"{name}.jsonl"), read(FIXTURES / f"{name}.jsonl")
        assert first == second
        copied = tmp_path / f"{name}-copy.jsonl"
        shutil.copy(FIXTURES / f"{name}.jsonl", copied)
        if not first.children:
            assert read(copied).trail == first.trail, "the name of the file is no part of the trail"


def test_progress_is_told(tmp_path):
    told = []
    read(FIXTURES / "claude-mappings.jsonl", progress=lambda done, total: told.append((done, total)))
    size = (FIXTURES / "claude-mappings.jsonl").stat().st_size
    assert told[-1] == (size, size)


@pytest.mark.parametrize(
    ("command", "said", "is_error", "ended"),
    [
        ("pytest -q", "1 failed, 3 passed in 0.1s", True, ("failed", None, "1 failed, 3 passed in 0.1s", 3)),
        ("pytest -q", "4 passed in 0.1s", False, ("ok", None, None, 4)),
        ("pytest -q 2>&1 | tail -5", "1 failed, 3 passed in 0.1s", False, ("failed", None, "1 failed, 3 passed in 0.1s", 3)),
        ("pytest -q 2>&1 | tail -5", "4 passed in 0.1s", False, ("ok", None, None, 4)),
        ("pytest -q | head -1", "collecting ...", False, ("unknown", None, None, None)),
        ("pytest -q || true", "2 errors in 0.1s", False, ("failed", None, "2 errors in 0.1s", None)),
        ("pytest -q; false", "Exit code 1\n4 passed in 0.1s", True, ("ok", None, None, 4)),
    ],
)  # fmt: skip
def test_tests_whose_exit_code_is_hidden_end_as_their_runner_says(tmp_path, command, said, is_error, ended):
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": said, "is_error": is_error}
    records = [
        {"type": "assistant", "uuid": "a", "sessionId": "s", "message": {"id": "m", "content": [call]}},
        {"type": "user", "uuid": "b", "parentUuid": "a", "message": {"role": "user", "content": [result]}},
    ]
    (step,) = named(read(write_lines(tmp_path / "s.jsonl", records)), "TEST_RUN")
    assert (step.outcome, step.exit_code, step.error, step.operands[1]) == ended


@pytest.mark.parametrize(
    ("command", "said", "ended"),
    [
        ("git commit -m x 2>&1 | tail -5", "ruff........Failed\n- hook id: ruff", [("GIT_COMMIT", "unknown")]),
        ("git commit -m x 2>&1 | tail -5", "[main 0123456] x", [("GIT_COMMIT", "ok")]),
        ("git commit -m x && git push 2>&1 | tail -3", " ! [rejected] main -> main", [("GIT_COMMIT", "ok"), ("GIT_PUSH", "failed")]),
    ],
)  # fmt: skip
def test_a_commit_or_a_push_whose_exit_code_is_hidden_ends_as_git_says(tmp_path, command, said, ended):
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": said}
    records = [
        {"type": "assistant", "uuid": "a", "sessionId": "s", "message": {"id": "m", "content": [call]}},
        {"type": "user", "uuid": "b", "parentUuid": "a", "message": {"role": "user", "content": [result]}},
    ]
    found = named(read(write_lines(tmp_path / "s.jsonl", records)), "GIT_COMMIT", "GIT_PUSH")
    assert [(opcode_name(step.code), step.outcome) for step in found] == ended


PASSED, FAILED, COMMITTED, REJECTED = (
    "4 passed in 0.1s",
    "1 failed, 3 passed in 0.1s",
    "[main 0123456] x",
    " ! [rejected] main -> main",
)
CHAIN = "pytest -q && git commit -m x && git push"
NO_RUN = ("cancelled", None)


@pytest.mark.parametrize(
    ("command", "said", "code", "ended"),
    [
        (CHAIN, PASSED, 0, [("ok", None)] * 3),
        (CHAIN, FAILED, 1, [("failed", 1), NO_RUN, NO_RUN]),
        (CHAIN, f"{PASSED}\nnothing to commit", 1, [("ok", None), ("failed", 1), NO_RUN]),
        (CHAIN, f"{PASSED}\n{COMMITTED}\n{REJECTED}", 1, [("ok", None), ("ok", None), ("failed", 1)]),
        (CHAIN, f"{COMMITTED}\nssh: no route", 128, [("ok", None), ("ok", None), ("failed", 128)]),
        (CHAIN, PASSED, 1, [("ok", None), ("unknown", None), ("unknown", None)]),
        (CHAIN, "what?", 1, [("unknown", None)] * 3),
        ("make && pytest", "make: *** [all] Error 1", 2, [("unknown", None)]),
        ("make && pytest", FAILED, 1, [("failed", 1)]),
        ("pytest && make", PASSED, 2, [("ok", None)]),
        ("cd a && pytest", "what?", 1, [("failed", 1)]),
        ("cd a && pytest", "bash: line 1: cd: a: No such file or directory", 1, [("unknown", None)]),
        ("cd a && pytest", "sh: 1: cd: can't cd to a", 2, [("unknown", None)]),
        ("pytest; ls none", f"{PASSED}\nls: none: No such file", 2, [("ok", None)]),
        ("pytest; ls none", "ls: none: No such file", 2, [("unknown", None)]),
        ("make || pytest", "made", 0, [("unknown", None)]),
        ("make || pytest", FAILED, 1, [("failed", None)]),
        ("if make; then pytest; fi", "what?", 0, [("unknown", None)]),
        ("rg a && rg b", "", 1, [("unknown", None)] * 2),
        ("rg a && rg b", "x", 0, [("ok", None)] * 2),
        ("rg a; rg b", "", 1, [("unknown", None), ("failed", 1)]),
        ("rg a | head", "", 0, [("ok", None)]),
    ],
)  # fmt: skip
def test_of_a_command_of_several_parts_what_is_known_of_each(tmp_path, command, said, code, ended):
    """One exit code was written for all of them: a commit behind tests that failed had failed, with the code of the tests."""
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": command}}
    text = f"Exit code {code}\n{said}" if code else said
    result = {"type": "tool_result", "tool_use_id": "t", "content": text, "is_error": bool(code)}
    records = [
        {"type": "assistant", "uuid": "a", "sessionId": "s", "message": {"id": "m", "content": [call]}},
        {"type": "user", "uuid": "b", "parentUuid": "a", "message": {"role": "user", "content": [result]}},
    ]
    found = named(read(write_lines(tmp_path / "s.jsonl", records)), "TEST_RUN", "GIT_COMMIT", "GIT_PUSH", "SEARCH_CODE")
    assert [(step.outcome, step.exit_code) for step in found] == ended
    for step in found:
        if step.outcome == "unknown" and code:
            assert f"exit code {code}" in step.error or "cd: " in step.error
        assert step.outcome != "cancelled" or "not run" in step.error


def test_tests_that_were_only_begun_have_no_outcome_yet(tmp_path):
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "pytest", "run_in_background": True}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "Command running in background with ID: 7"}
    records = [
        {"type": "assistant", "uuid": "a", "sessionId": "s", "message": {"id": "m", "content": [call]}},
        {"type": "user", "uuid": "b", "parentUuid": "a", "message": {"role": "user", "content": [result]}},
    ]
    (step,) = named(read(write_lines(tmp_path / "s.jsonl", records)), "TEST_RUN")
    assert step.outcome == "unknown"


@pytest.mark.parametrize("kind", ["api-request", "api-request-blob", "api-request-shape", "cost-state", "tools-used"])
def test_what_the_program_notes_of_its_requests_is_no_step(tmp_path, kind):
    note = {"type": kind, "sessionId": "s", "message": {"role": "user", "content": "go"}, "params": {"model": "m"}}
    imported = read(write_lines(tmp_path / "s.jsonl", [prompt("go"), note]))
    assert plain(imported) == [("PROMPT", "go")]
    assert (imported.unknown, imported.skipped) == ({}, {kind: 1})
