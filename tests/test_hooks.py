"""Hooks replayed from real recorded sessions, through the real command: what they leave, what they say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from cli_support import PERIPLUS, Shell
from hook_support import TRANSCRIPTS, hook, told_by
from periplus.base.files import Files
from periplus.base.process import process_marks
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from periplus.project.trail_store.session_runs import RunOfSession, take_steps
from periplus.trail import BY_NAME, TrailReader
from periplus.trail.recording.live_step import LiveStep

WRITER = Writer("ada", "who_0000000000000000", "", 1)
SESSIONS = ["example-claude-code.jsonl", "33210c2e180b-0/full.jsonl", "sample_session.jsonl"]
TOLD = {BY_NAME[name].code for name in BY_NAME} - {BY_NAME[name].code for name in ("SAY", "COMMENT", "MODEL_CALL")}


@pytest.fixture
def place(tmp_path):
    """A project in git, with a store."""
    folder = tmp_path / "a project with spaces, ümlauts"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    Project.init(os.fspath(folder))
    return folder


def opened(folder, writer=WRITER):
    return Project.open(os.fspath(folder), writer)


def replay(transcript, folder, *, until=None):
    """The session's events through the command, each as a process; what each said."""
    said = []
    for name, document in told_by(transcript):
        if name == until:
            break
        done = hook(name, document, cwd=folder, words=words_of(folder, name))
        assert (done.returncode, done.stderr) == (0, b""), (name, done)
        said.append((name, done.stdout))
    return said


def words_of(folder, name):
    """The session was in another folder than the store is in; and what its ends entail is waited for."""
    return (f"--store={folder}", *(("--wait",) if name in ("Stop", "SessionEnd") else ()))


def session_file(source, tmp_path):
    """A copy of a recorded session, where only it is."""
    path = tmp_path / "its own record.jsonl"
    shutil.copy(TRANSCRIPTS / source, path)
    return path


def needs_sessions():
    if not TRANSCRIPTS.is_dir():
        pytest.skip("the recorded sessions are not at hand")


def imported(transcript, tmp_path):
    """What ``trail import`` makes of the session in a store of its own."""
    folder = tmp_path / "beside"
    folder.mkdir()
    Project.init(os.fspath(folder))
    with opened(folder) as project:
        entity = project.import_transcript(os.fspath(transcript)).entity
        return entity, TrailReader(project.trail_bytes(entity.item_id).data)


def is_told(step):
    """Whether hooks can know of it: the model's words and calls, and commands of the program itself, they are not told."""
    return step.code in TOLD and not (step.code == BY_NAME["PROMPT"].code and step.operands[0].startswith("/"))


def bare(step, *, result=True):
    """A step without what only the agent's own record knows: when it began, how long it took, on which line it stands."""
    kept = step._replace(delta_ms=0, duration_ms=None, source=None)
    return kept if result else kept._replace(result=None, result_size=0)


@pytest.mark.slow
@pytest.mark.parametrize("source", SESSIONS)
def test_the_trail_of_the_hooks_is_that_of_the_import(place, tmp_path, source):
    needs_sessions()
    transcript = session_file(source, tmp_path)
    replay(transcript, place)
    entity, theirs = imported(transcript, tmp_path)
    with opened(place) as project:
        (mine,) = project.trails()
        assert mine.item_id == entity.item_id
        reader = TrailReader(project.trail_bytes(mine.item_id).data)
        assert list(reader.steps()) == list(theirs.steps())
        assert reader.header == theirs.header
        same = {name: value for name, value in mine.value.items() if name not in ("digest", "object")}
        assert same == {name: value for name, value in entity.value.items() if name not in ("digest", "object")}
        assert project.unsealed_runs() == []
        assert not project.import_transcript(os.fspath(transcript)).changed  # and an import afterwards finds it done
        assert len(list(project.trails())) == 1
        assert project.examine().exit_code == 0
        assert project.hooks.notes() == []


@pytest.mark.slow
@pytest.mark.parametrize("source", SESSIONS)
def test_the_steps_of_a_session_that_goes_on_are_those_of_the_import(place, tmp_path, source):
    """Before any end: prompts and calls, with operands, notes, outcomes and errors as the import has them."""
    needs_sessions()
    transcript = session_file(source, tmp_path)
    replay(transcript, place, until="Stop")
    _, theirs = imported(transcript, tmp_path)
    with opened(place) as project:
        (run,) = project.unsealed_runs()
        live = steps_of_run(project, run)
        expected = [step for step in theirs.steps() if is_told(step)]
        assert [bare(one.step, result=False) for one in live] == [bare(step, result=False) for step in expected]
        for one, step in zip(live, expected, strict=True):
            if one.step.result is not None:  # where the text that the model saw is known at all, it is that text
                assert (one.step.result, one.step.result_size) == (step.result, step.result_size)
        assert any(one.step.result is not None for one in live) == any("Bash" in line for line in lines_of(transcript))


def lines_of(transcript):
    return transcript.read_text().splitlines()


def steps_of_run(project, run) -> list[LiveStep]:
    from periplus.base.text.secrets import mask_secrets
    from periplus.trail.recording.live_step import StepMaker
    from periplus.trail.recording.recorder import Recorder

    recorder = Recorder(project.journal, WRITER, StepMaker(mask_secrets, project.journal.objects.put), lambda _: None)
    return list(recorder.steps(run))


@pytest.mark.slow
def test_without_the_agents_own_record_the_trail_is_made_of_the_steps(place, tmp_path):
    needs_sessions()
    transcript = session_file("example-claude-code.jsonl", tmp_path)
    events = told_by(transcript)
    _, theirs = imported(transcript, tmp_path)
    for name, document in events:
        done = hook(
            name, {**document, "transcript_path": ""}, cwd=place, words=("--wait",) if name == "SessionEnd" else ()
        )
        assert (done.returncode, done.stderr) == (0, b"")
    with opened(place) as project:
        (mine,) = project.trails()
        reader = TrailReader(project.trail_bytes(mine.item_id).data)
        expected = [bare(step, result=False) for step in theirs.steps() if is_told(step)]
        assert [bare(step, result=False) for step in reader.steps()] == expected
        assert (mine.value["format"], mine.value["source_sha256"]) == ("claude-code", "")
        # The agent's own record says more: it takes the place of what was told, and is not given up for it again.
        assert project.import_transcript(os.fspath(transcript)).changed
        (now,) = project.trails()
        assert now.item_id == mine.item_id
        assert now.value["counts"]["steps"] > mine.value["counts"]["steps"]
        for name, document in events[:2] + events[-1:]:
            hook(name, {**document, "transcript_path": ""}, cwd=place, words=words_of(place, name))
        (still,) = project.trails()
        assert still.value["digest"] == now.value["digest"]
        assert project.examine().exit_code == 0


@pytest.mark.slow
def test_a_session_that_goes_on_after_its_end_has_one_trail(place, tmp_path):
    events = made_session("b7a0c4de-0001", place)
    for name, document in events:
        hook(name, document, cwd=place, words=words_of(place, name))
    more = made_session("b7a0c4de-0001", place, source="resume", prompt="And now the wheels", call="toolu_9")
    for name, document in more:
        hook(name, document, cwd=place, words=words_of(place, name))
    with opened(place) as project:
        (mine,) = project.trails()
        prompts = [step.operands[0] for step in TrailReader(project.trail_bytes(mine.item_id).data).steps()
                   if step.code == BY_NAME["PROMPT"].code]  # fmt: skip
        assert prompts == ["Oil the cogs of the engine", "And now the wheels"]
        assert project.unsealed_runs() == []
        (present,) = project.journal.entities("session")
        assert present.value["state"] == "sealed"


def made_session(
    session, folder, *, source="startup", prompt="Oil the cogs of the engine", call="toolu_1", path="engine.py"
):
    common = {"session_id": session, "transcript_path": "", "cwd": os.fspath(folder)}
    edit = {
        "tool_name": "Write",
        "tool_input": {"file_path": os.fspath(folder / path), "content": "oil\n"},
        "tool_use_id": call,
    }
    events = [
        ("SessionStart", {"source": source}),
        ("UserPromptSubmit", {"prompt": prompt}),
        ("PostToolUse", {**edit, "tool_response": {"type": "create", "filePath": path}}),
        ("Stop", {"stop_hook_active": False}),
        ("SessionEnd", {"reason": "other"}),
    ]
    return [(name, {**common, "hook_event_name": name, **fields}) for name, fields in events]


def facts_of(done):
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]


@pytest.mark.slow
def test_a_session_begins_with_the_brief_and_what_others_changed(place):
    with opened(place) as project:
        project.remember(Memory("constraint", "The cogs are oiled with olive oil only"))
    for name, document in made_session("first", place):
        hook(name, document, cwd=place)
    with opened(place) as project:
        project.remember(Memory("decision", "The wheels are made of oak from now on"))
    (start, *_) = made_session("second", place)
    done = hook(*start, cwd=place)
    facts = facts_of(done)
    rules, found, changed = facts.partition("## Changed since your last session")
    assert found
    assert "olive oil only" in rules
    assert "oak" in changed
    assert "olive" not in changed, "what was there before its last session is no news"
    assert "engine.py" in facts, "the handoff of the session before names what it changed"
    assert len(facts) <= 10_000


def test_a_prompt_is_told_what_bears_on_it_and_nothing_else(place):
    with opened(place) as project:
        kept = project.remember(
            Memory("decision", "Passwords are hashed with argon2 because bcrypt cuts them at 72 bytes")
        )
        project.remember(Memory("note", "The cogs were counted on Tuesday"))

    def said(prompt):
        return hook("UserPromptSubmit", {"session_id": "s", "cwd": os.fspath(place), "prompt": prompt}, cwd=place)

    facts = facts_of(said("Why are passwords hashed with argon2 here?"))
    assert kept.entity.item_id in facts
    assert "cogs" not in facts
    for other in ("continue", "Please rename the variable", "Make the button green", "yes, counted"):
        assert said(other).stdout == b"", other


def test_an_agent_that_reads_no_answer_at_its_start_has_the_brief_with_its_first_prompt(place):
    with opened(place) as project:
        project.remember(Memory("decision", "Passwords are hashed with argon2"))
    document = {"session_id": "s", "cwd": os.fspath(place)}

    def said(event, **more):
        return hook(event, {**document, **more}, cwd=place, agent="kimi-code").stdout

    assert said("SessionStart", source="startup") == b""
    assert "argon2" in json.loads(said("UserPromptSubmit", prompt="Make it green"))["message"]
    assert said("UserPromptSubmit", prompt="And now blue") == b""
    said("PreCompact", trigger="auto")
    assert b"argon2" in said("UserPromptSubmit", prompt="Now what?")


TOLD_OF = [
    ("Never deploy on Fridays after 14:00", "can I deploy on a Friday afternoon?"),
    ("Never deploy on Fridays after 14:00", "deployed it last Friday, why is it down"),
    ("No GPL licensed dependencies", "is a GPL license ok for a dependency?"),
    ("Die Migrationen der Datenbank laufen nachts", "wann läuft die Migration der Datenbank?"),
    ("データベースの移行は夜間に実行する", "データベースの移行はいつ実行しますか"),
    ("データベースの移行は夜間に実行する", "データベースの 移行はいつ実行しますか"),
    ("数据库迁移只在夜间执行", "数据库迁移什么时候执行"),
    ("배포는 금요일에 금지", "금요일에 배포해도 되나요"),
    ("การย้ายฐานข้อมูลต้องทำตอนกลางคืน", "การย้ายฐานข้อมูลทำเมื่อไร"),
    ("hash_password salts twice", "hash_password"),
]
SAYING_NOTHING = [
    "ok", "yes go on", "do it", "and now this", "はい", "続けてください", "お願いします", "好的", "继续", "네", "계속해 주세요", "ตกลง",
]  # fmt: skip
OF_OTHER_THINGS = [
    "Rename the variable in the parser", "why does the build of the wheel fail on windows", "the Friday meeting is about the logo",
    "変数の名前を変更してください", "データの型を確認してください", "テストを今すぐ実行してください", "请修复数据库连接错误", "변수 이름을 바꿔 주세요",
    "데이터베이스 연결 오류를 고쳐 주세요", "ช่วยเปลี่ยนชื่อตัวแปรให้หน่อย", "ช่วยเขียนการทดสอบสำหรับฟังก์ชันนี้ให้หน่อยได้ไหมครับ",
]  # fmt: skip


@pytest.mark.parametrize(("memory", "prompt"), TOLD_OF)
def test_a_prompt_in_other_forms_of_the_words_or_without_spaces_is_told(place, memory, prompt):
    with opened(place) as project:
        kept = project.remember(Memory("constraint", memory))
    done = hook("UserPromptSubmit", {"session_id": "s", "cwd": os.fspath(place), "prompt": prompt}, cwd=place)
    assert kept.entity.item_id in facts_of(done)


@pytest.mark.slow
def test_a_prompt_that_says_nothing_or_speaks_of_other_things_is_told_nothing(place):
    with opened(place) as project:
        for memory in dict.fromkeys(memory for memory, _ in TOLD_OF):
            project.remember(Memory("constraint", memory))
        project.remember(Memory("constraint", "Do it in this order, and now go on"))
        project.remember(Memory("note", "データベースの設定はこのファイルで変更してください"))
    for prompt in SAYING_NOTHING + OF_OTHER_THINGS:
        done = hook("UserPromptSubmit", {"session_id": "s", "cwd": os.fspath(place), "prompt": prompt}, cwd=place)
        assert done.stdout == b"", prompt


@pytest.mark.slow
def test_a_tool_is_told_claims_and_rules_and_refused_only_where_that_is_configured(place):
    from periplus.memory.coordination.claims import Asked

    (place / "src").mkdir()
    (place / "src/auth.py").write_text("def hash_password(): ...\n")
    bob = Writer("bob", "who_0000000000000009", "bobs", 1)
    with opened(place, bob) as project:
        project.work.claim(Asked(("src/auth.py",), "exclusive", "reworking it"))
        project.remember(Memory("trap", "The salt is read twice", about=("src/auth.py",)))
    document = {"session_id": "mine", "cwd": os.fspath(place / "src"), "tool_name": "Edit", "tool_use_id": "t1",
                "tool_input": {"file_path": "auth.py", "old_string": "a", "new_string": "b"}}  # fmt: skip
    config = place / ".periplus/config.toml"
    sound = config.read_text()
    config.write_text(f'{sound}\n[hooks]\nclaims = "tell"\n')
    done = hook("PreToolUse", document, cwd=place)
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert "The salt is read twice" in output["additionalContext"]
    assert "bob" in output["additionalContext"]
    assert "permissionDecision" not in output
    settings = {
        "": "deny",
        'claims = "ask"': "ask",
        'claims = "refuse"': "deny",
        'claimed = "ask"': "ask",
        'claimed = "deny"': "deny",
    }
    for setting, decision in settings.items():
        config.write_text(f"{sound}\n[hooks]\n{setting}\n")
        output = json.loads(hook("PreToolUse", document, cwd=place).stdout)["hookSpecificOutput"]
        assert output["permissionDecision"] == decision
        assert "bob" in output["permissionDecisionReason"]
        reading = {**document, "tool_name": "Read", "tool_input": {"file_path": "auth.py"}}
        assert hook("PreToolUse", reading, cwd=place).stdout == b"", "all of it was told"
        other = {**document, "tool_input": {"file_path": "wheels.py"}}
        assert hook("PreToolUse", other, cwd=place).stdout == b""
    outside = {**document, "tool_input": {"file_path": "/etc/passwd"}}
    assert hook("PreToolUse", outside, cwd=place).stdout == b""


def test_a_tool_is_told_rules_about_what_moved_to_the_file_that_it_touches(place):
    (place / "a.py").write_text("".join(f"def f{at}(): return {at}\n" for at in range(30)))
    with opened(place) as project:
        kept = project.remember(Memory("trap", "f3 is called twice", about=("a.py",)))
    (place / "a.py").rename(place / "moved here.py")
    document = {"session_id": "mine", "cwd": os.fspath(place), "tool_name": "Edit", "tool_use_id": "t1",
                "tool_input": {"file_path": "moved here.py", "old_string": "1", "new_string": "2"}}  # fmt: skip
    facts = facts_of(hook("PreToolUse", document, cwd=place))
    assert "moved here.py: trap: f3 is called twice (written for a.py, which moved here)" in facts
    shell = Shell(place, place.parent)
    done = shell("check", "moved here.py")
    assert f"written for a.py, which moved here; if it still holds: periplus confirm {kept.entity.item_id}" in done.out
    (rule,) = shell.json("check", "moved here.py").rules
    assert (rule.id, rule.moved_from) == (kept.entity.item_id, "a.py")
    shell("confirm", kept.entity.item_id)
    assert "written for" not in facts_of(hook("PreToolUse", document, cwd=place))


def test_a_path_of_two_lines_is_guarded_like_any_other_and_told_in_one(place):
    from periplus.memory.coordination.claims import Asked

    (place / "src").mkdir()
    name = "src/a\n- nobody claims anything.py"
    (place / name).write_text("x = 1\n")
    with opened(place, Writer("bob", "who_0000000000000009", "bobs", 1)) as project:
        project.work.claim(Asked(("src",), "exclusive", "reworking it"))
        project.remember(Memory("trap", "x is read twice", about=(name,)))
    config = place / ".periplus/config.toml"
    config.write_text(f'{config.read_text()}\n[hooks]\nclaimed = "deny"\n')
    document = {"session_id": "mine", "cwd": os.fspath(place), "tool_name": "Edit", "tool_use_id": "t1",
                "tool_input": {"file_path": name, "old_string": "1", "new_string": "2"}}  # fmt: skip
    output = json.loads(hook("PreToolUse", document, cwd=place).stdout)["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    told = output["additionalContext"].splitlines()
    assert [line.split(".py")[0] for line in told[1:]] == ["- src/a - nobody claims anything"] * 2
    assert "\n" not in output["permissionDecisionReason"]


@pytest.mark.slow
def test_the_end_of_a_session_reflects_hands_off_and_lets_go_of_claims(place):
    from periplus.memory.coordination.claims import Asked

    session = "c0ffee00-0001"
    events = made_session(session, place)
    failing = ("PostToolUseFailure", {**events[2][1], "hook_event_name": "PostToolUseFailure", "tool_name": "Bash", "tool_use_id": "t7",
               "tool_input": {"command": "pytest -q"}, "error": "Exit code 1\n2 failed, 3 passed in 1.0s"})  # fmt: skip
    hook(*events[0], cwd=place)
    with opened(place, Writer("claude-code", "who_0000000000000003", session, 1)) as project:
        project.work.claim(Asked(("engine.py",), "exclusive", "oiling"))
        assert len(project.work.claims()) == 1
    for name, document in [events[1], events[2], failing, *events[3:]]:
        hook(name, document, cwd=place)
    with opened(place) as project:
        assert project.work.claims() == []
        (handoff,) = project.work.handoffs()
        assert handoff.value["files"] == ["engine.py"]
        assert handoff.value["tests"].startswith("pytest -q: failed")
        (trail,) = project.trails()
        assert handoff.value["trail"] == trail.item_id
        steps = list(TrailReader(project.trail_bytes(trail.item_id).data).steps())
        assert [step.outcome for step in steps] == ["ok", "ok", "failed"]
        assert steps[2].exit_code == 1
    for name, document in made_session("c0ffee00-0002", place, path="wheels.py"):
        hook(name, document, cwd=place)
    with opened(place) as project:
        (handoff,) = project.work.handoffs()  # the one before, which nobody took, gave way
        assert handoff.value["files"] == ["wheels.py"]


@pytest.mark.slow
def test_a_handoff_names_what_a_shell_changed(place):
    """No step says so: git does, when there is time."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", os.fspath(place)]
    for name in ("engine.py", "wheels.py", "old.py"):
        (place / name).write_text("before\n")
    subprocess.run([*git, "add", "engine.py", "wheels.py", "old.py"], check=True)
    subprocess.run([*git, "commit", "-qm", "before"], check=True)
    (place / "old.py").write_text("changed before the session\n")
    os.utime(place / "old.py", (1_600_000_000, 1_600_000_000))
    events = made_session("5e5510", place)
    for name, document in events[:3]:
        hook(name, document, cwd=place)
    (place / "wheels.py").write_text("changed by sed\n")
    for name, document in events[3:]:
        hook(name, document, cwd=place)
    with opened(place) as project:
        (handoff,) = project.work.handoffs()
        assert handoff.value["files"] == ["engine.py", "wheels.py"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "source", "names"),
    [
        ("codex", "codex-rollout/codex-session-simple.jsonl", ("SessionStart", "Stop")),
        ("gemini", "gemini-cli/gemini-session-simple.jsonl", ("SessionStart", "SessionEnd")),
    ],
)
def test_the_own_record_of_other_agents_is_imported_at_the_end_of_a_turn(place, tmp_path, agent, source, names):
    needs_sessions()
    transcript = tmp_path / "rollout.jsonl"
    shutil.copy(TRANSCRIPTS.parent / source, transcript)
    entity, theirs = imported(transcript, tmp_path)
    common = {
        "session_id": entity.value["session_id"],
        "transcript_path": os.fspath(transcript),
        "cwd": os.fspath(place),
    }
    for name in names:
        done = hook(name, {**common, "hook_event_name": name}, cwd=place, agent=agent)
        assert (done.returncode, done.stderr) == (0, b"")
    with opened(place) as project:
        (mine,) = project.trails()
        assert mine.item_id == entity.item_id
        assert list(TrailReader(project.trail_bytes(mine.item_id).data).steps()) == list(theirs.steps())
        assert project.hooks.notes() == []


@pytest.mark.slow
def test_a_record_of_another_session_is_not_taken_for_this_one(place, tmp_path):
    needs_sessions()
    transcript = session_file("example-claude-code.jsonl", tmp_path)
    for name, document in made_session("another", place):
        hook(name, {**document, "transcript_path": os.fspath(transcript)}, cwd=place)
    with opened(place) as project:
        (mine,) = project.trails()
        assert (mine.value["session_id"], mine.value["counts"]["steps"]) == ("another", 2)


def test_a_session_that_was_left_is_sealed_by_who_comes_later(place):
    """No end was ever told, as where the machine was switched off."""
    from periplus.base.clock import SystemClock

    class Tomorrow(SystemClock):
        def now_ms(self):
            return super().now_ms() + 25 * 3_600_000

    for name, document in made_session("left", place)[:3]:
        hook(name, document, cwd=place)
    with opened(place) as project:
        assert [run.session for run in project.unsealed_runs()] == ["left"]
        assert project.seal_abandoned() == []
    with Project.open(os.fspath(place), WRITER, clock=Tomorrow()) as project:
        (found,) = project.seal_abandoned()
        assert found.trouble is None
        assert found.sealed.entity.value["status"] == "partial"
        (mine,) = project.trails()
        assert (mine.value["format"], mine.value["session_id"]) == ("claude-code", "left")
        assert project.unsealed_runs() == []


CLIENT = """
import json, subprocess, sys
for line in sys.stdin:
    words, document = json.loads(line)
    subprocess.run(["sh", "-c", '"$@"; true', "sh", *words], input=json.dumps(document).encode(), check=True)
    print("told", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["codex", "opencode"])
def test_a_session_is_over_where_its_client_is_gone(place, agent):
    """Codex and opencode tell no end of a session: its run stayed open for a day, and `who` showed it."""
    events = [event for event in made_session("gone", place) if event[0] != "SessionEnd"][:3]
    command = [sys.executable, "-c", CLIENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place) as client:
        time.sleep(2.2)  # what has just been started may be a helper
        for name, document in events:
            client.stdin.write(json.dumps([[PERIPLUS, "hook", name, "--agent", agent, "--wait"], document]) + "\n")
            client.stdin.flush()
            assert client.stdout.readline() == "told\n"
        with opened(place) as project:
            assert [run.session for run in project.unsealed_runs()] == ["gone"]
            assert project.seal_abandoned() == []  # it still runs
        client.kill()
    for name, document in made_session("another", place)[:2]:  # whoever comes next looks
        hook(name, document, cwd=place, words=("--wait",))
    with opened(place) as project:
        assert [run.session for run in project.unsealed_runs()] == ["another"]
        (mine,) = project.trails()
        assert (mine.value["session_id"], mine.value["status"]) == ("gone", "partial")
        assert "gone" not in [
            one.value.get("name") for one in project.journal.entities("session") if one.value["state"] == "open"
        ]


def test_a_run_that_goes_on_is_not_left_by_the_process_before(place):
    """A process that has only just been started is not known yet: the one that carried the run until then, and is gone, says nothing."""
    with subprocess.Popen(["sleep", "60"]) as process:
        mark = process_marks.process_mark(process.pid, Files())
        process.kill()
    about = RunOfSession("claude-code", "s1", agent="claude-code", process=mark)
    with opened(place) as project:
        for key, one in (("first", about), ("second", about._replace(process=None))):
            take_steps(project, project.writer, [(one, [])], key=key, key_ms=1, patience_s=5)
            (run,) = project.unsealed_runs()
            assert run.process == one.process


def test_a_mark_of_a_process_is_text_and_back():
    mark = process_marks.process_mark(os.getpid(), Files())
    assert process_marks.mark_of_text(process_marks.text_of_mark(mark)) == mark
    for text in ("", "x", "1 2 3", "a b c d e", "1 2 3 4 5 6", "99999999999 2 3 4 5"):
        assert process_marks.mark_of_text(text) is None


@pytest.mark.slow
def test_a_session_in_which_nothing_was_done_leaves_no_run(place):
    events = made_session("nothing", place)
    for name, document in [events[0], events[3], events[4]]:
        hook(name, document, cwd=place)
    with opened(place) as project:
        assert project.unsealed_runs() == []
        assert list(project.trails()) == []
        assert project.work.handoffs() == []
        assert project.hooks.notes() == []
        assert project.examine().exit_code == 0


@pytest.mark.slow
def test_a_turns_end_seals_the_first_time_and_then_now_and_then(place):
    events = made_session("turns", place)
    for name, document in events[:4]:
        hook(name, document, cwd=place)
    with opened(place) as project:
        (first,) = project.trails()
        assert first.value["status"] == "partial"
        assert len(project.unsealed_runs()) == 1  # it goes on
    more = made_session("turns", place, prompt="And now the wheels", call="toolu_2")
    for name, document in more[1:4]:
        hook(name, document, cwd=place)
    with opened(place) as project:
        (same,) = project.trails()
        assert same.value["digest"] == first.value["digest"], "the whole session is not read anew at every turn"
        (run,) = project.unsealed_runs()
        assert len(steps_of_run(project, run)) == 4, "but its steps are there"
    hook("PreCompact", {**events[0][1], "trigger": "auto"}, cwd=place)
    with opened(place) as project:
        (now,) = project.trails()
        assert now.value["counts"]["steps"] == 4, "before a compaction it is"


@pytest.mark.slow
def test_subagents_have_trails_of_their_own(place):
    events = made_session("with-subs", place)
    inner = {**events[2][1], "agent_id": "a0ad4f", "agent_type": "Explore", "tool_use_id": "toolu_8"}
    for name, document in [*events[:3], ("PostToolUse", inner), *events[3:]]:
        hook(name, document, cwd=place)
    with opened(place) as project:
        found = {str(one.value["agent"]): one for one in project.trails()}
        assert set(found) == {"claude-code", "claude-code/Explore"}
        assert found["claude-code/Explore"].value["parent"] == found["claude-code"].item_id
        assert found["claude-code"].value["counts"]["steps"] == 2


@pytest.mark.slow
def test_commands_of_the_agent_learn_whose_they_are(place, tmp_path):
    path = tmp_path / "env"
    (start, *_) = made_session("abc-1", place)
    hook(*start, cwd=place, environment={"CLAUDE_ENV_FILE": os.fspath(path)})
    assert path.read_text() == "export PERIPLUS_SESSION=abc-1\nexport PERIPLUS_AGENT=claude-code\n"
    (start, *_) = made_session("abc; rm -rf /", place)
    hook(*start, cwd=place, environment={"CLAUDE_ENV_FILE": os.fspath(path)})
    assert "rm" not in path.read_text()
