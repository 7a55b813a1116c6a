"""What two clones did apart to a claim, to the step that it is for, and to a session: nobody is shut out by what is over."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cli_support import Shell
from periplus.base.clock import FixedClock
from periplus.base.errors import ClaimedError, RefusedError, UsageError
from periplus.journal import Entity, Writer
from periplus.memory.coordination.claim_queue import PLACE_S, _stand
from periplus.memory.coordination.claims import TTL_S, Asked, acquire, clashes
from periplus.memory.coordination.plans import NewStep
from periplus.project import Project

ADA = Writer("ada", "who_0000000000000001", "", 1)
BOB = Writer("bob", "who_0000000000000002", "", 2)


@pytest.fixture
def clock():
    return FixedClock(step_ms=1)


@pytest.fixture
def ada(tmp_path, clock):
    with Project(Project.init(os.fspath(tmp_path / "ada"), clock=clock).root, ADA, clock=clock) as project:
        yield project


@pytest.fixture
def bob(ada, tmp_path, clock):
    """In a clone, which has the settings and no journal."""
    (tmp_path / "bob/.periplus").mkdir(parents=True)
    shutil.copy(tmp_path / "ada/.periplus/config.toml", tmp_path / "bob/.periplus")
    with Project(os.fspath(tmp_path / "bob/.periplus"), BOB, clock=clock) as project:
        yield project


def meet(ada, bob):
    done = bob.sync(ada.folder, cwd=bob.folder, environment={})
    ada.journal.refresh()
    return done.report


def as_seen(project, entity):
    project.journal.refresh()
    return project.journal.get(entity.item_type, entity.item_id)


def shell_of(project, tmp_path):
    (tmp_path / "home").mkdir(exist_ok=True)
    return Shell(Path(project.folder), tmp_path / "home")


# -- steps that are over -----------------------------------------------------------------------------------------------


@pytest.fixture
def step(ada, bob, clock):
    """A step about ``lib`` that ada took, whose claim's time is over."""
    ada.work.make_plan("Work", [NewStep("one", about=("lib",)), NewStep("two", (1,))])
    taken = ada.work.take().step
    meet(ada, bob)
    clock.advance(TTL_S * 1000)
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("state", ["done", "dropped", "review"])
def test_a_claim_of_a_step_that_was_ended_elsewhere_holds_nothing(ada, bob, step, state):
    taken = bob.work.take()
    assert taken.step.item_id == step.item_id
    ada.work.change_state([step.item_id], state)
    meet(ada, bob)
    for one in (ada, bob):
        assert as_seen(one, step).value["state"] == state
        assert one.work.claims() == []
        assert one.work.who() == []
        assert not one.work.check(["lib"]).blocked
        assert "Claims of others" not in one.brief("lib").text
    other = ada.work.claim(Asked(("lib",)))
    assert as_seen(ada, taken.claim).value["state"] == "released"
    meet(ada, bob)
    for one in (ada, bob):
        assert [claim.item_id for claim in one.work.claims()] == [other.claim.item_id]
    assert as_seen(bob, step).value["state"] == state


@pytest.mark.slow
def test_who_did_a_step_in_vain_is_told_who_did_it_before(ada, bob, step, tmp_path):
    bob.work.take()
    ada.work.change_state([step.item_id], "done")
    meet(ada, bob)
    sh = shell_of(bob, tmp_path)
    when = as_seen(ada, step).ts[:16]
    said = f"{step.item_id} was done already: by ada, {when}Z"
    out = sh("plan", "done", step.item_id, "--as", "bob").out
    assert out == f"Nothing changed.\nstep {step.item_id} done: one\n  {said}.\n"
    assert sh.json("plan", "done", step.item_id, "--as", "bob").notes == [said]


@pytest.mark.slow
@pytest.mark.parametrize("state", ["done", "review"])
@pytest.mark.parametrize("is_first", [True, False])
def test_of_a_step_that_two_took_apart_each_may_say_that_it_is_done(ada, bob, state, is_first):
    ada.work.make_plan("Work", [NewStep("one"), NewStep("two", (1,))])
    meet(ada, bob)
    taken = ada.work.take().step
    assert bob.work.take().step.item_id == taken.item_id
    meet(ada, bob)
    one, other = (ada, bob) if is_first else (bob, ada)
    for ending in ("dropped", "blocked"):
        with pytest.raises(RefusedError, match="is being done by"):
            one.work.change_state([taken.item_id], ending)
    one.work.change_state([taken.item_id], state)
    meet(ada, bob)
    for project in (one, other):
        seen = as_seen(project, taken)
        assert (seen.value["state"], seen.is_in_conflict, project.work.claims()) == (state, False, [])
    assert other.work.change_state([taken.item_id], state).receipt is None
    assert other.work.take().step.value["text"] == "two" if state == "done" else other.work.take() is None


def test_what_a_step_is_about_and_says_is_told_with_its_claim(ada, tmp_path):
    ada.work.make_plan("Work", [NewStep(f"mend\nthe {'very ' * 20}old mill", about=("lib", "src/a.py"))])
    sh = shell_of(ada, tmp_path)
    taken = sh.json("plan", "next", "--as", "ada")
    said = f"lib, src/a.py, for the step {taken.step.id}: mend the {'very ' * 20}"[:-30]
    for words in (("who",), ("claim", "list"), ("check", "lib")):
        [line] = [one for one in sh(*words, "--as", "bob", code=words[0] == "check").lines if taken.claim.id in one]
        assert said in line
        assert line.endswith("…")
    assert said in sh("brief", "the mill", "--as", "bob").out


def test_a_claim_of_a_step_that_goes_on_again_goes_on_until_somebody_else_has_what_it_covers(ada, bob, step):
    claim = bob.work.take().claim
    ada.work.change_state([step.item_id], "review")
    meet(ada, bob)
    ada.work.change_state([step.item_id], "doing")
    assert [one.item_id for one in ada.work.claims()] == [claim.item_id]
    with pytest.raises(ClaimedError):
        ada.work.claim(Asked(("lib",)))


def test_an_undo_brings_a_step_and_its_claim_back_but_not_beside_another_claim(ada, bob):
    ada.work.make_plan("Work", [NewStep("one", about=("lib",))])
    taken = ada.work.take()
    ada.work.change_state([taken.step.item_id], "done")
    done = ada.journal.end().next_seq - 2
    ada.undo(seqs=[done])
    assert [one.item_id for one in ada.work.claims()] == [taken.claim.item_id]
    ada.work.change_state([taken.step.item_id], "done")
    with Project(ada.root, BOB, clock=ada.journal.clock) as other:
        his = other.work.claim(Asked(("lib",)))
    ada.journal.refresh()
    undone = ada.undo(seqs=[ada.journal.end().next_seq - 3])
    assert any("claimed by bob" in one.reason for one in undone.entities), undone
    assert [one.item_id for one in ada.work.claims()] == [his.claim.item_id]


# -- the ends of a claim -----------------------------------------------------------------------------------------------


def released(project, claim):
    project.work.release([claim.item_id], force=True)


def expired(project, claim):
    """Whoever claims something notes which claims are over."""
    project.work.release([project.work.claim(Asked(("elsewhere",))).claim.item_id])
    assert as_seen(project, claim).value["state"] == "expired"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["ada", "bob"])
@pytest.mark.parametrize(
    ("here", "there", "state"), [(released, expired, "released"), (expired, expired, "expired"), (released, released, "released")]
)  # fmt: skip
def test_two_ends_of_a_claim_are_no_conflict(ada, bob, clock, here, there, state, first):
    claim = ada.work.claim(Asked(("lib",))).claim
    meet(ada, bob)
    clock.advance(TTL_S * 1000)
    for project, end in [(ada, here), (bob, there)][:: 1 if first == "ada" else -1]:
        clock.advance(1_000)
        end(project, claim)
    assert not meet(ada, bob).conflicts
    shown = [as_seen(one, claim) for one in (ada, bob)]
    assert shown[0].version == shown[1].version
    for one in shown:
        assert (one.value["state"], one.conflicts) == (state, ())
    for one in (ada, bob):
        assert not one.status().conflicts
        with pytest.raises(UsageError):
            one.work.change_state([claim.item_id], "expired" if state == "released" else "released")


def test_who_got_what_he_waited_for_has_it_though_his_place_was_noted_as_over_elsewhere(ada, bob, clock):
    asked = Asked(("lib",))
    his = bob.work.claim(asked).claim
    meet(ada, bob)
    place = _stand(ada.journal, ADA, asked, "")
    meet(ada, bob)
    clock.advance(PLACE_S * 1000)
    expired(bob, as_seen(bob, Entity("claim", place, "", (), (), 0, False, b"", "", "", "", "", 0)))
    released(ada, his)
    assert acquire(ada.journal, ADA, asked, place=place).claim.item_id == place
    assert not meet(ada, bob).conflicts
    for one in (ada, bob):
        assert [claim.item_id for claim in one.work.claims()] == [place]


def test_a_claim_that_its_holder_kept_alive_in_two_clones_holds_until_the_later_end(ada, bob, clock):
    """Ada works in both."""
    claim = ada.work.claim(Asked(("lib",))).claim
    meet(ada, bob)
    ends = []
    for root in (ada.root, bob.root):
        clock.advance(TTL_S * 500)
        with Project(root, ADA, clock=clock) as project:
            project.work.seen()
            ends.append(as_seen(project, claim).value["expires"])
        clock.advance(-TTL_S * 400)
    assert ends[0] < ends[1]
    assert not meet(ada, bob).conflicts
    for one in (ada, bob):
        assert as_seen(one, claim).value["expires"] == ends[1]


# -- claims that exclude each other ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_claims_that_exclude_each_other_are_told_by_the_sync_that_brings_them(ada, bob, tmp_path):
    here, there = shell_of(ada, tmp_path), shell_of(bob, tmp_path)  # in the time of this machine

    def taken(shell, name, scope):
        return shell.json("claim", "take", scope, "--as", name).claim.id

    mine, theirs = taken(here, "ada", "src"), taken(there, "bob", "src/a.py")
    taken(there, "bob", "lib")
    out = there("sync", "--with", ada.folder, "--as", "bob").out
    assert f"taken     src/a.py by bob [{theirs}] and src by ada [{mine}], by two clones\n" in out
    assert f"          One of them has to be released, here with: periplus claim release {theirs}\n" in out
    taken(here, "ada", "docs")
    [said] = here.json("sync", "--with", bob.folder).taken_apart
    assert (said.claim, said.holder, said.scope) == (mine, "ada", "src")
    assert (said.other, said.other_holder, said.other_scope) == (theirs, "bob", "src/a.py")
    there("claim", "release", theirs, "--as", "bob")
    assert there.json("sync", "--with", ada.folder).taken_apart == []
    taken(there, "bob", "web")
    assert here.json("sync", "--with", bob.folder).taken_apart == []


def test_claims_that_go_together_are_not_told(ada, bob):
    ada.work.claim(Asked(("src",), mode="shared"))
    bob.work.claim(Asked(("src",), mode="shared"))
    ada.work.claim(Asked(("lib/*.py",)))
    bob.work.claim(Asked(("lib/*.js",)))
    meet(ada, bob)
    assert [clashes(one.journal, one.journal.clock.now_ms()) for one in (ada, bob)] == [[], []]
