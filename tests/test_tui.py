"""A session at a terminal, driven in tmux; and what a line means, without one."""

from __future__ import annotations

import io
import itertools
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from tests.fake_provider import FakeProvider, Hanging
from tests.test_cli_run import BROKEN, CHECK, CHECKS, MENDED, MENDS, READS, says, shell, use

from cli_support import PERIPLUS
from index_support import is_held
from periplus.tui.conversation import chosen, meant, mentions_in
from periplus.tui.terminal import Colours, is_hung_up

__all__ = ["shell"]  # a fixture
pytest.importorskip("prompt_toolkit")
pytest.importorskip("openai")
_SOCKETS = itertools.count()
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux drives the terminal")


class Terminal:
    """A window of tmux with a server of its own; ``program``, where it is not Periplus that is begun in it."""

    def __init__(self, shell, tmp_path, *words, columns=100, lines=30, env=None, program=PERIPLUS):
        # A socket of its own: a server that is just going away would take a new window with it.
        self._words = ["tmux", "-S", str(tmp_path / f"tmux-{next(_SOCKETS)}.sock"), "-f", "/dev/null"]
        environment = {"TERM": "screen-256color"} | shell.environment(**env or {})
        given = [f"{name}={value}" for name, value in environment.items()]
        command = shlex.join(["env", "-i", *given, program, *words])
        self._tmux(
            "new-session",
            "-d",
            "-x",
            str(columns),
            "-y",
            str(lines),
            "-c",
            str(shell.folder),
            f"{command}; echo ended $?; sleep 60",
        )
        self._tmux("set-option", "-g", "history-limit", "5000")

    def _tmux(self, *words):
        return subprocess.run([*self._words, *words], check=True, capture_output=True, timeout=30).stdout.decode()

    def type(self, text, enter=True):
        self._tmux("send-keys", "-l", text)
        if enter:
            self._tmux("send-keys", "Enter")

    def press(self, key):
        self._tmux("send-keys", key)

    def screen(self, *, colours=False):
        return self._tmux("capture-pane", "-p", "-J", "-S", "-500", *(["-e"] if colours else []))

    def wait_for(self, text, seconds=40, times=1):
        until = time.monotonic() + seconds
        while (shown := self.screen()).count(text) < times:
            assert time.monotonic() < until, f"no {text!r} in:\n{shown}"
            time.sleep(0.05)
        return shown

    def close(self):
        subprocess.run([*self._words, "kill-server"], check=False, capture_output=True, timeout=30)


class AtTerminal:
    """Periplus at a terminal that shows nothing to anybody, as a process of the test's own."""

    def __init__(self, shell, *words):
        self._ours, its = pty.openpty()
        self.process = shell.start(*words, stdin=its, stdout=its, stderr=its, env={"TERM": "xterm"})
        os.close(its)
        self._shown, self._grown = "", threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for _ in range(2):  # once more after the end, as ``read_to_the_end`` does
            try:
                while data := os.read(self._ours, 65536):
                    with self._grown:
                        self._shown += data.decode(errors="replace")
                        self._grown.notify_all()
            except OSError:
                pass  # nobody is at the other side

    def type(self, text):
        os.write(self._ours, f"{text}\r".encode())

    def wait_for(self, text):
        with self._grown:
            assert self._grown.wait_for(lambda: text in self._shown, 60), f"no {text!r} in:\n{self._shown}"

    def wait_for_a_turn(self, hanging):
        assert hanging.begun.wait(60), f"no request for a step; shown:\n{self._shown}"

    def hang_up(self):
        os.close(self._ours)

    def close(self):
        self.process.wait(60)
        self._reader.join(60)
        os.close(self._ours)


@pytest.fixture
def terminal(shell, tmp_path):
    opened = []

    def make(*words, **how):
        opened.append(Terminal(shell, tmp_path, *words, **how))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.mark.slow
@needs_tmux
def test_a_session_with_a_mention_a_question_an_undo_and_its_end(shell, terminal):
    with FakeProvider(says("I look.", READS), says("The sign.", MENDS), says("", CHECKS), says("It adds now.")) as fake:
        use(shell, fake)
        window = terminal()
        opened = window.wait_for("/help lists the commands")
        assert opened.index("Nothing waits for ada.") < opened.index("Periplus, with fake/m")
        window.type("mend @calc.py please")
        window.wait_for("Run it? y(es), n(o), a(lways)")
        window.type("use make instead")
        window.wait_for("(y, n or a; Esc stops the turn)")
        window.type("/status")  # a command is no answer
        window.wait_for("0 turns here")
        window.type("y")
        window.wait_for("It adds now.")
        assert (shell.folder / "calc.py").read_text() == MENDED
        assert "mend calc.py please" in json.dumps(fake.bodies()[0])
        window.type("/undo")
        window.wait_for("restored: calc.py")
        assert (shell.folder / "calc.py").read_text() == BROKEN
        window.type("/nonsense")
        window.wait_for("unknown command /nonsense")
        window.type("/undoo")
        window.wait_for("did you mean /undo?")
        window.type("look at @nowhere.py", enter=False)
        window.press("C-u")
        window.type("/exit")
        shown = window.wait_for("ended 0")
    assert "Traceback" not in shown
    # What scrolls by stands above the line that is written in, on lines of its own.
    lines = [line.rstrip() for line in shown.splitlines()]
    assert {"· read calc.py", "· edit calc.py", f"· shell {CHECK}", "It adds now."} <= set(lines), shown
    name = shown.partition("periplus run --session ")[2].split()[0]
    (session,) = json.loads(shell("run", "--list", "--json").out)["sessions"]
    assert session["name"] == name
    assert "sound" in shell("doctor").out


@pytest.mark.slow
def test_while_the_person_thinks_nothing_of_the_index_is_held(shell):
    """A session that stood open over night had the index's log grow by all that others wrote."""
    with FakeProvider() as fake:
        use(shell, fake)
        run = AtTerminal(shell, "run")
        run.wait_for("/help lists the commands")
        assert shell("remember", "written by somebody else").code == 0
        until = time.monotonic() + 60
        while is_held(shell.folder / ".periplus" / "index.sqlite"):
            assert time.monotonic() < until, "it holds a snapshot"
            time.sleep(0.05)
        run.type("/exit")
        run.close()
        assert run.process.returncode == 0


@pytest.mark.slow
@needs_tmux
def test_steering_stopping_and_going_on_in_a_narrow_terminal_without_colour(shell, terminal):
    first, second = Hanging(), Hanging()
    with FakeProvider(first, says("I heard you.", READS), says("Done.")) as fake:
        use(shell, fake)
        window = terminal(columns=40, lines=20, env={"NO_COLOR": "1"})
        window.wait_for("/help lists the commands")
        window.type("look at it")
        assert first.begun.wait(60)
        window.press("Escape")
        window.wait_for("aborted")
        first.over.set()
        window.type("go on")
        window.wait_for("Done.")
        assert not re.search(r"\x1b\[[34][0-7]m", window.screen(colours=True))
        window.press("C-d")
        window.wait_for("ended 0")
    with FakeProvider(says("I look.", READS), second) as fake:
        use(shell, fake)
        window = terminal("run", "--session", "night")
        window.wait_for("/help lists the commands")
        window.type("look again")
        assert second.begun.wait(60)
        window.type("use the other file")
        window.wait_for("reads it before its next step")
        window.close()
        second.over.set()
    with FakeProvider(says("I was told."), says("Yes.")) as fake:
        use(shell, fake)
        window = terminal("run", "--session", "night")
        window.wait_for("Continuing the interrupted turn.")
        window.wait_for("I was told.")
        assert "look again" in json.dumps(fake.bodies()[0])
        window.press("C-d")
        window.wait_for("ended 0")


@pytest.mark.slow
@needs_tmux
def test_a_session_is_put_aside_by_the_shell_and_keys_are_no_words(shell, terminal):
    with FakeProvider(says("I heard you.")) as fake:
        use(shell, fake)
        window = terminal("--norc", "--noprofile", "-i", program="bash")
        window.type(PERIPLUS)
        window.wait_for("/help lists the commands")
        window.press("C-z")
        window.wait_for("Stopped")
        window.type("echo we are $((40 + 2)); fg")
        window.wait_for("we are 42")
        window.wait_for("ready ·")  # it was taken away from the foot meanwhile
        window.press("C-q")  # what comes behind it is taken as it is
        window.press("C-z")
        window.type("hello")
        window.wait_for("I heard you.")
        assert fake.bodies()[0]["messages"][-1]["content"].endswith("hello")
        assert "\\u001a" not in json.dumps(fake.bodies()[0]["messages"])
        window.press("C-d")
        window.wait_for("To continue this session: periplus run --session")


@pytest.mark.slow
@needs_tmux
def test_what_matters_stands_first_at_the_foot_of_a_narrow_terminal(shell, terminal):
    with FakeProvider(says("The sign.", MENDS), says("", CHECKS), says("Done.")) as fake:
        use(shell, fake)
        window = terminal(columns=30, lines=20)
        window.wait_for("ready · default")
        window.type("mend it")
        window.wait_for("asks: y, n or a · default")
        window.type("y")
        window.wait_for("Done.")


@pytest.mark.slow
@needs_tmux
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["colours", "none", "dumb"])
def test_a_diff_the_end_of_an_output_and_an_answer_in_markdown(shell, terminal, environment):
    pytest.importorskip("rich")
    counts = ("shell", {"command": "seq 101 109; printf '\\033[2Jcleared\\n'"})
    with FakeProvider(
        says("I **look**.\n\n- at `it`\n", READS), says("", MENDS), says("", counts), says("It *adds*.")
    ) as fake:
        use(shell, fake, mode="autonomous")
        window = terminal("run", "--allow", "shell(seq)", columns=70, lines=60, env=environment)
        window.wait_for("/help lists the commands")
        window.type("mend it")
        window.wait_for("It *adds*." if "TERM" in environment else "It adds.")
        shown, coloured = [line.rstrip() for line in window.screen().splitlines()], window.screen(colours=True)
        window.type("/show 2")
        window.wait_for("\n101")
        window.type("/show 9")
        window.wait_for("(there is no 9; the last is 2)")
        window.type("/show all")
        window.wait_for("(/show takes the number of a diff or output")
        window.press("C-d")
        whole = window.wait_for("ended 0")
    at = shown.index("· edit calc.py")
    assert "    2 -    return a - b\n    2 +    return a + b" in "\n".join(shown[at : at + 6])
    at = next(at for at, line in enumerate(shown) if line.startswith("· shell seq"))
    assert shown[at + 1 : at + 6] == [
        "    … 6 more lines above; /show 2 shows them", "    107", "    108", "    109", "    \\x1b[2Jcleared",
    ]  # fmt: skip
    assert [line.rstrip() for line in whole.splitlines() if re.fullmatch(r"10\d *", line)] == [
        str(number) for number in range(101, 110)
    ]
    # tmux writes the colours of a line in its own way.
    has_colours = bool(
        re.search(r"\x1b\[31m(\x1b\[49m)?-    return a .*\n.*\x1b\[32m(\x1b\[49m)?\+    return a ", coloured)
    )
    assert has_colours == (not environment)
    answer = ["I **look**.", "", "- at `it`"] if "TERM" in environment else ["I look.", "", " • at it"]
    begins = shown.index(answer[0])
    assert shown[begins : begins + 3] == answer


@pytest.mark.slow
@needs_tmux
def test_what_is_said_at_a_terminal_that_writes_no_line_anew_has_lines_of_its_own(shell, terminal):
    with FakeProvider(says("The sign.", MENDS), says("", CHECKS), says("Done.")) as fake:
        use(shell, fake)
        window = terminal(env={"TERM": "dumb"})
        window.wait_for("(ready · default · 0 tokens")
        window.type("mend it")
        window.wait_for("(asks: y, n or a)")
        window.type("y")
        window.wait_for("Done.")
        shown = window.wait_for("(ready · default", times=2)
        window.press("C-d")
        window.wait_for("ended 0")
    assert "›" not in shown
    assert {"mend it", "The sign.", "· edit calc.py", "y", "Done."} <= {line.rstrip() for line in shown.splitlines()}, (
        shown
    )


def test_only_colours_pass_above_the_line_that_is_written_in():
    below = io.StringIO()
    Colours(below).write("\x1b[31m-a\x1b[0m\n\x1b[2J\x9b2J\x1b]0;owned\x07\n")
    assert below.getvalue() == "\x1b[31m-a\x1b[0m\n?[2J?2J?]0;owned\x07\n"


@pytest.mark.parametrize("is_told", [True, False])
def test_a_terminal_is_hung_up_before_its_processes_are_told(monkeypatch, is_told):
    ours, its = pty.openpty()
    try:
        assert not is_hung_up(its)
        os.close(ours)
        if not is_told:
            monkeypatch.setattr("os.isatty", lambda _: True)
        assert is_hung_up(its)
    finally:
        os.close(its)


@pytest.mark.slow
@pytest.mark.parametrize("disposition", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_turn_whose_terminal_is_closed_is_cut_off_and_not_stopped(shell, disposition):
    """Its end of file may be read before its signal is there: here no signal comes, for the terminal controls nobody.

    Under nohup the signal is ignored.
    """
    hanging = Hanging()
    with FakeProvider(hanging) as fake:
        use(shell, fake)
        before = signal.signal(signal.SIGHUP, disposition)
        try:
            run = AtTerminal(shell, "run", "--session", "night")
        finally:
            signal.signal(signal.SIGHUP, before)
        run.wait_for("›")
        run.type("look at it")
        run.wait_for_a_turn(hanging)
        run.hang_up()
        assert run.process.wait(60) == -signal.SIGHUP
        hanging.over.set()
    assert json.loads(shell("run", "--list", "--json").out)["sessions"][0]["interrupted"]


@pytest.mark.slow
@pytest.mark.parametrize("is_at_terminal", [True, False])
def test_what_was_said_to_a_killed_turn_is_heard_by_the_next_process(shell, is_at_terminal):
    """SIGKILL between the words and the next step, which never comes: what was accepted is on the disk."""
    hanging = Hanging()
    with FakeProvider(hanging) as fake:
        use(shell, fake)
        run = AtTerminal(shell, "run", "--session", "night")
        run.wait_for("›")
        run.type("look at it")
        run.wait_for_a_turn(hanging)
        run.type("use the other file")
        run.wait_for("reads it before its next step")
        run.process.kill()
        run.close()
        hanging.over.set()
    with FakeProvider(says("Not that one."), *[says("Yes.")] * 8) as fake:  # who is alone is asked for its proof
        use(shell, fake)
        if is_at_terminal:
            run = AtTerminal(shell, "run", "--session", "night")
            run.wait_for("Continuing the interrupted turn.")
            run.wait_for("(passing on your message: use the other file)")
            run.wait_for("Not that one.")
            run.type("and now?")
            run.wait_for("Yes.")
            run.type("/quit")
            assert run.process.wait(60) == 0
            run.close()
        else:
            said = shell("run", "--resume", "night", "and now?").out
            told = [
                "which was interrupted",
                "Passing on what was said meanwhile: use the other file",
                "Not that one.",
                "Yes.",
            ]
            assert sorted(told, key=said.index) == told
        for body in fake.bodies():
            assert json.dumps(body).count("use the other file") == 1
    assert "sound" in shell("doctor").out


@pytest.mark.slow
@needs_tmux
@pytest.mark.parametrize("columns", [100, 44])
def test_topics_folds_modes_and_another_session_by_commands(shell, terminal, columns):
    replies = [
        says("", READS),
        says("The sign is wrong."),
        says("Prose."),
        says("", CHECKS),
        says("So it is."),
        says("Here too."),
    ]
    with FakeProvider(*replies) as fake:
        use(shell, fake)
        window = terminal("run", "--session", "day", columns=columns, env={"NO_COLOR": "1"})
        window.wait_for("/help lists the commands")
        window.type("look at the sign")
        window.wait_for("The sign is wrong.")
        window.type("/topic new docs write them")
        window.wait_for("on docs; main is parked")
        window.type("say what the calculator is")
        window.wait_for("Prose.")
        window.type("/topic list")
        window.wait_for("* docs  active")
        window.wait_for("main  parked")
        window.type("/topic switch nowhere")
        window.wait_for("no topic 'nowhere'")
        window.type("/topic switch main")
        window.wait_for("on main; docs is parked")
        window.type("/topic park")
        window.wait_for("main is parked; on main")
        window.type("/topic frobnicate")
        window.wait_for("unknown command for topics")
        window.type("/unfold")
        window.wait_for("there is no fold to take back")
        window.type("/fold")
        window.wait_for("/unfold undoes this")
        window.type("/unfold")
        window.wait_for("unfolded: about")
        window.type("/mode")
        window.wait_for("* default")
        window.type("/mode everything")
        window.wait_for("unknown mode")
        window.type("/mode autonomous")
        window.wait_for("autonomous: run everything")
        window.type("check it")  # in mode default the command would be asked for
        window.wait_for("So it is.")
        window.type("/resume")
        window.wait_for("there is no other session here")
        shell("run", "hello", "--session", "night", "--play", _talk_of(shell))
        window.type("/sessions")
        window.wait_for("> 1. night")
        window.press("Escape")
        window.wait_for("staying in this session")
        window.type("/sessions")
        window.wait_for("1 of 1")
        window.type("nigt", enter=False)
        window.wait_for("nothing matches")
        window.press("BSpace")
        window.type("h")  # "nigh", and Enter
        window.wait_for("Periplus, with fake/m", times=2)
        window.type("what of you?")
        window.wait_for("Here too.")
        assert not re.search(r"\x1b\[[34][0-7]m", window.screen(colours=True))
        window.press("C-d")
        shown = window.wait_for("ended 0")
    assert not re.search(r'File ".*periplus', shown)  # the check that fails has a traceback of its own
    assert "periplus run --session night" in shown
    assert "hello" in json.dumps(fake.bodies()[-1]["messages"][1])  # it is that session, from its beginning
    sessions = json.loads(shell("run", "--list", "--json").out)["sessions"]
    assert {one["name"]: one["turns"] for one in sessions} == {"day": 3, "night": 2}
    assert {one["name"]: one["title"] for one in sessions} == {"day": "at the terminal", "night": "hello"}
    assert "sound" in shell("doctor").out


def _talk_of(shell):
    """A recorded conversation of one word, said as often as somebody asks whether it is so."""
    from periplus.agent.contracts import AssistantMessage
    from periplus.agent.models.conversation_replay import RecordingClient
    from periplus.agent.models.scripted import ScriptedClient

    path = str(shell.home / "talk.jsonl")
    client = RecordingClient(ScriptedClient([AssistantMessage(content="Hello.")] * 5), path)
    for _ in range(5):
        client.complete([], [])
    return path


@pytest.mark.slow
@needs_tmux
def test_a_session_to_go_on_with_is_picked_from_a_list(shell, terminal):
    for name in ("first", "second"):
        shell("run", f"hello from {name}", "--session", name, "--play", _talk_of(shell))
        (shell.home / "talk.jsonl").unlink()
    with FakeProvider(says("Gone on."), says("Again.")) as fake:
        use(shell, fake)
        window = terminal("run", "--resume")
        window.wait_for("> 1. second ")
        assert re.search(r"> 1\. second .*\n +2\. first ", window.screen())
        window.press("Down")
        window.wait_for("> 2. first ")
        window.press("Enter")
        window.wait_for("/help lists the commands")
        window.type("and now?")
        window.wait_for("Gone on.")
        window.press("C-d")
        window.wait_for("periplus run --session first")
        window.close()
        assert "hello from first" in json.dumps(fake.bodies()[0])
        window = terminal("run", "--resume")
        window.wait_for("2 of 2")
        window.type("7")
        window.wait_for("nothing matches")
        window.press("Escape")
        window.wait_for("no session was chosen")
        window.wait_for("ended 1")
        window.close()
        window = terminal("run", "--resume", env={"TERM": "dumb"})
        window.wait_for("Which one? (a number; default: 1)")
        window.type("7")
        window.wait_for("'7' is not in the list")
        window.wait_for("ended 2")
    # Where nobody can be asked, the newest are named.
    told = shell.fails("run", "--resume", code=1, wrong="no session of the agent was interrupted").err
    assert "The newest: first, second." in told or "The newest: second, first." in told


@pytest.mark.slow
@needs_tmux
def test_a_question_of_the_agent_is_no_question_of_yes_or_no(shell, terminal):
    question = ("ask_user", {"question": "Which one?", "options": ["red", "blue"]})
    with FakeProvider(says("", question), says("Painted.")) as fake:
        use(shell, fake)
        window = terminal()
        window.wait_for("/help lists the commands")
        window.type("paint it")
        window.wait_for("asks: your answer")
        window.type("2")
        window.wait_for("Painted.")
        window.press("C-d")
        window.wait_for("ended 0")
        heard = [one["content"] for one in fake.bodies()[-1]["messages"] if one["role"] == "tool"]
    assert heard == ["blue"]


@pytest.mark.parametrize(
    ("answer", "means"), [("2", "blue"), ("3", "3"), ("0", "0"), ("²", "²"), ("9" * 5_000, "9" * 5_000), ("", "")]
)
def test_what_an_answer_means(answer, means):
    assert chosen(answer, ["red", "blue"]) == means


@pytest.mark.parametrize(
    ("answer", "means"),
    [("y", "yes"), ("YES", "yes"), ("n", "no"), ("no", "no"), ("a", "always"), ("Always", "always"), ("", None), ("/help", None), ("nope", None)],
)  # fmt: skip
def test_what_is_an_answer_to_whether_a_call_may_run(answer, means):
    assert meant(answer) == means


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("mend @a.py and @src/b.py.", ["a.py", "src/b.py"]),
        ("write to ann@example.org", []),
        ("read @periplus/turns/1.md", []),
        ("@", []),
        ("@a @a", ["a"]),
    ],
)
def test_what_a_line_points_to(line, found):
    assert mentions_in(line) == found


def test_without_a_terminal_the_name_alone_says_what_there_is(shell):
    assert shell().lines[:2] == ["Nothing waits for ada.", "Next"]
    assert sys.executable
    assert os.path.exists(PERIPLUS)
