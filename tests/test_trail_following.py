"""Importing what agents left on this machine, and what they add to it while they run."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing

import pytest

from cli_support import Shell, claude_session, decoded, git, make_repository
from periplus.base.errors import DamageError
from periplus.interop import find_sessions
from periplus.journal import Writer
from periplus.project import Project
from periplus.project.trail_store import transcript_watch as module

pytestmark = pytest.mark.quick

SESSION = "00000000-0000-4000-8000-000000000001"


def record(number: int, text: str, cwd="/elsewhere") -> str:
    uuid = f"00000000-0000-4000-8000-{number:012x}"
    parent = f"00000000-0000-4000-8000-{number - 1:012x}" if number > 1 else None
    return json.dumps({
        "type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "cwd": cwd,
        "timestamp": f"2026-01-01T00:00:{number:02d}.000Z", "message": {"role": "user", "content": text},
    }) + "\n"  # fmt: skip


class Turns:
    """A clock that jumps with each wait; at the turn ``at`` of the plan something happens first."""

    def __init__(self, plan, turns: int) -> None:
        self.at_s = 0.0
        self.waits: list[float] = []
        self._plan = plan
        self._turns = turns

    def now(self) -> float:
        return self.at_s

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.at_s += seconds
        act = self._plan.get(len(self.waits))
        if act is not None:
            act()
        return len(self.waits) >= self._turns


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    Project.init(os.fspath(folder))
    with Project.open(os.fspath(folder), Writer("ada", "who_0000000000000000", "", 1)) as opened:
        yield opened


def prompts(trail) -> int:
    return trail.entity.value["counts"]["prompts"]


def follow(project, paths, turns):
    return project.follow_transcripts(lambda: [os.fspath(path) for path in paths], wait=turns.wait, now=turns.now)


# ---- following


def test_a_session_that_grows_stays_one_trail(project, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(record(1, "one"))

    def grow(number):
        with path.open("a") as file:
            file.write(record(number, f"text {number}"))

    turns = Turns({5: lambda: grow(2), 40: lambda: grow(3)}, 80)
    found = list(follow(project, [path], turns))
    assert [prompts(one.trails[0]) for one in found] == [1, 2, 3]
    assert len({one.trails[0].entity.item_id for one in found}) == 1
    (entity,) = project.trails()
    assert entity.value["source_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    again = project.import_transcripts(os.fspath(path))
    assert not again[0].changed


def test_what_does_not_change_is_not_read_and_looked_at_ever_less_often(project, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(record(1, "one"))
    taken = []

    def take(name):
        taken.append(name)
        return project.import_transcripts(name)

    turns = Turns({}, 60)
    list(module.follow_files(lambda: [os.fspath(path)], take, wait=turns.wait, now=turns.now))
    assert taken == [os.fspath(path)]
    assert turns.waits[-1] == module.INTERVAL_MAX_S
    assert turns.at_s > 40


def test_a_writer_that_never_pauses_is_followed_now_and_then(project, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(record(1, "one"))

    def grow():
        with path.open("a") as file:
            file.write(record(2, "more"))

    turns = Turns(dict.fromkeys(range(1, 120), grow), 120)
    found = list(follow(project, [path], turns))
    assert 2 <= len(found) <= 5


def test_an_import_that_takes_long_is_repeated_seldom(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text("x")
    turns = Turns({}, 10_000)
    begun = []

    def take(_):
        begun.append(turns.at_s)
        turns.at_s += 3.0
        return []

    def grow():
        path.write_text("x" * (len(begun) + 1) + str(len(turns.waits)))

    turns._plan = dict.fromkeys(range(1, 400), grow)
    turns._turns = 400
    list(module.follow_files(lambda: [os.fspath(path)], take, wait=turns.wait, now=turns.now))
    assert len(begun) >= 2
    assert all(later - earlier >= 33 for earlier, later in itertools.pairwise(begun))


def test_a_file_that_shrank_or_was_written_anew_is_begun_anew(project, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(record(1, "mend the login") + record(2, "two"))

    def rewrite():
        other = tmp_path / "new"
        other.write_text(record(1, "first") + record(2, "second") + record(3, "third"))
        other.replace(path)

    def shrink():
        path.write_text(record(9, "late"))

    found = list(follow(project, [path], Turns({5: rewrite, 40: shrink}, 80)))
    assert [prompts(one.trails[0]) for one in found] == [2, 3, 1]
    assert [one.trails[0].entity.value["title"] for one in found] == ["mend the login", "first", "late"]


def test_a_bad_file_is_told_once_and_read_when_it_is_better(project, tmp_path):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(record(1, "good"))
    bad.write_text("nothing that anybody knows\n")
    mended = record(1, "better").replace(SESSION, SESSION.replace("1", "2"))
    plan = {5: lambda: bad.write_text("still nothing\n"), 60: lambda: bad.write_text(mended)}
    found = list(follow(project, [bad, good], Turns(plan, 120)))
    assert [(one.path, one.trouble is None) for one in found] == [
        (str(bad), False), (str(good), True), (str(bad), True),
    ]  # fmt: skip


def test_a_file_that_goes_away_and_comes_back(project, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(record(1, "one"))
    plan = {5: path.unlink, 60: lambda: path.write_text(record(1, "one") + record(2, "two"))}
    found = list(follow(project, [path], Turns(plan, 120)))
    assert [one.trouble is None for one in found] == [True, False, True]
    assert prompts(found[-1].trails[0]) == 2


def test_new_sessions_are_followed_too(project, tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(record(1, "one"))

    def begin():
        second.write_text(record(1, "two").replace(SESSION, SESSION.replace("1", "2")))

    turns = Turns({5: begin}, 60)
    found = list(
        project.follow_transcripts(
            lambda: [str(path) for path in (first, second) if path.exists()], wait=turns.wait, now=turns.now
        )
    )
    assert [one.path for one in found] == [str(first), str(second)]


def test_a_subagent_that_writes_changes_its_session(project, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(record(1, "one"))

    def work():
        folder = tmp_path / "s" / "subagents"
        folder.mkdir(parents=True)
        side = json.loads(record(1, "side")) | {"isSidechain": True, "agentId": "abc"}
        (folder / "agent-abc.jsonl").write_text(json.dumps(side) + "\n")

    found = list(follow(project, [path], Turns({5: work}, 60)))
    assert [len(one.trails[0].children) for one in found] == [0, 1]


def test_damage_of_the_store_ends_it(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(record(1, "one"))

    def take(_):
        raise DamageError("an object is damaged", path="x")

    turns = Turns({}, 5)
    with pytest.raises(DamageError):
        list(module.follow_files(lambda: [str(path)], take, wait=turns.wait, now=turns.now))


def test_it_ends_after_its_time(tmp_path):
    turns = Turns({}, 10_000)
    found = module.follow_files(list, lambda _: [], wait=turns.wait, now=turns.now, timeout_s=7.5)
    assert list(found) == []
    assert turns.at_s == pytest.approx(7.5)


# ---- what is found


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return path


def leave_sessions(home, folder: str, mark: str) -> None:
    """A session of each agent that says in its files where it was held."""
    write(
        home / f".claude/projects/p-{mark}/{mark}.jsonl",
        record(1, f"claude {mark}", folder).replace(SESSION, f"c-{mark}"),
    )
    meta = {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": f"x-{mark}", "cwd": folder}}
    said = {"timestamp": "2026-01-01T00:00:01Z", "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"codex {mark}"}]}}  # fmt: skip
    write(home / f".codex/sessions/2026/01/01/rollout-{mark}.jsonl", f"{json.dumps(meta)}\n{json.dumps(said)}\n")
    name = home / f".cline/data/sessions/{mark}/{mark}"
    messages = [{"role": "user", "content": [{"type": "text", "text": f"cline {mark}"}], "ts": 1767225600000}]
    write(
        name.with_suffix(".messages.json"),
        {"version": 1, "updated_at": "x", "agent": "lead", "sessionId": f"l-{mark}", "messages": messages},
    )
    write(
        name.with_suffix(".json"),
        {"version": 1, "session_id": f"l-{mark}", "cwd": folder, "messages_path": "/etc/passwd"},
    )
    hashed = hashlib.sha256(folder.encode()).hexdigest()
    message = {"id": "1", "timestamp": "2026-01-01T00:00:00Z", "type": "user", "content": f"gemini {mark}"}
    write(
        home / f".gemini/tmp/{hashed}/chats/session-{mark}.json",
        {"sessionId": f"g-{mark}", "projectHash": hashed, "messages": [message]},
    )


def test_folders_are_told_as_paths_and_as_urls(tmp_path):
    folder = tmp_path / "a project"
    folder.mkdir()
    home = tmp_path / "home"
    url = folder.as_uri()
    assert "%20" in url
    write(home / ".local/share/amp/threads/T-1.json", {"id": "T-1", "env": {"initial": {"trees": [{"uri": url}]}}})
    write(home / ".continue/sessions/one.json", {"sessionId": "1", "workspaceDirectory": str(folder), "history": []})
    write(home / ".openhands/conversations/x/base_state.json", {"agent": {}, "workspace": {"working_dir": str(folder)}})
    found = find_sessions(str(home), str(folder))
    assert sorted(one.format for one in found) == ["amp", "continue", "openhands"]
    assert find_sessions(str(home), str(tmp_path / "a")) == []


@pytest.mark.parametrize(
    "records",
    [
        [{"type": "user", "message": {"content": "PICTURE"}, "uuid": "u", "sessionId": "s", "cwd": "HERE"}],
        [
            {"type": "file-history-snapshot", "snapshot": {"a": "PICTURE" * 3}},
            {"type": "user", "uuid": "u", "cwd": "HERE"},
        ],
    ],
)
def test_a_session_is_found_that_begins_with_more_than_its_head(tmp_path, records):
    """A picture that was pasted into the first prompt stands in front of the folder."""
    folder, home = tmp_path / "shop", tmp_path / "home"
    folder.mkdir()
    text = "".join(json.dumps(record) + "\n" for record in records)
    path = home / ".claude/projects/x/s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("HERE", str(folder)).replace("PICTURE", "iVBORw0KGgo" * 100_000))
    assert [one.path for one in find_sessions(str(home), str(folder))] == [str(path)]
    assert find_sessions(str(home), str(home)) == []
    path.write_text(text.replace("HERE", str(home)).replace("PICTURE", "iVBORw0KGgo" * 110_000))
    assert find_sessions(str(home), str(folder)) == []


def test_the_folder_of_a_thread_stands_behind_all_that_was_said(tmp_path):
    """And what tools gave back names other files: they are no folder of the session."""
    folder, other, home = tmp_path / "my shop", tmp_path / "other", tmp_path / "home"
    folder.mkdir()
    other.mkdir()
    said = [{"messageId": n, "role": "user", "content": [{"type": "tool_result", "run": {"result": {"uri": other.as_uri(), "text": "x" * 3000}}}]}
            for n in range(50)]  # fmt: skip
    thread = {"id": "T-1", "messages": said, "env": {"initial": {"trees": [{"uri": folder.as_uri()}]}}}
    path = home / ".local/share/amp/threads/T-1.json"
    write(path, thread)
    assert [one.cwd for one in find_sessions(str(home), str(folder))] == [str(folder)]
    assert find_sessions(str(home), str(other)) == []
    write(path, {**thread, "env": {"initial": {"trees": [{"uri": other.as_uri()}]}}, "title": "moved"})
    assert find_sessions(str(home), str(folder)) == []


def test_sessions_of_linked_worktrees_are_of_the_project(shell, tmp_path):
    """They share the store; an agent is often set to work in one of them."""
    main, feature = make_repository(tmp_path / "main"), tmp_path / "feature"
    git(main, "worktree", "add", "-q", "../feature")
    git(main, "worktree", "add", "-q", "../gone")
    shutil.rmtree(tmp_path / "gone")
    shell("init", cwd=main)
    for name in ("main", "feature", "gone", "other"):
        path = shell.home / f".claude/projects/x/{name}.jsonl"
        claude_session(path, cwd=str(tmp_path / name), prompt=f"In {name}", session=name)
    write(
        feature / ".aider.chat.history.md",
        "\n# aider chat started at 2026-01-01 10:00:00\n\n#### In aider  \n\nHello\n",
    )
    database = shell.home / ".local/share/opencode/opencode.db"
    make_database(database, [(str(feature), "a"), (str(tmp_path / "other"), "b")])
    for where in (main, feature):
        found = [trail.value for trail in shell.json("trail", "import", "--all", cwd=where).trails]
        titles = sorted(value["title"] for value in found if value["format"] != "opencode")
        assert titles == ["In aider", "In feature", "In main"]
        assert [value["cwd"] for value in found if value["format"] == "opencode"] == [str(feature)]


def make_database(path, folders) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, version TEXT, time_created INT, time_updated INT);"
            "CREATE TABLE message (id TEXT, session_id TEXT, time_created INT, data TEXT);"
            "CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);"
        )
        for number, (folder, mark) in enumerate(folders):
            database.execute(
                "INSERT INTO session VALUES (?, NULL, ?, '1', 1767225600000, 1767225600000)", (f"ses_{number}", folder)
            )
            database.execute(
                "INSERT INTO message VALUES (?, ?, 1767225600000, ?)",
                (f"msg_{number}", f"ses_{number}", '{"role": "user", "time": {"created": 1767225600000}}'),
            )
            database.execute(
                "INSERT INTO part VALUES (?, ?, ?)",
                (
                    f"prt_{number}",
                    f"msg_{number}",
                    json.dumps({"type": "text", "text": f"opencode {mark}" + " long" * 2000}),
                ),
            )
    database.close()


@pytest.fixture
def shell(tmp_path):
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    made = Shell(folder, home)
    made("init")
    return made


def test_all_takes_the_sessions_of_this_project_and_never_those_of_another(shell, tmp_path):
    other = tmp_path / "project-two"
    other.mkdir()
    leave_sessions(shell.home, str(shell.folder), "mine")
    leave_sessions(shell.home, str(other), "foreign")
    make_database(
        shell.home / ".local/share/opencode/opencode.db", [(str(shell.folder), "mine"), (str(other), "foreign")]
    )
    history = "\n# aider chat started at 2026-01-01 00:00:00\n\n#### aider mine  \n"
    write(shell.folder / ".aider.chat.history.md", history)
    write(other / ".aider.chat.history.md", history.replace("mine", "foreign"))
    done = shell.json("trail", "import", "--all")
    titles = sorted(trail.value["title"].split(" long")[0] for trail in done.trails)
    assert titles == ["aider mine", "claude mine", "cline mine", "codex mine", "gemini mine", "opencode mine"]
    assert (done.failed, done.left_out, len(done.files)) == ([], 0, 6)
    assert all(file.changed and file.trails for file in done.files)
    again = shell.json("trail", "import", "--all")
    assert not any(file.changed for file in again.files)
    kept = b"".join(path.read_bytes() for path in (shell.folder / ".periplus").rglob("*") if path.is_file())
    assert b"foreign" not in kept
    with Project.open(os.fspath(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        objects = project.journal.objects
        assert not any(b"foreign" in objects.get(digest) for digest in objects.digests())


def test_one_bad_file_does_not_stop_the_others(shell):
    leave_sessions(shell.home, str(shell.folder), "mine")
    write(shell.home / ".claude/projects/p-mine/broken.jsonl", f'{{"cwd": "{shell.folder}"}}\nnothing\n')
    done = shell.json("trail", "import", "--all", code=2)
    assert len(done.trails) == 4
    assert [failure.path.endswith("broken.jsonl") for failure in done.failed] == [True]


def test_links_and_folders_that_say_nothing_are_left_out(shell, tmp_path):
    elsewhere = write(tmp_path / "elsewhere/s.jsonl", record(1, "linked", str(shell.folder)))
    folder = shell.home / ".claude/projects/p"
    folder.mkdir(parents=True)
    (folder / "linked.jsonl").symlink_to(elsewhere)
    (shell.home / ".claude/projects/link").symlink_to(elsewhere.parent)
    write(folder / "nowhere.jsonl", record(1, "nowhere").replace('"cwd": "/elsewhere", ', ""))
    write(folder / "quoted.jsonl", record(1, f'"cwd": "{shell.folder}"').replace('"cwd": "/elsewhere", ', ""))
    write(folder / "nul.jsonl", record(1, "nul", f"{shell.folder}\0"))
    assert find_sessions(str(shell.home), str(shell.folder)) == []
    assert len(find_sessions(str(shell.home))) == 3


@pytest.mark.slow
def test_following_on_the_command_line_until_ctrl_c(shell, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(record(1, "one"))
    process = shell.start("trail", "import", "--follow", path, "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = decoded(process.stdout.readline())
    with path.open("a") as file:
        file.write(record(2, "two"))
    second = decoded(process.stdout.readline())
    assert [one.trails[0].value["counts"]["prompts"] for one in (first, second)] == [1, 2]
    assert second.files[0].changed
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_following_what_is_found(shell):
    leave_sessions(shell.home, str(shell.folder), "mine")
    process = shell.start("trail", "import", "--all", "--follow", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seen = b""
    while seen.count(b"imported") < 4:
        seen += process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--follow", "--git"], "--follow is for session files"),
        (["--follow"], "nothing to import"),
        (["--follow", "missing.jsonl"], "there is no file"),
    ],
)
def test_there_must_be_something_to_follow(shell, words, wrong):
    shell.fails("trail", "import", *words, code=1 if "missing.jsonl" in words else 2, wrong=wrong)
