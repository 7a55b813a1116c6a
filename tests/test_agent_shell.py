"""Commands: deadlines that detach, output that is kept, processes that are ended, a declared environment."""

from __future__ import annotations

import errno
import os
import re
import threading

import pytest

from agent_tools_support import PATH, edit, shell_host
from periplus.agent.sandbox import Unconfined, find_sandbox
from periplus.agent.tools.files.change_log import ChangeLog
from periplus.agent.tools.shell.commands import declared_environment
from periplus.agent.tools.text_pages.command_output import Outputs, shorten
from periplus.base.files import Files
from periplus.base.filesystem.confined_folder import Confined

BUBBLEWRAP = find_sandbox(PATH, layers=("bubblewrap",))
LANDLOCK = find_sandbox(PATH, layers=("landlock",))
LAYERS = [
    pytest.param(Unconfined(), id="none"),
    pytest.param(
        BUBBLEWRAP, id="bubblewrap", marks=pytest.mark.skipif(BUBBLEWRAP.layer == "none", reason=BUBBLEWRAP.about)
    ),
    pytest.param(LANDLOCK, id="landlock", marks=pytest.mark.skipif(LANDLOCK.layer == "none", reason=LANDLOCK.about)),
]
every_layer = pytest.mark.parametrize("sandbox", LAYERS)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def gone(pid):
    """Wait, bounded, for a process to end."""
    waiting = threading.Event()
    return any(not is_running(pid) or waiting.wait(0.05) for _ in range(200))


@every_layer
def test_a_command_says_how_it_ended(tmp_path, sandbox):
    with shell_host(tmp_path, sandbox=sandbox) as host:
        done = host.run("shell", {"command": "echo out; echo err >&2; exit 3"})
        assert (done.outcome, done.exit_code) == ("failed", 3)
        assert done.output.split("\n")[1:3] == ["out", "err"]
        ok = host.run("shell", {"command": "pwd; echo hi > made.txt", "cwd": "."})
        assert (ok.outcome, ok.exit_code) == ("ok", 0)
        assert (tmp_path / "work" / "made.txt").read_text() == "hi\n"
        assert host.run("shell", {"command": "  "}).outcome == "failed"
        assert host.run("shell", {"command": "pwd", "cwd": "../.."}).outcome == "denied"
        assert host.run("shell", {"command": "kill -9 $$"}).outcome == "failed"


@every_layer
def test_a_deadline_detaches_and_the_output_goes_on_to_be_kept(tmp_path, sandbox):
    with shell_host(tmp_path, sandbox=sandbox) as host:
        gate = tmp_path / "work" / "gate"
        os.mkfifo(gate)
        done = host.run("shell", {"command": "echo first; read -r x < gate; echo second $x; exit 5", "deadline_s": 0.5})
        assert (done.outcome, done.exit_code) == ("ok", None)
        name = re.search(r"runs as (p\d+)", done.output)[1]
        with gate.open("w") as file:
            file.write("go\n")
        ended = host.run("process", {"action": "poll", "id": name, "wait_s": 60})
        assert ended.exit_code == 5
        assert "second go" in ended.output
        assert host.run("read", {"path": done.handle}).output.split("\n")[1:] == ["1\tfirst", "2\tsecond go"]
        assert host.run("process", {"action": "list"}).output.startswith(f"{name}\texit 5\t@periplus/output/")


@every_layer
def test_cancelling_ends_the_group_and_what_left_it(tmp_path, sandbox):
    with shell_host(tmp_path, sandbox=sandbox) as host:
        ready = tmp_path / "work" / "ready"
        os.mkfifo(ready)
        command = "sleep 600 & (setsid sleep 601 &) ; echo said; echo $$ $! > ready; sleep 602"
        found = []
        thread = threading.Thread(target=lambda: found.append(host.run("shell", {"command": command})))
        thread.start()
        with ready.open() as file:
            file.read()
        marks = {process.mark for process in host.shell.processes.list()}
        host.cancel()
        thread.join(60)
        assert found[0].outcome == "cancelled"
        assert "said" in found[0].output
        from periplus.agent.tools.shell.processes import _marked

        assert all(gone(pid) for mark in marks for pid in _marked(mark))
        assert host.run("shell", {"command": "echo after"}).outcome == "ok"


@every_layer
def test_closing_the_host_ends_what_runs(tmp_path, sandbox):
    from periplus.agent.tools.shell.processes import _marked

    with shell_host(tmp_path, sandbox=sandbox) as host:
        host.run("shell", {"command": "trap '' TERM; sleep 600", "background": True})
        mark = host.shell.processes.list()[0].mark
        waiting = threading.Event()
        assert any(
            _marked(mark) or waiting.wait(0.05) for _ in range(200)
        )  # its environment is there a moment after it
    assert all(gone(pid) for pid in _marked(mark))


@every_layer
def test_a_background_process_is_started_polled_given_input_and_stopped(tmp_path, sandbox):
    with shell_host(tmp_path, sandbox=sandbox) as host:
        begun = host.run("shell", {"command": "while read -r x; do echo got $x; done; echo bye", "background": True})
        name = re.search(r"runs as (p\d+)", begun.output)[1]
        host.run("process", {"action": "input", "id": name, "text": "one\n"})
        done = host.run("process", {"action": "input", "id": name, "text": "two\n", "close": True, "wait_s": 60})
        assert done.exit_code == 0
        assert host.run("read", {"path": begun.handle}).output.split("\n")[1:] == ["1\tgot one", "2\tgot two", "3\tbye"]
        assert "takes no input" in host.run("process", {"action": "input", "id": name, "text": "x"}).output
        other = host.run("shell", {"command": "sleep 600", "background": True})
        name = re.search(r"runs as (p\d+)", other.output)[1]
        assert "stopped" in host.run("process", {"action": "stop", "id": name}).output
        assert "no process" in host.run("process", {"action": "poll", "id": "p99"}).output


@every_layer
def test_a_terminal_is_one(tmp_path, sandbox):
    with shell_host(tmp_path, sandbox=sandbox) as host:
        done = host.run(
            "shell", {"command": "test -t 0 && test -t 1 && stty size && echo tty > /dev/tty", "terminal": True}
        )
        assert done.exit_code == 0, done.output
        assert done.output.split("\n")[1:3] == ["40 120", "tty"]
        asked = host.run(
            "shell", {"command": "read -rp 'name? ' n; echo hello $n", "terminal": True, "deadline_s": 0.5}
        )
        name = re.search(r"runs as (p\d+)", asked.output)[1]
        told = host.run("process", {"action": "input", "id": name, "text": "ann\n", "wait_s": 60})
        assert "hello ann" in told.output


def test_the_last_words_at_a_terminal_are_had(tmp_path, monkeypatch):
    """Between two looks of one read, a process may have written and gone: then Linux says that nobody is there, and has its words."""
    read, said = os.read, []

    def not_at_once(fd, size):
        if os.isatty(fd) and not said:
            said.append(fd)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(fd, size)

    monkeypatch.setattr("periplus.agent.tools.shell.processes.os.read", not_at_once)
    with shell_host(tmp_path) as host:
        done = host.run("shell", {"command": "echo last words", "terminal": True})
    assert said
    assert "last words" in done.output


def test_large_output_has_its_head_and_tail_and_the_rest_by_its_handle(tmp_path):
    with shell_host(tmp_path) as host:
        done = host.run("shell", {"command": "seq 1 100000"})
        assert len(done.output) < 20_000
        rows = done.output.split("\n")
        assert rows[1] == "1"
        assert rows[-2] == "100000"
        cut = next(row for row in rows if row.startswith("… "))
        call = eval(cut.partition("; read")[2].replace("(", "dict(", 1))
        assert call["path"] == done.handle
        before = rows[rows.index(cut) - 1]
        assert host.run("read", call).output.split("\n")[1] == f"{call['start']}\t{int(before) + 1}"
        assert host.run("search", {"pattern": "^77777$", "path": done.handle}).output == f"{done.handle}:77777:\t77777"
        assert "characters (" in cut


def test_output_beyond_what_is_kept_loses_its_middle_and_says_so(tmp_path, monkeypatch):
    from periplus.agent.tools.text_pages import command_output as module

    monkeypatch.setattr(module, "OUTPUT_BYTES_MAX", 1000)
    monkeypatch.setattr(module, "TAIL_BYTES_MAX", 500)
    outputs = Outputs(str(tmp_path / "out"), Files())
    output = outputs.new()
    for number in range(1000):
        output.add(b"%d\n" % number)
    assert output.text().endswith("999\n")
    output.close()
    text = outputs.read(output.handle)
    assert text.startswith("0\n1\n")
    assert text.endswith("998\n999\n")
    dropped = int(re.search(r"… ([\d,]+) bytes were not kept", text)[1].replace(",", ""))
    whole = sum(len(f"{n}\n") for n in range(1000))
    assert len(text) - len(f"\n… {dropped:,} bytes were not kept\n") + dropped == whole
    again = Outputs(str(tmp_path / "out"), Files())
    assert again.read(output.handle) == text
    assert again.new().handle == "@periplus/output/2.txt"
    again.close()


@pytest.mark.parametrize(
    "secret", ["AKIA" + "IOSFODNN7ABCDEFG", '"password": "hunter2hunter2XX"', "ghp_" + "a1B2c3D4e5" * 4]
)
@pytest.mark.parametrize("sign", ["x ", "\u00e9 "])
def test_a_line_without_an_end_is_not_parted_within_a_secret(tmp_path, secret, sign):
    outputs = Outputs(str(tmp_path / "out"), Files())
    core = secret.split('"')[-2] if '"' in secret else secret
    for before in range(0, 60, 2):
        output = outputs.new()
        said = sign.encode() * ((131_072 - before) // len(sign.encode())) + secret.encode() + b" z" * 40_000
        for at in range(0, len(said), 65_536):
            output.add(said[at : at + 65_536])
        output.close()
        assert output.masked == 1
        assert output.text().count("z") == 40_000
        assert core.encode() not in (tmp_path / "out" / f"{output.handle.rpartition('/')[2]}").read_bytes()


def test_what_came_since_is_told_also_when_the_middle_is_lost(tmp_path, monkeypatch):
    from periplus.agent.tools.text_pages import command_output as module

    monkeypatch.setattr(module, "OUTPUT_BYTES_MAX", 1000)
    monkeypatch.setattr(module, "TAIL_BYTES_MAX", 500)
    outputs = Outputs(str(tmp_path / "out"), Files())
    output = outputs.new()
    output.add(b"".join(b"%d\n" % number for number in range(200)))
    assert output.news() == "".join(f"{number}\n" for number in range(200))
    for number in range(200, 1000):
        output.add(b"%d\n" % number)
    lately = output.news()
    assert lately.startswith("".join(f"{number}\n" for number in range(200, 250)))
    assert "bytes were not kept" in lately
    assert lately.endswith("998\n999\n")
    assert output.news() == ""
    output.add(b"one more\nand half")
    assert output.news() == "one more\nand half"
    for number in range(2000, 3000):
        output.add(b"%d\n" % number)
    lately = output.news()
    assert re.match(r"\n… [\d,]+ bytes were not kept\n", lately)
    assert lately.endswith("2998\n2999\n")
    output.add(b"the end")
    output.close()
    assert output.news() == "the end"


def test_one_text_beyond_what_is_kept_keeps_its_end(tmp_path, monkeypatch):
    from periplus.agent.tools.text_pages import command_output as module

    monkeypatch.setattr(module, "OUTPUT_BYTES_MAX", 1000)
    monkeypatch.setattr(module, "TAIL_BYTES_MAX", 500)
    outputs = Outputs(str(tmp_path / "out"), Files())
    text = "".join(f"{number}\n" for number in range(10_000))
    kept = outputs.read(outputs.keep(text))
    head, dropped, tail = re.split(r"\n… ([\d,]+) bytes were not kept\n", kept)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert (len(head), len(tail)) == (1000, 500)
    assert int(dropped.replace(",", "")) == len(text) - 1500


KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(["MIIEowIBAAKCAQEAr7c0" + "Qw" * 20] * 6)
    + "\n-----END RSA PRIVATE KEY-----\n"
)
TOKEN = "ghp_" + "a1B2c3D4e5" * 4


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_secrets_are_masked_before_they_are_written_however_they_come(tmp_path, size):
    outputs = Outputs(str(tmp_path / "out"), Files())
    output = outputs.new()
    data = f"before\ntoken {TOKEN} there\n{KEY}after\n".encode()
    for begin in range(0, len(data), size):
        output.add(data[begin : begin + size])
    output.close()
    text = (tmp_path / "out" / "1.txt").read_text()
    assert TOKEN not in text
    assert "MIIEow" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert output.masked == 2


def test_shortening_keeps_whole_lines_and_counts_what_is_left_out():
    text = "".join(f"{n}\n" for n in range(10_000))
    out = shorten(text, "@periplus/output/1.txt", 1000)
    head, cut, tail = re.split(r"(… .*\n)", out)
    left = int(re.search(r"… ([\d,]+) characters", cut)[1].replace(",", ""))
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + left + len(tail) == len(text)
    one_line = shorten("x" * 5000, "@periplus/output/1.txt", 1000)
    assert "offset=333" in one_line


@every_layer
def test_the_environment_is_declared(tmp_path, sandbox):
    with shell_host(tmp_path, sandbox=sandbox) as host:
        out = host.run("shell", {"command": "env; echo HOME=$HOME"}).output
        assert "s3cret" not in out
        assert "SECRET" not in out
        names = {row.partition("=")[0] for row in out.split("\n")[1:] if "=" in row}
        assert names <= {"PATH", "HOME", "TMPDIR", "TERM", "PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "LANG", "LC_ALL",
                         "PERIPLUS_COMMAND", "PWD", "SHLVL", "_", "OLDPWD"}  # fmt: skip
        assert f"HOME={tmp_path}/state/home" in out


def test_the_environment_takes_no_relative_folders_and_nothing_by_accident():
    made = declared_environment({"PATH": ".:/usr/bin::rel:/bin", "AWS_SECRET_ACCESS_KEY": "x", "LD_PRELOAD": "y", "PYTHONPATH": "z"},
                                home="/h", temporary="/t", more={"MINE": "1"})  # fmt: skip
    assert made["PATH"] == "/usr/bin:/bin"
    assert made["MINE"] == "1"
    assert not {"AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "PYTHONPATH"} & set(made)


def test_without_a_sandbox_each_command_needs_consent(tmp_path):
    asked = []

    def refuse(wish, what):
        asked.append((wish, what))
        return False

    with shell_host(tmp_path, consent=refuse) as host:
        done = host.run("shell", {"command": "touch made"})
        assert done.outcome == "denied"
        assert asked == [("unsandboxed", "touch made")]
        assert not (tmp_path / "work" / "made").exists()
        host.shell._consent = None
        assert "nobody can be asked" in host.run("shell", {"command": "touch made"}).output


@pytest.mark.skipif(BUBBLEWRAP.layer == "none", reason="no bubblewrap")
def test_leaving_the_sandbox_and_the_network_need_consent(tmp_path):
    asked = []

    def answer(wish, what):
        asked.append(wish)
        return len(asked) > 2

    with shell_host(tmp_path, sandbox=BUBBLEWRAP, consent=answer) as host:
        assert host.run("shell", {"command": "true"}).outcome == "ok"
        assert host.run("shell", {"command": "true", "unsandboxed": True}).outcome == "denied"
        assert host.run("shell", {"command": "true", "network": True}).outcome == "denied"
        assert host.run("shell", {"command": "true", "unsandboxed": True}).outcome == "ok"
        assert asked == ["unsandboxed", "network", "unsandboxed"]


def test_a_program_that_cannot_be_started_is_an_error(tmp_path):
    from periplus.base.errors import EnvironmentFailure

    with shell_host(tmp_path) as host, pytest.raises(EnvironmentFailure, match="No such file"):
        host.shell.start(["/no/such/program"], ".", "no such program")


def test_only_so_many_run_at_once(tmp_path, monkeypatch):
    from periplus.agent.tools.shell import processes

    monkeypatch.setattr(processes, "RUNNING_MAX", 2)
    with shell_host(tmp_path) as host:
        for _ in range(2):
            assert host.run("shell", {"command": "sleep 600", "background": True}).outcome == "ok"
        assert "2 processes run already" in host.run("shell", {"command": "true"}).output


def test_what_a_command_changed_is_told_and_undone_with_the_turn(tmp_path):
    with shell_host(tmp_path) as host:
        work = tmp_path / "work"
        for name in ("a.txt", "b.txt", "run.sh", "same.txt"):
            (work / name).write_text(f"{name}\n")
        (work / ".gitignore").write_text("*.log\n")
        (work / ".git").mkdir()
        host.begin_turn("1")
        host.run("read", {"path": "a.txt"})
        command = "echo more >> a.txt; rm b.txt; chmod +x run.sh; mkdir d; echo new > d/c.txt; echo x > x.log; echo y > .git/y; touch same.txt"
        done = host.run("shell", {"command": command})
        assert {one["path"]: (one["before"] is None, one["after"] is None) for one in done.effects} == {
            "a.txt": (False, False), "b.txt": (False, True), "d/c.txt": (True, False), "run.sh": (False, False),
        }  # fmt: skip
        assert done.output.split("\n")[-1] == "files changed: a.txt, b.txt, d/c.txt, run.sh"
        assert (
            "changed since it was read"
            in host.run("edit", {"edits": [{"path": "a.txt", "old": "more", "new": "x"}]}).output
        )
        host.begin_turn("2")
        assert host.run("shell", {"command": "cat a.txt"}).effects == ()
        assert set(host.undo("1")) == {"a.txt", "b.txt", "d/c.txt", "run.sh"}
        assert (work / "a.txt").read_text() == "a.txt\n"
        assert (work / "b.txt").read_text() == "b.txt\n"
        assert not os.access(work / "run.sh", os.X_OK)
        assert not (work / "d" / "c.txt").exists()
        assert (work / ".git" / "y").read_text() == "y\n"
        assert (work / "x.log").read_text() == "x\n"


def test_what_others_changed_between_commands_is_none_of_theirs(tmp_path):
    with shell_host(tmp_path) as host:
        (tmp_path / "work" / "a.txt").write_text("one\n")
        assert host.run("shell", {"command": "true"}).effects == ()
        (tmp_path / "work" / "a.txt").write_text("two\n")
        assert host.run("shell", {"command": "echo x > b.txt"}).effects[0]["path"] == "b.txt"
        assert len(host.run("shell", {"command": "echo y > b.txt"}).effects) == 1


def test_what_others_write_while_a_command_runs_is_taken_back_only_where_that_is_said(tmp_path):
    """The person saves two files while a command of the agent runs: one of their own, and one that the command writes too."""
    work = tmp_path / "work"

    def while_it_runs(wish, about):
        del wish, about
        (work / "theirs.txt").write_text("hours of work\n")
        (work / "both.txt").write_text("both, with more\n")
        return True

    with shell_host(tmp_path, consent=while_it_runs) as host:
        for name in ("theirs.txt", "both.txt", "own.txt"):
            (work / name).write_text(f"{name}\n")
        host.begin_turn("1")
        assert host.run("edit", edit("own.txt", "own.txt", "mended")).outcome == "ok"
        host.run("shell", {"command": "echo x >> both.txt; echo y > made.txt"})
        log = host.work.changes
        done = log.undo("1", with_seen=False)
        assert done == (("own.txt",), ("both.txt", "made.txt", "theirs.txt"), ())
        assert (work / "own.txt").read_text() == "own.txt\n"
        assert (work / "theirs.txt").read_text() == "hours of work\n"
        assert (work / "both.txt").read_text() == "both, with more\nx\n"
        # What was left can be had still, by a log that is read anew too; what was taken back is not taken back again.
        (work / "own.txt").write_text("of later\n")
        again = ChangeLog(str(tmp_path / "state"), Confined(str(work)), Files())
        assert again.turns() == ["1"]
        assert again.undo("1").paths == ("both.txt", "made.txt", "theirs.txt")
        assert (work / "both.txt").read_text() == "both.txt\n"
        assert (work / "own.txt").read_text() == "of later\n"
        assert again.turns() == []


def test_a_folder_too_large_to_be_watched_is_told_once(tmp_path):
    with shell_host(tmp_path) as host:
        host.shell.watch._files_max = 3
        for number in range(5):
            (tmp_path / "work" / f"f{number}").write_text("x")
        first = host.run("shell", {"command": "echo y > f0"})
        assert "not tracked here and cannot be undone: the folder has over 3 files" in first.output
        assert first.effects == ()
        assert "not tracked" not in host.run("shell", {"command": "true"}).output
