"""``periplus dispatch`` as a person types it, on records that a supervisor would write."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

import pytest

from cli_support import PERIPLUS, Shell, make_repository, read_to_the_end
from dispatch_agents import agent_row
from dispatch_records import GONE, Order
from periplus.cli.common.face import Palette
from periplus.cli.common.face import columns as columns_of
from periplus.cli.dispatch.board_view import BoardView
from periplus.cli.dispatch.table import money_text, time_text, tokens_text
from periplus.dispatch.places import Places
from periplus.dispatch.reports.board import board_of
from periplus.dispatch.reports.events import EventReader
from periplus.journal import Writer
from periplus.memory.coordination.dispatches import NewQuestion, change_dispatch
from periplus.project import Project
from periplus.tui.live_screen import Size, keys_in

ADA = Writer("ada", "who_0000000000000000", "", 1)


@pytest.fixture
def sh(tmp_path):
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    Project.init(os.fspath(tmp_path / "project"))
    return Shell(tmp_path / "project", tmp_path / "home")


@pytest.fixture
def order(sh):
    with Project.open(os.fspath(sh.folder), ADA) as project:
        yield Order(project)


def test_a_store_without_dispatches(sh):
    assert sh("dispatch", code=1).lines == ["There are no dispatches. Next: periplus dispatch start PLAN --agent NAME"]
    sh.fails("dispatch", "show", code=1, wrong="there is no dispatch")
    sh.fails("dispatch", "stop", code=1, wrong="Start one: periplus dispatch start")


def test_a_dispatch_is_listed_and_shown(sh, order):
    one = order.start(0)
    order.end_run(one, "submitted", tokens=(11_000, 800, 1_350), cost=123_456, wall_ms=95_000, summary="argon2id")
    order.start(1, "gemini", "r2")
    order.offer(3)
    listed = sh.json("dispatch", "list")
    (found,) = listed.dispatches
    assert (found.id, found.state, found.carried, found.agents) == (order.id, "open", False, ["codex", "gemini"])
    assert found.sums.states == {"submitted": 1, "running": 1, "offered": 1, "todo": 1}
    shown = sh.json("dispatch", "show")
    assert [(row.number, row.state, row.agent) for row in shown.rows] == [
        (1, "submitted", "codex"), (2, "running", "gemini"), (3, "waits", ""), (4, "offered", "codex"),
    ]  # fmt: skip
    assert shown.rows[0].act == "argon2id"
    assert shown.assignment is None
    out = sh("dispatch", "show", order.id).out
    assert f"{order.id} open, no supervisor: Move to argon2" in out
    assert "  1  submitted  codex         13.2k   $0.12  1m35s  hash  (argon2id)\n" in out
    assert f"waits for {order.steps[0].item_id}" in out
    assert f"To go on: periplus dispatch start --resume {order.id}" in out
    order.carry()
    assert f"{order.id} running: Move to argon2" in sh("dispatch", "list").out


def test_an_assignment_is_shown_by_its_step(sh, order):
    one = order.start(0)
    order.end_run(one, "submitted", tokens=(11_000, 800, 1_350), cost=123_456, wall_ms=95_000)
    order.change(
        one,
        "running",
        fields={"returns": [{"why": "oracle", "text": "2 failed\nsee above", "at": "2026-01-01T00:00:00Z"}]},
    )
    order.begin_run(one, "r2")
    finding = {"severity": "blocking", "text": "a salt is fixed", "path": "src/auth.py", "line": 3}
    order.end_run(
        one, "failed", ending="wall", reason="over an hour", findings=[finding], remarks=["a file was left out"]
    )
    shown = sh.json("dispatch", "show", order.steps[0].item_id)
    assert shown.assignment.reason == "over an hour"
    assert [run.id for run in shown.assignment.runs] == ["r1", "r2"]
    out = sh("dispatch", "show", one.item_id).out
    for said in (
        "failed     codex", "over an hour", "returned 2026-01-01T00:00:00  oracle: 2 failed see above", "wall",
        "blocking  src/auth.py:3: a salt is fixed", "note  a file was left out", f"periplus dispatch retry {one.item_id}",
    ):  # fmt: skip
        assert said in out


def test_a_question_is_seen_and_answered(sh, order):
    one = order.start(0)
    order.change(one, "waiting", question=NewQuestion("Which salt?", order.id, one.item_id, "codex", ("8", "16")))
    (asked,) = sh.json("dispatch", "list").questions
    for words in (["dispatch", "list"], ["dispatch", "show"], ["dispatch", "show", one.item_id]):
        out = sh(*words).out
        assert f"{asked.id} codex asks: Which salt?\n    one of: 8, 16\n" in out
        assert f'periplus dispatch answer {asked.id} "…"' in out
    assert sh("dispatch", "answer", asked.id, "16").lines == [f"Answered {asked.id}; codex goes on with it: 16"]
    assert sh.json("dispatch", "answer", asked.id, "16").answered_by == "ada"
    sh.fails("dispatch", "answer", asked.id, "8", code=5, wrong="was answered by ada")
    assert sh.json("dispatch", "list").questions == []


def test_a_dispatch_is_stopped_and_taken_up_again_by_a_retry(sh, order):
    one, _ = order.start(0), order.offer(1)
    done = sh("dispatch", "stop", "--reason", "the plan changed")
    assert done.lines[0].startswith(f"Stopped {order.id}; 2 assignments cancelled.")
    assert done.lines[-1] == f"To go on later: periplus dispatch start --resume {order.id}"
    assert sh("dispatch", "stop").lines == [f"{order.id} is stopped already."]
    assert [row.state for row in sh.json("dispatch", "show").rows][:2] == ["cancelled", "cancelled"]
    found = sh.json("dispatch", "retry", order.steps[0].item_id)
    assert (found.reopened, [each.granted for each in found.retried], found.carried) == (True, [2], False)
    assert sh.json("dispatch", "show").dispatch.state == "open"
    again = sh("dispatch", "retry", order.id)
    assert len(again.lines) == 3
    assert again.lines[-1] == f"Nobody carries {order.id} now. To go on: periplus dispatch start --resume {order.id}"
    assert sh.json("show", one.item_id).entity.value["granted"] == 3


def test_what_may_not_be_tried_again(sh, order):
    one = order.start(0)
    sh.fails("dispatch", "retry", one.item_id, code=5, wrong="is running: there is nothing to try again")
    sh.fails("dispatch", "retry", order.id, code=1, wrong="ended without result")
    order.end_run(one, "submitted")
    order.integrate(one)
    sh.fails("dispatch", "retry", one.item_id, code=5, wrong="is integrated")
    other = order.start(1)
    order.change(other, "failed", reason="it gave up")
    change_dispatch(order.journal, ADA, order.id, state="done")
    sh.fails("dispatch", "retry", other.item_id, code=5, wrong="Start another for the rest of the plan")
    assert sh("dispatch", "show").lines[0].startswith(f"{order.id} done: ")


def test_work_that_nobody_carries(sh, order):
    order.carry(GONE)
    order.start(0)
    assert sh.json("dispatch", "show").dispatch.carried is False
    assert sh("dispatch", "list").lines[0] == f"{order.id} open, no supervisor: Move to argon2"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, ""), (999, "999"), (1_000, "1.0k"), (99_949, "99.9k"), (99_950, "100k"), (999_499, "999k"), (999_500, "1.0M"), (5 * 10**9, "5.0G")],
)  # fmt: skip
def test_tokens_take_little_room(count, shown):
    assert tokens_text(count) == shown


def test_money_and_time_take_little_room():
    assert [money_text(cost) for cost in (0, 40, 12_345, 1_234_567_890)] == ["", "$0.0000", "$0.01", "$1,234.57"]
    assert [time_text(1000 * s) for s in (0, 59, 60, 3_599, 3_600, 400_000)] == [
        "",
        "59s",
        "1m00s",
        "59m59s",
        "1h00m",
        "4d",
    ]


# -- agents and standing -----------------------------------------------------------------------------------------------


def test_agents_are_found_on_the_path(sh, tmp_path):
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    (sh.home / ".config/periplus").mkdir(parents=True)
    (sh.home / ".config/periplus/agent.toml").write_text(agent_row())
    env = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    found = {one.name: one for one in sh.json("dispatch", "agents", env=env).agents}
    assert found["codex"].path == os.fspath(program)
    assert (found["scripted"].own, found["codex"].own) == (True, False)
    assert found["gemini"].path == ""
    assert "gemini         not found: no gemini on the PATH" in sh("dispatch", "agents", env=env).out
    tried = sh.json("dispatch", "agents", "codex", "--check", env=env, code=1)
    assert [one.name for one in tried.agents] == ["codex"]
    assert any("ended with 3" in one.wrong for one in tried.agents[0].findings)
    sh.fails("dispatch", "agents", "nobody", code=1, wrong="there is no agent 'nobody'")


def test_agents_are_compared(sh, order):
    assert sh("dispatch", "standing", code=1).lines == ["No agent has done a step yet."]
    one = order.start(0)
    order.end_run(one, "submitted", tokens=(11_000, 800, 1_350), cost=123_456, wall_ms=95_000)
    order.integrate(one)
    (found,) = sh.json("dispatch", "standing").standings
    assert (found.agent, found.steps, found.at_first, found.tokens) == ("codex", 1, 1, 13_150)
    line = sh("dispatch", "standing").lines[1]
    assert line == "codex          implementer      1     1      0      1      0      0  13.2k tokens, $0.12, 1m35s"


# -- watch -------------------------------------------------------------------------------------------------------------


def test_watch_prints_the_table_once_where_there_is_no_terminal(sh, order):
    order.start(0)
    once = sh("dispatch", "watch").out
    assert once == sh("dispatch", "show").out == sh("dispatch", "watch", "--once").out
    assert sh.json("dispatch", "watch", "--once").dispatch.id == order.id


def test_watch_prints_events_until_the_dispatch_ends(sh, order):
    one = order.start(0)
    order.end_run(one, "submitted")
    order.integrate(one)
    change_dispatch(order.journal, ADA, order.id, state="stopped", reason="enough")
    done = sh("dispatch", "watch", "--json", code=1)
    found = [json.loads(line) for line in done.lines]
    assert {one["schema"] for one in found} == {"periplus.dispatch.event/1"}
    assert [(one["event"], one["state"]) for one in found] == [
        ("dispatch", "open"), ("assignment", "offered"), ("assignment", "running"), ("run", "started"), ("run", "exited"),
        ("assignment", "submitted"), ("assignment", "verified"), ("assignment", "integrated"), ("integrated", "integrated"),
        ("dispatch", "stopped"),
    ]  # fmt: skip


class Watched:
    """``periplus dispatch watch`` at a terminal of its own, and the screen that it has drawn."""

    def __init__(self, sh, *words, columns=100, rows=24, **env):
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        env = sh.environment(TERM="xterm-256color", **env)
        self.process = subprocess.Popen(
            [PERIPLUS, "dispatch", "watch", *words], cwd=sh.folder, env=env, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def resize(self, columns, rows):
        self.columns = columns
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.master, keys)

    def until(self, is_so, seconds=20):
        """Read until ``is_so`` holds for the lines of the screen."""
        end = time.monotonic() + seconds
        while not is_so(self.screen()):
            left = end - time.monotonic()
            assert left > 0, "\n".join(self.screen())
            if select.select([self.master], [], [], left)[0]:
                self.raw += self._decoder.decode(os.read(self.master, 65_536))
        return self.screen()

    def screen(self):
        lines = {}
        for part in re.split(r"(?=\x1b\[\d+;1H|\x1b\[2J)", self.raw.rpartition("\x1b[?1049h")[2]):
            if part.startswith("\x1b[2J"):
                lines.clear()
            elif found := re.match(r"\x1b\[(\d+);1H(.*)", part, re.DOTALL):
                at, text = int(found[1]), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", found[2])
                if found[2].startswith("\x1b[J"):
                    lines = {place: line for place, line in lines.items() if place < at}
                else:
                    lines[at] = text
        return [lines.get(at, "") for at in range(1, max(lines, default=0) + 1)]

    def leave(self, *, by_signal=False):
        if by_signal:
            self.process.send_signal(signal.SIGINT)
        else:
            self.type(b"q")
        self.raw += self._decoder.decode(read_to_the_end(self.master))
        assert self.process.wait(20) == 0, self.raw
        os.close(self.master)
        assert self.raw.rstrip().endswith("\x1b[?7h\x1b[?25h\x1b[?1049l"), "the terminal is as it was"


@pytest.mark.slow
def test_watch_draws_what_changes_and_takes_keys(sh, order):
    order.carry()
    one = order.start(0)
    watched = Watched(sh)
    watched.until(lambda lines: any("running    codex" in line for line in lines))
    order.end_run(one, "submitted", tokens=(11_000, 800, 1_350), cost=123_456, wall_ms=95_000)
    lines = watched.until(lambda lines: any("submitted  codex         13.2k   $0.12  1m35s" in line for line in lines))
    assert lines[0] == f"{order.id} running: Move to argon2"
    assert lines[3].startswith(">   1  submitted")
    assert any(line.endswith("submitted                 codex: hash") for line in lines), "the newest events are below"
    assert all(len(line) <= 100 for line in lines)
    watched.type(b"j\x1b[B")
    watched.until(lambda lines: any(line.startswith(">   3  waits") for line in lines))
    watched.type(b"k\x1b[Ak\r")
    watched.until(lambda lines: "Nothing was printed yet." in lines[1] and lines[-1].endswith("q: leave"))
    watched.type(b"\x1b")
    watched.until(lambda lines: lines[-1].startswith("arrows or j k: choose"))
    watched.resize(60, 12)
    lines = watched.until(
        lambda lines: any(line.startswith(">   1  submitted  codex") and "13.2k" not in line for line in lines)
    )
    assert all(len(line) <= 60 for line in lines)
    assert len(lines) <= 12
    watched.leave()


@pytest.mark.slow
def test_watch_shows_what_an_agent_printed(sh, order):
    order.start(0)
    folder = Path(Places.of(os.fspath(sh.home / ".local/state/periplus"), order.project.root).run("r1"))
    folder.mkdir(parents=True)
    (folder / "output").write_bytes(b"".join(b"line %d \x1b[2J\n" % number for number in range(100)))
    watched = Watched(sh, rows=10, NO_COLOR="1")
    watched.until(lambda lines: any("running" in line for line in lines))
    watched.type(b"\r")
    lines = watched.until(lambda lines: "line 99" in lines[-2])
    assert lines[-2] == "line 99 \\x1b[2J"
    watched.type(b"g")
    watched.until(lambda lines: lines[1].startswith("line 0 "))
    assert not re.search(r"\x1b\[[0-9;]*m", watched.raw)
    watched.leave(by_signal=True)


@pytest.mark.slow
def test_an_idle_watch_takes_little(sh, order):
    order.start(0)
    watched = Watched(sh)
    watched.until(lambda lines: any("running" in line for line in lines))
    begun = watched.until(lambda lines: any(" 1s " in line or " 2s " in line for line in lines))
    before, drawn = cpu_s(watched.process.pid), watched.raw.count(";1H")
    at = time.monotonic()
    watched.until(lambda lines: lines != begun and time.monotonic() - at > 5)
    spent = cpu_s(watched.process.pid) - before
    assert watched.raw.count(";1H") - drawn <= 10 * 6, "only the line whose time moved on"
    assert spent < 0.25, spent
    watched.leave()


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_keys_of_a_terminal():
    assert list(keys_in(b"jk\x1b[A\x1bOB\r\x1b[5~q")) == ["down", "up", "up", "down", "enter", "page up", "quit"]
    assert list(keys_in(b"\x1b")) == ["escape"]
    assert list(keys_in(b"x\x1b[15~\x1b[1;5Cj")) == ["down"], "other keys mean nothing"


@pytest.mark.parametrize(("columns", "rows"), [(20, 3), (40, 8), (89, 24), (90, 24), (200, 60)])
def test_no_screen_is_larger_than_its_terminal(order, columns, rows):
    one = order.start(0)
    order.change(
        one, "waiting", question=NewQuestion("歯車は三百枚あります " * 20, order.id, one.item_id, "codex", ("8", "16"))
    )
    board = board_of(order.journal, order.dispatch)
    view = BoardView(board, Palette(), lambda _row, width: ["x" * width] * 100)
    view.take(EventReader(order.journal, order.id).read())
    size = Size(columns, rows)
    for key in ("", "down", "down", "down", "down", "up", "enter", "up", "page up", "home", "end", "escape"):
        view.key(key, size)
        lines = view.lines(size, board.now_ms)
        assert len(lines) <= rows
        assert [line for line in lines if columns_of(line) > columns] == []
    view.key("quit", size)
    assert view.is_over


# -- start and drop ----------------------------------------------------------------------------------------------------


@pytest.fixture
def git_sh(tmp_path):
    for name in ("home", "shop"):
        (tmp_path / name).mkdir()
    make_repository(tmp_path / "shop")
    Project.init(os.fspath(tmp_path / "shop"))
    shell = Shell(tmp_path / "shop", tmp_path / "home")
    (shell.home / ".config/periplus").mkdir(parents=True)
    (shell.home / ".config/periplus/agent.toml").write_text(agent_row())
    (shell.home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    return shell


def scripted(*acts):
    return {"WORKER_SCRIPT": json.dumps(acts)}


GOOD = ({"write": {"n.txt": "2"}}, {"commit": "Add n"}, {"result": {"status": "done", "summary": "added n"}})
START = ("dispatch", "start", "add the file n", "--agent", "scripted", "--oracle", "test -f n.txt")


def test_a_trial_shows_what_would_be_done_and_writes_nothing(git_sh):
    before = git_sh("log", "--json").out
    found = git_sh.json(*START, "--dry-run")
    assert [(one.step, one.text) for one in found.ready] == [("", "add the file n")]
    assert [(one.name, one.wrong) for one in found.agents] == [("scripted", "")]
    assert (found.oracle, found.lanes, len(found.base)) == (["test", "-f", "n.txt"], 2, 40)
    assert found.worktrees.startswith(os.fspath(git_sh.home / ".local/state/periplus/dispatch/"))
    out = git_sh(*START, "--reviewer", "codex", "--dry-run", code=1, env={"PATH": "/usr/bin:/bin"}).out
    assert "reviewer  codex: no codex on the PATH" in out
    assert git_sh("log", "--json").out == before
    assert git_sh("dispatch", code=1).lines[0].startswith("There are no dispatches")


def test_the_oracle_of_the_settings_counts_where_the_folder_is_trusted(git_sh):
    (git_sh.folder / "periplus.toml").write_text('oracle = "test -f n.txt"\n')
    words = ("dispatch", "start", "add the file n", "--agent", "scripted", "--dry-run")
    git_sh.fails(*words, code=2, wrong="Name one: --oracle 'pytest -q', or do without: --no-oracle")
    git_sh("trust", "give")
    assert git_sh.json(*words).oracle == ["test", "-f", "n.txt"]
    assert git_sh.json(*words, "--no-oracle").oracle == []


@pytest.mark.slow
def test_a_task_goes_in_and_merged_work_comes_out(git_sh):
    done = git_sh(*START, env=scripted(*GOOD))
    assert re.match(r"\d\d:\d\d:\d\d +dispatch open +dsp_\w+: add the file n$", done.lines[0])
    assert any(line.endswith("scripted: added n") for line in done.lines)
    assert done.lines[-1].startswith("The work is on the branch periplus/dsp_")
    shown = git_sh.json("dispatch", "show")
    assert [(row.state, row.rounds) for row in shown.rows] == [("integrated", 0)]
    git = ["git", "-C", git_sh.folder, "show", f"{shown.dispatch.branch}:n.txt"]
    assert subprocess.run(git, capture_output=True, text=True, check=True).stdout == "2"
    git_sh.fails("dispatch", "--resume", code=5, wrong="is done")
    again = git_sh(*START, "--json", env=scripted(*GOOD))
    assert json.loads(again.lines[-1])["state"] == "done"
    assert [json.loads(line)["event"] for line in again.lines][:4] == ["dispatch", "assignment", "assignment", "run"]


@pytest.mark.slow
def test_work_that_fails_is_kept_and_can_be_dropped(git_sh):
    acts = (
        {"write": {"other.txt": "2"}},
        {"commit": "Add other"},
        {"result": {"status": "failed", "summary": "no idea"}},
    )
    done = git_sh(*START, "--retries", "0", code=1, env=scripted(*acts))
    assert "To see why: periplus dispatch show STEP; to try again: periplus dispatch retry STEP" in done.lines
    (row,) = git_sh.json("dispatch", "show").rows
    assert row.state == "failed"
    git_sh.fails("dispatch", "drop", row.step, code=5, wrong="1 commit would be lost")
    dropped = git_sh.json("dispatch", "drop", row.step, "--yes")
    assert (dropped.commits, dropped.uncommitted) == (1, [])
    assert not os.path.exists(dropped.worktree)
    assert "has no worktree and no branch" not in git_sh("dispatch", "drop", row.step).out
    git_sh("dispatch", "retry", row.step)
    assert git_sh("dispatch", "--resume", env=scripted(*GOOD)).code == 0
    assert [one.state for one in git_sh.json("dispatch", "show").rows] == ["integrated"]


@pytest.mark.slow
def test_a_supervisor_in_the_background(git_sh):
    started = git_sh.json(*START, "--detach", env=scripted({"hang": {}}), is_process=True)
    try:
        assert git_sh.json("dispatch", "show").dispatch.carried is True
        git_sh.fails("dispatch", "--resume", code=5, wrong=f"is supervised by process {started.pid} already")
        git_sh("dispatch", "stop")
        assert waited(lambda: "dispatch stopped" in Path(started.log).read_text())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(started.pid, signal.SIGKILL)


@pytest.mark.slow
def test_ctrl_c_asks_once(git_sh):
    process = git_sh.start(
        *START, env=scripted({"hang": {}}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if " running " in line:
            break
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n"
    assert "finishing what runs; nothing more is started. Ctrl-C again stops it now" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping the agents; their work stays in its worktrees" in err
    assert "To go on: periplus dispatch start --resume dsp_" in out


def waited(is_so, seconds=30):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        threading.Event().wait(0.05)
    return True
