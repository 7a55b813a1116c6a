"""What hooks told of a session and what the agent's own record says: whichever goes further is the trail, and nothing told is lost."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from cli_support import Shell
from hook_support import hook
from periplus.base.clock import format_ms
from periplus.interop.hooks.events import HookEvent, encode_event, mark_of
from periplus.journal import Writer
from periplus.project import Project
from periplus.trail import BY_NAME, TrailReader

ADA = Writer("ada", "who_0000000000000000", "", 1)
SESSION = "s-9"
HOUR_MS = 3_600_000


class Session:
    """A session of Claude Code as its hooks tell of it, and its record as it writes it; ``now_ms`` is the time of both."""

    def __init__(self, tmp_path):
        self.folder = tmp_path / "project"
        self.folder.mkdir()
        Project.init(os.fspath(self.folder))
        self.record = tmp_path / "old" / f"{SESSION}.jsonl"
        self.record.parent.mkdir()
        self.begun_ms = int(time.time() * 1000) - HOUR_MS
        self.lines = 0
        home = tmp_path / "home"
        home.mkdir()
        self.shell = Shell(self.folder, home)

    def write(self, kind, content, *, before_ms=HOUR_MS):
        self.lines += 1
        at = format_ms(int(time.time() * 1000) - before_ms)
        message = {"role": kind, "id": f"m{self.lines}", "model": "m", "content": content}
        line = {
            "type": kind,
            "sessionId": SESSION,
            "uuid": f"u{self.lines}",
            "timestamp": at,
            "cwd": os.fspath(self.folder),
            "message": message,
        }
        with self.record.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def tell(self, event, **fields):
        document = {
            "session_id": SESSION,
            "transcript_path": os.fspath(self.record),
            "cwd": os.fspath(self.folder),
            "hook_event_name": event,
        }
        words = ("--wait",) if event in ("Stop", "SessionEnd") else ()
        done = hook(event, document | fields, cwd=self.folder, words=words)
        assert (done.returncode, done.stderr) == (0, b"")

    def prompt(self, text, *, is_recorded=True):
        self.tell("UserPromptSubmit", prompt=text)
        if is_recorded:
            self.write("user", text)

    def call(self, number, *, is_recorded=True):
        command = {"command": f"echo {number}"}
        self.tell(
            "PostToolUse",
            tool_name="Bash",
            tool_input=command,
            tool_use_id=f"t{number}",
            tool_response={"stdout": f"{number}", "stderr": ""},
        )
        if is_recorded:
            self.write("assistant", [{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": command}])
            self.write("user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{number}"}])

    def end(self):
        self.tell("Stop", stop_hook_active=False)
        self.tell("SessionEnd", reason="exit")

    def commands(self):
        """The commands of the one trail that there is."""
        with Project.open(os.fspath(self.folder), ADA) as project:
            (trail,) = project.trails()
            data = project.trail_bytes(trail.item_id).data
            assert project.unsealed_runs() == []
            return [step.operands[0] for step in TrailReader(data).steps() if step.code == BY_NAME["COMMAND_RUN"].code]

    def sound(self):
        return "sound: every checksum" in self.shell("doctor").out


@pytest.fixture
def session(tmp_path):
    one = Session(tmp_path)
    one.tell("SessionStart", source="startup")
    one.prompt("the task")
    return one


def echoes(count):
    return [f"echo {number}" for number in range(count)]


@pytest.mark.slow
def test_a_session_goes_on_in_another_file(session, tmp_path):
    for number in range(3):
        session.call(number)
    session.end()
    moved = tmp_path / "new" / session.record.name
    moved.parent.mkdir()
    session.record = shutil.copy(session.record, moved)
    session.record = moved
    session.tell("SessionStart", source="resume")
    session.prompt("second task")
    for number in range(3, 8):
        session.call(number)
    session.end()
    assert session.commands() == echoes(8)
    assert session.sound()


@pytest.mark.slow
def test_the_record_ends_before_what_hooks_told(session):
    for number in range(3):
        session.call(number, is_recorded=False)
    session.end()
    assert session.commands() == echoes(3)
    assert "0 of the 3 calls that hooks reported" in session.shell("doctor").out, "a note says why the record was left"
    for number in range(3):  # it was late: now it says more
        session.write(
            "assistant",
            [{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"echo {number}"}}],
        )
        session.write("user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{number}"}])
    session.shell("trail", "import", session.record)
    assert session.commands() == echoes(3)
    with Project.open(os.fspath(session.folder), ADA) as project:
        (trail,) = project.trails()
        assert trail.value["source_sha256"]


@pytest.mark.slow
def test_the_record_is_gone_when_the_session_goes_on(session):
    for number in range(3):
        session.call(number)
    session.end()
    session.record.unlink()
    session.tell("SessionStart", source="resume")
    session.prompt("second task", is_recorded=False)
    for number in range(3, 8):
        session.call(number, is_recorded=False)
    session.end()
    assert session.commands() == echoes(8)
    assert session.sound()


@pytest.mark.slow
def test_the_record_that_says_as_much_counts(session):
    """Hooks tell of a call when it is over, and of prompts that the record has not: no reason to do without the model's words."""
    for number in range(3):
        session.call(number)
    session.prompt("a word that only hooks heard of", is_recorded=False)
    session.end()
    with Project.open(os.fspath(session.folder), ADA) as project:
        (trail,) = project.trails()
        assert trail.value["source_sha256"]


@pytest.mark.slow
def test_two_ends_of_a_session_that_are_taken_in_together(session):
    """As where the one who took in what came before was busy for long."""
    from periplus.base.process.locks import Lock

    lock = Lock(os.fspath(session.folder / ".periplus/hooks/lock"), is_guard=False)
    with lock.holding():
        for number in range(2):
            session.call(number, is_recorded=False)
            for event, fields in (
                (("SessionEnd", {"reason": "exit"}), ("SessionStart", {"source": "resume"})) if not number else ()
            ):
                hook_of(session, event, fields)
                time.sleep(2.1)  # what is told twice within two seconds is one
        hook_of(session, "SessionEnd", {"reason": "exit"})
    session.shell("status")
    assert session.commands() == echoes(2)
    with Project.open(os.fspath(session.folder), ADA) as project:
        (present,) = project.journal.entities("session")
        assert present.value["state"] == "sealed"


def hook_of(session, event, fields):
    document = {
        "session_id": SESSION,
        "transcript_path": "",
        "cwd": os.fspath(session.folder),
        "hook_event_name": event,
    }
    assert hook(event, document | fields, cwd=session.folder, words=()).returncode == 0


def test_calls_whose_ids_are_used_again(tmp_path):
    """As servers of local models number them: from 0 in each answer."""
    from periplus.base.clock import FixedClock

    Project.init(os.fspath(tmp_path))
    now_ms = 1_800_000_000_000
    with Project.open(os.fspath(tmp_path), ADA, clock=FixedClock(now_ms)) as project:
        at_ms = now_ms
        for turn in range(4):
            for kind, fields in (
                ("prompt", {"prompt": f"turn {turn}"}),
                ("after-tool", {"tool": "shell", "call": "call_0", "arguments": {"command": "ls"}, "response": "a"}),
                (
                    "after-tool",
                    {"tool": "shell", "call": "call_0", "arguments": {"command": f"echo {turn}"}, "response": "a"},
                ),
                (
                    "after-tool",
                    {"tool": "shell", "call": "call_0", "arguments": {"command": f"echo {turn}"}, "response": "a"},
                ),
            ):
                at_ms += 3_000
                names = {"prompt": "UserPromptSubmit", "after-tool": "PostToolUse"}
                one = HookEvent(kind, "codex", SESSION, at_ms, names[kind])._replace(**fields)
                project.hooks.spool.leave(encode_event(one), one.at_ms * 1_000_000, mark_of(one))
            project.hooks.take_in()
        assert project.hooks.notes() == []
        project.journal.project()
        where = "item_type = 'run' AND action = 'observe'"
        rows = project.journal.index.db.execute(f"SELECT COUNT(*) FROM records WHERE {where}")
        assert rows.fetchone()[0] == 4 * 3, "a prompt and two calls in each turn, one of them told twice"


def test_the_contents_of_a_session_that_goes_on_are_named_by_its_steps(session):
    session.tell("PostToolUse", tool_name="Write", tool_use_id="w1",
                 tool_input={"file_path": os.fspath(session.folder / "tides.py"), "content": "TIDES = 2\n"},
                 tool_response={"type": "create", "filePath": "tides.py", "content": "TIDES = 2\n"})  # fmt: skip
    with Project.open(os.fspath(session.folder), ADA) as project:
        project.hooks.take_in()
        assert project.unsealed_runs()
        assert list(project.journal.objects.digests())
        stray = project.journal.objects.put(b"left behind").hex()
    said = session.shell("doctor").out
    assert said.count("an object that nothing names") == 1, said
    assert stray[2:] in said


def transcript(path, steps, *, hours=0, broken=()):
    """A session of so many calls, that ended so many hours later."""
    one = Session.__new__(Session)
    one.folder, one.record, one.lines = path.parent, path, 0
    path.write_text("")
    one.write("user", "the task", before_ms=48 * HOUR_MS)
    for number in range(steps):
        call = [{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"echo {number}"}}]
        one.write("assistant", call, before_ms=48 * HOUR_MS - 1000 * number)
        one.write(
            "user",
            [{"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{number}"}],
            before_ms=(48 - hours) * HOUR_MS - 1000 * number,
        )
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line if at not in broken else line[:40] + "\n" for at, line in enumerate(lines)))
    return path


def test_a_damaged_copy_does_not_take_the_place_of_a_whole_one(session, tmp_path):
    whole = transcript(tmp_path / "whole.jsonl", 10)
    damaged = tmp_path / "damaged.jsonl"
    lines = whole.read_text().splitlines(keepends=True)
    damaged.write_text("".join(line if at not in (2, 4) else line[:40] + "\n" for at, line in enumerate(lines)))
    shell = session.shell
    assert "imported" in shell("trail", "import", whole).out
    done = shell("trail", "import", damaged)
    assert "skipped: the store already has a fuller copy of this session" in done.out
    assert "already imported, nothing changed" in shell("trail", "import", whole).out


def test_what_gives_way_to_less_is_told_with_what_brings_it_back(session, tmp_path):
    long, short = transcript(tmp_path / "long.jsonl", 10), transcript(tmp_path / "short.jsonl", 2, hours=12)
    shell = session.shell
    shell("trail", "import", long)
    held = shell.json("trail", "list").trails[0].value["digest"]
    done = shell.json("trail", "import", short).trails[0]
    assert done.before["digest"] == held
    text = shell("trail", "import", long).out
    assert "skipped: the store already has a fuller copy of this session" in text
    shell("undo", "--seq", str(done.before_seq))
    assert shell.json("trail", "list").trails[0].value["digest"] == held


def test_a_trail_whose_object_is_missing(session, tmp_path):
    """By its id as without one: a verdict of each, exit code 3, and what brings it back."""
    shell = session.shell
    shell("trail", "import", transcript(tmp_path / "one.jsonl", 3))
    card = shell.json("trail", "list").trails[0]
    name = str(card.value["object"])
    (found,) = (session.folder / ".periplus/objects" / name[:2]).glob(f"{name[2:]}*")
    aside = found.rename(tmp_path / "aside")
    for words in ((), (card.id,), (card.id, card.id)):
        verdicts = shell.json("trail", "verify", *words, code=3).trails
        assert {"can be read: no object" in one.summary for one in verdicts} == {True}
    said = shell("trail", "show", card.id, code=3).err
    assert "periplus doctor --repair --from PATH" in said
    aside.rename(found)
    shell("trail", "verify", card.id)
