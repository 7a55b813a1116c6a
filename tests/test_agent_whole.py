"""The loop with everything that is real: the tools of this machine over a repository, the tape, the journal, the trail, an oracle."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from agent_support import SYSTEM, Bench
from agent_tools_support import HOST_ENVIRONMENT
from cli_support import git
from periplus.agent.contracts import ToolDecision
from periplus.agent.episodes import Ended, Fed, Resulted
from periplus.agent.hooks import Functions
from periplus.agent.models.scripted import answer, call
from periplus.agent.persistence.run_log import StoreLog
from periplus.agent.policies.budget import Budget
from periplus.agent.policies.guardrail import Guardrail
from periplus.agent.policies.oracle import CommandOracle, OraclePolicy
from periplus.agent.policies.selfcheck import SelfCheck
from periplus.agent.tape.compiler import Tape
from periplus.agent.tools import HostParts, open_host
from periplus.base.clock import FixedClock
from periplus.base.files import Files
from periplus.project import Project
from periplus.project.trail_store.git_effects import trail_effects
from recorder_support import WRITER
from support import Stop, StoppingFiles

CHECK = "from engine import oil\nassert oil() == 'oiled', oil()\nprint('all is oiled')\n"
RUN = f"{sys.executable} check.py"
FIXED = b"def oil():\n    return 'oiled'\n"


def repository(folder):
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "engine.py").write_text("def oil():\n    return 'dry'\n")
    (folder / "check.py").write_text(CHECK)
    (folder / ".gitignore").write_text(".periplus/\n__pycache__/\nruns.log\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "an engine that runs dry")
    return folder


class Whole:
    """One process of the agent: opened, used, closed. ``files`` are those of the store and of the tools."""

    def __init__(self, folder, state, script, *, files=None, hooks=(), oracle=False):
        files = files or Files()
        root = os.path.join(folder, ".periplus")
        if not os.path.isdir(root):
            Project.init(os.fspath(folder), store=os.fspath(folder))
        self.project = Project(root, WRITER._replace(session="s1"), clock=FixedClock(step_ms=1), files=files)
        self.host = None
        try:
            parts = HostParts(root=os.fspath(folder), state=os.fspath(state), environment=HOST_ENVIRONMENT, files=files,
                              consent=lambda wish, what: True)  # fmt: skip
            self.host = open_host(parts)
            self.log = StoreLog(self.project, "s1", title="Oil the engine", model="scripted")
            rules = [*hooks, *([OraclePolicy(CommandOracle(self.host, RUN))] if oracle else [])]
            self.bench = Bench(state, script, log=self.log, host=self.host, hooks=rules,
                               context=lambda host: Tape(SYSTEM, host.schemas(), session="s1", files=host.work))  # fmt: skip
        except BaseException:  # whatever it is: what was opened is closed, then it goes on
            self.close()
            raise

    def close(self):
        try:
            if self.host is not None:
                self.host.close()
        finally:
            self.project.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def edit(old, new, path="engine.py"):
    return call("edit", edits=[{"path": path, "old": old, "new": new}])


def test_a_bug_is_found_fixed_checked_and_the_trail_verifies(tmp_path):
    folder = repository(tmp_path / "engine")
    script = [
        answer("I look.", call("read", path="engine.py"), call("read", path="check.py"), call("search", pattern="dry")),
        answer("I see.", edit("'dry'", "'wet'")),
        "Done.",
        answer("The check is right.", edit("'wet'", "'oiled'"), call("shell", command=RUN)),
        "Now it is.",
    ]
    hooks = [Budget(tokens=10**6), Guardrail()]
    with Whole(folder, tmp_path / "state", script, hooks=hooks, oracle=True) as whole:
        bench = whole.bench
        ended = bench.turn("Oil the engine")
        assert (ended.reason, ended.text) == ("done", "Now it is.")
        assert (folder / "engine.py").read_bytes() == FIXED
        assert [one.result.outcome for one in bench.of(Resulted)] == ["ok"] * 6
        (fed,) = bench.of(Fed)
        assert "AssertionError: wet" in fed.quoted
        bench.session.close()
        (trail,) = whole.project.journal.entities("trail")
        assert (trail.value["status"], trail.value["files"]) == ("success", ["engine.py", "check.py"])
        (found,) = trail_effects(
            whole.project.trail_bytes(trail.item_id).data, os.fspath(folder), whole.project.journal.objects
        )
        assert found.effects.first_wrong is None
        assert [one.verdict for one in found.effects.steps if one.op == "FILE_WRITE"] == ["right", "right"]
        problems = [problem for problem in whole.project.examine().problems if problem.severity != "note"]
        assert problems == []
    with Whole(folder, tmp_path / "state", ["Undone."]) as later:
        assert later.bench.session.turns == 1
        assert later.host.undo("1") == ("engine.py",)
        assert b"'dry'" in (folder / "engine.py").read_bytes()
        later.bench.turn("Thanks")
        assert any("engine.py" in message.content for message in later.bench.client.requests[0][0])


def test_without_a_person_done_is_shown_by_work(tmp_path):
    folder = repository(tmp_path / "engine")
    script = ["All is well.", answer("", call("shell", command=RUN)), "The check fails, the engine runs dry."]
    with Whole(folder, tmp_path / "state", script, hooks=[SelfCheck()]) as whole:
        assert whole.bench.turn("Is it oiled?").text == "The check fails, the engine runs dry."
        assert whole.bench.results[-1].outcome == "failed"


def test_a_file_that_was_changed_beside_us_is_not_written_over(tmp_path):
    folder = repository(tmp_path / "engine")

    def meddle(messages, tools):
        (folder / "engine.py").write_text("def oil():\n    return 'greased'\n")
        return answer("", edit("'dry'", "'oiled'"))

    script = [
        answer("", call("read", path="engine.py")),
        meddle,
        answer("", call("read", path="engine.py")),
        "Somebody was faster.",
    ]
    with Whole(folder, tmp_path / "state", script) as whole:
        assert whole.bench.turn("Oil it").reason == "done"
        assert [one.outcome for one in whole.bench.results] == ["ok", "failed", "ok"]
        assert "was changed since it was read" in whole.bench.results[1].content
        assert b"greased" in (folder / "engine.py").read_bytes()


def test_a_rule_keeps_commands_out_and_the_model_hears_of_it(tmp_path):
    folder = repository(tmp_path / "engine")
    rule = Functions(
        "quiet",
        {
            "authorize_tool": lambda name, args: (
                ToolDecision(allow=False, reason="no commands") if name == "shell" else None
            )
        },
    )
    script = [answer("", call("shell", command="touch made"), call("read", path="engine.py")), "Well then."]
    with Whole(folder, tmp_path / "state", script, hooks=[rule]) as whole:
        whole.bench.turn("Run it")
        assert [one.outcome for one in whole.bench.results] == ["denied", "ok"]
        assert not (folder / "made").exists()


def test_a_command_is_stopped_with_its_children(tmp_path):
    folder = repository(tmp_path / "engine")
    command = "sleep 300 & echo $! > child; touch begun; wait"
    bench = None

    def stop():
        while not (folder / "begun").exists() and not given_up.wait(0.02):
            pass
        bench.session.cancel("enough")

    given_up = threading.Event()
    with Whole(
        folder,
        tmp_path / "state",
        [answer("", call("shell", command=command), call("shell", command="touch never")), "Well."],
    ) as whole:
        bench = whole.bench
        stopper = threading.Thread(target=stop)
        stopper.start()
        ended = bench.turn("Wait")
        given_up.set()
        stopper.join(60)
        assert ended.reason == "aborted"
        assert [one.result.outcome for one in bench.of(Resulted)] == ["cancelled", "cancelled"]
        assert not (folder / "never").exists()
        assert is_dead(int((folder / "child").read_text()))
        assert bench.turn("And now?").text == "Well."


def is_dead(pid):
    """Within a time that is no test of speed: the kernel may need a moment to take a killed process away."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        threading.Event().wait(0.02)
    return False


def test_hostile_arguments_reach_real_tools_as_outcomes(tmp_path):
    folder = repository(tmp_path / "engine")
    calls = [
        call("read"), call("read", path=["engine.py"]), call("read", path="../outside"), call("edit", edits="nonsense"),
        call("write", path="/etc/passwd", content="x"), call("write", path="a\0b", content="x"), call("shell", command={"a": 1}),
        call("search", pattern="(" * 50), call("no_such_tool"), call("write", path="big", content="x" * (1 << 20)),
    ]  # fmt: skip
    with Whole(folder, tmp_path / "state", [answer("", *calls), "Sorry."]) as whole:
        assert whole.bench.turn("Break things").reason == "done"
        assert len(whole.bench.results) == len(calls)
        assert {one.outcome for one in whole.bench.results} <= {"failed", "denied"}
    assert git(folder, "status", "--porcelain").strip() == ""


STEPS = [
    answer("", call("read", "c1", path="engine.py"), call("list", "c2", path=".")),
    answer("", call("edit", "c3", edits=[{"path": "engine.py", "old": "'dry'", "new": "'oiled'"}]),
           call("write", "c4", path="NOTES.md", content="oiled\n"), call("shell", "c5", command="echo ran >> runs.log")),
    answer("", call("edit", "c6", edits=[{"path": "NOTES.md", "old": "oiled", "new": "oiled twice"}])),
    answer("Done."),
]  # fmt: skip


def speak(messages, tools):
    return STEPS[sum(message.role == "assistant" for message in messages)]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_killed_at_calls_of_the_disk_of_store_and_tools(tmp_path, part):
    """What is taken up again ends in the same tree, whatever call of the store or of the tools was the last."""
    stride = 4 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 48
    begin = part if stride == 4 else part * 12
    for at in range(begin, 4000, stride):
        folder = repository(tmp_path / f"work{at}")
        state = tmp_path / f"state{at}"
        files = StoppingFiles(at, share=0.5)
        whole = None
        try:
            whole = Whole(folder, state, speak, files=files)
            whole.bench.turn("Oil it")
        except Stop:
            pass
        else:
            assert at > 50
            return
        finally:
            if whole is not None:
                _leave(whole)
        with Whole(folder, state, speak) as again:
            bench = again.bench
            ended = bench.session.resume() or (bench.of(Ended)[0] if bench.session.turns else bench.turn("Oil it"))
            assert (ended.reason, ended.text) == ("done", "Done."), at
            outcomes = {one.call_id: one.result for one in bench.of(Resulted)}
            assert len(bench.of(Resulted)) == 6
            assert (folder / "engine.py").read_bytes() == FIXED, (at, outcomes)
            assert (folder / "NOTES.md").read_bytes() == b"oiled twice\n", (at, outcomes)
            ran = (folder / "runs.log").read_text() if (folder / "runs.log").exists() else ""
            assert ran == "ran\n" or (ran == "" and outcomes["c5"].outcome == "indeterminate"), at
            assert all(one.outcome == "ok" for call_id, one in outcomes.items() if call_id != "c5"), (at, outcomes)
    raise AssertionError("there are more calls than were tried")


def _leave(whole):
    """The process is gone: what the next one finds is what lies on the disk."""
    try:
        whole.close()
    except Stop:
        pass
