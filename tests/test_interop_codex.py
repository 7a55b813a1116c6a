from __future__ import annotations

import hashlib
import json

import pytest

from interop_support import FIXTURES, named, plain, read, steps_of, write_lines
from periplus.interop.conversion.apply_patch import Change, find_patch, parse_patch
from periplus.trail.format.reader import TrailReader

pytestmark = pytest.mark.quick

CWD = "/home/ada/harbour"
META = {"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}


def item(**payload):
    return {"type": "response_item", "payload": payload}


def event(**payload):
    return {"type": "event_msg", "payload": payload}


def said(role, text):
    return item(type="message", role=role, content=[{"type": "input_text", "text": text}])


def test_every_record_becomes_its_step():
    imported = read(FIXTURES / "codex-mappings.jsonl")
    stern = "sha256:" + hashlib.sha256(b"print('stern')\n\n").hexdigest()[:8]
    assert plain(imported) == [
        ("PROMPT", "Paint the boat"),
        ("COMMENT", "**Choosing a colour**"),
        ("MODEL_CALL", "gpt-harbour", 600, 400, 50, None),
        ("COMMAND_RUN", "ls boats", f"{CWD}/dock"),
        ("COMMAND_RUN", "cat 'old paint.txt'", CWD),
        ("TEST_RUN", "cargo test", 7),
        ("GIT_COMMIT", "harbour", "Paint it", "git-sha1:00000000"),
        ("FILE_EDIT", "hull.py", "keep\nred", "keep\nblue"),
        ("FILE_EDIT", "hull.py", "old", "new"),
        ("FILE_WRITE", "stern.py", stern),
        ("FILE_DELETE", "rust.py"),
        ("FILE_EDIT", "bow.py", "bow", "prow"),
        ("FILE_MOVE", "bow.py", "prow.py"),
        ("FILE_EDIT", "keel.py", "k", "K"),
        ("PLAN_UPDATE", '{"plan":[{"step":"paint","status":"in_progress"}]}'),
        ("FILE_READ", f"{CWD}/boat.png", None),
        ("TOOL_CALL", "tides", "next_high", '{"port":"Brest"}'),
        ("TOOL_CALL", "weather", "forecast", '{"days":2}'),
        ("WEB_SEARCH", "boat paint"),
        ("WEB_FETCH", "https://paint.example/blue"),
        ("SEARCH_CODE", "hull", "src dir"),
        ("COMMAND_RUN", "date", "/tmp"),
        ("TOOL_CALL", "", "tool_search", '{"query":"paint"}'),
        ("CHECKPOINT", "git-sha1:00000000"),
        ("MODEL_CALL", "gpt-harbour", 1000, 1000, 40, None),
        ("COMMAND_RUN", "rm -rf boats", CWD),
        ("AGENT_SPAWN", "painter", "Second coat", None),
        ("SAY", "The boat is blue."),
        ("PROMPT", "Thank you"),
        ("COMMAND_RUN", "sleep 1000", CWD),
    ]


def test_calls_have_the_outcomes_that_their_results_tell():
    steps = {step.operands[0]: step for step in steps_of(read(FIXTURES / "codex-mappings.jsonl"))}
    ok, failed = steps["ls boats"], steps["cat 'old paint.txt'"]
    assert (ok.outcome, ok.exit_code, ok.result.value) == ("ok", 0, hashlib.sha256(b"a\nb\n").digest())
    assert (failed.outcome, failed.exit_code, failed.error) == ("failed", 1, "no such file")
    assert (steps["cargo test"].outcome, steps["cargo test"].exit_code) == ("failed", 101)
    assert (steps["keel.py"].outcome, steps["keel.py"].exit_code) == ("failed", 1)
    assert (steps["tides"].outcome, steps["weather"].outcome) == ("failed", "ok")
    assert steps["rm -rf boats"].outcome == "denied"
    assert steps["sleep 1000"].outcome == "cancelled"
    assert steps["date"].result.value == hashlib.sha256(b"today\n").digest()


def test_facts_of_the_session():
    imported = read(FIXTURES / "codex-mappings.jsonl")
    header = TrailReader(imported.trail).header
    assert (imported.format, imported.agent, imported.model) == ("codex", "codex", "gpt-harbour")
    assert (imported.session_id, imported.cwd) == ("019d0000-aaaa-7bbb-8ccc-000000000001", CWD)
    assert header.base.value.hex() == "5d41402abc4b2a76b9719d911017c592ae2b1c3d"
    assert header.tool_version == "0.80.1"
    assert imported.tokens == (1600, 1400, 90)
    assert (imported.counts["tools"], imported.counts["tools_paired"]) == (18, 17)
    assert imported.unknown == {"event: hologram": 1, "item: sculpture": 1, "carving": 1}
    assert imported.skipped["prompt said twice"] == 2
    assert TrailReader(imported.trail).status == "cancelled"


def test_bare_items_of_older_versions():
    imported = read(FIXTURES / "codex-bare.jsonl")
    assert plain(imported) == [("PROMPT", "hello"), ("COMMAND_RUN", "pwd", None), ("SAY", "here")]
    assert imported.session_id == "0a0a0a0a-1111-4222-8333-000000000abc"


def test_a_prompt_counts_once_whichever_record_comes_first(tmp_path):
    records = [
        META,
        event(type="user_message", message="one"),
        said("user", "one"),
        said("user", "two\nparts"),
        event(type="user_message", message="twoparts"),
        event(type="user_message", message="one"),
        said("user", "one"),
        said("user", "three"),
    ]
    records = [record | {"timestamp": f"2026-01-01T00:00:{n:02d}Z"} for n, record in enumerate(records)]
    imported = read(write_lines(tmp_path / "s.jsonl", records))
    assert [text for _, text in plain(imported)] == ["one", "two\nparts", "one", "three"]


def test_exact_copies_of_records_are_dropped(tmp_path):
    lines = (FIXTURES / "codex-mappings.jsonl").read_text()
    path = tmp_path / "twice.jsonl"
    path.write_text(lines + lines)
    imported = read(path)
    assert plain(imported) == plain(read(FIXTURES / "codex-mappings.jsonl"))
    assert imported.counts["duplicates"] == lines.count("\n")


def test_arguments_that_are_no_json_stay_text(tmp_path):
    call = item(type="function_call", name="shell", arguments="{not json", call_id="c")
    custom = item(type="custom_tool_call", name="exec", input="await go()", call_id="d")
    records = [META, call, custom, item(type="function_call", name="f", arguments=None, call_id="e")]
    assert plain(read(write_lines(tmp_path / "s.jsonl", records))) == [
        ("TOOL_CALL", "", "shell", '"{not json"'),
        ("TOOL_CALL", "", "exec", '"await go()"'),
        ("TOOL_CALL", "", "f", "null"),
    ]


def test_calls_of_one_id_pair_in_order(tmp_path):
    records = [META]
    for command in ("one", "two"):
        arguments = json.dumps({"command": command})
        records.append(item(type="function_call", name="shell", arguments=arguments, call_id="same"))
    records += [item(type="function_call_output", call_id="same", output=text) for text in ("1", "2", "3")]
    imported = read(write_lines(tmp_path / "s.jsonl", records))
    assert [step.result.value for step in named(imported, "COMMAND_RUN")] == [
        hashlib.sha256(text).digest() for text in (b"1", b"2")
    ]
    assert imported.skipped["result without its call"] == 1


def test_a_patch_of_a_file_that_holds_the_end_of_a_patch_is_read_whole():
    text = (
        "*** Begin Patch\n*** Add File: doc.md\n+A patch ends so:\n+*** End Patch\n+and then nothing.\n"
        "*** Delete File: old.md\n*** End Patch\nEOF"
    )
    assert parse_patch(find_patch(text)) == [
        Change("write", "doc.md", new="A patch ends so:\n*** End Patch\nand then nothing.\n"),
        Change("delete", "old.md"),
    ]


def test_a_patch_gives_a_change_for_each_hunk_and_what_is_odd_gives_none():
    patch = find_patch(
        "x\n*** Begin Patch\n*** Add File: a b\n+1\n+\n*** Update File: c\n*** Move to: d\n@@ x\n k\n-o\n+n\n*** End of File\n*** End Patch\ny"
    )
    assert parse_patch(patch) == [
        Change("write", "a b", new="1\n\n"),
        Change("edit", "c", "k\no", "k\nn"),
        Change("move", "c", target="d"),
    ]
    assert parse_patch("*** Begin Patch\n*** Delete File: z\n") == [Change("delete", "z")]
    assert find_patch("nothing") is None
    assert parse_patch("") == []
    assert parse_patch("*** Begin Patch\n*** Update File: c\n@@\n same\n") == []


def test_a_half_of_a_character_in_the_first_lines_or_in_what_a_tool_was_given_loses_neither(tmp_path):
    """Programs in JavaScript cut texts within a character: a session was unknown for it, and a run of tests was none."""
    half = "\\ud83d"
    meta = json.dumps({"type": "session_meta", "payload": {"id": "s", "cwd": "/w/HALF", "cli_version": "1"}})
    given = json.dumps({"command": ["pytest", f"cut{half}"]}).replace("\\\\", "\\")
    call = item(type="function_call", name="shell", call_id="c", arguments=given)
    path = tmp_path / "rollout-2026-02-04T08-00-00-s.jsonl"
    path.write_text(f"{meta.replace('HALF', half)}\n{json.dumps(call)}\n")
    imported = read(path)
    (step,) = named(imported, "TEST_RUN")
    assert step.operands[0] == "pytest 'cut\ufffd'"


def test_what_a_person_took_back_is_a_step(tmp_path):
    """It was only counted: the steps before stood as if the files were still as they gave them."""
    rows = [META, said("user", "Paint it")]
    rows += [
        event(type="undo_completed", **more)
        for more in ({"success": True}, {"success": False, "message": "No snapshot"}, {})
    ]
    imported = read(write_lines(tmp_path / "rollout-2026-02-04T08-00-00-s.jsonl", rows))
    steps = named(imported, "TOOL_CALL")
    assert [(step.operands[1], step.outcome, step.error) for step in steps] == [
        ("undo", "ok", None), ("undo", "failed", "No snapshot"), ("undo", "unknown", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "said", ["Command blocked by PreToolUse hook: claimed.", "Tool call blocked by PreToolUse hook: claimed."]
)
def test_a_call_that_a_hook_blocked_was_denied(tmp_path, said):
    patch = "*** Begin Patch\n*** Update File: keel.py\n@@\n-k\n+K\n*** End Patch\n"
    lines = [
        META,
        item(type="custom_tool_call", call_id="c1", name="apply_patch", input=patch),
        {"type": "token_usage_record", "payload": {"usage": {"input_tokens": 1}}},
        item(type="custom_tool_call_output", call_id="c1", output=f"{said} Command: {patch}"),
    ]
    imported = read(write_lines(tmp_path / "s.jsonl", lines))
    (edit,) = steps_of(imported)
    assert (plain(imported)[0][:2], edit.outcome) == (("FILE_EDIT", "keel.py"), "denied")
    assert imported.unknown == {}
