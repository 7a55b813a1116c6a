"""A write that is repeated with its key finds what was written, also where the index does not have it, or not any more."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from periplus import Project, Writer
from periplus.base.errors import ConflictError, OutcomeUnknownError, UsageError
from periplus.base.files import Files
from periplus.journal.checkpointing import make_checkpoint
from periplus.memory import Memory
from periplus.memory.claims import Asked
from periplus.memory.handoffs import NewHandoff
from periplus.memory.plans import NewStep

ADA = Writer.named("ada", session="monday")
KEY = "0123456789abcdef"


def write_plan(project, key):
    return project.work.make_plan("Rate limits", [NewStep("measure"), NewStep("limit")], key=key).plan


def write_steps(project, key):
    [plan] = [one for one in project.journal.entities("plan") if one.value["text"] == "An older one"]
    return project.work.add_steps(plan.item_id, [NewStep("third"), NewStep("fourth")], key=key).steps[0]


def take_step(project, key):
    return project.work.take(key=key).claim


def split(project, key):
    [old] = [one for one in project.journal.entities("decision") if one.value["text"] == "Ports and hosts"]
    return project.work.split(old.item_id, ["Ports are fixed", "Hosts are not"], key=key).entities[-1]


WRITES = {
    "remember": lambda project, key: project.remember(Memory("note", "Port 9 is free"), key=key).entity,
    "plan": write_plan,
    "steps": write_steps,
    "take": take_step,
    "claim": lambda project, key: project.work.claim(Asked(("src",)), key=key).claim,
    "handoff": lambda project, key: project.work.hand_off(NewHandoff("Measured"), key=key),
    "message": lambda project, key: project.work.send("bob", "Ready", key=key),
    "split": split,
}


@pytest.fixture
def folder(tmp_path):
    Project.init(os.fspath(tmp_path))
    with Project.open(os.fspath(tmp_path), ADA) as project:
        project.work.make_plan("An older one", [NewStep("first")])
        project.remember(Memory("decision", "Ports and hosts"))
    return os.fspath(tmp_path)


def written(project):
    rows = project.journal.index.records("key = ? ORDER BY seq", (KEY,), -1)
    return [(row.item_type, row.item_id) for row in rows]


@pytest.mark.parametrize("kind", WRITES)
def test_after_an_outcome_that_is_unknown(folder, kind, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "the disk")

    with Project.open(folder, ADA) as project, monkeypatch.context() as patched:
        patched.setattr(Files, "sync_data", fail)
        with pytest.raises(OutcomeUnknownError):
            WRITES[kind](project, KEY)
    with Project.open(folder, ADA) as project:
        found = WRITES[kind](project, KEY)
        project.journal.project()
        assert (found.item_type, found.item_id) in written(project)
        assert WRITES[kind](project, KEY).item_id == found.item_id


@pytest.mark.parametrize("kind", WRITES)
def test_where_the_index_was_made_from_a_checkpoint_behind_it(folder, kind):
    with Project.open(folder, ADA) as project:
        first = WRITES[kind](project, KEY)
        project.remember(Memory("note", "something behind it"))
        assert make_checkpoint(project.journal, ADA) is not None
    Path(folder, ".periplus/index.sqlite").unlink()
    with Project.open(folder, ADA) as project:
        assert written(project) == []
        assert WRITES[kind](project, KEY).item_id == first.item_id


@pytest.mark.parametrize("kind", ["remember", "plan", "claim", "handoff", "message"])
def test_a_key_of_something_else_is_told(folder, kind):
    with Project.open(folder, ADA) as project:
        project.remember(Memory("lesson", "Run the migrations first"), key=KEY)
        with pytest.raises((ConflictError, UsageError), match="used for something else"):
            WRITES[kind](project, KEY)
