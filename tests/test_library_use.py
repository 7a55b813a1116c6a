"""What a program that uses the library gets wrong is told as that, and nothing is written for it."""

from __future__ import annotations

import os
import shutil

import pytest

from periplus.base.errors import UsageError
from periplus.journal.index.connection import ClosedError
from periplus.journal.storage.store_identity import ReplacedError
from periplus.memory import Filters, Memory
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.handoffs import NewHandoff
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
    with pytest.raises(UsageError, match="must be a list, not the one text"):
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


READS = {
    "recall": lambda project: project.recall("cache"),
    "brief": lambda project: project.brief("the cache"),
    "related": lambda project: project.related(["cache.py"]),
    "changed": lambda project: project.changed(),
    "status": lambda project: project.status(),
    "log": lambda project: project.log(),
    "entities": lambda project: list(project.journal.entities()),
    "look": lambda project: project.look(),
    "due": lambda project: project.reviewing.due(),
    "claims": lambda project: project.work.claims(),
    "mail": lambda project: project.work.mail(),
    "examine": lambda project: project.examine(),
    "export": lambda project: project.export(f"{project.folder}.zip"),
    "remember": lambda project: project.remember(Memory("note", "The cache is local")),
}


@pytest.fixture(params=READS)
def ask(request):
    return READS[request.param]


@pytest.mark.parametrize("what", [".", ".periplus", ".periplus/journal"])
def test_a_store_that_is_moved_away_is_not_answered_for_with_nothing(project, tmp_path, ask, what):
    source, aside = os.path.normpath(os.path.join(project.folder, what)), f"{tmp_path}.aside"
    os.rename(source, aside)
    try:
        with pytest.raises(ReplacedError, match="moved or removed") as told:
            ask(project)
        assert told.value.safe
        assert told.value.mend
    finally:
        os.rename(aside, source)
    assert [hit.text for hit in project.recall("cache").hits] == ["The cache is global"]
    project.remember(Memory("note", "It goes on where it is back"))


@pytest.mark.parametrize("is_read", [True, False], ids=["read before", "only opened"])
@pytest.mark.parametrize("by", ["the same records", "an earlier copy", "another store", "a fresh store"])
def test_a_store_that_takes_the_place_of_one_that_is_open_is_not_read_for_it(project, tmp_path, ask, by, is_read):
    root, copy = project.root, os.path.join(tmp_path, "copy")
    if by in ("the same records", "an earlier copy"):
        shutil.copytree(root, copy)
    else:
        os.mkdir(copy)
        Project.init(copy)
        copy = os.path.join(copy, ".periplus")
    if by == "an earlier copy":
        project.remember(Memory("note", "The cache has a lid"))
    if by == "another store":
        with Project(copy, WRITER) as other:
            other.remember(Memory("note", "The cache is elsewhere"))
    if is_read:
        project.recall("cache")
    os.rename(root, os.path.join(tmp_path, "aside"))
    os.rename(copy, root)
    with pytest.raises(ReplacedError, match="no longer the store that was opened"):
        ask(project)
    with Project(root, WRITER) as anew:
        anew.remember(Memory("note", "Who opens it anew goes on"))
    with pytest.raises(ReplacedError, match="no longer the store that was opened"):
        ask(project)


def test_what_this_store_itself_writes_anew_is_no_other_store(project, tmp_path):
    with Project(project.root, WRITER) as beside:
        beside.journal.leave_lineage()
        beside.remember(Memory("note", "The cache is written elsewhere"))
    assert len(project.recall("cache").hits) == 2
    os.rename(os.path.join(project.root, "journal"), tmp_path / "aside")
    os.mkdir(os.path.join(project.root, "journal"))
    for name in os.listdir(tmp_path / "aside"):
        os.rename(tmp_path / "aside" / name, os.path.join(project.root, "journal", name))
    assert len(project.recall("cache").hits) == 2


def test_a_copy_that_is_only_read_may_begin_to_be_written(project, tmp_path):
    shutil.copytree(project.folder, tmp_path / "copy/of", ignore=shutil.ignore_patterns("copy"))
    with Project.open(str(tmp_path / "copy/of"), WRITER) as reads, Project.open(reads.folder, WRITER) as writes:
        assert len(reads.recall("cache").hits) == 1
        writes.remember(Memory("note", "The cache is copied"))
        assert len(reads.recall("cache").hits) == 2
