"""Roles at work: what an agent is asked for, what it may change, and what becomes of its proposals."""

from __future__ import annotations

import dataclasses

import pytest

from dispatch_support import Yard, edit, git
from periplus.base.text.token_estimate import estimate_tokens
from periplus.dispatch.roles.roles import shipped_roles
from periplus.memory.coordination.plans import NewStep
from periplus.memory.entities.types import CANDIDATE
from periplus.memory.writing.remember import Memory

CI = "on: push\njobs:\n  test:\n    steps:\n      - run: pytest -q\n"


@pytest.fixture
def yard(tmp_path):
    return Yard(
        tmp_path,
        files={".github/workflows/ci.yml": CI, "README.md": "# Shop\n\nPython 3.11 has to work.\nLogs go to stderr.\n"},
    )


def proposal(kind, text, *evidence, **more):
    return {"kind": kind, "text": text, "evidence": list(evidence), **more}


def handed_in(*proposals):
    return [{"result": {"status": "done", "summary": "read it", "proposals": list(proposals)}}]


def ordered(yard, project, text, role, **more):
    dispatch = yard.order(project, project.work.make_plan(text, [NewStep(text)]), role=role, **more)
    outcome = yard.run(project, dispatch)
    (found,) = yard.assignments(project, dispatch).values()
    return outcome, found


def candidates(project):
    return {one.value["payload"]["text"]: one.value for one in project.journal.entities(CANDIDATE)}


RULES = (
    proposal("constraint", "The command pytest -q must pass before a merge.", ".github/workflows/ci.yml:5", reason="CI runs it", about=["README.md", "gone/"]),
    proposal("decision", "Python 3.11 is the oldest version that is supported.", "README.md:3"),
    proposal("dead_code", "check.py has a branch that nothing reaches.", "./check.py:2:1"),
    proposal("trap", "Nobody can look this up, since there is no such line.", "README.md:900", "no/such/file:1"),
)  # fmt: skip


def test_an_onboarder_fills_an_empty_store_with_candidates_that_have_evidence(yard):
    yard.script("onboard", handed_in(*RULES))
    with yard.open() as project:
        outcome, found = ordered(yard, project, "Read this project [script onboard]", "onboarder")
        assert (outcome, found.state, found.merged) == ("done", "integrated", "")
        assert [run.purpose for run in found.runs] == ["work"]
        held = candidates(project)
        assert {text: one["item_type"] for text, one in held.items()} == {
            "The command pytest -q must pass before a merge.": "constraint",
            "Python 3.11 is the oldest version that is supported.": "decision",
            "Dead code: check.py has a branch that nothing reaches.": "note",
        }
        rule = held["The command pytest -q must pass before a merge."]
        base = git(yard.folder, "rev-parse", "main")
        assert rule["payload"]["evidence"] == [{"kind": "commit", "ref": base, "quote": ".github/workflows/ci.yml:5"}]
        assert [one["ref"] for one in rule["payload"]["about"]] == ["README.md"]
        assert rule["why"] == "CI runs it"
        assert "3 of 4 proposals are new candidates" in found.remarks
        assert "1 proposals name nothing that can be looked up, and are left out" in found.remarks
        prompt = yard.prompt("onboard")
        assert "Your role: onboarder" in prompt
        assert '"proposals"' in prompt
        assert "check.py\n" not in prompt


@pytest.mark.slow
def test_proposals_that_are_known_are_not_made_again(yard):
    yard.script("one", handed_in(*RULES[:2]))
    yard.script("two", handed_in(*RULES[:3], proposal("lesson", "A commit that moved the logs.", "0" * 40)))
    with yard.open() as project:
        ordered(yard, project, "Read this project [script one]", "onboarder")
        _, found = ordered(yard, project, "Read it again [script two]", "doctor")
        assert len(candidates(project)) == 3
        assert "1 of 4 proposals are new candidates" in found.remarks


@pytest.mark.slow
def test_a_role_that_changes_nothing_has_its_commits_sent_back(yard):
    commits = [{"write": {"n/b": "4"}}, {"commit": "Not asked for"}, *handed_in()]
    takes_back = [{"git": ["reset", "-q", "--hard", "HEAD~1"]}, *handed_in(RULES[0])]
    yard.script("stray", commits, takes_back)
    yard.script("stubborn", commits)
    with yard.open() as project:
        outcome, found = ordered(yard, project, "Look around [script stray]", "janitor")
        assert (outcome, [one.why for one in found.returns]) == ("done", ["result"])
        assert "git reset --hard" in yard.prompt("stray", 1)
        assert len(candidates(project)) == 1
        outcome, found = ordered(yard, project, "Look again [script stubborn]", "janitor", limits={"retries": 0})
        assert (outcome, found.state) == ("stopped", "failed")
        assert "You were to change nothing" in found.reason
        assert git(yard.folder, "rev-list", "--count", "main") == "1"


def test_what_a_reader_leaves_uncommitted_is_not_taken(yard):
    yard.script("messy", [{"write": {"cache.txt": "x"}}, *handed_in(RULES[1])])
    with yard.open() as project:
        outcome, found = ordered(yard, project, "Look [script messy]", "doctor")
        assert (outcome, found.state, found.tip) == ("done", "integrated", found.base)


@pytest.mark.slow
def test_a_role_bounds_the_prompt_and_chooses_what_is_in_it(yard):
    (role,) = [one for one in shipped_roles() if one.name == "implementer"]
    small = dataclasses.replace(role, name="small", budget_tokens=4_000, sections=("rules",))
    yard.options = yard.options._replace(roles={**yard.options.roles, "small": small})
    yard.script("one", edit("n/b", "4", "b"))
    yard.script("two", edit("n/c", "4", "c"))
    with yard.open() as project:
        project.remember(Memory("constraint", "Numbers below n are always even, and one digit long."))
        project.remember(Memory("lesson", "Numbers below n are read by check.py, one after another."))
        ordered(yard, project, "Add a number below n [script one]", "implementer")
        ordered(yard, project, "Add another number below n [script two]", "small")
    assert "read by check.py" in yard.prompt("one")
    assert "always even" in yard.prompt("two")
    assert "read by check.py" not in yard.prompt("two")
    assert "# The plan" not in yard.prompt("two")
    assert estimate_tokens(yard.prompt("two")) <= 4_000
