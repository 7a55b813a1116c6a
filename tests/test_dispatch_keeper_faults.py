"""A keeper that is killed, or refused by the kernel, at each of its system calls: its job runs once at most, and stands truly."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from periplus.base.files import Files
from periplus.dispatch.processes import Launch, RunFolder
from periplus.dispatch.processes.run_folder import _BOOTSTRAP

SOURCE = Path(__file__).resolve().parents[1] / "src"
PATH = "/usr/local/bin:/usr/bin:/bin"
PATIENCE_S = 60
CALLS_MAX = 400  # a keeper makes fewer of each kind
STRIDES = {"openat": 7, "read": 5, "close": 7}  # of calls that mostly load modules
WRITTEN = (".process.tmp", ".ended.json.tmp", "output")

pytestmark = [pytest.mark.slow, pytest.mark.rig]


@pytest.fixture(scope="module", autouse=True)
def _strace(tmp_path_factory):
    log = tmp_path_factory.mktemp("strace") / "log"
    if not shutil.which("strace") or subprocess.run(["strace", "-o", log, "true"], capture_output=True).returncode:
        pytest.skip("needs strace")


def run_under_strace(folder, number, injection, files=(), job="echo x >> {}; echo said"):
    """Run a keeper of a new job to its end. Return the job's folder, its count of runs, and strace's log."""
    run = RunFolder(os.fspath(folder / f"run{number}"), Files())
    count, log = folder / f"count{number}", folder / f"log{number}"
    launch = Launch(("sh", "-c", job.format(count)), os.fspath(folder), {"PATH": PATH})
    os.mkdir(run.path, 0o700)
    Path(run.path, "prompt").touch()
    Path(run.path, "launch.json").write_bytes(run._launch_json(launch))
    only = [word for name in files for word in ("-P", os.path.join(run.path, name))]
    subprocess.run(["strace", "-f", "-qq", "-o", log, *only, "-e", f"inject={injection}", sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP,
                    run.path, SOURCE], env={"PATH": PATH}, capture_output=True, timeout=PATIENCE_S)  # fmt: skip
    return run, launch, count, log.read_text()


def check(run, launch, count):
    """The promises: what stands is true, what never ran can be started, and nothing runs twice."""
    runs = count.read_text() if count.exists() else ""
    assert runs in ("", "x\n")
    deadline = time.monotonic() + PATIENCE_S
    while (standing := run.standing()) == "orphaned":
        assert time.monotonic() < deadline
        select.select([], [], [], 0.005)
    if standing == "ended":
        ended = run.ended()
        assert ended.code != 0 or (runs, ended.output_bytes) == ("x\n", 5)
    else:
        assert standing in ("absent", "lost")
    if standing == "absent":
        assert runs == ""
    run.start(launch)
    while run.standing() in ("running", "starting"):
        assert time.monotonic() < deadline
        select.select([], [], [], 0.005)
    if standing == "absent":
        assert run.ended().code == 0
        assert count.read_text() == "x\n"
    else:
        assert run.standing() == standing
        assert (count.read_text() if count.exists() else "") == runs
    return standing


@pytest.mark.parametrize(
    "call", ["write", "fsync", "rename", "pwrite64", "ftruncate", "openat", "read", "close", "poll", "wait4", "fcntl", "clone", "prctl", "setsid",
             "dup2", "execve", "rt_sigaction"],
)  # fmt: skip
def test_a_keeper_killed_at_a_call_leaves_a_true_folder(tmp_path, call):
    seen = []
    for number in range(1, CALLS_MAX, STRIDES.get(call, 1)):
        run, launch, count, log = run_under_strace(tmp_path, number, f"{call}:signal=SIGKILL:when={number}")
        if "killed by SIGKILL" not in log:
            break
        seen.append(check(run, launch, count))
    else:
        pytest.fail("it was killed each time")
    assert seen, "it does not make this call"
    assert set(seen) <= {"absent", "lost", "ended"}


@pytest.mark.parametrize(
    ("call", "error"),
    [("write", "ENOSPC"), ("fsync", "EIO"), ("rename", "ENOSPC"), ("pwrite64", "ENOSPC"), ("ftruncate", "EIO"), ("openat", "EMFILE"),
     ("poll", "ENOMEM"), ("wait4", "EINTR"), ("clone", "EAGAIN"), ("prctl", "EINVAL"), ("setsid", "EPERM"), ("pidfd_open", "ENOSYS"),
     ("read", "EIO")],
)  # fmt: skip
def test_a_keeper_that_the_kernel_refuses_a_call_leaves_a_true_folder(tmp_path, call, error):
    for number in range(1, CALLS_MAX, STRIDES.get(call, 1)):
        files = WRITTEN if call == "write" else ()  # a pipe is never full in that way
        run, launch, count, log = run_under_strace(tmp_path, number, f"{call}:error={error}:when={number}", files)
        if "(INJECTED)" not in log:
            break
        check(run, launch, count)
    else:
        pytest.fail("it was refused each time")


@pytest.mark.parametrize("rest", ["", "trap '' TERM; "])
def test_without_a_subreaper_the_group_of_the_job_is_stopped(tmp_path, rest):
    job = f"({rest}sleep 1000 & echo $!; sleep 1000) & sleep 0.1; exit 3"
    run, *_ = run_under_strace(tmp_path, 1, "prctl:error=EINVAL", (), job)
    ended = run.ended()
    assert (ended.code, ended.ending, ended.left_behind, ended.problem) == (3, "exited", 1, "")
    assert 0 < ended.wall_ms < 6000
    stat = Path(f"/proc/{int(run.read(0))}/stat")
    assert not stat.exists() or b") Z " in stat.read_bytes()
