"""Jobs in run folders, with real processes: started once, kept, stopped, killed, and told truly whatever dies."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from periplus.base.errors import EnvironmentFailure, UsageError
from periplus.base.files import Files
from periplus.base.process.process_marks import process_mark
from periplus.dispatch.processes import Ended, Launch, Life, RunFolder
from periplus.dispatch.processes.output_files import RING_BYTES

SOURCE = Path(__file__).resolve().parents[1] / "src"
PATH = "/usr/local/bin:/usr/bin:/bin"
PATIENCE_S = 30
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


def until(is_so, patience_s=PATIENCE_S):
    """Wait for what other processes do: look again every few milliseconds, up to a deadline."""
    deadline = time.monotonic() + patience_s
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it did not come to that"
        select.select([], [], [], 0.005)
    return found


def is_alive(pid):
    """Not even a dead one that nobody has waited for counts."""
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def marks_of(run):
    return json.loads(Path(run.path, "process").read_text())


def keeper_of(run):
    return marks_of(run)["keeper"]["pid"]


def numbers_in(run):
    """The process ids that a job has written to its output, one a line."""
    return [int(line) for line in run.read(0).split() if line.isdigit()]


@pytest.fixture
def room(tmp_path):
    """Makes jobs of one folder, and leaves none of them."""
    runs = []

    class Room:
        path = tmp_path

        def folder(self, name="run"):
            runs.append(RunFolder(os.fspath(tmp_path / name), Files()))
            return runs[-1]

        def launch(self, *argv, **fields):
            fields.setdefault("environment", {"PATH": PATH})
            return Launch(argv, fields.pop("cwd", os.fspath(tmp_path)), **fields)

        def start(self, *argv, name="run", **fields):
            run = self.folder(name)
            run.start(self.launch(*argv, **fields))
            return run

        def sh(self, text, **fields):
            return self.start("sh", "-c", text, **fields)

        def finish(self, run):
            until(lambda: run.standing() == "ended")
            return run.ended()

    yield Room()
    for run in runs:
        run.kill()
        until(lambda run=run: run.standing() in ("absent", "ended", "lost"))


def test_a_job_has_the_prompt_the_folder_and_nothing_but_the_given_environment(room):
    run = room.sh(
        "cat; pwd; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=; echo wrong >&2; exit 3",
        prompt=b"the prompt\n",
        environment={"PATH": PATH, "ONE": "a b", "PYTHONPATH": "/nowhere"},
    )
    ended = room.finish(run)
    assert ended == Ended(3, "exited", ended.wall_ms, ended.cpu_ms, len(run.read(0)), 0)
    lines = run.read(0).decode().splitlines()
    assert lines[:2] == ["the prompt", os.fspath(room.path)]
    assert lines[-1] == "wrong"
    token = f"PERIPLUS_JOB={marks_of(run)['token']}"
    assert sorted(lines[2:-1]) == ["ONE=a b", f"PATH={PATH}", token, "PYTHONPATH=/nowhere"]
    assert run.life() == Life(ended.output_bytes, ended.cpu_ms, 0)


def test_values_of_the_environment_are_nowhere_in_the_folder(room):
    run = room.sh("exit 0", environment={"PATH": PATH, "API_KEY": "sk-very-secret"})
    room.finish(run)
    folder = Path(run.path)
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path.name
        assert b"very-secret" not in path.read_bytes()
    assert "API_KEY" in json.loads((folder / "launch.json").read_text())["environment"]


def test_names_that_are_no_text_reach_the_job(room):
    folder = room.path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    run = room.start("printf", "%s", os.fsdecode(b"\xff\xe9"), name=os.fsdecode(b"run\xff"), cwd=os.fspath(folder),
                     environment={"PATH": PATH, "LC_ALL": "C"})  # fmt: skip
    assert room.finish(run).code == 0
    assert run.read(0) == b"\xff\xe9"


def test_the_code_of_a_job_that_a_signal_ended_is_its_negative_number(room):
    ended = room.finish(room.sh("kill -9 $$"))
    assert (ended.code, ended.ending) == (-9, "exited")


@pytest.mark.parametrize(
    ("argv", "cwd", "problem"),
    [
        (("no-such-program",), ".", "cannot start no-such-program: not found, or its interpreter is not"),
        ((f"{SOURCE}/periplus/py.typed",), ".", f"cannot start {SOURCE}/periplus/py.typed: Permission denied"),
        (("sh", "-c", "exit 0"), "absent", "cannot enter the folder {}/absent: No such file or directory"),
    ],
)
def test_a_job_that_cannot_be_started_has_ended_with_the_reason(room, argv, cwd, problem):
    run = room.start(*argv, cwd=os.path.normpath(room.path / cwd))
    ended = room.finish(run)
    assert (ended.code, ended.ending, ended.output_bytes) == (None, "exited", 0)
    assert ended.problem == problem.format(room.path)


def test_wrong_use_is_refused(room):
    with pytest.raises(UsageError):
        RunFolder("relative", Files())
    with pytest.raises(UsageError):
        room.start()


def test_a_job_is_started_once(room):
    """Also when it has ended, when its keeper is dead, and when nothing of it is left."""
    run = room.folder()
    launch = room.launch("sh", "-c", "echo x >> count; read line")  # waits for nothing: the prompt is empty
    for _ in range(2):
        run.start(launch)
    room.finish(run)
    run.start(launch)
    assert (room.path / "count").read_text() == "x\n"

    other = room.start("sh", "-c", "echo x >> other; exec sleep 1000", name="other run")
    until((room.path / "other").exists)
    os.kill(keeper_of(other), signal.SIGKILL)
    until(lambda: other.standing() == "orphaned")
    other.start(launch)
    other.kill()
    assert other.standing() == "lost"
    other.start(launch)
    assert other.standing() == "lost"
    assert (room.path / "other").read_text() == "x\n"
    assert (room.path / "count").read_text() == "x\n"


def test_a_second_keeper_ends_at_once(room):
    run = room.sh("exec sleep 1000")
    code = "import sys; from periplus.dispatch.processes.keeper import main; main(sys.argv[1])"
    second = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, timeout=PATIENCE_S)
    assert second.stdout == b"held"
    run.kill()
    room.finish(run)
    third = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, timeout=PATIENCE_S)
    assert third.stdout == b"spent"


STARTER = """
import json, os, signal, sys
from periplus.base.files import Files
from periplus.dispatch.processes import Launch, RunFolder

class KilledFiles(Files):
    left = int(sys.argv[3])
    def __getattribute__(self, name):
        if name in ("open", "close", "write", "sync", "replace", "make_folder", "sync_folder"):
            KilledFiles.left -= 1
            if KilledFiles.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)

argv, environment, cwd, wait = json.loads(sys.argv[2])
run = RunFolder(sys.argv[1], KilledFiles())
if wait:
    sys.stdout.write("ready"); sys.stdout.flush(); sys.stdin.read(1)
run.start(Launch(tuple(argv), cwd, environment))
print("done", flush=True)
sys.stdin.read()
"""


def starter(room, run, *argv, calls=0, wait=False, **fields):
    """Start a process that starts the job and then waits to be killed."""
    given = json.dumps([argv, {"PATH": PATH}, os.fspath(room.path), wait])
    return subprocess.Popen([sys.executable, "-c", STARTER, run.path, given, str(calls)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, env={"PYTHONPATH": os.fspath(SOURCE)}, **fields)  # fmt: skip


def test_a_job_outlives_its_starter(room):
    run = room.folder()
    with starter(room, run, "sh", "-c", "until test -e go; do sleep 0.01; done; echo all of it") as process:
        assert process.stdout.readline() == b"done\n"
        process.kill()
    assert run.standing() == "running"
    (room.path / "go").touch()
    assert room.finish(run).code == 0
    assert run.read(0) == b"all of it\n"


@pytest.mark.slow
def test_a_starter_killed_before_any_call_of_the_disk_leaves_a_folder_that_can_be_started(room):
    for calls in range(1, 40):
        run = room.folder(f"run {calls}")
        with starter(room, run, "sh", "-c", "echo x", calls=calls) as process:
            if process.stdout.readline() == b"done\n":
                process.kill()
                break
        assert process.returncode == -signal.SIGKILL
        assert run.standing() == "absent"
        run.start(room.launch("sh", "-c", "echo x"))
        assert room.finish(run).code == 0
        assert run.read(0) == b"x\n"
    else:
        pytest.fail("it never got through")
    assert calls > 8


@pytest.mark.slow
def test_a_starter_killed_at_any_time_never_has_the_job_run_twice(room):
    for number in range(30):
        run = room.folder(f"run {number}")
        job = ("sh", "-c", f"echo x >> count{number}")
        with starter(room, run, *job, wait=True) as process:
            assert process.stdout.read(5) == b"ready"
            process.stdin.write(b"+")
            process.stdin.flush()
            select.select([process.stdout], [], [], number * 0.002)
            process.kill()
        run.start(room.launch(*job))
        room.finish(run)
        assert (room.path / f"count{number}").read_text() == "x\n"


@pytest.mark.slow
def test_starters_at_the_same_time_start_one_job(room):
    run = room.folder()
    starters = [starter(room, run, "sh", "-c", "echo x >> count; exec sleep 1000", wait=True) for _ in range(6)]
    for process in starters:
        assert process.stdout.read(5) == b"ready"
    for process in starters:
        process.stdin.write(b"+")
        process.stdin.flush()
    for process in starters:
        assert process.stdout.readline() == b"done\n"
        process.communicate()
        assert process.returncode == 0
    until((room.path / "count").exists)
    assert run.standing() == "running"
    run.kill()
    room.finish(run)
    assert (room.path / "count").read_text() == "x\n"


@needs_proc
def test_a_job_whose_keeper_was_killed_is_orphaned_and_can_be_stopped(room):
    run = room.sh("sleep 1000 & echo $!; wait")
    (child,) = until(lambda: numbers_in(run))
    os.kill(keeper_of(run), signal.SIGKILL)
    until(lambda: run.standing() == "orphaned")
    assert run.waitable_fd() is None
    assert run.life().processes == 2
    run.ask_to_stop()
    until(lambda: run.standing() == "lost")
    assert not is_alive(child)
    assert run.ended() is None
    assert run.read(0) == b"%d\n" % child


@needs_proc
def test_an_orphan_that_left_the_session_of_a_dead_leader_is_found_and_killed(room):
    run = room.sh("setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000")
    (child,) = until(lambda: numbers_in(run))
    leader = marks_of(run)["leader"]["pid"]
    os.kill(keeper_of(run), signal.SIGKILL)
    os.kill(leader, signal.SIGKILL)
    until(lambda: not is_alive(leader))
    assert run.standing() == "orphaned"
    run.kill()
    assert run.standing() == "lost"
    assert not is_alive(child)


@needs_proc
@pytest.mark.parametrize("changed", ["started", "boot", "space", "host"])
def test_a_process_that_only_has_the_id_of_a_lost_job_is_left_alone(room, changed):
    """Ids are reused, after a restart of the machine or of a container nearly at once."""
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        mark = process_mark(bystander.pid, Files())
        one = {"pid": bystander.pid, "started": mark.started}
        marks = {"v": 1, "keeper": one, "leader": one, "boot": mark.boot, "host": mark.host, "space": mark.space, "token": "0" * 32}  # fmt: skip

        def stand(name, marks):
            run = room.folder(name)
            os.mkdir(run.path)
            Path(run.path, "lock").touch()
            Path(run.path, "process").write_text(json.dumps(marks))
            return run

        other = {"pid": bystander.pid, "started": str(int(mark.started) - 1)}
        wrong = {**marks, "leader": other, "keeper": other} if changed == "started" else {**marks, changed: "other"}
        run = stand("wrong", wrong)
        assert run.standing() == "lost"
        assert run.life() == Life(0, 0, 0) or changed != "started"
        run.ask_to_stop()
        run.kill()
        assert run.waitable_fd() is None
        assert is_alive(bystander.pid)

        right = stand("right", marks)  # the same with the right marks is killed
        assert right.standing() == "orphaned"
        right.kill()
        assert bystander.wait(PATIENCE_S) == -signal.SIGKILL


@needs_proc
@pytest.mark.parametrize("way", ["setsid sleep 1000", "(setsid sh -c 'sleep 1000 & wait' &)"])
def test_what_a_job_leaves_behind_is_stopped_and_counted(room, way):
    run = room.sh(f"{way} & sleep 0.05; echo said; exit 4")
    ended = room.finish(run)
    assert (ended.code, ended.ending) == (4, "exited")
    assert ended.left_behind == (1 if way.startswith("setsid") else 2)
    assert run.read(0) == b"said\n"
    assert ended.wall_ms < 2000


@needs_proc
def test_what_ends_with_its_leader_is_not_counted(room):
    """Servers of an agent end when it closes their input, a moment after it."""
    run = room.sh("mkfifo pipe; (setsid sh -c 'echo up; read line; echo down' < pipe &) ; exec 3> pipe; sleep 0.05; exit 0")  # fmt: skip
    ended = room.finish(run)
    assert (ended.code, ended.ending, ended.left_behind) == (0, "exited", 0)
    assert run.read(0) == b"up\ndown\n"


@needs_proc
def test_what_ignores_being_stopped_after_its_leader_is_killed(room):
    run = room.sh("(trap '' TERM; echo ready; while :; do sleep 1000; done) & read line < /dev/null; sleep 0.05", grace_s=0.1)  # fmt: skip
    ended = room.finish(run)
    assert (ended.ending, ended.left_behind > 0) == ("exited", True)


def test_a_flood_is_capped_and_its_end_kept(room):
    run = room.sh("i=0; while test $i -lt 3; do yes $i | head -c 3000000; i=$((i+1)); done; echo the end", output_bytes_max=100_000)  # fmt: skip
    most = 0
    while run.standing() != "ended":
        assert run.life().output_bytes >= most
        most = max(most, run.life().output_bytes)
    assert run.ended().output_bytes == 9_000_008
    assert run.life().output_bytes == 9_000_008
    assert run.read(0) == b"0\n" * 50_000
    assert run.read(99_998) == b"0\n"
    assert run.read(100_000) == b""
    assert run.tail(10) == b"2\nthe end\n"[-10:]
    assert run.tail(RING_BYTES * 2) == (b"2\n" * RING_BYTES)[-RING_BYTES + 8 :] + b"the end\n"
    assert os.stat(os.path.join(run.path, "output.tail")).st_size == RING_BYTES + 20


@needs_proc
@pytest.mark.slow
def test_the_memory_of_a_keeper_is_bounded(room):
    run = room.sh("yes | head -c 1000000000; echo; exec sleep 1000", output_bytes_max=1 << 20)
    until(lambda: run.life().output_bytes == 1_000_000_001)
    status = Path(f"/proc/{keeper_of(run)}/status").read_text()
    peak_kb = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    assert peak_kb < 20_000


@pytest.mark.parametrize(("count", "most"), [(5, 100), (1000, 100), (1000, 1000), (1200, 150), (1200, 5000), (1200, 0)])
def test_the_tail_joins_both_files(room, count, most):
    run = room.sh(f"seq -w 0 9999 | head -c {count}", output_bytes_max=1000)
    room.finish(run)
    whole = b"".join(b"%04d\n" % number for number in range(10_000))[:count]
    assert run.tail(most) == whole[max(len(whole) - most, 0) :]


@pytest.mark.parametrize("how", ["exec > /dev/null 2>&1", "exec >&- 2>&-"])
def test_a_job_that_closes_its_output_goes_on(room, how):
    run = room.sh(f"echo before; {how}; until test -e go; do sleep 0.01; done; touch done; exit 5")
    until(lambda: run.read(0))
    assert run.standing() == "running"
    (room.path / "go").touch()
    assert room.finish(run).code == 5
    assert (room.path / "done").exists()
    assert run.read(0) == b"before\n"


def test_a_prompt_that_nobody_reads_holds_nothing_up(room):
    prompt = b"0123456789abcdef" * (1 << 16)
    assert room.finish(room.sh("exit 0", prompt=prompt)).code == 0
    run = room.sh("wc -c", prompt=prompt, name="reader")
    assert room.finish(run).code == 0
    assert int(run.read(0)) == 1 << 20


def test_a_job_that_is_asked_to_stop_may_tidy_up(room):
    run = room.sh("trap 'echo tidy; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
    until(lambda: run.read(0))
    run.ask_to_stop()
    ended = room.finish(run)
    assert (ended.code, ended.ending) == (7, "stopped")
    assert run.read(0).endswith(b"tidy\n")  # the shell may say that its sleep was stopped, too


def test_a_job_that_ignores_being_asked_is_killed_after_its_grace(room):
    run = room.sh("trap '' TERM; echo ready; sleep 1000; sleep 1000", grace_s=0.2)
    until(lambda: run.read(0))
    run.ask_to_stop()
    ended = room.finish(run)
    assert (ended.code, ended.ending) == (-9, "stopped")
    assert ended.wall_ms >= 200


def test_a_kill_waits_for_no_grace_not_even_for_one_that_runs(room):
    run = room.sh("trap '' TERM; echo ready; sleep 1000; sleep 1000", grace_s=1000)
    until(lambda: run.read(0))
    run.ask_to_stop()
    run.kill()
    ended = room.finish(run)
    assert (ended.code, ended.ending) == (-9, "stopped")


@pytest.mark.parametrize("who", ["leader", "keeper"])
def test_a_halted_process_can_be_stopped(room, who):
    run = room.sh("exec sleep 1000", grace_s=1000)
    os.kill(marks_of(run)[who]["pid"], signal.SIGSTOP)
    run.ask_to_stop()
    assert room.finish(run).code == -signal.SIGTERM


def test_a_job_has_no_more_than_its_time(room):
    run = room.sh("echo ready; exec sleep 1000", wall_s=0.2)
    ended = room.finish(run)
    assert (ended.code, ended.ending) == (-15, "wall")
    assert 200 <= ended.wall_ms < 5000


def test_a_keeper_goes_on_when_its_terminal_is_gone(room):
    run = room.sh("until test -e go; do sleep 0.01; done; echo whole")
    os.kill(keeper_of(run), signal.SIGHUP)
    assert os.getsid(keeper_of(run)) == keeper_of(run)
    assert os.getsid(marks_of(run)["leader"]["pid"]) == marks_of(run)["leader"]["pid"]
    (room.path / "go").touch()
    assert room.finish(run) == Ended(0, "exited", run.ended().wall_ms, run.ended().cpu_ms, 6, 0)


@needs_proc
def test_a_keeper_whose_folder_was_removed_ends_with_its_job(room):
    run = room.sh("until test -e go; do sleep 0.01; done")
    keeper = keeper_of(run)
    os.kill(keeper, 0)
    shutil.rmtree(run.path)
    (room.path / "go").touch()
    until(lambda: not is_alive(keeper), patience_s=10)


def test_the_end_wakes_whoever_waits(room):
    run = room.sh("until test -e go; do sleep 0.01; done")
    fd = run.waitable_fd()
    if fd is None:
        pytest.skip("needs pidfd_open")
    assert select.select([fd], [], [], 0)[0] == []
    (room.path / "go").touch()
    assert select.select([fd], [], [], PATIENCE_S)[0] == [fd]
    os.close(fd)
    assert run.standing() == "ended"
    assert run.waitable_fd() is None


@needs_proc
@pytest.mark.slow
def test_an_idle_keeper_does_nothing(room):
    run = room.sh("echo ready; exec sleep 1000", wall_s=1000)
    until(lambda: run.read(0))

    def work():
        """Changes of context, and processor time in ticks."""
        status = Path(f"/proc/{keeper_of(run)}/status").read_text().splitlines()
        stat = Path(f"/proc/{keeper_of(run)}/stat").read_text().split()
        return [line for line in status if "ctxt_switches" in line], stat[13:15], stat[2]

    until(lambda: work()[2] == "S")
    before = work()
    select.select([], [], [], 3)
    assert work() == before


@needs_proc
@pytest.mark.slow
def test_signs_of_life_count_the_processes_that_have_ended(room):
    burn = "i=0; while test $i -lt 200000; do i=$((i+1)); done"
    run = room.sh(f"(setsid sh -c '{burn}; echo one' &); sh -c '{burn}; echo two'; echo; read line < fifo")
    os.mkfifo(room.path / "fifo")
    seen = [run.life()]
    while run.read(0).count(b"\n") < 3:
        seen.append(run.life())
    for field in ("cpu_ms", "output_bytes"):
        values = [getattr(life, field) for life in seen]
        assert values == sorted(values)
    assert max(life.processes for life in seen) >= 2
    used = until(lambda: (life := run.life()).processes == 1 and life).cpu_ms
    assert used > 100
    run.kill()
    ended = room.finish(run)
    assert abs(ended.cpu_ms - used) <= 30


@needs_proc
@pytest.mark.slow
def test_a_job_that_forks_without_end_is_killed_whole(room):
    run = room.sh("f() { (setsid sh -c 'sleep 1000' &); echo; }; while :; do f; done", grace_s=0)
    until(lambda: run.life().output_bytes > 200)
    run.kill()
    room.finish(run)
    token = marks_of(run)["token"].encode()
    found = []
    for one in Path("/proc").iterdir():
        try:
            found += [one] if one.name.isdigit() and token in (one / "environ").read_bytes() else []
        except OSError:
            continue
    assert found == []


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
from periplus.base.files import Files
from periplus.dispatch.processes import Launch, RunFolder
RunFolder(sys.argv[1], Files()).start(Launch(("sh", "-c", "yes | head -c 300000; exit 6"), "/", {"PATH": sys.argv[2]}))
"""


def test_output_that_the_disk_refuses_is_dropped_and_the_job_goes_on(room):
    run = room.folder()
    subprocess.run([sys.executable, "-c", LIMITED, run.path, PATH], env={"PYTHONPATH": os.fspath(SOURCE)}, check=True)
    ended = room.finish(run)
    assert (ended.code, ended.ending, ended.output_bytes) == (6, "exited", 300_000)
    assert ended.problem == "250000 bytes of its output could not be written: File too large"
    assert len(run.read(0)) == 50_000


@pytest.fixture
def small_disk(tmp_path):
    """A disk of a few pages."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("needs root")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True).returncode:
        pytest.skip("needs to mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.rig
def test_a_full_disk_costs_output_and_no_job(room, small_disk):
    run = room.sh("yes | head -c 300000; cat /dev/zero > disk/filler; exit 6", name="disk/run")
    ended = room.finish(run)
    assert (ended.code, ended.ending, ended.output_bytes) == (6, "exited", ended.output_bytes)
    assert "could not be written: No space left on device" in ended.problem
    assert run.read(0, 2000) == b"y\n" * 1000


@pytest.mark.rig
def test_on_a_full_disk_nothing_is_started(room, small_disk):
    with (small_disk / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        all(file.write(bytes(4096)) for _ in range(100))
    run = room.folder("disk/run")
    launch = room.launch("sh", "-c", "echo x >> count")
    with pytest.raises(EnvironmentFailure, match="No space left"):
        run.start(launch)
    assert run.standing() == "absent"
    os.truncate(small_disk / "filler", os.stat(small_disk / "filler").st_size - 8192)
    with pytest.raises(EnvironmentFailure, match=r"cannot start .*No space left"):
        run.start(launch)  # the keeper has no room for the record of the end
    assert run.standing() == "absent"
    assert not (room.path / "count").exists()
    os.truncate(small_disk / "filler", 0)
    run.start(launch)
    assert room.finish(run).code == 0
    assert (room.path / "count").read_text() == "x\n"


WITHOUT_PROC = """
import os, select, sys
from periplus.base.files import Files
from periplus.dispatch.processes import Launch, RunFolder
assert not os.path.exists("/proc/self")
def until(is_so):
    for _ in range(3000):
        if is_so():
            return
        select.select([], [], [], 0.01)
    sys.exit("it did not come to that")
def started(name, text):
    run = RunFolder(os.path.join(sys.argv[1], name), Files())
    run.start(Launch(("sh", "-c", text), sys.argv[1], {"PATH": sys.argv[2]}, grace_s=1))
    return run
run = started("one", "sleep 1000 & echo hello; exit 3")
until(lambda: run.standing() == "ended")
assert run.ended().code == 3 and run.read(0) == b"hello\\n", run.ended()
run = started("two", "echo ready; sleep 1000 & wait")
until(lambda: run.read(0))
assert run.standing() == "running"
assert run.life()[0] == 6
run.ask_to_stop()
until(lambda: run.standing() == "ended")
assert (run.ended().code, run.ended().ending) == (-15, "stopped")
run = started("three", "exec sleep 1000")
run.kill()
until(lambda: run.standing() == "ended")
assert (run.ended().code, run.ended().ending) == (-9, "stopped")
print("well")
"""


@pytest.mark.rig
@pytest.mark.slow
def test_a_system_without_proc_has_fewer_facts_and_no_failures(room):
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("needs root and unshare")
    given = [sys.executable, "-c", WITHOUT_PROC, os.fspath(room.path), PATH]
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    done = subprocess.run([*hide, *given], env={"PYTHONPATH": os.fspath(SOURCE), "PATH": "/usr/sbin:/sbin:" + PATH}, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    if "mount" in done.stderr and "permi" in done.stderr.lower():
        pytest.skip("needs to mount")
    assert (done.stdout, done.stderr) == ("well\n", "")


def test_a_keeper_loads_next_to_nothing():
    """It is paid for at every start of a job."""
    code = (
        "import sys; before = {*sys.modules}; sys.path.append(sys.argv[1])\n"
        "from periplus.dispatch.processes.keeper import main\nprint(*sys.modules.keys() - before)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, SOURCE], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    heavy = {"typing", "subprocess", "asyncio", "threading", "msgspec", "contextlib", "traceback", "selectors"}
    assert loaded & heavy == set()
    room = "periplus.dispatch.processes"
    ours = {"periplus", "periplus.base", "periplus.base.lazy_package", "periplus.dispatch", room}
    parts = {f"{room}.{name}" for name in ("keeper", "layout", "output_files", "process_tree")}
    assert {name for name in loaded if name.startswith("periplus")} == ours | parts


def test_a_starter_keeps_no_dead_keepers(room):
    run = room.sh("exit 0")
    room.finish(run)
    until(lambda: not is_alive(keeper_of(run)))
    with pytest.raises(ChildProcessError):
        os.waitpid(keeper_of(run), os.WNOHANG)
