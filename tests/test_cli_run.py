"""``periplus run`` as a process, against a provider on loopback: the real loop, tools, tape, sandbox, store and trail."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
import tomllib
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from tests.cli_support import Shell, age, read_to_the_end
from tests.fake_provider import Failure, FakeProvider, Hanging

from periplus.agent.contracts import AssistantMessage, ToolCall, Usage
from periplus.agent.episodes import Ended, Requested
from periplus.agent.models.client_factory import Provider
from periplus.agent.persistence.run_log import StoreLog
from periplus.agent.policies.permission import MODES
from periplus.agent.settings import SETTINGS
from periplus.base.process.locks import Lock
from periplus.journal import Writer
from periplus.project import Project

pytest.importorskip("openai")

BROKEN = "def add(a, b):\n    return a - b\n"
MENDED = "def add(a, b):\n    return a + b\n"
CHECK = 'python3 -c "import calc; assert calc.add(1, 2) == 3"'
READS = ("read", {"path": "calc.py"})
MENDS = ("edit", {"edits": [{"path": "calc.py", "old": "a - b", "new": "a + b"}]})
CHECKS = ("shell", {"command": CHECK})


def says(text, *calls):
    made = tuple(ToolCall(id=f"call_{at}_{name}", name=name, args=args) for at, (name, args) in enumerate(calls))
    usage = Usage(prompt_tokens=4_000, completion_tokens=50, cached=3_000)
    return AssistantMessage(content=text, tool_calls=made, finish_reason="tool_calls" if calls else "stop", usage=usage)


@pytest.fixture
def shell(tmp_path):
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "calc.py").write_text(BROKEN)
    age(folder / "calc.py")
    (folder / ".gitignore").write_text("__pycache__/\n")
    made = Shell(folder, home)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, env=made.environment())
    made("init", "--no-connect")
    return made


def use(shell, fake, **more):
    folder = shell.home / ".config" / "periplus"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['model = "fake/m"', *(f"{name} = {json.dumps(value)}" for name, value in more.items())]
    lines += ["[providers.fake]", 'kind = "openai-chat"', f'base_url = "{fake.url}/v1"']
    (folder / "agent.toml").write_text("\n".join(lines) + "\n")
    (folder / "agent.toml").chmod(0o600)


@pytest.mark.slow
def test_a_bug_is_mended_checked_and_told(shell):
    with FakeProvider(
        says("I look.", READS), says("The sign is wrong.", MENDS), says("", CHECKS), says("It adds now.")
    ) as fake:
        use(shell, fake)
        done = shell("run", "make it add", "--allow", "shell(python3 -c)", "--oracle", CHECK)
        requests = fake.bodies()
    assert (shell.folder / "calc.py").read_text() == MENDED
    assert "· edit calc.py" in done.out
    assert "It adds now." in done.out
    assert "— done" in done.out
    # What was sent before is sent again, byte for byte, with more behind it.
    for one, other in pairwise(requests):
        assert other["messages"][: len(one["messages"])] == one["messages"]
        assert other["tools"] == one["tools"]
    trail = done.out.rsplit(" ", 1)[1].strip()
    listing = shell("trail", "show", trail).out
    assert "calc.py" in listing
    assert "tokens_in=1000 cached=3000 out=50" in listing
    assert "commands are confined by" in listing
    assert done.out.startswith("(mode default; commands: ")
    assert "sound" in shell("trail", "verify", trail).out
    assert "right" in shell("trail", "verify", "--effects", trail).out
    (session,) = json.loads(shell("run", "--list", "--json").out)["sessions"]
    assert session["title"] == "make it add"
    assert "sound" in shell("doctor").out


@pytest.mark.slow
@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_what_was_edited_and_printed_is_shown(shell, is_full, is_terminal):
    """Through a pipe the answer is the text that it is; a terminal has it rendered."""
    writes = ("write", {"path": "made.txt", "content": "".join(f"made {number}\n" for number in range(10))})
    script = [says("I **look**.\n", writes), says("", ("shell", {"command": "seq 101 6000; false"})), says("*Done*.")]
    with FakeProvider(*script, *[says("Yes.")] * 4) as fake:
        use(shell, fake, mode="autonomous")
        words = ["run", "do it", "--allow", "shell(seq)", *(["--full"] if is_full else [])]
        if is_terminal:
            ours, its = pty.openpty()
            process = shell.start(
                *words, stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.DEVNULL, env={"TERM": "xterm"}
            )
            os.close(its)
            out = read_to_the_end(ours).decode()
            os.close(ours)
            assert process.wait(60) == 0
        else:
            out = shell(*words).out
    assert ("\x1b[32m+made 0\x1b[0m" in out) == is_terminal
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    assert ("I look." if is_terminal else "I **look**.") in lines
    at = lines.index("· write made.txt")
    if is_full:
        assert lines[at + 1 : at + 3] == ["    made.txt", "    @@ -0,0 +1,10 @@"]
        assert [line.strip() for line in lines].count("101") == 1
        assert "    +made 9" in lines
    else:
        assert lines[at + 8 : at + 10] == ["    +made 7", "    … 2 more lines; all: --full"]
        at = lines.index("    (the last 4 of 5,900 lines; all: --full)")
        assert lines[at - 1].startswith("  failed: exit 1 in ")
        assert lines[at + 1 : at + 5] == ["    5997", "    5998", "    5999", "    6000"]


@pytest.mark.slow
def test_what_a_session_teaches_waits_for_a_person_at_its_end(shell):
    script = [says("", READS), says("", CHECKS), says("", MENDS), says("", CHECKS), says("It adds now.")]
    with FakeProvider(*script) as fake:
        use(shell, fake)
        done = shell("run", "make it add", "--allow", "shell(python3 -c)", "--oracle", CHECK)
    assert "to review: periplus candidates list" in done.out
    (candidate,) = json.loads(shell("candidates", "list", "--json").out)["candidates"]
    assert "calc" in json.dumps(candidate)
    with FakeProvider(says("Nothing to do.")) as fake:
        use(shell, fake)
        assert "to review: periplus" not in shell("run", "look again", "--oracle", CHECK).out


def test_without_a_person_nothing_is_allowed_that_is_asked_for(shell):
    with FakeProvider(says("", CHECKS), says("I could not check it."), *[says("No.")] * 4) as fake:
        use(shell, fake)
        done = shell("run", "check it")
        said = json.dumps(fake.bodies()[1])
    assert "denied" in done.out
    assert "nobody can be asked here" in said


def test_events_are_lines_of_json_and_limits_have_their_exit_code(shell):
    with FakeProvider(*[says("", READS)] * 5) as fake:
        use(shell, fake)
        done = shell("run", "read on", "--max-steps", "2", "--json", code=7)
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [one["event"] for one in events[:2]] == ["run_started", "turn_started"]
    assert events[0]["sandbox"] in ("bubblewrap", "landlock", "none")
    assert events[-1]["event"] == "turn_ended"
    assert events[-1]["reason"] == "steps"
    assert len([one for one in events if one["event"] == "tool_ended"]) == 2


def test_what_a_provider_refuses_ends_the_run_with_what_to_do(shell):
    with FakeProvider(Failure(401, {"error": {"message": "bad key"}})) as fake:
        use(shell, fake)
        done = shell("run", "anything", code=1)
    assert "bad key" in done.out


def test_a_provider_that_asks_for_an_hour_is_quoted_with_the_command_that_goes_on(shell):
    busy = Failure(429, {"error": {"message": "slow down"}}, {"retry-after": "3600"})
    with FakeProvider(busy, *[says("Later it is.")] * 5) as fake:
        use(shell, fake)
        done = shell("run", "make it add", code=1)
        assert "The provider asks to wait 60 min; try again then. Nothing was done yet." in done.out
        assert "waiting does not mend" not in done.out
        command = done.lines[-1].removeprefix("  to continue: periplus ")
        assert "Later it is." in shell(*shlex.split(command.replace("…", "go on"))).out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_was_stopped_says_what_goes_on_with_it(shell, number):
    waiting = Hanging()
    with FakeProvider(says("I look.", READS), waiting, *[says("Here I am.")] * 5) as fake:
        use(shell, fake)
        process = shell.start(
            "run", "make it add", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert waiting.begun.wait(60)
        process.send_signal(number)
        out = process.communicate(timeout=60)[0].decode()
        waiting.over.set()
        assert "1 step stands; the task is not finished." in out
        command = out.splitlines()[-1].removeprefix("  to continue: periplus ")
        name = command.split()[2]
        told = shell.fails("run", "--resume", code=1, wrong="no session of the agent was interrupted").err
        assert 'periplus run --session NAME "…"' in told
        assert f"periplus {command}" in shell("run", "--resume", name, code=1).out
        done = shell(*shlex.split(command.replace("…", "go on")))
        assert "Here I am." in done.out
        assert "to continue: " not in done.out
        heard = json.dumps(fake.bodies()[-1])
        assert "make it add" in heard
        assert "go on" in heard


@pytest.mark.slow
def test_ctrl_c_parks_the_turn_and_killing_leaves_it_to_be_resumed(shell):
    first, second = Hanging(), Hanging()
    with FakeProvider(says("I look.", READS), first) as fake:
        use(shell, fake)
        process = shell.start(
            "run", "make it add", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert first.begun.wait(60)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=60)[0].decode()
        first.over.set()
    assert process.returncode == 130, out
    assert "— aborted" in out
    with FakeProvider(says("I look.", READS), says("Now.", MENDS), second) as fake:
        use(shell, fake)
        process = shell.start(
            "run", "mend it", "--session", "night", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        assert second.begun.wait(60)
        process.kill()
        process.wait(60)
        second.over.set()
    with FakeProvider(says("It was mended before.", READS), says("Yes, it is."), *[says("Yes.")] * 4) as fake:
        use(shell, fake)
        out = shell("run", "--resume").out
        heard = json.dumps(fake.bodies()[0])
    assert "Continuing session night" in out
    assert (shell.folder / "calc.py").read_text() == MENDED
    assert "mend it" in heard
    titles = {one["name"]: one["title"] for one in json.loads(shell("run", "--list", "--json").out)["sessions"]}
    assert titles["night"] == "mend it"  # what it was told to do, not how it is called
    assert shell("trail", "list").out.count("mend it") == 2
    assert shell("run", "--resume", "night", code=1).out.startswith("Session night was not interrupted")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "code", "told"),
    [
        (b"\x03", 130, "— aborted"),
        (b"\x04", 0, "the person said no"),
        (b"what?\ny\n", 0, "check it: exit 1"),
        (b"n\n", 0, "the person said no"),
    ],
    ids=["ctrl-c", "ctrl-d", "yes", "no"],
)
def test_who_is_asked_at_a_terminal_answers_or_stops_the_turn(shell, typed, code, told):
    """Ctrl-C at the question ends the turn at once: the program takes the signal, and no read ends by it."""
    said = f"check it: {'exit 1' if typed.endswith(b'y' + bytes([10])) else 'not run'}"
    with FakeProvider(says("", CHECKS), says(said), *[says("No.")] * 4) as fake:
        use(shell, fake)
        master, slave = pty.openpty()
        process = shell.start("run", "check it", "--oracle", "true", stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0))  # fmt: skip
        os.close(slave)
        shown = b""
        while b"lways: " not in shown:
            shown += os.read(master, 65_536)
        os.write(master, typed)
        shown += read_to_the_end(master)
        os.close(master)
    assert process.wait(60) == code, shown
    assert told in shown.decode()


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_run_whose_store_cannot_be_written_says_what_goes_on_with_it(shell, form):
    """The error says to repeat the command; that would begin another session."""
    hanging, store = Hanging(), Lock(str(shell.folder / ".periplus" / "journal" / "lock"))
    with FakeProvider(says("I look.", READS), hanging) as fake:
        use(shell, fake)
        process = shell.start("run", "mend it", "--session", "night", *form, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        assert hanging.begun.wait(60)
        assert store.try_take()
        process.send_signal(signal.SIGINT)
        out, err = (one.decode() for one in process.communicate(timeout=60))
        store.release()
        store.close()
        hanging.over.set()
    assert process.returncode == 4, err
    assert "The turn was interrupted. To continue: periplus run --resume night" in (err if form else out).splitlines()
    with FakeProvider(*[says("It is as it was.")] * 5) as fake:
        use(shell, fake)
        assert "— done" in shell("run", "--resume", "night").out


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_task_that_is_not_begun_behind_a_turn_that_was_cut_off_is_told(shell, form):
    hanging = Hanging()
    with FakeProvider(hanging) as fake:
        use(shell, fake)
        process = shell.start(
            "run", "mend it", "--session", "night", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        assert hanging.begun.wait(60)
        process.kill()
        process.wait(60)
        hanging.over.set()
    with FakeProvider(Failure(401, {"error": {"message": "invalid key"}})) as fake:
        use(shell, fake)
        done = shell("run", "and then oil it", "--session", "night", *form, code=1)
        assert len(fake.bodies()) == 1
    assert "Not started, because the interrupted turn did not finish: and then oil it" in (
        done.err if form else done.out
    )


WITHOUT_LANDLOCK = """
import ctypes, os, sys
libc, number = ctypes.CDLL(None, use_errno=True), ctypes.c_long
handled = (ctypes.c_uint64 * 1)(1 << 11)  # making block devices, which nothing here does
fd = libc.syscall(number(444), handled, ctypes.c_size_t(8), number(0))
libc.prctl(38, 1, 0, 0, 0)
while fd >= 0 and libc.syscall(number(446), number(fd), number(0)) == 0:
    pass  # until the kernel takes no more layers: there is none left for a sandbox
os.execv(sys.executable, [sys.executable, "-m", "periplus", *sys.argv[1:]])
"""


@pytest.mark.slow
def test_what_a_run_would_be_refused_for_is_told_without_running_it(shell):
    def run(*words):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_LANDLOCK, "run", "x", *words], capture_output=True, text=True, check=False,
            cwd=shell.folder, env=shell.environment(PATH=os.fspath(shell.home)), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done

    plan = run("--dry-run", "--oracle", "true", "--json")
    said = json.loads(plan.stdout)
    assert (plan.returncode, said["sandbox"]) == (5, "none")
    assert "the check of the result can never run" in said["refused"]
    plan = run("--dry-run", "--oracle", "true")
    assert (plan.returncode, plan.stdout.splitlines()[-1]) == (5, f"refused: {said['refused']}")
    plan = run("--dry-run")
    assert (plan.returncode, "refused" in plan.stdout) == (0, False)
    (shell.folder / "played.jsonl").write_text("")
    refused = run("--oracle", "true", "--play", "played.jsonl")
    assert refused.returncode == 5
    assert said["refused"].split(". ")[0] in refused.stderr


def test_a_project_says_nothing_before_it_is_trusted_and_never_where_a_key_goes(shell):
    (shell.folder / "periplus.toml").write_text('oracle = "touch /tmp/owned"\nmax_steps = 7\n')
    plan = shell.json("run", "x", "--dry-run")
    assert (plan.oracle, plan.max_steps) == ("", 200)
    assert (
        "Files that the agent follows there: periplus.toml. To review: periplus run --dry-run x"
        in shell("trust", "give").out
    )
    plan = shell.json("run", "x", "--dry-run")
    assert (plan.oracle, plan.max_steps) == ("touch /tmp/owned", 7)
    (shell.folder / "periplus.toml").write_text("max_steps = 9\n")
    done = shell("run", "x", "--dry-run")
    assert "changed since you trusted it" in done.err
    assert "max steps: 200" in done.out
    for line, told in (
        ('model = "evil/m"', "a project cannot set 'model'"),
        ('rules = ["allow shell"]', "a project cannot allow anything"),
        ('mode = "autonomous"', "a project cannot set 'mode'"),
        ("network = true", "a project cannot set 'network'"),
    ):
        (shell.folder / "periplus.toml").write_text(line + "\n")
        shell("trust", "give")
        assert told in shell("run", "x", "--dry-run", code=5).err
    (shell.folder / "periplus.toml").write_text(
        '[providers.openai]\nkind = "openai-chat"\nbase_url = "http://evil.example"\n'
    )
    shell("trust", "give")
    assert "there is no setting 'providers'" in shell("run", "x", "--dry-run", code=2).err
    assert shell("trust", "list").out == f"{shell.folder}\n"
    shell("trust", "take")
    assert shell("trust", "list", code=1).out == "There are no trusted folders.\n"
    assert "trusted" not in shell("run", "x", "--dry-run").err


@pytest.mark.parametrize("option", ["--allow", "--deny"])
def test_a_wrong_rule_is_told_by_the_option_and_as_it_was_typed(shell, option):
    wrong = shell.fails(
        "run", "x", option, "shell(", code=2, wrong=f"periplus: {option} 'shell(' is not a permission rule"
    )
    assert f"{option} 'shell(git status)'" in wrong.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("modell = 'x'\n", "Did you mean 'model'"),
        ("max_steps = 'many'\n", "a whole number"),
        ("max_steps = 0\n", "from 1 to"),
        ("mode = 'wild'\n", "ask, default, autonomous"),
        ("network = 1\n", "true or false"),
        ("rules = ['run all']\n", "is not a permission rule"),
        ("[providers.x]\nkind = 'smoke'\nbase_url = 'https://x'\n", "providers.x"),
        ("[search]\naddres = 'https://x.example/{query}'\n", "search: Object"),
        ("= nonsense", "not valid TOML"),
    ],
)
def test_wrong_settings_are_errors_that_say_what_was_meant(shell, text, told):
    folder = shell.home / ".config" / "periplus"
    folder.mkdir(parents=True)
    (folder / "agent.toml").write_text(text)
    assert told in shell("run", "x", "--dry-run", code=2).err
    (folder / "agent.toml").chmod(0o666)
    assert "can be written by others" in shell("run", "x", "--dry-run", code=5).err


@pytest.mark.parametrize(
    "before",
    [
        "",
        'model = "old/one"\n',
        '# mine\nmax_steps = 7 # few\n\nmodel = "old/one" # once\n[providers.x]\nkind = "openai-chat"\nbase_url = "https://x.example"\n',
        "[providers.model]\nkind = 'openai-chat'\nbase_url = 'https://x.example' # model = here\n",
    ],
)
def test_setup_asks_the_provider_and_leaves_the_rest_of_the_file(shell, before):
    with FakeProvider() as fake:
        use(shell, fake)
        path = shell.home / ".config" / "periplus" / "agent.toml"
        own = path.read_text().partition("[providers.fake]")[2]
        path.write_text(before + "[providers.fake]" + own)
        was = tomllib.loads(path.read_text())
        assert "has no model 'c-model'" in shell("setup", "--provider", "fake", "--model", "c-model", code=2).err
        assert tomllib.loads(path.read_text()) == was
        done = shell("setup", "--provider", "fake", "--model", "b-model")
    assert "fake answers; it has 2 models" in done.err
    assert tomllib.loads(path.read_text()) == was | {"model": "fake/b-model"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert all(line in path.read_text() for line in before.splitlines() if "model =" not in line)
    assert shell.json("setup", "--show").sources["model"] == str(path)


def test_the_web_is_searched_where_a_provider_is_configured(shell):
    with FakeProvider(says("", ("web_search", {"query": "oil"})), says("Oil it."), *[says("Yes.")] * 4) as fake:
        use(shell, fake)
        path = shell.home / ".config" / "periplus" / "agent.toml"
        lines = [
            "[search]",
            f'address = "{fake.url}/v1/models?q={{query}}"',
            'results = "data"',
            'title = "id"',
            'url = "object"',
        ]
        path.write_text(path.read_text() + "\n".join(lines) + "\n")
        events = [json.loads(line) for line in shell("run", "x", "--json", "--allow", "web_search").out.splitlines()]
        (found,) = [one for one in events if one["event"] == "tool_ended"]
        assert (found["outcome"], found["output"]) == ("ok", "nothing was found")  # its rows have no address of the web
        path.write_text(path.read_text() + 'key_header = "X-Key"\n')
        assert "periplus models key search" in shell("run", "x", code=2).err


def test_a_key_is_kept_for_the_user_alone_and_never_shown(shell):
    key = "sk-ant-api03-" + "Zq7" * 31
    done = shell("models", "key", "anthropic", stdin=key + "\n")
    assert key not in done.out + done.err
    path = shell.home / ".config" / "periplus" / "keys.json"
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert "anthropic: a key from the file" in shell("models", "list").out
    shell("models", "key", "anthropic", stdin="")
    assert "anthropic: no key; add one: periplus models key anthropic" in shell("models", "list").out


@pytest.mark.slow
def test_who_cannot_answer_is_asked_again_and_that_is_told(shell):
    busy = Failure(503, {"error": {"message": "busy"}})
    with FakeProvider(busy, busy, says("Nothing to do."), *[says("Yes.")] * 4) as fake:
        use(shell, fake)
        said = shell("run", "look").out
    assert "(attempt 1 of 10 failed; next one in 1 s: " in said
    assert re.search(r"^\(attempt 2 of 10 failed; next one in [12] s\)$", said, re.MULTILINE)  # why is said once
    assert "broke off" not in said
    assert "Nothing to do." in said


@pytest.mark.slow
def test_sessions_that_a_list_leaves_out_are_counted(shell):
    with Project.open(os.fspath(shell.folder), Writer("agent", "agt_test", "")) as project:
        for number in range(25):
            project.writer = project.writer._replace(session=f"s{number}")
            log = StoreLog(project, f"s{number}", title=f"look at {number}", checkpoints=False)
            log.append(Requested(turn=1, text="look"), *([Ended(turn=1, reason="done")] if number else []))
            log.close("done")
    lines = shell("run", "--list").out.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "(5 more, older; 1 of them interrupted: periplus run --list --json)"
    assert len(shell.json("run", "--list").sessions) == 25


def test_settings_are_told_in_words(shell):
    said = shell("setup", "--show").out
    assert "model = none  (default)" in said
    assert "network = no  (default)" in said
    assert "rules = none  (default)" in said
    assert "model: none\n" in shell("run", "x", "--dry-run").out
    shell.fails("run", "x", "--play", "nothing.jsonl", code=1, wrong="there is no file")


def test_a_conversation_is_recorded_and_played_again_without_a_provider(shell):
    with FakeProvider(
        says("I look.", READS), says("Mended.", MENDS), says("It adds now."), *[says("Yes.")] * 4
    ) as fake:
        use(shell, fake)
        shell("run", "make it add", "--record", "talk.jsonl")
    assert (shell.folder / "calc.py").read_text() == MENDED
    (shell.folder / "calc.py").write_text(BROKEN)
    shell("run", "make it add", "--play", "talk.jsonl")
    assert (shell.folder / "calc.py").read_text() == MENDED


def test_the_page_names_every_setting_and_who_may_say_it():
    folder = Path(__file__).parents[1] / "docs" / "guides" / "agent"
    page = (folder / "README.md").read_text() + (folder / "settings.md").read_text()
    for setting in SETTINGS:
        row = next(line for line in page.splitlines() if line.startswith("|") and f"`{setting.name}`" in line)
        assert ("| no |" in row) != setting.of_project, setting.name
    for name, what in MODES.items():
        assert f"| `{name}` | {what} |" in page
    provider = tomllib.loads(page.partition("```toml\n")[2].partition("```")[0])["providers"]["mine"]
    assert not msgspec.convert(provider, Provider).asks_for_key


@pytest.mark.slow
def test_a_call_that_nobody_allowed_is_shown_with_what_would_allow_it(shell):
    with FakeProvider(says("", CHECKS, MENDS), *[says("No.")] * 5) as fake:
        use(shell, fake)
        done = shell("run", "check it", "--mode", "ask")
    shown = done.out.splitlines()
    at = shown.index(f"· shell {CHECK}")
    assert shown[at + 1] == "  denied: shell is asked for in mode ask; nobody can be asked here"
    assert (
        "  2 calls were denied, because nobody could be asked; to allow such calls: --allow 'shell(python3 -c)' --allow 'edit'"
        in shown
    )
    with FakeProvider(says("", CHECKS), *[says("No.")] * 5) as fake:
        use(shell, fake)
        events = [json.loads(line) for line in shell("run", "check it", "--json").out.splitlines()]
    (ended,) = [one for one in events if one["event"] == "tool_ended"]
    assert ended["args"] == {"command": CHECK}
    assert not [one for one in events if one["event"] == "tool_started"]


def test_what_fails_among_calls_that_run_at_once_is_told_with_whose_it_is(shell):
    (shell.folder / "a.py").write_text("a = 1\n")
    broken = AssistantMessage(
        content="", tool_calls=(ToolCall(id="call_b", name="read", raw='{"path": calc'),), finish_reason="tool_calls"
    )
    reads = [("read", {"path": path}) for path in ("b.py", "a.py", "c.py")]
    with FakeProvider(says("", *reads), says("", reads[0]), broken, *[says("It reads.")] * 5) as fake:
        use(shell, fake)
        shown = shell("run", "look", "--model", "fake/m").lines
    at = shown.index("· read b.py")
    assert shown[at : at + 5] == [
        "· read b.py",
        "· read a.py",
        "· read c.py",
        "  read b.py failed: no file b.py",
        "  failed: no file c.py",
    ]
    assert shown[at + 5 : at + 8] == ["· read b.py", "  failed: no file b.py", "· read"]
    assert shown[at + 8].startswith("  failed: Not run: the arguments are not JSON")


def test_a_call_that_no_rule_allows_is_not_said_to_be_allowed_by_one(shell):
    (shell.folder / "check.sh").write_text("true\n")
    with FakeProvider(says("", ("shell", {"command": "sh check.sh"})), *[says("No.")] * 5) as fake:
        use(shell, fake)
        said = shell("run", "check it", "--allow", "shell(sh)").out
    assert "to allow such calls" not in said
    assert (
        "  1 call was denied, because no rule allows them (sh would run a file): run at a terminal, or use --mode autonomous\n"
        in said
    )


def test_a_rule_that_counts_for_nothing_is_told(shell):
    with FakeProvider(*[says("No.")] * 4) as fake:
        use(shell, fake)
        done = shell("run", "look", "--deny", "Bash(rm)", "--deny", "web_fetch(evil.example)", "--deny", "shell(rm)")
    assert "The rule “deny Bash(rm)” has no effect: there is no tool Bash here. Did you mean shell?" in done.out
    assert "The rule “deny web_fetch(evil.example)” has no effect: web_fetch takes no path." in done.out
    assert done.out.count("has no effect") == 2


def test_what_stands_in_the_way_before_a_run_is_said_with_what_mends_it(shell):
    (shell.folder / "talk.jsonl").write_text("no exchange\n")
    assert "periplus setup" in shell.fails("run", "x", code=2, wrong="no model is chosen").err
    assert "--record FILE" in shell.fails("run", "x", "--play", "talk.jsonl", code=2, wrong="not an exchange").err
    shell.fails(
        "run",
        "x",
        "--play",
        "talk.jsonl",
        "--record",
        "more.jsonl",
        code=2,
        wrong="--play and --record cannot be combined",
    )
    assert not (shell.folder / "more.jsonl").exists()
    assert "periplus models list" in shell.fails("run", "x", "--model", "gpt", code=2).err
    kept = shell("models", "key", "opanai", stdin=b"sk-1234567890")  # it may be that of a server
    assert "There is no provider opanai" in kept.err
    assert "anthropic, local, openai" in kept.err
    shell.fails("models", "key", "openai", code=1, wrong="there is no key of openai in ")
    with FakeProvider(Failure(404, {"error": {"message": "no such model"}})) as fake:
        use(shell, fake)
        assert "periplus models list --ask fake" in shell("run", "x", code=1).out
    assert "periplus models list --ask fake" in shell("models", "list", "--ask", "fake", code=3).err


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_run_whose_reader_goes_away_is_stopped_and_parked(shell, form):
    begun = Hanging()
    with FakeProvider(says("I look.", READS), begun) as fake:
        use(shell, fake)
        process = shell.start("run", "look", "--session", "s", *form, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        code = process.wait(60)
        begun.over.set()
    assert code == 130  # it was not done: 0 would say that it was
    (session,) = json.loads(shell("run", "--list", "--json").out)["sessions"]
    assert not session["interrupted"]
    assert "sound" in shell("doctor").out


def test_a_task_that_is_too_long_is_not_cut_in_silence(shell):
    failed = shell.fails(
        "run", "-", code=2, wrong="the task has more than 1,048,576 characters", stdin="x" * ((1 << 20) + 1)
    )
    assert "Nothing was run." in failed.err


@pytest.mark.parametrize(
    "words", [[b"\xff"], ["x", "--session", b"\xff"], ["x", "--oracle", b"\xff"], ["x", "--deny", b"\xff"]]
)
def test_what_is_no_text_is_refused_before_anything_runs(shell, words):
    shell.fails("run", *words, "--play", _nothing(shell), code=2, wrong="is not UTF-8 text")
    shell.fails("run", "-", "--play", _nothing(shell), code=2, wrong="the task is not UTF-8 text", stdin=b"\xff")
    assert json.loads(shell("run", "--list", "--json", code=1).out)["sessions"] == []


def _nothing(shell):
    (shell.home / "nothing.jsonl").touch()
    return str(shell.home / "nothing.jsonl")


@pytest.mark.parametrize("name", ["a\x1b[31mb", "two\nlines", " "])
def test_a_name_that_nobody_could_type_again_is_refused(shell, name):
    shell.fails("run", "x", "--session", name, "--play", _nothing(shell), code=2, wrong="is not a valid session name")


def test_a_budget_of_money_that_cannot_be_kept_is_refused_or_told(shell):
    with FakeProvider(*[says("It adds.")] * 9) as fake:
        use(shell, fake)
        failed = shell.fails("run", "look", "--budget", "5", code=2, wrong="a budget of 5 cents cannot be enforced")
        assert "--budget-tokens" in failed.err
        assert not fake.requests
        done = shell("run", "look", "--budget", "5", "--budget-tokens", "900000")
        assert "the price of fake/m is unknown; use --budget-tokens to limit tokens" in done.err
        use(shell, fake, budget_cents=7)
        assert "a budget of 7 cents cannot be enforced" in shell("run", "look").err


@pytest.mark.slow
def test_ctrl_c_stops_the_check_as_well(shell):
    with FakeProvider(says("It adds."), *[says("Yes.")] * 5) as fake:
        use(shell, fake)
        begun = shell.folder / "work" / "begun"  # for not every sandbox lets new files be made beside .periplus
        begun.parent.mkdir()
        process = shell.start(
            "run", "look", "--oracle", "touch work/begun; sleep 300",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        until = time.monotonic() + 60
        while not begun.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=50)[0].decode()
    assert process.returncode == 130, out
    assert "— aborted" in out
    assert "asks for more work" not in out
