"""A checkpoint that a mutation leaves for being too much work is made by the process that hooks leave behind."""

from __future__ import annotations

import os
import time

import pytest

from hook_support import hook
from periplus.base.process.locks import Lock
from periplus.journal import Writer
from periplus.journal.checkpoints.checkpoint_files import checkpoint_files, usable_checkpoints
from periplus.journal.checkpoints.creation import WORK_BYTES_MAX, make_due, work_due
from periplus.project import Project
from support import item

WRITER = Writer("ada", "who_0000000000000000", "", 1)


@pytest.fixture
def folder(tmp_path):
    """A store of so much that no mutation makes its first checkpoint."""
    folder = tmp_path / "large"
    folder.mkdir()
    Project.init(os.fspath(folder))
    with Project.open(os.fspath(folder), WRITER) as project:
        journal = project.journal
        with Lock(journal.layout.checkpoint_lock).holding(0.0):  # none is made on the way
            for number in range(46):
                journal.mutate(lambda t, n=number: fill(t, n), WRITER, project=False)
        journal.mutate(lambda t: fill(t, 46), WRITER)
    return folder


def fill(transaction, number):
    for part in range(18):
        text = f"{part % 10}" * 60_000
        transaction.put(
            "note", item(part, "not"), {"v": 1, "text": f"number {number}", "author": "ada", "drawing": text}
        )


def opened(folder):
    return Project.open(os.fspath(folder), WRITER)


def end(folder, tmp_path, *words):
    event = {"hook_event_name": "SessionEnd", "session_id": "s-1", "cwd": os.fspath(folder), "reason": "exit"}
    done = hook(
        "SessionEnd", event, cwd=folder, environment={"XDG_STATE_HOME": os.fspath(tmp_path / "state")}, words=words
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.slow
def test_the_process_behind_a_session_makes_it(folder, tmp_path):
    with opened(folder) as project:
        assert work_due(project.journal) > WORK_BYTES_MAX
        assert make_due(project.journal, WRITER) is None
        assert project.status().is_checkpoint_due
    end(folder, tmp_path, "--wait")  # who waits for it is not held up
    with opened(folder) as project:
        assert not checkpoint_files(project.journal)
    end(folder, tmp_path)
    until = time.monotonic() + 60
    while True:
        with opened(folder) as project:
            if next(usable_checkpoints(project.journal), None) is not None:
                assert not project.status().is_checkpoint_due
                break
        assert time.monotonic() < until
        time.sleep(0.2)
    assert not (folder / ".periplus/hooks/notes").exists()
