"""A run that is killed at every boundary of its records, and at every call that changes the disk: what is taken up again ends in the same
tree, no file step is done twice, and a command of which nothing is known is said to be just that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_support import Bench, FolderHost, tape, transcript
from periplus.agent.contracts import RunLog, ToolDecision, ToolResult, TurnContext
from periplus.agent.contracts import Stop as Park
from periplus.agent.episodes import Answered, Decided, Ended, Noted, Requested, Resulted, Resumed
from periplus.agent.events import SessionResumed
from periplus.agent.hooks import Functions
from periplus.agent.models.scripted import answer, call
from periplus.agent.persistence.run_log import MemoryLog, StoreLog, session_runs, stored_sessions
from periplus.base.clock import FixedClock
from periplus.base.errors import EnvironmentFailure, RefusedError
from periplus.base.files import Files
from periplus.project import Project
from periplus.trail import TrailReader, opcode_name
from recorder_support import WRITER
from support import Stop, StoppingFiles

STEPS = [
    answer("First.", call("append", "c1", path="a", text="1"), call("shell", "c2", command="make"),
           call("read", "c3", path="a"), call("append", "c4", path="b", text="x")),
    answer("", call("append", "c5", path="a", text="2"), call("write", "c6", path="long", content="line\n" * 2000)),
    answer("All done."),
]  # fmt: skip
TREE = {"a": b"12", "b": b"x", "long": b"line\n" * 2000}


def speak(messages, tools):
    """What the model says depends on what it sees and on nothing else."""
    last = max(place for place, message in enumerate(messages) if message.role == "user" and "do it" in message.content)
    return STEPS[sum(message.role == "assistant" for message in messages[last:])]


class Dying:
    """A log whose process ends at append number ``at``: before it is written, or just after."""

    def __init__(self, at: int, *, is_written: bool, log=None) -> None:
        self.at, self.is_written, self.inner = at, is_written, log or MemoryLog()
        self.count = 0

    def append(self, *episodes, durable=True):
        self.count += 1
        if self.count == self.at and not self.is_written:
            raise Stop
        kept = self.inner.append(*episodes, durable=durable)
        if self.count == self.at:
            raise Stop
        return kept

    def read(self):
        return self.inner.read()

    def close(self, reason):
        self.inner.close(reason)


class Host(FolderHost):
    """Counts how often its command ran, and dies at call number ``dies_at``: when the effect is there, and nobody was told."""

    def __init__(self, folder, dies_at=0):
        super().__init__(folder)
        self.made = 0
        self.dies_at = dies_at
        self.commands["make"] = self._make

    def _make(self):
        self.made += 1
        return ToolResult(outcome="ok", output="made", exit_code=0)

    def run(self, name, args):
        result = super().run(name, args)
        if len(self.ran) == self.dies_at:
            raise Stop
        return result


def check(bench, host, ended):
    assert (ended.reason, ended.text) == ("done", "All done.")
    assert host.tree() == TREE
    results = {one.call_id: one.result for one in bench.of(Resulted)}
    assert sorted(results) == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert len(bench.of(Resulted)) == 6  # each call has one outcome
    assert host.made <= 1
    if results["c2"].outcome == "indeterminate":
        assert "not known, and it was not repeated" in results["c2"].output
    else:
        assert (host.made, results["c2"].outcome) == (1, "ok")
    assert all(one.outcome == "ok" for call_id, one in results.items() if call_id != "c2")
    again = (bench.make_context or transcript)(host)
    for episode in bench.log.read():
        again.take(episode)
    assert list(again.messages()) == list(bench.context.messages())  # the same episodes, the same bytes


APPENDS = 17


def test_the_scenario_has_as_many_boundaries_as_are_tried(tmp_path):
    host = Host(tmp_path / "work")
    log = Dying(0, is_written=False)
    bench = Bench(tmp_path, speak, log=log, host=host)
    check(bench, host, bench.turn())
    assert log.count == APPENDS
    assert [one.result.outcome for one in bench.of(Resulted)] == ["ok"] * 6


CONTEXTS = pytest.mark.parametrize("context", [transcript, tape])


@CONTEXTS
@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("at", range(1, APPENDS + 1))
def test_killed_at_every_boundary_of_records(tmp_path, at, is_written, context):
    host = Host(tmp_path / "work")
    log = Dying(at, is_written=is_written)
    bench = Bench(tmp_path, speak, log=log, host=host, context=context)
    with pytest.raises(Stop):
        bench.turn()
    again = bench.again(speak, log=log.inner)
    if not log.read():
        assert not again.session.is_interrupted
        ended = again.turn()
    elif again.of(Ended):
        assert again.session.resume() is None
        (ended,) = again.of(Ended)
    else:
        assert again.session.is_interrupted
        ended = again.session.resume()
        assert len(again.of(Resumed)) == len(again.seen(SessionResumed)) == 1
    check(again, host, ended)


@CONTEXTS
@pytest.mark.parametrize("dies_at", range(1, 7))
def test_killed_between_an_effect_and_its_record(tmp_path, dies_at, context):
    host = Host(tmp_path / "work", dies_at)
    bench = Bench(tmp_path, speak, host=host, context=context)
    with pytest.raises(Stop):
        bench.turn()
    again = bench.again(speak)
    check(again, host, again.session.resume())
    judged = [one for one in again.of(Resulted) if one.is_judged]
    is_read, is_command = host.ran[dies_at - 1][0] == "read", host.ran[dies_at - 1][0] == "shell"
    assert [one.result.outcome for one in judged] == ([] if is_read else ["indeterminate" if is_command else "ok"])
    if is_command:
        assert again.seen(SessionResumed)[0].indeterminate == ("c2",)


def test_killed_again_and_again(tmp_path):
    """Every process makes one append more than the one before it could, then dies."""
    host = Host(tmp_path / "work")
    log = MemoryLog()
    bench = Bench(tmp_path, speak, log=Dying(3, is_written=True, log=log), host=host)
    with pytest.raises(Stop):
        bench.turn()
    for _ in range(60):
        bench = bench.again(speak, log=Dying(3, is_written=True, log=log))
        try:
            ended = bench.session.resume()
        except Stop:
            if not bench.again(speak, log=log).session.is_interrupted:
                (ended,) = [one for one in log.read() if isinstance(one, Ended)]
                break
        else:
            break
    check(bench.again(speak, log=log), host, ended)


def test_a_file_that_is_neither_as_before_nor_as_meant_is_indeterminate(tmp_path):
    host = Host(tmp_path / "work", dies_at=1)
    bench = Bench(tmp_path, speak, host=host)
    with pytest.raises(Stop):
        bench.turn()
    (host.folder / "a").write_text("somebody else")
    again = bench.again(speak)
    again.session.resume()
    first = again.of(Resulted)[0]
    assert (first.call_id, first.result.outcome) == ("c1", "indeterminate")
    assert "a: another content" in first.result.output


def test_a_host_that_cannot_plan_has_its_writes_indeterminate(tmp_path):
    class Plain:
        def __init__(self, host):
            self.run, self.schemas, self.accesses, self.read_text = (
                host.run,
                host.schemas,
                host.accesses,
                host.read_text,
            )

    host = Host(tmp_path / "work", dies_at=1)
    bench = Bench(tmp_path, speak, host=Plain(host))
    with pytest.raises(Stop):
        bench.turn()
    again = bench.again(speak)
    again.session.resume()
    assert again.of(Resulted)[0].result.outcome == "indeterminate"
    assert host.tree()["a"] == b"12"


def test_a_call_that_lost_its_secret_is_not_run_again(tmp_path):
    secret = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
    log = Dying(2, is_written=True)
    bench = Bench(tmp_path, [answer("", call("write", path="a", content=secret))], log=log)
    with pytest.raises(Stop):
        bench.turn()
    again = bench.again(["done"], log=log.inner)
    assert again.session.resume().reason == "done"
    assert again.host.tree() == {}
    (told,) = again.results
    assert told.outcome == "cancelled"
    assert "secret" in told.content


def test_what_was_spent_before_counts_after(tmp_path):
    spent = []

    def count(usage):
        spent.append(usage.prompt_tokens)
        return Park(reason="budget") if len(spent) > 1 else None

    log = Dying(4, is_written=True)
    begun = Functions("purse", {"record_step_usage": count, "reset_for_turn": spent.clear})
    bench = Bench(tmp_path, speak, log=log, hooks=[begun])
    with pytest.raises(Stop):
        bench.turn()
    assert len(spent) == 1
    again = bench.again(speak, log=log.inner)
    assert again.session.resume().reason == "budget"
    assert len(spent) == 2


def test_a_cut_off_turn_that_is_dropped_has_an_outcome_for_each_call(tmp_path):
    log = Dying(4, is_written=False)
    bench = Bench(tmp_path, speak, log=log, host=Host(tmp_path / "work"))
    with pytest.raises(Stop):
        bench.turn()
    again = bench.again(speak, log=log.inner)
    ended = again.session.drop()
    assert ended.reason == "aborted"
    outcomes = [(one.call_id, one.result.outcome) for one in again.of(Resulted)]
    assert outcomes == [("c1", "ok"), ("c2", "cancelled"), ("c3", "cancelled"), ("c4", "cancelled")]


# -- the store ---------------------------------------------------------------------------------------------------------


def open_store(folder, files=None, session="s1"):
    root = folder / ".periplus"
    if not root.exists():
        Project.init(os.fspath(folder), store=os.fspath(folder))
    return Project(
        os.fspath(root), WRITER._replace(session=session), clock=FixedClock(step_ms=1), files=files or Files()
    )


def store_log(project, session="s1"):
    return StoreLog(project, session, title="Oil", model="scripted", checkpoints=False)


def test_a_session_in_a_store(tmp_path):
    host = Host(tmp_path / "work")
    with open_store(tmp_path) as project:
        log = store_log(project)
        assert isinstance(log, RunLog)
        bench = Bench(tmp_path, speak, log=log, host=host)
        assert isinstance(bench.context, TurnContext)
        check(bench, host, bench.turn())
        bench.turn("do it again")
        bench.session.close()
        assert log.run_id == ""
    with open_store(tmp_path) as project:
        log = store_log(project)
        again = Bench(tmp_path, speak, log=log, host=host)
        assert (again.session.turns, again.session.is_interrupted) == (2, False)
        assert again.context.messages() == bench.context.messages()
        assert [type(one) for one in log.read_turn(2)][:2] == [Requested, Answered]
        assert {one.turn for one in log.read_turn(2)} == {2}
        assert log.read_turn(3) == []
        assert [*log.read_turn(1), *log.read_turn(2)] == list(log.read())


def test_a_session_is_a_trail_that_verifies(tmp_path):
    host = Host(tmp_path / "work")
    with open_store(tmp_path) as project:
        bench = Bench(tmp_path, speak, log=store_log(project), host=host)
        bench.turn("do it: oil")
        bench.session.close()
        (trail,) = project.journal.entities("trail")
        assert (trail.value["status"], trail.value["title"]) == ("success", "Oil")
        assert trail.value["counts"]["model_calls"] == 3
        assert trail.value["counts"]["prompts"] == 1
        assert trail.value["counts"]["commands"] == 1
        assert trail.value["files"] == ["a", "b", "long"]
        assert project.examine().problems == []


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("at", range(2, APPENDS + 1))
def test_the_trail_of_what_is_taken_up_says_what_each_call_was(tmp_path, at, is_written):
    """The answer that asked for them was written by the process that ended."""
    host = Host(tmp_path / "work")
    with open_store(tmp_path) as project, pytest.raises(Stop):
        Bench(tmp_path, speak, log=Dying(at, is_written=is_written, log=store_log(project)), host=host).turn()
    with open_store(tmp_path) as project:
        log = store_log(project)
        again = Bench(tmp_path, speak, log=log, host=host)
        if not again.session.is_interrupted:
            return
        again.session.resume()
        again.session.close()
        steps = list(TrailReader(project.trail_bytes(log.trail_id).data).steps())
        episodes = log.read()
    after = [type(one) for one in episodes].index(Resumed)
    done = [CALLED[one.call_id] for one in episodes[after:] if isinstance(one, Resulted)]
    assert sorted(done) == sorted(
        (opcode_name(step.code), step.operands[0])
        for step in steps
        if opcode_name(step.code) not in ("PROMPT", "COMMENT", "MODEL_CALL", "SAY")
    )


# By the call: what its step says.
CALLED = {
    "c1": ("FILE_WRITE", "a"), "c2": ("COMMAND_RUN", "make"), "c3": ("FILE_READ", "a"), "c4": ("FILE_WRITE", "b"),
    "c5": ("FILE_WRITE", "a"), "c6": ("FILE_WRITE", "long"),
}  # fmt: skip


def test_a_read_that_named_no_file_is_no_read_of_the_folder(tmp_path):
    host = Host(tmp_path / "work")
    host.more["read"] = lambda **_: ToolResult(outcome="failed", output="read: path: missing")
    host.accessed["read"] = []
    with open_store(tmp_path) as project:
        log = store_log(project)
        Bench(tmp_path, [answer("", call("read", "c1")), answer("Done.")], log=log, host=host).turn()
        log.close("done")
        steps = list(TrailReader(project.trail_bytes(log.trail_id).data).steps())
    assert [opcode_name(step.code) for step in steps] == ["PROMPT", "MODEL_CALL", "TOOL_CALL", "MODEL_CALL", "SAY"]


def test_sessions_can_be_picked_from_a_list(tmp_path):
    host = Host(tmp_path / "work")
    with open_store(tmp_path) as project:
        assert stored_sessions(project) == []
        bench = Bench(tmp_path, speak, log=store_log(project), host=host, context=tape)
        bench.turn("do it")
        bench.turn("do it again")
        (one,) = stored_sessions(project)
        assert (one.name, one.title, one.model, one.turns, one.is_interrupted) == ("s1", "Oil", "scripted", 2, False)
        assert [present.name for present in project.work.who()] == ["ada"]
        bench.session.close()
        assert project.work.who() == []
    with open_store(tmp_path, session="s2") as project:
        log = Dying(4, is_written=True, log=store_log(project, "s2"))
        with pytest.raises(Stop):
            Bench(tmp_path, speak, log=log, host=host, context=tape).turn("do it")
        assert [(one.name, one.turns, one.is_interrupted) for one in stored_sessions(project)] == [
            ("s2", 1, True),
            ("s1", 2, False),
        ]


def test_a_session_that_goes_on_names_the_trail_before(tmp_path):
    host = Host(tmp_path / "work")
    for number in range(3):
        with open_store(tmp_path) as project:
            bench = Bench(tmp_path, speak, log=store_log(project), host=host)
            bench.turn(f"do it {number}")
            bench.session.close()
            runs = session_runs(project, "s1")
            assert [run.state for run in runs] == ["sealed"] * (number + 1)
            parents = [[parent.hex() for parent in run.facts.parents] for run in runs]
            assert parents == [[], *([run.digest] for run in runs[:-1])]


HOLDER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_agent_resume import open_store, store_log
from periplus.agent.episodes import Requested
with open_store(Path(sys.argv[1])) as project:
    log = store_log(project)
    log.append(Requested(turn=1, text="do it"))
    print("there", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_run_one_session(tmp_path):
    open_store(tmp_path).close()
    argv = [sys.executable, "-c", HOLDER, os.fspath(tmp_path), os.fspath(Path(__file__).parent)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"there\n"
        with open_store(tmp_path) as project:
            with pytest.raises(RefusedError, match=f"session s1 is being run by process {child.pid}"):
                store_log(project)
            assert list(store_log(project, "s2").read()) == []
        child.kill()
        child.wait()
    with open_store(tmp_path) as project:
        bench = Bench(tmp_path, speak, log=store_log(project), host=Host(tmp_path / "work"))
        assert bench.session.resume().reason == "done"


def test_two_processes_that_begin_one_session_at_once_do_not_both_run_it(tmp_path):
    """Neither has written anything when the other looks."""
    open_store(tmp_path).close()
    opener = HOLDER.replace('    log.append(Requested(turn=1, text="do it"))\n', "")
    argv = [sys.executable, "-c", opener, os.fspath(tmp_path), os.fspath(Path(__file__).parent)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"there\n"
        with open_store(tmp_path) as project:
            with pytest.raises(RefusedError, match=f"session s1 is being run by process {child.pid}"):
                store_log(project)
            log, other = store_log(project, "s2"), store_log(project, "s2")  # of one process
            assert list(log.read()) == list(other.read()) == []
        child.kill()
        child.wait()
    with open_store(tmp_path) as project:
        bench = Bench(tmp_path, speak, log=store_log(project), host=Host(tmp_path / "work"))
        assert bench.turn().reason == "done"


def test_a_folder_that_is_moved_while_a_session_runs_is_told_as_that_and_gone_on_with(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    project = open_store(here)

    def move(**_):
        here.rename(there)
        return ToolResult(outcome="ok", output="moved")

    host = FolderHost(tmp_path / "work", {"move": move})
    bench = Bench(tmp_path, [answer("", call("move")), "done"], log=store_log(project), host=host)
    with project:
        for go_on in (bench.turn, lambda: bench.log.close(None)):
            with pytest.raises(EnvironmentFailure, match=f"the store is no longer at {here}"):
                go_on()
    with open_store(there) as project:
        again = Bench(tmp_path, ["done"], log=store_log(project), host=FolderHost(tmp_path / "work"))
        assert again.session.resume().reason == "done"


@pytest.mark.parametrize("way", ["anew", "a copy"])
def test_a_store_that_another_took_the_place_of_is_told_as_that_and_nothing_is_written_into_the_other(tmp_path, way):
    here, aside = tmp_path / "here", tmp_path / "aside"
    here.mkdir()
    project = open_store(here)
    root = Path(project.root)
    said = []

    def replace(**_):
        root.rename(aside)
        if way == "anew":
            open_store(here).close()
        else:
            shutil.copytree(aside, root)
        with pytest.raises(EnvironmentFailure) as refused:
            bench.session.steer("use oil")
        said.append(refused.value)
        return ToolResult(outcome="ok", output="replaced")

    host = FolderHost(tmp_path / "work", {"replace": replace})
    bench = Bench(tmp_path, [answer("", call("replace")), "done"], log=store_log(project), host=host)
    with project:
        for go_on in (bench.turn, lambda: bench.log.close(None)):
            with pytest.raises(EnvironmentFailure) as refused:
                go_on()
            said.append(refused.value)
    assert {str(one).partition(" is ")[2] for one in said} == {"no longer the store that this session was begun in"}
    assert {one.mend.partition(" Or begin")[0] for one in said} == {
        "Put it back, then continue: periplus run --resume s1."
    }
    with open_store(here) as project:
        assert not [one for one in project.log(limit=9).records if "oil" in one.summary]
    shutil.rmtree(root)
    aside.rename(root)
    with open_store(here) as project:
        again = Bench(tmp_path, ["done"], log=store_log(project), host=FolderHost(tmp_path / "work"))
        assert again.session.resume().reason == "done"


CALLS_MAX = 400


@pytest.mark.slow
def test_killed_at_every_call_that_changes_the_disk(tmp_path):
    """The journal's own files stop at call n; the next process opens the store and goes on."""
    stride = 1 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 5
    for at in range(0, CALLS_MAX, stride):
        folder = tmp_path / str(at)
        folder.mkdir()
        open_store(folder).close()
        files = StoppingFiles(at, share=0.5)
        host = Host(folder / "work")
        if _runs_through(folder, files, host):
            assert at > 20
            return
        with open_store(folder) as project:
            log = store_log(project)
            again = Bench(folder, speak, log=log, host=host)
            if again.session.is_interrupted:
                ended = again.session.resume()
            elif again.session.turns:
                ended = log.read()[-1]
            else:
                ended = again.turn()
            check(again, host, ended)
            again.session.close()
    raise AssertionError("the run has more calls than were tried")


def _runs_through(folder, files, host):
    project = None
    try:
        project = open_store(folder, files)
        Bench(folder, speak, log=store_log(project), host=host).turn()
    except Stop:
        return False
    finally:
        if project is not None:
            try:
                project.close()
            except Stop:
                pass
    return True


# -- with everything that a turn may have: an answer of the person, reads beside each other, a fold in the middle of the session

ASKING = [
    answer("", call("read", "r1", path="a"), call("read", "r2", path="b")),
    answer("", call("shell", "s1", command="make"), call("append", "w1", path="a", text="2")),
    answer("All done."),
]  # fmt: skip


class Yes:
    def __init__(self):
        self.asked = []

    def approve(self, call, decision):
        self.asked.append(call.id)
        return "yes"


def speak_asking(messages, tools):
    last = max(
        place for place, message in enumerate(messages) if message.role == "user" and "now ask" in message.content
    )
    return ASKING[sum(message.role == "assistant" for message in messages[last:])]


def full_bench(tmp_path, at, *, is_written, host):
    """A session whose first turn was long, so that its end folds; the second one is what is killed. ``at`` counts from its beginning."""
    asks = Functions("asks", {"authorize_tool": lambda name, args: ToolDecision(allow=True, ask=name == "shell")})
    log, person = Dying(0, is_written=is_written), Yes()
    bench = Bench(tmp_path, speak, log=log, host=host, context=tape, hooks=[asks], approver=person)
    bench.turn()
    host.made = 0
    log.at = log.count + at if at else 0
    return bench.again(speak_asking, log=log), person


def test_the_fuller_scenario_has_what_it_is_for(tmp_path):
    host = Host(tmp_path / "work")
    bench, person = full_bench(tmp_path, 0, is_written=False, host=host)
    before = bench.log.count
    assert bench.turn("now ask").text == "All done."
    assert bench.log.count - before == FULL_APPENDS
    assert person.asked == ["c2", "s1"]
    assert [note.topic for note in bench.of(Noted)].count("fold") >= 1
    reads = [one.call_id for one in bench.of(Resulted) if one.name == "read"]
    assert reads == ["c3", "r1", "r2"]
    assert [one.answer for one in bench.of(Decided)] == ["yes", "yes"]


FULL_APPENDS = 12


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("at", range(1, FULL_APPENDS + 1))
def test_killed_at_every_boundary_with_an_answer_of_the_person_reads_and_a_fold(tmp_path, at, is_written):
    host = Host(tmp_path / "work")
    bench, person = full_bench(tmp_path, at, is_written=is_written, host=host)
    with pytest.raises(Stop):
        bench.turn("now ask")
    again = bench.again(speak_asking, log=bench.log.inner)
    if again.session.is_interrupted:
        ended = again.session.resume()
    elif again.session.turns == 1:
        ended = again.turn("now ask")
    else:
        ended = again.of(Ended)[-1]
    assert (ended.reason, ended.text) == ("done", "All done.")
    assert host.tree() == TREE | {"a": b"122"}
    results = {one.call_id: one.result for one in again.of(Resulted) if one.turn == 2}
    assert sorted(results) == ["r1", "r2", "s1", "w1"]
    assert len([one for one in again.of(Resulted) if one.turn == 2]) == 4
    assert (host.made, results["s1"].outcome) in ((1, "ok"), (0, "indeterminate"), (1, "indeterminate"))
    assert {results[name].outcome for name in ("r1", "r2", "w1")} == {"ok"}
    assert 2 <= len(person.asked) <= 3  # once more at the most: where the answer was not written, or nothing ran on it
    context = tape(host)
    for episode in again.log.read():
        context.take(episode)
    assert list(context.messages()) == list(again.context.messages())
