"""``periplus trail record`` and ``trail seal`` as an agent's hooks use them."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from cli_support import Shell, decoded, git, make_repository

STEPS = [
    {"op": "PROMPT", "text": "Oil the engine"},
    {"op": "file_read", "path": "engine.py", "outcome": "ok"},
    {"op": "COMMAND_RUN", "command": "make", "outcome": "failed", "exit_code": 2, "error": "no rule"},
    {"op": "FILE_WRITE", "path": "oil.txt", "content": "oil\n", "key": "call-1"},
    {"op": "CHECKPOINT"},
]


@pytest.fixture
def shell(tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(make_repository(tmp_path / "engine"), tmp_path / "home")
    shell("init")
    return shell


def lines(*steps):
    return "".join(json.dumps(step) + "\n" for step in steps)


def documents(done):
    return [json.loads(line) for line in done.lines if line.startswith("{")]


def test_each_step_is_acknowledged_and_the_run_becomes_a_trail(shell):
    (shell.folder / "oil.txt").write_text("oil\n")
    done = shell("trail", "record", "--agent", "ada/1", "--title", "Oil", "--json", stdin=lines(*STEPS))
    first, *acknowledged, last = documents(done)
    assert list(first) == ["run"]
    assert [one["index"] for one in acknowledged] == [1, 2, 3, 4, 5]
    seqs = [one["seq"] for one in acknowledged]
    assert seqs == sorted(seqs)
    sealed = decoded(done.lines[-1])
    assert (sealed.run, sealed.status, sealed.steps, sealed.changed) == (first["run"], "success", 7, True)
    assert last["trail"] == sealed.trail
    assert shell.json("trail", "verify", sealed.trail).ok
    shown = shell("trail", "show", sealed.trail).out
    assert "Oil the engine" in shown
    assert "agent     ada/1" in shown
    listed = shell.json("trail", "list")
    assert [trail.id for trail in listed.trails] == [sealed.trail]
    assert listed.unsealed == []


def test_an_acknowledgement_comes_before_the_next_step_is_sent(shell):
    process = shell.start("trail", "record", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    json.loads(process.stdout.readline())
    for number in range(3):
        process.stdin.write(lines({"op": "SAY", "text": str(number)}))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["index"] == number + 1
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.slow
def test_a_wrong_step_is_told_by_line_and_key_and_the_run_goes_on(shell):
    wrong = [
        ({"op": "FILE_EDIT", "path": "a", "old": "x"}, "new: required"),
        ({"op": "FLY"}, "op: unknown opcode 'FLY'"),
        ({"path": "a"}, "op: a string is required"),
        ({"op": "NOP", "key": 3}, "key: a string is expected"),
        ({"op": "NOP", "speed": 3}, "speed: NOP has no such operand"),
        (["NOP"], "a step must be a JSON object"),
    ]
    for step, what in wrong:
        done = shell("trail", "record", code=2, stdin="\n" + lines({"op": "NOP"}, step, {"op": "NOP"}))
        run, acknowledged = documents(done)
        assert f"line 3: {what}" in done.err
        assert f"trail record --run {run['run']}" in done.err
        assert shell.json("status").unsealed == [run["run"]]
        more = shell("trail", "record", "--run", run["run"], stdin=lines({"op": "NOP"}))
        assert documents(more)[1]["index"] == acknowledged["index"] + 1
        assert shell.json("status").unsealed == []
    done = shell("trail", "record", code=2, stdin="{no json\n")
    assert "line 1: not JSON" in done.err


def test_hooks_add_to_an_open_run_and_a_key_makes_a_repetition_harmless(shell):
    run = documents(shell("trail", "record", "--keep-open", "--title", "Hooks", stdin=""))[0]["run"]
    for number in range(3):
        for _ in range(2):
            step = {"op": "TOOL_CALL", "server": "s", "name": "n", "arguments": {"n": number}, "key": f"call {number}"}
            done = shell("trail", "record", "--run", run, "--keep-open", stdin=lines(step))
        assert documents(done)[1] == {"index": number + 1, "seq": documents(done)[1]["seq"], "repeated": True}
    listed = shell("trail", "list").out
    assert f"{run}" in listed
    assert "open run of ada  Hooks" in listed
    assert "1 is being recorded or was abandoned" in shell("status").out
    done = shell.json("trail", "seal", run, "--status", "success")
    assert [(one.run, one.status, one.steps, one.changed) for one in done.sealed] == [(run, "success", 4, True)]
    again = shell.json("trail", "seal", run, "--status", "error")
    assert [(one.trail, one.status, one.changed) for one in again.sealed] == [(done.sealed[0].trail, "success", False)]


def test_a_sealed_run_takes_no_step(shell):
    run = documents(shell("trail", "record", stdin=""))[0]["run"]
    done = shell("trail", "record", "--run", run, code=5, stdin=lines({"op": "NOP"}))
    assert "has ended" in done.err
    shell("trail", "record", "--run", "run_0000000000000000", code=1, stdin="")
    shell.fails("trail", "seal", "run_0000000000000000", code=1, wrong="nothing has an id")
    shell.fails("trail", "seal", "trl_1", code=1, wrong="there is no run")
    shell.fails("trail", "record", "--run", run, "--title", "Else", code=2, wrong="has its agent", stdin="")


def test_a_killed_recorder_leaves_a_partial_trail_with_every_acknowledged_step(shell):
    process = shell.start("trail", "record", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    run = json.loads(process.stdout.readline())["run"]
    for number in range(5):
        process.stdin.write(lines({"op": "SAY", "text": str(number)}))
    process.stdin.flush()
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = process.communicate()[0]
    acknowledged = 3 + len([line for line in rest.splitlines() if line.endswith("}")])
    listed = shell.json("trail", "list")
    assert listed.unsealed == []
    value = listed.trails[0].value
    assert (value["session_id"], value["status"]) == (run, "partial")
    # Lines that are there together are written together: none that was acknowledged is missing, and there are none but those sent.
    assert acknowledged + 1 <= value["counts"]["steps"] <= 5 + 1
    assert shell("trail", "seal").out == "There are no abandoned runs.\n"


def test_a_run_that_may_go_on_is_named_by_who_seals_what_was_left(shell):
    run = documents(shell("trail", "record", "--keep-open", stdin=""))[0]["run"]
    shown = shell("trail", "seal").lines
    assert shown[0] == "There are no abandoned runs."
    assert shown[1] == f"Still open: {run}. To end it: periplus trail seal {run} --status success"
    shell.fails("trail", "show", run, code=1, wrong=f"run {run} has no trail yet")
    ended = shell("trail", "seal", run, "--status", "success").lines
    assert shell("trail", "show", run).lines[0].split() == [";", "trail", run]
    assert shell.json("trail", "verify", run).trails[0].ok
    assert len(ended) == 1
    assert "success, 1 step " in ended[0]
    assert shell("trail", "seal").lines == ["There are no abandoned runs."]


def test_an_interrupted_recorder_seals_its_run_as_cancelled(shell):
    process = shell.start(
        "trail", "record", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    process.stdin.write(lines({"op": "NOP"}))
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert shell.json("trail", "list").trails[0].value["status"] == "cancelled"


def test_a_run_outside_git_and_without_checkpoints(shell, tmp_path):
    plain = Shell(tmp_path / "plain", tmp_path / "home")
    plain.folder.mkdir()
    plain("init")
    done = plain("trail", "record", "--json", stdin=lines({"op": "NOP"}))
    assert decoded(done.lines[-1]).steps == 1
    plain("trail", "record", code=2, stdin=lines({"op": "CHECKPOINT"}))
    done = shell("trail", "record", "--no-checkpoints", "--json", stdin=lines({"op": "NOP"}))
    assert decoded(done.lines[-1]).steps == 1
    assert git(shell.folder, "status", "--short", "--", ":!.periplus") == ""
