"""The recorder: acknowledged is durable, sealed is a function of the records, and nothing secret is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_support import git
from periplus.base.clock import FixedClock
from periplus.base.errors import ConflictError, NotFoundError, RefusedError, UsageError
from periplus.base.files import Files
from periplus.base.process.process_marks import ProcessMark, is_gone, process_mark
from periplus.project.trail_store.recording import IDLE_MS_MAX
from periplus.trail import BY_NAME, OPCODES, Digest, TextObject, TrailReader, verify
from periplus.trail.columns import packed_trail
from periplus.trail.recording.live_step import NOTE_MASKED, payload_of, step_of_payload
from periplus.trail.recording.recorder import RunFacts
from recorder_support import SECRET, Agent, maker_of, open_project, recorder_of, repository
from support import Stop, StoppingFiles

HOUR_MS = 3_600_000


@pytest.fixture
def project(tmp_path):
    with open_project(tmp_path) as project:
        yield project


def trail_of(project, sealed):
    data = project.trail_bytes(sealed.entity.item_id).data
    report = verify(data, store=project.journal.objects)
    assert report.ok, report.summary
    return TrailReader(data)


def names(reader):
    return [(step.code, step.operands) for step in reader.steps()]


# A run from its beginning to its trail


def test_a_run_becomes_a_trail_of_its_steps(project):
    with project.record(agent="ada/1", title="Oil the engine", model="model-1", checkpoints=False) as run:
        assert run.step("PROMPT", text="Oil the engine") == 0
        assert run.step("file_read", path="engine.py", range="1-20", result="revision = 0\n") == 1
        assert (
            run.step("COMMAND_RUN", command="make", outcome="failed", exit_code=2, error="no rule", duration_ms=7) == 2
        )
        assert run.step("FILE_WRITE", path="a.txt", content="né\n") == 3
        assert run.step("PLAN_UPDATE", plan={"b": [1, None, True], "a": "x"}) == 4
        assert [one.id for one in project.unsealed_runs()] == [run.id]
    assert project.unsealed_runs() == []
    trail = next(project.trails())
    reader = TrailReader(project.trail_bytes(trail.item_id).data)
    header = reader.header
    assert (header.agent, header.title, header.model, header.trail_id) == ("ada/1", "Oil the engine", "model-1", run.id)
    assert header.source is None
    assert reader.status == "success"
    steps = list(reader.steps())
    assert [step.code for step in steps] == [BY_NAME[name].code for name in
                                             ("PROMPT", "FILE_READ", "COMMAND_RUN", "FILE_WRITE", "PLAN_UPDATE")]  # fmt: skip
    assert (steps[2].outcome, steps[2].exit_code, steps[2].error, steps[2].duration_ms) == ("failed", 2, "no rule", 7)
    assert project.journal.objects.get(steps[3].operands[1].value) == "né\n".encode()
    assert json.loads(steps[4].operands[0]) == {"b": [1, None, True], "a": "x"}
    assert trail.value["format"] == "recording"
    assert trail.value["counts"] == {"steps": 5, "prompts": 1, "commands": 1, "model_calls": 0, "files": 2}
    assert trail.value["files"] == ["engine.py", "a.txt"]
    assert verify(reader.to_bytes(), store=project.journal.objects).ok


def test_sealing_twice_changes_nothing(project):
    run = project.record(checkpoints=False)
    run.step("SAY", text="Done")
    first = run.seal("error")
    end = project.journal.end()
    second = run.seal("success")
    third = project.seal_run(run.id, "cancelled")
    assert [first.changed, second.changed, third.changed] == [True, False, False]
    assert first.entity == second.entity == third.entity
    assert project.journal.end() == end
    assert trail_of(project, first).status == "error"


@pytest.mark.parametrize(
    ("raised", "status"),
    [(ValueError, "error"), (KeyboardInterrupt, "cancelled"), (SystemExit, "success"), (None, "success")],
)
def test_how_a_block_ends_is_the_status_of_its_trail(project, raised, status):
    def block():
        with project.record(checkpoints=False) as run:
            run.step("NOP")
            if raised is not None:
                raise raised

    if raised is None:
        block()
    else:
        with pytest.raises(raised):
            block()
    assert next(project.trails()).value["status"] == status


def test_a_step_behind_the_end_is_refused_and_the_trail_stays(project):
    run = project.record(checkpoints=False)
    run.step("NOP")
    sealed = run.seal()
    with pytest.raises(RefusedError, match="has ended"):
        run.step("NOP")
    assert len(names(trail_of(project, sealed))) == 1


def test_a_run_goes_on_in_another_process_and_beside_it(project, tmp_path):
    run = project.record(checkpoints=False, pid=0)
    run.step("SAY", text="first")
    with open_project(tmp_path) as other:
        there = other.recording(run.id, checkpoints=False)
        assert there.step("SAY", text="second") == 1
        assert run.step("SAY", text="third") == 2
        assert there.step("SAY", text="fourth") == 3
        sealed = there.seal()
    assert [operands for _, operands in names(trail_of(project, sealed))] == [
        ("first",), ("second",), ("third",), ("fourth",)]  # fmt: skip


@pytest.mark.slow
def test_four_processes_lose_and_double_nothing(project, tmp_path):
    run = project.record(checkpoints=False, pid=0)
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from recorder_support import open_project\n"
        "project = open_project(sys.argv[1]); run = project.recording(sys.argv[2], checkpoints=False)\n"
        "for line in sys.stdin: print(run.step('SAY', text=line.strip(), key=line.strip()), flush=True)\n"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path, run.id, os.path.dirname(__file__)], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(4)
    ]  # fmt: skip
    places = {}
    for number, worker in enumerate(workers):
        worker.stdin.write("".join(f"{number}.{step}\n" for step in range(20)))
        worker.stdin.close()
    for number, worker in enumerate(workers):
        places[number] = [int(line) for line in worker.stdout]
        assert worker.wait(60) == 0
        worker.stdout.close()
    assert sorted(place for found in places.values() for place in found) == list(range(80))
    texts = [operands[0] for _, operands in names(trail_of(project, run.seal()))]
    for number, found in places.items():
        assert found == sorted(found)
        assert [texts[place] for place in found] == [f"{number}.{step}" for step in range(20)]


# Keys


def test_a_key_is_one_step_however_often_it_comes(project, tmp_path):
    run = project.record(checkpoints=False, pid=0)
    first = run.add("SAY", {"text": "once"}, key="tool-1")
    for _ in range(3):
        run.step("SAY", text="more")
    again = run.add("SAY", {"text": "once"}, key="tool-1")
    assert (again.seq, again.place, again.is_repeated) == (first.seq, 0, True)
    with open_project(tmp_path) as other:
        there = other.recording(run.id, checkpoints=False)
        assert there.add("SAY", {"text": "once"}, key="tool-1") == again
        with pytest.raises(ConflictError, match="used for another step"):
            there.add("SAY", {"text": "something else"}, key="tool-1")
    other_run = project.record(checkpoints=False, pid=0)
    assert not other_run.add("SAY", {"text": "once"}, key="tool-1").is_repeated
    assert len(names(trail_of(project, run.seal()))) == 4


# What is no step


@pytest.mark.parametrize(
    ("op", "values", "wrong"),
    [
        ("FILE_EDIT", {"path": "a", "old": "x"}, "new: required"),
        ("FILE_READ", {}, "path: required"),
        ("FILE_READ", {"path": 3}, "path: a text was expected, not a whole number"),
        ("FILE_READ", {"path": "a", "pth": "b"}, "pth: FILE_READ has no such operand"),
        ("LEVEL_UP", {"level": -1}, "operand level: -1 is below 0"),
        ("LEVEL_UP", {"level": "high"}, "level: a whole number was expected, not a text"),
        ("LEVEL_UP", {"level": 2**63}, "has over 62 bits"),
        ("FLY", {}, "op: unknown opcode 'FLY'"),
        ("NOP", {"outcome": "great"}, "outcome: 'great' is unknown"),
        ("NOP", {"exit_code": "0"}, "exit_code: a whole number"),
        ("NOP", {"duration_ms": -1}, "duration_ms"),
        ("NOP", {"at": "yesterday"}, "at: 'yesterday' is not an RFC 3339 time"),
        ("NOP", {"at_ms": 10**18}, "at_ms: outside the years"),
        ("NOP", {"result_size": 3}, "result_size: only together"),
        ("NOP", {"result_sha256": "ab"}, "result_sha256: 64 hexadecimal digits"),
        ("FILE_WRITE", {"path": "a"}, "content: required"),
        (
            "FILE_WRITE",
            {"path": "a", "content": "x", "content_base64": "eA=="},
            "content_base64: given together with content",
        ),
        ("FILE_WRITE", {"path": "a", "content_base64": "?"}, "content_base64: not base64"),
        ("GIT_COMMIT", {"repo": "r", "message": "m", "commit": "zz"}, "commit: 'zz' is not a digest"),
        ("PLAN_UPDATE", {"plan": {"a": {1, 2}}}, "plan: not a JSON value"),
    ],
)
def test_what_is_no_step_is_refused_by_its_key_and_the_run_goes_on(project, op, values, wrong):
    run = project.record(checkpoints=False)
    run.step("NOP")
    end = project.journal.end()
    with pytest.raises(UsageError) as caught:
        run.step(op, **values)
    assert wrong in str(caught.value)
    assert project.journal.end() == end
    assert run.step("NOP") == 1
    assert len(names(trail_of(project, run.seal()))) == 2


def test_a_run_that_is_not_there(project):
    for reference in ("run_0000000000000000", "trl_1", "", "run_'; DROP"):
        with pytest.raises(NotFoundError):
            project.recording(reference)
        with pytest.raises(NotFoundError):
            project.seal_run(reference)


# Secrets


def test_nothing_secret_reaches_the_disk(project, tmp_path):
    with project.record(title=f"use {SECRET}", model=SECRET, agent="a", checkpoints=False) as run:
        run.step("PROMPT", text=f"The token is {SECRET}")
        run.step("SAY", text=SECRET + " oil" * 2000)
        run.step("TOOL_CALL", server="s", name="n", arguments={"deep": [{"token": SECRET}], SECRET: 1})
        run.step("FILE_WRITE", path="env", content=f"TOKEN={SECRET}\n")
        run.step("FILE_WRITE", path="bin", content=b"\xff\xfe" + SECRET.encode())
        run.step("FILE_READ", path="env", result=f"TOKEN={SECRET}\n", note=SECRET)
        run.step("COMMAND_RUN", command=f"curl -H 'X: {SECRET}'", outcome="failed", error=f"bad {SECRET}")
        run.step("BOTTLE_DROP", target="bob", content=SECRET)
        with pytest.raises(UsageError):
            run.step("FLY", path=SECRET)
    reader = TrailReader(project.trail_bytes(next(project.trails()).item_id).data)
    steps = list(reader.steps())
    assert [step.note for step in steps[3:5]] == [NOTE_MASKED, NOTE_MASKED]
    assert steps[5].result is None
    assert verify(reader.to_bytes(), store=project.journal.objects).ok
    project.journal.project()
    project.close()
    import zlib

    for folder, _, files in os.walk(tmp_path):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            assert SECRET.encode() not in data, name
            if name.endswith(".z"):
                assert SECRET.encode() not in zlib.decompress(data), name
            if name.endswith(".t"):
                assert SECRET.encode() not in packed_trail.unpack(data), name


# What the fleet's steps do to memory


FLEET = [
    ("BOTTLE_DROP", {"target": "bob", "content": "The cog is loose"}),
    ("SPELL_CAST", {"spell": "oil", "arguments": {"where": "cog"}}),
    ("ROOM_ENTER", {"room": "boiler"}),
    ("TRUST_UPDATE", {"target": "bob", "delta": -7}),
    ("CAP_ISSUE", {"action": "open valve", "holder": "bob"}),
    ("LEVEL_UP", {"level": 3}),
]


def test_the_fleets_steps_are_memory_in_the_same_batch(project):
    run = project.record(agent="ada", checkpoints=False)
    for op, values in FLEET:
        seq = run.add(op, values).seq
        project.journal.project()
        batch = project.journal.index.records(
            "lineage = ? AND seq >= ? ORDER BY seq", (project.journal.lineage, seq), -1
        )
        assert [record.action for record in batch][0:1] == ["observe"], op
        assert [record.key for record in batch] == [batch[0].key] * 2, op
    run.step("TRUST_UPDATE", target="bob", delta=2)
    message = next(project.journal.entities("message")).value
    assert (message["sender"], message["recipient"], message["text"], message["state"]) == (
        "ada", "bob", "The cog is loose", "sent")  # fmt: skip
    assert (message["run"], message["step"]) == (run.id, 0)
    agents = {one.value["name"]: one.value for one in project.journal.entities("agent")}
    assert agents["bob"]["trust"] == -5
    assert agents["bob"]["capabilities"] == ["open valve"]
    assert (agents["ada"]["room"], agents["ada"]["level"]) == ("boiler", 3)
    skills = project.journal.index.records("item_type = 'skill'", (), -1)
    assert [record.action for record in skills] == ["observe"]
    assert {one.severity for one in project.examine().problems} <= {"note"}


def test_what_did_not_happen_is_no_memory(project):
    run = project.record(checkpoints=False)
    for outcome in ("failed", "denied", "cancelled", "unknown"):
        for op, values in FLEET:
            run.step(op, **values, outcome=outcome)
    assert list(project.journal.entities("message")) == []
    assert list(project.journal.entities("agent")) == []
    assert len(names(trail_of(project, run.seal()))) == 4 * len(FLEET)


def test_importing_such_a_step_makes_no_memory(project, tmp_path):
    with project.record(agent="ada", checkpoints=False) as run:
        for op, values in FLEET:
            run.step(op, **values)
    data = project.trail_bytes(next(project.trails()).item_id).data
    project.close()
    (tmp_path / "elsewhere").mkdir()
    with open_project(tmp_path / "elsewhere") as other:
        from cli_support import claude_session

        other.import_transcript(os.fspath(claude_session(tmp_path / "session.jsonl")))
        path = tmp_path / "run.trail"
        path.write_bytes(data)
        assert verify(other.trail_bytes(os.fspath(path)).data).ok
        assert {one.item_type for one in other.journal.entities()} == {"trail"}


# Crashes


class Elsewhere(Files):
    """Files of a machine that was started anew."""

    def boot_id(self):
        return "another start"


@pytest.mark.slow
def test_a_run_that_its_process_left_is_sealed_as_partial(project, tmp_path):
    code = (
        "import os, signal, sys; sys.path[:0] = sys.argv[2:]\n"
        "from recorder_support import open_project\n"
        "project = open_project(sys.argv[1]); run = project.record(checkpoints=False)\n"
        "print(run.id, flush=True)\n"
        "for number in range(10**9): print(run.step('SAY', text=str(number)), flush=True)\n"
    )
    for stop_behind in (0, 1, 7):
        worker = subprocess.Popen([sys.executable, "-c", code, tmp_path, os.path.dirname(__file__)], text=True,
                                  stdout=subprocess.PIPE)  # fmt: skip
        run_id = worker.stdout.readline().strip()
        acknowledged = [int(worker.stdout.readline()) for _ in range(stop_behind)]
        worker.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in worker.stdout.read().split("\n") if line]
        worker.wait()
        worker.stdout.close()
        with open_project(tmp_path) as later:
            found = later.seal_abandoned()
            assert [one.run.id for one in found] == [run_id]
            reader = trail_of(later, found[0].sealed)
            assert later.seal_abandoned() == []
        assert reader.status == "partial"
        texts = [operands[0] for _, operands in names(reader)]
        assert texts == [str(number) for number in range(len(texts))]
        assert len(acknowledged) <= len(texts) <= len(acknowledged) + 1


def test_a_run_is_left_when_its_machine_was_started_anew(tmp_path):
    with open_project(tmp_path) as project:
        run = project.record(checkpoints=False)
        run.step("NOP")
        assert project.seal_abandoned() == []
    with open_project(tmp_path, files=Elsewhere()) as later:
        assert [one.sealed.run.status for one in later.seal_abandoned()] == ["partial"]


def test_a_run_without_a_process_is_left_when_it_was_silent_for_a_day(tmp_path):
    clock = FixedClock()
    with open_project(tmp_path, clock=clock) as project:
        run = project.record(checkpoints=False, pid=0)
        clock.advance(IDLE_MS_MAX - HOUR_MS)
        run.step("NOP")
        clock.advance(IDLE_MS_MAX)
        assert project.seal_abandoned() == []
        clock.advance(1)
        assert [one.run.id for one in project.seal_abandoned()] == [run.id]
        with pytest.raises(RefusedError, match=r"has ended \(partial\)"):
            run.step("NOP")


def test_the_next_that_records_seals_what_was_left(tmp_path):
    clock = FixedClock()
    with open_project(tmp_path, clock=clock) as project:
        left = project.record(checkpoints=False, pid=0)
        left.step("NOP")
        clock.advance(2 * IDLE_MS_MAX)
        run = project.record(checkpoints=False)
        assert [one.id for one in project.unsealed_runs()] == [run.id]
        assert next(project.trails()).value["session_id"] == left.id


def test_a_mark_is_of_one_process_only():
    files = Files()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = process_mark(child.pid, files)
    assert not is_gone(mark, files)
    assert not is_gone(process_mark(os.getpid(), files), files)
    child.communicate(b"\n")
    assert is_gone(mark, files)
    mine = process_mark(os.getpid(), files)
    if mine.started:
        assert is_gone(mine._replace(started="1"), files)
    assert not is_gone(mine._replace(host="elsewhere", boot="other"), files)
    assert not is_gone(mine._replace(space="pid:[1]", started="1"), files)
    assert not is_gone(ProcessMark(1, "", "unknown 1", mine.host, mine.space), files)


STEPS = [
    ("PROMPT", {"text": "Go"}),
    ("FILE_WRITE", {"path": "a", "content": b"content"}),
    ("SAY", {"text": "long " * 2000}),
    ("TRUST_UPDATE", {"target": "bob", "delta": 2}),
    ("FILE_EDIT", {"path": "a", "old": "c", "new": "k"}),
]


def record_all(folder, files, acknowledged):
    """Record STEPS one after another; ``acknowledged`` gets the run and each step that came back."""
    with open_project(folder, files=files) as project:
        run = project.record(agent="ada", checkpoints=False)
        acknowledged.append(run.id)
        for number, (op, values) in enumerate(STEPS):
            acknowledged.append(run.step(op, **values, key=str(number)))
        run.seal()
        acknowledged.append("sealed")


@pytest.mark.slow
def test_a_stop_at_any_call_loses_nothing_that_was_acknowledged(tmp_path):
    counting = StoppingFiles(-1)
    record_all(tmp_path / "whole", counting, [])
    stops = 0
    for at in range(len(counting.calls)):
        for share in (0.0, 0.5, 1.0) if counting.calls[at].endswith("write") else (0.0,):
            folder = tmp_path / f"{at}-{share}"
            open_project(_made(folder)).close()
            acknowledged = []
            files = StoppingFiles(at, share)
            try:
                record_all(folder, files, acknowledged)
            except Stop:
                stops += 1
            else:  # every run has an id of its own, so its objects may fall into folders that others already made
                assert len(files.calls) <= at
            _check_after_a_stop(folder, acknowledged)
    assert stops > 40


def _made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _check_after_a_stop(folder, acknowledged):
    """As after a new start of the machine: everything acknowledged is in the trail, and at most one step beside."""
    with open_project(folder, files=Elsewhere()) as later:
        found = later.seal_abandoned()
        assert all(one.trouble is None for one in found), found
        trails = list(later.trails())
        if not acknowledged:
            assert len(trails) <= 1
            assert all(one.value["counts"]["steps"] == 0 for one in trails)
            return
        assert [one.value["session_id"] for one in trails] == [acknowledged[0]]
        reader = TrailReader(later.trail_bytes(trails[0].item_id).data)
        assert verify(reader.to_bytes(), store=later.journal.objects).ok
        places = [one for one in acknowledged[1:] if one != "sealed"]
        steps = list(reader.steps())
        assert len(places) <= len(steps) <= len(places) + 1
        assert [step.code for step in steps] == [BY_NAME[op].code for op, _ in STEPS[: len(steps)]]
        agents = list(later.journal.entities("agent"))
        assert len(agents) == (len(steps) > 3)  # the step and what it means are one batch
        assert reader.status in ("partial", "success")
        problems = [one for one in later.examine().problems if one.severity == "error"]
        assert problems == []
        with later.record(checkpoints=False) as run:
            run.step("NOP")
        assert len(list(later.trails())) == 2


def test_what_is_sealed_after_a_stop_has_the_bytes_that_it_would_have_had(tmp_path):
    """The trail is a function of the records: made by another process, or by the one that was stopped, it is the same."""
    open_project(_made(tmp_path)).close()
    with open_project(tmp_path) as project:
        run = project.record(checkpoints=False, pid=0)
        for op, values in STEPS:
            run.step(op, **values)
        recorder = recorder_of(project)
        ended = recorder.end(run.id, "error")
        first = recorder._ended(ended).data
        second = recorder_of(project)._ended(ended).data
    with open_project(tmp_path) as later:
        found = later.seal_abandoned()
        assert found[0].sealed.run.status == "error"  # as it had ended
        data = later.trail_bytes(found[0].sealed.entity.item_id).data
    assert first == second == data


# Every step that can be recorded comes back as it was


TEXT = st.text(max_size=12) | st.tuples(st.text(min_size=1, max_size=4), st.integers(1_000, 5_000)).map(
    lambda one: one[0] * one[1]
)
DIGESTS = {"content": "sha256", "trail": "sha256", "commit": "git-sha1", "state": "git-sha256"}


def _values(opcode):
    kinds = {
        "uint": st.integers(0, 2**62 - 1),
        "int": st.integers(-(2**61), 2**61 - 1),
        "json": st.recursive(st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=9),
                             lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
                             max_leaves=6).map(lambda value: {"value": value}),
    }  # fmt: skip
    required, optional = {}, {}
    for operand in opcode.operands:
        if operand.kind == "digest":
            algorithm = DIGESTS[operand.name]
            size = 20 if algorithm == "git-sha1" else 32
            strategy = st.binary(min_size=size, max_size=size).map(lambda value, a=algorithm: Digest(a, value))
        else:
            strategy = kinds.get(operand.kind, TEXT)
        (optional if operand.optional else required)[operand.name] = strategy
    facts = {
        "outcome": st.sampled_from(["ok", "failed", "denied", "cancelled", "unknown"]),
        "exit_code": st.integers(-(2**31), 2**31),
        "error": TEXT,
        "note": TEXT,
        "result": st.binary(max_size=20),
        "at_ms": st.integers(0, 4_000_000_000_000),
        "duration_ms": st.integers(0, 2**40),
    }
    return st.tuples(st.just(opcode.name), st.fixed_dictionaries(required, optional={**optional, **facts}))


ANY_STEP = st.sampled_from(OPCODES).flatmap(_values)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with open_project(tmp_path_factory.mktemp("shared")) as project:
        yield project


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ANY_STEP, max_size=5))
def test_recorded_steps_are_decoded_steps(shared, steps):
    maker, recorder = maker_of(shared), recorder_of(shared)
    run = recorder.begin(RunFacts("ada"))
    lives = []
    for op, values in steps:
        live = maker.make(op, values, 1_000)
        assert step_of_payload(json.loads(json.dumps(payload_of(live)))) == live
        lives.append(live)
        assert recorder.step(run.id, live).place == len(lives) - 1
    sealed, _ = recorder.seal(run.id)
    reader = TrailReader(shared.trail_bytes(sealed.trail).data)
    at_ms = reader.header.started_ms
    decoded = []
    for step in reader.steps():
        at_ms += step.delta_ms
        decoded.append((step._replace(delta_ms=0), at_ms))
    assert decoded == [(live.step, live.at_ms) for live in lives]
    for step, _ in decoded:
        for value in (*step.operands, step.error, step.note):
            if isinstance(value, TextObject):
                assert len(shared.journal.objects.get(value.sha256)) == value.length


# Git


def test_the_base_and_the_files_are_in_the_trail_and_git_is_not_touched(tmp_path):
    folder = repository(tmp_path / "engine")
    (folder / "dirty.txt").write_text("not committed\n")
    before = _state(folder)
    with open_project(folder) as project:
        agent = None
        with project.record(folder=os.fspath(folder)) as run:
            assert _state(folder, but=".periplus") == before
            agent = Agent(folder, run)
            agent.write("src/new.py", b"new\n")
        reader = TrailReader(project.trail_bytes(next(project.trails()).item_id).data)
    assert reader.header.base.value.hex() == git(folder, "rev-parse", "HEAD").strip()
    steps = list(reader.steps())
    assert [BY_NAME["CHECKPOINT"].code, BY_NAME["FILE_WRITE"].code, BY_NAME["CHECKPOINT"].code] == [
        s.code for s in steps
    ]
    git(folder, "add", "-A", "--", ":!.periplus")
    assert steps[2].operands[0].value.hex() == git(folder, "write-tree").strip()


def _state(folder, but=""):
    found = {}
    for parent, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(parent, name)
            if not but or but not in path:
                status = os.lstat(path)
                found[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return found


def test_paths_are_those_of_the_worktree(tmp_path):
    folder = repository(tmp_path / "engine")
    with open_project(folder) as project, project.record(folder=os.fspath(folder / "src")) as run:
        places = [
            ("gears/cog.py", "src/gears/cog.py"),
            (os.fspath(folder / "engine.py"), "engine.py"),
            ("../engine.py", "engine.py"),
            ("/etc/hosts", "/etc/hosts"),
            ("../../outside", "../../outside"),
        ]
        for path, _ in places:
            run.step("FILE_READ", path=path)
    with open_project(folder) as project:
        reader = TrailReader(project.trail_bytes(next(project.trails()).item_id).data)
    read = [step.operands[0] for step in reader.steps() if step.code == BY_NAME["FILE_READ"].code]
    assert read == [path for _, path in places]


def test_nothing_that_a_hostile_repository_names_is_run(tmp_path):
    folder = repository(tmp_path / "engine")
    witness = tmp_path / "witness"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {witness}\ncat\n")
    program.chmod(0o755)
    (folder / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    for hook in ("post-checkout", "pre-commit", "post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (folder / ".git/hooks").mkdir(exist_ok=True)
        (folder / ".git/hooks" / hook).symlink_to(program)
    for setting in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv",
                    "diff.evil.command", "core.fsmonitor", "core.pager", "core.sshCommand", "core.editor",
                    "diff.external", "core.gitProxy", "uploadpack.packObjectsHook"):  # fmt: skip
        git(folder, "config", setting, os.fspath(program))
    git(folder, "config", "filter.evil.required", "true")
    git(folder, "config", "core.worktree", os.fspath(tmp_path))
    with open_project(folder) as project:
        with project.record(folder=os.fspath(folder)) as run:
            (folder / "engine.py").write_text("changed\n")
            run.step("FILE_WRITE", path="engine.py", content="changed\n")
            run.checkpoint()
        assert next(project.trails()).value["counts"]["steps"] == 4
    assert not witness.exists()


def test_a_repository_without_a_commit_and_a_folder_without_git(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    with open_project(empty) as project:
        with project.record(folder=os.fspath(empty)) as run:
            run.step("NOP")
        reader = TrailReader(project.trail_bytes(next(project.trails()).item_id).data)
        assert reader.header.base.value.hex() == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        assert reader.step_count == 3
    plain = tmp_path / "plain"
    plain.mkdir()
    with open_project(plain) as project:
        with project.record(folder=os.fspath(plain)) as run:
            assert run.checkpoint() is None
        reader = TrailReader(project.trail_bytes(next(project.trails()).item_id).data)
        assert (reader.header.base, reader.step_count) == (None, 0)


def test_a_run_of_another_clone_is_its_own(tmp_path):
    import shutil

    from periplus.journal import Journal

    with open_project(_made(tmp_path / "one")) as project:
        run = project.record(checkpoints=False, pid=0)
        run.step("NOP")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with open_project(tmp_path / "two") as copy:
        assert isinstance(copy.journal, Journal)
        copy.record(checkpoints=False).seal()  # it writes a lineage of its own now
        assert copy.journal.own.previous
    with open_project(tmp_path / "one") as project:
        assert project.recording(run.id, checkpoints=False).step("NOP") == 1
