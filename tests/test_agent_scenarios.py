"""Conversations through the whole agent: the real loop, tools, sandbox, tape, journal and repositories. See ``agent_scenarios_*``."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

import agent_scenarios_model
import agent_scenarios_parts
import agent_scenarios_policy
import agent_scenarios_work
from agent_scenario import SCENARIOS
from agent_scene import Scene, read, says
from periplus.agent.episodes import Ended, Noted
from periplus.agent.hooks import Hook
from periplus.agent.models.client_factory import KINDS
from periplus.agent.tape.prefix_survival import BREAKS
from periplus.agent.tape_notes import FoldNote, note_in
from sampling import sampled

pytest.importorskip("anthropic")
pytest.importorskip("openai")
pytest.importorskip("mcp")

TABLES = (agent_scenarios_work, agent_scenarios_policy, agent_scenarios_model, agent_scenarios_parts)
OWN = [row for row in SCENARIOS.values() if row.run is not None]


@pytest.mark.parametrize("row", sampled(OWN, 30), ids=lambda row: row.name.replace(" ", "-"))
def test_a_scenario(row, tmp_path):
    scene = Scene(tmp_path, row.wire)
    try:
        row.run(scene)
    finally:
        scene.close()
    assert scene.prefix_faults() == []
    folds = [note for note in map(note_in, scene.episodes(Noted)) if isinstance(note, FoldNote)]
    assert {note.why for note in folds} <= set(BREAKS)
    assert scene.episodes(Ended)


def test_what_is_counted():
    """Forty at least; each says what must hold, and asserts something; fifteen over the wire at least, of every format some."""
    assert len(SCENARIOS) >= 70
    assert len({row.holds for row in SCENARIOS.values()}) == len(SCENARIOS)
    assert all(len(row.holds.split()) >= 6 for row in SCENARIOS.values())
    for row in OWN:
        tree = ast.parse(inspect.getsource(row.run))
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert any(isinstance(node, ast.Assert) for node in ast.walk(tree)) or "overflows" in called, row.name
    wired = Counter(row.wire for row in OWN if row.wire)
    assert sum(wired.values()) >= 30
    assert set(wired) == set(KINDS)
    assert min(wired.values()) >= 8
    assert {row.run.__module__ for row in OWN} == {table.__name__ for table in TABLES}


@pytest.mark.slow
def test_what_is_shown_elsewhere_is_there_and_is_run():
    pointed = sorted({row.test for row in SCENARIOS.values() if row.test})
    assert pointed
    here = Path(__file__).parent
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "-p", "no:cacheprovider",
            *sorted({str(here / one.partition("::")[0]) for one in pointed})]  # fmt: skip
    done = subprocess.run(argv, cwd=here.parent, capture_output=True, text=True, check=True, timeout=120)
    collected = {line.rpartition("/")[2].partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert set(pointed) <= collected


def test_a_break_of_the_prefix_is_found(tmp_path):
    """The check of every scenario can fail: a hook that changes what was sent before is caught, in the requests and on the wire."""

    class Clock(Hook):
        def __init__(self):
            self.count = 0

        def prepare_messages(self, messages):
            self.count += 1
            first = msgspec.structs.replace(messages[1], content=f"{self.count} o'clock\n{messages[1].content}")
            return [messages[0], first, *messages[2:]]

    scene = Scene(tmp_path, "anthropic")
    try:
        scene.open(says("", read("calc.py")), says("Read."), hooks=[Clock()])
        scene.turn("look")
    finally:
        scene.close()
    faults = scene.prefix_faults()
    assert len(faults) == 2
    assert "request 2 leaves the one before it at byte" in faults[0]
    assert faults[1] == "1 bodies leave the one before them, and there are 0 folds"


def test_the_recorded_conversation_of_the_tour_keeps_its_prefix(tmp_path):
    """What is shipped as a recording is played through the whole agent, and under the same rule."""
    from periplus.agent.models.conversation_replay import RecordedClient
    from periplus.cli.tour import agent_run

    talk = Path(agent_run.__file__).with_name("tour_talk.jsonl")
    scene = Scene(tmp_path)
    recorded = RecordedClient(str(talk), strict=False)
    try:
        scene.open(recorded.complete)
        scene.turn("mend it")
    finally:
        scene.close()
    assert len(scene.requests["s1"]) >= 3
    assert scene.prefix_faults() == []
