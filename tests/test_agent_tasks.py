"""Checkpoints of tasks: written at the end of a turn and when a topic is left, read by another process, not written twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agent_room import Place
from periplus.agent.memories import InProcessMemory, NullMemory, StoreMemory
from periplus.agent.models.scripted import answer, call
from periplus.agent.persistence.task_checkpoints import TaskKeeper
from periplus.agent.tape.slice import Topics, slice_of_task
from periplus.agent.tape_notes import SliceNote, TopicNote
from periplus.base.errors import NotFoundError

PLAN = call(
    "plan",
    mission="a quiet engine",
    steps=[{"text": "look", "state": "done"}, {"text": "mend"}],
    requirements=[{"text": "it runs"}],
    findings=[{"text": "the cap is loose", "source": "observed"}],
)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def tasks(place, session="s1"):
    with place.project("other") as project:
        memory = StoreMemory(project)
        found = {one.task_id: memory.load_task(one.task_id) for one in memory.list_session_tasks(session)}
        memory.close()
        return found


def test_a_turn_leaves_its_task(place):
    (place.root / "a.py").write_text("one\n")
    edits = call("write", path="b.py", content="SECRET_CONTENT = 1\n")
    with place.session([answer("", PLAN, call("read", path="a.py"), edits), "Done."]) as session:
        session.turn("Mend the engine")
    (state,) = tasks(place).values()
    assert (state.task_id, state.session, state.status, state.title) == ("s1/main", "s1", "active", "Mend the engine")
    assert (state.goal, state.mission) == ("Mend the engine", "a quiet engine")
    assert state.plan == (("look", "done"), ("mend", "open"))
    assert state.requirements == (("it runs", False),)
    assert state.findings == (("observed", "the cap is loose"),)
    assert set(state.active_files) == {"a.py", "b.py"}
    assert state.edited_files == ("b.py",)
    assert "SECRET_CONTENT" not in repr(state)
    held = slice_of_task(state)
    assert (held.plan, held.edited_files) == ({"look": "done", "mend": "open"}, {"b.py": None})


@pytest.mark.slow
def test_a_parked_topic_is_there_after_a_kill(tmp_path):
    """The process is killed between the turn and whatever would come: nothing was closed."""
    code = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from agent_room import Place
        from test_agent_tasks import PLAN
        from periplus.agent.models.scripted import answer
        from periplus.agent.tape_notes import TopicNote
        place = Place(Path(sys.argv[1]))
        with place.session([answer("", PLAN), "Parked here.", "On the docs."]) as session:
            session.turn("Mend the engine")
            session.note(TopicNote(action="new", topic="docs", title="The manual"))
            session.turn("Write the manual")
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    }
    done = subprocess.run([sys.executable, "-c", code, tmp_path], env=environment, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    place = Place(tmp_path)
    held = tasks(place)
    assert [(name, one.status) for name, one in held.items()] == [("s1/main", "parked"), ("s1/docs", "active")]
    assert held["s1/main"].findings == (("observed", "the cap is loose"),)
    assert (held["s1/docs"].title, held["s1/docs"].goal) == ("The manual", "Write the manual")
    with place.session(["Back."]) as session:
        session.note(TopicNote(action="switch", topic="main"))
        session.turn("And the engine?")
        assert session.tape.state.topics.current.findings == {"the cap is loose": "observed"}
    assert [one.status for one in tasks(place).values()] == ["active", "parked"]


def test_what_did_not_change_is_not_written_again(place):
    with place.session(["One.", "Two."]) as session:
        memory = StoreMemory(session.project)
        session.turn("Hello")
        assert TaskKeeper(memory, "s1").keep(session.tape.state.topics) == 0
        session.note(TopicNote(action="new", topic="b"))
        assert TaskKeeper(memory, "s1").keep(session.tape.state.topics) == 0  # the session has written it
        session.note(TopicNote(action="done", topic="b"))
        assert memory.load_task("s1/b").resolution == "done in turn 0"
        with pytest.raises(NotFoundError):
            session.note(TopicNote(action="switch", topic="nowhere"))
        memory.close()


def test_a_memory_that_keeps_nothing_is_left_alone():
    class Strict(NullMemory):
        def checkpoint_task(self, state):
            raise AssertionError("it was asked to keep a checkpoint")

        def load_task(self, task_id):
            raise AssertionError("it was asked for one")

    topics = Topics()
    topics.change(SliceNote(field="mission", op="set", value="x"))
    assert TaskKeeper(Strict(), "s1").keep(topics) == 0
    memory = InProcessMemory()
    topics.skills["oil"] = None
    assert TaskKeeper(memory, "s1").keep(topics) == 1
    assert memory.load_task("s1/main").skills == ("oil",)
    assert TaskKeeper(memory, "s1").keep(topics) == 0
