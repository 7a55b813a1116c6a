"""Subagents: the real loop, tools, tape, store, trails and claims, with models that say what they were told to."""

from __future__ import annotations

import json

import pytest

from periplus.agent.events import AgentEnded, AgentStarted, ToolStarted
from periplus.agent.tools.table import schema_of
from subagent_support import Head, answer, call, edit, repository, spawn


@pytest.fixture
def folder(tmp_path):
    return repository(tmp_path / "work")


def front(request):
    messages, tools = request
    return messages[0], tools


def test_a_task_is_done_by_another_and_its_report_comes_back_whole(folder):
    scripts = {"look": [answer("", call("read", path="a.py")), "A is 1, in a.py line 1."]}
    own = [answer("I ask.", spawn("look", "what is A?", name="reader")), "A is 1."]
    with Head(folder, own, scripts=scripts) as head:
        assert head.turn("What is A?").text == "A is 1."
        (result,) = head.results()
        assert (result.outcome, result.effects) == ("ok", ())
        assert "A is 1, in a.py line 1." in result.output
        assert result.spawned.session == "s1/1.1.1"
        assert result.spawned.steps == 2
        assert head.seen(AgentStarted)[0].session == head.seen(AgentEnded)[0].session == "s1/1.1.1"
        assert [one.agent for one in head.seen(ToolStarted)] == ["", "s1/1.1.1"]
        # Its requests begin with the whole front of ours, to the byte.
        assert front(head.voices.asked["look"][0]) == front(head.voices.asked[""][0])
        assert "what is A?" in head.voices.asked["look"][0][0][1].content
        assert "What is A?" not in str(head.voices.asked["look"][0][0])
        pages = head.session.host.run("read", {"path": result.output.split("s1/1.1.1: ")[1].split(" ")[0]})
        assert "read {" in pages.output
    with Head(folder, ["."]) as later:
        trails = {one.value["title"]: one for one in later.project.journal.entities("trail")}
        assert result.spawned.trail in {one.digest for one in runs(later, "s1/1.1.1")}
        data = later.project.trail_bytes(trails["the whole"].item_id).data
        assert bytes.fromhex(result.spawned.trail) in data


def runs(head, name):
    from periplus.agent.runlog import session_runs

    return session_runs(head.project, name)


def test_what_it_changed_is_of_our_turn_and_undone_with_it(folder):
    scripts = {
        "bump": [answer("", edit("a.py", "A = 1", "A = 2"), call("shell", command="echo new > c.txt")), "Bumped."]
    }
    own = [answer("", spawn("bump", mode="edit")), "Done."]
    with Head(folder, own, scripts=scripts) as head:
        head.session.host.work.changes  # noqa: B018 - it is there
        assert head.turn().reason == "done"
        (result,) = head.results()
        assert [one["path"] for one in result.effects] == ["a.py"], result.output
        assert "changed: a.py (" in result.output
        assert head.session.undo() == ("a.py",)
        assert (folder / "a.py").read_text() == "A = 1\n"


def test_the_schema_is_short():
    from periplus.agent.subagents.spawning import _ABOUT, _NAME, _PARAMETERS
    from periplus.agent.tools.table import Tool

    schema = schema_of(Tool(_NAME, _ABOUT, _PARAMETERS, None, None))
    assert len(json.dumps([schema.name, schema.description, schema.parameters], separators=(",", ":"))) <= 900
