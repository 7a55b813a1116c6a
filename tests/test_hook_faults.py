"""Whatever goes wrong with a hook: it exits 0, says nothing, takes no time to speak of, loses nothing, and doctor is told."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hook_support import hook, hook_command
from periplus.base.files import Files
from periplus.base.filesystem.spool import Spool
from periplus.cli.main import main
from periplus.interop.hooks.events import AGENTS, HookEvent, encode_event, mark_of
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.objects.redaction_barrier import door_of
from periplus.project import Project
from support import Stop, StoppingFiles

WRITER = Writer("ada", "who_0000000000000000", "", 1)
SILENT = (0, b"", b"")


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    Project.init(os.fspath(folder))
    with opened(folder) as project:
        project.remember(Memory("decision", "Passwords are hashed with argon2, for bcrypt cuts them"))
    return folder


def opened(folder):
    return Project.open(os.fspath(folder), WRITER)


def told(folder, event="UserPromptSubmit", **fields):
    return {"session_id": "s-1", "transcript_path": "", "cwd": os.fspath(folder), "prompt": "Why are passwords hashed with argon2?",
            "tool_name": "Bash", "tool_use_id": "t-1", "tool_input": {"command": "make"}, "tool_response": {"stdout": "ok"}, **fields}  # fmt: skip


def outcome(done):
    return done.returncode, done.stdout, done.stderr


def notes_of(folder, tmp_path):
    texts = []
    for path in (folder / ".periplus/hooks/notes", tmp_path / "state/periplus/hook-notes"):
        if path.exists():
            assert path.stat().st_mode & 0o077 == 0
            texts += [json.loads(line)["what"] for line in path.read_text().splitlines()]
    return texts


def run(folder, tmp_path, event="UserPromptSubmit", document=None, **more):
    environment = {"XDG_STATE_HOME": os.fspath(tmp_path / "state"), **more.pop("environment", {})}
    return hook(
        event, told(folder) if document is None else document, cwd=folder, environment=environment, words=(), **more
    )


def test_the_prompt_that_the_faults_are_tried_with_is_answered(place, tmp_path):
    """Else silence would prove nothing."""
    assert b"argon2" in run(place, tmp_path).stdout


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (b"", "is not a JSON document"),
        (b"not JSON at all", "is not a JSON document"),
        (b"\xff\xfe\x00garbage\x00\xff", "is not a JSON document"),
        (b'{"session_id": "s", "prompt": ', "is not a JSON document"),
        (b"[" * 200_000, "is not a JSON document"),
        (b"[1, 2]", "is not a JSON object"),
        (b"{}", "session_id"),
        (b'{"session_id": 7, "prompt": "x"}', "session_id"),
        (b'{"session_id": "s"}', "prompt"),
        (b'{"session_id": "s", "prompt": {"a": 1}}', "prompt"),
        (b'{"session_id": "' + b"s" * 300 + b'", "prompt": "x"}', "session_id"),
        (b"x" * (17 << 20), "over 16,777,216 bytes"),
    ],
)  # fmt: skip
def test_input_that_is_none(place, tmp_path, document, word):
    assert outcome(run(place, tmp_path, document=document)) == SILENT
    assert any(word in note for note in notes_of(place, tmp_path))
    assert not (place / ".periplus/hooks/spool").exists()


@pytest.mark.parametrize(("event", "agent", "word"), [("Frobnicate", "claude-code", "unknown event"),
                                                      ("SessionStart", "frobnicator", "unknown agent")])  # fmt: skip
def test_an_event_or_an_agent_that_is_not_known(place, tmp_path, event, agent, word):
    assert outcome(run(place, tmp_path, event, agent=agent)) == SILENT
    assert any(word in note for note in notes_of(place, tmp_path))


def test_an_option_of_a_later_version_is_passed_over_and_noted_once(place, tmp_path):
    command = [*hook_command("UserPromptSubmit"), "--frobnicate", "--json", "--later=1"]
    for _ in range(2):
        done = subprocess.run(command, input=json.dumps(told(place)).encode(), capture_output=True, cwd=place, timeout=60,
                              env={**os.environ, "XDG_STATE_HOME": os.fspath(tmp_path / "state")})  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
    noted = [note for note in notes_of(place, tmp_path) if "options" in note]
    assert len(noted) == 1
    assert "--frobnicate --later" in noted[0]


def test_no_words_at_all(place, tmp_path):
    done = subprocess.run(hook_command(), input=b"{}", capture_output=True, cwd=place, timeout=60,
                          env={**os.environ, "XDG_STATE_HOME": os.fspath(tmp_path / "state")})  # fmt: skip
    assert outcome(done) == SILENT
    assert any("no event" in note for note in notes_of(place, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b'{"session_id": "s-1", '])
def test_input_that_never_ends(place, tmp_path, sent):
    begun = time.monotonic()
    with subprocess.Popen(hook_command("UserPromptSubmit"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=place, env={**os.environ, "XDG_STATE_HOME": os.fspath(tmp_path / "state")}) as process:  # fmt: skip
        process.stdin.write(sent)
        process.stdin.flush()
        assert process.wait(timeout=60) == 0  # its input is open all the time
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
    assert time.monotonic() - begun < 30
    assert any("did not end" in note for note in notes_of(place, tmp_path))


def test_a_whole_document_is_taken_though_nobody_closes_the_input(place, tmp_path):
    with subprocess.Popen(
        hook_command("UserPromptSubmit"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place
    ) as process:
        process.stdin.write(json.dumps(told(place)).encode())
        process.stdin.flush()
        assert b"argon2" in process.stdout.read()
        assert process.wait(timeout=60) == 0
    assert notes_of(place, tmp_path) == []


def test_no_store(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for _ in range(3):
        assert outcome(run(folder, tmp_path)) == SILENT
    assert os.listdir(folder) == []
    assert ["no store" in note for note in notes_of(folder, tmp_path)] == [True]  # hooks of a person run everywhere
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path / "state"))
    assert main(["doctor"]) == 2
    assert "Hooks of agents failed on it, too" in capsys.readouterr().err


def broken_config(folder):
    (folder / ".periplus/config.toml").write_text("[store\n")


def newer_store(folder):
    config = folder / ".periplus/config.toml"
    config.write_text(config.read_text().replace("format = 2", "format = 9"))


def no_index(folder):
    for path in (folder / ".periplus").glob("index.sqlite*"):
        path.unlink()


def broken_lineage(folder):
    (folder / ".periplus/journal/lineage.json").write_text("{}")


def test_a_store_that_cannot_tell_who_writes_here_is_read_and_what_is_told_is_kept(place, tmp_path):
    broken_lineage(place)
    assert b"argon2" in run(place, tmp_path, "SessionStart").stdout
    for event in ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"):
        document = told(place, tool_name="Edit", tool_input={"file_path": "a.py"})
        assert run(place, tmp_path, event, document=document).returncode == 0
    waiting = Spool(os.fspath(place / ".periplus/hooks/spool")).waiting()
    assert waiting
    assert (place / ".periplus/journal/lineage.json").read_bytes() == b"{}"


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [broken_config, newer_store])
def test_a_broken_store(place, tmp_path, spoil, monkeypatch, capsys):
    spoil(place)
    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"):
        assert (
            outcome(
                run(place, tmp_path, event, document=told(place, tool_name="Edit", tool_input={"file_path": "a.py"}))
            )
            == SILENT
        )
    assert notes_of(place, tmp_path)
    assert Spool(os.fspath(place / ".periplus/hooks/spool")).waiting(), (
        "what was told is kept for when the store is mended"
    )
    monkeypatch.chdir(place)
    main(["doctor"])
    told_by_doctor = capsys.readouterr()
    assert "hook" in told_by_doctor.out + told_by_doctor.err


def test_without_an_index_nothing_is_said_and_it_is_built_later(place, tmp_path):
    no_index(place)
    assert outcome(run(place, tmp_path)) == SILENT
    hook("Stop", told(place), cwd=place)
    assert b"argon2" in run(place, tmp_path).stdout


@pytest.mark.slow
@pytest.mark.parametrize("spoil", ["all of it", "a page in the middle"])
def test_a_damaged_index_is_made_anew_by_who_has_time(place, tmp_path, spoil):
    with opened(place) as project:
        for number in range(200):
            project.remember(Memory("note", f"Cog number {number} has {number * 7} teeth"))
    index = place / ".periplus/index.sqlite"
    data = bytearray(index.read_bytes())
    if spoil == "all of it":
        data[:] = b"no database" * 1000
    else:
        for page in range(2, len(data) // 4096):
            data[4096 * page : 4096 * page + 2048] = b"\xff" * 2048
    for path in (place / ".periplus").glob("index.sqlite-*"):
        path.unlink()
    index.write_bytes(data)
    done = run(place, tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    hook("Stop", told(place), cwd=place, environment={"XDG_STATE_HOME": os.fspath(tmp_path / "state")})
    assert b"argon2" in run(place, tmp_path).stdout


def test_a_damaged_journal_keeps_what_was_told(place, tmp_path):
    (segment,) = (place / ".periplus/journal").glob("lin_*/0*.jsonl")
    sound = segment.read_bytes()
    at = sound.rindex(b'"sum":"') + 8
    bad = bytearray(sound)
    bad[at] ^= 1
    segment.write_bytes(bad)
    done = hook("PostToolUse", told(place), cwd=place, environment={"XDG_STATE_HOME": os.fspath(tmp_path / "state")})
    assert outcome(done) == SILENT
    hook("Stop", told(place), cwd=place, environment={"XDG_STATE_HOME": os.fspath(tmp_path / "state")})
    assert any("DamageError" in note for note in notes_of(place, tmp_path))
    assert len(Spool(os.fspath(place / ".periplus/hooks/spool")).waiting()) == 2
    segment.write_bytes(sound)
    with opened(place) as project:
        assert steps(project) == 1
        assert not project.hooks.has_events


def steps(project):
    project.journal.refresh()
    project.journal.project()
    where = "item_type = 'run' AND action = 'observe' ORDER BY seq"
    return len(project.journal.index.records(where, (), -1))


@pytest.mark.slow
def test_a_locked_store_delays_nobody_and_loses_nothing(place, tmp_path):
    with open(place / ".periplus/journal/lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert b"argon2" in run(place, tmp_path).stdout  # reading needs no lock
        for event in ("SessionStart", "PostToolUse", "Stop"):
            begun = time.monotonic()
            done = run(place, tmp_path, event)
            assert (done.returncode, done.stderr) == (0, b"")
            assert time.monotonic() - begun < 20, "a lock that is held for ever was waited for"
        assert notes_of(place, tmp_path) == []
        with opened(place) as project:  # it waits a little, and goes on
            (problem,) = project.hooks.problems()
            assert "3 events of hooks wait" in problem.what or "4 events of hooks wait" in problem.what
    hook("Stop", told(place), cwd=place)
    with opened(place) as project:
        assert steps(project) == 2
        assert not project.hooks.has_events


@pytest.mark.slow
def test_a_redaction_that_was_stopped_delays_nobody_for_long_and_loses_nothing(place, tmp_path):
    """Whoever took in the end of a turn stood before the objects' door for ever: every command, if only `recall`."""
    with opened(place) as project:
        with project.journal.objects.keeping():
            path = door_of(project.journal.objects.root)
        for number, kind in enumerate(("after-tool", "turn-end")):
            one = HookEvent(
                kind,
                "claude-code",
                "s-1",
                1_000 + number,
                tool="Bash",
                call="c1",
                arguments={"command": "ls"},
                response="a",
            )
            project.hooks.spool.leave(encode_event(one), one.at_ms * 1_000_000, mark_of(one))
    with open(path, "r+b") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        begun = time.monotonic()
        with opened(place) as project:  # it waits a little, and goes on
            assert time.monotonic() - begun < 60
            assert project.hooks.has_events
            assert list(project.journal.entities("trail")) == []
    with opened(place) as project:
        assert len(list(project.journal.entities("trail"))) == 1
        assert not project.hooks.has_events
    assert notes_of(place, tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_is_only_read(place, tmp_path):
    for path in [place / ".periplus", *(place / ".periplus").rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    for event in ("PostToolUse", "Stop"):
        assert outcome(run(place, tmp_path, event)) == SILENT
    assert notes_of(place, tmp_path)


def test_a_place_where_nothing_can_be_written(place, tmp_path):
    """A file stands where the folder of hooks should be: as root too, nothing can be left there."""
    (place / ".periplus/hooks").write_text("in the way")
    assert outcome(run(place, tmp_path, "PostToolUse")) == SILENT
    assert any("the event was lost" in note for note in notes_of(place, tmp_path))
    with opened(place) as project:  # where nothing waits, nothing can wait for ever
        assert project.hooks.problems() == []
    (tmp_path / "state/periplus/hook-notes").unlink()
    (tmp_path / "state/periplus").rmdir()
    (tmp_path / "state/periplus").write_text("in the way, too")
    assert outcome(run(place, tmp_path, "PostToolUse")) == SILENT  # nobody can be told at all


def test_a_full_disk(place, tmp_path):
    """No process may make a file of more than 0 bytes: whatever is written fails as on a full disk."""
    import resource
    import sys

    code = ("import resource, signal, os, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); os.execv(sys.argv[1], sys.argv[1:])")  # fmt: skip
    assert resource
    done = subprocess.run([sys.executable, "-c", code, *hook_command("PostToolUse")], input=json.dumps(told(place)).encode(),
                          capture_output=True, cwd=place, timeout=60)  # fmt: skip
    assert outcome(done) == SILENT
    assert Spool(os.fspath(place / ".periplus/hooks/spool")).waiting() == []


def test_a_reader_that_went_away(place, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(hook_command("UserPromptSubmit"), input=json.dumps(told(place)).encode(), stdout=writing,
                          stderr=subprocess.PIPE, cwd=place, timeout=60)  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    assert any("BrokenPipe" in note for note in notes_of(place, tmp_path))


def test_notes_are_bounded(place, tmp_path):
    from periplus.base.filesystem.failure_notes import NOTES_BYTES_MAX, Note, leave_note, read_notes

    path = os.fspath(tmp_path / "notes")
    for number in range(2_000):
        assert leave_note(path, Note("2026-01-01T00:00:00Z", "test", "/x", f"{number}: " + "y" * 200))
    assert os.path.getsize(path) <= NOTES_BYTES_MAX
    found = read_notes(path)
    assert found[-1].what.startswith("1999: ")
    assert len(found) > 50


def test_the_spool_is_bounded_and_private_and_holds_no_secret(place, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    document = told(
        place,
        tool_input={"command": f"curl -H 'Authorization: token {secret}' https://x"},
        tool_response={"stdout": secret},
    )
    run(place, tmp_path, "PostToolUse", document=document)
    folder = place / ".periplus/hooks/spool"
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert secret not in path.read_text()
    with opened(place) as project:
        project.journal.project()
    for found in (place / ".periplus").rglob("*"):
        assert not found.is_file() or secret.encode() not in found.read_bytes(), found


def test_a_full_spool_keeps_what_waits(tmp_path, monkeypatch):
    monkeypatch.setattr("periplus.base.filesystem.spool.SPOOLED_FILES_MAX", 3)
    spool = Spool(os.fspath(tmp_path / "spool"))
    for number in range(3):
        assert spool.leave(b"{}", number)
    with pytest.raises(Exception, match="are waiting already"):
        spool.leave(b"{}", 4)
    assert len(spool.waiting()) == 3


def test_a_call_that_is_told_twice_counts_once(place, tmp_path):
    """As where hooks are set for the person and for the project."""
    run(place, tmp_path, "PostToolUse")
    run(place, tmp_path, "PostToolUse")
    run(place, tmp_path, "PostToolUse", document=told(place, tool_use_id="t-2"))
    with opened(place) as project:
        assert steps(project) == 2


@pytest.mark.slow
def test_twenty_at_once(place, tmp_path):
    """Each event is in the journal once, in the order of their times, whoever takes them in at the same time."""
    processes = []
    for number in range(20):
        process = subprocess.Popen(hook_command("Stop" if number % 5 == 4 else "PostToolUse"), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place)  # fmt: skip
        process.stdin.write(
            json.dumps(told(place, tool_use_id=f"t-{number}", tool_input={"command": f"make {number}"})).encode()
        )
        process.stdin.close()
        processes.append(process)
    for process in processes:
        assert process.wait(timeout=120) == 0
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
        process.stdout.close()
        process.stderr.close()
    with opened(place) as project:
        project.hooks.take_in(patience_s=60)
        assert (steps(project), project.hooks.notes()) == (16, [])
        (run_entity,) = project.journal.entities("run")
        assert run_entity.value["format"] == "claude-code"
        assert project.examine().exit_code == 0
        assert project.hooks.notes() == []


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_a_hook_that_is_killed_leaves_an_event_or_none(place, tmp_path, after_s):
    """Never half of one, and never anything that stops the next."""
    with subprocess.Popen(hook_command("PostToolUse"), stdin=subprocess.PIPE, cwd=place) as process:
        process.stdin.write(json.dumps(told(place)).encode())
        process.stdin.close()
        try:
            process.wait(timeout=after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    run(place, tmp_path, "PostToolUse", document=told(place, tool_use_id="t-2"))
    with opened(place) as project:
        assert steps(project) in (1, 2)
        assert not project.hooks.has_events
        assert project.examine().exit_code == 0


@pytest.mark.slow
def test_taking_in_that_is_stopped_anywhere_takes_each_event_in_once(tmp_path):
    """At every call that writes: what was not done then is done by the next, and nothing is done twice."""
    from periplus.interop.hooks.events import encode_event, read_event

    def same(text):
        return text, 0

    events = [
        read_event(
            "claude-code",
            name,
            told(tmp_path, cwd="", tool_name="Write", tool_input={"file_path": "a.py", "content": "x"},
                 prompt=f"Prompt {number}", tool_use_id=f"t-{number}"),
            1_000 + number,
            same,
        )
        for number, name in enumerate(["UserPromptSubmit", "PostToolUse", "PostToolUse", "SessionEnd"])
    ]  # fmt: skip
    stop_at = 0
    while True:
        folder = tmp_path / str(stop_at)
        folder.mkdir()
        Project.init(os.fspath(folder))
        root = os.fspath(folder / ".periplus")
        spool = Spool(os.path.join(root, "hooks", "spool"))
        for number, event in enumerate(events):
            spool.leave(encode_event(event), number)
        files = StoppingFiles(stop_at)
        try:
            with Project(root, WRITER, files=files) as project:
                project.hooks.take_in()
            is_done = True
        except Stop:
            is_done = False
        with Project(root, WRITER, files=Files()) as project:
            project.hooks.take_in()
            assert steps(project) == 3, stop_at
            assert not project.hooks.has_events
            (trail,) = project.trails()
            assert trail.value["counts"]["steps"] == 3
            assert project.unsealed_runs() == []
            assert project.hooks.notes() == []
            assert len(project.work.handoffs(with_closed=True)) == 1
            (session,) = project.journal.entities("session")
            assert session.value["state"] == "sealed"
        if is_done:
            break
        stop_at += 1 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 5
    assert stop_at > 20


def test_an_event_that_cannot_be_read_does_not_stop_the_others(place, tmp_path):
    run(place, tmp_path, "PostToolUse")
    folder = place / ".periplus/hooks/spool"
    for number, text in enumerate(
        ["", "{", '{"v": 2}', '{"v":1,"kind":"prompt","agent":"claude-code","session":7,"at_ms":1}']
    ):
        (folder / f"{number:020d}-1-aa.json").write_text(text)
        (folder / f"{number:020d}-1-aa.json").chmod(0o600)
    with opened(place) as project:
        assert steps(project) == 1
        assert not project.hooks.has_events
        assert len(project.hooks.notes()) == 3  # an empty one says nothing


def test_a_session_that_cannot_be_one_does_not_stop_the_others(place, tmp_path):
    run(place, tmp_path, "PostToolUse", document=told(place, session_id=" "))
    run(
        place,
        tmp_path,
        "PostToolUse",
        document=told(place, tool_name="odd", tool_input={"number": 10**40, "deep": [[[]]]}, tool_use_id="t-8"),
    )
    run(place, tmp_path, "PostToolUse", document=told(place, tool_use_id="t-9"))
    with opened(place) as project:
        assert steps(project) >= 2
        assert not project.hooks.has_events
        (note,) = [note for note in project.hooks.notes() if "set aside" in note.what]
    (kept,) = (place / ".periplus/hooks/spool/aside").iterdir()
    assert json.loads(kept.read_bytes())["session"] == " "
    assert os.fspath(kept.parent) in note.what


def test_the_project_is_the_one_that_the_agent_was_started_for(place, tmp_path):
    """Wherever its shell is by now."""
    other = tmp_path / "other"
    other.mkdir()
    Project.init(os.fspath(other))
    run(place, tmp_path, "PostToolUse", document=told(other), environment={"CLAUDE_PROJECT_DIR": os.fspath(place)})
    assert (place / ".periplus/hooks/spool").exists()
    assert not (other / ".periplus/hooks").exists()


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_hooks_can_be_switched_off(place, tmp_path, agent):
    done = run(place, tmp_path, agent=agent, environment={"PERIPLUS_HOOKS": "off"})
    assert outcome(done) == SILENT
    assert not (place / ".periplus/hooks").exists()


_IN_A_HURRY = """
import sys
from periplus.cli import hook_entry
hook_entry.ALL_S_MAX = hook_entry.HURRY_S_MAX = float(sys.argv[1])
hook_entry.run_hook(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart", "PreToolUse", "PostToolUse"])
def test_time_may_be_up_at_any_moment(place, tmp_path, event):
    """Wherever the clock strikes, also within SQLite: exit 0, no half of an answer, and what the agent did is in the spool."""
    environment = {**os.environ, "XDG_STATE_HOME": os.fspath(tmp_path / "state"), "HOME": os.fspath(tmp_path)}
    whole = run(place, tmp_path, event).stdout
    for number in range(16):
        limit_s = 0.006 * (number + 1)
        document = json.dumps(told(place, event, session_id=f"s-{number}")).encode()
        done = subprocess.run([sys.executable, "-c", _IN_A_HURRY, str(limit_s), event], input=document, cwd=place, env=environment,
                              capture_output=True, timeout=60)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b""), limit_s
        assert done.stdout in (b"", whole) or (event == "SessionStart" and json.loads(done.stdout)), limit_s
    with opened(place) as project:
        assert project.examine().exit_code == 0
