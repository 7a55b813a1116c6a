"""Supervisors, keepers and workers die at any moment, and the next supervisor goes on: nothing is lost, nothing done twice."""

from __future__ import annotations

import os
import random

import pytest

from dispatch_dying import Graveyard
from dispatch_support import edit

SEED = int(os.environ.get("PERIPLUS_CRASH_SEED", "20261128"))
FINDING = {"severity": "blocking", "path": "n/b", "line": 1, "text": "Not large enough"}
SPENT = {"usage": {"tokens_in": 100, "cached": 40, "out": 7, "cost": 0.001}}


@pytest.fixture
def yard(tmp_path):
    return Graveyard(tmp_path)


def everything(yard, project):
    """A dispatch with a setup, a failing check, a failing attempt, a review with findings, a conflict, a question."""
    reviews = [
        [SPENT, {"review": {"verdict": "changes", "findings": [FINDING]}}],
        [{"review": {"verdict": "approve", "findings": []}}],
    ]
    plan = yard.plan(
        project,
        one={"attempts": [[SPENT, {"exit": 3}], [SPENT, *edit("n/b", "3", "Odd")], edit("n/b", "4"), edit("n/b", "40", "Forty")],
             "review": reviews},
        two={"attempts": [], "review": reviews[1:]},
        three={"attempts": [], "review": reviews[1:]},
        four={"attempts": [[SPENT, {"question": {"question": "Which?", "options": ["2", "4"]}}], edit("n/d", "2")],
              "review": reviews[1:], "after": ["two"]},
    )  # fmt: skip
    dispatch = yard.order(
        project, plan, reviewers=("scripted", "other"), lanes=3, setup=("true",), limits={"rounds": 6, "retries": 2}
    )
    merge = {"git": ["merge", "-q", "-X", "ours", "--no-edit", dispatch.value["branch"]]}
    yard.script("two", edit("n/a", "4", "Four"), [merge, *edit("n/a", "14", "Fourteen")])
    yard.script("three", edit("n/a", "6", "Six"), [merge, *edit("n/a", "16", "Sixteen")])
    return dispatch


ANSWERS = {"Which?": "2, please", "conflicts with": "Merge it."}


def finish(yard, project, dispatch):
    assert not yard.end(yard.begin(dispatch), project, ANSWERS)
    assert (yard.grave / "outcome").read_text() == "done"
    found = yard.assignments(project, dispatch)
    yard.check(project, dispatch)
    assert {one.state for one in found.values()} == {"integrated"}
    assert project.work.claims() == []
    assert list((yard.state / "dispatch").glob("*/worktrees/*")) == []
    return found


@pytest.mark.slow
def test_nobody_dies(yard):
    with yard.open() as project:
        dispatch = everything(yard, project)
        finish(yard, project, dispatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_supervisors_die_at_many_moments(yard, seed):
    chance = random.Random(SEED + seed)
    with yard.open() as project:
        dispatch = everything(yard, project)
        deaths = 0
        while yard.end(yard.begin(dispatch, chance.randint(1, 40)), project, ANSWERS):
            deaths += 1
            assert deaths < 200
        found = finish(yard, project, dispatch) if not deaths else yard.assignments(project, dispatch)
        yard.check(project, dispatch)
        assert {one.state for one in found.values()} == {"integrated"}
        assert project.work.claims() == []


def test_supervisors_die_at_some_moments(yard):
    """A small dispatch; the whole one is slow."""
    chance = random.Random(SEED)
    with yard.open() as project:
        plan = yard.plan(project, one=[edit("n/b", "3", "Odd"), edit("n/b", "4", "Even")])
        dispatch = yard.order(project, plan)
        deaths = 0
        while yard.end(yard.begin(dispatch, chance.randint(5, 60)), project):
            deaths += 1
        assert deaths
        yard.check(project, dispatch)
        assert yard.assignments(project, dispatch)["one"].state == "integrated"
