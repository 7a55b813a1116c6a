"""Fields that are one value, as a person meets them: two clones, a sync, and the command that ends the conflict."""

from __future__ import annotations

import pytest

from cli_support import shared_project


@pytest.mark.slow
def test_a_state_is_shown_with_the_reason_that_was_given_for_it(tmp_path):
    people = shared_project(tmp_path, "bob")
    ada, bob = people["ada"], people["bob"]
    step = ada.json("plan", "make", "Count the cogs", "--step", "Count those of the engine").steps[0].id
    ada("sync", "--with", "../stick")
    bob("sync", "--with", "../stick")
    ada("plan", "block", step, "--reason", "the lid is shut")
    bob("state", step, "doing")
    bob("state", step, "review")
    for who in (ada, bob, ada):
        who("sync", "--with", "../stick")
    said = []
    for who in (ada, bob):
        entity = who.json("show", step).entity
        said.append((entity.value["state"], entity.value.get("reason", "")))
        assert said[0] in (("blocked", "the lid is shut"), ("review", ""))
        assert {conflict.path[0] for conflict in entity.conflicts} == {"reason", "state"}
        assert f"settles it: periplus state {step} STATE --reason TEXT" in who("show", step).out
    assert said[0] == said[1]
    bob("state", step, "dropped", "--reason", "still shut")
    entity = bob.json("show", step).entity
    assert (entity.value["state"], entity.value["reason"], entity.conflicts) == ("dropped", "still shut", [])
