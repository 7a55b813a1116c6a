"""What a store of many lineages costs is not paid again for each of them, nor for each part of an answer."""

from __future__ import annotations

import os
import sys

import pytest

from cli_support import Shell
from periplus.journal import Writer
from periplus.journal.checkpoints.offline_archive import absent
from periplus.journal.index.record_lookup import one_question
from periplus.memory import Memory
from periplus.project import Project

WRITER = Writer("ada", "who_0000000000000000", "", 1)
_listed: list[list[str]] = []


def _hear(event, words):
    if event == "os.listdir" and _listed:
        _listed[-1].append(os.fspath(words[0]))


sys.addaudithook(_hear)


def listed(work):
    """The folders that ``work`` lists."""
    _listed.append([])
    try:
        work()
    finally:
        found = _listed.pop()
    return found


def synced(project, folder):
    project.sync(os.fspath(folder), cwd=project.folder, environment=dict(os.environ))


@pytest.fixture
def place(tmp_path):
    """A store, and a clone of it that does not know what the store has, with a folder to exchange in."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    Project.init(os.fspath(tmp_path / "here"))
    (tmp_path / "there" / ".periplus").mkdir()
    config = (tmp_path / "here" / ".periplus" / "config.toml").read_bytes()
    (tmp_path / "there" / ".periplus" / "config.toml").write_bytes(config)
    Project.init(os.fspath(tmp_path / "there"))
    return tmp_path


def opened(place, name):
    return Project.open(os.fspath(place / name), WRITER)


def test_checkpoints_are_looked_at_once_however_many_lineages_there_are(place):
    for number in range(4):
        with opened(place, "there") as clone:
            clone.remember(Memory("note", f"Tide {number}"))
            synced(clone, place / "exchange")
        lineage = place / "there" / ".periplus" / "journal" / "lineage.json"
        lineage.unlink()  # the next one to write has another lineage
    with opened(place, "here") as project:
        project.remember(Memory("note", "A shore"))
        synced(project, place / "exchange")
        assert len(project.journal.lineages()) == 5
        assert project.compact() is not None
        folders = listed(lambda: absent(project.journal))
        assert folders.count(project.journal.layout.checkpoints) == 1
        assert absent(project.journal) == []


def test_within_a_question_others_lineages_are_looked_at_once_and_our_own_as_ever(place):
    with opened(place, "there") as clone:
        clone.remember(Memory("note", "The tide turns at noon"))
        synced(clone, place / "exchange")
    with opened(place, "here") as project:
        with opened(place, "here") as beside:
            beside.remember(Memory("note", "A shore"))
            synced(beside, place / "exchange")

        def texts():
            project.journal.refresh()
            return sorted(str(one.value["text"]) for one in project.journal.entities("note"))

        with one_question(project.journal):
            assert texts() == ["A shore", "The tide turns at noon"]
            with opened(place, "there") as clone:
                clone.remember(Memory("note", "The wind is west"))
                synced(clone, place / "exchange")
            with opened(place, "here") as beside:
                synced(beside, place / "exchange")
                beside.remember(Memory("note", "A bay"))
            assert texts() == ["A bay", "A shore", "The tide turns at noon"]
        assert texts() == ["A bay", "A shore", "The tide turns at noon", "The wind is west"]


def test_a_brief_says_how_many_lines_a_larger_budget_has_room_for(place):
    with opened(place, "here") as project:
        for number in range(12):
            project.remember(Memory("decision", f"The boat number {number} lies where the tide leaves it dry at noon"))
        whole = project.brief("boat tide", budget_tokens=50_000)
        small = project.brief("boat tide", budget_tokens=200)
        lines = [sum(len(section.lines) for section in brief.sections) for brief in (small, whole)]
        assert whole.cut == 0 < small.cut == lines[1] - lines[0]
        assert whole.left_out > 0, "what no brief has room for is not cut by the budget"


def test_status_says_how_many_claims_hold(place):
    shell = Shell(place / "here", place)
    shell("claim", "take", "src/a.py")
    shell("claim", "take", "src/b.py")
    shell("claim", "release")
    assert "2 claims (0 held)" in shell("status").out
    shell("claim", "take", "src/c.py")
    assert "3 claims (1 held)" in shell("status").out
