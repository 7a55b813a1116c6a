"""A history that is rewritten and imported again is one history, and what no ref reaches any more stands behind what does."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from cli_support import git
from periplus.base.clock import FixedClock
from periplus.memory import Filters
from periplus.memory.fulltext.documents import REWRITTEN_MAX, documents_of_rewritten
from periplus.project import Project
from support import WRITER


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "cogs"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture
def project(tmp_path, repository):
    root = Project.init(os.fspath(repository)).root
    with Project(root, WRITER, clock=FixedClock(step_ms=1)) as project:
        yield project


def commit(folder, message, *options, file="cog.py"):
    with (folder / file).open("a") as text:
        text.write(f"{message}\n")
    git(folder, "add", file)
    git(folder, "commit", "-q", "-m", message, *options)


def bring(project, repository):
    return project.import_git(os.fspath(repository))


def histories(project):
    return [trail for trail in project.trails() if trail.value["format"] == "git"]


def told(project, question):
    """The first lines of the commits that are found, and whether they are told to be rewritten."""
    hits = project.recall(question, limit=50, filters=Filters(kinds=("commit",))).hits
    assert all((hit.state == "rewritten") == ("rewritten" in hit.stale) for hit in hits)
    return [(hit.text.splitlines()[0], hit.state == "rewritten") for hit in hits]


def amend_the_first(folder):
    git(folder, "commit", "-q", "--amend", "-m", "turn the wheel at noon")


def amend_the_last(folder):
    amend_the_first(folder)


def squash(folder):
    git(folder, "reset", "-q", "--soft", "HEAD~2")
    git(folder, "commit", "-q", "-m", "turn the wheel at noon", "--date", "2020-01-01T00:00:00Z")


def rebase(folder):
    git(folder, "checkout", "-q", "-b", "aside", "HEAD~1")
    commit(folder, "turn the wheel at noon", file="noon.py")
    git(folder, "checkout", "-q", "main")
    git(folder, "rebase", "-q", "aside")
    git(folder, "branch", "-q", "-D", "aside")


@pytest.mark.parametrize(("rewrite", "before"), [(amend_the_first, 1), (amend_the_last, 3), (squash, 3), (rebase, 3)])
def test_a_rewritten_history_is_one_history(project, repository, rewrite, before):
    for number in range(before):
        commit(repository, f"turn the wheel, part {number}")
    bring(project, repository)
    rewrite(repository)
    done = bring(project, repository)
    assert done.changed
    assert [trail.item_id for trail in histories(project)] == [done.entity.item_id]
    found = told(project, "turn the wheel")
    flags = [is_rewritten for _, is_rewritten in found]
    assert flags == sorted(flags)
    assert any(flags)
    assert ("turn the wheel at noon", False) in found
    assert (f"turn the wheel, part {before - 1}", True) in found
    for text in (
        project.brief("turn the wheel").text,
        str([hit.text for hit in project.related(task="turn the wheel").work]),
    ):
        assert "turn the wheel at noon" in text
        assert f"part {before - 1}" not in text or (f"turn the wheel, part {before - 1}", False) in found
    assert not bring(project, repository).changed


def test_what_a_ref_reaches_again_is_rewritten_no_more(project, repository):
    commit(repository, "oil the cog")
    git(repository, "tag", "first")
    commit(repository, "turn the cog", "--amend")
    bring(project, repository)
    git(repository, "tag", "second")
    git(repository, "reset", "-q", "--hard", "first")
    git(repository, "tag", "-d", "second")
    bring(project, repository)
    assert told(project, "cog") == [("oil the cog", False), ("turn the cog", True)]
    git(repository, "reset", "-q", "--hard", "HEAD@{1}")
    bring(project, repository)
    assert ("turn the cog", False) in told(project, "cog")


def test_another_branch_is_not_rewritten(project, repository):
    commit(repository, "oil the cog")
    commit(repository, "turn the cog")
    bring(project, repository)
    git(repository, "checkout", "-q", "-b", "aside", "HEAD~1")
    commit(repository, "paint the cog")
    assert "rewritten" not in bring(project, repository).entity.value
    git(repository, "checkout", "-q", "--orphan", "pages")
    git(repository, "commit", "-q", "-m", "a page of the cog")
    bring(project, repository)
    assert len(histories(project)) == 2
    assert not any(is_rewritten for _, is_rewritten in told(project, "cog"))


def test_what_was_collected_as_garbage_was_rewritten(project, repository):
    commit(repository, "oil the cog")
    bring(project, repository)
    git(repository, "commit", "-q", "--amend", "-m", "turn the cog")
    git(repository, "reflog", "expire", "--expire=now", "--all")
    git(repository, "gc", "-q", "--prune=now")
    for _ in range(2):
        bring(project, repository)
        assert told(project, "cog") == [("turn the cog", False), ("oil the cog", True)]
    assert len(histories(project)) == 1


def test_another_repository_has_a_history_of_its_own(project, repository, tmp_path):
    commit(repository, "oil the cog")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    commit(other, "oil the wheel")
    bring(project, repository)
    bring(project, other)
    git(other, "commit", "-q", "--amend", "-m", "turn the wheel")
    bring(project, other)
    assert len(histories(project)) == 2
    assert told(project, "oil") == [("oil the cog", False), ("oil the wheel", True)]


def test_commits_that_only_another_clone_has_are_not_rewritten(project, repository, tmp_path):
    commit(repository, "oil the cog")
    theirs = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", os.fspath(repository), os.fspath(theirs))
    commit(theirs, "turn the cog")
    bring(project, theirs)
    bring(project, repository)
    assert not any(is_rewritten for _, is_rewritten in told(project, "cog"))
    assert ("turn the cog", False) in told(project, "cog")


def test_a_card_of_a_stranger_is_read_as_far_as_it_makes_sense(project, repository):
    commit(repository, "oil the cog")
    entity = bring(project, repository).entity
    odd = [
        None,
        7,
        {},
        {"text": 5},
        {"text": "x" * 10_000, "ts": "when?", "paths": [1, "a.py"] * 500},
        {"text": "y", "paths": 3},
    ]
    for rows in (odd, "text", {}, None, [{"text": "z"}] * 1_000):
        found = documents_of_rewritten(SimpleNamespace(value={"rewritten": rows}, ts=entity.ts))
        assert len(found) <= REWRITTEN_MAX
        assert all(one.part < -1 and len(one.body) <= 4_000 and len(one.paths) <= 200 for one in found)
    assert {one.body[0] for one in documents_of_rewritten(SimpleNamespace(value={"rewritten": odd}, ts=entity.ts))} == {
        "x",
        "y",
    }
