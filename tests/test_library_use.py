"""What a program that uses the library gets wrong is told as that, and nothing is written for it."""

from __future__ import annotations

import pytest

from periplus.base.errors import UsageError
from periplus.journal.connection import ClosedError
from periplus.memory import Filters, Memory
from periplus.memory.claims import Asked
from periplus.memory.handoffs import NewHandoff
from periplus.project import Project
from support import WRITER


@pytest.fixture
def project(tmp_path):
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), WRITER) as opened:
        opened.remember(Memory("note", "The cache is global"))
        yield opened


def note(project):
    return project.recall("cache").hits[0].item_id


@pytest.mark.parametrize(
    "use",
    [
        lambda project: project.remember(Memory("note", "Tags are several", tags="auth")),
        lambda project: project.remember(Memory("note", "Paths are several", about="src/auth.py")),
        lambda project: project.recall("cache", filters=Filters(types="note")),
        lambda project: project.related("src/auth.py"),
        lambda project: project.reviewing.confirm(note(project)),
        lambda project: project.reflection.reflect("trl_1"),
        lambda project: project.work.check("src/auth.py"),
        lambda project: project.work.claim(Asked("src/auth.py")),
        lambda project: project.work.release("clm_1"),
        lambda project: project.work.split(note(project), "The cache is local"),
        lambda project: project.work.change_state(note(project), "superseded"),
        lambda project: project.work.make_plan("Rate limits", "Measure"),
        lambda project: project.work.hand_off(NewHandoff("Measured", files="src/auth.py")),
    ],
    ids=["tags", "about", "filters", "related", "confirm", "reflect", "check", "claim", "release", "split", "state", "plan", "handoff"],
)  # fmt: skip
def test_one_text_is_not_taken_for_its_letters(project, use):
    before = project.journal.end()
    with pytest.raises(UsageError, match="are several"):
        use(project)
    assert project.journal.end() == before


@pytest.mark.parametrize("limit", [-1, -20])
def test_a_limit_under_zero_is_no_damage(project, limit):
    for use in (
        project.log,
        lambda limit: project.news({}, limit=limit),
        lambda limit: project.recall("x", limit=limit),
    ):
        with pytest.raises(UsageError, match="at least 0"):
            use(limit=limit)
    assert not project.journal.index.is_damaged
    assert len(project.log(limit=1).records) == 1


def test_a_project_says_which_it_is(project):
    assert repr(project) == f"<Project {project.root!r}, written by {WRITER.name!r}>"


@pytest.mark.parametrize(
    "use",
    [
        lambda project: project.recall("cache"),
        lambda project: project.status(),
        lambda project: project.look(),
        lambda project: project.examine(),
        lambda project: project.repair(),
        lambda project: project.undo(seqs=[1]),
        lambda project: project.export(f"{project.folder}.zip"),
        lambda project: project.redact(secret="abcabcabc", reason="leaked"),
        lambda project: project.reviewing.due(),
        lambda project: project.contexts.resolve("main"),
        lambda project: project.work.claims(),
        lambda project: project.record(agent="ada"),
        lambda project: project.compact(),
    ],
    ids=["recall", "status", "look", "examine", "repair", "undo", "export", "redact", "due", "contexts", "claims", "record", "compact"],
)  # fmt: skip
@pytest.mark.parametrize("is_looked_up", [True, False])
def test_whatever_is_asked_of_a_closed_project_says_that_it_is(project, use, is_looked_up):
    if is_looked_up:
        project.status()
    project.close()
    project.close()
    with pytest.raises(ClosedError):
        use(project)
