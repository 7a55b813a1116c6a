"""Hostile transcripts: whatever the file says, an import ends, in time that grows with the file, in a trail that verifies
or in one clear error. No time is asserted: what is quadratic in these sizes would not end before the alarm.
"""

from __future__ import annotations

import json
import signal

import pytest

from interop_support import named, read, steps_of, write_lines
from periplus.base.errors import PeriplusError
from periplus.interop.shell_commands.actions import commit_digest, passed_count, recognise

MILLIONS = 3_000_000


@pytest.fixture(autouse=True)
def patience():
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it does not come to an end"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def filled(text, size):
    return (text * (size // len(text) + 1))[:size]


def prompt(text, number=1, **fields):
    return {"type": "user", "uuid": f"u{number}", "parentUuid": None, "sessionId": "s",
            "timestamp": "2026-01-01T00:00:00Z", "message": {"role": "user", "content": text}} | fields  # fmt: skip


def call(name, arguments, result, number=1):
    block = {"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}
    answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
    return [
        prompt("", number, type="assistant", uuid=f"a{number}", message={"id": f"m{number}", "content": [block]}),
        prompt([answer], number, uuid=f"r{number}", parentUuid=f"a{number}"),
    ]


@pytest.mark.parametrize(
    "text",
    ["<system-reminder>", "<ide_selection>", "<ide_opened_file></ide_selection>", "<command-name>",
     "<command-name>x</command-name><command-args>", "<bash-input>", "</system-reminder>", "<system-reminder> \n", "<", "\n"]
)  # fmt: skip
def test_a_prompt_of_one_mark_repeated(tmp_path, text):
    imported = read(write_lines(tmp_path / "s.jsonl", [prompt("hello", 0), prompt(filled(text, MILLIONS))]))
    assert imported.counts["prompts"] >= 1


def test_what_a_client_inserts_is_taken_out_as_before(tmp_path):
    texts = {
        "<system-reminder>a</system-reminder>\n do it <system-reminder>b</system-reminder>": "do it",
        "<ide_selection>x</ide_selection> \n<ide_opened_file>y</ide_opened_file>do that": "do that",
        "keep <system-reminder> open": "keep <system-reminder> open",
        "<system-reminder><system-reminder>a</system-reminder>rest": "rest",
        "<command-name>/review</command-name><command-args> a b </command-args>": "/review a b",
        "<command-message>m</command-message><command-name>go</command-name>": "/go",
        "<command-name>/never ends": "<command-name>/never ends",
        "<bash-input>ls</bash-input> more": "!ls",
        "<bash-input>ls": "<bash-input>ls",
    }
    path = write_lines(tmp_path / "s.jsonl", [prompt(text, number) for number, text in enumerate(texts)])
    assert [step.operands[0] for step in named(read(path), "PROMPT")] == list(texts.values())


@pytest.mark.parametrize(
    "text", ["1", "1 ", "Passed: ", "Tests: ", "\n1 ", "\t", "Ran 1", "0 examples, ", "\x1b[", "1 passed"]
)
def test_the_output_of_tests_is_read_in_one_pass(text):
    for mark in ("PASS", "OK (", "Tests run"):
        passed_count(mark + filled(text, 65_000))
        passed_count(filled(text, 65_000) + mark)


@pytest.mark.parametrize(
    "text",
    ["'", '"', "\\", '"\\', "'\"", "\"'\\", "<<A\n", "<<", "$(", "`", "(", "#", " #", "1>", "&", "\\\n", "a ", "a'", "\x00",
     "git commit -m \"$(cat <<'E'\n", "pytest;", "[main ", "0" * 39 + " "]
)  # fmt: skip
def test_a_command_of_one_piece_repeated(text):
    for start in ("pytest ", "git commit -m '", 'grep "'):
        recognise((start + filled(text, 65_000))[:65_536])
    commit_digest(filled(text, 65_000), "git commit; git rev-parse HEAD")


@pytest.mark.parametrize(
    "text",
    ["*** Begin Patch\n", "*** Update File: a\n", "@@\n", "-a\n+b\n", "*** Add File: a\n+", "*** Move to: b\n", "\n"],
)
def test_a_patch_of_one_line_repeated(tmp_path, text):
    lines = [
        {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "x", "cwd": "/w"}},
        {"type": "response_item", "payload": {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c",
         "input": "*** Begin Patch\n*** Update File: q\n" + filled(text, MILLIONS // 3)}},
        {"type": "response_item", "payload": {"type": "function_call", "name": "shell", "call_id": "d", "arguments":
         json.dumps({"command": ["bash", "-lc", "apply_patch <<'E'\n*** Begin Patch\n" + filled(text, MILLIONS // 3)]})}},
    ]  # fmt: skip
    assert read(write_lines(tmp_path / "rollout.jsonl", lines)).counts["tools"] == 2


@pytest.mark.parametrize(
    "stamp",
    ["9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00Z", "-0001-01-01T00:00:00Z", "NaN", 1e308, -5, None, [], {},
     "2026-01-01T00:00:00+99:99", "2026-02-30T00:00:00Z", "9" * 100_000]
)  # fmt: skip
def test_clocks_that_no_clock_shows(tmp_path, stamp):
    records = [prompt("a", 1, timestamp=stamp), prompt("b", 2), prompt("c", 3, timestamp=stamp)]
    assert read(write_lines(tmp_path / "s.jsonl", records)).counts["prompts"] == 3


def test_records_that_name_each_other_as_parents(tmp_path):
    records = [prompt(str(number), number, parentUuid=f"u{(number + 1) % 50}") for number in range(50)]
    records += [prompt("self", 99, parentUuid="u99"), prompt("again", 99, parentUuid="u99")]
    assert read(write_lines(tmp_path / "s.jsonl", records)).counts["prompts"] == 52


def test_calls_that_all_have_one_id(tmp_path):
    records = [record for number in range(3000) for record in call("Read", {"file_path": "a"}, "x", number)]
    for record in records:
        for block in record["message"]["content"]:
            block["id" if "id" in block else "tool_use_id"] = "one"
    opened = records[::2]
    imported = read(write_lines(tmp_path / "s.jsonl", opened + records[1::2]))
    assert imported.counts["tools"] == 3000


@pytest.mark.slow
def test_many_waiting_calls_with_one_id_and_as_many_interruptions(tmp_path):
    path = tmp_path / "s.jsonl"
    opened = call("Read", {"file_path": "a"}, "x", 1)[0]
    with path.open("w", encoding="utf-8") as file:
        for number in range(25_000):
            file.write(json.dumps(opened | {"uuid": f"a{number}"}) + "\n")
        for number in range(25_000):
            file.write(json.dumps(prompt("[Request interrupted by user]", number)) + "\n")
    assert read(path).counts["tools"] == 25_000


@pytest.mark.parametrize("text", ["\0", "\ud800", "a\0b\ud83d", "\u2028", "\x1b]0;x\x07", "￾"])
def test_texts_that_are_hard_to_carry(tmp_path, text):
    records = [prompt("first"), prompt(text * 5, 2), *call("Bash", {"command": f"echo {text}"}, text, 3),
               *call(text, {text: text}, text, 4), prompt("last", 5, cwd=text, sessionId=text)]  # fmt: skip
    assert read(write_lines(tmp_path / "s.jsonl", records)).counts["prompts"] >= 2


@pytest.mark.parametrize("depth", [100, 2_000, 200_000])
def test_records_that_are_nested_deeply(tmp_path, depth):
    path = write_lines(tmp_path / "s.jsonl", [prompt("first")])
    nested = b"[" * depth + b"]" * depth
    with path.open("ab") as file:
        for field in (b"message", b"content", b"toolUseResult", b"attachment", b"uuid"):
            file.write(b'{"type":"user","uuid":"x","%b":%b}\n' % (field, nested))
        file.write(b'{"type":"assistant","uuid":"y","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"X",'
                   b'"input":{"a":%b}}]}}\n' % nested)  # fmt: skip
        file.write(nested + b"\n")
    assert read(path).counts["lines"] == 8


def test_a_folder_of_subagents_that_is_a_link_is_not_followed(tmp_path):
    others = tmp_path / "others"
    others.mkdir()
    write_lines(others / "agent-1.jsonl", [prompt("somebody else's secret plan", isSidechain=True)])
    path = write_lines(tmp_path / "s.jsonl", [prompt("hello")])
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "subagents").symlink_to(others)
    assert read(path).children == ()
    (tmp_path / "s" / "subagents").unlink()
    (tmp_path / "s" / "subagents").mkdir()
    (tmp_path / "s" / "subagents" / "agent-1.jsonl").symlink_to(others / "agent-1.jsonl")
    assert read(path).children == ()


@pytest.mark.parametrize("name", ["a\nb.jsonl", "\udcff.jsonl", "-rf.jsonl", "a\tb\x1b[2J.jsonl"])
def test_names_of_files_that_are_no_names(tmp_path, name):
    path = write_lines(tmp_path / name, [prompt("hello")])
    assert read(path).counts["prompts"] == 1
    path.write_text("no transcript")
    with pytest.raises(PeriplusError):
        read(path)


@pytest.mark.slow
def test_a_million_tiny_records(tmp_path):
    path = tmp_path / "s.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(prompt("first")) + "\n")
        for number in range(1_000_000):
            file.write(f'{{"type":"k{number % 5000}","uuid":"{number}","parentUuid":"{number - 1}"}}\n')
    imported = read(path)
    assert imported.counts["lines"] == 1_000_001
    assert len(imported.unknown) <= 257
    assert len(steps_of(imported)) == 1
